package policy

import (
	"fmt"
	"slices"

	"hotmount/internal/disk"
)

// Unused returns the keys of the classes and exclusions that match none of the disks, such as "classes[1]" and
// "exclude[0]". A class can match a disk that belongs to an earlier class. A class never matches a disk that the running
// system uses.
func Unused(disks []disk.Facts, s *disk.Settings) []string {
	var unused []string
	for i := range s.Exclude {
		if !slices.ContainsFunc(disks, func(f disk.Facts) bool { return excludes(&f, &s.Exclude[i]) }) {
			unused = append(unused, fmt.Sprintf("exclude[%d]", i))
		}
	}
	for i := range s.Classes {
		if !slices.ContainsFunc(disks, func(f disk.Facts) bool { return f.System == "" && selects(ownSubject(&f), &s.Classes[i]) }) {
			unused = append(unused, fmt.Sprintf("classes[%d]", i))
		}
	}
	return unused
}
