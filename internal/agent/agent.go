// Package agent is the loop of the daemon: it takes hints that a disk may have
// changed, looks at the disk, has the policy decide, and has the decision
// carried out. It knows no system call, no D-Bus and no netlink; what it needs
// of the node it asks for by the interfaces below.
package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// Host is the node's disks.
type Host interface {
	// Names are the kernel names of all attached disks.
	Names() ([]string, error)
	// Look gathers the facts of one disk, without its peers. The error wraps
	// disk.ErrGone if it is not attached any more. It may hang on dead storage.
	Look(name string) (disk.Facts, error)
	// MountedAt says whether the device is mounted at the path, in PID 1's
	// mount table. The error may say that another one is mounted over it.
	MountedAt(path string, dev disk.Dev) (bool, error)
	// Attached gives the sequence number of the disk or partition that has that device
	// number, 0 if none has.
	Attached(dev disk.Dev) (seq uint64, err error)
	// Stale gives what is still mounted in a place that a class gives out although
	// its disk is gone: of each what is known of the disk, and that mount. With an
	// error there may be more.
	Stale(s *disk.Settings) ([]disk.Facts, error)
	// Changed gives the names of those disks, mounted when they were looked at last, of which the
	// mounts, or what the kernel has done to the filesystem (Facts.Fault), are others now. It asks
	// much less than a look does, and may hang as that may.
	Changed(mounted []disk.Facts) ([]string, error)
	// Monotonic is the time of CLOCK_MONOTONIC (clock_gettime(2)).
	Monotonic() time.Duration
	// Accept records the operator's word for this attachment of the disk; without a
	// reason it is for another try alone.
	Accept(f *disk.Facts, w disk.Word) error
	// Keep records that the disk stays held when what it was held for is over:
	// too many formats (ReasonBrake), another disk with its UUID (ReasonTwin), or with
	// the serial of a block volume (ReasonSerialTwice).
	Keep(f *disk.Facts, reason disk.Reason) error
	// KeepUnmounted records that the disk is not to be mounted during this
	// attachment: ReasonReleased or ReasonUnmounted; empty takes that back.
	KeepUnmounted(f *disk.Facts, reason disk.Reason) error
	// Expect has looks go by it from now on that a filesystem was found mounted, or that its
	// disk has left; it fills in the boot.
	Expect(seen disk.Sighting)
	// Remember records what is expected, also what could not be recorded before.
	Remember() error
	// Note records what was found on disks and is not mounted from them, or that it is
	// there no more; it fills in the boot.
	Note(found []disk.Sighting) error
	// Newest gives the highest disk sequence number of those attached that may have
	// been attached together with the disk of that kernel name, which is gone.
	Newest(name string) (uint64, error)
	// Notices gives, in words, what is amiss beside single disks.
	Notices(s *disk.Settings) ([]string, error)
	// Forget drops what was remembered of an attachment that has ended.
	Forget(seq uint64) error
	// SaveSettings hands the settings to the processes that format.
	SaveSettings(s *disk.Settings) error
}

// Units has PID 1 do what the daemon itself can not.
type Units interface {
	// Mount mounts the disk's filesystem of that type and UUID for the class,
	// and returns when the mount unit's job has ended. What PID 1 has begun goes
	// on when ctx ends. The error wraps disk.ErrHeld if the filesystem is in use
	// as another mount of it that is nowhere to be seen, a *disk.NodeError if it failed for a
	// fault of the node's.
	Mount(ctx context.Context, f *disk.Facts, class *disk.Class, uuid, fstype string) error
	// Fill runs the unit that has the disk's filesystem, which is not mounted yet,
	// fill the disk. It goes on when ctx ends.
	Fill(ctx context.Context, seq uint64) error
	// Format runs the unit that proves a disk blank and formats it if it is. It
	// goes on when ctx ends.
	Format(ctx context.Context, seq uint64) error
	// Grow runs the unit that has the disk's mounted filesystem fill the disk. It
	// goes on when ctx ends.
	Grow(ctx context.Context, seq uint64) error
	// GiveOut runs the unit that gives the disk out by a link as long as the disk
	// is there, and returns when the link is made.
	GiveOut(ctx context.Context, seq uint64) error
	// TakeBack ends that unit, and the link.
	TakeBack(ctx context.Context, seq uint64) error
	// Unmount stops the mount unit of that mount point.
	Unmount(ctx context.Context, path string) error
	// UnmountGone takes the mount of a device that is gone, and that can not be
	// unmounted since somebody uses it, off the tree, and names its users.
	UnmountGone(ctx context.Context, path string, dev disk.Dev) error
	// NameHolders names those who still have the filesystem of a disk that is gone
	// elsewhere than at the path, where it was mounted and is not any more.
	NameHolders(ctx context.Context, f *disk.Facts, path string) error
	// Plugged gives the time of CLOCK_MONOTONIC since which PID 1 has the disk's
	// device unit plugged, zero if it has not.
	Plugged(ctx context.Context, f *disk.Facts) (time.Duration, error)
	// RemoveMountPoint removes the directory of a mount that has ended, if it is
	// still there.
	RemoveMountPoint(ctx context.Context, path string) error
}

