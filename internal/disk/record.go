package disk

import (
	"path"
	"time"
)

// The ones who decide that a disk is formatted.
const (
	ByDaemon   = "daemon"
	ByOperator = "operator"
)

// Record is one destructive decision: that a filesystem is made on a disk. It is
// written before the first write to the disk and closed with what came of it.
type Record struct {
	// Name is the kernel name that the disk had; Identity tells which it was.
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`
	Class    string   `json:"class,omitempty"`
	// UUID is the new filesystem's. A format that is begun again after a crash
	// keeps it, in a record of its own.
	UUID string `json:"uuid"`
	// Type is the filesystem's, empty for XFS.
	Type string `json:"type,omitempty"`
	// By is ByDaemon or ByOperator.
	By string `json:"by"`
	// Evidence is Content.Evidence of what was found before.
	Evidence []string  `json:"evidence"`
	Begun    time.Time `json:"begun"`
	// Ended is zero as long as nobody has said what came of it: it is under way,
	// or a crash ended it.
	Ended time.Time `json:"ended,omitzero"`
	// Failure is why the filesystem was not made, empty if it was.
	Failure string `json:"failure,omitempty"`
}

// Made reports whether the filesystem is known to have been made.
func (r *Record) Made() bool { return !r.Ended.IsZero() && r.Failure == "" }

// Sighting is the memory of a filesystem that was mounted: on which disk it lay,
// and when. There is one for each UUID. That of something that is not mounted by
// hotmount has no class, and perhaps no UUID; Mounted is when it was seen.
type Sighting struct {
	// Identity is that of the disk when the filesystem was last seen on it.
	Identity Identity `json:"identity"`
	UUID     string   `json:"uuid"`
	Type     string   `json:"type"`
	// Class is the name of the class whose volume it was, Directory that class's; both
	// are empty once the operator has accepted that another class has it.
	Class     string `json:"class"`
	Directory string `json:"directory,omitempty"`
	// Mounted is when it was last found mounted.
	Mounted time.Time `json:"mounted"`
	// At is the same moment by CLOCK_MONOTONIC (clock_gettime(2)), which nobody sets,
	// in the boot of Identity.
	At time.Duration `json:"at,omitempty"`
	// Left reports that hotmount saw the disk being detached after that.
	Left bool `json:"left,omitempty"`
	// Full reports that the filesystem, an XFS, was measured by then, and took all of the disk
	// that it can, by the superblock on the disk as well (Facts.Full).
	Full bool `json:"full,omitempty"`
	// Newest is the highest disk sequence number of those that were attached then, so
	// that one is told from what was attached later; 0 if it is not known.
	Newest uint64 `json:"newest,omitempty"`
}

// Place is where a volume was, nowhere by default.
type Place struct {
	// Directory is the class directory, empty in records of the time when only Class,
	// the class's name, was recorded.
	Directory, Class string
}

// In reports whether the volume was one of the class: of that directory, whatever the
// class was called then.
func (p Place) In(c *Class) bool {
	return p.Directory != "" && p.Directory == c.Directory || p.Directory == "" && p.Class != "" && p.Class == c.Name
}

// Place is where the filesystem was mounted; nil was nowhere.
func (s *Sighting) Place() Place {
	if s == nil {
		return Place{}
	}
	return Place{s.Directory, s.Class}
}

// Place is where the disk was given out; nil was nowhere.
func (g *Given) Place() Place {
	if g == nil || g.Class == "" {
		return Place{}
	}
	return Place{path.Dir(g.Link), g.Class}
}
