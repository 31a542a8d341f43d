package config

import (
	"fmt"
	"path"
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

// transports are how the kernel names the disks of each transport.
var transports = []struct{ name, prefix string }{{"virtio", "vd"}, {"scsi", "sd"}, {"nvme", "nvme"}, {"dm", "dm-"}, {"loop", "loop"}}

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
	e.names()
	can := e.transports()
	for _, a := range []struct {
		name     string
		patterns []string
	}{{"mapper_names", e.MapperNames}, {"serial", e.Serial}, {"wwn", e.WWN}, {"model", e.Model}, {"vendor", e.Vendor}, {"by_path", e.ByPath}} {
		e.patterns(a.name, a.patterns, neverMatches)
		having := slices.DeleteFunc(slices.Clone(can), func(t string) bool { _, has := attributes[t][a.name]; return !has })
		switch {
		case a.name == "by_path" || len(a.patterns) == 0:
		case len(having) == 0:
			e.add(e.at[a.name], "found %s, expected none: %s disks have no %s", quote(a.patterns[0]), strings.Join(can, " and "), a.name)
		default:
			e.patterns(a.name, a.patterns, func(pattern string) string { return tooMuch(having, a.name, pattern) })
		}
	}
}

// patterns adds a fault for each of the patterns for which wrong returns what was expected instead.
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
var diskName = regexp.MustCompile(`^(?:[vs]d[a-z]+(?:[1-9][0-9]*)?|nvme[0-9]+n[0-9]+(?:p[1-9][0-9]*)?)$`)

func (e exclusion) names() {
	e.patterns("names", e.Names, func(name string) string {
		start, complete := literal(name)
		transport := transportOf(start)
		switch {
		case len(e.Transport) > 0 && transport != "" && !slices.Contains(e.Transport, transport):
			return "a pattern that can match something: the exclusion's transport is " + strings.Join(e.Transport, ", ")
		case complete && slices.Contains([]string{"virtio", "scsi", "nvme"}, transport) && !diskName.MatchString(start):
			return "the name of a disk, such as vdb or nvme0n1, or of a partition, such as vdb1 or nvme0n1p1"
		}
		return neverMatches(name)
	})
}

// transportOf returns the transport of the disks whose names begin so, "" if that does not tell it.
func transportOf(name string) string {
	for _, t := range transports {
		if strings.HasPrefix(name, t.prefix) {
			return t.name
		}
	}
	return ""
}

// transports returns those of the disks for which the exclusion can hold.
func (e exclusion) transports() []string {
	can := e.Transport
	if len(can) == 0 {
		can = []string{"virtio", "scsi", "nvme", "dm"}
	}
	if len(e.MapperNames) > 0 && slices.Contains(can, "dm") {
		can = []string{"dm"}
	}
	var named []string
	for _, name := range e.Names {
		start, _ := literal(name)
		t := transportOf(start)
		if t == "" && len(e.Transport) > 0 {
			return can
		} else if t == "" {
			return append(slices.Clone(can), "")
		}
		if (slices.Contains(can, t) || len(e.Transport) == 0) && !slices.Contains(named, t) {
			named = append(named, t)
		}
	}
	if len(e.Names) > 0 {
		return named
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

// bracket finds the brackets of a glob, and what is escaped outside of them.
var bracket = regexp.MustCompile(`\\.|\[(?:\\.|[^\]\\])+\]`)

// least returns how many characters a text has at least that the glob matches. It returns
// 0 for a regular expression.
func least(glob string) int {
	if strings.HasPrefix(glob, regexpPrefix) {
		return 0
	}
	return len(strings.ReplaceAll(bracket.ReplaceAllString(glob, "?"), "*", ""))
}

// neverMatches returns what is expected instead of a glob with a bracket that no character
// matches. It says nothing of regular expressions.
func neverMatches(glob string) string {
	if strings.HasPrefix(glob, regexpPrefix) {
		return ""
	}
	for _, b := range bracket.FindAllString(glob, -1) {
		some := false
		for r := rune(0); r < 0x180 && !some; r++ {
			some, _ = path.Match(b, string(r))
		}
		if !some {
			return "a pattern that can match something: in [z-a] the first is above the last"
		}
	}
	return ""
}
