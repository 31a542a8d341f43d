package disk

import (
	"fmt"
	"strings"
	"time"
)

// Use is the record that other software used a disk, or still uses the disk. hotmount makes no such record while the
// disk is a volume of hotmount on this node.
type Use struct {
	Identity Identity `json:"identity"`
	// UUID is the UUID of the filesystem that was known on the disk during the use, or empty.
	UUID string `json:"uuid,omitempty"`
	// The text How describes the use: "mounted at /srv". The text can contain arbitrary bytes.
	How string `json:"how"`
	// Seen is the time at which hotmount first saw the use.
	Seen time.Time `json:"seen"`
}

// Is reports whether u may be the record of the disk with that identity and filesystem. A serial or WWN identifies a
// disk in every attachment. A disk without serial and WWN is identified by its filesystem, or after a reboot by slot
// and size.
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

// OfWhole reports whether u is the record that holds the partition f: the record of f itself or of its whole disk. If
// the slots differ, OfWhole returns false, because u may be about another disk with the same serial.
func (u *Use) OfWhole(f *Facts) bool {
	if f.Whole == "" || f.Standing.Used == nil || u.Identity != f.Standing.Used.Identity {
		return false
	}
	return f.Slot == u.Identity.Slot || strings.HasPrefix(f.Slot, u.Identity.Slot+PartitionSuffix)
}

// Opener is a process that has a disk open, or has mounted the disk in its own mount namespace.
type Opener struct {
	// PID is 0 if the disk is mounted, but no process with the mount was found.
	PID int `json:"pid"`
	// Command is the name of the process's program. The name can contain arbitrary bytes.
	Command string `json:"command"`
	// Machine reports that the process is a virtual machine monitor. If Machine is false and How is empty, the process
	// has the disk open for writing.
	Machine bool `json:"machine,omitempty"`
	// How describes the mount or the use of its filesystem, in text without control characters. How is empty for a
	// process that has the disk open.
	How string `json:"how,omitempty"`
}

// Lasts reports whether hotmount must record the use, so that the disk stays held after the use has ended.
func (o *Opener) Lasts() bool { return o.Machine || o.How != "" && o.PID != 0 }

// String returns the end of a sentence about the disk: how the process uses the disk.
func (o *Opener) String() string {
	switch {
	case o.PID == 0:
		return o.How
	case o.How != "":
		return fmt.Sprintf("used by %s (process %d): %s", o.Command, o.PID, o.How)
	case o.Machine:
		return fmt.Sprintf("opened by the virtual machine monitor %s (process %d)", o.Command, o.PID)
	}
	return fmt.Sprintf("opened for writing by %s (process %d)", o.Command, o.PID)
}

// Hint returns the end of a message: a command that shows who uses the disk. The parameter `node` is the path of the
// disk's device node. Hint returns "" if no process is known.
func (o *Opener) Hint(node string) string {
	switch {
	case o.How == "":
		return "; to see who has it open: fuser -v " + node
	case o.PID != 0:
		return fmt.Sprintf("; to see the mount: findmnt --task %d %s", o.PID, node)
	}
	return ""
}
