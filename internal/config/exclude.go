package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// exclusion is an exclusion that is checked. One that can hold for no disk is a fault:
// the disk that is meant would be formatted.
type exclusion struct {
	*disk.Selectors
	// at has the places of its keys.
	at origins
	*faults
}

// prefixes are how the kernel names the disks of each transport.
var prefixes = map[string]string{"vd": "virtio", "sd": "scsi", "nvme": "nvme", "dm-": "dm", "loop": "loop"}

// limit is what an attribute of a transport's disks can be.
type limit struct {
	// most is how many characters it has at most, 0 for any number.
	most int
	// begins has what it can begin with, nil for anything.
	begins []string
}

// attributes are those that sysfs.FS finds of the disks of each transport.
var attributes = map[string]map[string]limit{
	// VIRTIO_BLK_ID_BYTES (include/uapi/linux/virtio_blk.h); vendor_show
	// (drivers/virtio/virtio.c).
	"virtio": {"serial": {most: 20}, "vendor": {begins: []string{"0x"}}},
	// INQUIRY's fields (SPC; scsi_add_lun, drivers/scsi/scsi_scan.c). A WWN is as the
	// disk says where that is a SCSI name string (scsi_vpd_lun_id).
	"scsi": {"serial": {}, "model": {most: 16}, "vendor": {most: 8}, "wwn": {}},
	// The fields SN and MN of Identify Controller (NVMe base specification); wwid_show
	// (drivers/nvme/host). The serial of another namespace than the first begins with n2-,
	// up to n4294967295-.
	"nvme": {"serial": {most: 32}, "model": {most: 40}, "wwn": {begins: []string{"eui.", "nvme.", "uuid."}}},
	"dm":   {"serial": {}, "mapper_names": {}},
	// Disks of a name that tells no transport may have anything.
	"": {"serial": {}, "model": {}, "vendor": {}, "wwn": {}, "mapper_names": {}},
}

func (e exclusion) check() {
	e.patterns("names", e.Names, e.wrongName)
	can := e.transports()
	for _, a := range []struct {
		name     string
		patterns []string
	}{{"mapper_names", e.MapperNames}, {"serial", e.Serial}, {"wwn", e.WWN}, {"model", e.Model}, {"vendor", e.Vendor}} {
		having := slices.DeleteFunc(slices.Clone(can), func(t string) bool { _, has := attributes[t][a.name]; return !has })
		switch {
		case len(a.patterns) == 0 || len(can) == 0:
		case len(having) == 0:
			e.add(e.at[a.name], "found %s, expected none: %s disks have no %s", quote(a.patterns[0]), strings.Join(can, " and "), a.name)
		default:
			e.patterns(a.name, a.patterns, func(pattern string) string { return tooMuch(having, a.name, pattern) })
		}
	}
}

// patterns adds a fault for each pattern for which wrong returns what was expected instead.
func (e exclusion) patterns(key string, patterns []string, wrong func(string) string) {
	for i, pattern := range patterns {
		if expected := wrong(pattern); expected != "" {
			e.add(e.at[fmt.Sprintf("%s[%d]", key, i)], "found %s, expected %s", quote(pattern), expected)
		}
	}
}

// diskName is how the kernel names disks and partitions (virtblk_name_format in
// drivers/block/virtio_blk.c, sd_format_disk_name in drivers/scsi/sd.c, nvme_alloc_ns in
// drivers/nvme/host/core.c, bdevname in block/partitions/core.c).
const diskName = `^(?:[vs]d[a-z]+(?:[1-9][0-9]*)?|(?:nvme[0-9]+n|dm-|loop)[0-9]+(?:p[1-9][0-9]*)?)$`

func (e exclusion) wrongName(name string) string {
	start, complete := literal(name)
	transport := transportOf(start)
	switch {
	case transport == "":
	case len(e.Transport) > 0 && !slices.Contains(e.Transport, transport):
		return "a pattern that can match something: the exclusion's transport is " + strings.Join(e.Transport, ", ")
	case complete && !regexp.MustCompile(diskName).MatchString(start):
		return "the name of a disk, such as vdb or nvme0n1, or of a partition, such as vdb1 or nvme0n1p1"
	}
	return ""
}

// transportOf returns the transport of the disks whose names begin so, "" if that does not tell.
func transportOf(start string) string {
	for prefix, t := range prefixes {
		if strings.HasPrefix(start, prefix) {
			return t
		}
	}
	return ""
}

// transports returns those of the disks for which the exclusion can hold, "" for any other.
func (e exclusion) transports() []string {
	can := []string{"virtio", "scsi", "nvme", "dm", "loop", ""}
	if len(e.Transport) > 0 {
		can = slices.Clone(e.Transport)
	}
	if len(e.Names) > 0 {
		can = slices.DeleteFunc(can, func(t string) bool {
			return !slices.ContainsFunc(e.Names, func(name string) bool {
				start, _ := literal(name)
				of := transportOf(start)
				return of == t || of == ""
			})
		})
	}
	if len(e.MapperNames) > 0 && slices.Contains(can, "dm") {
		can = []string{"dm"}
	}
	return can
}

// tooMuch returns what is expected instead of a pattern that no disk of the transports can match.
func tooMuch(transports []string, key, pattern string) string {
	if key == "serial" && len(transports) > 1 && slices.Contains(transports, "virtio") {
		// A virtio disk is probably meant, also where others are excluded.
		if expected := attributes["virtio"][key].wrong("virtio", key, pattern); expected != "" {
			return expected + " (for other disks alone: transport: [scsi])"
		}
	}
	if key == "wwn" && slices.Contains(transports, "scsi") && strings.HasPrefix(pattern, "0x") {
		return "what /sys/block/DISK/wwid or device/wwid has, did you mean " + quote("naa."+pattern[2:]) + "?"
	}
	var all []string
	for _, t := range transports {
		expected := attributes[t][key].wrong(t, key, pattern)
		if expected == "" {
			return ""
		}
		all = append(all, expected)
	}
	return strings.Join(all, "; or ")
}

func (l limit) wrong(transport, key, pattern string) string {
	start, complete := literal(pattern)
	begins := func(prefix string) bool {
		return strings.HasPrefix(start, prefix) || !complete && strings.HasPrefix(prefix, start)
	}
	switch {
	case l.most > 0 && max(len(start), least(pattern)) > l.most:
		return fmt.Sprintf("at most %d characters: %s cuts %ss there", l.most, transport, key)
	case l.begins != nil && !slices.ContainsFunc(l.begins, begins):
		return fmt.Sprintf("what begins with %s: %s disks have no other %s", strings.Join(l.begins, " or "), transport, key)
	}
	return ""
}

// literal returns what every text that the pattern matches begins with, and whether that is
// all of it.
func literal(pattern string) (start string, complete bool) {
	if expression, ok := strings.CutPrefix(pattern, regexpPrefix); ok {
		re, err := regexp.Compile(expression)
		if err != nil {
			return "", false
		}
		return re.LiteralPrefix()
	}
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return pattern[:i], false
	}
	return pattern, true
}

// least returns how many characters a text has at least that the glob matches. It returns
// 0 for a regular expression.
func least(glob string) int {
	if strings.HasPrefix(glob, regexpPrefix) {
		return 0
	}
	return len(strings.ReplaceAll(bracket().ReplaceAllString(glob, "?"), "*", ""))
}
