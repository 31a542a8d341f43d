package sysfs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"hotmount/internal/disk"
)

// holders gives the kernel names of what is built on the disk in that directory
// and on its partitions, at any depth, sorted. A holder that goes meanwhile is
// named, but not what was built on it.
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

// Below gives the kernel names of what a device-mapper device is built on, at any
// depth, of partitions their disk's, sorted. What goes meanwhile is left out.
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

// partitionsOf gives the partitions of a holder, none if it is gone.
func partitionsOf(holder string) ([]string, error) {
	names, err := partitions(holder)
	if missing(err) {
		return nil, nil
	}
	return names, err
}
