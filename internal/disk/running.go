package disk

import "time"

// Running is the record of how long one filesystem was mounted, and when the filesystem was last trimmed.
type Running struct {
	UUID string `json:"uuid"`
	// Ran is how long the filesystem was mounted: the sum of the intervals between consecutive scans that found the
	// same mount. The filesystem may have been mounted longer than Ran.
	Ran time.Duration `json:"ran"`
	// Trimmed is when the filesystem was last trimmed, or zero if the filesystem was never trimmed.
	Trimmed time.Time `json:"trimmed,omitzero"`

	// Boot, Seq and Mounted identify the mount that the last scan saw. At is the time of the last scan on
	// CLOCK_MONOTONIC.
	Boot    string        `json:"boot"`
	Seq     uint64        `json:"seq"`
	Mounted time.Time     `json:"mounted,omitzero"`
	At      time.Duration `json:"at"`
}

// Seen returns a copy of r to which one more scan has been added. If the new scan finds the same mount as the last
// scan, Seen adds the time between the two scans to Ran.
func (r Running) Seen(boot string, seq uint64, mounted time.Time, at time.Duration) Running {
	if !mounted.IsZero() && r.Boot == boot && r.Seq == seq && r.Mounted.Equal(mounted) && at > r.At {
		r.Ran += at - r.At
	}
	r.Boot, r.Seq, r.Mounted, r.At = boot, seq, mounted, at
	return r
}
