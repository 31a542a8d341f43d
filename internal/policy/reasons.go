package policy

import "hotmount/internal/disk"

// Entry describes one reason of a decision, as shown in the manual page and in the journal's catalog.
type Entry struct {
	Reason disk.Reason
	// Action is the action for the reason. Means is the explanation of the reason. Hold is the kind of the hold, or
	// empty if the action is not Hold.
	Action disk.Action
	Hold   Hold
	Means  string
	// Accept and Token report whether `hotmount accept` or the token of `hotmount format` lifts the reason. Retry
	// reports whether `hotmount accept` only makes hotmount try again.
	Accept, Retry, Token bool
	// Records is true if hotmount records the reason, so that the hold or the refusal persists after its cause is gone.
	Records bool
}

// Reasons returns an entry for each reason, in the order in which Decide checks them.
func Reasons() []Entry {
	var all []Entry
	for i := range rules {
		if r := &rules[i]; r.means != "" {
			all = append(all, Entry{r.reason, r.action, r.kind, r.means, r.lift&byAccept != 0, r.lift&byRetry != 0, r.lift&byToken != 0, r.recorded != nil})
		}
	}
	return all
}
