package disk

import "time"

// Running is how long a filesystem was seen mounted, and when it was last trimmed.
type Running struct {
	UUID string `json:"uuid"`
	// Ran is the time between two looks at one and the same mount, added up: no
	// more than it was mounted.
	Ran time.Duration `json:"ran"`
	// Trimmed is zero for never.
	Trimmed time.Time `json:"trimmed,omitzero"`

	// Boot, Seq and Mounted tell which mount was looked at last, At when, by the
	// clock that runs from boot to boot (CLOCK_MONOTONIC).
	Boot    string        `json:"boot"`
	Seq     uint64        `json:"seq"`
	Mounted time.Time     `json:"mounted,omitzero"`
	At      time.Duration `json:"at"`
}

// Seen counts the time up to another look at the filesystem's mount.
func (r Running) Seen(boot string, seq uint64, mounted time.Time, at time.Duration) Running {
	if !mounted.IsZero() && r.Boot == boot && r.Seq == seq && r.Mounted.Equal(mounted) && at > r.At {
		r.Ran += at - r.At
	}
	r.Boot, r.Seq, r.Mounted, r.At = boot, seq, mounted, at
	return r
}
