package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/grow"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/probe"
	"hotmount/internal/report"
	"hotmount/internal/run"
	"hotmount/internal/store"
	"hotmount/internal/sysfs"
)

func formatDiskCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "format-disk SEQ",
		Short:  "Prove one disk blank, and format it if it is",
		Hidden: true, // for hotmount-format@.service
		Args:   args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			seq, err := strconv.ParseUint(given[0], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("cannot take %q for a disk sequence number", given[0])}
			}
			return formatDisk(c.Context(), seq)
		},
	}
}

// formatDisk is the whole life of one hotmount-format@.service: look at the
// disk, prove what is on it, decide with the daemon's own function, and if the
// answer is Format make the filesystem. What came of it is left in the verdict,
// for the daemon; only what keeps it from leaving one is an error.
func formatDisk(ctx context.Context, seq uint64) error {
	log := report.New()
	h := host()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	scan := report.NewScan(log, nil)
	place := h.Store.LaterPlace(func() {
		scan.Status("waiting until other disks have been read", readPatience)
		// Of those that wait there may be many.
		debug.FreeOSMemory()
	})
	defer place.Free()
	f, err := findDisk(seq, asking(s))
	if err != nil {
		return err
	}
	// What could not be mounted need not wait for those that are read in full: it is only if
	// nothing is named on it after all.
	untold, err := h.Store.Taken(seq)
	if err != nil {
		return err
	}
	known := f.Known()
	if action := policy.Decide(f, &known, s).Action; !untold || action == disk.Prove || action == disk.Format {
		if err := place.Progress(ctx); err != nil {
			return err
		}
		// That may have taken long.
		if f, err = findDisk(seq, asking(s)); err != nil {
			return err
		}
	}
	if token, err := h.Store.TakeToken(seq); err != nil || token != "" {
		return errors.Join(err, formatConfirmed(ctx, log, f, s, token, place))
	}
	c := f.Known()
	// What could not be mounted is read as well.
	if d := policy.Decide(f, &c, s); d.Action != disk.Prove && d.Action != disk.Format && (d.Action != disk.Mount || c.Proven) {
		why, _ := policy.Words(f, &c, s, d)
		log.Event(report.KindProven, journal.PriNotice, f, d, "", fmt.Sprintf("%s: nothing to prove: %s: %s", f.Node(), d.Action, why))
		if len(f.Loops) > 0 {
			// Which the daemon, that may open no loop device, need not see.
			return h.Store.SaveVerdict(disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: why, Retry: true})
		}
		return nil
	}
	// Before the disk is read for nothing. One with an intent may carry a whole
	// filesystem, which has to be mounted all the same.
	if f.Standing.Intent == nil && c.Kind == disk.Unread {
		if err := h.Store.Check(); err != nil {
			return err
		}
	}
	v := disk.Verdict{Seq: f.Seq, Size: f.Size}
	v.Content, v.Writes, err = proveAndMake(ctx, log, f, s, "", place)
	if v.Content.Kind == disk.Filesystem && !v.Content.Torn && err == nil {
		var g disk.Geometry
		g, err = grow.Measure(f.Node(), v.Content.Type)
		v.Content.Span = g.Size
	}
	if err != nil {
		v.Content, v.Failure, v.Shared = disk.Content{}, err.Error(), errors.Is(err, format.ErrShared)
		v.Retry = format.Retry(err)
		log.Event(report.KindFailed, journal.PriErr, f, disk.Decision{Action: disk.Prove}, "", fmt.Sprintf("%s: %v", f.Node(), err))
		// Of a disk whose writes can not be counted no verdict is valid; one
		// that failed says only when to try again.
		now, err := h.Counters(f.Name)
		if err != nil {
			return err
		}
		v.Writes = now.Writes
	}
	return h.Store.SaveVerdict(v)
}

// findDisk gives the facts of the disk of that sequence number, as they are now.
func findDisk(seq uint64, h inventory.Host) (*disk.Facts, error) {
	disks, err := h.Scan()
	if err != nil {
		return nil, err
	}
	for i := range disks {
		if disks[i].Seq == seq {
			return &disks[i], nil
		}
	}
	return nil, fmt.Errorf("cannot find the disk with sequence number %d: %w", seq, disk.ErrGone)
}

