package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// scansAtOnce is how many disks are read in full at once, by all processes of
// this node together.
const scansAtOnce = 2

// How often a place is tried again, and how often the waiting is spoken of:
// flock(2) waits for one file only, and not with a context.
const (
	placeEvery = 100 * time.Millisecond
	placeWord  = 10 * time.Second
)

// ScanPlace waits for one of the places to read a disk. It is given back by free,
// which may be called more than once, and by the end of the process, however that
// comes. While it waits, waiting is called at once and then every ten seconds.
func (s Store) ScanPlace(ctx context.Context, waiting func()) (free func(), err error) {
	tick := time.NewTicker(placeEvery)
	defer tick.Stop()
	var word time.Time
	for {
		for i := range scansAtOnce {
			f, err := takePlace(filepath.Join(s.Runtime, "scan."+strconv.Itoa(i)))
			if err != nil {
				return nil, fmt.Errorf("cannot wait for other scans: %w", err)
			}
			if f != nil {
				return func() { _ = f.Close() }, nil // nothing was written
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

// takePlace gives nil for a place that somebody has.
func takePlace(path string) (*os.File, error) {
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
