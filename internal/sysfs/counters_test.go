package sysfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotmount/internal/disk"
)

// The variable `counted` is the sysfs tree of a virtio-blk disk with writes in flight.
var counted = virtio.with(tree{vdb + "inflight": "       3        2\n"})

func TestCounters(t *testing.T) {
	want := Counters{Seq: 12, Writes: 12, InFlightWrites: 2, BytesRead: 5144 * 512, BytesWritten: 65 * 512}
	with := func(change func(*Counters)) Counters {
		c := want
		change(&c)
		return c
	}
	for what, tc := range map[string]struct {
		changes tree
		want    Counters
	}{
		"as it is":           {nil, want},
		"only reads":         {tree{vdb + "inflight": "1 0\n"}, with(func(c *Counters) { c.InFlightWrites = 0 })},
		"without discards":   {tree{vdb + "stat": "1 2 3 4 5 6 7 8 9 10 11\n"}, with(func(c *Counters) { c.Writes, c.BytesRead, c.BytesWritten = 5, 3*512, 7*512 })},
		"nothing written":    {tree{vdb + "stat": "1 2 3 4 0 6 0 8 9 10 11 0 0 0 0 0 0\n"}, with(func(c *Counters) { c.Writes, c.BytesRead, c.BytesWritten = 0, 3*512, 0 })},
		"not counted":        {tree{vdb + "queue/iostats": "0\n"}, with(func(c *Counters) { c.Uncounted = true })},
		"nothing says so":    {tree{vdb + "queue/iostats": "-"}, with(func(c *Counters) { c.Uncounted = true })},
		"other facts broken": {tree{vdb + "size": "x\n", vdb + "ro": "-", "run/udev/data/b254:16": "-"}, want},
	} {
		if got, err := counted.with(tc.changes).make(t).Counters("vdb"); got != tc.want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, tc.want)
		}
	}
}

func TestCountersFail(t *testing.T) {
	for what, tc := range map[string]struct {
		changes tree
		disk    string
		gone    bool
	}{
		"a name that leaves the directory": {nil, "../vdb", false},
		"no disk":                          {nil, "vdc", true},
		"nothing in flight":                {tree{vdb + "inflight": "-"}, "vdb", false},
		"empty":                            {tree{vdb + "inflight": ""}, "vdb", false},
		"one number":                       {tree{vdb + "inflight": "1\n"}, "vdb", false},
		"no number":                        {tree{vdb + "inflight": "1 x\n"}, "vdb", false},
		"no statistics":                    {tree{vdb + "stat": "-"}, "vdb", false},
		"short statistics":                 {tree{vdb + "stat": "1 2 3\n"}, "vdb", false},
		"iostats cannot be read":           {tree{vdb + "queue/iostats": "-", vdb + "queue/iostats/": ""}, "vdb", false},
	} {
		if got, err := counted.with(tc.changes).make(t).Counters(tc.disk); err == nil || errors.Is(err, disk.ErrGone) != tc.gone || got != (Counters{}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	fs := looped.with(tree{loop7 + "inflight": "0 0\n", loop7 + "loop/backing_file": "-"}).make(t)
	if got, err := fs.Counters("loop7"); !errors.Is(err, disk.ErrGone) {
		t.Errorf("a loop device without a file: %+v, %v", got, err)
	}
}

// TestCountersOfPartition checks that a partition has its own counters. The attribute queue/iostats of the whole disk
// shows whether the kernel counts the I/O of a partition.
func TestCountersOfPartition(t *testing.T) {
	for iostats, uncounted := range map[string]bool{"1\n": false, "0\n": true} {
		fs := wanting(parted.with(tree{vdb + "vdb1/inflight": "0 4\n", vdb + "queue/iostats": iostats}).make(t))
		want := Counters{Seq: disk.PartitionSeq(12, 1), Writes: 77, InFlightWrites: 4, BytesRead: 3 * 512, BytesWritten: 7 * 512, Uncounted: uncounted}
		if got, err := fs.Counters("vdb1"); got != want || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// TestCountersWhileRead replaces the file stat by a FIFO, so that Counters waits while the test changes another file.
// Counters must read the file `inflight` before the file `stat`, and must return an error if another disk takes the name
// meanwhile.
func TestCountersWhileRead(t *testing.T) {
	for _, tc := range []struct {
		attribute, text string
		gone            bool
	}{{"inflight", "0 9\n", false}, {"diskseq", "13\n", true}} {
		fs := counted.with(tree{vdb + "stat": "-"}).make(t)
		stat := filepath.Join(fs.Root, vdb, "stat")
		if err := syscall.Mkfifo(stat, 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			w, err := os.OpenFile(stat, os.O_WRONLY, 0) // the call waits until Counters also opens the FIFO
			if err == nil {
				err = os.WriteFile(filepath.Join(fs.Root, vdb, tc.attribute), []byte(tc.text), 0o644)
				_, wErr := w.WriteString("1 2 3 4 5 6 7 8 9 10 11\n")
				err = errors.Join(err, wErr, w.Close())
			}
			done <- err
		}()
		got, err := fs.Counters("vdb")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if tc.gone && (!errors.Is(err, disk.ErrGone) || got != (Counters{})) || !tc.gone && (err != nil || got.InFlightWrites != 2 || got.Writes != 5) {
			t.Errorf("with another %s: %+v, %v", tc.attribute, got, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]stat{
		"0 0 0 0 0 0 0 0 0 0 0\n":                              {},
		"1 1 3 1 7 1 5 1 9 1 1\n":                              {sectorsRead: 3, writes: 7, sectorsWritten: 5, inFlight: 9},
		"1 1 3 1 7 1 5 1 9 1 1 30 1 1 1\n":                     {sectorsRead: 3, writes: 7, sectorsWritten: 5, inFlight: 9, discards: 30},
		"1 1 3 1 7 1 5 1 9 1 1 30 1 1 1 1 1 1 1 1 1 1 1 1 1\n": {sectorsRead: 3, writes: 7, sectorsWritten: 5, inFlight: 9, discards: 30},
	} {
		if got, err := parseStat(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "1 2 3 4 5 6 7 8 9 10", "1 1 x 1 1 1 1 1 1 1 1", "1 1 1 1 x 1 1 1 1 1 1", "1 1 1 1 1 1 x 1 1 1 1",
		"1 1 1 1 1 1 1 1 x 1 1", "1 1 1 1 1 1 1 1 1 1 1 -3",
	} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("103 2 5144 32 7 1 65 4 0 60 36 5 0 2048 1 3 1\n")
	f.Add("1 2 3 4 5 6 7 8 9 10 11")
	f.Add("\x00 18446744073709551616")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseStat(text); err == nil && len(strings.Fields(text)) < 11 {
			t.Errorf("%q is no error", text)
		}
	})
}
