package format

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

// MakeOptions are the options of Make.
type MakeOptions struct {
	// Intent is recorded before the first write. The UUID of Intent becomes the UUID of the filesystem. Make sets
	// Intent.Over and Intent.Was.
	Intent disk.Intent
	// RecoverHalfMade lets Make repeat the format of the half-made filesystem that Prove found. The half-made
	// filesystem must have the UUID of the intent. The intent's UUID was random and recorded before the first write, so
	// this UUID on the disk proves that hotmount made the filesystem.
	//
	// The UUID is sufficient proof even after a crash, because mkfs.xfs writes only zeros and structures that contain
	// the intent's UUID. mkfs.ext4 writes the same bytes each time that it runs with the parameters in the intent.
	RecoverHalfMade bool
	// Token is the operator's token, or empty for none. With a token, Make overwrites any content that Prove has found.
	// Make accepts only the token that Session.Token returns for the field Boot.
	Token, Boot string
	// Mkfs are the class's options for mkfs.xfs, which package config has checked. Proto is the path of a prototype
	// file (Prototype), or empty for none. Options for mkfs.ext4 are in the intent.
	Mkfs  []string
	Proto string
}

// Writes returns the kernel's count of writes (Facts.Writes) as it was before the first read of Prove. After Make,
// Writes returns the count as it was before the new filesystem was read back. If Finish has changed the mode of the
// root directory, Writes returns the count right after this change. While Facts.Writes stays the same, the content of
// the disk stays the same.
func (s *Session) Writes() uint64 { return s.writes }

// Make makes an XFS filesystem, or an ext4 filesystem if the intent has parameters for ext4. Make needs a disk that is
// proven blank or holds hotmount's own half-made filesystem. On any other disk, Make needs the operator's token.
//
// When Make returns nil, the finished filesystem has been read back from the disk. The caller must close the session
// after Make, even after an error. If a step before mkfs fails, nothing is written to the disk. Make then removes the
// intent, unless an earlier format has already recorded an intent with the same UUID. If mkfs or a later step fails,
// the intent stays. When Make returns ErrMade, it has already called Intents.End.
func (s *Session) Make(ctx context.Context, o MakeOptions) error {
	err := s.make(ctx, o)
	if errors.Is(err, ErrMade) {
		return fmt.Errorf("%s: %w", s.disk.ID, err)
	}
	if err != nil {
		return fmt.Errorf("cannot make a filesystem on %s: %w", s.disk.ID, err)
	}
	return nil
}

// The method `making` returns the dry run of mkfs.xfs with the caller's options.
func (o *MakeOptions) making(node string, g guard) making {
	return making{node: node, uuid: o.Intent.UUID, guard: g, class: o.Mkfs, proto: o.Proto, dry: true, overwrite: o.RecoverHalfMade || o.Token != ""}
}

// mkfsRun is one run of mkfs.xfs or mkfs.ext4.
type mkfsRun interface {
	run(context.Context, run.Runner) (lines []string, wrote uint64, err error)
}

// runs() returns the dry runs of mkfs, and the run that writes. The dry runs write nothing, and must succeed before the
// run that writes. Without a terminal, mkfs.ext4 does not check whether the disk has content. For ext4, hotmount
// therefore also runs mkfs.xfs -N. Without a token, mkfs.xfs -N refuses a disk with content.
func (s *Session) runs(ctx context.Context, o MakeOptions) (dry []mkfsRun, real mkfsRun, err error) {
	if o.Intent.Ext4 == nil {
		g, err := chooseGuard(ctx, s.deps.Runner, s.sys)
		m := o.making(s.disk.Node(), g)
		dry, m.dry = []mkfsRun{m}, false
		return dry, m, err
	}
	look := MakeOptions{Intent: o.Intent, Token: o.Token}
	e := ext4{node: s.disk.Node(), uuid: o.Intent.UUID, program: *o.Intent.Ext4, dry: true}
	dry, e.dry = []mkfsRun{look.making(e.node, guard{}), ext4Dry{s, e}}, false
	return dry, e, nil
}

// make() looks at the disk once more, records the intent, runs mkfs and verifies the result. The safety of the disk
// depends on the order of the checks in make().
func (s *Session) make(ctx context.Context, o MakeOptions) error {
	if err := s.checkPermitted(o); err != nil {
		return err
	}
	if err := checkOptions(&o); err != nil {
		return err
	}
	dry, mkfs, err := s.runs(ctx, o)
	if err != nil {
		return err
	}
	if err := s.rehearse(ctx, o, dry); err != nil {
		return err
	}
	if err := s.recordIntent(ctx, &o); err != nil {
		return err
	}
	lines, wrote, err := mkfs.run(ctx, s.deps.Runner)
	if err == nil {
		err = s.setRootMode(ctx, &o.Intent, func() error { return nil })
	}
	if err == nil {
		err = s.confirm(ctx, &o, wrote)
	}
	if err != nil {
		return err
	}
	s.deps.Log(fmt.Sprintf("made %s %s on %s and read it back", title(&o), o.Intent.UUID, s.disk.ID), lines...)
	// The filesystem is whole. A leftover intent must not prevent the use of the filesystem. A leftover intent only
	// costs a look at the disk at every start.
	if err := s.deps.Intents.End(o.Intent.UUID, nil); err != nil {
		s.deps.Log(fmt.Sprintf("cannot remove the record of the finished format of %s %s", title(&o), o.Intent.UUID), err.Error())
	}
	if o.Token != "" {
		return s.checkNothingElse(ctx, o.Intent.Type())
	}
	return nil
}

