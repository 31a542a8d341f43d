package batch

import (
	"errors"
	"sync"
	"testing"
)

// TestDo: those that have asked before the work began are given what comes of it, and who asks
// from then on is given another.
func TestDo(t *testing.T) {
	var b Batch[int]
	failed := errors.New("failed")
	works := 0 // by one at a time
	var later *answer[int]
	work := func() (int, error) {
		works++
		if works == 1 {
			later = b.ask()
		}
		return works, failed
	}
	asked := make([]*answer[int], 8)
	for i := range asked {
		asked[i] = b.ask()
	}
	var all sync.WaitGroup
	for _, a := range asked {
		all.Go(func() {
			if got, err := b.do(a, work); got != 1 || !errors.Is(err, failed) {
				t.Errorf("the answer is %d, error %v", got, err)
			}
		})
	}
	all.Wait()
	if got, _ := b.do(later, work); got != 2 {
		t.Errorf("asked while it was at work: %d", got)
	}
	if got, _ := b.Do(work); got != 3 {
		t.Errorf("asked after it: %d", got)
	}
}
