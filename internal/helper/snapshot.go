package helper

import (
	"context"

	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
)

// Snapshot gathers what package doctor examines.
func Snapshot(ctx context.Context, h inventory.Host, s *disk.Settings) (*doctor.Snapshot, error) {
	disks, err := h.For(s).Scan()
	if err != nil {
		return nil, err
	}
	var ours []disk.Dev
	var failed []doctor.Failure
	for i := range disks {
		c := disks[i].Known()
		// The doctor finds a mount that covers another one by itself.
		if d := policy.Decide(&disks[i], &c, s); d.State() == "failed" && d.Reason != disk.ReasonCovered {
			why, next := policy.Words(&disks[i], &c, s, d)
			failed = append(failed, doctor.Failure{What: report.Name(&disks[i]) + " has failed: " + why, Do: next})
		}
		if disks[i].System == "" && policy.Select(&disks[i], s) != nil {
			ours = append(ours, disks[i].Dev)
		}
	}
	taken, err := doctor.Live().Take(ctx, s.Classes, ours)
	if err != nil {
		return nil, err
	}
	taken.Fault, taken.Failed = s.Fault, failed
	taken.Held = policy.Neighbours(h.Drivers(), s)
	// Without the node's name volumes would not be recognised by theirs.
	taken.Node, err = inventory.NodeName(s.Node)
	return taken, err
}