// title returns the name of the filesystem type for messages in the journal.
func title(o *MakeOptions) string {
	if kind := o.Intent.Type(); kind == disk.Ext4 {
		return kind
	}
	return "XFS"
}

// checkOptions returns an error for an option that a class is not allowed to give. Package config also rejects such an
// option, and checkOptions repeats the check right before the format.
func checkOptions(o *MakeOptions) error {
	class, kind := o.Mkfs, o.Intent.Type()
	if kind == disk.Ext4 {
		class = o.Intent.Ext4.Options
	}
	if i := slices.IndexFunc(class, func(o string) bool { return !disk.MkfsOption(kind, o) }); i >= 0 {
		return fmt.Errorf("%q is not an option that a class may give to mkfs.%s", disk.Visible(class[i]), kind)
	}
	_, err := rootMode(&o.Intent)
	return err
}

// rehearse takes the exclusive lock and looks at the disk once more. The method `rehearse` then releases the exclusive
// claim, so that mkfs can claim the disk, and runs mkfs without writes.
func (s *Session) rehearse(ctx context.Context, o MakeOptions, dry []mkfsRun) error {
	if o.Token != "" {
		if err := s.hold(ctx, o.Token, o.Boot); err != nil {
			return err
		}
	}
	if err := s.lock(ctx, unix.LOCK_EX); err != nil {
		return err
	}
	if err := s.again(ctx, o); err != nil {
		return err
	}
	// mkfs.xfs claims the disk even with -N, which writes nothing.
	if err := s.release(); err != nil {
		return err
	}
	for _, m := range dry {
		if _, _, err := m.run(ctx, s.deps.Runner); err != nil {
			// mkfs may refuse the disk because the content of the disk has just changed. In this case, rehearse reports
			// the change, and not ErrRefused.
			if now := s.again(ctx, o); now != nil {
				return fmt.Errorf("%w: %v", now, err)
			}
			return err
		}
	}
	return nil
}

// recordIntent records the intent, and looks at the disk once more right before the first write.
func (s *Session) recordIntent(ctx context.Context, o *MakeOptions) error {
	s.deps.Log(fmt.Sprintf("making %s %s on %s", title(o), o.Intent.UUID, s.disk.ID))
	former := s.disk.Standing.Intent
	o.Intent.Over, o.Intent.Was = s.overwritten(*o)
	if err := s.deps.Allowed(); err != nil {
		return err
	}
	if err := s.deps.Intents.Begin(o.Intent); err != nil {
		return err
	}
	if err := s.again(ctx, *o); err != nil {
		// An earlier intent with the same UUID stays, because its half-made filesystem may be on the disk.
		if former == nil || former.UUID != o.Intent.UUID {
			err = errors.Join(err, s.deps.Intents.End(o.Intent.UUID, err))
		}
		return err
	}
	return nil
}

// confirm reads the new filesystem back twice. confirm returns an error if the filesystem is not whole, or if anybody
// except mkfs has written to the disk.
func (s *Session) confirm(ctx context.Context, o *MakeOptions, wrote uint64) error {
	kind := o.Intent.Type()
	// Some writes of mkfs may still be in the page cache, and the kernel has not counted these writes yet.
	if err := s.sys.writeOut(s.keep); err != nil {
		return err
	}
	var err error
	if s.writes, _, err = s.deps.Writes(); err != nil {
		return err
	}
	_, counted, err := s.deps.Bytes()
	if err != nil {
		return err
	}
	if err := s.readBack(kind, o.Intent.UUID, checkWhole); err != nil {
		return err
	}
	// A shared lock lets udev probe the disk during the wait for the second reading.
	if err := s.lock(ctx, unix.LOCK_SH); err != nil {
		return err
	}
	if err := wait(ctx, s.deps.SecondLook); err != nil {
		return err
	}
	var unread *probe.ReadError
	switch err = s.readBack(kind, o.Intent.UUID, checkNew); {
	case errors.As(err, &unread):
		// A read error does not show that another machine writes to the disk.
	case err != nil:
		err = s.changed(err)
	default:
		if err = s.isUntouched(); err == nil {
			err = s.isOurs(ctx, o, counted-s.written, wrote)
		}
	}
	if unread != nil || errors.Is(err, ErrShared) || errors.Is(err, ErrWritten) {
		// Without a recorded doubt, hotmount would mount the filesystem if the next look finds it whole.
		o.Intent.Doubt = err.Error()
		err = errors.Join(err, s.deps.Intents.Amend(o.Intent))
	}
	return err
}

