// Package sysfs reads the facts of disks from sysfs and from udev's database,
// below a root path. It opens no disk, reads no content and runs nothing.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"hotmount/internal/disk"
)

// FS is a file system tree with sysfs, procfs and udev's database in their usual
// places.
type FS struct {
	// Root is where the tree begins; "" and "/" are the live system.
	Root string
	// Partitions says that partitions are wanted, too.
	Partitions bool
}

func (f FS) path(elements ...string) string {
	return filepath.Join(append([]string{"/", f.Root}, elements...)...)
}

// Names gives the kernel names of all whole disks, sorted, and where they are wanted
// of all partitions, each after its disk: all entries of
// /sys/block, be they virtual, empty or removable, but for hidden ones, which
// have no device node (the single paths of NVMe multipath, GENHD_FL_HIDDEN), and
// for loop devices without a file.
func (f FS) Names() ([]string, error) {
	entries, err := os.ReadDir(f.path("sys/block"))
	if err != nil {
		return nil, fmt.Errorf("cannot list disks: %w", err)
	}
	var names []string
	for _, e := range entries {
		if hidden, err := readAttribute(f.path("sys/block", e.Name(), "hidden")); err == nil && hidden == "1\n" {
			continue
		}
		if detached(f.path("sys/block", e.Name())) {
			continue
		}
		names = append(names, e.Name())
		if f.Partitions {
			parts, err := partitionsOf(f.path("sys/block", e.Name()))
			if err != nil {
				return nil, fmt.Errorf("cannot list disks: %w", err)
			}
			names = append(names, parts...)
		}
	}
	return names, nil
}

// Newest gives the highest disk sequence number of those attached that may have been
// attached together with a disk of that kernel name, which is gone. What has its name
// now came later, and with it all of higher numbers; so did those of which later, unless nil,
// says so.
func (f FS) Newest(name string, later func(other string) bool) (uint64, error) {
	names, err := FS{Root: f.Root}.Names()
	if err != nil {
		return 0, err
	}
	var all []uint64
	after := uint64(math.MaxUint64)
	for _, n := range names {
		seq, err := number(f.path("sys/block", n), "diskseq")
		if missing(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("cannot read the sequence number of disk %s: %w", n, err)
		}
		switch {
		case n == name:
			after = seq
		case later != nil && later(n):
			continue
		}
		all = append(all, seq)
	}
	var newest uint64
	for _, seq := range all {
		if seq < after {
			newest = max(newest, seq)
		}
	}
	return newest, nil
}

// Disk gives the facts of the disk of that kernel name which sysfs and udev's
// database hold: the fields of disk.Facts from ID to Holders and Udev. The
// sequence number is read first and last, so that they are facts of one disk.
// The error wraps disk.ErrGone if it is not there, or not there any more.
func (f FS) Disk(name string) (disk.Facts, error) {
	facts, err := f.disk(name)
	if err != nil {
		return disk.Facts{}, fmt.Errorf("cannot read facts of disk %s: %w", disk.Visible(name), err)
	}
	return facts, nil
}

func (f FS) disk(name string) (disk.Facts, error) {
	link, err := f.entry(name)
	if err != nil {
		return disk.Facts{}, err
	}
	dir, err := follow(link)
	if missing(err) {
		return disk.Facts{}, fmt.Errorf("%w: %w", disk.ErrGone, err)
	}
	if err != nil {
		return disk.Facts{}, err
	}
	seq, err := sequence(dir)
	if err != nil {
		return disk.Facts{}, goneOr(dir, err)
	}
	facts := disk.Facts{ID: disk.ID{Name: name, Seq: seq}}
	whole := dir
	if facts.Partition() > 0 {
		whole = filepath.Dir(dir)
	}
	if detached(whole) {
		return disk.Facts{}, fmt.Errorf("%w: the loop device has no file", disk.ErrGone)
	}
	if facts.Partition() > 0 {
		err = f.fillPartition(&facts, dir)
	} else {
		err = f.fill(&facts, dir)
	}
	// Whatever went wrong in a directory that is not the disk's any more says
	// nothing about the disk.
	again, seqErr := sequence(link)
	switch {
	case seqErr != nil:
		return disk.Facts{}, goneOr(link, seqErr)
	case again != seq:
		return disk.Facts{}, fmt.Errorf("%w: the name has passed from disk sequence number %d to %d", disk.ErrGone, seq, again)
	case err != nil:
		return disk.Facts{}, err
	}
	return facts, nil
}

