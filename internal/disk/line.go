package disk

import (
	"fmt"
	"time"
)

// Line is the state of one disk, as the daemon last published it. Every user may read a Line. Data from the disk in a
// Line are names, such as the type and the UUID. Some messages also contain up to 16 bytes of the content.
type Line struct {
	Disk string `json:"disk"`
	// Seq is the disk sequence number. A Line does not apply to a disk with another sequence number.
	Seq      uint64   `json:"diskseq"`
	Kind     Kind     `json:"content"`
	Type     string   `json:"type,omitempty"`
	UUID     string   `json:"uuid,omitempty"`
	Decision Decision `json:"decision"`
	Why      string   `json:"why,omitempty"`
	Next     string   `json:"next,omitempty"`
	// Since is the time at which the decision was made.
	Since time.Time `json:"since,omitzero"`
	// Failure describes the action that fails on the disk at present, and the cause. Failure is empty if no action
	// fails.
	Failure string `json:"failure,omitempty"`
	// OfNode reports that the failure is a fault of the node, or that the kernel still has the filesystem mounted
	// (ErrHeld). A failure with OfNode set is not a sign of damage.
	OfNode bool `json:"of_node,omitempty"`
	// Remedy is advice for the operator on how to end the failure. Remedy is empty if there is no failure.
	Remedy string `json:"remedy,omitempty"`
	// Tries is how many times in a row the action has failed. Retry is the time of the next try.
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
}

// Failing returns a text that names the failure, the number of failed tries, and the time of the next try.
func (l *Line) Failing() string {
	if l.Tries == 0 {
		return l.Failure
	}
	return fmt.Sprintf("%s; failed %s so far, next try at %s", l.Failure, Count(l.Tries, "time"), l.Retry.UTC().Format("15:04:05 MST"))
}

// Tries describes how often in a row an action on a disk has failed, and when the next try is.
type Tries struct {
	Count int
	// Wait is the time until the next try of the action.
	Wait time.Duration
	// OfNode reports that the failure wraps a NodeError or ErrHeld.
	OfNode bool
	// Quiet reports that the journal already contains the same failure.
	Quiet bool
}

// State returns a word for the decision and its reason. Tables and metrics show this word.
func (d Decision) State() string {
	switch {
	case d.GivenOut():
		return "given out"
	case d.Reason == ReasonFormatFailed, d.Reason == ReasonInUse, d.Reason == ReasonLost, d.RisksData():
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

// RisksData reports whether the disk is mounted and has a fault that loses data, can later lose data, or hides data.
func (d Decision) RisksData() bool {
	return d.Mounted() && (d.Reason == ReasonFault || d.Reason == ReasonShrunk || d.Reason == ReasonCovered || d.Reason == ReasonLost)
}
