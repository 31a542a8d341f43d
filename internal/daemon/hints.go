package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/mounts"
	"hotmount/internal/uevent"
)

// mayBeDisk reports whether a kernel name belongs to a common kind of disk that a class can select, or to a partition
// of such a disk. A class can select other devices, such as mmcblk0, too. The parameter `loops` is true if a class
// selects loop devices. On many nodes, loop devices come and go often.
func mayBeDisk(name string, loops bool) bool {
	if loops && strings.HasPrefix(name, "loop") {
		return true
	}
	for _, prefix := range []string{"vd", "sd", "xvd", "nvme", "dm-", "md"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// looker contains the methods of the agent that request a look.
type looker interface {
	Look(name string)
	LookAtAll()
}

// requestLooks makes the agent look at the disk of the hint if the parameter `wanted` is true. If partitions come or go,
// the agent also looks at the whole disk. When the kernel reads a partition table again, only the partitions have
// events (bdev_disk_changed in block/partitions/core.c).
func requestLooks(a looker, h uevent.Hint, wanted bool) {
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

// watchMounts makes the agent look at the disks whose mounts have changed. Changes of other mounts do not wake the
// agent, because a node that starts pods has many such changes. The caller passes the mount table as it was just before
// the agent's first look.
func (p *parts) watchMounts(ctx context.Context, before []mounts.Mount) error {
	return mounts.Watch(ctx, func() {
		now, err := p.host.Mounts()
		if err != nil {
			p.Log.Problem(err)
			p.agent.LookAtAll()
			return
		}
		for _, dev := range mounts.Changed(before, now) {
			// The last component of a link in /sys/dev/block is the kernel name (Documentation/ABI, /sys/dev). A
			// removed device has no link in /sys/dev/block, but the device's uevent causes a look.
			if link, err := os.Readlink("/sys/dev/block/" + dev.String()); err == nil {
				p.agent.Look(filepath.Base(link))
			}
		}
		for _, name := range mounts.ChangedNodes(before, now) {
			if mayBeDisk(name, p.loops.Load()) {
				p.agent.Look(name)
			}
		}
		// compareTable comes last. compareTable ends the wait for an expected mount, and the end of the wait also
		// requests a look. If the change of the mount has already requested a look, one look answers both requests.
		p.mounting.compareTable(now)
		before = now
	})
}
