package policy

import "hotmount/internal/disk"

// Entry is what the manual page and the journal's catalog say of a reason.
type Entry struct {
	Reason disk.Reason
	// Action is what is done for it, Means why. Hold is the kind of a hold, empty for
	// another action.
	Action disk.Action
	Hold   Hold
	Means  string
	// Accept and Token report whether hotmount accept, or the token of hotmount format,
	// lifts it. Retry reports whether accept only has the disk tried again.
	Accept, Retry, Token bool
	// Records reports whether it stays when its cause is gone.
	Records bool
}

// Reasons returns an entry for each reason, in the order in which Decide asks for them.
func Reasons() []Entry {
	var all []Entry
	for i := range rules {
		if r := &rules[i]; r.means != "" {
			all = append(all, Entry{r.reason, r.action, r.kind, r.means, r.lift&byAccept != 0, r.lift&byRetry != 0, r.lift&byToken != 0, r.recorded != nil})
		}
	}
	return all
}
