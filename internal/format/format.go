// Package format makes filesystems on blank disks, and is the only writer to
// disks, by way of mkfs.xfs, mkfs.ext4 and debugfs. It runs in a process of its own, one for each disk.
// It does not choose the disk: it is told, proves for itself that the disk is
// blank, and gives up at the first doubt.
//
// A session goes Open, Prove, Make, Close. From Open to Close a descriptor is
// open on the disk: as long as it is, the kernel gives the disk's name to no
// other one, also when it has been pulled. What is proven is fenced by the disk
// sequence number, the size and the kernel's count of writes: unless they are
// the same right before mkfs as before the first read, and no write is in flight,
// nothing is written.
package format

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

var (
	// ErrBusy says that somebody else has claimed or locked the disk.
	ErrBusy = errors.New("somebody else uses it")
	// ErrWritten says that somebody wrote to the disk while it was looked at.
	ErrWritten = errors.New("somebody writes to it")
	// ErrRefused says that mkfs does not want the disk, or an option of the class, when
	// it is asked first: it will not the next time either.
	ErrRefused = errors.New("mkfs refuses it")
	// ErrMade says that a filesystem was made by the operator's word, and what keeps it from
	// being used: what was there before can still be found beside it, or that is not known.
	ErrMade = errors.New("the filesystem is made")
	// ErrShared says that the disk has changed and this machine has not written
	// to it.
	ErrShared = errors.New("another machine writes to it: a disk must be attached to one machine only")
)

// Retry says whether the same may go better later. What mkfs refuses it refuses
// again, and two machines that share a disk do until somebody parts them.
func Retry(err error) bool { return !errors.Is(err, ErrRefused) && !errors.Is(err, ErrShared) }

// Intents is the durable record of formats that began. Package store has it.
type Intents interface {
	// Begin returns once the intent would survive a power cut.
	Begin(disk.Intent) error
	// Amend has an intent that has begun say more.
	Amend(disk.Intent) error
	// End records what came of it, nil for a filesystem that was made, and
	// forgets the intent.
	End(uuid string, failure error) error
}

// Deps is what a session is given to work with. All of it must be set.
type Deps struct {
	Runner run.Runner
	// Writes reads Facts.Writes of the disk afresh, and before it how many writes and
	// discards are in flight: what is so at the first and done at the second is counted.
	Writes func() (done, inFlight uint64, err error)
	// Bytes reads afresh how many bytes have been read from the disk and written to it.
	Bytes func() (read, written uint64, err error)
	// Settle is for how long nobody may have written; zero asks only that
	// nobody does while the disk is read.
	Settle time.Duration
	// SecondLook is how long after mkfs.xfs the filesystem is read once more,
	// and has to be unchanged: another machine that shares the disk may be at
	// work on it, too.
	SecondLook time.Duration
	// Rate and Progress are probe.Source's.
	Rate     uint64
	Progress func(context.Context, probe.Progress)
	// ReadAgain waits until the disk may be read in full once more, after mkfs, and gives
	// the Progress of that; nil for whoever does not wait.
	ReadAgain func(ctx context.Context) (func(context.Context, probe.Progress), error)
	Intents   Intents
	// Allowed gives an error if formatting is switched off. It is called right before
	// the intent is recorded, and before a format is finished by another write (Finish).
	Allowed func() error
	// Log writes to the journal. It is called with the evidence before the
	// first write to the disk.
	Log func(msg string, evidence ...string)
}

// lockTime is how long udev, which holds a shared lock while it probes
// (systemd.io/BLOCK_DEVICE_LOCKING), is waited for, and lockEvery how often the
// lock is tried: flock(2) can not be waited for with a context. udev does it
// the same way.
const (
	lockTime  = 30 * time.Second
	lockEvery = 100 * time.Millisecond
)

// Session is the work on one disk. It is not for use by several goroutines.
type Session struct {
	disk disk.Facts
	deps Deps
	sys  system

	// keep is open to the end and carries the lock; excl claims the disk while
	// it is looked at, and is nil once mkfs.xfs is to claim it.
	keep, excl *os.File

	// like is what mkfs.ext4 writes for the intent likeOf, nil until it is asked for.
	like   *os.File
	likeOf *disk.Intent

	// What Prove has found or Make has made, and how many writes there had been
	// before it was read.
	proven disk.Content
	plan   probe.Plan
	// samples is the digest of the samples when the token was found to hold.
	samples [sha256.Size]byte
	writes  uint64
	// written is what Deps.Bytes gave before the proof, counted says that it was less read then than after.
	written uint64
	counted bool
}

