package helper

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// lastWord decides once more after the disk was read. Before the first write, the class and the unfinished format, if
// any, must still be the same as before the reading. over reports that the operator gave a token.
func lastWord(f *disk.Facts, c *disk.Content, s *disk.Settings, class *disk.Class, proven *disk.Standing, over bool) (disk.Decision, error) {
	d := policy.Decide(f, c, s)
	if over {
		var ok bool
		if d, ok = policy.Confirmable(f, c, s); !ok {
			return d, notConfirmable(f, c, s, d)
		}
	}
	switch {
	case d.Action != disk.Format:
		return d, nil
	case !asProven(class, policy.Select(f, s)):
		return d, errors.New("the configuration of its class changed during the proof, so it has to be proven again")
	case c.Kind == disk.HalfMade && !over && !sameIntent(proven, &f.Standing):
		return d, errors.New("the record of its unfinished format changed during the reading, so it has to be read again")
	}
	return d, nil
}

// asProven reports whether the disk still has the class for which it was proven blank. It compares the fields that
// matter to the proof and the format.
func asProven(then, now *disk.Class) bool {
	return now != nil && now.Name == then.Name && now.Blank == then.Blank && now.Directory == then.Directory && now.Create == then.Create
}

// sameIntent reports whether the intent with which the disk was proven is still on record. The intent identifies a
// half-made filesystem and determines how the rest of the disk is read.
func sameIntent(then, now *disk.Standing) bool {
	if then.Intent == nil || now.Intent == nil {
		return then.Intent == now.Intent
	}
	return then.Intent.UUID == now.Intent.UUID && then.IntentDoubt == now.IntentDoubt && then.IntentBySlot == now.IntentBySlot
}

// intentFor returns the intent to record before the first write. A half-made ext4 filesystem is made again with the
// same parameters, so that it is recognised after another crash.
func intentFor(f *disk.Facts, class *disk.Class, uuid, boot string, again bool) disk.Intent {
	intent := disk.Intent{Identity: f.Identity(boot), Class: class.Name, UUID: uuid}
	switch {
	case class.Create != disk.Ext4:
	case again:
		intent.Ext4 = f.Standing.Intent.Ext4
	default:
		intent.Ext4 = &disk.MkfsExt4{Options: class.MkfsOptions, Owner: class.RootOwner, Time: time.Now().Unix(), Mode: class.RootMode}
	}
	return intent
}

// intendedUUID returns the UUID of the disk's unfinished format, or a new UUID. The UUID stays the same until the
// format has ended, so that a disk has at most one intent.
//
// A disk gets a new UUID in three cases, so that two disks never have the same UUID. In the first case, the operator
// overwrites a copy of another disk. In the second, the disk is recognised only by its slot and may be the next disk
// there. In the third, the disk has the serial or WWN of another attached disk, on which the format began.
func intendedUUID(f *disk.Facts, over bool) (string, error) {
	if i := policy.Intent(f, &disk.Content{}); i != nil && !f.Standing.IntentBySlot && !(over && ofAnother(f)) {
		return i.UUID, nil
	}
	// The kernel generates this UUID at random (random(4)).
	b, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	uuid := strings.TrimSpace(string(b))
	if err == nil && !disk.ValidUUID(uuid) {
		err = fmt.Errorf("%q is none", uuid)
	}
	if err != nil {
		return "", fmt.Errorf("cannot choose a UUID: %w", err)
	}
	return uuid, nil
}

// ending is the result of an earlier format on a disk that is not to be formatted.
type ending struct {
	// made reports that mkfs had finished the filesystem.
	made bool
	// ends reports that the intent ends. If failure is set, the intent ends because the operator has accepted other
	// content.
	ends    bool
	failure error
	// leaves reports that the accepted disk may be only the next disk in the slot. The intent then stays, for the disk
	// with the UUID of the intent.
	leaves bool
}

// outcome returns the result of the format that began on the disk, if the decision is not to format the disk.
func outcome(f *disk.Facts, c *disk.Content, d disk.Decision) ending {
	i := policy.Intent(f, c)
	ours := i != nil && !ofAnother(f)
	switch {
	case ours && (c.Torn || d.Reason == disk.ReasonDisturbed):
		return ending{}
	case ours && c.Kind == disk.Filesystem && c.UUID == i.UUID:
		return ending{made: true, ends: true}
	case ours && d.Action == disk.Mount && f.Standing.IntentBySlot:
		return ending{leaves: true}
	case ours && d.Action == disk.Mount:
		return ending{ends: true, failure: fmt.Errorf("the disk holds %s %s, and this content was accepted", disk.Visible(c.Type), c.UUID)}
	}
	return ending{}
}

// ofAnother reports whether the intent belongs to another disk, of which f is a copy. The intent of the other disk does
// not end on f.
func ofAnother(f *disk.Facts) bool {
	return f.Standing.IntentDoubt && !f.Standing.Intent.Identity.Like(f.Identity(""))
}

// forbidden returns the reason not to write to a disk that was to be formatted, or nil.
func forbidden(now *disk.Facts, s *disk.Settings) error {
	switch {
	case len(now.Loops) > 0:
		return errors.New(now.Through())
	case len(now.Bound) > 0:
		return errors.New("its node is bound as a device at " + disk.Visible(now.Bound[0]))
	case now.Standing.Formatting != "":
		return fmt.Errorf("nothing is formatted: %s", now.Standing.Formatting)
	case !s.Format:
		return errors.New("nothing is formatted: format: false in the configuration")
	}
	return nil
}
