package store

import (
	"errors"
	"os"
	"slices"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/smallfile"
)

// Known is what was read of the state directory by who reads it for each look at a disk:
// the history alone may have megabytes. The zero value is ready, and is for one Store. Nil
// knows nothing.
type Known struct {
	mu    sync.Mutex
	files map[string]knownFile

	// expecting is held by nobody who reads a file.
	expecting sync.Mutex
	// expected is what Remember is still to record, or could not.
	expected []disk.Sighting
}

type knownFile struct {
	stamp smallfile.Stamp
	value any
	// held is the file, open, where it is known by who wrote it.
	held *os.File
}

// once gives what read makes of the file, as it did before if the file has not changed
// since. What comes of it is not to be changed.
func once[T any](k *Known, path string, read func() (T, error)) (T, error) {
	if k == nil {
		return read()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f, ok := k.files[path]; ok && f.stamp.Holds() {
		return f.value.(T), nil
	}
	stamp := smallfile.StampOf(path)
	v, err := read()
	if err != nil {
		return v, err
	}
	k.set(path, knownFile{stamp: stamp, value: v})
	return v, nil
}

// wrote says what is in a file by which the caller has just replaced the one at the path, and takes it
// over: as long as it is open it need not be doubted because it is young, and is not read again by each look
// of the next seconds. hotmount never writes into such a file, it replaces it.
func wrote[T any](k *Known, path string, now *os.File, value T) error {
	stamp, err := smallfile.StampOfOpen(path, now)
	if err != nil {
		return errors.Join(err, now.Close())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(path, knownFile{stamp: stamp, value: value, held: now})
	return nil
}

// set is called with mu held.
func (k *Known) set(path string, f knownFile) {
	if k.files == nil {
		k.files = map[string]knownFile{}
	}
	if held := k.files[path].held; held != nil {
		_ = held.Close() // nothing was written by it
	}
	k.files[path] = f
}

// Remember is Store.Remember, for who has Load go by what it records.
func (k *Known) Remember(s Store, seen []disk.Sighting) error { return s.remember(k, seen) }

// Expect has Load go by the sighting from now on, before Remember has recorded it and also if
// that fails.
func (k *Known) Expect(s disk.Sighting) {
	k.expecting.Lock()
	defer k.expecting.Unlock()
	k.expected = append(k.expected, s)
	k.expected = k.expected[max(0, len(k.expected)-sightingsKept):]
}

// Expected gives what is still to be recorded, in the order in which it was seen.
func (k *Known) Expected() []disk.Sighting {
	k.expecting.Lock()
	defer k.expecting.Unlock()
	return slices.Clone(k.expected)
}

// Recorded says that Remember has recorded them. What was expected of the same filesystems before
// is over with that, also where it could not be recorded.
func (k *Known) Recorded(seen []disk.Sighting) {
	k.expecting.Lock()
	defer k.expecting.Unlock()
	for _, s := range seen {
		i := slices.Index(k.expected, s)
		if i < 0 {
			continue
		}
		later := slices.Clone(k.expected[i+1:])
		k.expected = append(slices.DeleteFunc(k.expected[:i], func(o disk.Sighting) bool { return o.UUID == s.UUID }), later...)
	}
}

// sightings gives what is remembered of filesystems and what is expected to be: that first, for
// what Recorded ends meanwhile is in the file.
func (k *Known) sightings(s Store) ([]disk.Sighting, error) {
	if k == nil {
		return s.Sightings()
	}
	expected := k.Expected()
	all, err := once(k, s.sightingsFile(), s.Sightings)
	if len(expected) > 0 {
		all, _, _ = merge(slices.Clone(all), expected)
	}
	return all, err
}
