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

// Announce makes udevd process the disks that udevd has not processed since their attachment. `udevadm trigger
// --initialized-nomatch` would miss some of these disks. If udevd missed a detachment, udev's database still describes
// the previous disk with the same device number.
func Announce(ctx context.Context, h inventory.Host, r run.Runner) error {
	if s, err := h.Store.Settings(); err == nil { // if there are no saved settings, no daemon has run in this boot
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
		err = fmt.Errorf("exit code %d: %s", result.ExitCode, disk.Output(result.Stderr))
	}
	if err != nil {
		return fmt.Errorf("cannot announce disks to udevd: %s: %w", c, err)
	}
	return nil
}

// Rescan makes the daemon behind the control socket look at every disk.
func Rescan(ctx context.Context, socket string) error {
	return ask(ctx, socket, control.Request{Do: "look"})
}

// ask sends the daemon a request to look at disks. If no daemon runs, ask does nothing, because a daemon looks at all
// disks when it starts.
func ask(ctx context.Context, socket string, r control.Request) error {
	if _, err := control.Ask(ctx, socket, r); !errors.Is(err, control.ErrDown) {
		return err
	}
	return nil
}
