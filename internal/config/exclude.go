package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// exclusion is an exclusion that is being checked. An exclusion that cannot match any disk is a fault: hotmount would
// format the disk that the author of the exclusion meant.
type exclusion struct {
	*disk.Selectors
	// places maps each key of the exclusion to the place of its value in a file.
	places origins
	*faults
}

// prefixes map the beginning of a kernel name to the disk's transport.
var prefixes = map[string]string{"vd": "virtio", "sd": "scsi", "nvme": "nvme", "dm-": "dm", "loop": "loop"}

// The type `limit` describes the possible values of one attribute for the disks of one transport.
type limit struct {
	// maxLength is the highest number of characters. A maxLength of 0 means that the length has no limit.
	maxLength int
	// The field `begins` contains the possible beginnings of a value. A nil list means that a value may have any
	// beginning.
	begins []string
}

// attributes maps each transport to the attributes that sysfs.FS finds for disks with this transport.
var attributes = map[string]map[string]limit{
	// The limits come from VIRTIO_BLK_ID_BYTES (include/uapi/linux/virtio_blk.h) and vendor_show
	// (drivers/virtio/virtio.c).
	"virtio": {"serial": {maxLength: 20}, "vendor": {begins: []string{"0x"}}},
	// The limits are those of the fields of INQUIRY (SPC; scsi_add_lun in drivers/scsi/scsi_scan.c). If the WWN is a
	// SCSI name string, the disk itself chooses the form of the WWN (scsi_vpd_lun_id).
	"scsi": {"serial": {}, "model": {maxLength: 16}, "vendor": {maxLength: 8}, "wwn": {}},
	// The limits are those of SN and MN of Identify Controller (NVMe base specification) and of wwid_show
	// (drivers/nvme/host). For every NVMe namespace except the first, hotmount puts a prefix before the serial. A
	// prefix such as n2- or n4294967295- contains the namespace number (disk.NamespacePrefix).
	"nvme": {"serial": {maxLength: 32}, "model": {maxLength: 40}, "wwn": {begins: []string{"eui.", "nvme.", "uuid."}}},
	"dm":   {"serial": {}, "mapper_names": {}},
	// A disk whose name shows no transport may have any attribute.
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
			e.add(e.places[a.name], "found %s, expected none: %s disks have no %s", quote(a.patterns[0]), strings.Join(can, " and "), a.name)
		default:
			e.patterns(a.name, a.patterns, func(pattern string) string { return tooMuch(having, a.name, pattern) })
		}
	}
}

// patterns adds a fault for each wrong pattern. The function `wrong` returns "" for a correct pattern, and describes the
// expected pattern in all other cases.
func (e exclusion) patterns(key string, patterns []string, wrong func(string) string) {
	for i, pattern := range patterns {
		if expected := wrong(pattern); expected != "" {
			e.add(e.places[fmt.Sprintf("%s[%d]", key, i)], "found %s, expected %s", quote(pattern), expected)
		}
	}
}

// diskName matches the kernel names of disks and partitions (virtblk_name_format in drivers/block/virtio_blk.c,
// sd_format_disk_name in drivers/scsi/sd.c, nvme_alloc_ns in drivers/nvme/host/core.c, add_partition in
// block/partitions/core.c).
const diskName = `^(?:[vs]d[a-z]+(?:[1-9][0-9]*)?|(?:nvme[0-9]+n|dm-|loop)[0-9]+(?:p[1-9][0-9]*)?)$`

func (e exclusion) wrongName(name string) string {
	start, complete := literal(name)
	transport := transportOf(start)
	switch {
	case transport == "":
	case len(e.Transport) > 0 && !slices.Contains(e.buses(), transport):
		return "a pattern that can match a disk: the exclusion matches only disks with the transport " + strings.Join(e.Transport, " or ")
	case complete && !regexp.MustCompile(diskName).MatchString(start):
		return "the name of a disk, such as vdb or nvme0n1, or of a partition, such as vdb1 or nvme0n1p1"
	}
	return ""
}

