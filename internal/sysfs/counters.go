package sysfs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// Fields of a disk's statistics (Documentation/block/stat.rst), from 0.
const (
	statSectorsRead = 2 // of 512 bytes
	statWrites      = 4
	statSectors     = 6 // written, of 512 bytes
	statInFlight    = 8
	statDiscards    = 11
	// statFields before Linux 4.18, which counts no discards.
	statFields = 11
)

// requests gives the number of write and discard requests that are complete, and of
// all that are not.
func requests(stat string) (writes, inFlight uint64, err error) {
	fields := strings.Fields(stat)
	if len(fields) < statFields {
		return 0, 0, fmt.Errorf("%d fields, expected at least %d", len(fields), statFields)
	}
	for i, to := range map[int]*uint64{statWrites: &writes, statInFlight: &inFlight, statDiscards: &writes} {
		if i >= len(fields) {
			continue
		}
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*to += n
	}
	return writes, inFlight, nil
}

// InFlightWrites counts the writes and discards of the disk that it has not answered
// yet. Facts.InFlight has reads among them, and is read after the requests that are
// complete, so that one may be in neither.
func (f FS) InFlightWrites(name string) (n uint64, err error) {
	dir, err := f.entry(name)
	if err == nil {
		var text string
		text, err = readAttribute(filepath.Join(dir, "inflight"))
		if err == nil { // reads and writes (Documentation/ABI/stable/sysfs-block)
			_, err = fmt.Sscan(text, new(uint64), &n)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the writes in flight of disk %s: %w", disk.Visible(name), err)
	}
	return n, nil
}

// Bytes counts what has been read from the disk and written to it, zeros that the disk makes by
// itself included.
func (f FS) Bytes(name string) (read, written uint64, err error) {
	dir, err := f.entry(name)
	if err == nil {
		var text string
		if text, err = readAttribute(filepath.Join(dir, "stat")); err == nil {
			fields := strings.Fields(text)
			if len(fields) < statFields {
				err = fmt.Errorf("%d fields, expected at least %d", len(fields), statFields)
			} else if read, err = strconv.ParseUint(fields[statSectorsRead], 10, 64); err == nil {
				written, err = strconv.ParseUint(fields[statSectors], 10, 64)
			}
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read how much was read from disk %s and written to it: %w", disk.Visible(name), err)
	}
	return 512 * read, 512 * written, nil
}
