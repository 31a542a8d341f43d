package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// check adds faults for values that are valid alone but not together.
func check(s *disk.Settings, from origins, faults *faults) {
	for i := range s.Exclude {
		exclusion{&s.Exclude[i], from.entryPlaces("exclude", i), faults}.check()
	}
	for i := range s.Classes {
		c := class{&s.Classes[i], from.entryPlaces("classes", i), faults}
		if _, ok := c.places[""]; !ok {
			continue // the built-in default class has no place in a file, and needs no check
		}
		c.checkRequired()
		c.selectors()
		c.checkActions()
		for j := range s.Classes[:i] {
			c.checkOverlap(class{&s.Classes[j], from.entryPlaces("classes", j), faults})
		}
	}
}

// entryPlaces returns the places of the keys in one entry of a list. In the returned map, the value of the key "" is
// the place of the whole entry.
func (o origins) entryPlaces(list string, i int) origins {
	of, entry := origins{}, fmt.Sprintf("%s[%d]", list, i)
	for key, at := range o {
		if rest, ok := strings.CutPrefix(key, entry); ok {
			of[strings.TrimPrefix(rest, ".")] = at
		}
	}
	return of
}

// class is a class whose keys are being checked.
type class struct {
	*disk.Class
	// places maps each key of the class to the place of its value in a file.
	places origins
	*faults
}

func (c class) checkRequired() {
	for _, key := range []string{"name", "directory"} {
		if _, ok := c.places[key]; !ok {
			c.add(c.places[""], "found no %s, expected one", key)
		}
	}
}

func (c class) selectors() {
	if reflect.DeepEqual(c.Selectors, disk.Selectors{Partitions: true}) {
		c.add(c.places["partitions"], "found no selector except partitions, expected another selector, such as names: [vd[b-z][1-9]]")
	}
	// Many programs other than hotmount use loop devices. policy.Select selects a loop device only by a pattern whose
	// first letters are literally "lo". The method `selectors` compares the first letters of a pattern in the same way as
	// policy.Select.
	loop := slices.IndexFunc(c.Names, func(name string) bool {
		return strings.HasPrefix(strings.TrimPrefix(name, regexpPrefix), "lo")
	})
	switch _, given := c.places["backing_file"]; {
	case loop >= 0 && !given:
		c.add(c.places[fmt.Sprintf("names[%d]", loop)],
			"found %s without backing_file, expected both keys: a class selects loop devices only if it has both", quote(c.Names[loop]))
	case loop < 0 && len(c.BackingFile) > 0:
		c.add(c.places["backing_file"], `found backing_file without "loop*" in names, expected both keys: a class selects loop devices only if it has both`)
	}
}

// checkActions checks the keys that decide what hotmount does with the disks of the class.
func (c class) checkActions() {
	expected := expectedMkfs
	if c.Create == disk.Ext4 {
		expected = expectedMkfsExt4
	}
	for i, option := range c.MkfsOptions {
		if !disk.MkfsOption(c.Create, option) {
			c.add(c.places[fmt.Sprintf("mkfs_options[%d]", i)], "found %s, expected %s", quote(option), expected)
		}
	}
	if !c.Provision && c.StorageClass != "" {
		c.add(c.places["storage_class"], "found %s, expected none: the class has provision: false", quote(c.StorageClass))
	}
	if c.Partitions && c.Mode == disk.ModeBlock {
		c.add(c.places["mode"], "found %s, expected filesystem: a partition cannot be a block volume", quote(c.Mode))
	}
	if c.Create != "none" && !slices.Contains(c.Accept, c.Create) {
		c.add(c.places["accept"], "found no %[1]s, expected %[1]s in the list, because the class creates this type", c.Create)
	}
	if c.Create != "none" && c.MinimumSize < minimumXFS {
		c.add(c.places["minimum_size"], "found %s, expected at least 300MiB: mkfs.xfs needs that", quote(sizeText(c.MinimumSize)))
	}
}

// checkOverlap adds a fault if an earlier class has the same selectors, unless these are the default selectors.
// checkOverlap also adds a fault if one of the two class directories contains the other.
func (c class) checkOverlap(earlier class) {
	at, other := c.places[""], earlier.places[""]
	name := fmt.Sprintf("%s (line %d)", other.key, other.line)
	if at.name != other.name {
		name = fmt.Sprintf("%s (%s)", other.key, other)
	}
	if !reflect.DeepEqual(c.Selectors, classDefaults().Selectors) && reflect.DeepEqual(c.Selectors, earlier.Selectors) {
		c.add(at, "found the same selectors as in %s, expected different selectors: %[1]s comes first and gets every such disk", name)
	}
	if a, b := c.Directory, earlier.Directory; a != "" && b != "" && (isWithin(a, b) || isWithin(b, a)) {
		c.add(c.places["directory"], "found %s, expected a directory that is not inside, and does not contain, the directory of %s (%s)", quote(a), name, quote(b))
	}
}
