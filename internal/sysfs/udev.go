package sysfs

import (
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// maxDatabase bounds the size in bytes of one device's entry in udev's database. Real entries have one or two KiB.
const maxDatabase = 64 << 10

// The method `udev` returns the disk's properties from udev's database, and the value of the disk's property ID_PATH.
func (f FS) udev(id disk.ID) (disk.Udev, string, error) {
	text, err := readBounded(f.path("run/udev/data", "b"+id.Dev.String()), maxDatabase)
	if missing(err) {
		return disk.Udev{}, "", nil
	}
	if err != nil {
		return disk.Udev{}, "", fmt.Errorf("cannot read udev's database: %w", err)
	}
	u, path := parseUdev(string(text), id)
	return u, path, nil
}

// readBounded reads a file, and returns an error if the file has more than `limit` bytes.
func readBounded(path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("cannot read %s: more than %d bytes", path, limit)
	}
	return b, err
}

// FSUUID returns the UUID of the filesystem that udev found on the disk with that kernel name, or "" for none. FSUUID
// reads nothing else about the disk.
func (f FS) FSUUID(name string) (string, error) {
	dir, err := f.entry(name)
	if err != nil {
		return "", err
	}
	facts, err := f.udevOf(name, dir)
	return facts.Udev.FSUUID, err
}

// UdevOfPartitions returns the ID and the udev properties of each partition of the disk. UdevOfPartitions leaves out a
// partition that disappears during the call.
func (f FS) UdevOfPartitions(facts *disk.Facts) ([]disk.Facts, error) {
	var all []disk.Facts
	for _, name := range facts.Partitions {
		part, err := f.udevOf(name, f.path("sys/block", facts.Name, name))
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}

// udevOf returns the ID and the udev properties of the disk or partition with that name and directory in sysfs.
func (f FS) udevOf(name, dir string) (disk.Facts, error) {
	facts, err := f.readUdevOf(name, dir)
	if err != nil {
		return facts, fmt.Errorf("cannot read what udev knows of %s: %w", disk.Visible(name), err)
	}
	return facts, nil
}

func (f FS) readUdevOf(name, dir string) (facts disk.Facts, err error) {
	facts.Name = name
	if facts.Seq, err = sequence(dir); err != nil {
		return facts, err
	}
	text, err := readAttribute(filepath.Join(dir, "dev"))
	if err != nil {
		return facts, err
	}
	if facts.Dev, err = disk.ParseDev(text); err != nil {
		return facts, err
	}
	facts.Udev, _, err = f.udev(facts.ID)
	return facts, err
}

// parseUdev returns the disk's properties and ID_PATH from an entry of udev's database. systemd's function
// device_update_db writes the entries (src/libsystemd/sd-device/device-private.c).
//
// The key of an entry in udev's database is the device number, which another disk may have by now. An entry stores the
// link disk/by-diskseq/N instead of DISKSEQ. 60-persistent-storage.rules makes the link disk/by-diskseq/N from DISKSEQ.
// parseUdev ignores an entry without the disk's by-diskseq link. Such an entry belongs to another disk, or to a device
// without this link, such as a device that LVM hides (90-hotmount.rules). udev stores the time of initialisation after
// all rules have run. parseUdev ignores an entry without the time of initialisation.
func parseUdev(text string, id disk.ID) (disk.Udev, string) {
	var (
		u           disk.Udev
		initialized bool
		ours        bool
	)
	properties := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		kind, value, _ := strings.Cut(line, ":")
		switch kind {
		case "I":
			usec, err := strconv.ParseUint(value, 10, 64)
			initialized = err == nil && usec > 0
		case "S":
			ours = ours || "/dev/"+value == id.BySeq()
			u.Links = append(u.Links, "/dev/"+value)
		case "E":
			key, v, _ := strings.Cut(value, "=")
			properties[key] = v
		}
	}
	// The udev rules of other programs may store the property DISKSEQ. A stored DISKSEQ must equal the disk sequence
	// number of the disk.
	if stored, found := properties["DISKSEQ"]; found && stored != strconv.FormatUint(id.DiskSeq(), 10) {
		ours = false
	}
	if !initialized || !ours {
		return disk.Udev{}, ""
	}
	u.Initialized = true
	u.NotReady = isFalse(properties["SYSTEMD_READY"])
	u.FSUsage = properties["ID_FS_USAGE"]
	u.FSType = properties["ID_FS_TYPE"]
	u.FSUUID = encoded(properties, "ID_FS_UUID")
	u.FSLabel = encoded(properties, "ID_FS_LABEL")
	u.FSSpan = product(properties["ID_FS_LASTBLOCK"], properties["ID_FS_BLOCKSIZE"], 10)
	if f := strings.Fields(properties["HOTMOUNT_XFS"]); u.FSSpan == 0 && u.FSType == "xfs" && len(f) == 3 && len(f[2]) == 8 {
		// hotmount's own udev rules set HOTMOUNT_XFS from the XFS superblock.
		u.FSSpan = product(f[0], f[1]+f[2], 16)
	}
	u.Ambivalent = properties["ID_FS_AMBIVALENT"]
	u.PartTable = properties["ID_PART_TABLE_TYPE"]
	u.PartTableUUID = properties["ID_PART_TABLE_UUID"]
	u.Multipath = properties["DM_MULTIPATH_DEVICE_PATH"] == "1" || u.FSType == "mpath_member"
	return u, properties["ID_PATH"]
}

// The function `product` multiplies two numbers that are written in the given base. The function `product` returns 0 if
// a factor is not a number, or if the result is larger than the size of any disk.
func product(a, b string, base int) uint64 {
	x, errX := strconv.ParseUint(a, base, 64)
	y, errY := strconv.ParseUint(b, base, 64)
	if high, low := bits.Mul64(x, y); errX == nil && errY == nil && high == 0 && low < 1<<63 {
		return low
	}
	return 0
}

// isFalse reports whether systemd reads s as "false" in SYSTEMD_READY (parse_boolean in src/basic/parse-util.c).
func isFalse(s string) bool {
	switch strings.ToLower(s) {
	case "0", "no", "n", "false", "f", "off":
		return true
	}
	return false
}

// The function `encoded` returns the value of a udev property. If the property has an escaped form (_ENC), the function
// decodes the escaped form, which contains all characters of the value. If the property has no escaped form, the
// function returns the plain property, in which udev has replaced some characters.
func encoded(properties map[string]string, key string) string {
	if v, found := properties[key+"_ENC"]; found {
		return disk.Unescape(v)
	}
	return properties[key]
}
