package disk

import (
	"fmt"
	"time"
)

// Line is the daemon's last published state of one disk. It contains nothing read from disks except names, so anybody
// may read it.
type Line struct {
	Disk string `json:"disk"`
	// Seq is the disk sequence number. The line does not apply to a disk with another one.
	Seq      uint64   `json:"diskseq"`
	Kind     Kind     `json:"content"`
	Type     string   `json:"type,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Decision Decision `json:"decision"`
	Why      string   `json:"why,omitempty"`
	Next     string   `json:"next,omitempty"`
	// Since is when the decision was made.
	Since time.Time `json:"since,omitzero"`
	// Failure is what cannot be done with the disk at present, and why.
	Failure string `json:"failure,omitempty"`
	// OfNode reports that the failure is the node's, or that the kernel holds the filesystem: it is no sign of damage.
	OfNode bool `json:"of_node,omitempty"`
	// Remedy is what helps against the failure.
	Remedy string `json:"remedy,omitempty"`
	// Tries is how often in a row it has failed. Retry is when it is tried again.
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
}

// Failing returns what fails, how often it has, and when it is tried again.
func (l *Line) Failing() string {
	if l.Tries == 0 {
		return l.Failure
	}
	return fmt.Sprintf("%s; failed %s so far, tried again at %s", l.Failure, Count(l.Tries, "time"), l.Retry.UTC().Format("15:04:05 MST"))
}

// Tries tells how often in a row something with a disk has failed.
type Tries struct {
	Count int
	// Wait is the time until the next try.
	Wait time.Duration
	// OfNode reports that the failure wraps a NodeError or ErrHeld.
	OfNode bool
	// Quiet reports that the journal has the same failure already.
	Quiet bool
}

// State returns a word for the decision and its reason, for tables and metrics.
func (d Decision) State() string {
	switch {
	case d.GivenOut():
		return "given out"
	case d.Reason == ReasonFormatFailed, d.Reason == ReasonInUse, d.Reason == ReasonLost, d.Amiss():
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

// Amiss reports whether the disk is mounted and has a fault by which data is lost, will be, or is out of sight.
func (d Decision) Amiss() bool {
	return d.Mounted() && (d.Reason == ReasonFault || d.Reason == ReasonShrunk || d.Reason == ReasonCovered || d.Reason == ReasonLost)
}
