package main

import (
	"testing"

	"hotmount/internal/disk"
)

// The intent of a disk outlives whatever becomes of a copy of it.
func TestIntentOfAnother(t *testing.T) {
	const begun, found = "0a0b0c0d-1111-4222-8333-abcdefabcdef", "99999999-1111-4222-8333-abcdefabcdef"
	itself := disk.Identity{Serial: "A", Size: 1 << 30}
	for name, tc := range map[string]struct {
		of    *disk.Identity
		doubt bool
		c     disk.Content
		do    disk.Action

		made, ends, failed bool
		// own says that another format of the disk, by the operator's word, has a UUID
		// of its own.
		own bool
	}{
		"no intent":                        {nil, false, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, false, false, true},
		"finished":                         {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, true, true, false, false},
		"finished, and not to be mounted":  {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Ignore, true, true, false, false},
		"accepted as it is":                {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, true, true, false},
		"torn":                             {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun, Torn: true}, disk.Refuse, false, false, false, false},
		"torn, and not to be used":         {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun, Torn: true}, disk.Ignore, false, false, false, false},
		"somebody else wrote":              {&itself, false, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Hold, false, false, false, false},
		"refused":                          {&itself, false, disk.Content{Kind: disk.Other}, disk.Refuse, false, false, false, false},
		"perhaps itself, finished":         {&itself, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, true, true, false, false},
		"a copy, finished by somebody":     {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, false, false, false, true},
		"a copy with something else on it": {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: found}, disk.Mount, false, false, false, true},
		"a copy on a disk of another size": {&disk.Identity{Serial: "A", Size: 2 << 30}, true, disk.Content{Kind: disk.Filesystem, UUID: begun}, disk.Mount, false, false, false, true},
		"a copy that is refused":           {&disk.Identity{Serial: "B", Size: 1 << 30}, true, disk.Content{Kind: disk.HalfMade, UUID: begun}, disk.Refuse, false, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &disk.Facts{Serial: itself.Serial, Size: itself.Size}
			if tc.of != nil {
				f.Standing.Intent, f.Standing.IntentDoubt = &disk.Intent{Identity: *tc.of, UUID: begun}, tc.doubt
			}
			d := disk.Decision{Action: tc.do}
			if tc.do == disk.Hold {
				d.Reason = disk.ReasonDisturbed
			}
			made, ends, failure := outcome(f, &tc.c, d, begun)
			if made != tc.made || ends != tc.ends || (failure != nil) != tc.failed {
				t.Errorf("made %v, ends %v, failure %v", made, ends, failure)
			}
			if uuid, err := intendedUUID(f, true); err != nil || (uuid != begun) != tc.own {
				t.Errorf("by the operator's word: %s, %v", uuid, err)
			}
			if uuid, err := intendedUUID(f, false); err != nil || tc.of != nil && uuid != begun {
				t.Errorf("without it: %s, %v", uuid, err)
			}
		})
	}
}
