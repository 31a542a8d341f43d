package disk

// Program is a program of hotmount that runs in its own systemd unit, for one disk or mount point. The value of a
// Program is the name of its unit template.
type Program string

const (
	// ProgramFormat proves what is on a disk, and formats the disk if the decision is Format.
	ProgramFormat Program = "hotmount-format"
	// ProgramFill grows the filesystem of an unmounted disk to the size of the disk.
	ProgramFill Program = "hotmount-stage"
	// ProgramGrow grows the mounted filesystem of a disk to the size of the disk.
	ProgramGrow Program = "hotmount-grow"
	// ProgramUsers finds out which process has a disk open. The result of ProgramUsers is an Opener.
	ProgramUsers Program = "hotmount-users"
	// ProgramBlock makes the link that gives a disk out. systemd regards the unit of ProgramBlock as started as soon as
	// the link exists. The unit removes the link when it stops, at the latest when the disk is detached.
	ProgramBlock Program = "hotmount-block"
	// ProgramCleanup removes the directory of a mount that has ended.
	ProgramCleanup Program = "hotmount-cleanup"
	// ProgramUnmount shuts down the filesystem of a detached disk and unmounts the filesystem, lazily if necessary.
	// ProgramUnmount names the processes that use the filesystem.
	ProgramUnmount Program = "hotmount-unmount"
)
