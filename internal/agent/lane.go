package agent

import (
	"context"
	"time"
)

// lane holds the disks that wait for one kind of work, in order. At most limit pieces of work of that kind run at once.
// Since each kind has its own limit, disks that hang during a format do not delay the mounts of other disks.
type lane struct {
	waiting []string
	running int
	limit   int
	// overdue counts work that has taken too long and no longer counts in running. running plus overdue is at most
	// most. If most is 0, running plus overdue has no limit.
	overdue, maxStarted int
}

func (l *lane) add(name string) { l.waiting = append(l.waiting, name) }

// next returns the name of the next disk. ok is false if no disk waits or no more work may begin.
func (l *lane) next() (name string, ok bool) {
	if l.running >= l.limit || l.maxStarted > 0 && l.running+l.overdue >= l.maxStarted || len(l.waiting) == 0 {
		return "", false
	}
	name, l.waiting = l.waiting[0], l.waiting[1:]
	return name, true
}

// Limits of the lanes.
const (
	// mountsPerWorker is above 1 because mounts mostly wait for PID 1, which starts the mounts of fstab all at once.
	mountsPerWorker = 4
	// proofsAtOnce allows two units that read (internal/store, ScanPlace) and two more that begin or end. Each such
	// unit takes at least 3 MiB of memory.
	proofsAtOnce = 4
	// A proof that takes longer than proofPatience may hang, or may wait to read. Such a proof no longer counts against
	// proofsAtOnce, but at most proofsInAll proofs run.
	proofsInAll   = 64
	proofPatience = time.Minute
	// growthsAtOnce is how many filesystems are measured and grown at the same time.
	growthsAtOnce = 2
)

// lanes are all lanes of the loop, one for each kind of work.
type lanes struct{ looks, mounts, proofs, grows, questions lane }

// setLimits sets the limits of the lanes. workers is the key workers of the configuration.
func (l *lanes) setLimits(workers int) {
	l.looks.limit = workers
	l.mounts.limit = mountsPerWorker * workers
	l.proofs.limit, l.proofs.maxStarted = proofsAtOnce, proofsInAll
	l.grows.limit = growthsAtOnce
	l.questions.limit = workers
}

// startWork runs work in a new goroutine. The function that work returns is then run by the loop.
func (a *Agent) startWork(ctx context.Context, l *lane, work func() func()) {
	l.running++
	a.work.Go(func() {
		result := work()
		a.give(ctx, func() {
			l.running--
			result()
		})
	})
}

// beginProof is begin for work that may hang: after proofPatience the work counts as overdue.
func (a *Agent) beginProof(ctx context.Context, work func() func()) {
	l := &a.lanes.proofs
	var overdue, ended bool // used only by the loop
	a.startWork(ctx, l, func() func() {
		late := time.AfterFunc(proofPatience, func() {
			a.give(ctx, func() {
				if overdue = !ended; overdue {
					l.running--
					l.overdue++
				}
			})
		})
		defer late.Stop()
		result := work()
		return func() {
			if ended = true; overdue { // startWork subtracts the work from running again
				l.running++
				l.overdue--
			}
			result()
		}
	})
}

// give passes a result to the loop, unless the loop has ended.
func (a *Agent) give(ctx context.Context, result func()) {
	select {
	case a.results <- result:
	case <-ctx.Done():
	}
}