// entry is the path of the disk's entry in /sys/block, or of the partition's in
// /sys/class/block where partitions are wanted.
func (f FS) entry(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", errors.New("not a name of a disk")
	}
	if f.Partitions {
		partition := f.path("sys/class/block", name)
		if _, err := os.Stat(filepath.Join(partition, "partition")); err == nil {
			return partition, nil
		} else if !missing(err) {
			return "", err
		}
	}
	return f.path("sys/block", name), nil
}

// follow gives the directory that an entry of /sys/block or /sys/class/block leads to:
// by one link, which leads through no other. An entry can be the directory itself
// (CONFIG_SYSFS_DEPRECATED, until Linux 6.0).
func follow(entry string) (string, error) {
	target, err := os.Readlink(entry)
	switch {
	case errors.Is(err, syscall.EINVAL):
		return entry, nil
	case err != nil:
		return "", err
	}
	return filepath.Join(filepath.Dir(entry), target), nil
}

// detached reports whether the directory of a whole disk is that of a loop device without a file. Only with
// a file it has its directory "loop" (loop_sysfs_init in drivers/block/loop.c).
func detached(dir string) bool {
	if !strings.HasPrefix(filepath.Base(dir), "loop") {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "loop"))
	return missing(err)
}

// goneOr adds disk.ErrGone to the error if the disk's directory is not there.
func goneOr(dir string, err error) error {
	if _, stat := os.Stat(dir); missing(stat) || errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", disk.ErrGone, err)
	}
	return err
}

// missing says whether the error is one of a directory of sysfs that is not
// there: ENOENT, and ENODEV from a file that was open as it went
// (kernfs_get_active in fs/kernfs/dir.c).
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// fillDevice reads the device number and the size of a disk or a partition.
func fillDevice(facts *disk.Facts, dir string) error {
	text, err := readAttribute(filepath.Join(dir, "dev"))
	if err != nil {
		return err
	}
	if facts.Dev, err = disk.ParseDev(text); err != nil {
		return err
	}
	sectors, err := number(dir, "size")
	if err != nil {
		return err
	}
	// The unit of the attribute is 512 bytes, whatever the disk's sectors are
	// (SECTOR_SIZE in include/linux/blkdev.h).
	facts.Size = sectors * 512
	return nil
}

func (f FS) fill(facts *disk.Facts, dir string) error {
	if err := fillDevice(facts, dir); err != nil {
		return err
	}
	sector, err := number(dir, "queue/logical_block_size")
	if err != nil {
		return err
	}
	facts.LogicalSector = uint32(sector)
	for attribute, to := range map[string]*bool{"ro": &facts.ReadOnly, "removable": &facts.Removable, "queue/rotational": &facts.Rotational} {
		n, err := number(dir, attribute)
		if err != nil {
			return err
		}
		*to = n != 0
	}
	stat, err := readAttribute(filepath.Join(dir, "stat"))
	if err != nil {
		return err
	}
	if facts.Writes, facts.InFlight, err = requests(stat); err != nil {
		return fmt.Errorf("cannot parse %s: %w", filepath.Join(dir, "stat"), err)
	}
	// Documentation/ABI/stable/sysfs-block, queue/iostats.
	counted, err := readAttribute(filepath.Join(dir, "queue/iostats"))
	if err != nil && !missing(err) {
		return err
	}
	facts.Uncounted = strings.TrimSpace(counted) != "1"
	// queue/discard_max_bytes: 0 for a disk that can not.
	discards, err := readAttribute(filepath.Join(dir, "queue/discard_max_bytes"))
	if err != nil && !missing(err) {
		return err
	}
	discards = strings.TrimSpace(discards)
	facts.Discards = discards != "" && discards != "0"
	if err := fillHardware(facts, dir); err != nil {
		return err
	}
	if facts.Partitions, err = partitions(dir); err != nil {
		return err
	}
	if facts.Holders, err = f.holders(dir, facts.Partitions); err != nil {
		return err
	}
	u, slot, err := f.udev(facts.ID)
	if err != nil {
		return err
	}
	facts.Udev, facts.Slot = u, slot
	if facts.Slot == "" {
		facts.Slot = busAddress(dir)
	}
	return nil
}

