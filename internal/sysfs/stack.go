package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// The method `holders` returns the sorted kernel names of all devices that are built on a disk or its partitions, at any
// depth. The parameter `dir` is the sysfs directory of the disk. The result includes a holder that disappears during the
// call, but not the devices built on that holder.
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

// Below returns the sorted kernel names of the attached disks under a device-mapper or md device, at any depth. If the
// device-mapper or md device lies on a partition, Below returns the disk of the partition.
func (f FS) Below(name string) ([]string, error) {
	below, err := f.Underlying(name)
	var names []string
	for _, u := range below {
		if !u.Gone {
			names = append(names, u.Name)
		}
	}
	return names, err
}

// Underlying returns the disks below a device-mapper or md device, at any depth, sorted by name. Underlying leaves out
// a removed disk, such as one leg of a mirror, if the device may work without this disk (spare).
//
// When a disk is pulled, the link to the disk stays in the directory `slaves` of the device-mapper or md device above
// the disk. The link to a pulled disk leads nowhere, or to a new disk in the same slot. The directory `holders` of the
// new disk does not contain the device-mapper or md device. Underlying therefore treats a disk as detached if the
// disk's directory `holders` does not contain the device above the disk.
func (f FS) Underlying(name string) ([]disk.Underlying, error) {
	below, err := f.underlying(name, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot list what is below %s: %w", disk.Visible(name), err)
	}
	// The list contains a disk more than once if several of the devices below the top device lie on the disk.
	slices.SortFunc(below, func(a, b disk.Underlying) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(below), nil
}

// maxDepth bounds the number of layers in a stack of devices.
const maxDepth = 16

func (f FS) underlying(name string, depth int) (below []disk.Underlying, err error) {
	dir := f.path("sys/block", name)
	entries, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if depth == maxDepth {
		return nil, errors.New("the stack of devices is too deep")
	}
	if len(entries) == 0 && isMultipath(dir) {
		// multipathd has removed every path from the multipath device.
		return []disk.Underlying{{Name: "all paths", Gone: true}}, nil
	}
	gone := 0
	for _, e := range entries {
		link := filepath.Join(dir, "slaves", e.Name())
		leg, err := f.readSlave(link, name, depth)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(leg, isGone) {
			gone++
		}
		below = append(below, leg...)
	}
	if gone < len(entries) && gone <= spare(dir, len(entries)) {
		below = slices.DeleteFunc(below, isGone)
	}
	return below, nil
}

// readSlave follows a link in the directory `slaves`. readSlave returns the disk to which the link leads, and all disks
// below this disk. The parameter `above` is the kernel name of the device that has the link.
func (f FS) readSlave(link, above string, depth int) ([]disk.Underlying, error) {
	target, err := os.Readlink(link)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u := disk.Underlying{Name: filepath.Base(target)}
	if up := filepath.Base(filepath.Dir(target)); partitionOf(up, u.Name) {
		u.Name = up
	}
	_, err = os.Lstat(filepath.Join(link, "holders", above))
	if missing(err) {
		u.Gone = true
		return []disk.Underlying{u}, nil
	}
	if err != nil {
		return nil, err
	}
	below, err := f.underlying(u.Name, depth+1)
	return append(below, u), err
}

func isGone(u disk.Underlying) bool { return u.Gone }

// partitionOf reports whether the name is the name of a partition of the disk, such as "sda1" or "nvme0n1p1"
// (add_partition in block/partitions/core.c).
func partitionOf(whole, name string) bool {
	number, ok := strings.CutPrefix(name, whole)
	number = strings.TrimPrefix(number, "p")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// The function `spare` returns the number of legs (underlying devices) that a device can lose and still work. The
// parameter `legs` is the number of links in the device's directory `slaves`.
func spare(dir string, legs int) int {
	if level, err := readAttribute(filepath.Join(dir, "md/level")); err == nil {
		return spareOfArray(dir, strings.TrimSpace(level), legs)
	}
	if isMultipath(dir) {
		return legs - 1
	}
	return spareImages(dir, legs)
}

func isMultipath(dir string) bool {
	uuid, err := readAttribute(filepath.Join(dir, "dm/uuid"))
	return err == nil && strings.HasPrefix(uuid, "mpath-")
}

// spareOfArray returns the number of legs that an md array can lose and still work. For each lost leg that md has
// already removed from the directory `slaves`, spareOfArray subtracts one from the result. For raid10, spareOfArray
// returns the highest possible number, because it is unknown which two legs mirror each other.
func spareOfArray(dir, level string, legs int) int {
	total := legs
	if text, err := readAttribute(filepath.Join(dir, "md/raid_disks")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			total = max(n, legs)
		}
	}
	tolerated := map[string]int{"raid1": total - 1, "raid4": 1, "raid5": 1, "raid6": 2, "raid10": total / 2}[level]
	return tolerated - (total - legs)
}

// spareImages returns the number of legs that a logical volume can lose and still work. LVM reserves names with _rmeta_
// and _mimage_ for parts of raid and mirror volumes (lvm(8)). A raid volume without metadata volumes is striped
// (raid0), and can lose no leg. The names do not show the RAID level, so spareImages assumes that any other raid or
// mirror volume can work with a single leg.
func spareImages(dir string, legs int) int {
	names, _ := filepath.Glob(filepath.Join(dir, "slaves/*/dm/name"))
	for _, path := range names {
		if name, err := readAttribute(path); err == nil && (strings.Contains(name, "_rmeta_") || strings.Contains(name, "_mimage_")) {
			return legs - 1
		}
	}
	return 0
}

// partitionsOf returns the kernel names of the partitions of a holder, or none if the holder is gone.
func partitionsOf(holder string) ([]string, error) {
	names, err := partitions(holder)
	if missing(err) {
		return nil, nil
	}
	return names, err
}

// The function `partitions` returns the sorted kernel names of the partitions of the disk in that directory. The name of
// a partition begins with the name of the disk (add_partition in block/partitions/core.c).
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

// Devices returns a map from device numbers to kernel names. The map contains the disk, its partitions, its holders and
// the partitions of its holders. Each device in the map can be mounted or used as swap.
//
// If the disk is gone, the error wraps disk.ErrGone. Devices leaves out any other device that disappears during the
// call.
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
		return nil, fmt.Errorf("%w: the name now belongs to another disk: the disk sequence number was %d and is now %d", disk.ErrGone, facts.Seq, seq)
	}
	return devices, nil
}
