package helper

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/grow"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/store"
)

// job is one disk in one hotmount-format@.service.
type job struct {
	host  inventory.Host
	log   *report.Log
	place *store.Place // given back once the disk has been read
	token string       // the operator's word, empty without it
	// facts and settings are those of the last look. The look before the first write replaces them.
	facts    *disk.Facts
	settings *disk.Settings
}

// Format is the whole life of one hotmount-format@.service. It looks at the disk, proves
// what is on it, and decides with the daemon's own function. If the answer is Format it
// makes the filesystem. The result is left in the verdict, for the daemon; only what keeps
// it from leaving one is an error.
func Format(ctx context.Context, h inventory.Host, seq uint64) error {
	log := report.New()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	scan := report.NewScan(log, nil)
	place := h.Store.LaterPlace(func() {
		scan.Status("waiting until other disks have been read", readPatience)
		// Many may wait.
		debug.FreeOSMemory()
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
	c := f.Known()
	// What could not be mounted is read as well.
	if d := policy.Decide(f, &c, s); d.Action != disk.Prove && d.Action != disk.Format && (d.Action != disk.Mount || c.Proven) {
		return j.nothingToProve(&c, d)
	}
	// Before the disk is read for nothing. One with an intent may carry a whole
	// filesystem, which has to be mounted all the same.
	if f.Standing.Intent == nil && c.Kind == disk.Unread {
		if err := h.Store.Check(); err != nil {
			return err
		}
	}
	v, err := j.verdict(ctx)
	if err != nil {
		return err
	}
	return h.Store.SaveVerdict(v)
}

// awaitTurn waits until the disk may be read in full, if it may have to be, and returns
// its facts.
func awaitTurn(ctx context.Context, h inventory.Host, s *disk.Settings, seq uint64, place *store.Place) (*disk.Facts, error) {
	f, err := asking(h, s).BySeq(seq)
	if err != nil {
		return nil, err
	}
	// What could not be mounted need not wait for the disks that are read in full. It is
	// read in full only if nothing is named on it after all.
	untold, err := h.Store.Taken(seq)
	if err != nil {
		return nil, err
	}
	c := f.Known()
	if action := policy.Decide(f, &c, s).Action; untold && action != disk.Prove && action != disk.Format {
		return f, nil
	}
	if err := place.Progress(ctx); err != nil {
		return nil, err
	}
	// That may have taken long.
	return asking(h, s).BySeq(seq)
}

// nothingToProve reports that the disk is not read, for the reason of the decision.
func (j *job) nothingToProve(c *disk.Content, d disk.Decision) error {
	f := j.facts
	why, _ := policy.Words(f, c, j.settings, d)
	j.log.Event(report.KindProven, journal.PriNotice, f, d, "", fmt.Sprintf("%s: nothing to prove: %s: %s", f.Node(), d.Action, why))
	if len(f.Loops) == 0 {
		return nil
	}
	// The daemon may open no loop device, so it may not see this.
	return j.host.Store.SaveVerdict(disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: why, Retry: true})
}

// verdict proves the disk, formats it if it may, and returns what the daemon has to know.
func (j *job) verdict(ctx context.Context) (disk.Verdict, error) {
	f := j.facts // as it was before the proof
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
	j.log.Event(report.KindFailed, journal.PriErr, f, disk.Decision{Action: disk.Prove}, "", fmt.Sprintf("%s: %v", f.Node(), err))
	// Of a disk whose writes cannot be counted no verdict is valid. One that failed
	// says only when to try again.
	now, err := j.host.Counters(f.Name)
	v.Writes = now.Writes
	return v, err
}

// formatConfirmed formats the disk by the operator's word, and leaves the answer for the
// command that waits for it.
func (j *job) formatConfirmed(ctx context.Context) error {
	f := j.facts
	j.log.Event(report.KindProven, journal.PriNotice, f, disk.Decision{}, "", fmt.Sprintf("%s: the operator wants it formatted, whatever is on it", report.Name(f)))
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
	return errors.Join(j.host.Store.SaveVerdict(v), j.host.Store.SaveAnswer(f.Seq, answer))
}

// checkConfirmable returns an error if the disk must not be formatted whatever is on it,
// also by the operator's word.
func checkConfirmable(f *disk.Facts, s *disk.Settings) error {
	d, ok := policy.Confirmable(f, &disk.Content{Kind: disk.Unknown, Proven: true}, s)
	if ok {
		return nil
	}
	return notConfirmable(f, &disk.Content{Kind: disk.Unknown}, s, d)
}

// notConfirmable returns the error of a disk that the operator wants formatted and that
// must not be.
func notConfirmable(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) error {
	why, next := policy.Words(f, c, s, d)
	if next != "" {
		why += "; " + next
	}
	but := "it is not refused for what is on it, but "
	if d.Reason == disk.ReasonSerialTwice { // beside that
		but = ""
	}
	return fmt.Errorf("cannot format %s: %s%s: %s", f.Name, but, d.Action, why)
}