// Open opens the disk, claims it and takes the shared lock. It fails with
// ErrBusy if anybody else has claimed it, and unless it is the very disk that
// the facts are about, by device number, disk sequence number and size.
func Open(ctx context.Context, f disk.Facts, d Deps) (*Session, error) {
	return open(ctx, f, d, linux{})
}

func open(ctx context.Context, f disk.Facts, d Deps, sys system) (*Session, error) {
	s := &Session{disk: f, deps: d, sys: sys}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open %s: %w", f.ID, err), s.Close())
	}
	return s, nil
}

func (s *Session) open(ctx context.Context) (err error) {
	if s.keep, err = s.sys.open(s.disk.Node(), false); err != nil {
		return s.disk.Sandboxed("hotmount-format", err)
	}
	if s.excl, err = s.sys.open(s.disk.Node(), true); err != nil {
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return err
	}
	// Both were opened by a name: both must be the disk that is meant.
	for _, f := range []*os.File{s.keep, s.excl} {
		if err := s.isSame(f); err != nil {
			return err
		}
	}
	return s.lock(ctx, unix.LOCK_SH)
}

// Close gives the disk free.
func (s *Session) Close() error {
	err := s.release()
	if s.like != nil {
		err = errors.Join(err, s.like.Close())
		s.like = nil
	}
	if s.keep != nil {
		err = errors.Join(err, s.keep.Close())
		s.keep = nil
	}
	return err
}

// release ends the exclusive claim. The disk stays open.
func (s *Session) release() error {
	if s.excl == nil {
		return nil
	}
	err := s.excl.Close()
	s.excl = nil
	return err
}

// Prove tells what is on the disk. blank is the class's word for how much is
// read, a probe.Plan. Content that may be formatted is only given once nobody
// has written for Settle, counted from before the first read. With an error the
// content is Unknown and the error its evidence.
func (s *Session) Prove(ctx context.Context, blank string) (disk.Content, error) {
	c, err := s.prove(ctx, probe.Plan(blank))
	if err != nil {
		err = fmt.Errorf("cannot prove what is on %s: %w", s.disk.ID, err)
		s.proven = disk.Content{Kind: disk.Unknown, Evidence: []string{err.Error()}}
		return s.proven, err
	}
	s.proven = c
	s.deps.Log(fmt.Sprintf("%s is %s", s.disk.ID, c.Kind), c.Evidence...)
	return c, nil
}

func (s *Session) prove(ctx context.Context, plan probe.Plan) (c disk.Content, err error) {
	if s.excl == nil {
		return c, errors.New("the session is over")
	}
	begun := time.Now()
	s.plan = plan
	if s.writes, _, err = s.deps.Writes(); err != nil {
		return c, err
	}
	before, written, err := s.deps.Bytes()
	if err != nil {
		return c, err
	}
	s.written = written
	if c, err = s.look(ctx, plan); err != nil {
		return c, err
	}
	after, _, err := s.deps.Bytes()
	if err != nil {
		return c, err
	}
	s.counted = after > before
	if err := s.tear(&c); err != nil {
		return c, err
	}
	if c.Kind == disk.Blank || c.Kind == disk.HalfMade {
		if err := s.counts(); err != nil {
			return c, err
		}
		if err := wait(ctx, s.deps.Settle-time.Since(begun)); err != nil {
			return c, err
		}
	}
	return c, s.isUntouched()
}

// counts says, by nil, that the kernel counts what is read from the disk, as the proof was, and so what
// is written to it: queue/iostats can be switched on where the driver never counts (the heads
// of NVMe multipath before Linux 6.3, drivers/nvme/host/multipath.c).
func (s *Session) counts() error {
	if s.counted {
		return nil
	}
	return errors.New("the kernel has not counted what was read from it, so that nobody can tell whether somebody writes to it; its driver does not count")
}

// tear finds out whether all of the filesystem of the disk's intent is there: a power cut
// before mkfs's last flush can leave the superblock without the rest. What was mounted
// since is left as it is, and so is what may be another disk's.
func (s *Session) tear(c *disk.Content) error {
	st := &s.disk.Standing
	if c.Kind != disk.Filesystem || st.Intent == nil || c.UUID != st.Intent.UUID || st.IntentDoubt || st.Volume != nil && st.Volume.UUID == c.UUID {
		return nil
	}
	kind := st.Intent.Type()
	err := whole(s.keep, kind, c.UUID)
	var unread *probe.ReadError
	switch {
	case errors.As(err, &unread):
		return err
	case err != nil && (kind != disk.Ext4 || !probe.Ext4Used(s.keep, c.UUID)):
		c.Torn = true
		c.Evidence = append(c.Evidence, fmt.Sprintf("what mkfs.%s wrote is not all there: %v", kind, err))
	}
	return nil
}

func (s *Session) look(ctx context.Context, plan probe.Plan) (disk.Content, error) {
	return probe.Look(ctx, s.deps.Runner, s.source(), plan)
}

