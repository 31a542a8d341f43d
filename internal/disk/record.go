package disk

import (
	"path"
	"time"
)

// The values of Record.By. Record.By names who decided to format the disk.
const (
	ByDaemon   = "daemon"
	ByOperator = "operator"
)

// Record is one decision to make a filesystem on a disk. A new filesystem destroys the old content of the disk.
// hotmount writes the record before its first write to the disk, and adds the result at the end.
type Record struct {
	// Name is the kernel name of the disk at the time of the format. Identity distinguishes the disk from other disks
	// that had this name.
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`
	Class    string   `json:"class,omitempty"`
	// UUID is the UUID of the new filesystem. A format that is restarted after a crash has the same UUID in a new
	// record.
	UUID string `json:"uuid"`
	// Type is the type of the filesystem. An empty Type means XFS.
	Type string `json:"type,omitempty"`
	// By is ByDaemon or ByOperator.
	By string `json:"by"`
	// Evidence is a copy of Content.Evidence. The evidence describes the content of the disk before the format.
	Evidence []string  `json:"evidence"`
	Begun    time.Time `json:"begun"`
	// Noticed is when hotmount saw that Begun was in the future. Begun is in the future if the clock was wrong when the
	// format began. Noticed is zero if hotmount never saw Begun in the future.
	Noticed time.Time `json:"noticed,omitzero"`
	// Ended is when the format ended. Ended is zero while the format is running, and stays zero if a crash ended the
	// format.
	Ended time.Time `json:"ended,omitzero"`
	// Failure is why the filesystem was not made, or empty if the filesystem was made.
	Failure string `json:"failure,omitempty"`
}

// Time returns the time at which the format began. If Begun is in the future and Noticed is set, Time returns Noticed.
func (r *Record) Time(now time.Time) time.Time {
	if r.Begun.After(now) && !r.Noticed.IsZero() {
		return r.Noticed
	}
	return r.Begun
}

// Made reports whether the record shows that the filesystem was made.
func (r *Record) Made() bool { return !r.Ended.IsZero() && r.Failure == "" }

// Sighting is the record of a mounted filesystem: on which disk it was, and when. hotmount keeps only one such record
// for each filesystem UUID. hotmount also keeps a Sighting of content that it does not mount. Such a Sighting has no
// class, and may have no UUID. In such a Sighting, Mounted is when hotmount recorded the content, at its first sight in
// the attachment.
type Sighting struct {
	// Identity is the identity of the disk when the filesystem was last seen on it.
	Identity Identity `json:"identity"`
	UUID     string   `json:"uuid"`
	Type     string   `json:"type"`
	// Class is the name of the class that mounted the filesystem. Directory is the directory of that class. Class and
	// Directory are empty after the operator has accepted that another class uses the filesystem.
	Class     string `json:"class"`
	Directory string `json:"directory,omitempty"`
	// Mounted is when hotmount last recorded the mount: at a new mount, after a new decision, or after a start of the
	// daemon.
	Mounted time.Time `json:"mounted"`
	// At is the same point in time as Mounted, measured by CLOCK_MONOTONIC (clock_gettime(2)) in the boot that Identity
	// names. Unlike the wall clock, CLOCK_MONOTONIC cannot be set.
	At time.Duration `json:"at,omitempty"`
	// Left reports that after the time Mounted, hotmount saw the disk being detached, or the operator gave the disk up
	// (hotmount forget).
	Left bool `json:"left,omitempty"`
	// Full reports that the filesystem is XFS, and that its measured size was the largest size that is possible on the
	// disk. Full also requires that the superblock on the disk contained the measured size (Facts.Full).
	Full bool `json:"full,omitempty"`
	// Adopted is the size of the disk in bytes at the filesystem's first mount on this node. If this node made the
	// filesystem, Adopted is 0.
	Adopted uint64 `json:"adopted,omitempty"`
	// Newest is the highest sequence number of the disks that may have been attached when this disk left, or 0 if
	// unknown. A disk with a higher sequence number than Newest was attached later.
	Newest uint64 `json:"newest,omitempty"`
}

// Place is where a volume is mounted or given out. The zero value means that there is no place.
type Place struct {
	// Directory is the class directory. Directory is empty in old records, which contain only Class, the name of the
	// class.
	Directory, Class string
}

// In(c) reports whether the place belongs to the class c. The comparison is by directory, because a class may have been
// renamed. For an old record without a directory, the comparison is by the name of the class.
func (p Place) In(c *Class) bool {
	return p.Directory != "" && p.Directory == c.Directory || p.Directory == "" && p.Class != "" && p.Class == c.Name
}

// Place returns the place at which the filesystem was mounted. Place returns the zero Place for a nil Sighting.
func (s *Sighting) Place() Place {
	if s == nil {
		return Place{}
	}
	return Place{s.Directory, s.Class}
}

// Place returns the place at which the disk was given out. Place returns the zero Place for a nil Given, and for a
// Given without a class.
func (g *Given) Place() Place {
	if g == nil || g.Class == "" {
		return Place{}
	}
	return Place{path.Dir(g.Link), g.Class}
}
