package store

import (
	"slices"
	"sync"

	"hotmount/internal/disk"
)

// Expectations are sightings that are not recorded yet, or could not be. The zero value is ready, and is for one Store.
// Nil has no sightings.
type Expectations struct {
	mu  sync.Mutex
	all []disk.Sighting
}

// Expect makes Load use the sighting from now on, before Remember has recorded it and even if that fails.
func (e *Expectations) Expect(s disk.Sighting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = last(append(e.all, s))
}

// Expected returns the sightings still to be recorded, in the order in which they were seen.
func (e *Expectations) Expected() []disk.Sighting {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Recorded notes that Remember has recorded the sightings. It also drops older sightings of the same filesystems, even
// if they could not be recorded.
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

// sightings returns the recorded sightings merged with the expected ones. It reads the expected ones first: those that
// Recorded drops meanwhile are in the file.
func (e *Expectations) sightings(s Store) ([]disk.Sighting, error) {
	if e == nil {
		return s.Sightings()
	}
	expected := e.Expected()
	all, err := s.Sightings()
	if len(expected) > 0 {
		all = last(merge(all, expected))
	}
	return all, err
}
