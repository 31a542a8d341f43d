package disk

import (
	"path"
	"time"
)

// The values of Record.By: who decided to format the disk.
const (
	ByDaemon   = "daemon"
	ByOperator = "operator"
)

// Record is one decision to make a filesystem on a disk, which destroys what is there. It is written before the first
// write to the disk and closed with the result.
type Record struct {
	// Name is the kernel name that the disk had. Identity tells which disk it was.
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`
	Class    string   `json:"class,omitempty"`
	// UUID is the new filesystem's. A format restarted after a crash keeps it, in a new record.
	UUID string `json:"uuid"`
	// Type is the filesystem's type, empty for XFS.
	Type string `json:"type,omitempty"`
	// By is ByDaemon or ByOperator.
	By string `json:"by"`
	// Evidence is Content.Evidence of the content found before.
	Evidence []string  `json:"evidence"`
	Begun    time.Time `json:"begun"`
	// Noticed is when it was noticed that Begun was in the future, zero for never. A clock was wrong.
	Noticed time.Time `json:"noticed,omitzero"`
	// Ended is zero while the result is not recorded: the format is running, or a crash ended it.
	Ended time.Time `json:"ended,omitzero"`
	// Failure is why the filesystem was not made, empty if it was.
	Failure string `json:"failure,omitempty"`
}

// Time returns when the format began. Noticed stands in for a time that is in the future.
func (r *Record) Time(now time.Time) time.Time {
	if r.Begun.After(now) && !r.Noticed.IsZero() {
		return r.Noticed
	}
	return r.Begun
}

// Made reports whether the filesystem is known to have been made.
func (r *Record) Made() bool { return !r.Ended.IsZero() && r.Failure == "" }

// Sighting is the record of a mounted filesystem: on which disk it lay, and when. There is one for each UUID. Content
// that hotmount does not mount has no class and perhaps no UUID; Mounted is then when it was seen.
type Sighting struct {
	// Identity is that of the disk when the filesystem was last seen on it.
	Identity Identity `json:"identity"`
	UUID     string   `json:"uuid"`
	Type     string   `json:"type"`
	// Class is the name of the class whose volume it was, Directory that class's directory. Both are empty once the
	// operator has accepted that another class has it.
	Class     string `json:"class"`
	Directory string `json:"directory,omitempty"`
	// Mounted is when it was last found mounted.
	Mounted time.Time `json:"mounted"`
	// At is the same moment by CLOCK_MONOTONIC (clock_gettime(2)), which cannot be set, in the boot of Identity.
	At time.Duration `json:"at,omitempty"`
	// Left reports that hotmount saw the disk being detached after that.
	Left bool `json:"left,omitempty"`
	// Full reports that the filesystem, an XFS, was measured and took all of the disk that it can. The superblock on
	// the disk agreed (Facts.Full).
	Full bool `json:"full,omitempty"`
	// Adopted is the size of the disk when the filesystem was first mounted on this node, 0 if the node had made it.
	Adopted uint64 `json:"adopted,omitempty"`
	// Newest is the highest disk sequence number attached at that moment, 0 if unknown. It distinguishes disks that
	// were attached later.
	Newest uint64 `json:"newest,omitempty"`
}

// Place is the place of a volume. The zero value is nowhere.
type Place struct {
	// Directory is the class directory. It is empty in old records, which have only Class, the class's name.
	Directory, Class string
}

// In reports whether the place is in the class's directory, whatever the class was called then.
func (p Place) In(c *Class) bool {
	return p.Directory != "" && p.Directory == c.Directory || p.Directory == "" && p.Class != "" && p.Class == c.Name
}

// Place returns where the filesystem was mounted, nowhere for nil.
func (s *Sighting) Place() Place {
	if s == nil {
		return Place{}
	}
	return Place{s.Directory, s.Class}
}

// Place returns where the disk was given out, nowhere for nil.
func (g *Given) Place() Place {
	if g == nil || g.Class == "" {
		return Place{}
	}
	return Place{path.Dir(g.Link), g.Class}
}
