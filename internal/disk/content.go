package disk

import "strings"

// Kind is the kind of content on a disk.
type Kind string

// The kinds of content. Without the operator's token, hotmount formats only Blank disks, and HalfMade disks on which
// this node itself began to make the filesystem. Content that hotmount finds but does not recognise is Unknown, never
// Blank.
const (
	// Unread: no valid proof shows the content, and udev reports no content.
	Unread Kind = "unread"
	// Blank: hotmount has read the disk by the method in Class.Blank, and has found nothing.
	Blank Kind = "blank"
	// Filesystem: the disk holds a filesystem with a UUID.
	Filesystem Kind = "filesystem"
	// HalfMade: the disk holds a filesystem whose mkfs did not finish. The mkfs may have run on another machine.
	HalfMade Kind = "half-made"
	// Other: the disk holds something else that hotmount recognises, such as LVM or a filesystem without a valid UUID.
	Other Kind = "other"
	// Unknown: the disk cannot be read, or its content is not recognised.
	Unknown Kind = "unknown"
)

// Ambivalent is the Type of a Content if udev reports the signatures of more than one format (Udev.Ambivalent).
const Ambivalent = "ambivalent"

// Content describes what is on a disk, and also contains the evidence.
type Content struct {
	Kind Kind `json:"kind"`
	// Type is libblkid's name for the content ("xfs", "LVM2_member", "gpt"), or the format of a file (Finding.File in
	// package probe). Type can contain arbitrary bytes, because udev or another program supplies the text. Only a Type
	// that equals a name in one of hotmount's own lists is safe to print.
	Type string `json:"type,omitempty"`
	// UUID is the filesystem's UUID in lower case, in the form that ValidUUID accepts.
	UUID string `json:"uuid,omitempty"`
	// Label is the filesystem's label. A label can contain arbitrary bytes.
	Label string `json:"label,omitempty"`
	// Span is the number of bytes that the filesystem occupies on the disk, or 0 if unknown.
	Span uint64 `json:"span,omitempty"`
	// Proven reports that hotmount itself has read the disk. If Proven is false, the content is what udev has found.
	Proven bool `json:"proven,omitempty"`
	// Torn reports that a format of the disk did not finish, and that some of the data that mkfs writes is missing. The
	// superblock can reach the disk before other data, because mkfs flushes only at its end.
	Torn bool `json:"torn,omitempty"`
	// Made reports that hotmount made the filesystem on this machine, by a format that has just ended.
	Made bool `json:"made,omitempty"`
	// Evidence contains one finding per entry, such as the bytes at an offset of the disk.
	Evidence []string `json:"evidence,omitempty"`
}

// KnownContent returns the disk's content as far as the facts show it, without reading the disk. If the last proof is
// still valid, the content is the result of the proof. Without a valid proof, the content is what udev has found.
func (f *Facts) KnownContent() Content {
	c, proof := f.knownContent()
	if !proof {
		c.Evidence = f.Udev.evidence(&c)
	}
	return c
}

// knownContent returns the same as KnownContent, but without udev's evidence, because the texts of the evidence take
// time to make. FindPeers calls knownContent for many disks and needs no evidence. The second result is true if the
// content comes from the last proof.
func (f *Facts) knownContent() (c Content, proof bool) {
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
		return Content{Kind: Other, Type: Ambivalent}
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

// evidence returns the udev properties that c is derived from.
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
