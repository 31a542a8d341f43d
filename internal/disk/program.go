package disk

// Program is one of hotmount's programs that run in a unit of their own, for one disk or mount point. It is the name of
// the unit's template.
type Program string

const (
	// ProgramFormat proves a disk blank and formats it if it is.
	ProgramFormat Program = "hotmount-format"
	// ProgramFill grows a disk's filesystem, not mounted yet, to the disk.
	ProgramFill Program = "hotmount-stage"
	// ProgramGrow grows a disk's mounted filesystem to the disk.
	ProgramGrow Program = "hotmount-grow"
	// ProgramUsers finds out which process has a disk open (Opener).
	ProgramUsers Program = "hotmount-users"
	// ProgramBlock gives a disk out by a link for as long as the disk is there. Its unit has started when the link is
	// made.
	ProgramBlock Program = "hotmount-block"
	// ProgramCleanup removes the directory of a mount that has ended.
	ProgramCleanup Program = "hotmount-cleanup"
	// ProgramUnmount detaches the mount of a device that is gone from the tree, if it cannot be unmounted. It names the
	// users.
	ProgramUnmount Program = "hotmount-unmount"
)
