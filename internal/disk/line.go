package disk

import (
	"fmt"
	"time"
)

// Line is the state of one disk that the daemon last published. It contains nothing read from the disk except names, so
// every user may read it.
type Line struct {
	Disk string `json:"disk"`
	// Seq is the disk sequence number. The line does not apply to a disk with another sequence number.
	Seq      uint64   `json:"diskseq"`
	Kind     Kind     `json:"content"`
	Type     string   `json:"type,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Decision Decision `json:"decision"`
	Why      string   `json:"why,omitempty"`
	Next     string   `json:"next,omitempty"`
	// Since is when the decision was made.
	Since time.Time `json:"since,omitzero"`
	// Failure is what cannot be done with the disk at present, and why. It is empty if nothing fails.
	Failure string `json:"failure,omitempty"`
	// OfNode reports that the failure is the node's, or that the kernel still holds the filesystem. Such a failure is
	// not a sign of damage.
	OfNode bool `json:"of_node,omitempty"`
	// Remedy is what helps against the failure, empty if there is no failure.
	Remedy string `json:"remedy,omitempty"`
	// Tries is how often in a row the action has failed. Retry is when it is tried again.
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
}

// Failing returns what fails, how often it has failed, and when it is tried again.
func (l *Line) Failing() string {
	if l.Tries == 0 {
		return l.Failure
	}
	return fmt.Sprintf("%s; failed %s so far, tried again at %s", l.Failure, Count(l.Tries, "time"), l.Retry.UTC().Format("15:04:05 MST"))
}

// Tries is how often in a row an action on a disk has failed.
type Tries struct {
	Count int
	// Wait is the time until the next try of the action.
	Wait time.Duration
	// OfNode reports that the failure wraps a NodeError or ErrHeld.
	OfNode bool
	// Quiet reports that the journal already has the same failure.
	Quiet bool
}

// State returns a word for the decision and its reason. Tables and metrics show it.
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

// Amiss reports whether the disk is mounted and has a fault because of which data is lost, will be lost, or cannot be
// seen.
func (d Decision) Amiss() bool {
	return d.Mounted() && (d.Reason == ReasonFault || d.Reason == ReasonShrunk || d.Reason == ReasonCovered || d.Reason == ReasonLost)
}
