package store

import (
	"slices"
	"sync"

	"hotmount/internal/disk"
)

// Expectations are sightings that are not recorded yet, or that could not be recorded. The zero value is ready for use.
// Do not use the same Expectations value for several Stores. A nil *Expectations contains no sightings.
type Expectations struct {
	mu  sync.Mutex
	all []disk.Sighting
}

// Expect makes Load use the sighting from now on, even if Remember has not recorded the sighting yet or cannot record
// it.
func (e *Expectations) Expect(s disk.Sighting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = lastKept(append(e.all, s))
}

// Expected returns the sightings that are not recorded yet, in the order in which hotmount saw them.
func (e *Expectations) Expected() []disk.Sighting {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// Recorded is called after Remember has written the sightings to the file. Recorded drops these sightings, and all
// older sightings of the same filesystems, even if the older sightings could not be recorded.
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

// The method `sightings` returns the recorded sightings, merged with the expected sightings. The expected sightings are
// read before the file is read, because Recorded drops a sighting only after the sighting is in the file.
func (e *Expectations) sightings(s Store) ([]disk.Sighting, error) {
	if e == nil {
		return s.Sightings()
	}
	expected := e.Expected()
	all, err := s.Sightings()
	if len(expected) > 0 {
		all = lastKept(merge(all, expected))
	}
	return all, err
}
