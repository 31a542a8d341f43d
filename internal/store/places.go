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

// scansAtOnce is how many disks all processes of this node together read in full at the same time.
const scansAtOnce = 2

// placeEvery is how often a place is tried again: flock(2) waits for one file only, and without a context. placeWord is
// how often the wait is reported.
const (
	placeEvery = 100 * time.Millisecond
	placeWord  = 10 * time.Second
)

// stalled is how long a disk may keep a place without completing a read. Otherwise two disks on dead storage would
// block the reading of all others.
const stalled = 30 * time.Second

// Place is the right to read a disk in full. Make it with ScanPlace or LaterPlace.
type Place struct {
	store   Store
	waiting func()

	mu   sync.Mutex
	file *os.File    // nil while others may take it
	idle *time.Timer // nil before the first place
	done bool
}

// ScanPlace waits for one of the places to read a disk. Free gives it back, and so does the end of the process. A place
// without a call of Progress for 30 seconds is given away. While ScanPlace waits, it calls waiting at once and then
// every ten seconds.
func (s Store) ScanPlace(ctx context.Context, waiting func()) (*Place, error) {
	p := s.LaterPlace(waiting)
	if err := p.Progress(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// LaterPlace returns a place for which the first call of Progress waits. It suits a caller that may not have to read
// the disk in full.
func (s Store) LaterPlace(waiting func()) *Place {
	return &Place{store: s, waiting: waiting}
}

// Progress reports that a read has ended. If the place was given away meanwhile, Progress waits for another. After an
// error the caller has no place.
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
		p.idle = time.AfterFunc(stalled, p.stall)
	}
	p.idle.Reset(stalled)
	return nil
}

// Again waits for a place after Free.
func (p *Place) Again(ctx context.Context) error {
	p.mu.Lock()
	p.done = false
	p.mu.Unlock()
	return p.Progress(ctx)
}

// Free gives the place back. It may be called more than once.
func (p *Place) Free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.idle != nil {
		p.idle.Stop()
	}
	p.release()
}

// stall gives the place away: no read has ended for that long.
func (p *Place) stall() {
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

// lockPlace returns nil without an error if another process has the place.
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
