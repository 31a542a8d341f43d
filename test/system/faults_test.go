//go:build vm

package system

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"hotmount/test/corpus"
	"hotmount/test/worker"
)

// readFault is a disk of which one sector can not be read, for some time or ever.
type readFault struct {
	// at is the offset in bytes of the sector.
	at int64
	// times is how many reads fail, 0 for all of them.
	times int
	// data says that there is something in the sector.
	data bool
	// slow is how many bytes a second are read, 0 for as many as can be.
	slow int

	image, digest, name string
}

func (f *readFault) String() string {
	return fmt.Sprintf("%s: byte %d, %d failures (0: always), data there: %t, %d bytes a second", f.name, f.at, f.times, f.data, f.slow)
}

const faultySize = 320 << 20

// chooseFaults gives n disks that must not be formatted: of each either a sector
// can never be read, or there is something in it that some reads do not show.
func chooseFaults(r *rand.Rand, n int) []*readFault {
	// Where the tools and the second looks read.
	places := []int64{0, 512, 1024, 4096, 32 << 10, 64 << 10, 1 << 20, 16<<20 - 512, 16 << 20, faultySize / 4, faultySize / 2,
		faultySize - 16<<20, faultySize - 64<<10, faultySize - 4096, faultySize - 512}
	var all []*readFault
	for i := range n {
		f := &readFault{at: r.Int64N(faultySize/512) * 512, data: i%3 != 0}
		if i%2 == 0 {
			f.at = places[r.IntN(len(places))]
		}
		if i%3 == 2 {
			f.times = 1 + r.IntN(4)
		}
		all = append(all, f)
	}
	return append(all, &readFault{at: faultySize - 512, times: 1, data: true, slow: 24 << 20}, &readFault{at: faultySize / 2, data: false, slow: 24 << 20})
}

// TestReadFaults: wherever a disk can not be read, for however long, and however
// slowly, it is not formatted (issue 3).
func TestReadFaults(t *testing.T) {
	chance := chance(t)
	rounds, disks := 1, 9
	if full {
		rounds, disks = 8, 18
	}
	for i := range rounds {
		faults := chooseFaults(chance, disks)
		t.Run(fmt.Sprint(i), func(t *testing.T) { tryFaults(t, faults) })
	}
}

func tryFaults(t *testing.T, faults []*readFault) {
	m, w := start(t, worker.Options{})
	var names, readable []string
	for i, f := range faults {
		f.image = blank(t, faultySize)
		if f.data {
			writeByte(t, f.image, f.at+17)
		}
		f.digest = digestOrBlank(t, f.image)
		rule := map[string]any{"event": "none", "sector": f.at / 512, "errno": 5, "iotype": "read", "once": f.times > 0}
		d := worker.Disk{
			File: f.image, Serial: fmt.Sprint("FAULT-", i),
			Blkdebug: map[string]any{"inject-error": slices.Repeat([]any{rule}, max(f.times, 1))},
		}
		name, id := m.attach(w, d)
		f.name = name
		names = append(names, name)
		if f.times > 0 {
			readable = append(readable, name)
		}
		if f.slow > 0 {
			args := map[string]any{"id": "/machine/peripheral/" + id + "/virtio-backend", "bps": 0, "bps_rd": f.slow, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}
			if _, err := w.QMP(ctx(t), "block_set_io_throttle", args); err != nil {
				t.Fatal(err)
			}
		}
	}
	// What can be read in the end is read again until it is.
	m.waits(5, "a word about each disk", fmt.Sprintf(
		`journalctl -b -o cat --no-pager >/tmp/journal
		for d in %s; do grep -qE "^/dev/$d .*(refuse: |cannot )" /tmp/journal || exit 1; done
		for d in %s; do grep -qE "^/dev/$d .*refuse: " /tmp/journal || exit 1; done`, strings.Join(names, " "), strings.Join(readable, " ")))
	journal := m.run("journalctl -b -o cat --no-pager")
	touched := m.run("for d in " + strings.Join(names, " ") + "; do echo $d $(awk '{print $5+$12}' /sys/block/$d/stat) $(findmnt -no TARGET /dev/$d); done")
	for _, f := range faults {
		var says []string
		for line := range strings.Lines(journal) {
			if strings.HasPrefix(line, "/dev/"+f.name+" ") {
				says = append(says, line[:min(len(line), 300)])
			}
		}
		if !regexpLine(touched, `^`+f.name+` 0$`) || digestOrBlank(t, f.image) != f.digest {
			t.Errorf("%s: it was written to: %q\n%s", f, says, touched)
		}
		t.Logf("%s: %q", f, says)
	}
}

func digestOrBlank(t *testing.T, path string) string {
	t.Helper()
	d, err := corpus.Digest(path)
	if err != nil && !errors.Is(err, corpus.ErrBlank) {
		t.Fatal(err)
	}
	return d
}

func writeByte(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, at); err != nil {
		t.Fatal(err)
	}
}
