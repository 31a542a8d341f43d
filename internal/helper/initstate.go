package helper

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
)

// InitState initialises the state directory, and prints which disks are held from now on, and which later ones will be.
// It needs no daemon. If it cannot see the disks, as in a chroot without /sys, it fails and writes nothing. Otherwise all
// disks would count as new later.
func InitState(ctx context.Context, h inventory.Host, socket string, w io.Writer, load func() (*disk.Settings, error)) error {
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	disks, err := h.Scan()
	if err != nil {
		return err
	}
	// The settings only decide which disks are printed. A fault in them does not prevent a hold.
	settings, err := h.Store.Settings()
	if err != nil {
		if settings, err = load(); err != nil {
			return err
		}
	}
	present, held := presentAndHeld(disks, boot, settings)
	again := h.Store.Removed()
	made, err := h.Store.Init(present)
	if err != nil {
		return err
	}
	// The daemon re-examines the disks that it has held meanwhile.
	_, err = control.Ask(ctx, socket, control.Request{Do: "look"})
	if err != nil && !errors.Is(err, control.ErrDown) {
		return err
	}
	if !made {
		return nil
	}
	if err == nil && !again {
		// The daemon's mount namespace may still have the old directory.
		fmt.Fprintln(w, "the state directory is a new one: systemctl restart hotmount")
	}
	for _, f := range held {
		fmt.Fprintf(w, "%s (%s) is held: %s\n", f.Node(), disk.HumanSize(f.Size), wordsOfHeld(f, settings))
	}
	for _, line := range policy.Neighbours(h.Drivers(), settings) {
		fmt.Fprintln(w, line)
	}
	return nil
}

// wordsOfHeld returns why the disk is held, and the remedy.
func wordsOfHeld(f *disk.Facts, s *disk.Settings) string {
	c := f.Known()
	d := policy.Decide(f, &c, s)
	if d.Reason == disk.ReasonPresent {
		return fmt.Sprintf("it was attached before hotmount and may be blank; to let hotmount use it: hotmount accept %s %s", f.Name, d.Reason)
	}
	why, next := policy.Words(f, &c, s, d)
	return why + "; " + next
}

// presentAndHeld returns the identities of all disks, and the disks that are held once these are recorded as present.
func presentAndHeld(disks []disk.Facts, boot string, s *disk.Settings) (present []disk.Identity, held []*disk.Facts) {
	for i := range disks {
		f := &disks[i]
		id := f.Identity(boot)
		present = append(present, id)
		if f.Standing.Given != nil {
			continue // it is given out again, and never formatted
		}
		f.Standing = disk.Standing{Present: &id, Volume: f.Standing.Volume, Made: f.Standing.Made}
		content := f.Known()
		if policy.Decide(f, &content, s).Action == disk.Hold {
			held = append(held, f)
		}
	}
	return present, held
}
