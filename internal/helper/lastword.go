package helper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// lastWord makes the final decision after the disk has been read. lastWord returns an error if the decision is
// disk.Format and the disk's class has changed during the reading. lastWord also returns an error if the record of a
// half-made filesystem's format has changed, but only if the parameter `over` is false. If `over` is true, the operator
// has ordered the format with a token. In this case, lastWord also returns an error if hotmount refuses to format the
// disk even with a token.
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
		return d, errors.New("the configuration of the disk's class changed during the proof, so the disk has to be proven again")
	case c.Kind == disk.HalfMade && !over && !sameIntent(proven, &f.Standing):
		return d, errors.New("the record of the unfinished format changed while the disk was read, so the disk has to be read again")
	}
	return d, nil
}

// asProven reports whether the disk still has the class for which it was proven blank. asProven compares only the name,
// the plan of the proof, the directory, the mount options, and the settings of the new filesystem.
func asProven(then, now *disk.Class) bool {
	return now != nil && now.Name == then.Name && now.Blank == then.Blank && now.Directory == then.Directory && now.Create == then.Create &&
		now.RootOwner == then.RootOwner && now.RootMode == then.RootMode && slices.Equal(now.MkfsOptions, then.MkfsOptions) && slices.Equal(now.Options, then.Options)
}

// sameIntent reports whether the record of the disk's unfinished format (the intent) is the same as at the time of the
// proof. The intent identifies a half-made filesystem, and determines which bytes on the disk come from hotmount.
func sameIntent(then, now *disk.Standing) bool {
	if then.Intent == nil || now.Intent == nil {
		return then.Intent == now.Intent
	}
	return then.Intent.UUID == now.Intent.UUID && then.IntentDoubt == now.IntentDoubt && then.IntentBySlot == now.IntentBySlot
}

// intentFor returns the intent to record before the first write. A half-made ext4 filesystem is made again with the
// parameters of the first format, so that hotmount recognises the filesystem after another crash.
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

// intendedUUID returns the UUID of the disk's unfinished format, or a new UUID if the disk has no unfinished format.
// The UUID stays the same until the format has ended, so that a disk has at most one intent.
//
// Two disks must never have the same UUID. intendedUUID therefore ignores an unfinished format in three cases. In the
// first case, the disk is a copy of another disk, and the operator overwrites the copy. In the second case, only the
// slot and the size of the disk match the intent, so the disk may have replaced the intent's disk. In the third case,
// the format began on another attached disk with the same serial or WWN.
func intendedUUID(f *disk.Facts, over bool) (string, error) {
	if i := policy.Intent(f, &disk.Content{}); i != nil && !f.Standing.IntentBySlot && !(over && ofAnother(f)) {
		return i.UUID, nil
	}
	// The kernel returns a new random UUID at each read of this file (random(4)).
	b, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	uuid := strings.TrimSpace(string(b))
	if err == nil && !disk.ValidUUID(uuid) {
		err = fmt.Errorf("%q is not a UUID", uuid)
	}
	if err != nil {
		return "", fmt.Errorf("cannot choose a UUID: %w", err)
	}
	return uuid, nil
}

// ending is the result of an earlier, unfinished format of a disk that will not be formatted now.
type ending struct {
	// The field `made` is true if mkfs had finished the filesystem.
	made bool
	// The field `ends` is true if hotmount must remove the record of the earlier format (the intent). If hotmount will
	// mount a filesystem that the earlier format did not make, the field `failure` is the error to record.
	ends    bool
	failure error
	// The field `leaves` is true if the disk will be mounted, and only the disk's slot and size match the intent. In this
	// case, hotmount keeps the intent and sets disk.Intent.Left, because the intent may belong to an earlier disk in
	// the slot.
	leaves bool
}

// outcome returns the result of an earlier, unfinished format of a disk that will not be formatted now. The result is
// empty if no earlier format began on the disk, or if hotmount has nothing to record about this format.
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
		return ending{ends: true, failure: fmt.Errorf("the disk now holds %s %s, and hotmount mounts this filesystem instead", disk.Visible(c.Type), c.UUID)}
	}
	return ending{}
}

// ofAnother reports whether the intent belongs to another disk, of which this disk is a copy. The content of a copy
// does not end the intent of the original disk.
func ofAnother(f *disk.Facts) bool {
	return f.Standing.IntentDoubt && !f.Standing.Intent.Identity.Like(f.Identity(""))
}

// The function `forbidden` returns the reason why hotmount must not format the disk now, or nil if there is no reason.
func forbidden(now *disk.Facts, s *disk.Settings) error {
	switch {
	case len(now.Loops) > 0:
		return errors.New(now.ThroughLoop())
	case len(now.Bound) > 0:
		return errors.New("the disk's device file is bind-mounted at " + disk.Visible(now.Bound[0]))
	case now.Standing.Formatting != "":
		return fmt.Errorf("hotmount formats no disk: %s", now.Standing.Formatting)
	case !s.Format:
		return errors.New("hotmount formats no disk: format: false in the configuration")
	}
	return nil
}
