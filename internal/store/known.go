package store

import (
	"sync"

	"hotmount/internal/smallfile"
)

// Known is what was read of the state directory by who reads it for each look at a disk:
// the history alone may have megabytes. The zero value is ready, and is for one Store. Nil
// knows nothing.
type Known struct {
	mu    sync.Mutex
	files map[string]knownFile
}

type knownFile struct {
	stamp smallfile.Stamp
	value any
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
	if k.files == nil {
		k.files = map[string]knownFile{}
	}
	k.files[path] = knownFile{stamp, v}
	return v, nil
}
