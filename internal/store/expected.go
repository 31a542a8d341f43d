package store

import (
	"slices"
	"sync"

	"hotmount/internal/disk"
)

// Expectations are what was seen and is not recorded yet, or could not be. The zero value is ready, and is for one
// Store. Nil expects nothing.
type Expectations struct {
	mu  sync.Mutex
	all []disk.Sighting
}

// Expect has Load go by the sighting from now on, before Remember has recorded it and also if
// that fails.
func (e *Expectations) Expect(s disk.Sighting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, s)
	e.all = e.all[max(0, len(e.all)-sightingsKept):]
}

// Expected returns what is still to be recorded, in the order in which it was seen.
func (e *Expectations) Expected() []disk.Sighting {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Recorded notes that Remember has recorded them. It ends what was expected of the same filesystems before, even
// if that could not be recorded.
func (e *Expectations) Recorded(seen []disk.Sighting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range seen {
		i := slices.Index(e.all, s)
		if i < 0 {
			continue
		}
		later := slices.Clone(e.all[i+1:])
		e.all = append(slices.DeleteFunc(e.all[:i], func(o disk.Sighting) bool { return o.UUID == s.UUID }), later...)
	}
}

// sightings returns what is remembered of filesystems and what is expected to be: that first, for
// what Recorded ends meanwhile is in the file.
func (e *Expectations) sightings(s Store) ([]disk.Sighting, error) {
	if e == nil {
		return s.Sightings()
	}
	expected := e.Expected()
	all, err := s.Sightings()
	if len(expected) > 0 {
		all, _, _ = merge(all, expected)
	}
	return all, err
}
