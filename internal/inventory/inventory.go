// Package inventory gathers all that is known of the node's disks without
// reading them: from sysfs and the udev database, the mount table, the system's
// configuration and hotmount's own stores.
package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/store"
	"hotmount/internal/sysfs"
)

// HoldFile switches all formatting off as long as it exists.
const HoldFile = "/etc/hotmount/hold"

// systemPaths are the mount points that make a disk one of the running system's.
var systemPaths = map[string]bool{"/": true, "/boot": true, "/boot/efi": true, "/usr": true, "/var": true}

// Host is a node, as seen below a root directory; "" is the live system.
type Host struct {
	Root  string
	Store store.Store
	// Shared is for who looks often, and at many disks at once; nil for nobody.
	Shared *Shared
	// Measure gives the geometry of an XFS that is mounted at the path, and whose
	// disk has nothing to do; nil to do without. It is asked once of each mount, by
	// who has Shared.
	Measure func(path string, dev disk.Dev) (disk.Geometry, error)
	// Partitions reports whether partitions are wanted as well; nil for never.
	Partitions func() bool
	// CameAfter reports whether the disk with the one kernel name, which is attached, is known to
	// have come after one with the other name had gone; nil for nothing known.
	CameAfter func(name, gone string) bool
	// Asks reports that what a loop device lies on is asked for, and not guessed: one that this
	// process may not open seems to lie on each disk.
	Asks bool
}

// Names are the kernel names of all disks that are attached, and of their partitions
// where these are wanted.
func (h Host) Names() ([]string, error) { return h.sysfs().Names() }

// Newest returns the highest disk sequence number of those attached that may have been
// attached together with the disk of that kernel name, which is gone.
func (h Host) Newest(name string) (uint64, error) {
	return h.sysfs().Newest(name, func(other string) bool { return h.CameAfter != nil && h.CameAfter(other, name) })
}

// Mounts returns PID 1's mount table (mounts.Reader.Tree).
func (h Host) Mounts() ([]mounts.Mount, error) { return h.Shared.reader().Tree(h.Root) }

// MountedAt reports whether the device is mounted at the path. The error may be that another
// one is mounted over it.
func (h Host) MountedAt(path string, dev disk.Dev) (bool, error) {
	tree, err := h.Mounts()
	if err != nil {
		return false, err
	}
	return mounts.OnTop(tree, path, dev)
}

// DoubtMounts has the mount table read anew by the next who wants it (mounts.Reader.Doubt).
func (h Host) DoubtMounts() { h.Shared.reader().Doubt() }

// Propagates says, by nil, that what PID 1 mounts below the directory shows in this
// process's mount namespace (mounts.Reader.Propagates).
func (h Host) Propagates(directory string) error {
	return h.Shared.reader().Propagates(h.Root, directory)
}