// checkNothingElse returns an error if wipefs finds a signature of anything besides the filesystem that was made with
// the token. mkfs does not overwrite every signature of the earlier content. ZFS labels (vdev_impl.h of OpenZFS) and
// the second LUKS2 header (lib/luks2/luks2.h of cryptsetup) may remain. If a disk has two signatures, udev marks the
// disk as "ambivalent", and hotmount would refuse the disk at the next boot.
//
// After mkfs, the kernel keeps the old partitions of the disk until a process requests a new read of the partition
// table. udevd requests a new read of the partition table after a write, but not while the disk is locked
// (systemd.io/BLOCK_DEVICE_LOCKING).
func (s *Session) checkNothingElse(ctx context.Context, kind string) error {
	if len(s.disk.Partitions) > 0 {
		if err := s.sys.rereadPartitions(s.keep); err != nil {
			return fmt.Errorf("%w, but the kernel still has the disk's old partitions: %w; to make the kernel forget these partitions: blockdev --rereadpt %s", ErrMade, err, s.disk.Node())
		}
	}
	sigs, err := probe.Signatures(ctx, s.deps.Runner, s.disk.Node())
	if err != nil {
		return fmt.Errorf("%w, but hotmount cannot check whether other signatures are left on the disk: %w", ErrMade, err)
	}
	for _, sig := range sigs {
		if sig.Tool == "wipefs" && sig.Type != kind {
			return fmt.Errorf("%w, but the disk is refused while it has another signature: %s at byte %d, which mkfs.%s does not overwrite; to remove the signature: wipefs --all --types no%s %s",
				ErrMade, disk.Visible(sig.Type), sig.Offset, kind, kind, s.disk.Node())
		}
	}
	return nil
}

// checkPermitted returns an error unless the result of Prove and the options permit the format.
func (s *Session) checkPermitted(o MakeOptions) error {
	want := disk.Blank
	if o.RecoverHalfMade {
		want = disk.HalfMade
	}
	switch id := o.Intent.Identity; {
	case s.excl == nil:
		return errors.New("the file descriptor of this format is closed already")
	case !disk.ValidUUID(o.Intent.UUID):
		return fmt.Errorf("%q is not a UUID", disk.Visible(o.Intent.UUID))
	case s.counts() != nil:
		return s.counts()
	case id.Seq != s.disk.Seq || id.Size != s.disk.Size:
		return errors.New("the intent is for another disk")
	case o.Token != "":
		// On a disk that looks blank, a token is valid only if the disk was a block volume before.
		if !s.proven.Proven || s.proven.Kind == disk.Blank && s.disk.Standing.Given == nil {
			return fmt.Errorf("the token does not allow hotmount to overwrite this content: found %q", s.proven.Kind)
		}
	case s.proven.Kind != want || !s.proven.Proven:
		return fmt.Errorf("the disk was not proven %s: the content is %q", want, s.proven.Kind)
	case o.RecoverHalfMade && s.disk.Standing.IntentDoubt:
		return fmt.Errorf("the half-made filesystem %s may belong to another disk", s.proven.UUID)
	case o.RecoverHalfMade && s.proven.UUID != o.Intent.UUID:
		return fmt.Errorf("expected the half-made filesystem %s, but the disk holds the half-made filesystem %s", o.Intent.UUID, s.proven.UUID)
	case o.RecoverHalfMade && s.proven.Type != o.Intent.Type():
		return fmt.Errorf("expected a half-made filesystem of the type %s, but the disk holds one of the type %s", o.Intent.Type(), s.proven.Type)
	case o.RecoverHalfMade && o.Intent.Ext4 != nil && !sameExt4(o.Intent.Ext4, s.disk.Standing.Intent.Ext4):
		return errors.New("the half-made filesystem on the disk is from a run of mkfs.ext4 with different options")
	}
	return nil
}

// The method `overwritten` reports whether the operator has confirmed, with a token, that the format may overwrite
// content. The second result is the UUID of the old filesystem, if known. If the intent repeats an earlier format,
// `overwritten` also uses the values in the earlier intent, because the new proof may miss old data.
func (s *Session) overwritten(o MakeOptions) (over bool, was string) {
	over = o.Token != ""
	if former := s.disk.Standing.Intent; former != nil && former.UUID == o.Intent.UUID {
		over, was = over || former.Over, former.Was
	}
	if o.Token != "" && s.proven.Kind == disk.Filesystem && s.proven.UUID != o.Intent.UUID {
		was = s.proven.UUID
	}
	return over, was
}
