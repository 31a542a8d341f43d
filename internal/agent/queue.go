package agent

import "sync"

// queue holds the names of disks to look at again. Each name is in the queue at most once, because an event is only a
// hint, and one look answers any number of events. Adding a name never blocks, so the netlink socket is always read.
type queue struct {
	mu    sync.Mutex
	names map[string]bool
	all   bool
	// notEmpty has a buffer of one. A value in notEmpty signals that the queue is not empty.
	notEmpty chan struct{}
}

func newQueue() *queue {
	return &queue{names: map[string]bool{}, notEmpty: make(chan struct{}, 1)}
}

func (q *queue) add(name string) {
	q.mu.Lock()
	q.names[name] = true
	q.mu.Unlock()
	q.wake()
}

// addAll requests a look at every disk.
func (q *queue) addAll() {
	q.mu.Lock()
	q.all = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.notEmpty <- struct{}{}:
	default:
	}
}

// The method `take` returns what is in the queue, and empties the queue.
func (q *queue) take() (names map[string]bool, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	names, all = q.names, q.all
	q.names, q.all = map[string]bool{}, false
	return names, all
}
