package disk

// Event is something that happened to a disk or to the daemon. The events are the source of the journal, the status and
// the metrics.
type Event struct {
	Kind EventKind
	// Facts are the facts of the disk, or nil if the event does not concern a single disk.
	Facts    *Facts
	Decision Decision
	// Path is the present, former or intended path of the disk's mount or link, or empty if no path is known.
	Path string
	// Content and Settings are the content and the settings on which the decision is based. These two fields are set
	// only for EventDecided.
	Content  *Content
	Settings *Settings
	// Err is the failure or the problem. Tries shows when the failed action is tried again.
	Err   error
	Tries Tries
	// Notice is the text of an EventNotice, empty for any other event.
	Notice string
}

// EventKind is the kind of an Event.
type EventKind int

const (
	// EventDecided: the decision differs from the disk's last decision.
	EventDecided EventKind = iota
	// EventMounted: the mount table shows the disk's mount after hotmount has tried to mount the disk.
	EventMounted
	// EventFailed: an action on the disk has failed. Each failed try is one event.
	EventFailed
	// EventRecovered: an earlier failure of a disk is over, and nothing needs to be done with the disk.
	EventRecovered
	// EventGone: a disk was detached.
	EventGone
	// EventDisregarded: no class selects this partition any longer. hotmount no longer looks at the partition, and does
	// not change it. EventDisregarded is also the event for a detached disk whose reason was ReasonUnselected.
	EventDisregarded
	// EventBounced: a mount ended because PID 1 considered the disk unplugged, or did a soft reboot. hotmount mounts
	// the disk again.
	EventBounced
	// EventNotice: there is a problem that concerns no single disk, and that the operator must solve. Each such problem
	// is one event.
	EventNotice
	// EventProblem: there is an error other than a failed action on a disk.
	EventProblem
)
