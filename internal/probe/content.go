package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// Source is a disk that is open for reading.
type Source struct {
	// Reader reads the disk without the page cache, through a file descriptor opened with O_DIRECT.
	Reader io.ReaderAt
	// Node is the path of the device node, for wipefs and blkid. Size is the size of the disk in bytes.
	Node string
	Size uint64
	// Own is the filesystem that this node has begun to make on the disk, if any.
	Own Own
	// Rate is the highest number of bytes per second that a scan reads, or 0 for no limit.
	Rate uint64
	// Progress, if it is not nil, is called with the caller's context after each read of a scan or a digest. There is
	// no call after a read that failed or found a foreign byte.
	Progress func(context.Context, Progress)
}

// Progress is the progress of a scan, in bytes. Read is the number of bytes read so far. The field At is the byte
// offset that the scan has reached, at most Size.
type Progress struct{ At, Size, Read uint64 }

// Own is a filesystem that this node has begun to make on a disk and may not have finished.
type Own struct {
	// Type is disk.XFS or disk.Ext4, or empty if there is no such filesystem.
	Type string
	// UUID is the UUID of the filesystem, or empty if there is no such filesystem.
	UUID string
	// The function Like is required for ext4, and unused for XFS. The function Like returns a file of the disk's size.
	// The file contains the bytes that mkfs.ext4 would have written to the disk.
	Like func(context.Context) (io.ReaderAt, error)
}

// isXFS reports whether o is an XFS filesystem with the superblock `super`.
func (o *Own) isXFS(super *XFSSuper) bool { return o.Type != disk.Ext4 && super.UUID == o.UUID }

// Look returns the content of the disk. A scan takes longer than wipefs and blkid. Look needs the scan only if wipefs
// and blkid name nothing, or name only the unfinished XFS in s.Own. If Look returns an error, the content of the disk
// is unknown.
//
// If the disk begins with zeros, the scan starts at the same time as wipefs and blkid, because both tools start slowly.
// Look avoids an unneeded scan, because the disk may be failing. If a disk begins with zeros, wipefs and blkid rarely
// name content, so an early scan is seldom in vain.
func Look(ctx context.Context, r run.Runner, s Source, plan Plan) (disk.Content, error) {
	var super *XFSSuper
	zeros, file := false, ""
	xfs, damage := readHead(s.Reader, func(b []byte) (XFSSuper, error) {
		zeros, file = nonZero(b) < 0, fileFormat(b, false)
		return parseXFS(b)
	})
	var unread *ReadError
	switch {
	case errors.As(damage, &unread):
		return disk.Content{}, damage
	case damage == nil:
		super = &xfs
	}
	var earlyScan sync.WaitGroup
	defer earlyScan.Wait()
	scanning, stop := context.WithCancel(ctx)
	defer stop()
	scan := sync.OnceValues(func() (Finding, error) { return Scan(scanning, s, plan) })
	if zeros {
		earlyScan.Go(func() { _, _ = scan() }) // Look gets the result from the later call of scan
	}
	sigs, err := Signatures(ctx, r, s.Node)
	if err != nil {
		return disk.Content{}, err
	}
	var finding Finding
	if len(sigs) == 0 || super.unfinished() && s.Own.isXFS(super) && allOfKind(sigs, "xfs") {
		if finding, err = scan(); err != nil {
			return disk.Content{}, err
		}
		if finding.File, err = s.file(&finding, file, zeros); err != nil {
			return disk.Content{}, err
		}
	}
	c := Content(sigs, finding, super, s.Own)
	if damage != nil && !errors.Is(damage, ErrNoXFS) {
		// mkfs.xfs never writes a damaged superblock, so something else has changed the disk.
		if c.Kind == disk.HalfMade {
			c.Kind, c.UUID = disk.Unknown, ""
		}
		c.Evidence = append(c.Evidence, "byte 0: "+damage.Error())
	}
	return c, nil
}

// file returns the format of the file whose bytes fill the disk, such as qcow2, or an empty string for an unknown
// format. The parameter `begins` is the format that the first bytes of the disk indicate. The method `file` reads the last
// bytes of the disk only if the last bytes can help to recognise the format.
func (s *Source) file(f *Finding, begins string, zeros bool) (string, error) {
	if f.clean() || begins != "" || zeros && f.Offset+sector < s.Size {
		return begins, nil
	}
	return readFooter(s.Reader, s.Size)
}

