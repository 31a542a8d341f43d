package main

import (
	"testing"

	"hotmount/internal/disk"
)

func TestParseID(t *testing.T) {
	for s, want := range map[string]disk.ID{
		"vdb:7::254:16":        {Name: "vdb", Seq: 7, Dev: disk.Dev{Major: 254, Minor: 16}},
		"nvme0n1p2:12:2:259:3": {Name: "nvme0n1p2", Seq: disk.PartitionSeq(12, 2), Dev: disk.Dev{Major: 259, Minor: 3}},
	} {
		if got, err := parseID(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "vdb", "vdb:7:", "vdb:7::254", ":7::254:16", "a/b:7::254:16", "vdb:::254:16", "vdb:x::254:16", "vdb:7:x:254:16", "vdb:7::254:16:1"} {
		if got, err := parseID(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}
