package helper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/run"
)

// KeepState records that this is the worker of the records, under another machine-id.
func KeepState(ctx context.Context, h inventory.Host, socket string, w io.Writer) error {
	elsewhere := h.Store.Elsewhere()
	if err := h.Store.KeepMachine(); err != nil {
		return err
	}
	if !elsewhere {
		fmt.Fprintln(w, "the records are of this machine-id already")
		return nil
	}
	fmt.Fprintln(w, "the records are this worker's again; the machine-id holds no disk any more")
	// The daemon re-examines the disks that it has held.
	if _, err := control.Ask(ctx, socket, control.Request{Do: "look"}); err != nil && !errors.Is(err, control.ErrDown) {
		return err
	}
	return nil
}

// ResetState removes all records of the worker, so that the daemon's next start is the first one of a new worker. It
// refuses while that would lose track of something in use: a volume, a block volume, or the daemon's next record.
func ResetState(ctx context.Context, h inventory.Host, socket string, w io.Writer, load func() (*disk.Settings, error)) error {
	err := resettable(ctx, h, socket, load)
	if err != nil {
		return fmt.Errorf("cannot reset the state directory, and it is as it was: %w", err)
	}
	if err := h.Store.Reset(); err != nil {
		return err
	}
	fmt.Fprintln(w, "the records are removed; the disks that are attached at the next start count as attached before installation: seal the image, or systemctl start hotmount")
	return nil
}

func resettable(ctx context.Context, h inventory.Host, socket string, load func() (*disk.Settings, error)) error {
	if _, err := control.Ask(ctx, socket, control.Request{Do: "look"}); err == nil {
		return errors.New("hotmount.service runs and would record the disks again; systemctl stop hotmount")
	} else if !errors.Is(err, control.ErrDown) {
		return err
	}
	if err := nothingFormats(ctx, h); err != nil {
		return err
	}
	settings, err := h.Store.Settings()
	if err != nil {
		if settings, err = load(); err != nil {
			return err
		}
	}
	dirs, err := h.Store.Directories()
	if err != nil {
		return err
	}
	for i := range settings.Classes {
		dirs = append(dirs, settings.Classes[i].Directory)
	}
	table, err := h.Mounts()
	if err != nil {
		return err
	}
	for i := range table {
		if m := &table[i]; inventory.IsPlace(m) && slices.Contains(dirs, path.Dir(m.Path)) {
			return fmt.Errorf("the volume %s is mounted; umount %[1]s", disk.Visible(m.Path))
		}
	}
	disks, err := h.For(settings).Scan()
	if err != nil {
		return err
	}
	for i := range disks {
		if f := &disks[i]; f.Standing.Given != nil {
			return fmt.Errorf("%s was given out as the block volume %s, and without the record it could be formatted; detach it", f.Node(), disk.Visible(f.Standing.Given.Link))
		}
	}
	return nil
}

// nothingFormats returns an error while a unit proves or formats a disk, because its record would go. Without a running
// systemd there is no unit.
func nothingFormats(ctx context.Context, h inventory.Host) error {
	if _, err := os.Lstat(path.Join("/", h.Root, "run/systemd/private")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	units, err := run.Exec{}.Run(ctx, run.Command{
		Path: "/usr/bin/systemctl", Timeout: time.Minute,
		Args: []string{"list-units", "--plain", "--no-legend", "--state=active,activating,deactivating", "hotmount-format@*.service"},
	})
	switch name, _, _ := strings.Cut(string(units.Stdout), " "); {
	case err != nil:
		return err
	case units.ExitCode != 0:
		return fmt.Errorf("cannot ask systemd for running units: %s", strings.TrimSpace(string(units.Stderr)))
	case name != "":
		return fmt.Errorf("%s proves or formats a disk; wait until it has ended, or systemctl stop %[1]s", name)
	}
	return nil
}