// open opens the disk for a proof.
func open(ctx context.Context, f *disk.Facts, s *disk.Settings, intents format.Intents, progress func(context.Context, probe.Progress), readAgain func(context.Context) (func(context.Context, probe.Progress), error), log func(string, ...string)) (*format.Session, error) {
	h := host()
	return format.Open(ctx, *f, format.Deps{
		Runner: run.Exec{}, Writes: func() (done, inFlight uint64, err error) { return writes(h, f) }, Bytes: func() (read, written uint64, err error) { return transferred(h, f) }, Settle: s.Settle, SecondLook: secondLook,
		Rate: s.ScanRate, Progress: progress, ReadAgain: readAgain, Intents: intents, Allowed: func() error { return allowed(f.Name) }, Log: log,
	})
}

// counters reads the disk's counters. It fails where they would prove nothing: of another disk, or once the kernel has
// ceased to count.
func counters(h inventory.Host, f *disk.Facts) (sysfs.Counters, error) {
	now, err := h.Counters(f.Name)
	switch {
	case err == nil && now.Seq != f.Seq:
		err = disk.ErrGone
	case err == nil && now.Uncounted:
		err = fmt.Errorf("the kernel does not count the writes to it: echo 1 >/sys/block/%s/queue/iostats", f.Name)
	}
	return now, err
}

// writes is format.Deps.Writes.
func writes(h inventory.Host, f *disk.Facts) (done, inFlight uint64, err error) {
	now, err := counters(h, f)
	return now.Writes, now.InFlightWrites, err
}

// transferred is format.Deps.Bytes.
func transferred(h inventory.Host, f *disk.Facts) (read, written uint64, err error) {
	now, err := counters(h, f)
	return now.BytesRead, now.BytesWritten, err
}

// allowed looks at the switches that stop all formatting once more right before the disk
// is written to: up to half a minute may have passed with waiting for udev's lock. Whoever
// else takes the disk meets the claim on it, but for a loop device.
func allowed(name string) error {
	s, err := host().Store.Settings()
	if err != nil {
		return err
	}
	now, err := asking(s).Look(name)
	if err != nil {
		return err
	}
	return forbidden(&now, s)
}

// asking is the host to who writes to a disk. The unit may read the loop devices only if their
// driver was there when it began.
func asking(s *disk.Settings) inventory.Host {
	h := hostFor(s)
	h.Asks = true
	return h
}

// forbidden says what forbids to write to the disk that was decided to be formatted.
func forbidden(now *disk.Facts, s *disk.Settings) error {
	switch {
	case len(now.Loops) > 0:
		return errors.New(now.Through())
	case now.Standing.Formatting != "":
		return fmt.Errorf("nothing is formatted: %s", now.Standing.Formatting)
	case !s.Format:
		return errors.New("nothing is formatted: format: false in the configuration")
	}
	return nil
}

// secondLook is how long after mkfs a filesystem is read once more. It is far
// more than lies between the last look of another machine that shares the disk
// and the first write of its mkfs.
const secondLook = 3 * time.Second

// How long the unit may be without a sign of life, beside the time to settle:
// while the disk is read, and while mkfs runs, which has a time limit of its
// own (format.MkfsTime).
const (
	readPatience = 5 * time.Minute
	mkfsPatience = format.MkfsTime + readPatience
)

// prove finds out what is on the disk, and closes it again.
func prove(ctx context.Context, f *disk.Facts, s *disk.Settings) (c disk.Content, err error) {
	progress, free, err := scanPlace(ctx)
	if err != nil {
		return c, err
	}
	defer free()
	session, err := open(ctx, f, s, nil, progress, nil, func(string, ...string) {})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return session.Prove(ctx, policy.Select(f, s).Blank)
}

// scanPlace waits until somebody at a terminal may read a disk in full. Where no
// daemon has run since the boot there are no places, and nobody else reads.
func scanPlace(ctx context.Context) (progress func(context.Context, probe.Progress), free func(), err error) {
	place, err := host().Store.ScanPlace(ctx, func() { fmt.Fprintln(os.Stderr, "waiting until other disks have been read") })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// Without a place it is the context that has ended, and the scan with it.
	return func(ctx context.Context, _ probe.Progress) { _ = place.Progress(ctx) }, place.Free, nil
}