// Unknown are the names of the disks that udev has not finished with in this
// attachment, as disk.Udev.Initialized has it.
func (h Host) Unknown() ([]string, error) {
	names, err := h.Names()
	if err != nil {
		return nil, fmt.Errorf("cannot list the disks: %w", err)
	}
	var unknown []string
	for _, name := range names {
		f, err := h.sysfs().Disk(name)
		switch {
		case errors.Is(err, disk.ErrGone):
		case err != nil:
			return nil, fmt.Errorf("cannot look at %s: %w", name, err)
		case !f.Udev.Initialized:
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

// Look gathers the facts of one disk, all but its peers (disk.Facts.FindPeers).
// The error wraps disk.ErrGone if it is not attached any more.
func (h Host) Look(name string) (disk.Facts, error) { return h.Gather()(name) }

// Gather reads what is common to all disks, and returns Look by that. So many looks cost little more than one. It is for
// looks that begin before Gather is called, of which several may be at work at once: their facts are then as new.
func (h Host) Gather() (look func(name string) (disk.Facts, error)) {
	common, commonErr := h.gather()
	return func(name string) (f disk.Facts, err error) {
		if err = commonErr; err == nil {
			f, err = h.one(name, &common)
		}
		if err != nil {
			return f, fmt.Errorf("cannot look at %s: %w", name, err)
		}
		return f, nil
	}
}

// Counters reads what the kernel has counted of the disk's I/O, and nothing else (sysfs.FS.Counters).
func (h Host) Counters(name string) (sysfs.Counters, error) { return h.sysfs().Counters(name) }

// Scan gathers the facts of all disks, with their peers.
func (h Host) Scan() ([]disk.Facts, error) {
	names, err := h.Names()
	if err != nil {
		return nil, fmt.Errorf("cannot list the disks: %w", err)
	}
	common, err := h.gather()
	if err != nil {
		return nil, fmt.Errorf("cannot look at the disks: %w", err)
	}
	var all []disk.Facts
	for _, name := range names {
		f, err := h.one(name, &common)
		if errors.Is(err, disk.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at %s: %w", name, err)
		}
		all = append(all, f)
	}
	peers := make([]*disk.Facts, len(all))
	for i := range all {
		peers[i] = &all[i]
	}
	for _, f := range peers {
		f.FindPeers(peers)
	}
	return all, nil
}

func (h Host) sysfs() sysfs.FS {
	return sysfs.FS{Root: h.Root, Partitions: h.Partitions != nil && h.Partitions()}
}

// common is what is gathered once for all disks.
type common struct {
	tree   []mounts.Mount
	paths  mounts.Paths // of tree
	swaps  []string
	claims []mounts.Claim
	loops  []mounts.Loop
	// loopUUIDs returns, by the kernel name of a loop device, the UUID of the filesystem that udev knows on it.
	loopUUIDs func() map[string]string
	memory    store.Memory
	// off is why all formatting is off, empty if it is not.
	off string
}

func (h Host) gather() (common, error) {
	var c common
	boot, err := h.Boot()
	if err != nil {
		return c, err
	}
	forbidden, err := h.sysfs().KernelFormatOff()
	if err != nil {
		return c, err
	}
	c.memory = h.Store.Load(boot, h.Shared.expectations())
	if c.tree, err = h.Mounts(); err != nil {
		return c, err
	}
	c.paths = mounts.ByPath(c.tree)
	if c.swaps, err = mounts.Swaps(h.Root); err != nil {
		return c, err
	}
	if c.claims, err = mounts.Claims(h.Root); err != nil {
		return c, err
	}
	if c.loops, err = mounts.Loops(h.Root, c.paths); err != nil {
		return c, err
	}
	loops := c.loops
	c.loopUUIDs = sync.OnceValue(func() map[string]string { return h.loopUUIDs(loops) })
	c.off = h.formattingOff(forbidden)
	return c, nil
}

// formattingOff returns the switch of this node that stops all formatting, in words. What cannot be read stops it as
// well.
func (h Host) formattingOff(forbidden bool) string {
	_, err := os.Lstat(filepath.Join("/", h.Root, HoldFile))
	switch {
	case err == nil:
		return HoldFile + " exists"
	case !errors.Is(err, fs.ErrNotExist):
		return err.Error()
	case forbidden:
		return "hotmount.format=no is on the kernel command line"
	}
	return ""
}

// one gathers the facts of one disk or partition, without its peers.
func (h Host) one(name string, c *common) (disk.Facts, error) {
	f, err := h.sysfs().Disk(name)
	if err != nil {
		return f, err
	}
	devices, err := h.sysfs().Devices(&f)
	if err != nil {
		return f, err
	}
	names := map[string]bool{}
	for _, n := range devices {
		names[n] = true
	}
	h.addMounts(&f, c, devices, names)
	for _, s := range c.swaps {
		f.Swap = f.Swap || names[h.deviceName(s)]
	}
	h.addLoops(&f, &f, c, devices)
	for _, claim := range c.claims {
		if claim.Matches(&f) {
			f.Claim = claim.Where
			break
		}
		if claim.Spec == "" {
			f.Unseen = cmp.Or(f.Unseen, claim.Where)
		}
	}
	f.Standing = c.memory.Standing(&f)
	if !h.leads(f.Standing.Link, f.Seq) {
		f.Standing.Link = ""
	}
	if f.Whole != "" {
		if err := h.ofDisk(&f, c); err != nil {
			return f, err
		}
	}
	h.measure(&f)
	if f.Transport == "dm" {
		if err := h.onVolume(&f, c); err != nil {
			return f, err
		}
	}
	if f.Standing.Formatting == "" {
		f.Standing.Formatting = c.off
	}
	return f, nil
}

// addMounts fills in where the disk, or anything on it, is mounted: names are those of the devices on it.
func (h Host) addMounts(f *disk.Facts, c *common, devices map[disk.Dev]string, names map[string]bool) {
	for i := range c.tree {
		m := c.tree[i].MountPoint
		on := devices[m.Dev]
		if m.Dev.Major == 0 && !strings.HasPrefix(m.Type, "fuse") {
			// A filesystem with a device number of its own (btrfs) is known by
			// its source alone. That of a FUSE is what its user says.
			on = h.deviceName(m.Source)
		}
		if !names[on] {
			continue
		}
		if systemPaths[m.Path] {
			f.System = m.Path
		}
		if on == f.Name {
			place := inPlace(&m)
			m.Covered = place && covered(c.paths, &c.tree[i])
			f.Mounts = append(f.Mounts, m)
			if f.Fault == "" {
				f.Fault = h.fault(on, &m, place && !m.Covered)
			}
		} else if slices.Contains(f.Partitions, on) && !slices.Contains(f.Holders, on) {
			f.Holders = append(f.Holders, on)
		}
	}
}

// ofDisk has a partition share what is the business of its whole disk: that it carries
// the system, that it is claimed, also for another partition, mounted as a whole, or a
// block volume.
func (h Host) ofDisk(f *disk.Facts, c *common) error {
	whole, err := h.one(f.Whole, c)
	if err != nil {
		return err
	}
	if whole.Seq != f.DiskSeq() {
		return fmt.Errorf("%w: it is of disk sequence number %d now", disk.ErrGone, whole.Seq)
	}
	f.System = cmp.Or(f.System, whole.System)
	f.Claim = cmp.Or(f.Claim, whole.Claim)
	f.Standing.Given, f.Standing.Link = whole.Standing.Given, whole.Standing.Link
	if len(whole.Mounts) > 0 {
		f.Holders = append(f.Holders, whole.Name)
	}
	h.addLoops(f, &whole, c, map[disk.Dev]string{whole.Dev: whole.Name})
	return nil
}

// onVolume has a device-mapper device share that a disk below it is or was a block
// volume: whoever has that may have put the logical volume there.
func (h Host) onVolume(f *disk.Facts, c *common) error {
	names, err := h.sysfs().Below(f.Name)
	if err != nil {
		return err
	}
	for _, name := range names {
		below, err := h.sysfs().Disk(name)
		if errors.Is(err, disk.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		st := c.memory.Standing(&below)
		if f.Standing.Given == nil {
			f.Standing.Given = st.Given
		}
		if f.Standing.Link == "" && h.leads(st.Link, below.Seq) {
			f.Standing.Link = st.Link
		}
	}
	return nil
}

// leads reports whether the link is there and leads to that attachment of a disk.
func (h Host) leads(link string, seq uint64) bool {
	if link == "" {
		return false
	}
	via := disk.LinkDirectory + "/" + filepath.Base(link)
	first, err := os.Readlink(filepath.Join("/", h.Root, link))
	if err != nil || first != via {
		return false
	}
	second, err := os.Readlink(filepath.Join("/", h.Root, via))
	return err == nil && second == disk.ID{Seq: seq}.BySeq()
}

// fault returns what the kernel has done to a filesystem that it found damaged or
// could not write to. The device is named as the kernel names it; the path of the
// mount may be asked if it leads to it. Nothing is opened: that may wait for a dead
// disk, and for ever.
func (h Host) fault(device string, m *disk.MountPoint, ask bool) string {
	has := func(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }
	if has(m.SuperOptions) && !has(m.Options) {
		return "the kernel has made it read-only"
	}
	// An ext4 counts its errors in its superblock until e2fsck has mended them. That it
	// takes no more writes (errors=remount-ro) shows nowhere else: since 6.1 the kernel
	// leaves the mount's "rw" as it is (ext4_handle_error in fs/ext4/super.c).
	if m.Type == "ext4" {
		count, err := os.ReadFile(filepath.Join("/", h.Root, "sys/fs/ext4", device, "errors_count"))
		if n := strings.TrimSpace(string(count)); err == nil && n != "0" {
			return fmt.Sprintf("the kernel has counted errors in its ext4 (%s) and may write to it no more", disk.Visible(n))
		}
	}
	// An XFS that is shut down says so to whoever asks for its root directory's
	// attributes, also of one that is closed to the caller; it takes no lock for that and
	// reads nothing from the disk (xfs_vn_getattr in the kernel's fs/xfs/xfs_iops.c).
	var st unix.Stat_t
	if m.Type == "xfs" && ask && errors.Is(unix.Lstat(filepath.Join("/", h.Root, m.Path), &st), unix.EIO) {
		return "the kernel has shut it down"
	}
	return ""
}

// Changed returns the names of those disks of which the mounts, what lies over them, or the fault of the
// filesystem are not as in their facts. With Shared it goes by the mount table as it was read last: what
// the kernel does not tell of (mounts.Reader.Tree) the next look at every disk finds, but for a damaged
// filesystem, of which there is more to see.
func (h Host) Changed(mounted []disk.Facts) ([]string, error) {
	tree := h.Shared.reader().Last()
	if tree == nil {
		var err error
		if tree, err = h.Mounts(); err != nil {
			return nil, err
		}
	}
	paths := mounts.ByPath(tree)
	var names []string
	for i := range mounted {
		if f := &mounted[i]; h.changed(f, tree, paths) {
			names = append(names, f.Name)
		}
	}
	return names, nil
}

func (h Host) changed(f *disk.Facts, tree []mounts.Mount, paths mounts.Paths) bool {
	fault := ""
	for _, m := range f.Mounts {
		place, at := inPlace(&m), -1
		for i := range tree {
			t := &tree[i]
			// It can be mounted twice at one path, of which the first is covered.
			if t.Dev == m.Dev && t.Path == m.Path && t.Root == m.Root && (!place || covered(paths, t) == m.Covered) {
				at = i
				break
			}
		}
		if at < 0 {
			return true
		}
		m.Options, m.SuperOptions = tree[at].Options, tree[at].SuperOptions
		if fault == "" {
			fault = h.fault(f.Name, &m, place && !m.Covered)
		}
	}
	return fault != f.Fault
}

// covered reports whether the path of that mount leads to another.
func covered(paths mounts.Paths, m *mounts.Mount) bool { return paths.At(m.Path) != m }

// inPlace reports whether it is a place of ours; what lies elsewhere is asked nothing.
func inPlace(m *disk.MountPoint) bool {
	return m.Root == "/" && disk.ValidUUID(filepath.Base(m.Path))
}

// measure fills in how much the filesystem takes that is mounted in a place of ours, as it was measured when it
// was last to grow, for a mounted one becomes no smaller, or as the daemon has found it; and its UUID, as only the
// kernel has it of what it has mounted.
func (h Host) measure(f *disk.Facts) {
	f.Geometry = h.Shared.geometry(f, h.Measure)
	fit := f.Standing.Fit
	if fit == nil || fit.Seq != f.Seq || fit.Geometry.Size == 0 || !fits(f, &fit.Geometry) {
		return
	}
	grown := fit.Geometry
	grown.UUID = ""
	if f.Geometry != nil {
		grown.UUID = f.Geometry.UUID
	}
	f.Geometry = &grown
}

// fits reports whether what was measured is of the filesystem that is mounted, for all that is known: another may have
// been made on the disk since.
func fits(f *disk.Facts, g *disk.Geometry) bool {
	switch {
	case len(f.Mounts) == 0:
		return false
	case g.UUID == "":
		return true
	case f.Geometry != nil && f.Geometry.UUID != "":
		return f.Geometry.UUID == g.UUID
	}
	return slices.ContainsFunc(f.Mounts, func(m disk.MountPoint) bool { return filepath.Base(m.Path) == g.UUID })
}

// deviceName returns the kernel name of the device that a path below /dev leads
// to, empty for anything else.
func (h Host) deviceName(path string) string {
	if !strings.HasPrefix(path, "/dev/") {
		return ""
	}
	if real, err := filepath.EvalSymlinks(filepath.Join("/", h.Root, path)); err == nil {
		path = real
	}
	return filepath.Base(path)
}
