package sysfs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// Counters contains the kernel's I/O statistics of one disk or partition since the disk was attached.
type Counters struct {
	// Seq is the attachment's sequence number (disk.ID.Seq).
	Seq uint64
	// Writes is the number of completed write and discard requests (disk.Facts.Writes).
	Writes uint64
	// InFlightWrites is the number of write and discard requests that the disk has not answered yet. InFlightWrites is
	// read before Writes, so that each request is in at least one of the two numbers. disk.Facts.InFlight also counts
	// reads. A request may be missing from both disk.Facts.InFlight and disk.Facts.Writes.
	InFlightWrites uint64
	// BytesRead and BytesWritten are the numbers of bytes transferred. BytesWritten includes the bytes of write-zeroes
	// requests, for which the disk itself writes the zeros.
	BytesRead, BytesWritten uint64
	// Uncounted is true if the kernel does not count the I/O (disk.Facts.Uncounted).
	Uncounted bool
}

// Counters reads only the counters of the disk with that kernel name. The error wraps disk.ErrGone if the disk is not
// attached, or was detached during the call.
func (f FS) Counters(name string) (Counters, error) {
	c, err := f.counters(name)
	if err != nil {
		return Counters{}, fmt.Errorf("cannot read the counters of disk %s: %w", disk.Visible(name), err)
	}
	return c, nil
}

func (f FS) counters(name string) (Counters, error) {
	at, err := f.find(name)
	if err != nil {
		return Counters{}, err
	}
	c, err := readCounters(at)
	if gone := at.check(); gone != nil {
		return c, gone
	}
	return c, err
}

func readCounters(at attachment) (Counters, error) {
	c := Counters{Seq: at.seq}
	inFlight := filepath.Join(at.dir, "inflight")
	text, err := readAttribute(inFlight)
	if err != nil {
		return c, err
	}
	// In the file inflight, the number of reads comes before the number of writes
	// (Documentation/ABI/stable/sysfs-block).
	if _, err := fmt.Sscan(text, new(uint64), &c.InFlightWrites); err != nil {
		return c, fmt.Errorf("cannot parse %s: %w", inFlight, err)
	}
	s, err := readStat(at.dir)
	if err != nil {
		return c, err
	}
	c.Writes, c.BytesRead, c.BytesWritten = s.writes+s.discards, 512*s.sectorsRead, 512*s.sectorsWritten
	c.Uncounted, err = uncounted(at.whole)
	return c, err
}

// The function `uncounted` returns true if the kernel does not count the I/O of the disk with that sysfs directory
// (queue/iostats in Documentation/ABI/stable/sysfs-block).
func uncounted(dir string) (bool, error) {
	text, err := readAttribute(filepath.Join(dir, "queue/iostats"))
	if err != nil && !missing(err) {
		return false, err
	}
	return strings.TrimSpace(text) != "1", nil
}

// The type `stat` contains those fields of a disk's I/O statistics that hotmount needs (Documentation/block/stat.rst). In
// these statistics, a sector has 512 bytes for every disk.
type stat struct {
	sectorsRead, writes, sectorsWritten, inFlight, discards uint64
}

// statFields is the number of fields in the file stat before Linux 4.18. Linux 4.18 added the count of discards.
const statFields = 11

func readStat(dir string) (stat, error) {
	name := filepath.Join(dir, "stat")
	text, err := readAttribute(name)
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("cannot parse %s: %w", name, err)
	}
	return s, nil
}

func parseStat(text string) (s stat, err error) {
	fields := strings.Fields(text)
	if len(fields) < statFields {
		return s, fmt.Errorf("found %d fields, expected at least %d", len(fields), statFields)
	}
	for at, to := range map[int]*uint64{2: &s.sectorsRead, 4: &s.writes, 6: &s.sectorsWritten, 8: &s.inFlight, 11: &s.discards} {
		if at >= len(fields) {
			continue
		}
		if *to, err = strconv.ParseUint(fields[at], 10, 64); err != nil {
			return stat{}, err
		}
	}
	return s, nil
}