// proveAndMake gives what is on the disk in the end, and the count of writes to
// it that this holds for. With an error nothing is known of it. With a token, the
// operator's word, what is on the disk is overwritten or it is an error. The
// place is given back once the disk has been read.
func proveAndMake(ctx context.Context, log *report.Log, f *disk.Facts, s *disk.Settings, token string, place *store.Place) (c disk.Content, writes uint64, err error) {
	uuid, err := intendedUUID(f, token != "")
	if err != nil {
		return c, 0, err
	}
	class := policy.Select(f, s)
	path := class.MountPoint(uuid)
	d := disk.Decision{Action: disk.Prove, Class: class.Name, UUID: uuid}
	// The story of the filesystem that may come of it begins here.
	scan := report.NewScan(log, f)
	condition, comparing := readFor(scan, token != "")
	log.Event(report.KindSeen, journal.PriInfo, f, d, path, report.Name(f)+": seen: it is read; if "+condition+" it becomes "+class.Create+" "+uuid)
	record := &store.Format{Store: host().Store}
	progress := func(ctx context.Context, p probe.Progress) {
		// Without a place it is the context that has ended, and the scan with it.
		if err := place.Progress(ctx); err != nil {
			scan.Status(err.Error(), readPatience)
		}
		scan.Progress(p.At, p.Size, p.Read, s.Settle+readPatience)
	}
	readAgain := func(ctx context.Context) (func(context.Context, probe.Progress), error) {
		scan.Doing = "reading what was made, for somebody else may have written"
		return progress, place.Again(ctx)
	}
	session, err := open(ctx, f, s, record, progress, readAgain, func(message string, evidence ...string) {
		scan.Status(message, mkfsPatience)
		log.Event(report.KindProven, journal.PriInfo, f, d, path, strings.Join(append([]string{message}, evidence...), "\n  "))
	})
	if err != nil {
		return c, 0, err
	}
	defer func() { writes, err = session.Writes(), errors.Join(err, session.Close()) }()
	// Also where little is read nobody may write for that long.
	scan.Status("reading "+f.Node(), s.Settle+readPatience)
	c, err = session.Prove(ctx, class.Blank)
	if token == "" { // else its samples are read again
		// Whose turn it is now needs as much: what this one was read with goes back.
		debug.FreeOSMemory()
		place.Free()
	}
	if err != nil {
		return c, 0, err
	}
	// The proof takes time: everything else is looked at afresh before the word
	// is final, the configuration too: the operator may have switched formatting
	// off, or put the disk into another class.
	if s, err = host().Store.Settings(); err != nil {
		return c, 0, err
	}
	proven := f.Standing
	if f, err = findDisk(f.Seq, asking(s)); err != nil {
		return c, 0, err
	}
	if d, err = lastWord(f, &c, s, class, &proven, token != ""); err != nil {
		return c, 0, err
	}
	if i := policy.Intent(f, &c); i != nil && i.UUID == c.UUID && token == "" {
		uuid = c.UUID
		path = class.MountPoint(uuid)
	}
	if d.Action != disk.Format {
		why, _ := policy.Words(f, &c, s, d)
		log.Event(report.KindProven, journal.PriInfo, f, d, "", fmt.Sprintf("%s: %s: %s", f.Node(), d.Action, why))
		err := conclude(ctx, log, session, f, &c, d, path)
		return c, 0, err
	}
	again := c.Kind == disk.HalfMade && token == ""
	d.UUID = uuid
	boot, err := host().Boot()
	if err != nil {
		return c, 0, err
	}
	intent := intentFor(f, class, uuid, boot, again)
	record.Record = disk.Record{Name: f.Name, Identity: intent.Identity, Class: class.Name, UUID: uuid, Type: class.Create, By: disk.ByDaemon, Evidence: c.Evidence}
	switch {
	case token != "":
		record.Record.By = disk.ByOperator
	case !f.Standing.Lifted(disk.ReasonBrake, ""):
		record.Limit, record.Period = s.FormatLimit, s.FormatPeriod
	}
	proto, remove, err := prototype(class)
	if err != nil {
		return c, 0, errors.Join(err, record.Close(err))
	}
	defer remove()
	comparing()
	err = session.Make(ctx, format.MakeOptions{Mkfs: class.MkfsOptions, Proto: proto, Intent: intent, RecoverHalfMade: again, Token: token, Boot: boot})
	if err != nil && !errors.Is(err, format.ErrMade) {
		return c, 0, errors.Join(err, record.Close(err))
	}
	log.Event(report.KindFormatted, journal.PriNotice, f, d, path, fmt.Sprintf("%s: formatted: %s %s", report.Name(f), class.Create, uuid))
	if err != nil {
		return c, 0, err
	}
	return disk.Content{Kind: disk.Filesystem, Type: class.Create, UUID: uuid, Proven: true, Made: true, Evidence: []string{"made by hotmount and read back"}}, 0, nil
}