// fillHardware reads what the hardware says of itself. Which attributes there
// are depends on the driver.
func fillHardware(facts *disk.Facts, dir string) error {
	var err error
	if facts.Transport, err = transport(facts.Name, dir); err != nil {
		return err
	}
	if facts.Transport == "loop" {
		// A path of more than a page cannot be read: such a disk fits no class.
		file, err := readAttribute(filepath.Join(dir, "loop/backing_file"))
		if missing(err) {
			return fmt.Errorf("%w: %w", disk.ErrGone, err) // its file was taken away meanwhile
		}
		facts.BackingFile = strings.TrimSuffix(file, "\n")
	}
	for _, from := range []struct {
		to *string
		// The first attribute that is there and not empty is taken.
		attributes []string
		// SCSI and NVMe fill what they say up with spaces (SPC, INQUIRY; NVMe, Identify
		// Controller), virtio-blk does not.
		trim string
		// virtio says that a virtio-blk disk may have it (drivers/block/virtio_blk.c and
		// drivers/virtio/virtio.c). To open what is not there is a good part of a look.
		virtio bool
	}{
		{&facts.Serial, []string{"serial"}, "", true},
		// LVM gives each logical volume a dm/uuid of its own for ever.
		{&facts.Serial, []string{"dm/uuid"}, "", false},
		{&facts.Serial, []string{"device/serial"}, " ", false},
		{&facts.Model, []string{"device/model"}, " ", false},
		{&facts.Vendor, []string{"device/vendor"}, " ", true},
		{&facts.WWN, []string{"wwid", "device/wwid"}, "", false},
		{&facts.MapperName, []string{"dm/name"}, "", false},
	} {
		// A loop device has none.
		if facts.Transport == "loop" || facts.Transport == "virtio" && !from.virtio {
			continue
		}
		for _, attribute := range from.attributes {
			if *from.to != "" {
				break
			}
			text, err := readAttribute(filepath.Join(dir, attribute))
			if err != nil && !without(err) {
				return err
			}
			*from.to = strings.TrimRight(strings.TrimSuffix(text, "\n"), from.trim)
		}
	}
	if facts.Serial == "" && facts.Transport != "loop" && facts.Transport != "virtio" {
		page, err := readAttribute(filepath.Join(dir, "device/vpd_pg80"))
		if err != nil && !without(err) {
			return err
		}
		facts.Serial = unitSerial(page)
	}
	if facts.Serial != "" && strings.HasPrefix(facts.Name, "nvme") {
		// The namespaces of an NVMe controller have its serial in common (nsid,
		// drivers/nvme/host/sysfs.c). In front: what begins alike may be one that virtio cut.
		id, err := readAttribute(filepath.Join(dir, "nsid"))
		if err != nil && !without(err) {
			return err
		}
		facts.Serial = disk.NamespacePrefix(strings.TrimSuffix(id, "\n")) + facts.Serial
	}
	facts.Serial = recordable(facts.Serial)
	return nil
}

// recordable gives a serial as JSON keeps it, in which it is remembered: each byte that is of no
// character of UTF-8 (virtio cuts at 20 bytes) becomes %xx.
func recordable(serial string) string {
	if utf8.ValidString(serial) {
		return serial
	}
	var b strings.Builder
	for len(serial) > 0 {
		r, n := utf8.DecodeRuneInString(serial)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%%%02x", serial[0])
		} else {
			b.WriteString(serial[:n])
		}
		serial = serial[n:]
	}
	return b.String()
}

