package helper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/unit"
)

// ParseID parses the id of a disk or partition from a uevent, such as vdb1:7:1:254:17. The fields are the kernel name,
// the disk sequence number, the partition number (empty for a disk) and the device number.
func ParseID(s string) (id disk.ID, err error) {
	f := strings.SplitN(s, ":", 4)
	if len(f) < 4 || f[0] == "" || strings.Contains(f[0], "/") {
		return id, fmt.Errorf("%q does not describe a disk", disk.Visible(s))
	}
	id.Name = f[0]
	if id.Seq, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return id, fmt.Errorf("%q is not a disk sequence number", disk.Visible(f[1]))
	}
	number, err := strconv.ParseUint(cmp.Or(f[2], "0"), 10, 32)
	if err != nil {
		return id, fmt.Errorf("%q is not a partition number", disk.Visible(f[2]))
	}
	id.Seq = disk.PartitionSeq(id.Seq, uint32(number))
	id.Dev, err = disk.ParseDev(f[3])
	return id, err
}

// goneFirst is the length of the first wait of Gone. If nobody uses the disk, PID 1 unmounts the disk during this wait.
// Each later wait is twice as long as the previous wait, up to goneMost. While a daemon runs, Gone checks after each
// wait whether the disk is still mounted. The daemon may end before it has unmounted the disk.
const (
	goneFirst = 2 * time.Second
	goneMost  = 30 * time.Second
)

// unmounter makes PID 1 run a unit for the filesystem of a detached disk. The unit unmounts the filesystem, and logs
// which processes use the filesystem.
type unmounter func(ctx context.Context, path string, dev disk.Dev) error

// Gone unmounts a detached disk by the same unit as the daemon (disk.ProgramUnmount). Gone makes only one attempt to
// unmount, because systemd restarts hotmount-gone@.service after a failure. While a daemon answers at the socket, Gone
// leaves the work to the daemon.
func Gone(ctx context.Context, h inventory.Host, id disk.ID, socket string) error {
	unmount := func(ctx context.Context, path string, dev disk.Dev) error {
		return new(unit.Manager).Run(ctx, disk.ProgramUnmount, disk.ID{Dev: dev}, path)
	}
	return handleGone(ctx, h, unmount, id, func() bool { return control.Listens(ctx, socket) })
}

func handleGone(ctx context.Context, h inventory.Host, unmount unmounter, id disk.ID, isDaemon func() bool) error {
	// Gone uses only the class directories that the last daemon recorded, because the configuration may be unreadable.
	var s disk.Settings
	daemon := isDaemon()
	for wait := goneFirst; ; wait = min(2*wait, goneMost) {
		stale, err := h.Stale(&s)
		stale = slices.DeleteFunc(stale, func(f disk.Facts) bool { return f.Dev != id.Dev })
		if len(stale) == 0 {
			if !daemon {
				err = errors.Join(err, nameHolders(ctx, h, unmount, id))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		if daemon = isDaemon(); daemon {
			continue
		}
		for i := range stale {
			// The function `unmount` verifies that the detached disk is still mounted at the path.
			where := stale[i].Mounts[0].Path
			if failed := unmount(ctx, where, id.Dev); failed != nil {
				err = errors.Join(err, fmt.Errorf("cannot unmount %s, whose disk %s is gone: %w", where, id, failed))
			}
		}
		return err
	}
}

// nameHolders makes PID 1 run the unit that reports the remaining users of a detached disk, such as pods. Users may
// still have the disk's filesystem mounted after hotmount has unmounted it.
func nameHolders(ctx context.Context, h inventory.Host, unmount unmounter, id disk.ID) error {
	if !mounts.MountedAnywhere(h.Root, id.Name) {
		return nil
	}
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	seen, err := h.Store.Sightings()
	for _, n := range seen {
		if n.Identity.Boot == boot && n.Identity.Seq == id.Seq && n.Directory != "" {
			err = errors.Join(err, unmount(ctx, path.Join(n.Directory, n.UUID), id.Dev))
		}
	}
	return err
}
