package mounts

import (
	"maps"
	"slices"
	"testing"
)

func TestReceivers(t *testing.T) {
	tables := [][]Mount{
		{{Shared: 3, Master: 2}, {Shared: 1}, {Master: 1}, {}},
		// No table shows the peer group 4, but a slave of that group receives events from group 1 (propagate_from).
		{{Shared: 2, Master: 1}, {Shared: 5, Master: 4, From: 1}, {Shared: 7, Master: 6}, {Shared: 1, Master: 3}},
	}
	for group, want := range map[int][]int{0: nil, 1: {1, 2, 3, 5}, 2: {1, 2, 3, 5}, 6: {6, 7}, 9: {9}} {
		if got := slices.Sorted(maps.Keys(Receivers(group, tables))); !slices.Equal(got, want) {
			t.Errorf("%d: got %v, want %v", group, got, want)
		}
	}
	if (&Mount{}).Receives(Receivers(0, tables)) {
		t.Error("a private mount receives what no group has")
	}
}
