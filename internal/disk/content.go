package disk

import "strings"

// Kind says what is on a disk.
type Kind string

// The kinds of content. Only what is Blank, or HalfMade by this node on this disk, may
// be formatted by itself, and what could not be read or recognised is Unknown, never Blank.
const (
	// Unread: nobody has read the disk yet, and udev names nothing on it.
	Unread Kind = "unread"
	// Blank: proven to hold nothing.
	Blank Kind = "blank"
	// Filesystem: a filesystem with a UUID.
	Filesystem Kind = "filesystem"
	// HalfMade: a filesystem whose mkfs did not finish, perhaps somebody else's.
	HalfMade Kind = "half-made"
	// Other: something that is not a filesystem that can be mounted by UUID.
	Other Kind = "other"
	// Unknown: it could not be read, or what was read is not understood.
	Unknown Kind = "unknown"
)

// Content is what is on a disk, with the evidence for it.
type Content struct {
	Kind Kind `json:"kind"`
	// Type is the name libblkid gives to what is there: "xfs", "LVM2_member",
	// "gpt". Foreign bytes unless it comes from a list of ours.
	Type string `json:"type,omitempty"`
	// UUID is the filesystem's UUID, in lower case; only one that
	// ValidUUID accepts.
	UUID string `json:"uuid,omitempty"`
	// Label is the filesystem's label. Foreign bytes.
	Label string `json:"label,omitempty"`
	// Span is how many bytes of the disk the filesystem takes, 0 if nobody knows.
	Span uint64 `json:"span,omitempty"`
	// Proven reports that hotmount has read the disk itself; otherwise it is what
	// udev vouches for.
	Proven bool `json:"proven,omitempty"`
	// Torn reports that it is the filesystem of the disk's unfinished format, and that not all
	// of what mkfs wrote is there, though its superblock is: mkfs flushes at its end alone.
	Torn bool `json:"torn,omitempty"`
	// Made reports that hotmount has just made it on this machine.
	Made bool `json:"made,omitempty"`
	// Evidence tells, one finding a line, what was looked at and what it
	// showed: which check, which offset, which bytes.
	Evidence []string `json:"evidence,omitempty"`
}

// Known returns what is known of the disk's content without reading it: the last
// proof as long as it is valid, else what udev has probed and vouches for.
func (f *Facts) Known() Content {
	c, proof := f.known()
	if !proof {
		c.Evidence = f.Udev.evidence(&c)
	}
	return c
}

// known is Known, but that udev's has no evidence: to make text of it takes longer than all else, and
// who compares many disks wants none. Proof says that it is that of the last one.
func (f *Facts) known() (c Content, proof bool) {
	if v := f.Standing.Verdict; v.Valid(f) && v.Content.Kind != "" {
		return v.Content, true
	}
	return f.Udev.content(), false
}

func (u *Udev) content() Content {
	switch {
	case !u.Initialized:
		return Content{Kind: Unread}
	case u.Ambivalent != "":
		return Content{Kind: Other, Type: "ambivalent"}
	case u.PartTable != "":
		return Content{Kind: Other, Type: u.PartTable}
	case u.FSType == "" && u.FSUsage == "":
		return Content{Kind: Unread}
	case u.FSUsage != "filesystem":
		return Content{Kind: Other, Type: u.FSType, Label: u.FSLabel}
	}
	c := Content{Kind: Filesystem, Type: u.FSType, UUID: strings.ToLower(u.FSUUID), Label: u.FSLabel, Span: u.FSSpan}
	if !ValidUUID(c.UUID) {
		c.Kind, c.UUID = Other, ""
	}
	return c
}

// evidence returns by which of udev's properties the content is what it is.
func (u *Udev) evidence(c *Content) []string {
	switch {
	case c.Kind == Unread:
		return nil
	case u.Ambivalent != "":
		return []string{"udev: ID_FS_AMBIVALENT=" + Visible(u.Ambivalent)}
	case u.PartTable != "":
		return []string{"udev: ID_PART_TABLE_TYPE=" + Visible(u.PartTable)}
	case u.FSUsage != "filesystem":
		return []string{"udev: ID_FS_TYPE=" + Visible(u.FSType) + " ID_FS_USAGE=" + Visible(u.FSUsage)}
	}
	return []string{"udev: ID_FS_TYPE=" + Visible(u.FSType) + " ID_FS_UUID=" + Visible(u.FSUUID)}
}
