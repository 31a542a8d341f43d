package disk

import (
	"fmt"
	"time"
)

// Use is the record of somebody else's use of a disk that is no volume of this node.
type Use struct {
	Identity Identity `json:"identity"`
	// UUID is that of the filesystem known on the disk then, empty for none.
	UUID string `json:"uuid,omitempty"`
	// How is the use in words: "mounted at /srv". It contains foreign bytes.
	How string `json:"how"`
	// Seen is when the use was first seen.
	Seen time.Time `json:"seen"`
}

// Is reports whether the record may be of the disk with that identity and filesystem. A serial or WWN identifies a
// disk in every attachment. Without one the filesystem does, or slot and size across a reboot.
func (u *Use) Is(id Identity, uuid string) bool {
	was := u.Identity
	switch {
	case was.Boot == id.Boot && was.Seq == id.Seq, was.Same(id):
		return true
	case was.Other(id):
		return false
	case uuid != "" && u.UUID == uuid:
		return true
	}
	return was.Boot != id.Boot && was.Like(id)
}

// Opener is a process that has a disk open.
type Opener struct {
	PID int `json:"pid"`
	// Command is the name of its program. It contains foreign bytes.
	Command string `json:"command"`
	// Machine reports that it is a virtual machine monitor. Any other process has the disk open for writing.
	Machine bool `json:"machine,omitempty"`
}

// String returns what the process does, as the end of a sentence about the disk.
func (o *Opener) String() string {
	if o.Machine {
		return fmt.Sprintf("opened by the virtual machine monitor %s (process %d)", o.Command, o.PID)
	}
	return fmt.Sprintf("opened for writing by %s (process %d)", o.Command, o.PID)
}
