package helper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/policy"
	"hotmount/internal/probe"
	"hotmount/internal/report"
	"hotmount/internal/store"
)

// making is the state of one proof, and of the format that may follow the proof.
type making struct {
	*job
	class      *disk.Class // the disk's class at the time of the proof
	uuid, path string
	decision   disk.Decision
	scan       *report.Scan
	comparing  func() // makes the status show that the disk is compared with the token
	record     *store.Format
	session    *format.Session
	// The function logContent logs the content of a disk that is read after a failed mount (job.again). The field is
	// nil if there is nothing to log.
	logContent func()
}

// proveAndMake returns the final content of the disk, and the write count for which this content is valid. If
// proveAndMake returns an error, the content of the disk is unknown. With the operator's token, proveAndMake overwrites
// the content or returns an error.
func (j *job) proveAndMake(ctx context.Context) (c disk.Content, writes uint64, err error) {
	// hotmount does not read a blank disk again while the class's mount options are wrong.
	if last := j.facts.Standing.Verdict; last.Valid(j.facts) && last.Failure != "" {
		if err := canMount(j.host.Store, policy.Select(j.facts, j.settings), j.facts.ID); err != nil && err.Error() == last.Failure {
			return c, 0, err
		}
	}
	m, err := j.openDisk(ctx)
	if err != nil {
		return c, 0, err
	}
	defer func() { writes, err = m.session.Writes(), errors.Join(err, m.session.Close()) }()
	if c, err = m.prove(ctx); err != nil {
		return c, 0, err
	}
	if err := m.decideAgain(&c); err != nil {
		return c, 0, err
	}
	if m.logContent != nil && m.decision.Action != disk.Mount {
		m.logContent()
	}
	if m.decision.Action != disk.Format {
		err := m.conclude(ctx, &c)
		return c, 0, err
	}
	if err := m.checkUnopened(ctx, &c); err != nil {
		return c, 0, err
	}
	if err := m.makeFilesystem(ctx, &c); err != nil {
		return c, 0, err
	}
	return disk.Content{Kind: disk.Filesystem, Type: m.class.Create, UUID: m.uuid, Proven: true, Made: true, Evidence: []string{"made by hotmount and read back"}}, 0, nil
}

