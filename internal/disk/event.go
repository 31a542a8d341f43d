package disk

// Event is something that happened to a disk or to the daemon, for the journal, the status and the metrics.
type Event struct {
	Kind EventKind
	// Facts are those of the disk, nil if the event concerns no single disk.
	Facts    *Facts
	Decision Decision
	// Path is where the disk is, was or is to be mounted or given out, empty for nowhere.
	Path string
	// Content and Settings are what a decision was made on. Only EventDecided has them.
	Content  *Content
	Settings *Settings
	// Err is the failure or the problem. Tries tells when what failed is tried again.
	Err   error
	Tries Tries
	// Notice is the text of EventNotice.
	Notice string
}

// EventKind is the kind of an Event.
type EventKind int

const (
	// EventDecided is a decision that differs from the disk's last one.
	EventDecided EventKind = iota
	// EventMounted is a mount that the mount table shows.
	EventMounted
	// EventFailed is each failure to do something with the disk.
	EventFailed
	// EventRecovered is that a disk had a failure and needs nothing any more.
	EventRecovered
	// EventGone is that a disk was detached.
	EventGone
	// EventDisregarded is that no class selects a partition any more, which stays as it is, or the end of a disk that no
	// class selected.
	EventDisregarded
	// EventBounced is a mount that ended because PID 1 took the disk for unplugged or rebooted softly, and that is made
	// again.
	EventBounced
	// EventNotice is a problem that concerns no single disk and needs a person, each one once.
	EventNotice
	// EventProblem is an error that concerns no single disk.
	EventProblem
)