func (s *Session) source() probe.Source {
	source := probe.Source{Reader: s.keep, Node: s.disk.Node(), Size: s.disk.Size, Rate: s.deps.Rate, Progress: s.deps.Progress}
	if i := s.disk.Standing.Intent; i != nil && !s.disk.Standing.IntentDoubt {
		source.Own = s.own(i)
	}
	return source
}

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

// runs gives those that write nothing and have to go well first, and the one that
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

func (s *Session) make(ctx context.Context, o MakeOptions) error {
	if err := s.permit(o); err != nil {
		return err
	}
	// config has refused it already; this is the last place before the disk.
	class, kind, name := o.Mkfs, o.Intent.Type(), "XFS"
	if kind == disk.Ext4 {
		class, name = o.Intent.Ext4.Options, kind
	}
	if i := slices.IndexFunc(class, func(o string) bool { return !disk.MkfsOption(kind, o) }); i >= 0 {
		return fmt.Errorf("%q is no option that a class may give to mkfs.%s", disk.Visible(class[i]), kind)
	}
	if _, err := rootMode(&o.Intent); err != nil {
		return err
	}
	dry, mkfs, err := s.runs(ctx, o)
	if err != nil {
		return err
	}
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
	s.deps.Log(fmt.Sprintf("making %s %s on %s", name, o.Intent.UUID, s.disk.ID))
	former := s.disk.Standing.Intent
	o.Intent.Over, o.Intent.Was = s.overwritten(o)
	if err := s.deps.Allowed(); err != nil {
		return err
	}
	if err := s.deps.Intents.Begin(o.Intent); err != nil {
		return err
	}
	if err := s.again(ctx, o); err != nil {
		// What an earlier intent of the same filesystem is of may be on the disk.
		if former == nil || former.UUID != o.Intent.UUID {
			err = errors.Join(err, s.deps.Intents.End(o.Intent.UUID, err))
		}
		return err
	}
	lines, wrote, err := mkfs.run(ctx, s.deps.Runner)
	if err == nil {
		err = s.setRootMode(ctx, &o.Intent, func() error { return nil })
	}
	if err != nil {
		return err
	}
	// What is in the page cache yet is mkfs's.
	if err := s.sys.writeOut(s.keep); err != nil {
		return err
	}
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
		err = s.isOurs(ctx, &o, counted-s.written, wrote)
	}
	if errors.Is(err, ErrShared) || errors.Is(err, ErrWritten) {
		// The next look may find it whole.
		o.Intent.Doubt = err.Error()
		err = errors.Join(err, s.deps.Intents.Amend(o.Intent))
	}
	if err != nil {
		return err
	}
	s.deps.Log(fmt.Sprintf("made %s %s on %s and read it back", name, o.Intent.UUID, s.disk.ID), lines...)
	// The filesystem is whole. An intent that stays costs a look at the disk at
	// every start, and must not keep the disk from being used.
	if err := s.deps.Intents.End(o.Intent.UUID, nil); err != nil {
		s.deps.Log(fmt.Sprintf("the intent for %s %s stays behind", name, o.Intent.UUID), err.Error())
	}
	if o.Token != "" {
		return s.alone(ctx, kind)
	}
	return nil
}

// alone says, by nil, that the tools find nothing beside the filesystem that was made by the
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

