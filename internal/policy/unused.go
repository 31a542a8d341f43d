package policy

import (
	"fmt"
	"slices"

	"hotmount/internal/disk"
)

// Unused returns the keys, such as "classes[1]" and "exclude[0]", of the classes and
// exclusions whose selectors hold for none of the disks. A class never has a disk of
// the running system. An earlier class may have what a class selects.
func Unused(disks []disk.Facts, s *disk.Settings) []string {
	var unused []string
	for i := range s.Exclude {
		if !slices.ContainsFunc(disks, func(f disk.Facts) bool { return excludes(&f, &s.Exclude[i]) }) {
			unused = append(unused, fmt.Sprintf("exclude[%d]", i))
		}
	}
	for i := range s.Classes {
		if !slices.ContainsFunc(disks, func(f disk.Facts) bool { return f.System == "" && selects(itself(&f), &s.Classes[i]) }) {
			unused = append(unused, fmt.Sprintf("classes[%d]", i))
		}
	}
	return unused
}
