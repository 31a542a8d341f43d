package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// encoder makes JSON of a list again and again of which few entries change: with hundreds of disks
// most of the time would go into the others. The zero value is ready.
type encoder[T comparable] struct {
	mu sync.Mutex
	// last is the last list, encoded are its entries.
	last    []T
	encoded [][]byte
}

// list gives the JSON array as json.MarshalIndent does with two spaces for each level, as the value of
// something that is indented by prefix. An entry is not encoded again if the last list had it, and what
// was before it then still is.
func (e *encoder[T]) list(all []T, prefix string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, encoded := e.last, e.encoded
	e.last, e.encoded = slices.Clone(all), make([][]byte, 0, len(all))
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range all {
		var entry []byte
		if at := slices.Index(last, v); at >= 0 {
			entry = encoded[at]
			last, encoded = last[at+1:], encoded[at+1:]
		} else {
			var err error
			if entry, err = json.MarshalIndent(v, prefix+"  ", "  "); err != nil {
				e.last = nil
				return nil, err
			}
		}
		e.encoded = append(e.encoded, entry)
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + prefix + "  ")
		b.Write(entry)
	}
	if len(all) > 0 {
		b.WriteString("\n" + prefix)
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}
