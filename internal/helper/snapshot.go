package helper

import (
	"context"

	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
)

// Snapshot gathers what package doctor examines.
func Snapshot(ctx context.Context, h inventory.Host, s *disk.Settings) (*doctor.Snapshot, error) {
	disks, err := h.For(s).Scan()
	if err != nil {
		return nil, err
	}
	var ours []disk.Dev
	for i := range disks {
		if disks[i].System == "" && policy.Select(&disks[i], s) != nil {
			ours = append(ours, disks[i].Dev)
		}
	}
	taken, err := doctor.Live().Take(ctx, s.Classes, ours)
	if err != nil {
		return nil, err
	}
	taken.Fault = s.Fault
	taken.Held = policy.Neighbours(h.Drivers(), s)
	// Without the node's name volumes would not be recognised by theirs.
	taken.Node, err = inventory.NodeName(s.Node)
	return taken, err
}
