package helper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/policy"
	"hotmount/internal/unit"
)

// openAgain is the time between two looks at the processes that have the disk open. A program that only probes a new
// disk closes the disk in less time than openAgain.
const openAgain = time.Second

// Users is the whole program of hotmount-users@.service. The program records which process has the disk open. The
// daemon or the program that formats the disk reads the record.
func Users(ctx context.Context, h inventory.Host, seq uint64) error {
	settings, f, err := settingsAndDisk(h, seq)
	if err != nil {
		return err
	}
	by, err := opener(ctx, func() ([]mounts.User, error) { return openers(h, f) })
	if err == nil && by == nil && f.Unlisted {
		by, err = mounter(h.For(settings), f)
	}
	if err != nil {
		return err
	}
	return h.Store.SaveOpener(seq, by)
}

// mounter returns the process whose mount namespace contains a mount of the disk, or nil if the disk is not in use.
// mounter ignores hotmount's own units, which mount a disk in their own mount namespace to grow the filesystem. mounter
// also ignores a mount in the host's mount namespace, because the daemon's next look finds this mount. If no process
// with a mount is found, but the kernel has the disk mounted, the result has no PID.
func mounter(h inventory.Host, f *disk.Facts) (*disk.Opener, error) {
	users, err := mounts.Users(h.Root, f.Dev, "")
	now, lookErr := h.Look(f.Name)
	if err := errors.Join(err, lookErr); err != nil || !now.Unlisted {
		return nil, err
	}
	own := func(u mounts.User) bool { return isOwn(mounts.UnitOf(h.Root, u.PID)) }
	foreign := slices.IndexFunc(users, func(u mounts.User) bool { return u.PID != 0 && !own(u) })
	switch {
	case foreign >= 0:
		return &disk.Opener{PID: users[foreign].PID, Command: users[foreign].Command, How: users[foreign].How}, nil
	case slices.ContainsFunc(users, own):
		return nil, nil
	}
	return &disk.Opener{How: "mounted or being mounted according to the kernel, but in no mount table that hotmount can read"}, nil
}

func isOwn(unit string) bool { return strings.HasPrefix(unit, "hotmount") }

// openers returns the processes that have the disk or its partitions open. For a partition, openers also returns the
// processes that have the whole disk open.
func openers(h inventory.Host, f *disk.Facts) ([]mounts.User, error) {
	users, err := mounts.DeviceUsers(h.Root, f.ID)
	others := f.Partitions
	h.Partitions = func() bool { return true }
	if f.Whole != "" {
		others = []string{f.Whole}
	}
	for _, name := range others {
		other, lookErr := h.Look(name)
		more, usersErr := []mounts.User(nil), error(nil)
		if lookErr == nil {
			more, usersErr = mounts.DeviceUsers(h.Root, other.ID)
		}
		users, err = append(users, more...), errors.Join(err, lookErr, usersErr)
	}
	return users, err
}

// opener returns the process that uses the disk, or nil if no process uses the disk. The function `look` returns the
// processes that have the disk open. A virtual machine monitor counts as a user if one look finds it. Any other process
// counts as a user only if two looks find that it has the disk open for writing.
func opener(ctx context.Context, look func() ([]mounts.User, error)) (*disk.Opener, error) {
	first, err := counting(look())
	if err != nil || len(first) == 0 {
		return nil, err
	}
	if monitor := slices.IndexFunc(first, func(u mounts.User) bool { return u.Machine }); monitor >= 0 {
		return asOpener(first[monitor]), nil
	}
	select {
	case <-time.After(openAgain):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	second, err := counting(look())
	for _, u := range second {
		if u.Machine || slices.ContainsFunc(first, func(o mounts.User) bool { return o.PID == u.PID }) {
			return asOpener(u), err
		}
	}
	return nil, err
}

// counting() removes the processes of udev and hotmount from the list of users, and also the processes that only read
// the disk. A virtual machine monitor always stays in the list.
func counting(users []mounts.User, err error) ([]mounts.User, error) {
	return slices.DeleteFunc(users, func(u mounts.User) bool {
		// udevd runs in the control group "udev" below the control group of its unit.
		own := u.Unit == "systemd-udevd.service" || u.Unit == "udev" || isOwn(u.Unit)
		return !u.Machine && (!u.Writes || own)
	}), err
}

func asOpener(u mounts.User) *disk.Opener {
	return &disk.Opener{PID: u.PID, Command: u.Command, Machine: u.Machine}
}

// checkUnopened returns an error if a process has the disk open now, but looks only if policy.Asks requires it. The
// daemon made this check before the proof, but a process may have opened the disk since then. A separate unit looks for
// processes that have the disk open, because the unit that proves the disk does not see other users' processes.
func (m *making) checkUnopened(ctx context.Context, c *disk.Content) error {
	f := m.facts
	if !policy.Asks(f, c, m.decision) {
		return nil
	}
	err := new(unit.Manager).Run(ctx, disk.ProgramUsers, f.ID, "")
	if err != nil {
		return err
	}
	return m.checkOpener()
}

// checkOpener returns an error if hotmount-users@.service has found a process that uses the disk. If the use lasts
// (disk.Opener.Lasts), checkOpener also records the use. Because of this record, hotmount holds the disk from then on.
func (m *making) checkOpener() error {
	f := m.facts
	by, err := m.host.Store.TakeOpener(f.Seq)
	if err != nil || by == nil {
		return err
	}
	err = fmt.Errorf("cannot format %s: it is %s; nothing on it was changed%s", f.Name, disk.Visible(by.String()), by.Hint(f.Node()))
	if !by.Lasts() {
		return err
	}
	boot, bootErr := m.host.Boot()
	return errors.Join(err, bootErr, m.host.Store.KeepUse(f, boot, by.String()))
}