// Reporter is told what happens, for the journal and for the service manager.
type Reporter interface {
	// Decided is told of each decision that differs from the disk's last one.
	Decided(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision)
	// Mounted is told of each mount that the mount table shows.
	Mounted(f *disk.Facts, d disk.Decision, path string)
	// Failed is told what could not be done, and when it is tried again; a
	// negative wait says that it is not.
	Failed(f *disk.Facts, d disk.Decision, path string, err error, wait time.Duration)
	// Recovered is told of a disk on which something failed before, and nothing
	// has to be done any more.
	Recovered(f *disk.Facts)
	// Gone is told of a disk that was detached; path is where it was mounted.
	Gone(f *disk.Facts, path string)
	// Disregarded is told of a partition that no class asks for any more, and that stays as
	// it is.
	Disregarded(f *disk.Facts)
	// Bounced is told of a mount that ended with a disk that PID 1 took for
	// unplugged, and that is made again.
	Bounced(f *disk.Facts, path string)
	// Notice is told what is amiss beside single disks, each thing once.
	Notice(text string)
	// Problem is told what went wrong beside a single disk.
	Problem(err error)
	// Status is told the state of the whole in one line, Ready that the disks
	// of the start are dealt with, Alive that the loop turns.
	Status(line string)
	Ready()
	Reloading()
	Alive()
}

// checkPeriod is how often those disks that are mounted are asked for faults, beside once when the loop first
// begins to rest: of them no event tells. Events tell the rest, and what they might not a look at all
// (Settings.Rescan).
const checkPeriod = 10 * time.Minute

// restAfter is how long nothing is done until the loop rests.
const restAfter = time.Minute

// patience is how long Run waits for work to end: SIGTERM stops the daemon within
// a second.
const patience = 500 * time.Millisecond

// Agent is the daemon's loop. Make it with New.
type Agent struct {
	host     Host
	units    Units
	report   Reporter
	settings *disk.Settings
	watchdog time.Duration

	queue    *queue
	requests chan func()
	results  chan func()
	checked  chan func() bool // results that no rest is over for; it says whether there is something to do
	work     sync.WaitGroup

	// What follows belongs to the loop's goroutine alone.
	disks    map[string]*state
	leaving  map[string]*departure
	left     uint64          // counts the filesystems whose disks have left
	unsaved  bool            // something is expected that Host.Remember was not called for
	found    []disk.Sighting // not handed to Host.Note yet
	saving   chan struct{}   // closed when the record that is under way is made, nil if there is none
	saved    time.Time       // when the last record of what is mounted was begun, zero if the next one may not wait
	notices  []string        // told already
	noticing bool
	glance   bool // Host.Notices is wanted
	lines    [5]line
	rescans  *time.Ticker
	asked    bool // Host.Changed was called
	checking bool // and is under way, with what is in mounted
	mounted  []disk.Facts
	started  time.Time
	ready    bool
	lastLine string
	told     time.Time // when it was told
	untold   time.Time // when the next one is due, zero if there is none
}

