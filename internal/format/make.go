package format

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

// MakeOptions says what is to be made.
type MakeOptions struct {
	// Intent is recorded before the first write; its UUID becomes the
	// filesystem's. Make itself says whether it is Over what was there.
	Intent disk.Intent
	// RecoverHalfMade asks to make the filesystem again that Prove found half made.
	// Its UUID must be the intent's: that, chosen at random and recorded before the
	// disk was written to, is the proof that it is ours. mkfs.xfs writes nothing
	// but zeros and what carries that UUID, so that this holds after any number
	// of crashes at any of its writes; mkfs.ext4, called in the same way (the
	// intent's Ext4), writes the same bytes as before.
	RecoverHalfMade bool
	// Token asks to overwrite what Prove found, whatever it is, if the token is
	// the disk's, in the boot of that id.
	Token, Boot string
	// Mkfs are options of the class for mkfs.xfs, which config has checked, Proto
	// the path of a prototype file (Prototype), empty for none. Those for mkfs.ext4
	// are in the intent.
	Mkfs  []string
	Proto string
}

// Writes is Facts.Writes as it was before the first read of what Prove has found,
// or after Make before the filesystem was read back: as long as the count is
// the same, so is what is on the disk.
func (s *Session) Writes() uint64 { return s.writes }

// Make makes an XFS, or the intent's ext4, on the disk that Prove found blank, makes our own half-made
// one again, or has the operator's word for it. When it returns nil the finished filesystem has been
// read back from the disk. The session ends with it either way. After an error
// before mkfs was started nothing has been written and a new intent is
// taken back; after a later one the intent stays, but for ErrMade.
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

// making is the dry run of it.
func (o *MakeOptions) making(node, options string) making {
	return making{node: node, uuid: o.Intent.UUID, options: options, class: o.Mkfs, proto: o.Proto, dry: true, over: o.RecoverHalfMade || o.Token != ""}
}

// mkfsRun is one run of a mkfs.
type mkfsRun interface {
	run(context.Context, run.Runner) (lines []string, wrote uint64, err error)
}

// runs returns those that write nothing and have to go well first, and the one that
// writes. mkfs.ext4 does not look what is on a disk unless it can ask a person:
// mkfs.xfs is asked in its place whether it would refuse.
func (s *Session) runs(ctx context.Context, o MakeOptions) (dry []mkfsRun, real mkfsRun, err error) {
	if o.Intent.Ext4 == nil {
		options, err := chooseOptions(ctx, s.deps.Runner, s.sys)
		m := o.making(s.disk.Node(), options)
		dry, m.dry = []mkfsRun{m}, false
		return dry, m, err
	}
	look := MakeOptions{Intent: o.Intent, Token: o.Token}
	e := ext4{node: s.disk.Node(), uuid: o.Intent.UUID, with: *o.Intent.Ext4, dry: true}
	dry, e.dry = []mkfsRun{look.making(e.node, ""), ext4Dry{s, e}}, false
	return dry, e, nil
}

// make claims the disk, records the intent, runs mkfs and confirms what it made. The order of its checks is what the
// safety of the disk rests on.
func (s *Session) make(ctx context.Context, o MakeOptions) error {
	if err := s.permit(o); err != nil {
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
	if err := s.begin(ctx, &o); err != nil {
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
	// The filesystem is whole. An intent that stays costs a look at the disk at every start, and must not keep the disk
	// from being used.
	if err := s.deps.Intents.End(o.Intent.UUID, nil); err != nil {
		s.deps.Log(fmt.Sprintf("the intent for %s %s stays behind", title(&o), o.Intent.UUID), err.Error())
	}
	if o.Token != "" {
		return s.alone(ctx, o.Intent.Type())
	}
	return nil
}

// title returns the name of what is made, for people.
func title(o *MakeOptions) string {
	if kind := o.Intent.Type(); kind == disk.Ext4 {
		return kind
	}
	return "XFS"
}

// checkOptions refuses what a class may not ask for. config has refused it already; this is the last place before the
// disk.
func checkOptions(o *MakeOptions) error {
	class, kind := o.Mkfs, o.Intent.Type()
	if kind == disk.Ext4 {
		class = o.Intent.Ext4.Options
	}
	if i := slices.IndexFunc(class, func(o string) bool { return !disk.MkfsOption(kind, o) }); i >= 0 {
		return fmt.Errorf("%q is no option that a class may give to mkfs.%s", disk.Visible(class[i]), kind)
	}
	_, err := rootMode(&o.Intent)
	return err
}

// rehearse locks the disk, looks once more, gives up the exclusive claim, which mkfs takes itself, and runs mkfs
// without a write.
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
	// mkfs.xfs claims the disk itself, with -N too.
	if err := s.release(); err != nil {
		return err
	}
	for _, m := range dry {
		if _, _, err := m.run(ctx, s.deps.Runner); err != nil {
			// What it refuses may be there since a moment ago: then that is why.
			if now := s.again(ctx, o); now != nil {
				return fmt.Errorf("%w: %v", now, err)
			}
			return err
		}
	}
	return nil
}

// begin records the intent, and looks once more right before the first write.
func (s *Session) begin(ctx context.Context, o *MakeOptions) error {
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
		// What an earlier intent of the same filesystem is of may be on the disk.
		if former == nil || former.UUID != o.Intent.UUID {
			err = errors.Join(err, s.deps.Intents.End(o.Intent.UUID, err))
		}
		return err
	}
	return nil
}