// isOurs says, by nil, that nobody else has written between the first read of the proof and
// the end of mkfs: what the kernel has counted for the disk is what it has counted for
// mkfs.xfs, which goes past the page cache, and the log, which mkfs.xfs has it zero
// (libxfs_log_clear in xfsprogs): once, or, where the disk is asked to do that and can not,
// twice. If the counts say something else the disk is read as it was for the proof, and has
// to be zeros and our filesystem, which says enough only if every byte is read; and always
// after mkfs.ext4, which writes by the page cache, so that no counts tell: nothing says then
// that somebody has written, and a reading that is broken off leaves no doubt. What lay on a
// disk that was not all zeros is not told from what came meanwhile: there the counts alone tell.
func (s *Session) isOurs(ctx context.Context, o *MakeOptions, counted, wrote uint64) error {
	zeros := !o.Intent.Over && s.plan != probe.Unsigned
	var counts string
	if o.Intent.Ext4 == nil {
		super, err := probe.ReadXFS(s.keep)
		if err != nil {
			return err
		}
		n, log := int64(counted-wrote), int64(super.Log)
		for range 2 {
			if n >= log {
				n -= log
			}
		}
		if n == 0 {
			return nil
		}
		counts = fmt.Sprintf("since it was first read the kernel has counted %d bytes written to it and %d for mkfs.xfs, whose log, zeroed beside that, has %d", counted, wrote, log)
		if !zeros {
			return fmt.Errorf("%w: %s; whether any of them are somebody else's nobody can tell, for the disk was not all zeros before", ErrWritten, counts)
		}
		// To read it may take long, or be broken off, and then nobody knows.
		o.Intent.Doubt = counts + ", and it was not read again to the end"
		if err := s.deps.Intents.Amend(o.Intent); err != nil {
			return err
		}
	}
	if !zeros {
		return nil
	}
	source := s.source()
	source.Own = s.own(&o.Intent)
	var err error
	if s.deps.ReadAgain != nil {
		if source.Progress, err = s.deps.ReadAgain(ctx); err != nil {
			return err
		}
	}
	found, err := probe.Scan(ctx, source, s.plan)
	switch {
	case err != nil:
		return err
	case len(found.Bytes) > 0:
		return fmt.Errorf("%w: while mkfs.%s ran, or right before, byte %d was written: %x", ErrWritten, o.Intent.Type(), found.Offset, found.Bytes)
	case counts == "":
		return nil
	case found.Plan != probe.Full:
		return fmt.Errorf("%w: %s; nothing else is in the samples that were read again, and the disk was not read whole", ErrWritten, counts)
	}
	o.Intent.Doubt = ""
	return s.deps.Intents.Amend(o.Intent)
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

// overwritten says whether what is made is made over something, by the operator's word,
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

// again is the short look that what was proven still holds, and that nobody has
// written since before the first read of the proof. Of a token it is the
// samples.
func (s *Session) again(ctx context.Context, o MakeOptions) error {
	if o.Token != "" {
		return s.holds(ctx)
	}
	c, err := s.look(ctx, s.plan.Ends())
	if err != nil {
		return err
	}
	// Of a half-made filesystem that has lost its superblock the short look may
	// see nothing at all.
	same := c.Kind == s.proven.Kind && c.UUID == s.proven.UUID || c.Kind == disk.Blank && s.proven.Kind == disk.HalfMade
	if !same {
		return s.changed(fmt.Errorf("it was %s and is %s now: %q", s.proven.Kind, c.Kind, c.Evidence))
	}
	return s.isUntouched()
}

// changed says who has changed what is on the disk: this machine's kernel counts
// the writes of this machine.
func (s *Session) changed(what error) error {
	switch err := s.isUntouched(); {
	case err == nil:
		return fmt.Errorf("%w: %w", ErrShared, what)
	case errors.Is(err, ErrWritten):
		return fmt.Errorf("%w: %w", err, what)
	default:
		return errors.Join(err, what)
	}
}

func (s *Session) isUntouched() error {
	if err := s.isSame(s.keep); err != nil {
		return err
	}
	if err := s.sys.writeOut(s.keep); err != nil {
		return err
	}
	writes, inFlight, err := s.deps.Writes()
	switch {
	case err != nil:
		return err
	case writes != s.writes:
		return fmt.Errorf("%w: %d writes and discards meanwhile", ErrWritten, writes-s.writes)
	case inFlight > 0:
		return fmt.Errorf("%w: %d writes that the disk has not answered yet: they may reach it at any time", ErrWritten, inFlight)
	}
	return nil
}

// isSame says whether the open file is the disk that is meant, and the device
// node still leads to it.
func (s *Session) isSame(f *os.File) error {
	want := identity{dev: s.disk.Dev, seq: s.disk.Seq, size: s.disk.Size}
	got, err := s.sys.identify(f)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("it is another disk or another size: device number %s, disk sequence number %d, %d bytes instead of %s, %d, %d",
			got.dev, got.seq, got.size, want.dev, want.seq, want.size)
	}
	dev, err := s.sys.node(s.disk.Node())
	if err != nil {
		return err
	}
	if dev != want.dev {
		return fmt.Errorf("%s is device number %s now, not %s", s.disk.Node(), dev, want.dev)
	}
	return nil
}

// readBack reads what mkfs has left, past the page cache.
func (s *Session) readBack(kind, uuid string) error {
	if err := whole(s.keep, kind, uuid); err != nil {
		return fmt.Errorf("read back after mkfs.%s: %w", kind, err)
	}
	return s.isSame(s.keep)
}

func whole(r io.ReaderAt, kind, uuid string) error {
	if kind == disk.Ext4 {
		return probe.IsWholeExt4(r, uuid)
	}
	return probe.IsWholeXFS(r, uuid)
}

func (s *Session) lock(ctx context.Context, how int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, fmt.Errorf("%w: locked for %s", ErrBusy, lockTime))
	defer cancel()
	for {
		err := unix.Flock(int(s.keep.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if err := wait(ctx, lockEvery); err != nil {
			return err
		}
	}
}

// wait ends early with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
