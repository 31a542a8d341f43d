package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

func stateCommand() *cobra.Command {
	c := group(&cobra.Command{Use: "state", Short: "Look after the state directory"})
	c.AddCommand(&cobra.Command{
		Use:   "init",
		Short: "Make the state directory, holding the blank disks that are attached now",
		Long: "Make the state directory if it is not there. The package does it when it is installed, also once more. Disks that\n" +
			"are attached at that moment and are not known to hold a filesystem are held until `hotmount accept DISK`.\n" +
			"One that is there is kept as it is; if it could not be written and can be now, disks are formatted again.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return initState(c) },
	})
	return c
}

// initState needs no daemon. Where the disks can not be seen, as in a chroot
// without /sys, it fails and makes nothing: later all of them would count as new.
func initState(c *cobra.Command) error {
	h := host()
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	disks, err := h.Scan()
	if err != nil {
		return err
	}
	// They tell only which disks are named: no fault of theirs keeps one from being held.
	settings, err := h.Store.Settings()
	if err != nil {
		if settings, err = usable(c); err != nil {
			return err
		}
	}
	var present []disk.Identity
	var held []*disk.Facts
	for i := range disks {
		f := &disks[i]
		id := f.Identity(boot)
		present = append(present, id)
		if f.Standing.Given != nil {
			continue // it is given out again, and never formatted
		}
		f.Standing = disk.Standing{Present: &id}
		content := f.Known()
		if policy.Decide(f, &content, settings).Action == disk.Hold {
			held = append(held, f)
		}
	}
	again := h.Store.Removed()
	made, err := h.Store.Init(present)
	if err != nil {
		return err
	}
	// The daemon looks again at what it has held meanwhile.
	_, err = control.Ask(c.Context(), socket, control.Request{Do: "look"})
	if err != nil && !errors.Is(err, control.ErrDown) {
		return err
	}
	if !made {
		return nil
	}
	if err == nil && !again {
		// Its mount namespace may still have the directory that was there before.
		fmt.Fprintln(c.OutOrStdout(), "the state directory is a new one: systemctl restart hotmount")
	}
	for _, f := range held {
		fmt.Fprintf(c.OutOrStdout(), "%s (%s) is held: it was attached before hotmount and may be blank; to let hotmount use it: hotmount accept %s\n", f.Node(), disk.HumanSize(f.Size), f.Name)
	}
	return nil
}