// confirm reads the filesystem back, twice, and returns an error unless it is there and nobody else has written.
func (s *Session) confirm(ctx context.Context, o *MakeOptions, wrote uint64) error {
	kind := o.Intent.Type()
	// What is in the page cache yet is mkfs's.
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
	if err := s.readBack(kind, o.Intent.UUID); err != nil {
		return err
	}
	// udev may look at it meanwhile.
	if err := s.lock(ctx, unix.LOCK_SH); err != nil {
		return err
	}
	// While it waits others need the memory.
	debug.FreeOSMemory()
	if err := wait(ctx, s.deps.SecondLook); err != nil {
		return err
	}
	if err = s.readBack(kind, o.Intent.UUID); err != nil {
		err = s.changed(err)
	} else if err = s.isUntouched(); err == nil {
		err = s.isOurs(ctx, o, counted-s.written, wrote)
	}
	if errors.Is(err, ErrShared) || errors.Is(err, ErrWritten) {
		// The next look may find it whole.
		o.Intent.Doubt = err.Error()
		err = errors.Join(err, s.deps.Intents.Amend(o.Intent))
	}
	return err
}

// alone returns an error unless the tools find nothing beside the filesystem that was made by the
// operator's word. No mkfs overwrites all places where something else can be known by: the labels
// of ZFS (vdev_impl.h of OpenZFS), the second header of LUKS2 (lib/luks2/luks2.h of cryptsetup).
// To udev such a disk is ambivalent, and it would be refused at the next boot.
//
// The partitions of before the kernel forgets when it is told to: udevd, which does it for others,
// does not where the disk is locked (systemd.io/BLOCK_DEVICE_LOCKING).
func (s *Session) alone(ctx context.Context, kind string) error {
	if len(s.disk.Partitions) > 0 {
		if err := s.sys.rereadPartitions(s.keep); err != nil {
			return fmt.Errorf("%w, and the kernel still knows the partitions of before: %w; to have it forget them: blockdev --rereadpt %s", ErrMade, err, s.disk.Node())
		}
	}
	sigs, err := probe.Signatures(ctx, s.deps.Runner, s.disk.Node())
	if err != nil {
		return fmt.Errorf("%w; whether anything else is found on the disk is not known: %w", ErrMade, err)
	}
	for _, sig := range sigs {
		if sig.Tool == "wipefs" && sig.Type != kind {
			return fmt.Errorf("%w, and the disk is refused until nothing else is found on it: %s at byte %d, which mkfs.%s does not overwrite; to keep the new filesystem: wipefs --all --types no%s %s",
				ErrMade, disk.Visible(sig.Type), sig.Offset, kind, kind, s.disk.Node())
		}
	}
	return nil
}

// permit refuses what Prove has not found in this session.
func (s *Session) permit(o MakeOptions) error {
	want := disk.Blank
	if o.RecoverHalfMade {
		want = disk.HalfMade
	}
	switch id := o.Intent.Identity; {
	case s.excl == nil:
		return errors.New("the session is over")
	case !disk.ValidUUID(o.Intent.UUID):
		return fmt.Errorf("%q is not a UUID", disk.Visible(o.Intent.UUID))
	case s.counts() != nil:
		return s.counts()
	case id.Seq != s.disk.Seq || id.Size != s.disk.Size:
		return errors.New("the intent is for another disk")
	case o.Token != "":
		if !s.proven.Proven || s.proven.Kind == disk.Blank {
			return fmt.Errorf("nothing is known that could be overwritten: it is %q", s.proven.Kind)
		}
	case s.proven.Kind != want || !s.proven.Proven:
		return fmt.Errorf("it was not proven %s but %q", want, s.proven.Kind)
	case o.RecoverHalfMade && s.disk.Standing.IntentDoubt:
		return fmt.Errorf("the half-made filesystem %s may be another disk's", s.proven.UUID)
	case o.RecoverHalfMade && s.proven.UUID != o.Intent.UUID:
		return fmt.Errorf("the half-made filesystem on it is %s, not %s", s.proven.UUID, o.Intent.UUID)
	case o.RecoverHalfMade && s.proven.Type != o.Intent.Type():
		return fmt.Errorf("the half-made filesystem on it is %s, not %s", s.proven.Type, o.Intent.Type())
	case o.RecoverHalfMade && o.Intent.Ext4 != nil && !sameExt4(o.Intent.Ext4, s.disk.Standing.Intent.Ext4):
		return errors.New("the half-made ext4 on it was begun in another way")
	}
	return nil
}

// overwritten reports whether what is made is made over something, by the operator's word,
// and over which filesystem, if that is known. What was overwritten stays that, however
// often it is begun again: the proofs between may not have read all of the old data.
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
