package disk

import "time"

// Line is what the daemon last said of one disk. It holds nothing that is read
// from disks but names, so that anybody may read it.
type Line struct {
	Disk string `json:"disk"`
	// Seq is the disk sequence number: of another disk the line says nothing.
	Seq      uint64   `json:"diskseq"`
	Kind     Kind     `json:"content"`
	Type     string   `json:"type,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Decision Decision `json:"decision"`
	Why      string   `json:"why,omitempty"`
	Next     string   `json:"next,omitempty"`
	// Since is when the decision was taken.
	Since time.Time `json:"since,omitzero"`
	// Failure is what could not be done with the disk, as long as that is so.
	Failure string `json:"failure,omitempty"`
	// Remedy is what helps against the failure.
	Remedy string `json:"remedy,omitempty"`
}

// State is a word for the decision and its reason, for tables and metrics.
func (d Decision) State() string {
	switch {
	case d.GivenOut():
		return "given out"
	case d.Reason == ReasonFormatFailed, d.Amiss():
		return "failed"
	}
	if word, ok := states[d.Action]; ok {
		return word
	}
	return string(d.Action)
}

var states = map[Action]string{
	Ignore: "ignored", Hold: "held", Refuse: "refused", Prove: "unread", Format: "blank", Mount: "unmounted", Link: "to give",
	Keep: "mounted", Grow: "mounted", Wait: "waiting",
}

// Amiss reports whether the disk is mounted and something is wrong with it, by which
// data is or will be lost.
func (d Decision) Amiss() bool {
	return d.Mounted() && (d.Reason == ReasonFault || d.Reason == ReasonShrunk)
}
