// Package agent is the loop of the daemon. The loop receives hints that a disk may have changed, and looks at the disk.
// The policy decides what to do with the disk, and the loop carries out the decision. The package uses no system call,
// D-Bus or netlink itself, but only the interfaces Host, Units and Reporter.
//
// The loop keeps a phase for each disk. This table shows how the phase changes:
//
//	phase        what happens                                   next phase
//	(unknown)    an event or a scan finds the disk              looking
//	idle         an event, a scan, a check, an accept           looking
//	idle         a peer came or went, a mount point is free     looking
//	idle         a disk below left, a delayed refusal is due    looking
//	backing off  as for idle, or the retry is due               looking
//	looking      the disk is gone                               (unknown); its mount is leaving
//	looking      a partition, but no class selects partitions   (unknown); its mount stays
//	looking      another disk has the name                      as if gone, and then found
//	looking      the look failed                                backing off
//	looking      nothing is to be done, or nothing yet          idle
//	looking      the mount ended for an unknown reason          waiting (to ask PID 1 why)
//	looking      a refusal or hold must know who uses the disk  waiting (to find out)
//	looking      an action is to be done                        waiting (for its turn)
//	looking      a disk left, and this disk may be its copy     looking
//	looking      an old mount still has the mount point         idle
//	looking      the action to be done failed a moment ago      backing off
//	waiting      its turn has come, to ask a question           acting
//	waiting      its turn has come, the decision still holds    acting
//	waiting      the decision no longer holds                   looking
//	waiting      the look is too old for a mount                looking
//	acting       the action ends, with or without success       looking
//	acting       PID 1 does not tell why a mount ended          backing off
//
// Other software may open a disk without O_EXCL, or mount the disk in another mount namespace. The fields
// Facts.Neighbours and Facts.Unlisted show these two risks. If either field is true, the agent finds out which process
// uses a disk before the agent first uses the disk. In this case, the agent also finds out which process uses a disk
// before hotmount advises the operator to overwrite the disk (ask.go, policy.Asks).
//
// If an event comes while its disk is in the phase looking, waiting or acting, the agent looks at the disk again after
// that phase. If an action has failed and is still needed at the next look, the agent retries the action later.
//
// A mount is leaving (type departure) if its disk is gone, or if the operator has released the disk. The agent unmounts
// a leaving mount, and removes the mount point. Once the mount point is free, the agent looks at every disk that waits
// for the mount point.
package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// Agent is the daemon's loop. Make an Agent with New.
type Agent struct {
	host     Host
	units    Units
	report   Reporter
	settings *disk.Settings
	watchdog time.Duration
	// monotonic returns the time of CLOCK_MONOTONIC.
	monotonic func() time.Duration

	queue    *queue
	requests chan func()
	results  chan func()
	checked  chan func() bool // each function handles the result of a check, and reports whether a disk has changed
	work     sync.WaitGroup

	// Only the goroutine of the loop uses the fields below.
	disks        map[string]*state
	leaving      map[string]*departure // the key is the mount point, or the path of a block volume's link
	lanes        lanes
	saves        saves
	noticeSearch noticeSearch
	status       status
	check        check
	// The field `gathering` is true while Host.Gather runs for looks. The next call of Host.Gather waits until
	// gatherDue, or does not wait if gatherDue is zero.
	gathering bool
	gatherDue time.Time
	leftCount uint64 // number of disks that have left and had a filesystem on record
	rescans   *time.Ticker
	started   time.Time
	ready     bool
	// Tests set phaseChanged, and the loop then calls it at each change of a disk's phase.
	phaseChanged func(from, to phase)
}

// New returns an agent. The parameter `watchdog` is the longest time between two Alive notifications to systemd, or 0
// without a watchdog. The function `monotonic` returns the time of CLOCK_MONOTONIC (clock_gettime(2)).
func New(h Host, u Units, r Reporter, s *disk.Settings, watchdog time.Duration, monotonic func() time.Duration) *Agent {
	s = policy.Compile(s)
	a := &Agent{
		host: h, units: u, report: r, settings: s, watchdog: watchdog, monotonic: monotonic,
		queue: newQueue(), requests: make(chan func()), results: make(chan func()), checked: make(chan func() bool),
		disks: map[string]*state{}, leaving: map[string]*departure{},
	}
	a.lanes.setLimits(s.Workers)
	return a
}

// Look asks the loop to look at the disk with that kernel name. Look never blocks.
func (a *Agent) Look(name string) { a.queue.add(name) }

// LookAtAll asks the loop to look at every disk. LookAtAll never blocks.
func (a *Agent) LookAtAll() { a.queue.addAll() }

// LookAt requests a look at the attachment with the disk sequence number seq. LookAt is for an event that contains the
// sequence number of a disk, but not the disk's name.
func (a *Agent) LookAt(ctx context.Context, seq uint64) error {
	return a.ask(ctx, func() {
		for name, st := range a.disks {
			if st.facts.Seq == seq {
				a.hinted(name)
			}
		}
	})
}

// Retry forgets earlier failures and looks at every disk.
func (a *Agent) Retry(ctx context.Context) error { return a.ask(ctx, a.retry) }

// Accept accepts a held disk, or allows another try after a failure. Accept returns the answer for the operator. The
// parameter seq is the disk sequence number of the intended attachment, or 0 for any disk with that name. The parameter
// `shown` is the reason for the hold that hotmount has shown to the operator. If the reason has changed since then,
// Accept returns an error. If `shown` is empty, Accept does not check the reason.
func (a *Agent) Accept(ctx context.Context, name string, seq uint64, shown disk.Reason) (answer string, err error) {
	if askErr := a.ask(ctx, func() { answer, err = a.accept(name, seq, shown) }); askErr != nil {
		return "", fmt.Errorf("cannot accept %s: %w", name, askErr)
	}
	return answer, err
}

// Release unmounts the disk, or removes the link of a block volume. hotmount neither mounts the disk nor gives it out
// again until the disk is attached again or accepted, or until a reboot. The parameter seq is the disk sequence number
// of the intended attachment, as in Accept.
func (a *Agent) Release(ctx context.Context, name string, seq uint64) error {
	var dep *departure
	var err error
	if askErr := a.ask(ctx, func() { dep, err = a.startDeparture(name, seq) }); askErr != nil {
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

// Reload replaces the settings, forgets earlier failures and looks at every disk.
func (a *Agent) Reload(ctx context.Context, s *disk.Settings) error {
	s = policy.Compile(s)
	return a.ask(ctx, func() { a.reload(s) })
}

// The method `problem` reports the error err, which concerns no single disk. If err is nil, there is no report.
func (a *Agent) problem(err error) {
	if err != nil {
		a.report.Report(disk.Event{Kind: disk.EventProblem, Err: err})
	}
}

// The method `ask` calls the function `f` in the goroutine of the loop, and waits until `f` has returned.
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
