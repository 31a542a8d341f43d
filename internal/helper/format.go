package helper

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/grow"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/store"
)

// job is the work of one run of hotmount-format@.service on one disk.
type job struct {
	host  inventory.Host
	log   *report.Log
	place *store.Place // the right to read the disk in full, given back after the reading
	token string       // the operator's token, or empty if there is none
	// j.again is set if the job examines a disk after a failed mount. The daemon has already logged the failure, so the
	// job logs the content only if the new decision is not disk.Mount.
	again bool
	// The facts and settings are from the last look at the disk. decideAgain reads the facts and settings again before
	// the first write to the disk.
	facts    *disk.Facts
	settings *disk.Settings
}

// Format is the whole program of hotmount-format@.service. Format examines the disk, proves what is on the disk, and
// makes the decision with the same function as the daemon. If the decision is disk.Format, Format makes the filesystem.
// Format saves the result of a proof as a verdict for the daemon. With the operator's token, Format saves an answer for
// the operator, and a verdict only after success. Format returns an error only if it cannot save its result.
func Format(ctx context.Context, h inventory.Host, seq uint64) error {
	log := report.New()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	scan := report.NewScan(log, nil)
	place := h.Store.LaterPlace(func() {
		scan.Status("waiting until other disks have been read", readPatience)
	})
	defer place.Free()
	f, err := awaitTurn(ctx, h, s, seq, place)
	if err != nil {
		return err
	}
	j := &job{host: h, log: log, place: place, facts: f, settings: s}
	if j.token, err = h.Store.TakeToken(seq); err != nil {
		return err
	}
	if j.token != "" {
		return j.formatConfirmed(ctx)
	}
	c := f.KnownContent()
	// Format also reads a disk whose filesystem could not be mounted.
	d := policy.Decide(f, &c, s)
	if d.Action != disk.Prove && d.Action != disk.Format && (d.Action != disk.Mount || c.Proven) {
		return j.nothingToProve(&c, d)
	}
	j.again = d.Action == disk.Mount
	// Format checks the state directory first, because reading the disk would be in vain if the state directory is
	// full. If the disk has an unfinished format, Format skips the check, because the disk may hold a complete
	// filesystem that must be mounted.
	if f.Standing.Intent == nil && c.Kind == disk.Unread {
		if err := h.Store.Check(); errors.Is(err, unix.ENOSPC) {
			return nil // hotmount holds the disk from now on
		} else if err != nil {
			return err
		}
	}
	v, err := j.verdict(ctx)
	if err != nil {
		return err
	}
	return h.Store.SaveVerdict(v)
}

// awaitTurn returns the facts of the disk. If the disk may have to be read in full, awaitTurn first waits for the right
// to read (store.Place).
func awaitTurn(ctx context.Context, h inventory.Host, s *disk.Settings, seq uint64, place *store.Place) (*disk.Facts, error) {
	f, err := asking(h, s).BySeq(seq)
	if err != nil {
		return nil, err
	}
	// Without a token, awaitTurn waits only if the decision is Prove or Format. After a failed mount, awaitTurn does
	// not wait. After a failed mount, hotmount reads the disk in full only if wipefs(8) and blkid(8) find nothing on
	// it. During this full read, the method making.progress waits until it is this disk's turn.
	noToken, err := h.Store.Taken(seq)
	if err != nil {
		return nil, err
	}
	if noToken {
		c := f.KnownContent()
		if action := policy.Decide(f, &c, s).Action; action != disk.Prove && action != disk.Format {
			return f, nil
		}
	}
	if err := place.Progress(ctx); err != nil {
		return nil, err
	}
	// awaitTurn reads the facts again, because the wait may have been long.
	return asking(h, s).BySeq(seq)
}

// nothingToProve logs that the disk is not read, and why.
func (j *job) nothingToProve(c *disk.Content, d disk.Decision) error {
	f := j.facts
	why, _ := policy.Words(f, c, j.settings, d)
	j.log.Event(report.KindProven, journal.PriNotice, f, d, "", fmt.Sprintf("%s: nothing to prove, because the decision is %s (%s)", f.Node(), d.Action, why))
	if len(f.Loops) == 0 {
		return nil
	}
	// The daemon has no right to open loop devices, so it can miss a loop device on the disk. The verdict tells the
	// daemon why the disk is not read.
	return j.host.Store.SaveVerdict(disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: why, Retry: true})
}

