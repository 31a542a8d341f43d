package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// scansAtOnce is how many disks may be read in full at the same time, by all processes of this node together.
const scansAtOnce = 2

// placeEvery is the time between two attempts to get the right to read a disk (a place). hotmount polls, because
// flock(2) can wait for only one file, and a context cannot end the wait of flock(2). A reader that waits for a place
// reports the wait at intervals of placeWord.
const (
	placeEvery = 100 * time.Millisecond
	placeWord  = 10 * time.Second
)

// stallTimeout is the time for which a process may keep its right to read (place) without completing a read. Without
// stallTimeout, two disks on dead storage would keep all other disks from being read.
const stallTimeout = 30 * time.Second

// Place is the right to read a disk in full. ScanPlace and LaterPlace return a Place.
type Place struct {
	store   Store
	waiting func()

	mu   sync.Mutex
	file *os.File    // nil while other processes may take the place
	idle *time.Timer // nil before the first place was taken
	done bool
}

// ScanPlace waits for a place and returns it. The right to read ends when Free is called, or when the process ends. A
// reader loses its place if it does not call Progress for 30 seconds. ScanPlace calls the function `waiting` when it
// begins to wait, and then every ten seconds.
func (s Store) ScanPlace(ctx context.Context, waiting func()) (*Place, error) {
	p := s.LaterPlace(waiting)
	if err := p.Progress(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// LaterPlace returns a Place without waiting. The first call of Progress on the returned Place waits. LaterPlace is for
// a caller that does not know yet whether it must read the disk in full.
func (s Store) LaterPlace(waiting func()) *Place {
	return &Place{store: s, waiting: waiting}
}

// Progress is called at the end of each read, and lets the caller keep its place for another 30 seconds. If the caller
// has no place, Progress first waits for one. After Free, Progress does nothing until Reacquire is called. If Progress
// returns an error, the caller has no place.
func (p *Place) Progress(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	if p.file == nil {
		file, err := p.store.takePlace(ctx, p.waiting)
		if err != nil {
			return err
		}
		p.file = file
	}
	if p.idle == nil {
		p.idle = time.AfterFunc(stallTimeout, p.giveAway)
	}
	p.idle.Reset(stallTimeout)
	return nil
}

// Reacquire waits for a new place after a call of Free.
func (p *Place) Reacquire(ctx context.Context) error {
	p.mu.Lock()
	p.done = false
	p.mu.Unlock()
	return p.Progress(ctx)
}

// Free gives up the right to read, so that another reader can get this right. Free may be called more than once.
func (p *Place) Free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.idle != nil {
		p.idle.Stop()
	}
	p.release()
}

// giveAway lets another process take the place, because no read has ended within stallTimeout.
func (p *Place) giveAway() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Place) release() {
	if p.file != nil {
		_ = p.file.Close() // nothing was written
		p.file = nil
	}
}

func (s Store) takePlace(ctx context.Context, waiting func()) (*os.File, error) {
	tick := time.NewTicker(placeEvery)
	defer tick.Stop()
	var word time.Time
	for {
		for i := range scansAtOnce {
			f, err := lockPlace(filepath.Join(s.Runtime, "scan."+strconv.Itoa(i)))
			if err != nil {
				return nil, fmt.Errorf("cannot wait for other scans: %w", err)
			}
			if f != nil {
				return f, nil
			}
		}
		if now := time.Now(); !now.Before(word) {
			word = now.Add(placeWord)
			waiting()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for other scans: %w", context.Cause(ctx))
		}
	}
}

// lockPlace locks the file at the path. If another process has the lock, lockPlace returns nil without an error.
func lockPlace(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}
