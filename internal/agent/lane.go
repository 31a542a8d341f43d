package agent

import (
	"context"
	"time"
)

// lane is the queue of the disks that wait for one kind of work. The field `limit` is the largest number of disks whose
// work may run at once, apart from overdue work. Each kind of work has its own limit, so that disks that hang during a
// format do not delay the mounts of other disks.
type lane struct {
	waiting []string
	running int
	limit   int
	// The field `overdue` is the number of disks whose work has taken longer than the lane's patience. The field
	// `running` does not include overdue work. If patience is 0, no work becomes overdue. The sum of `running` and
	// `overdue` is at most maxStarted. If maxStarted is 0, the sum has no limit.
	overdue, maxStarted int
	patience            time.Duration
}

func (l *lane) add(name string) { l.waiting = append(l.waiting, name) }

// The method `next` removes the first disk from the queue, and returns the disk's name. The result `ok` is false if no
// disk waits, or if no more work may begin.
func (l *lane) next() (name string, ok bool) {
	if l.running >= l.limit || l.maxStarted > 0 && l.running+l.overdue >= l.maxStarted || len(l.waiting) == 0 {
		return "", false
	}
	name, l.waiting = l.waiting[0], l.waiting[1:]
	return name, true
}

// Limits of the lanes.
const (
	// mountsPerWorker is more than 1, because a mount mostly waits for PID 1. PID 1 itself starts all mounts of
	// /etc/fstab at once.
	mountsPerWorker = 4
	// proofsAtOnce allows two units that read a disk (store.ScanPlace), and two more units that are starting or ending.
	// Each unit that proves a disk blank takes at least 3 MiB of memory.
	proofsAtOnce = 4
	// A proof that takes longer than proofPatience may hang, or may wait for its turn to read the disk. A proof that
	// takes longer than proofPatience counts only against proofsInAll, and no longer against proofsAtOnce.
	proofsInAll   = 64
	proofPatience = time.Minute
	// A look that takes longer than lookPatience probably hangs on dead storage. The number of looks needs no other
	// limit, because each disk has at most one look at a time.
	lookPatience = 10 * time.Second
	// growthsAtOnce is the largest number of mounted filesystems that are measured and grown at the same time.
	growthsAtOnce = 2
)

// lanes are all lanes of the loop, one for each kind of work.
type lanes struct{ looks, mounts, proofs, grows, questions lane }

// setLimits sets the limits of the lanes. The parameter `workers` is the value of the key `workers` in the
// configuration.
func (l *lanes) setLimits(workers int) {
	l.looks.limit, l.looks.patience = workers, lookPatience
	l.mounts.limit = mountsPerWorker * workers
	l.proofs.limit, l.proofs.maxStarted, l.proofs.patience = proofsAtOnce, proofsInAll, proofPatience
	l.grows.limit = growthsAtOnce
	l.questions.limit = workers
}

// startWork calls work() in a new goroutine. Then the loop calls the function that work() has returned. Work that takes
// longer than the lane's patience counts as overdue.
func (a *Agent) startWork(ctx context.Context, l *lane, work func() func()) {
	l.running++
	var overdue, ended bool // used only by the loop
	patience := l.patience
	a.work.Go(func() {
		if patience > 0 {
			late := time.AfterFunc(patience, func() {
				a.give(ctx, func() {
					if overdue = !ended; overdue {
						l.running--
						l.overdue++
					}
				})
			})
			defer late.Stop()
		}
		result := work()
		a.give(ctx, func() {
			if ended = true; overdue {
				l.overdue--
			} else {
				l.running--
			}
			result()
		})
	})
}

// The method `give` passes a result to the loop, unless the loop has ended.
func (a *Agent) give(ctx context.Context, result func()) {
	select {
	case a.results <- result:
	case <-ctx.Done():
	}
}
