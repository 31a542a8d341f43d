package helper

import (
	"context"

	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
)

// Snapshot gathers the data that package doctor examines.
func Snapshot(ctx context.Context, h inventory.Host, s *disk.Settings) (*doctor.Snapshot, error) {
	disks, err := h.For(s).Scan()
	if err != nil {
		return nil, err
	}
	var ours []disk.Dev
	var found doctor.Findings
	for i := range disks {
		c := disks[i].KnownContent()
		// Package doctor itself finds a mount that covers another mount.
		if d := policy.Decide(&disks[i], &c, s); d.State() == "failed" && d.Reason != disk.ReasonCovered {
			why, next := policy.Words(&disks[i], &c, s, d)
			found.Add(doctor.Finding{}, doctor.Problem, doctor.FailedDisk, []string{next}, "%s has failed: %s", report.Name(&disks[i]), why)
		}
		if disks[i].System == "" && policy.Select(&disks[i], s) != nil {
			ours = append(ours, disks[i].Dev)
		}
	}
	taken, err := doctor.Live().Take(ctx, s, ours)
	if err != nil {
		return nil, err
	}
	for _, line := range policy.Neighbours(h.Drivers(), s) {
		found.Add(doctor.Finding{}, doctor.Note, doctor.NewDisksHeld, nil, "%s", line)
	}
	taken.Found = append(taken.Found, found...)
	// Without the node's name, the doctor could not recognise volumes by their names.
	taken.Node, err = inventory.NodeName(s.Node)
	return taken, err
}
