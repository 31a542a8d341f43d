package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/mounts"
	"hotmount/internal/uevent"
)

// mayBeDisk reports whether a kernel name can be that of a class's disk, or of its partition. The loops argument
// reports whether a class has loop devices, which come and go on many nodes.
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

// look makes the agent look at the disk of the hint, if wanted, and at the whole disk if partitions come or go. When
// the kernel reads a partition table again, these are its only events (bdev_disk_changed in block/partitions/core.c).
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

// watchMounts makes the agent look at the disks whose mounts have changed. Changes of other mounts, of which a node
// that starts pods has many, wake nobody. before is the table from before the agent's first look.
func (p *parts) watchMounts(ctx context.Context, before []mounts.Mount) error {
	return mounts.Watch(ctx, func() {
		now, err := p.host.Mounts()
		if err != nil {
			p.Log.Problem(err)
			p.agent.LookAtAll()
			return
		}
		for _, dev := range mounts.Changed(before, now) {
			// The link's last part is the kernel name (Documentation/ABI, /sys/dev). The uevent of a removed device
			// covers that device.
			if link, err := os.Readlink("/sys/dev/block/" + dev.String()); err == nil {
				p.agent.Look(filepath.Base(link))
			}
		}
		for _, name := range mounts.ChangedNodes(before, now) {
			if mayBeDisk(name, p.loops.Load()) {
				p.agent.Look(name)
			}
		}
		// This comes last, because an awaited mount causes a look too. If the change is already queued, both are one
		// look.
		p.mounting.shown(now)
		before = now
	})
}
