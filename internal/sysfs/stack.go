package sysfs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// holders returns the kernel names of everything built on the disk in that directory and on its partitions, at any
// depth, sorted. A holder that disappears meanwhile is included, but not what was built on it.
func (f FS) holders(dir string, partitions []string) ([]string, error) {
	found := map[string]bool{}
	var walk func(dir string, partitions []string) error
	walk = func(dir string, partitions []string) error {
		for _, part := range append([]string{""}, partitions...) {
			entries, err := os.ReadDir(filepath.Join(dir, part, "holders"))
			if err != nil && !missing(err) {
				return err
			}
			for _, e := range entries {
				if found[e.Name()] {
					continue
				}
				found[e.Name()] = true
				holder := f.path("sys/block", e.Name())
				parts, err := partitionsOf(holder)
				if err != nil {
					return err
				}
				if err := walk(holder, parts); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(dir, partitions); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Below returns the kernel names of the disks beneath a device-mapper device, at any depth, sorted. For a partition it
// returns the disk. It leaves out devices that disappear meanwhile.
func (f FS) Below(name string) ([]string, error) {
	found := map[string]bool{}
	var walk func(dir string) error
	walk = func(dir string) error {
		slaves := filepath.Join(dir, "slaves")
		entries, err := os.ReadDir(slaves)
		for _, e := range entries {
			real, err := filepath.EvalSymlinks(filepath.Join(slaves, e.Name()))
			if missing(err) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(real, "partition")); err == nil {
				real = filepath.Dir(real)
			}
			if name := filepath.Base(real); !found[name] {
				found[name] = true
				if err := walk(real); err != nil {
					return err
				}
			}
		}
		if missing(err) {
			return nil
		}
		return err
	}
	if err := walk(f.path("sys/block", name)); err != nil {
		return nil, fmt.Errorf("cannot list what is below %s: %w", disk.Visible(name), err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// partitionsOf returns the partitions of a holder, none if it is gone.
func partitionsOf(holder string) ([]string, error) {
	names, err := partitions(holder)
	if missing(err) {
		return nil, nil
	}
	return names, err
}

// partitions returns the kernel names of the partitions of the disk in that directory, sorted. They begin with the name
// of the disk (add_partition in block/partitions/core.c).
func partitions(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), filepath.Base(dir)) {
			continue
		}
		_, err := os.Stat(filepath.Join(dir, e.Name(), "partition"))
		if err == nil {
			names = append(names, e.Name())
		} else if !missing(err) {
			return nil, err
		}
	}
	return names, nil
}

// Devices returns the kernel names, by device number, of everything on a disk that can be mounted or swapped on. Those
// are the disk, its partitions, its holders and their partitions.
//
// The error wraps disk.ErrGone if the disk is gone. Devices leaves out anything else that disappears meanwhile.
func (f FS) Devices(facts *disk.Facts) (map[disk.Dev]string, error) {
	devices, err := f.devices(facts)
	if err != nil {
		return nil, fmt.Errorf("cannot list devices on disk %s: %w", disk.Visible(facts.Name), err)
	}
	return devices, nil
}

func (f FS) devices(facts *disk.Facts) (map[disk.Dev]string, error) {
	dir, err := f.entry(facts.Name)
	if err != nil {
		return nil, err
	}
	devices := map[disk.Dev]string{facts.Dev: facts.Name}
	add := func(dir, name string) error {
		text, err := readAttribute(filepath.Join(dir, "dev"))
		if missing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		dev, err := disk.ParseDev(text)
		devices[dev] = name
		return err
	}
	for _, part := range facts.Partitions {
		if err := add(filepath.Join(dir, part), part); err != nil {
			return nil, err
		}
	}
	for _, name := range facts.Holders {
		holder, err := f.entry(name)
		if err != nil {
			return nil, err
		}
		if err := add(holder, name); err != nil {
			return nil, err
		}
		parts, err := partitionsOf(holder)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if err := add(filepath.Join(holder, part), part); err != nil {
				return nil, err
			}
		}
	}
	seq, err := sequence(dir)
	if err != nil {
		return nil, goneOr(dir, err)
	}
	if seq != facts.Seq {
		return nil, fmt.Errorf("%w: the name has passed from disk sequence number %d to %d", disk.ErrGone, facts.Seq, seq)
	}
	return devices, nil
}
