// Package inventory gathers the facts about the node's disks, but does not read the disks. The sources of the facts are
// sysfs, udev's database, the mount table, the system's configuration and hotmount's own stores.
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

	"hotmount/internal/csi"
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/store"
	"hotmount/internal/sysfs"
)

// systemPaths are mount points that show that a disk carries the running system.
var systemPaths = map[string]bool{"/": true, "/boot": true, "/boot/efi": true, "/usr": true, "/var": true}

// Host is the node whose root directory is Root, or the live system if Root is empty.
type Host struct {
	Root  string
	Store store.Store
	// Shared is the state that several calls of Look share, so that frequent calls stay cheap. Shared may be nil.
	Shared *Shared
	// Measure returns the geometry of the XFS filesystem that is mounted at the path. The disk must be idle when
	// Measure is called. Host calls Measure only if Shared is set, and keeps the results. Measure may be nil.
	Measure func(path string, dev disk.Dev) (disk.Geometry, error)
	// Partitions reports whether partitions count as disks. If Partitions is nil, only whole disks count.
	Partitions  func() bool
	Directories []string // the class directories (For)
	// CameAfter(name, gone) compares two disks by their kernel names. CameAfter reports whether the first disk was
	// certainly attached after the removal of the second disk. If CameAfter is nil, the order is unknown.
	CameAfter func(name, gone string) bool
	// A program that writes to disks sets Asks. If Asks is set, the facts of every disk contain the loop devices that
	// the process has no permission to open. Such a loop device may lie on any disk.
	Asks bool
}

// Names returns the kernel names of all attached disks, and also of their partitions if partitions count as disks.
func (h Host) Names() ([]string, error) { return h.sysfs().Names() }

// Newest returns the highest sequence number of the attached disks. The parameter `name` is the kernel name of a removed
// disk. Newest leaves out each disk that was certainly attached after this removal.
func (h Host) Newest(name string) (uint64, error) {
	return h.sysfs().Newest(name, func(other string) bool { return h.CameAfter != nil && h.CameAfter(other, name) })
}

// Mounts returns PID 1's mount table (mounts.Reader.Tree).
func (h Host) Mounts() ([]mounts.Mount, error) { return h.Shared.reader().Tree(h.Root) }

// MountedAt reports whether the device is mounted at the path. MountedAt returns an error if another device is mounted
// over this mount.
func (h Host) MountedAt(path string, dev disk.Dev) (bool, error) {
	tree, err := h.Mounts()
	if err != nil {
		return false, err
	}
	return mounts.OnTop(tree, path, dev)
}

// DoubtMounts makes the next call of Mounts read the mount table again (mounts.Reader.ForceReread).
func (h Host) DoubtMounts() { h.Shared.reader().ForceReread() }

// Propagates returns nil if PID 1's mounts below the directory appear in this process's mount namespace
// (mounts.Reader.Propagates).
func (h Host) Propagates(directory string) error {
	return h.Shared.reader().Propagates(h.Root, directory)
}

// Drivers returns the storage drivers on the node that attach or use disks, including earlier drivers (csi.Drivers).
// Each call of Drivers examines the node again.
func (h Host) Drivers() []disk.Driver { return csi.Drivers(h.Root, h.Store.Drivers()...) }

// Unknown returns the names of the attached disks that udev has not finished processing (disk.Udev.Initialized).
func (h Host) Unknown() ([]string, error) {
	names, err := h.Names()
	if err != nil {
		return nil, fmt.Errorf("cannot list the disks: %w", err)
	}
	disks, err := gatherEach(names, h.sysfs().Disk)
	if err != nil {
		return nil, err
	}
	var unknown []string
	for i := range disks {
		if !disks[i].Udev.Initialized {
			unknown = append(unknown, disks[i].Name)
		}
	}
	return unknown, nil
}

