package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/mounts"
	"hotmount/internal/uevent"
)

// mayBeDisk reports whether the kernel names disks that a class can have, or their partitions, so.
// Loops: a class has loop devices, which come and go on many nodes.
func mayBeDisk(name string, loops bool) bool {
	if loops && strings.HasPrefix(name, "loop") {
		return true
	}
	for _, prefix := range []string{"vd", "sd", "xvd", "nvme", "dm-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// looker is the part of the agent that events need.
type looker interface {
	Look(name string)
	LookAtAll()
}

// look has the agent look at the disk of the hint, if that is wanted, and at the whole disk if
// partitions come or go. When the kernel reads a partition table anew, these are its only events
// (bdev_disk_changed in block/partitions/core.c).
func look(a looker, h uevent.Hint, wanted bool) {
	if h.Rescan {
		a.LookAtAll()
		return
	}
	if wanted {
		a.Look(h.Name)
	}
	if h.Partition && (h.Action == "add" || h.Action == "remove") {
		a.Look(h.Whole)
	}
}

// watchMounts has the agent look at the disks whose mounts have changed. A node
// that starts pods changes its mount table all the time; other mounts than those
// of disks wake nobody. Before is the table as it was before the agent's first look.
func (p *parts) watchMounts(ctx context.Context, before []mounts.Mount) error {
	return mounts.Watch(ctx, func() {
		now, err := p.host.Mounts()
		if err != nil {
			p.seen.Problem(err)
			p.agent.LookAtAll()
			return
		}
		for _, dev := range mounts.Changed(before, now) {
			// The link's last part is the kernel name (Documentation/ABI,
			// /sys/dev). A device that is gone is dealt with by its uevent.
			if link, err := os.Readlink("/sys/dev/block/" + dev.String()); err == nil {
				p.agent.Look(filepath.Base(link))
			}
		}
		// Last: a mount that was waited for causes a look, too. Both are one look if the change
		// is queued by then.
		p.mounting.shown(now)
		before = now
	})
}
