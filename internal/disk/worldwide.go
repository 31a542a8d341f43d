package disk

import (
	"fmt"
	"strings"
)

// WorldWide returns the WWN if the WWN identifies the disk, or "" otherwise. A WWN of the kinds NAA, EUI-64 and UUID
// identifies the disk, unless its number is zero. A WWN of the kinds "t10." and "nvme." is made from vendor, model and
// serial. If the disks of one model have no serials, all these disks have the same "t10." or "nvme." WWN. The WWN of a
// partition is the WWN of its disk with "-partN" appended.
func (f *Facts) WorldWide() string {
	kind, number, _ := strings.Cut(f.WWN, ".")
	if kind != "naa" && kind != "eui" && kind != "uuid" || strings.Trim(number, "0-") == "" {
		return ""
	}
	if n := f.Partition(); n > 0 {
		return fmt.Sprintf("%s%s%d", f.WWN, PartitionSuffix, n)
	}
	return f.WWN
}

// otherWWN reports whether the WWNs belong to two different disks. An empty WWN can belong to any disk. WWNs of
// different kinds can belong to one disk. A disk can have several WWNs, and different versions of the kernel can show
// different WWNs of one disk.
func otherWWN(a, b string) bool {
	kind, _, _ := strings.Cut(a, ".")
	return a != b && a != "" && strings.HasPrefix(b, kind+".")
}

// sameWWN reports whether only the WWN shows that o and f may be two paths to one disk. In this case, o and f have the
// same WWN and partition number, and at least one of them has no serial.
func (f *Facts) sameWWN(o *Facts) bool {
	return f.WWN != "" && f.WWN == o.WWN && f.Partition() == o.Partition() && (f.Serial == "" || o.Serial == "")
}

// pathOf reports whether o is the multipath device for the WWN of f. multipathd gives a multipath device the uuid
// "mpath-" followed by its WWID. For NVMe, the WWID is the kernel's WWN. For SCSI, the WWID is udev's ID_SERIAL
// (check_fill_0x83_id in scsi_serial.c of systemd). ID_SERIAL is a digit for the kind, then the number with "_" in
// place of spaces.
func (f *Facts) pathOf(o *Facts) bool {
	id, ok := strings.CutPrefix(o.Serial, "mpath-")
	if !ok || o.Transport != "dm" || f.WWN == "" {
		return false
	}
	kind, number, _ := strings.Cut(f.WWN, ".")
	digit := map[string]string{"t10": "1", "eui": "2", "naa": "3"}[kind]
	return id == f.WWN || digit != "" && id == digit+strings.Join(strings.Fields(number), "_")
}
