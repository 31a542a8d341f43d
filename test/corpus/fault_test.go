package corpus

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hotmount/internal/probe"
	"hotmount/internal/run/runtest"
)

// The variable `full` reports whether the tests run many cases instead of a few random cases.
var full = os.Getenv("HOTMOUNT_TEST_FULL") != ""

// The type `faulty` is a disk of zeros on which one read goes wrong. The field `bad` is the number of the read that goes
// wrong, counted from 0.
type faulty struct {
	mu         sync.Mutex
	reads, bad int
	how        func(b []byte) (int, error)
}

func (d *faulty) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	d.mu.Lock()
	n := d.reads
	d.reads++
	d.mu.Unlock()
	if n == d.bad {
		return d.how(b)
	}
	return len(b), nil
}

// TestEveryReadCounts checks that hotmount does not consider a disk of zeros blank if one read goes wrong. The bad read
// fails, is short, or returns a bit that is not zero.
func TestEveryReadCounts(t *testing.T) {
	ways := map[string]func([]byte) (int, error){
		"an error":                  func([]byte) (int, error) { return 0, syscall.EIO },
		"an error after some bytes": func(b []byte) (int, error) { return len(b) / 2, syscall.EIO },
		"an error after all bytes":  func(b []byte) (int, error) { return len(b), syscall.EIO },
		"too few bytes":             func(b []byte) (int, error) { return len(b) - 1, nil },
		"the end":                   func(b []byte) (int, error) { return len(b) - 512, io.EOF },
		"nothing":                   func([]byte) (int, error) { return 0, nil },
		"a bit at its start":        func(b []byte) (int, error) { b[0] = 1; return len(b), nil },
		"a bit at its end":          func(b []byte) (int, error) { b[len(b)-1] = 0x80; return len(b), nil },
	}
	// In the test, wipefs and blkid find no signature on the disk.
	runner := runtest.New(t)
	runner.On("/usr/sbin/wipefs -n -J /dev/vdb", runtest.Print(`{"signatures": []}`, 0))
	runner.On("/usr/sbin/blkid -p -o udev /dev/vdb", runtest.Print("", 2))
	chance := seeded(t)
	for _, size := range []uint64{Size, Size + 512*3, 100*gib + 512} {
		look := func(d *faulty) (string, error) {
			c, err := probe.Look(t.Context(), runner, probe.Source{Reader: d, Node: "/dev/vdb", Size: size}, probe.Auto)
			return string(c.Kind), err
		}
		sound := &faulty{bad: -1}
		if kind, err := look(sound); kind != "blank" || err != nil {
			t.Fatalf("%d bytes of zeros: %s, %v", size, kind, err)
		}
		t.Logf("%d bytes: %d reads", size, sound.reads)
		for _, bad := range someNumbers(chance, sound.reads) {
			for way, how := range ways {
				if bad == 0 && strings.HasPrefix(way, "a bit") {
					continue // the first read only looks for XFS, and a later read covers the same bytes
				}
				d := &faulty{bad: bad, how: how}
				// Two reads run at the same time, and either of them may come first. Before hotmount receives the
				// result of the bad read, two further reads may begin.
				const ahead = 2
				if kind, err := look(d); kind == "blank" || d.reads <= bad || d.reads > bad+1+ahead {
					t.Errorf("%d bytes, read %d of %d, %s: %q, %v, after %d reads", size, bad, sound.reads, way, kind, err, d.reads)
				}
			}
		}
	}
}

// someNumbers returns up to 12 random numbers below n, and six fixed numbers, such as 0 and n-1. In the full test,
// someNumbers returns up to 400 random numbers and the two highest numbers.
func someNumbers(r *rand.Rand, n int) []int {
	if full {
		// hotmount needs thousands of reads for a large disk. The test makes only some of these reads go wrong, because
		// each case repeats all reads before the bad read.
		return append(r.Perm(n)[:min(400, n)], n-2, n-1)
	}
	return append(r.Perm(n)[:min(12, n)], 0, 1, 2, n/2, n-2, n-1)
}

// seeded returns the source of a test's random choices, and prints the seed. If the environment variable
// HOTMOUNT_TEST_SEED contains the seed of an earlier test, the test repeats the earlier choices.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HOTMOUNT_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(errors.Join(errors.New("HOTMOUNT_TEST_SEED"), err))
		}
	}
	t.Logf("seed: HOTMOUNT_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