// New makes an agent. Watchdog is the longest time between two calls of Reporter.Alive,
// 0 for never to call it.
func New(h Host, u Units, r Reporter, s *disk.Settings, watchdog time.Duration) *Agent {
	policy.Compile(s)
	a := &Agent{
		host: h, units: u, report: r, settings: s, watchdog: watchdog,
		queue: newQueue(), requests: make(chan func()), results: make(chan func()), checked: make(chan func() bool),
		disks: map[string]*state{}, leaving: map[string]*departure{},
	}
	a.bound()
	return a
}

// Look asks for a look at the disk of that kernel name. It never blocks.
func (a *Agent) Look(name string) { a.queue.add(name) }

// Retry forgets earlier failures and looks at every disk.
func (a *Agent) Retry(ctx context.Context) error { return a.ask(ctx, a.retry) }

func (a *Agent) retry() {
	for _, st := range a.disks {
		st.succeed()
	}
	a.rescan(a.wanted)
}

// LookAtAll asks for a look at every disk. It never blocks.
func (a *Agent) LookAtAll() { a.queue.addAll() }

// Accept takes the operator's word that a held disk may be used, or that one
// that failed is worth another try. The answer is for the operator. Seq is the disk
// sequence number of the attachment that is meant, 0 for whatever disk has the name.
func (a *Agent) Accept(ctx context.Context, name string, seq uint64) (answer string, err error) {
	if askErr := a.ask(ctx, func() { answer, err = a.accept(name, seq) }); askErr != nil {
		return "", fmt.Errorf("cannot accept %s: %w", name, askErr)
	}
	return answer, err
}

// Release unmounts the disk and keeps it unmounted until it is attached again,
// accepted, or the machine booted. Seq is as in Accept.
func (a *Agent) Release(ctx context.Context, name string, seq uint64) error {
	var dep *departure
	var err error
	if askErr := a.ask(ctx, func() { dep, err = a.depart(name, seq) }); askErr != nil {
		return fmt.Errorf("cannot release %s: %w", name, askErr)
	}
	if err != nil {
		return fmt.Errorf("cannot release %s: %w", name, err)
	}
	select {
	case err = <-dep.answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot wait for the end of %s: %w", dep.path, context.Cause(ctx))
	}
}

// Reload replaces the settings, forgets earlier failures and looks at every
// disk.
func (a *Agent) Reload(ctx context.Context, s *disk.Settings) error {
	policy.Compile(s)
	var err error
	if askErr := a.ask(ctx, func() { err = a.reload(s) }); askErr != nil {
		return askErr
	}
	return err
}

// ask has the loop run f, and waits until it has.
func (a *Agent) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case a.requests <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run turns the loop until ctx ends. It touches no mount when it ends: what
// PID 1 has begun is left to it.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.host.SaveSettings(a.settings); err != nil {
		return err
	}
	defer a.wait()

	a.started = time.Now()
	a.rescan(a.wanted)
	for _, st := range a.disks {
		st.initial = true
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	a.rescans = time.NewTicker(a.settings.Rescan)
	defer a.rescans.Stop()
	// The watchdog is fed and what is mounted is asked for faults in one turn: most of what either
	// costs is to wake.
	period := checkPeriod
	if a.watchdog > 0 {
		period = min(period, a.watchdog)
		a.report.Alive()
	}
	beats := time.NewTicker(period)
	defer beats.Stop()
	untilCheck := checkPeriod / period
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for changed := true; ; {
		// What the loop wakes for when it rests changes nothing of this, as a rule.
		if changed {
			a.tell()
			a.start(ctx)
			if next, ok := a.nextDue(); ok {
				timer.Reset(time.Until(next))
			} else {
				timer.Stop()
			}
		}
		changed = true
		select {
		case <-ctx.Done():
			a.saveRest(ctx)
			return nil
		case <-a.queue.poke:
			names, all := a.queue.take()
			if all {
				a.rescan(a.hinted)
			}
			for name := range names {
				a.hinted(name)
			}
		case result := <-a.results:
			result()
		case request := <-a.requests:
			request()
		case <-a.rescans.C:
			a.rescan(a.wanted)
		case <-beats.C:
			if a.watchdog > 0 {
				a.report.Alive()
			}
			if untilCheck--; untilCheck == 0 {
				untilCheck = checkPeriod / period
				a.check(ctx)
			}
			changed = false
			continue
		case result := <-a.checked:
			changed = result()
			continue
		case <-rest.C:
			if !a.asked {
				a.check(ctx)
			}
			continue
		case <-timer.C:
		}
		rest.Reset(restAfter)
	}
}