// openDisk chooses the UUID, logs that the disk is read, and opens the disk.
func (j *job) openDisk(ctx context.Context) (*making, error) {
	f, s, log := j.facts, j.settings, j.log
	uuid, err := intendedUUID(f, j.token != "")
	if err != nil {
		return nil, err
	}
	class := policy.Select(f, s)
	m := &making{job: j, class: class, uuid: uuid, path: class.MountPoint(uuid), scan: report.NewScan(log, f), record: &store.Format{Store: j.host.Store, Attached: j.attached}}
	m.decision = disk.Decision{Action: disk.Prove, Class: class.Name, UUID: uuid}
	// In the following journal entries, the field HOTMOUNT_UUID contains the UUID of the filesystem that a format would
	// make.
	var condition string
	condition, m.comparing = readFor(m.scan, j.token != "")
	if j.again {
		m.scan.Doing = "reading the disk, because it could not be mounted"
	} else if v := f.Standing.Verdict; j.token != "" || v == nil || v.Failure == "" { // otherwise an earlier attempt has logged this message
		log.Event(report.KindSeen, journal.PriInfo, f, m.decision, m.path, report.Name(f)+": found; hotmount reads the disk"+m.plannedFilesystem(condition))
	}
	readAgain := func(ctx context.Context) (func(context.Context, probe.Progress), error) {
		m.scan.Doing = "reading the new filesystem, because another process may have written to the disk"
		return m.progress, j.place.Reacquire(ctx)
	}
	tell := func(message string, evidence ...string) {
		m.scan.Status(message, mkfsPatience)
		say := func() {
			log.Event(report.KindProven, journal.PriInfo, m.facts, m.decision, m.path, strings.Join(append([]string{message}, evidence...), "\n  "))
		}
		if j.again && m.decision.Action == disk.Prove {
			m.logContent = say
			return
		}
		say()
	}
	m.session, err = open(ctx, j.host, f, s, format.Deps{Intents: m.record, Progress: m.progress, ReadAgain: readAgain, Log: tell})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// plannedFilesystem returns a clause for a log message with the type and UUID of the filesystem that a format would
// make. The clause is empty if policy would not format even a blank disk.
func (m *making) plannedFilesystem(condition string) string {
	blank := disk.Content{Kind: disk.Blank, Proven: true}
	if m.token == "" && policy.Decide(m.facts, &blank, m.settings).Action != disk.Format {
		return ""
	}
	return "; if " + condition + ", hotmount makes " + m.class.Create + " " + m.uuid + " on the disk"
}

// attached reports whether a disk with that sequence number is attached, or may be attached.
func (j *job) attached(seq uint64) bool {
	_, err := j.host.BySeq(seq)
	return !errors.Is(err, disk.ErrGone)
}

// progress is called while the disk is read.
func (m *making) progress(ctx context.Context, p probe.Progress) {
	// When the context ends, place.Progress returns an error. The scan has the same context, so the scan also ends.
	if err := m.place.Progress(ctx); err != nil {
		m.scan.Status(err.Error(), readPatience)
	}
	m.scan.Progress(p.At, p.Size, p.Read, m.settings.Settle+readPatience)
}

// The method `prove` reads the disk. If there is no token, the method then gives back the right to read, so that
// another unit can read another disk.
func (m *making) prove(ctx context.Context) (disk.Content, error) {
	// The unit waits for the settle time even if it reads only a small part of the disk.
	m.scan.Status("reading "+m.facts.Node(), m.settings.Settle+readPatience)
	// The look at the disks has left garbage. Without this call, two proofs use 17 MiB of private memory together, and
	// TestSlowProof allows 16 MiB.
	debug.FreeOSMemory()
	c, err := m.session.Prove(ctx, m.class.Blank)
	if m.token == "" { // with a token, Make reads samples of the disk again
		m.place.Free()
	}
	return c, err
}

// decideAgain reads the facts and the configuration again before the final decision, because the proof takes time.
// During the proof, the operator may have switched formatting off, or given the disk to another class.
func (m *making) decideAgain(c *disk.Content) (err error) {
	if m.settings, err = m.host.Store.Settings(); err != nil {
		return err
	}
	proven := m.facts.Standing
	if m.facts, err = asking(m.host, m.settings).BySeq(m.facts.Seq); err != nil {
		return err
	}
	if m.token != "" {
		if err = learnFailure(m.host, m.facts, policy.Select(m.facts, m.settings)); err != nil {
			return err
		}
	}
	if m.decision, err = lastWord(m.facts, c, m.settings, m.class, &proven, m.token != ""); err != nil {
		return err
	}
	if i := policy.Intent(m.facts, c); i != nil && i.UUID == c.UUID && m.token == "" {
		m.uuid = c.UUID
		m.path = m.class.MountPoint(m.uuid)
	}
	return nil
}

// conclude finishes the work on a disk that will not be formatted. The method `conclude` ends the intent of an earlier
// format if the disk holds the result of that format, or other content that the operator has accepted.
func (m *making) conclude(ctx context.Context, c *disk.Content) error {
	f, d, log := m.facts, m.decision, m.log
	if !m.again || d.Action != disk.Mount {
		why, _ := policy.Words(f, c, m.settings, d)
		log.Event(report.KindProven, journal.PriInfo, f, d, "", fmt.Sprintf("%s: %s: %s", f.Node(), d.Action, why))
	}
	o := outcome(f, c, d)
	if c.Made = o.made; o.made && d.Action != disk.Ignore {
		if err := m.session.Finish(ctx); err != nil {
			return err
		}
	}
	var err error
	switch {
	case o.ends:
		err = m.host.Store.EndFormat(policy.Intent(f, c).UUID, o.failure)
	case o.leaves:
		err = m.host.Store.RecordLeft(policy.Intent(f, c).UUID)
	}
	if err != nil {
		log.Event(report.KindProblem, journal.PriErr, f, d, m.path, fmt.Sprintf("%s: %v", f.Node(), err))
	}
	return nil
}

// makeFilesystem records the format and runs mkfs.
func (m *making) makeFilesystem(ctx context.Context, c *disk.Content) error {
	f, class := m.facts, m.class
	if err := canMount(m.host.Store, class, f.ID); err != nil {
		return err
	}
	again := c.Kind == disk.HalfMade && m.token == ""
	m.decision.UUID = m.uuid
	boot, err := m.host.Boot()
	if err != nil {
		return err
	}
	intent := intentFor(f, class, m.uuid, boot, again)
	// The token is valid only for the conditions that hotmount showed with the token.
	boot = tokenText(boot, unmetConditions(f, c, m.settings))
	m.record.Record = disk.Record{Name: f.Name, Identity: intent.Identity, Class: class.Name, UUID: m.uuid, Type: class.Create, By: disk.ByDaemon, Evidence: c.Evidence}
	switch {
	case m.token != "":
		m.record.Record.By = disk.ByOperator
	case !f.Standing.Lifted(disk.ReasonBrake, ""):
		m.record.Limit, m.record.Period = m.settings.FormatLimit, m.settings.FormatPeriod
	}
	proto, remove, err := prototype(class)
	if err != nil {
		return errors.Join(err, m.record.Close(err))
	}
	defer remove()
	m.comparing()
	err = m.session.Make(ctx, format.MakeOptions{Mkfs: class.MkfsOptions, Proto: proto, Intent: intent, RecoverHalfMade: again, Token: m.token, Boot: boot})
	if err != nil && !errors.Is(err, format.ErrMade) {
		return errors.Join(err, m.record.Close(err))
	}
	m.log.Event(report.KindFormatted, journal.PriNotice, f, m.decision, m.path, fmt.Sprintf("%s: formatted: %s %s", report.Name(f), class.Create, m.uuid))
	return err
}

// readFor makes the status text of the scan show why the disk is read. The first result is a text that names the
// condition for a format. The caller must call comparing() before the disk is compared with the token. If the parameter
// `over` is set, the operator has ordered the format with a token.
func readFor(scan *report.Scan, over bool) (condition string, comparing func()) {
	if !over {
		return "the disk is proven blank", func() {}
	}
	scan.Doing = "reading the content that the token names"
	return "the token is valid", func() { scan.Doing = "comparing the disk with the token" }
}

// prototype makes the file that gives mkfs.xfs the owner and mode of the root directory. The path is empty if mkfs
// needs no prototype file.
func prototype(class *disk.Class) (path string, remove func(), err error) {
	remove = func() {}
	if class.Create != disk.XFS {
		return "", remove, nil
	}
	text, err := format.Prototype(class.RootOwner, class.RootMode)
	if err != nil || text == "" {
		return "", remove, err
	}
	dir, err := os.MkdirTemp("", "hotmount-root-")
	remove = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, "prototype")
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		remove()
		return "", remove, fmt.Errorf("cannot write the file that tells mkfs.xfs the owner of the root directory: %w", err)
	}
	return path, remove, nil
}
