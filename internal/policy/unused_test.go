package policy

import (
	"slices"
	"testing"

	"hotmount/internal/disk"
)

func TestUnused(t *testing.T) {
	s := &disk.Settings{
		Exclude: []disk.Selectors{{Serial: []string{"OLD-*"}}, {Serial: []string{"DATA-1"}}, {Names: []string{"vda"}}},
		Classes: []disk.Class{
			{Selectors: disk.Selectors{Names: []string{"vd?"}}},
			{Selectors: disk.Selectors{Names: []string{"vda"}}},
			{Selectors: disk.Selectors{Serial: []string{"DATA-1"}}},
			{Selectors: disk.Selectors{Names: []string{"vdb1"}}},
			{Selectors: disk.Selectors{Names: []string{"vdc1"}, Partitions: true}},
		},
	}
	disks := []disk.Facts{
		{ID: disk.ID{Name: "vda"}, System: "it has the root filesystem"},
		{ID: disk.ID{Name: "vdb"}, Serial: "DATA-1"},
		{ID: disk.ID{Name: "vdc1"}, Whole: "vdc"},
	}
	want := []string{"exclude[0]", "classes[1]", "classes[3]"}
	if got := Unused(disks, s); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Unused(nil, s); len(got) != len(s.Exclude)+len(s.Classes) {
		t.Errorf("without disks: %v", got)
	}
}