// check has those disks looked at that are mounted and on which something shows. Where nothing
// does the loop rests on.
func (a *Agent) check(ctx context.Context) {
	if a.checking {
		return
	}
	a.mounted = a.mounted[:0]
	for _, st := range a.disks {
		if st.seen && !st.busy && st.decision.Mounted() {
			a.mounted = append(a.mounted, st.facts)
		}
	}
	if len(a.mounted) == 0 {
		return
	}
	mounted := a.mounted
	a.asked, a.checking = true, true
	at := a.host.Monotonic()
	a.work.Go(func() {
		names, err := a.host.Changed(mounted)
		result := func() bool {
			a.checking = false
			if err != nil {
				a.report.Problem(err)
				return false
			}
			for i := range mounted {
				f := &mounted[i]
				switch st := a.disks[f.Name]; {
				case slices.Contains(names, f.Name):
					a.wanted(f.Name)
				case st != nil && st.facts.Seq == f.Seq && st.decision.Mounted():
					st.alive = max(st.alive, at)
				}
			}
			return len(names) > 0
		}
		select {
		case a.checked <- result:
		case <-ctx.Done():
		}
	})
}

// wait waits for the work that is under way, which ends with the context of Run.
// Only a look at dead storage can not be ended: it hangs in the kernel, and ends
// with the process.
func (a *Agent) wait() {
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

func (a *Agent) reload(s *disk.Settings) error {
	a.report.Reloading()
	err := a.host.SaveSettings(s)
	if err == nil {
		a.settings = s
		a.rescans.Reset(s.Rescan)
		a.bound()
		a.retry()
		// Who has asked for it may wait for its end: READY does not come before the line
		// that tells that there is work.
		a.untold = time.Now()
		a.tell()
	}
	if a.ready {
		a.report.Ready()
	}
	return err
}

func (a *Agent) accept(name string, seq uint64) (string, error) {
	st := a.disks[name]
	switch {
	case st == nil:
		return "", fmt.Errorf("cannot accept %s: no disk of that name is known; see hotmount plan", name)
	case !st.seen && seq == 0:
		st.failures = 0
		a.wanted(name)
		return name + " is looked at once more", nil
	case seq != 0 && st.facts.Seq != seq:
		return "", fmt.Errorf("cannot accept %s: another disk has that name now; see hotmount plan", name)
	}
	w := word(st)
	// What the word was taken for is named: since the operator has read what to accept, another
	// disk may have come to the name, or another reason.
	who := st.facts.ID.String()
	if w.Reason != "" {
		c := st.facts.Known()
		why, _ := policy.Words(&st.facts, &c, a.settings, st.decision)
		who += " (" + why + ")"
	}
	if w.Reason == "" && st.stuck == nil && st.decision.Reason != disk.ReasonFormatFailed && st.facts.Standing.Unmounted == "" {
		// What holds with the settings as they are now, before the disk is looked at again.
		c := st.facts.Known()
		d := policy.Decide(&st.facts, &c, a.settings)
		why, _ := policy.Words(&st.facts, &c, a.settings, d)
		return "", fmt.Errorf("cannot accept %s: %s: %s", name, d.Action, why)
	}
	if err := a.host.Accept(&st.facts, w); err != nil {
		return "", err
	}
	st.succeed()
	// Nobody unmounts it by hand before it is mounted again.
	st.remount = true
	a.wanted(name)
	if w.Reason == "" {
		f := st.facts
		f.Standing.Unmounted, f.Standing.Verdict = "", nil
		c := f.Known()
		if d := policy.Decide(&f, &c, a.settings); d.Action == disk.Ignore || d.Action == disk.Refuse {
			why, _ := policy.Words(&f, &c, a.settings, d)
			return who + " is accepted, and left alone all the same: " + why, nil
		}
	}
	if st.decision.Type != "" || st.decision.Reason == disk.ReasonReleased || st.decision.Reason == disk.ReasonUnmounted {
		return who + " is accepted", nil
	}
	if class := policy.Select(&st.facts, a.settings); class != nil && class.Mode == disk.ModeBlock {
		return who + " is accepted: it is given out as a block volume, and whoever has that overwrites what is on it, unless it is held for something else as well (hotmount status)", nil
	}
	return who + " is accepted: it is formatted if it is proven blank, unless it is held for something else as well (hotmount status)", nil
}

// word is the operator's for what was told of the disk: for what it is held, or refused as
// a twin whose peer is gone. Without a reason it is for another try alone.
func word(st *state) disk.Word {
	d := st.decision
	switch {
	case d.Reason == disk.ReasonFormatOff, d.Reason == st.facts.Standing.Unmounted:
	case d.Action == disk.Hold, d.Reason == disk.ReasonTwin && len(st.facts.SameUUID) == 0:
		return disk.Word{Reason: d.Reason, UUID: d.UUID}
	}
	return disk.Word{}
}

// depart has the disk unmounted at the operator's word.
func (a *Agent) depart(name string, seq uint64) (*departure, error) {
	st := a.disks[name]
	switch {
	case st == nil || !st.seen:
		return nil, errors.New("no disk of that name is known; see hotmount plan")
	case seq != 0 && st.facts.Seq != seq:
		return nil, errors.New("another disk has that name now; see hotmount plan")
	case !st.decision.Mounted() && !st.decision.GivenOut() && (st.decision.Action != disk.Ignore || a.path(st) == ""):
		return nil, fmt.Errorf("it is not mounted or given out by hotmount (%s)", st.decision.Reason)
	case a.leaving[a.path(st)] != nil:
		return nil, errors.New("it is being unmounted")
	}
	// Before it is unmounted: nobody may take that for the hand of another.
	if err := a.host.KeepUnmounted(&st.facts, disk.ReasonReleased); err != nil {
		return nil, err
	}
	dep := &departure{facts: st.facts, path: a.path(st), answer: make(chan error, 1)}
	a.leaving[dep.path] = dep
	return dep, nil
}

// rescan wants a look at every disk that is attached, and at every one that was.
func (a *Agent) rescan(want func(name string)) {
	names, err := a.host.Names()
	if err != nil {
		a.report.Problem(err)
	}
	for _, name := range names {
		want(name)
	}
	for name := range a.disks {
		if !slices.Contains(names, name) {
			want(name)
		}
	}
	a.missed()
	a.glance = true
}

// hinted has the disk looked at because of an event. In a storm of events
// (udevadm trigger, a rule that opens disks for writing) one look answers many:
// the first few are answered at once, then the looks keep their distance.
func (a *Agent) hinted(name string) {
	st := a.disks[name]
	if st == nil || st.mayLook(time.Now()) {
		a.wanted(name)
	}
}

// wanted has the disk looked at, after what is under way on it.
func (a *Agent) wanted(name string) {
	st := a.disks[name]
	if st == nil {
		st = &state{}
		a.disks[name] = st
	}
	if st.busy {
		st.again = true
		return
	}
	st.busy, st.again, st.retry = true, false, time.Time{}
	a.lines[looks].add(name)
}

// nextDue gives the time of the next retry or record, or of the end of the wait for READY.
func (a *Agent) nextDue() (time.Time, bool) {
	var next time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, st := range a.disks {
		earlier(st.retry)
		earlier(st.due)
	}
	for _, dep := range a.leaving {
		earlier(dep.retry)
	}
	if !a.ready {
		earlier(a.started.Add(a.settings.ReadyTimeout))
	}
	if len(a.found) > 0 && a.saving == nil {
		earlier(a.firstSave())
	}
	if a.unsaved && a.saving == nil {
		earlier(later(a.firstSave(), a.saved.Add(saveEvery)))
	}
	earlier(a.untold)
	return next, !next.IsZero()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
