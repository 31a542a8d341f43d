package agent

import (
	"context"
	"time"
)

// lane holds the disks that wait for one kind of work, in order. At most limit pieces of that work run at once. So
// disks that hang during a format do not delay the mounts of others.
type lane struct {
	waiting []string
	running int
	limit   int
	// overdue counts work that has taken too long and is no longer counted in running. running plus overdue is at most
	// most, unless that is 0.
	overdue, most int
}

func (l *lane) add(name string) { l.waiting = append(l.waiting, name) }

// next returns the name of the next disk, if there is one and work may begin.
func (l *lane) next() (name string, ok bool) {
	if l.running >= l.limit || l.most > 0 && l.running+l.overdue >= l.most || len(l.waiting) == 0 {
		return "", false
	}
	name, l.waiting = l.waiting[0], l.waiting[1:]
	return name, true
}

// Limits of the lanes.
const (
	// mountsPerWorker is above 1 because mounts wait for PID 1, which starts those of fstab all at once.
	mountsPerWorker = 4
	// proofsAtOnce lets two units read (internal/store, ScanPlace) and two more begin or end. Each takes 3 MiB of
	// memory or more.
	proofsAtOnce = 4
	// A proof that takes longer than proofPatience may hang, or wait to read. It no longer counts, up to proofsInAll.
	proofsInAll   = 64
	proofPatience = time.Minute
	// growthsAtOnce is how many filesystems are measured and grown at once.
	growthsAtOnce = 2
)

// lanes are all lanes of the loop.
type lanes struct{ looks, mounts, proofs, grows, questions lane }

// setLimits sets the limits for that many workers (the key workers of the configuration).
func (l *lanes) setLimits(workers int) {
	l.looks.limit = workers
	l.mounts.limit = mountsPerWorker * workers
	l.proofs.limit, l.proofs.most = proofsAtOnce, proofsInAll
	l.grows.limit = growthsAtOnce
	l.questions.limit = workers
}

// begin runs work in a new goroutine. The loop runs the function that work returns.
func (a *Agent) begin(ctx context.Context, l *lane, work func() func()) {
	l.running++
	a.work.Go(func() {
		result := work()
		a.give(ctx, func() {
			l.running--
			result()
		})
	})
}

// beginProof is begin for work that may hang: after proofPatience the work is overdue.
func (a *Agent) beginProof(ctx context.Context, work func() func()) {
	l := &a.lanes.proofs
	var overdue, ended bool // used only in the loop
	a.begin(ctx, l, func() func() {
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
			if ended = true; overdue { // begin has subtracted it from running a second time
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