// transportOf returns the transport of the disks whose kernel names begin with the given text. transportOf returns ""
// if the given text begins with none of the keys of the map prefixes.
func transportOf(start string) string {
	for prefix, t := range prefixes {
		if strings.HasPrefix(start, prefix) {
			return t
		}
	}
	return ""
}

// The method `buses` returns the exclusion's transports. For virtio-scsi, `buses` returns scsi, because a virtio-scsi
// disk has the attributes of a SCSI disk.
func (e exclusion) buses() []string {
	var all []string
	for _, t := range e.Transport {
		if t == disk.VirtioSCSI {
			t = "scsi"
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// transports returns the transports of the disks that the exclusion can match. In the result, "" stands for any
// transport other than virtio, scsi, nvme, dm and loop.
func (e exclusion) transports() []string {
	can := []string{"virtio", "scsi", "nvme", "dm", "loop", ""}
	if len(e.Transport) > 0 {
		can = e.buses()
	} else if len(e.Names) == 0 {
		can = can[:4] // loop devices and disks of unknown transports are selected only by name
	}
	can = slices.DeleteFunc(can, func(t string) bool {
		return len(e.Names) > 0 && !slices.ContainsFunc(e.Names, func(name string) bool {
			start, _ := literal(name)
			of := transportOf(start)
			return of == t || of == ""
		})
	})
	if len(e.MapperNames) > 0 && slices.Contains(can, "dm") {
		can = []string{"dm"}
	}
	return can
}

// tooMuch describes the expected pattern if the given pattern cannot match any disk of the given transports. tooMuch
// also describes the expected pattern for a probable mistake, such as a serial that is too long for virtio. In all
// other cases, tooMuch returns "".
func tooMuch(transports []string, key, pattern string) string {
	if key == "serial" && len(transports) > 1 && slices.Contains(transports, "virtio") {
		// The exclusion is probably for a virtio disk, even if the pattern also fits disks of other transports.
		if expected := attributes["virtio"][key].wrong("virtio", key, pattern); expected != "" {
			return expected + " (if you mean other disks, name their transport, such as transport: [scsi])"
		}
	}
	if key == "wwn" && slices.Contains(transports, "scsi") && strings.HasPrefix(pattern, "0x") {
		return "the value in /sys/block/DISK/wwid or /sys/block/DISK/device/wwid; did you mean " + quote("naa."+pattern[2:]) + "?"
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
	case l.maxLength > 0 && minLength(pattern) > l.maxLength:
		return fmt.Sprintf("at most %d characters: %s shortens each %s to this length", l.maxLength, transport, key)
	case l.begins != nil && !slices.ContainsFunc(l.begins, begins):
		return fmt.Sprintf("a value that begins with %s, as the %s of every %s disk does", strings.Join(l.begins, " or "), key, transport)
	}
	return ""
}

// The function `literal` returns a common beginning of all texts that match the pattern. If the second result is true,
// the common beginning is the only text that matches the pattern.
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

// minLength returns the number of characters of the shortest text that the pattern matches.
func minLength(pattern string) int {
	if expression, ok := strings.CutPrefix(pattern, regexpPrefix); ok {
		re, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			return 0
		}
		return leastOf(re.Simplify())
	}
	return len(strings.ReplaceAll(bracket().ReplaceAllString(pattern, "?"), "*", ""))
}

// leastOf returns the number of characters of the shortest text that the regular expression matches.
func leastOf(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return leastOf(re.Sub[0])
	case syntax.OpConcat:
		for _, s := range re.Sub {
			n += leastOf(s)
		}
	case syntax.OpAlternate:
		n = leastOf(re.Sub[0])
		for _, s := range re.Sub {
			n = min(n, leastOf(s))
		}
	}
	return n
}