// readFor has the scan say what the disk is read for, and once comparing was called, that the
// token is looked at; over is the operator's word. It gives on what condition the disk is formatted.
func readFor(scan *report.Scan, over bool) (condition string, comparing func()) {
	if !over {
		return "it is proven blank", func() {}
	}
	scan.Doing = "reading what is on it, for the token"
	return "the token holds", func() { scan.Doing = "comparing what is on it with the token" }
}

// conclude ends the format that began on a disk that is not to be formatted, if what is
// on it is what came of that.
func conclude(ctx context.Context, log *report.Log, session *format.Session, f *disk.Facts, c *disk.Content, d disk.Decision, path string) error {
	o := outcome(f, c, d)
	if c.Made = o.made; o.made && d.Action != disk.Ignore {
		if err := session.Finish(ctx); err != nil {
			return err
		}
	}
	var err error
	switch {
	case o.ends:
		err = host().Store.EndFormat(policy.Intent(f, c).UUID, o.failure)
	case o.leaves:
		err = host().Store.Leave(policy.Intent(f, c).UUID)
	}
	if err != nil {
		log.Event(report.KindProblem, journal.PriErr, f, d, path, fmt.Sprintf("%s: %v", f.Node(), err))
	}
	return nil
}

// lastWord decides once more when the disk is read. What it was read for, a class and an
// unfinished format or none, has to be as it was before it is written to; over is the operator's
// word.
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
		return d, errors.New("the configuration of its class has changed while it was proven blank: it has to be proven again")
	case c.Kind == disk.HalfMade && !over && !sameIntent(proven, &f.Standing):
		return d, errors.New("which unfinished format is this disk's has changed while it was read: it has to be read again")
	}
	return d, nil
}

// asProven says whether the disk's class is as it was when the disk was proven blank for it, in
// what that and the format go by.
func asProven(then, now *disk.Class) bool {
	return now != nil && now.Name == then.Name && now.Blank == then.Blank && now.Directory == then.Directory && now.Create == then.Create
}

// sameIntent says whether what the disk was proven for is on record of it still: a half-made
// filesystem is known, and its rest is read, by the intent.
func sameIntent(then, now *disk.Standing) bool {
	if then.Intent == nil || now.Intent == nil {
		return then.Intent == now.Intent
	}
	return then.Intent.UUID == now.Intent.UUID && then.IntentDoubt == now.IntentDoubt && then.IntentBySlot == now.IntentBySlot
}

// intentFor is what is recorded before the first write. A half-made ext4 is made again in
// the same way, to be known after the next crash, too.
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

// intendedUUID is that of the disk's unfinished format, or a new one. The same
// one is used until the format has ended, so that a disk has one intent at most. Over
// a copy of another disk the operator wants a filesystem of its own, and what may be
// but the next disk in the slot must not become the other's twin.
func intendedUUID(f *disk.Facts, over bool) (string, error) {
	if i := f.Standing.Intent; i != nil && !f.Standing.IntentBySlot && !(over && ofAnother(f)) {
		return i.UUID, nil
	}
	// The kernel's generator of random UUIDs (random(4)).
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

// ending is what has become of a format that began on a disk that is not to be formatted.
type ending struct {
	// made says that mkfs had made the filesystem after all.
	made bool
	// ends says that the intent ends, which it also does with failure: when the operator
	// has accepted what is there instead.
	ends    bool
	failure error
	// leaves says that what the operator has accepted may be but the next disk in the
	// slot: the intent stays, for the one that carries its UUID.
	leaves bool
}

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
		return ending{ends: true, failure: fmt.Errorf("the disk holds %s %s, and that was accepted", disk.Visible(c.Type), c.UUID)}
	}
	return ending{}
}

// ofAnother says that the intent is another disk's, of which this one is a copy: it is not
// ended here.
func ofAnother(f *disk.Facts) bool {
	return f.Standing.IntentDoubt && !f.Standing.Intent.Identity.Like(f.Identity(""))
}

// prototype makes the file that tells mkfs.xfs owner and mode of the root
// directory; its path is empty where that is not needed.
func prototype(class *disk.Class) (path string, remove func(), err error) {
	remove = func() {}
	if class.Create != disk.XFS {
		return "", remove, nil
	}
	text, err := format.Prototype(class.RootOwner, class.RootMode)
	if err != nil || text == "" {
		return "", remove, err
	}
	f, err := os.CreateTemp("", "hotmount-root-")
	if err != nil {
		return "", remove, fmt.Errorf("cannot write down the root directory's owner: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", remove, fmt.Errorf("cannot write down the root directory's owner: %w", err)
	}
	return f.Name(), func() { os.Remove(f.Name()) }, nil
}