// Content derives the disk's content from three sources: the signatures that wipefs and blkid name, the finding of the
// scan, and the XFS superblock. The finding is the zero Finding if no scan ran. The parameter `super` is nil if the disk
// has no sound XFS superblock. The parameter `own` is Source.Own.
//
// A disk is Blank if wipefs and blkid name nothing, the disk has no XFS superblock, and every byte that the scan
// examined was zero. A disk is HalfMade only if mkfs did not finish the disk's filesystem. A half-made filesystem is
// our own if the scan found only zeros and bytes of our own filesystem. A half-made filesystem may lack a superblock:
// an XFS may have lost its superblock, and mkfs.ext4 writes the superblock last. A half-made XFS of another machine is
// recognised only by its superblock. A half-made ext4 of another machine is never recognised.
func Content(sigs []Signature, finding Finding, super *XFSSuper, own Own) disk.Content {
	c := disk.Content{Kind: disk.Unknown, Proven: true, Evidence: evidence(sigs, finding, super)}
	switch {
	case super.unfinished() && disk.ValidUUID(super.UUID) && allOfKind(sigs, "xfs"):
		c.Type = "xfs"
		if !own.isXFS(super) || finding.clean() {
			c.Kind, c.UUID = disk.HalfMade, super.UUID
		}
	case len(sigs) > 0:
		return namedContent(c, sigs, super)
	case finding.Zero() && super == nil:
		c.Kind = disk.Blank
	case finding.clean() && super == nil:
		c.Kind, c.Type, c.UUID = disk.HalfMade, cmp.Or(own.Type, disk.XFS), own.UUID
	case finding.File != "" && super == nil:
		c.Kind, c.Type = disk.Other, finding.File
	}
	return c
}

// namedContent returns the content of a disk on which wipefs or blkid names something.
func namedContent(c disk.Content, sigs []Signature, super *XFSSuper) disk.Content {
	c.Kind, c.Type = disk.Other, sigs[0].Type
	// namedContent prefers the name from blkid, because wipefs lists every signature and does not assess it.
	i := slices.IndexFunc(sigs, func(s Signature) bool { return s.Tool == "blkid" })
	if i < 0 {
		return c
	}
	s := sigs[i]
	c.Type = s.Type
	uuid := strings.ToLower(s.UUID)
	agree := slices.ContainsFunc(sigs, func(s Signature) bool { return s.Tool == "wipefs" }) && allOfKind(sigs, s.Type)
	switch {
	case s.Usage != "filesystem" || !agree || !disk.ValidUUID(uuid):
		return c
	case s.Type == "xfs" && (super == nil || super.InProgress || super.UUID != uuid):
		// wipefs and blkid name an XFS, but the XFS superblock is damaged, unfinished or has another UUID.
		c.Kind = disk.Unknown
		return c
	}
	c.Kind, c.UUID, c.Label = disk.Filesystem, uuid, s.Label
	return c
}

// allOfKind reports whether every signature has the given type.
func allOfKind(sigs []Signature, kind string) bool {
	return !slices.ContainsFunc(sigs, func(s Signature) bool { return s.Type != kind })
}

func evidence(sigs []Signature, f Finding, super *XFSSuper) []string {
	var lines []string
	for _, tool := range []string{"wipefs", "blkid"} {
		before := len(lines)
		for _, s := range sigs {
			if s.Tool == tool {
				lines = append(lines, s.evidence())
			}
		}
		if len(lines) == before {
			lines = append(lines, tool+": nothing")
		}
	}
	if super != nil {
		state := "mkfs finished"
		if super.InProgress {
			state = "mkfs did not finish"
		}
		lines = append(lines, fmt.Sprintf("byte 0: an XFS superblock, UUID %s, %s", super.UUID, state))
	}
	return append(lines, f.Evidence()...)
}

func (s *Signature) evidence() string {
	line := s.Tool + ": " + disk.Visible(s.Type)
	if s.Tool == "wipefs" {
		line += fmt.Sprintf(" at byte %d", s.Offset)
	}
	if s.Usage != "" {
		line += " (" + disk.Visible(s.Usage) + ")"
	}
	if s.UUID != "" {
		line += " UUID " + disk.Visible(s.UUID)
	}
	return line
}

// Evidence returns the result of the scan as lines of text, or nil if no scan ran.
func (f *Finding) Evidence() []string {
	switch {
	case f.Size == 0:
		return nil
	case !f.clean():
		what := fmt.Sprintf("found old data at byte %d, as on a recycled volume or a damaged disk", f.Offset)
		if f.File != "" {
			what = "looks like a file of the format " + f.File
		}
		return []string{"not blank: " + what, fmt.Sprintf("byte %d: % x", f.Offset, f.Bytes)}
	case f.Own > 0 && f.Plan == Unsigned:
		return []string{fmt.Sprintf("read %s of %s; the first %s contain only zeros and what hotmount's unfinished format wrote (%s)", disk.HumanSize(f.Read), disk.HumanSize(f.Size), disk.HumanSize(unsigned), f.Plan)}
	case f.Own > 0:
		return []string{fmt.Sprintf("read %s of %s: all bytes are zero, except %s that hotmount's unfinished format wrote (%s)", disk.HumanSize(f.Read), disk.HumanSize(f.Size), disk.HumanSize(f.Own), f.Plan)}
	case f.Plan == Unsigned:
		return []string{fmt.Sprintf("read %s of %s; the first %s are all zero (%s)", disk.HumanSize(f.Read), disk.HumanSize(f.Size), disk.HumanSize(unsigned), f.Plan)}
	case f.Plan == Sampled:
		return []string{fmt.Sprintf("read %s of %s in %d places, all zero (%s)", disk.HumanSize(f.Read), disk.HumanSize(f.Size), f.Places, f.Plan)}
	}
	return []string{fmt.Sprintf("read %s of %s, all zero (%s)", disk.HumanSize(f.Read), disk.HumanSize(f.Size), f.Plan)}
}