// gatherEach calls look(name) once for each name and returns the facts. gatherEach leaves out each disk for which
// look(name) returns disk.ErrGone.
func gatherEach(names []string, look func(name string) (disk.Facts, error)) ([]disk.Facts, error) {
	var all []disk.Facts
	for _, name := range names {
		f, err := look(name)
		if errors.Is(err, disk.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at %s: %w", name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// Look gathers the facts of one disk, but does not look for its peers (disk.Facts.FindPeers). If the disk is no longer
// attached, the error wraps disk.ErrGone.
func (h Host) Look(name string) (disk.Facts, error) { return h.Gather()(name) }

// Gather reads the data that all disks share. Gather returns a function that works like Look, but uses this data. Many
// calls of the function cost little more than one call of Look. Use the function only for events that happened before
// the call of Gather. The function does not see later changes of this data. Calls of the function may run concurrently.
func (h Host) Gather() (look func(name string) (disk.Facts, error)) {
	common, commonErr := h.gather()
	return func(name string) (f disk.Facts, err error) {
		if err = commonErr; err == nil {
			f, err = h.gatherOne(name, &common)
		}
		if err != nil {
			return f, fmt.Errorf("cannot look at %s: %w", name, err)
		}
		return f, nil
	}
}

// Counters reads only the kernel's counts of the disk's I/O (sysfs.FS.Counters).
func (h Host) Counters(name string) (sysfs.Counters, error) { return h.sysfs().Counters(name) }

// Scan gathers the facts of all disks, including their peers.
func (h Host) Scan() ([]disk.Facts, error) {
	names, err := h.Names()
	if err != nil {
		return nil, fmt.Errorf("cannot list the disks: %w", err)
	}
	common, err := h.gather()
	if err != nil {
		return nil, fmt.Errorf("cannot look at the disks: %w", err)
	}
	all, err := gatherEach(names, func(name string) (disk.Facts, error) { return h.gatherOne(name, &common) })
	if err != nil {
		return nil, err
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

// The type `common` contains the facts that are gathered once for all disks.
type common struct {
	tree   []mounts.Mount
	paths  mounts.Paths // made from tree
	swaps  []string
	claims []mounts.Claim
	links  links
	loops  []mounts.Loop
	// loopUUIDs returns a map from the kernel name of each loop device to the filesystem UUID that udev found there.
	loopUUIDs func() map[string]string
	drivers   []disk.Driver
	memory    store.Memory
	// formatOff is the reason why all formatting is off, or empty if formatting is on.
	formatOff string
	// bound is the result of mounts.Bound for the mount table. neighbours is the value of Facts.Neighbours.
	bound      map[string][]string
	neighbours bool
}

func (h Host) gather() (common, error) {
	var (
		c         common
		errs      [6]error
		boot      string
		forbidden bool
	)
	boot, errs[0] = h.Boot()
	forbidden, errs[1] = h.sysfs().KernelFormatOff()
	c.memory = h.load(boot)
	c.tree, errs[2] = h.Mounts()
	c.paths, c.bound = mounts.ByPath(c.tree), mounts.Bound(c.tree)
	c.swaps, errs[3] = mounts.Swaps(h.Root)
	c.claims, errs[4] = mounts.Claims(h.Root)
	c.loops, errs[5] = mounts.Loops(h.Root, c.paths)
	c.loopUUIDs = sync.OnceValue(func() map[string]string { return h.loopUUIDs(c.loops) })
	c.drivers = csi.Drivers(h.Root, c.memory.Drivers...)
	c.neighbours = len(c.drivers) > 0 || h.hasMonitor()
	c.links, c.formatOff = h.links(), h.formattingOff(forbidden)
	return c, cmp.Or(errs[:]...)
}

// formattingOff describes which switch of this node stops all formatting, or returns "" if none does. An unreadable
// switch also stops formatting.
func (h Host) formattingOff(forbidden bool) string {
	_, err := os.Lstat(filepath.Join("/", h.Root, disk.HoldFile))
	switch {
	case err == nil:
		return disk.HeldBack
	case !errors.Is(err, fs.ErrNotExist):
		return err.Error()
	case forbidden:
		return disk.OffAtBoot
	}
	return ""
}

// gatherOne gathers the facts of one disk or partition, without its peers.
func (h Host) gatherOne(name string, c *common) (disk.Facts, error) {
	f, err := h.sysfs().Disk(name)
	if err != nil {
		return f, err
	}
	f.Drivers = c.drivers
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
	f.Bound, f.Neighbours, f.Unlisted = boundAt(&f, c.bound), c.neighbours, h.isUnlisted(&f)
	if err := h.addClaim(&f, c.claims); err != nil {
		return f, err
	}
	f.Standing = c.memory.Standing(&f)
	c.links.addLink(&f)
	if !h.leadsTo(f.Standing.Link, f.Seq) {
		f.Standing.Link = ""
	}
	if f.Whole != "" {
		if err := h.ofDisk(&f, c); err != nil {
			return f, err
		}
	}
	h.measure(&f)
	if f.Transport == "dm" || f.Transport == "md" {
		if err := h.onVolume(&f, c); err != nil {
			return f, err
		}
	}
	if f.Standing.Formatting == "" {
		f.Standing.Formatting = c.formatOff
	}
	return f, nil
}

// addMounts adds the mount points of the disk to the facts, and its mounted partitions to the holders. addMounts also
// sets System. The parameter `names` contains the kernel names of the disk and of the devices on the disk.
func (h Host) addMounts(f *disk.Facts, c *common, devices map[disk.Dev]string, names map[string]bool) {
	for i := range c.tree {
		m := c.tree[i].MountPoint
		device := devices[m.Dev]
		if m.Dev.Major == 0 && !strings.HasPrefix(m.Type, "fuse") {
			// A btrfs mount has a device number of its own, so only the source of the mount identifies the disk. The
			// source of a FUSE mount proves nothing, because its user can choose any source.
			device = h.deviceName(m.Source)
		}
		if !names[device] {
			continue
		}
		if systemPaths[m.Path] {
			f.System = m.Path
		}
		if device == f.Name {
			place := IsPlace(&m)
			if at := c.paths.At(m.Path); place && at != &c.tree[i] {
				m.Covered = true
				if at != nil && (at.Dev != m.Dev || at.Root != m.Root) {
					m.CoveredBy = at.Path
				}
			}
			f.Mounts = append(f.Mounts, m)
			if f.Fault == "" {
				f.Fault = h.fault(device, &m, place && !m.Covered)
			}
		} else if slices.Contains(f.Partitions, device) && !slices.Contains(f.Holders, device) {
			f.Holders = append(f.Holders, device)
		}
	}
}

// ofDisk adds facts of the whole disk to the facts of a partition: system mount point, claim, mounts, block volume,
// loop devices and Standing.Used. The claim may name another partition of the disk (addClaim).
func (h Host) ofDisk(f *disk.Facts, c *common) error {
	whole, err := h.gatherOne(f.Whole, c)
	if err != nil {
		return err
	}
	if whole.Seq != f.DiskSeq() {
		return fmt.Errorf("%w: the name now belongs to another disk (disk sequence number %d)", disk.ErrGone, whole.Seq)
	}
	f.System, f.Claim = cmp.Or(f.System, whole.System), cmp.Or(f.Claim, whole.Claim)
	f.Standing.Given, f.Standing.Link = whole.Standing.Given, whole.Standing.Link
	f.Standing.Used = cmp.Or(f.Standing.Used, whole.Standing.Used)
	if len(whole.Mounts) > 0 {
		f.Holders = append(f.Holders, whole.Name)
	}
	h.addLoops(f, &whole, c, map[disk.Dev]string{whole.Dev: whole.Name})
	return nil
}

// onVolume records the disks below a device-mapper or md device, and whether one of these disks is or was a block
// volume. The user of a block volume may have made a logical volume on the block volume.
func (h Host) onVolume(f *disk.Facts, c *common) (err error) {
	if f.Below, err = h.sysfs().Underlying(f.Name); err != nil {
		return err
	}
	for i := range f.Below {
		u := &f.Below[i]
		if u.Gone {
			continue
		}
		below, err := h.sysfs().Disk(u.Name)
		if errors.Is(err, disk.ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		u.Serial = below.Serial
		st := c.memory.Standing(&below)
		if f.Standing.Given == nil {
			f.Standing.Given = st.Given
		}
		if f.Standing.Link == "" && h.leadsTo(st.Link, below.Seq) {
			f.Standing.Link = st.Link
		}
	}
	return nil
}

// leadsTo reports whether the link exists and leads to the attachment with that disk sequence number.
func (h Host) leadsTo(link string, seq uint64) bool {
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

// The method `fault` describes what the kernel did to a damaged or read-only filesystem, or returns "" if the
// filesystem has no fault. The parameter `device` is the kernel name of the disk. The parameter `ask` may be true only
// if the mount's path leads to this mount. If `ask` is true, the method may call stat(2) on the path.
//
// The method `fault` opens no file of the filesystem, because open(2) can wait forever for a dead disk.
func (h Host) fault(device string, m *disk.MountPoint, ask bool) string {
	has := func(options string) bool { return slices.Contains(strings.Split(options, ","), "ro") }
	if has(m.SuperOptions) && !has(m.Options) {
		return "the kernel has made the filesystem read-only"
	}
	// The superblock of an ext4 filesystem contains a count of errors until e2fsck repairs the filesystem. Since Linux
	// 6.1, an ext4 filesystem with errors=remount-ro may refuse writes although its mount stays "rw" (ext4_handle_error
	// in fs/ext4/super.c). The method `fault` therefore reads the count of errors.
	if m.Type == "ext4" {
		count, err := os.ReadFile(filepath.Join("/", h.Root, "sys/fs/ext4", device, "errors_count"))
		if n := strings.TrimSpace(string(count)); err == nil && n != "0" {
			return fmt.Sprintf("the kernel has counted errors in the ext4 filesystem (errors_count %s), and may no longer write to the filesystem", disk.Visible(n))
		}
	}
	// stat(2) of the root directory fails with EIO if the XFS filesystem is shut down. stat(2) needs no permission to
	// read the directory. stat(2) takes no lock and reads nothing from the disk (xfs_vn_getattr in fs/xfs/xfs_iops.c).
	var st unix.Stat_t
	if m.Type == "xfs" && ask && errors.Is(unix.Lstat(filepath.Join("/", h.Root, m.Path), &st), unix.EIO) {
		return "the kernel has shut the filesystem down"
	}
	return ""
}

// Changed compares the disks with the given facts. Changed returns the names of the disks that have lost a mount,
// whose mounts are newly covered or uncovered, or whose filesystem fault differs.
//
// If Shared is set, Changed uses the mount table that was read last, and misses changes that the kernel did not
// announce (mounts.Reader.Tree). The next look at every disk finds the missed changes. Changed still finds most damage
// at once, because the method `fault` also reads the ext4 error count and calls stat(2) on XFS.
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
		place := IsPlace(&m)
		at := -1
		for i := range tree {
			t := &tree[i]
			// A filesystem can be mounted twice at one path. The second of two mounts at one path covers the first.
			if t.Dev == m.Dev && t.Path == m.Path && t.Root == m.Root && (!place || (paths.At(t.Path) != t) == m.Covered) {
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

// IsPlace reports whether the mount has the form of hotmount's mounts in a class directory. Look calls stat(2) on a
// mount point only if IsPlace is true for the mount.
func IsPlace(m *disk.MountPoint) bool {
	return m.Root == "/" && m.Dev.Major != 0 && disk.ValidUUID(filepath.Base(m.Path))
}

// The method `measure` fills in the size and the UUID of the filesystem that hotmount has mounted. The size comes from
// hotmount's last attempt to grow the filesystem. hotmount assumes that nobody else changes the size. If no attempt has
// measured the filesystem in this attachment, the size comes from the daemon's measurement. The UUID always comes from
// the daemon's measurement, which asks the kernel.
func (h Host) measure(f *disk.Facts) {
	f.Geometry = h.Shared.geometry(f, h.Measure)
	fit := f.Standing.Fit
	if fit == nil || fit.Seq != f.Seq || fit.Geometry.Size == 0 || !geometryFits(f, &fit.Geometry) {
		return
	}
	grown := fit.Geometry
	grown.UUID = ""
	if f.Geometry != nil {
		grown.UUID = f.Geometry.UUID
	}
	f.Geometry = &grown
}

// geometryFits reports whether the measurement can belong to the filesystem that is mounted now. Another filesystem may
// have been made on the disk since the measurement.
func geometryFits(f *disk.Facts, g *disk.Geometry) bool {
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

// deviceName returns the kernel name of the device to which a path below /dev leads, or "" for any other path.
func (h Host) deviceName(path string) string {
	if !strings.HasPrefix(path, "/dev/") {
		return ""
	}
	if real, err := filepath.EvalSymlinks(filepath.Join("/", h.Root, path)); err == nil {
		path = real
	}
	return filepath.Base(path)
}
