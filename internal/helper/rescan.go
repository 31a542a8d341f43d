package helper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/run"
)

// Announce has udevd handle once more the disks that it does not know in this
// attachment. What udevadm calls initialized is not enough: where the end of a disk was
// forgotten, too, its entry is that of the one that had the number before.
func Announce(ctx context.Context, h inventory.Host, r run.Runner) error {
	if s, err := h.Store.Settings(); err == nil { // else there was no daemon in this boot
		h = h.For(s)
	}
	names, err := h.Unknown()
	if err != nil || len(names) == 0 {
		return err
	}
	c := run.Command{Path: "/usr/bin/udevadm", Args: []string{"trigger", "--action=add"}, Timeout: 30 * time.Second}
	for _, name := range names {
		c.Args = append(c.Args, "/sys/class/block/"+name)
	}
	result, err := r.Run(ctx, c)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", result.ExitCode, disk.Visible(string(result.Stderr)))
	}
	if err != nil {
		return fmt.Errorf("cannot announce disks to udevd: %s: %w", c, err)
	}
	return nil
}

// Rescan has the daemon behind the control socket look at every disk. One that does not run
// will, when it starts.
func Rescan(ctx context.Context, socket string) error {
	_, err := control.Ask(ctx, socket, control.Request{Do: "look"})
	if errors.Is(err, control.ErrDown) {
		return nil
	}
	return err
}
