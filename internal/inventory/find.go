package inventory

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// For returns a copy of h that uses the settings s. Partitions then count as disks if a class of the settings selects
// partitions. Foreign links in the class directories of the settings then count as claims (addLink).
func (h Host) For(s *disk.Settings) Host {
	h.Partitions, h.Directories = s.Partitions, nil
	for i := range s.Classes {
		h.Directories = append(h.Directories, s.Classes[i].Directory)
	}
	return h
}

// BySeq returns the facts of the attached disk with that disk sequence number. If no disk has the number, the error
// wraps disk.ErrGone.
func (h Host) BySeq(seq uint64) (*disk.Facts, error) {
	none := fmt.Errorf("cannot find the disk with sequence number %d: %w", seq, disk.ErrGone)
	return h.find(func(f *disk.Facts) bool { return f.Seq == seq }, none)
}

// ByName returns the facts of the attached disk with that kernel name.
func (h Host) ByName(name string) (*disk.Facts, error) {
	none := fmt.Errorf("cannot find the disk %q; see hotmount plan", disk.Visible(name))
	return h.find(func(f *disk.Facts) bool { return f.Name == name }, none)
}

// The method `find` scans all disks, because the facts of one disk include its peers. If match(disk) is false for every
// disk, find returns the error in the parameter `none`.
func (h Host) find(match func(*disk.Facts) bool, none error) (*disk.Facts, error) {
	disks, err := h.Scan()
	if err != nil {
		return nil, err
	}
	for i := range disks {
		if match(&disks[i]) {
			return &disks[i], nil
		}
	}
	return nil, none
}

// NodeName returns the configured name of the node, or kubelet's default (GetHostname in Kubernetes'
// k8s.io/component-helpers/node/util).
func NodeName(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	name, err := os.Hostname()
	return strings.ToLower(strings.TrimSpace(name)), err
}

// Monotonic returns the time of CLOCK_MONOTONIC.
func (Host) Monotonic() time.Duration {
	var now unix.Timespec
	// ClockGettime cannot fail for a clock that exists (clock_gettime(2)).
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano())
}
