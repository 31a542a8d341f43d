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
	"hotmount/internal/policy"
	"hotmount/internal/run"
)

// InitState initialises the state directory. If InitState records the attached disks, it prints which disks are held
// from now on, and which later disks will be held, too. InitState does not need a daemon. If InitState cannot see the
// disks, as in a chroot without /sys, it fails and writes nothing. Otherwise hotmount would later treat all disks as
// new.
func InitState(ctx context.Context, h inventory.Host, socket string, w io.Writer, load func() (*disk.Settings, error)) error {
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	disks, err := h.Scan()
	if err != nil {
		return err
	}
	// The settings decide only what InitState prints. Whatever the settings are, InitState records all whole disks as
	// attached.
	settings, err := settingsOr(h, load)
	if err != nil {
		return err
	}
	present, held := presentAndHeld(disks, boot, settings)
	again := h.Store.Removed()
	made, err := h.Store.Init(present)
	if err != nil {
		return err
	}
	// Without a state directory, the daemon holds disks. The request makes the daemon examine these disks again.
	_, err = control.Ask(ctx, socket, control.Request{Do: "look"})
	if err != nil && !errors.Is(err, control.ErrDown) {
		return err
	}
	if !made {
		return nil
	}
	if err == nil && !again {
		// The daemon's mount namespace may still show the old state directory.
		fmt.Fprintln(w, "the state directory is new; to make the daemon use it: systemctl restart hotmount")
	}
	for _, f := range held {
		fmt.Fprintf(w, "%s (%s) is held: %s\n", f.Node(), disk.HumanSize(f.Size), wordsOfHeld(f, settings))
	}
	for _, line := range policy.Neighbours(h.Drivers(), settings) {
		fmt.Fprintln(w, line)
	}
	return nil
}

// settingsOr returns the daemon's settings. If they cannot be read, as when no daemon has run since boot, settingsOr
// returns the result of the function load.
func settingsOr(h inventory.Host, load func() (*disk.Settings, error)) (*disk.Settings, error) {
	if s, err := h.Store.Settings(); err == nil {
		return s, nil
	}
	return load()
}

// wordsOfHeld returns in words why the disk is held, and the remedy.
func wordsOfHeld(f *disk.Facts, s *disk.Settings) string {
	c := f.KnownContent()
	d := policy.Decide(f, &c, s)
	if d.Reason == disk.ReasonPresent {
		return fmt.Sprintf("the disk was attached before hotmount was installed, and may be blank; to let hotmount use the disk: hotmount accept %s %s", f.Name, d.Reason)
	}
	why, next := policy.Words(f, &c, s, d)
	return why + "; " + next
}

// presentAndHeld returns the identities of all disks. presentAndHeld also returns the disks that hotmount will hold
// after their identities have been recorded.
func presentAndHeld(disks []disk.Facts, boot string, s *disk.Settings) (present []disk.Identity, held []*disk.Facts) {
	for i := range disks {
		f := &disks[i]
		id := f.Identity(boot)
		present = append(present, id)
		if f.Standing.Given != nil {
			continue // the disk is given out again, and never formatted
		}
		f.Standing = disk.Standing{Present: &id, Volume: f.Standing.Volume, Made: f.Standing.Made}
		content := f.KnownContent()
		if policy.Decide(f, &content, s).Action == disk.Hold {
			held = append(held, f)
		}
	}
	return present, held
}

// KeepState records that this machine is still the worker to which the records belong, although the machine-id has
// changed.
func KeepState(ctx context.Context, h inventory.Host, socket string, w io.Writer) error {
	elsewhere := h.Store.Elsewhere()
	if err := h.Store.KeepMachine(); err != nil {
		return err
	}
	if !elsewhere {
		fmt.Fprintln(w, "the records already belong to this machine-id")
		return nil
	}
	fmt.Fprintln(w, "the records belong to this worker again; hotmount no longer holds disks for the reason new-machine-id")
	return Rescan(ctx, socket) // the daemon re-examines the disks that it has held
}

// ResetState removes all records of the worker, so that the next start of the daemon counts as the first start on a new
// worker. ResetState refuses while a volume is mounted, the disk of a recorded block volume is attached, or a unit
// proves or formats a disk. ResetState also refuses while the daemon runs.
func ResetState(ctx context.Context, h inventory.Host, socket string, w io.Writer, load func() (*disk.Settings, error)) error {
	if err := resettable(ctx, h, socket, load); err != nil {
		return fmt.Errorf("cannot reset the state directory, and nothing was changed: %w", err)
	}
	if err := h.Store.Reset(); err != nil {
		return err
	}
	fmt.Fprintln(w, "the records are removed; when hotmount starts next, it treats every attached disk as attached before the installation; now seal the image, or: systemctl start hotmount")
	return nil
}

func resettable(ctx context.Context, h inventory.Host, socket string, load func() (*disk.Settings, error)) error {
	if _, err := control.Ask(ctx, socket, control.Request{Do: "look"}); err == nil {
		return errors.New("hotmount.service still runs, and would record the disks again; to stop the service first: systemctl stop hotmount")
	} else if !errors.Is(err, control.ErrDown) {
		return err
	}
	if err := nothingFormats(ctx, h); err != nil {
		return err
	}
	settings, err := settingsOr(h, load)
	if err != nil {
		return err
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
		if m := &table[i]; inventory.IsPlace(&m.MountPoint) && slices.Contains(dirs, path.Dir(m.Path)) {
			return fmt.Errorf("the volume %s is mounted; first: umount %[1]s", disk.Visible(m.Path))
		}
	}
	disks, err := h.For(settings).Scan()
	if err != nil {
		return err
	}
	for i := range disks {
		if f := &disks[i]; f.Standing.Given != nil {
			return fmt.Errorf("first detach %s, which was given out as the block volume %s: without the record of this volume, hotmount could format the disk", f.Node(), disk.Visible(f.Standing.Given.Link))
		}
	}
	return nil
}

// nothingFormats returns an error while a unit proves or formats a disk, because a reset would lose the record of the
// format. Without a running systemd, no unit proves or formats a disk.
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
		return fmt.Errorf("%s proves or formats a disk; wait until it has ended, or: systemctl stop %[1]s", name)
	}
	return nil
}