// unitSerial gives the serial number of a SCSI disk from its page 80h of vital
// product data (SPC, "Unit Serial Number VPD page"): four bytes, of which the last
// two are the length, and text filled up with spaces.
func unitSerial(page string) string {
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	length := int(page[2])<<8 | int(page[3])
	return strings.Trim(page[4:min(len(page), 4+length)], " \x00")
}

// without says whether the error means that this kind of disk does not have the
// attribute, or that this disk has no value for it (sdev_show_wwid in
// drivers/scsi/scsi_sysfs.c says EINVAL).
func without(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EINVAL, syscall.ENXIO, syscall.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func transport(name, dir string) (string, error) {
	subsystem, err := os.Readlink(filepath.Join(dir, "device/subsystem"))
	if err == nil {
		switch subsystem = filepath.Base(subsystem); subsystem {
		case "scsi", "nvme":
			return subsystem, nil
		case "nvme-subsystem":
			return "nvme", nil
		case "virtio":
			driver, err := os.Readlink(filepath.Join(dir, "device/driver"))
			if err != nil && !missing(err) {
				return "", err
			}
			if filepath.Base(driver) == "virtio_blk" {
				return "virtio", nil
			}
		}
		return "", nil
	}
	if !missing(err) {
		return "", err
	}
	// A loop device has its directory "loop" only while it has a file.
	for _, kind := range []string{"dm", "md", "loop"} {
		if _, err := os.Stat(filepath.Join(dir, kind)); err == nil || kind == "loop" && strings.HasPrefix(name, kind) {
			return kind, nil
		} else if !missing(err) {
			return "", err
		}
	}
	return "", nil
}

// pciAddress is a function on a PCI bus as the kernel names it (pci_dev_name).
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// busAddress gives the last PCI address on the path of a device, in the form
// that udev's path_id gives to ID_PATH; empty if there is none.
func busAddress(dir string) string {
	elements := strings.Split(dir, "/")
	for _, e := range slices.Backward(elements) {
		if pciAddress.MatchString(e) {
			return "pci-" + e
		}
	}
	return ""
}

// partitions gives the kernel names of the partitions of the disk in that
// directory, sorted. They begin with the name of the disk (add_partition in
// block/partitions/core.c).
func partitions(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), filepath.Base(dir)) {
			continue
		}
		_, err := os.Stat(filepath.Join(dir, e.Name(), "partition"))
		if err == nil {
			names = append(names, e.Name())
		} else if !missing(err) {
			return nil, err
		}
	}
	return names, nil
}

// Devices gives the kernel names, by device number, of the disk, its partitions,
// its holders and their partitions: what of it can be mounted or swapped on. The
// error wraps disk.ErrGone if the disk is not there any more; what else has gone
// meanwhile is left out.
func (f FS) Devices(facts *disk.Facts) (map[disk.Dev]string, error) {
	devices, err := f.devices(facts)
	if err != nil {
		return nil, fmt.Errorf("cannot list devices on disk %s: %w", disk.Visible(facts.Name), err)
	}
	return devices, nil
}

func (f FS) devices(facts *disk.Facts) (map[disk.Dev]string, error) {
	dir, err := f.entry(facts.Name)
	if err != nil {
		return nil, err
	}
	devices := map[disk.Dev]string{facts.Dev: facts.Name}
	add := func(dir, name string) error {
		text, err := readAttribute(filepath.Join(dir, "dev"))
		if missing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		dev, err := disk.ParseDev(text)
		devices[dev] = name
		return err
	}
	for _, part := range facts.Partitions {
		if err := add(filepath.Join(dir, part), part); err != nil {
			return nil, err
		}
	}
	for _, name := range facts.Holders {
		holder, err := f.entry(name)
		if err != nil {
			return nil, err
		}
		if err := add(holder, name); err != nil {
			return nil, err
		}
		parts, err := partitionsOf(holder)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if err := add(filepath.Join(holder, part), part); err != nil {
				return nil, err
			}
		}
	}
	seq, err := sequence(dir)
	if err != nil {
		return nil, goneOr(dir, err)
	}
	if seq != facts.Seq {
		return nil, fmt.Errorf("%w: the name has passed from disk sequence number %d to %d", disk.ErrGone, facts.Seq, seq)
	}
	return devices, nil
}

