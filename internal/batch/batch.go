// Package batch has those who ask for the same thing at the same time given one answer.
package batch

import (
	"runtime"
	"sync"
)

// Batch is one kind of work that several ask for. The zero value is ready.
type Batch[T any] struct {
	mu   sync.Mutex
	next *answer[T] // whose work has not begun
	// working has room for the one that works. It is no mutex, so that a test can wait until all
	// wait (testing/synctest).
	working chan struct{}
}

type answer[T any] struct {
	once  sync.Once
	value T
	err   error
}

// Do gives what comes of the work, done once for all who have asked before it began: what one is
// given is never older than the question. It is not to be changed.
func (b *Batch[T]) Do(work func() (T, error)) (T, error) {
	a := b.ask()
	// Those that ask together, as looks at start do, come together to one.
	runtime.Gosched()
	return b.do(a, work)
}

// ask gives the answer that has not begun.
func (b *Batch[T]) ask() *answer[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.working == nil {
		b.working = make(chan struct{}, 1)
	}
	if b.next == nil {
		b.next = new(answer[T])
	}
	return b.next
}

func (b *Batch[T]) do(a *answer[T], work func() (T, error)) (T, error) {
	b.working <- struct{}{}
	defer func() { <-b.working }()
	a.once.Do(func() {
		// Who asks from here on is given the next one.
		b.mu.Lock()
		b.next = nil
		b.mu.Unlock()
		a.value, a.err = work()
	})
	return a.value, a.err
}