// verdict proves what is on the disk, formats the disk if policy allows this, and returns the result for the daemon.
func (j *job) verdict(ctx context.Context) (disk.Verdict, error) {
	f := j.facts // the facts before the proof
	v := disk.Verdict{Seq: f.Seq, Size: f.Size}
	var err error
	v.Content, v.Writes, err = j.proveAndMake(ctx)
	if v.Content.Kind == disk.Filesystem && !v.Content.Torn && err == nil {
		var g disk.Geometry
		g, err = grow.Measure(f.Node(), v.Content.Type)
		v.Content.Span = g.Size
	}
	if err == nil {
		return v, nil
	}
	v.Content, v.Failure, v.Shared = disk.Content{}, err.Error(), errors.Is(err, format.ErrShared)
	v.Retry = format.Retry(err)
	if last := f.Standing.Verdict; last == nil || last.Failure != v.Failure { // otherwise an earlier attempt has logged the same failure
		j.log.Event(report.KindFailed, journal.PriErr, f, disk.Decision{Action: disk.Prove}, "", fmt.Sprintf("%s: %v", f.Node(), err))
	}
	// A verdict is valid only while the kernel's count of writes to the disk does not change. If a verdict contains a
	// failure, the verdict describes no content. Such a verdict can therefore contain the current count of writes.
	now, err := j.host.Counters(f.Name)
	v.Writes = now.Writes
	return v, err
}

// formatConfirmed formats the disk with the operator's token, and saves the answer for the waiting `hotmount format`
// command.
func (j *job) formatConfirmed(ctx context.Context) error {
	f := j.facts
	j.log.Event(report.KindProven, journal.PriNotice, f, disk.Decision{}, "", fmt.Sprintf("%s: the operator ordered a format, whatever is on the disk", report.Name(f)))
	v := disk.Verdict{Seq: f.Seq, Size: f.Size}
	var answer store.Answer
	err := j.host.Store.Check()
	if err == nil {
		err = checkConfirmable(f, j.settings)
	}
	if err == nil {
		v.Content, v.Writes, err = j.proveAndMake(ctx)
	}
	if err != nil {
		answer.Failure = err.Error()
		j.log.Event(report.KindFailed, journal.PriErr, f, disk.Decision{}, "", fmt.Sprintf("%s: %v", f.Node(), err))
		return j.host.Store.SaveAnswer(f.Seq, answer)
	}
	answer.UUID, answer.Type = v.Content.UUID, v.Content.Type
	// If the old records stayed, hotmount would hold the newly formatted disk until the operator accepts it.
	if f.Standing.Given != nil {
		err = j.host.Store.RemoveGiven(f)
	}
	if f.Standing.Unmounted != "" {
		err = errors.Join(err, j.host.Store.Accept(f, "", disk.Word{}))
	}
	if err != nil {
		j.log.Event(report.KindProblem, journal.PriErr, f, disk.Decision{}, "", fmt.Sprintf("%s: %v", f.Node(), err))
	}
	return errors.Join(j.host.Store.SaveVerdict(v), j.host.Store.SaveAnswer(f.Seq, answer))
}

// checkConfirmable returns an error if hotmount refuses to format the disk even with a token, whatever the disk's
// content is.
func checkConfirmable(f *disk.Facts, s *disk.Settings) error {
	d, ok := policy.Confirmable(f, &disk.Content{Kind: disk.Unknown, Proven: true}, s)
	if ok {
		return nil
	}
	return notConfirmable(f, &disk.Content{Kind: disk.Unknown}, s, d)
}

// notConfirmable returns the error for a disk that hotmount refuses to format, although the operator requests the
// format.
func notConfirmable(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) error {
	why, next := policy.Words(f, c, s, d)
	if next != "" {
		why += "; " + next
	}
	but := "a token cannot override the decision "
	if d.Action == disk.Hold || d.Reason == disk.ReasonSerialTwice { // the disk's content may be a reason, too
		but = ""
	}
	return fmt.Errorf("cannot format %s: %s%s: %s", f.Name, but, d.Action, why)
}