// Fields of a disk's statistics (Documentation/block/stat.rst), from 0.
const (
	statSectorsRead = 2 // of 512 bytes
	statWrites      = 4
	statSectors     = 6 // written, of 512 bytes
	statInFlight    = 8
	statDiscards    = 11
	// statFields before Linux 4.18, which counts no discards.
	statFields = 11
)

// requests gives the number of write and discard requests that are complete, and of
// all that are not.
func requests(stat string) (writes, inFlight uint64, err error) {
	fields := strings.Fields(stat)
	if len(fields) < statFields {
		return 0, 0, fmt.Errorf("%d fields, expected at least %d", len(fields), statFields)
	}
	for i, to := range map[int]*uint64{statWrites: &writes, statInFlight: &inFlight, statDiscards: &writes} {
		if i >= len(fields) {
			continue
		}
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*to += n
	}
	return writes, inFlight, nil
}

// InFlightWrites counts the writes and discards of the disk that it has not answered
// yet. Facts.InFlight has reads among them, and is read after the requests that are
// complete, so that one may be in neither.
func (f FS) InFlightWrites(name string) (n uint64, err error) {
	dir, err := f.entry(name)
	if err == nil {
		var text string
		text, err = readAttribute(filepath.Join(dir, "inflight"))
		if err == nil { // reads and writes (Documentation/ABI/stable/sysfs-block)
			_, err = fmt.Sscan(text, new(uint64), &n)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the writes in flight of disk %s: %w", disk.Visible(name), err)
	}
	return n, nil
}

// Bytes counts what has been read from the disk and written to it, zeros that the disk makes by
// itself included.
func (f FS) Bytes(name string) (read, written uint64, err error) {
	dir, err := f.entry(name)
	if err == nil {
		var text string
		if text, err = readAttribute(filepath.Join(dir, "stat")); err == nil {
			fields := strings.Fields(text)
			if len(fields) < statFields {
				err = fmt.Errorf("%d fields, expected at least %d", len(fields), statFields)
			} else if read, err = strconv.ParseUint(fields[statSectorsRead], 10, 64); err == nil {
				written, err = strconv.ParseUint(fields[statSectors], 10, 64)
			}
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read how much was read from disk %s and written to it: %w", disk.Visible(name), err)
	}
	return 512 * read, 512 * written, nil
}

// readAttribute reads an attribute of sysfs.
func readAttribute(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

// number reads an attribute that is a decimal number.
func number(dir, attribute string) (uint64, error) {
	name := filepath.Join(dir, attribute)
	text, err := readAttribute(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot parse %s: %w", name, err)
	}
	return n, nil
}

// BootID gives the kernel's id of this boot, a UUID (random(4)).
func (f FS) BootID() (string, error) {
	text, err := os.ReadFile(f.path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("cannot read boot id: %w", err)
	}
	id := strings.TrimSuffix(string(text), "\n")
	if !disk.ValidUUID(id) {
		return "", fmt.Errorf("cannot read boot id: %q is no UUID", disk.Visible(id))
	}
	return id, nil
}

// KernelFormatOff says whether the word hotmount.format= on the kernel command
// line (/proc/cmdline) forbids to format: with any value but yes, true, on or 1,
// since who writes the word there wants it off, however he spells it.
func (f FS) KernelFormatOff() (bool, error) {
	text, err := os.ReadFile(f.path("proc/cmdline"))
	if err != nil {
		return false, fmt.Errorf("cannot read kernel command line: %w", err)
	}
	for _, word := range strings.Fields(strings.ReplaceAll(string(text), `"`, "")) {
		value, found := strings.CutPrefix(word, "hotmount.format=")
		if found && !slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(value)) {
			return true, nil
		}
	}
	return false, nil
}
