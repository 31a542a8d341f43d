package config

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

var selectorKeys = []string{"names", "mapper_names", "backing_file", "transport", "serial", "wwn", "model", "vendor", "by_path", "size", "rotational", "removable", "logical_sector", "partitions"}

var (
	transport = oneOf("virtio", "scsi", "nvme", "dm")
	anyText   = word(expectedText, wrongText)
	// backingFile patterns name files literally as far as their first directory, so that none means any file.
	backingFile = word(expectedBackingFile, wrongBackingFile)
	sizeRange   = kind{
		name: "range", tag: "!!str", expected: "a range of sizes such as 5GiB..100GiB, 5GiB.. or ..100GiB, the first not above the second",
		parse: func(s string) (any, bool) {
			var r disk.SizeRange
			first, second, ok := strings.Cut(s, "..")
			for text, to := range map[string]*uint64{first: &r.Least, second: &r.Most} {
				n, is := size.parse(text)
				if text == "" {
					continue
				}
				if *to, _ = n.(uint64); !is || *to == 0 {
					return r, false
				}
			}
			return r, ok && r != (disk.SizeRange{}) && (r.Most == 0 || r.Least <= r.Most)
		},
	}
	sector = kind{
		tag: "!!int", expected: "a size of sectors in bytes: 512, 1024, 2048 or 4096",
		parse: func(s string) (any, bool) {
			n, err := strconv.ParseUint(s, 10, 32)
			return uint32(n), err == nil && slices.Contains([]uint64{512, 1024, 2048, 4096}, n)
		},
	}
)

const expectedBackingFile = "a glob of absolute paths that begins with a directory by its name, such as /srv/ci/*.img"

func wrongBackingFile(s string) string {
	first, rest, below := strings.Cut(strings.TrimPrefix(s, "/"), "/")
	switch _, err := path.Match(s, ""); {
	case err != nil, wrongText(s) != "", !strings.HasPrefix(s, "/"), path.Clean(s) != s,
		first == "", strings.ContainsAny(first, `*?[\`), !below, rest == "":
		return expectedBackingFile
	}
	return ""
}

const expectedText = "a pattern of at most 128 visible characters: a glob such as FAST-*, or a regular expression after re:"

func wrongText(s string) string {
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return expectedText
	}
	return wrongSyntax(s, expectedText)
}

// selectors reads the selectors of a class or of an exclusion.
func (p *parser) selectors(n *classNode) disk.Selectors {
	var s disk.Selectors
	at := n.at
	texts := func(name string, k kind) []string { return p.list(at[name], n.full(name), k, 1, nil) }
	s.Names = texts("names", kernelNames)
	s.MapperNames = texts("mapper_names", anyText)
	s.BackingFile = texts("backing_file", backingFile)
	s.Transport = texts("transport", transport)
	s.Serial = texts("serial", anyText)
	s.WWN = texts("wwn", anyText)
	s.Model = texts("model", anyText)
	s.Vendor = texts("vendor", anyText)
	s.ByPath = texts("by_path", anyText)
	s.Size = p.scalar(at["size"], n.full("size"), sizeRange, disk.SizeRange{}).(disk.SizeRange)
	for name, to := range map[string]**bool{"rotational": &s.Rotational, "removable": &s.Removable} {
		if v, ok := p.scalar(at[name], n.full(name), boolean, nil).(bool); ok {
			*to = &v
		}
	}
	if list := at["logical_sector"]; list != nil {
		for i, item := range p.items(list, n.full("logical_sector"), sector.expected, 1) {
			if v, ok := p.scalar(item, fmt.Sprintf("%s[%d]", n.full("logical_sector"), i), sector, nil).(uint32); ok {
				s.LogicalSector = append(s.LogicalSector, v)
			}
		}
	}
	s.Partitions = p.scalar(at["partitions"], n.full("partitions"), boolean, false).(bool)
	p.possible(n, &s)
	p.loops(n, &s)
	return s
}

// loops refuses loop devices that are selected without what lies behind them, in classes: many
// programs have loop devices. An exclusion may name them.
func (p *parser) loops(n *classNode, s *disk.Selectors) {
	if strings.HasPrefix(n.key, "exclude") {
		return
	}
	// As policy.Select has it: a pattern that begins with these letters as they are may select them.
	named := slices.IndexFunc(s.Names, func(name string) bool {
		return strings.HasPrefix(strings.TrimPrefix(name, regexpPrefix), "lo")
	})
	switch {
	case named >= 0 && n.at["backing_file"] == nil:
		p.at(n.at["names"].Content[named], fmt.Sprintf("%s[%d]", n.full("names"), named),
			"found %s without backing_file, expected it too: loop devices are selected only by name and by file", quote(s.Names[named]))
	case named < 0 && len(s.BackingFile) > 0:
		p.at(n.at["backing_file"], n.full("backing_file"),
			`found no "loop*" in names, expected it too: loop devices are selected only by name and by file`)
	}
}

// says is what an attribute of a transport's disks can be.
type says struct {
	// most is how many characters it has at most, 0 for any number.
	most int
	// begins has what it can begin with, nil for anything.
	begins []string
}

// hardware has which of these attributes sysfs.FS finds of the disks of each transport:
// serial, WWN, model, vendor and name in the device mapper.
var hardware = map[string]map[string]says{
	// VIRTIO_BLK_ID_BYTES (include/uapi/linux/virtio_blk.h); vendor_show
	// (drivers/virtio/virtio.c).
	"virtio": {"serial": {most: 20}, "vendor": {begins: []string{"0x"}}},
	// INQUIRY's fields (SPC; scsi_add_lun, drivers/scsi/scsi_scan.c). A WWN is as the
	// disk says where that is a SCSI name string (scsi_vpd_lun_id).
	"scsi": {"serial": {}, "model": {most: 16}, "vendor": {most: 8}, "wwn": {}},
	// The fields SN and MN of Identify Controller (NVMe base specification); wwid_show
	// (drivers/nvme/host).
	// Before the serial of another namespace than the first stands n2-, up to n4294967295-.
	"nvme": {"serial": {most: 32}, "model": {most: 40}, "wwn": {begins: []string{"eui.", "nvme.", "uuid."}}},
	"dm":   {"serial": {}, "mapper_names": {}},
}

// wrong gives what is expected instead of a pattern that no disk of the transport can
// match.
func (s says) wrong(transport, name, pattern string) string {
	switch {
	case s.most > 0 && least(pattern) > s.most:
		return fmt.Sprintf("at most %d characters: %s cuts %ss there", s.most, transport, name)
	case s.begins != nil && !slices.ContainsFunc(s.begins, func(prefix string) bool { return canBegin(pattern, prefix) }):
		return fmt.Sprintf("what begins with %s: %s disks have no other %s", strings.Join(s.begins, " or "), transport, name)
	}
	return ""
}

// transports gives those of the disks that the selectors can select, nil where a name
// leaves it open.
func transports(s *disk.Selectors, exclusion bool) []string {
	all := s.Transport
	if len(all) == 0 && len(s.Names) == 0 {
		all = []string{"virtio", "scsi", "nvme"}
		if exclusion {
			all = append(all, "dm")
		}
	}
	named := []string{}
	for _, name := range s.Names {
		start, _ := literal(name)
		i := slices.IndexFunc(diskNames, func(k kernelName) bool { return strings.HasPrefix(start, k.prefix) })
		if i < 0 {
			return all
		}
		if t := diskNames[i].transport; !slices.Contains(named, t) && (all == nil || slices.Contains(all, t)) {
			named = append(named, t)
		}
	}
	if len(s.Names) == 0 {
		return all
	}
	return named
}

// possible refuses what can hold for no disk; of an exclusion also what can not hold
// for a virtio disk that seems to be meant, which would be formatted.
func (p *parser) possible(n *classNode, s *disk.Selectors) {
	at := n.at
	exclusion := strings.HasPrefix(n.key, "exclude")
	each := func(name string, patterns []string, wrong func(string) string) {
		for i, pattern := range patterns {
			if expected := wrong(pattern); expected != "" {
				p.at(at[name].Content[i], fmt.Sprintf("%s[%d]", n.full(name), i), "found %s, expected %s", quote(pattern), expected)
			}
		}
	}
	every := func(list []string, is func(string) bool) bool {
		return len(list) > 0 && !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
	}
	named := func(prefix string) func(string) bool {
		return func(s string) bool { return strings.HasPrefix(strings.TrimPrefix(s, regexpPrefix), prefix) }
	}
	can := transports(s, exclusion)
	if len(s.MapperNames) > 0 && (can == nil || slices.Contains(can, "dm")) {
		can = []string{"dm"}
	}
	among := func(transport string) bool { return can == nil || slices.Contains(can, transport) }
	for _, a := range []struct {
		name     string
		patterns []string
	}{{"mapper_names", s.MapperNames}, {"serial", s.Serial}, {"wwn", s.WWN}, {"model", s.Model}, {"vendor", s.Vendor}} {
		if len(a.patterns) == 0 || a.name == "mapper_names" && !exclusion {
			continue
		}
		having := slices.DeleteFunc(slices.Clone(can), func(t string) bool { _, has := hardware[t][a.name]; return !has })
		if len(can) > 0 && len(having) == 0 {
			p.at(at[a.name], n.full(a.name), "found %s, expected none: %s disks have no %s", quote(a.patterns[0]), strings.Join(can, " and "), a.name)
			continue
		}
		each(a.name, a.patterns, func(pattern string) string {
			virtio := hardware["virtio"]["serial"].wrong("virtio", "serial", pattern)
			if a.name == "serial" && exclusion && virtio != "" && among("virtio") && len(can) != 1 {
				return virtio + " (for other disks alone: transport: [scsi])"
			}
			var all []string
			for _, t := range having {
				expected := hardware[t][a.name].wrong(t, a.name, pattern)
				if expected == "" {
					return ""
				}
				all = append(all, expected)
			}
			return strings.Join(all, "; or ")
		})
	}
	each("wwn", s.WWN, func(pattern string) string {
		if !strings.HasPrefix(pattern, "0x") || !among("scsi") {
			return ""
		}
		return "what /sys/block/DISK/wwid or device/wwid has, did you mean " + quote("naa."+pattern[2:]) + "?"
	})
	whose := "the class's"
	if exclusion {
		whose = "the exclusion's"
	}
	each("names", s.Names, func(name string) string {
		start, _ := literal(name)
		for _, k := range diskNames {
			if len(s.Transport) > 0 && strings.HasPrefix(start, k.prefix) && !slices.Contains(s.Transport, k.transport) {
				return "a pattern that can match something: " + whose + " transport is " + strings.Join(s.Transport, ", ")
			}
		}
		switch whole, partition := names(name); {
		case !whole && !partition:
			return "the name of a disk, such as vdb or nvme0n1, or of a partition, such as vdb1 or nvme0n1p1"
		case exclusion:
		case s.Partitions && !partition:
			return "a pattern that can match a partition, such as vdb1, for partitions: true"
		case !s.Partitions && !whole:
			return "a pattern that can match a whole disk; did you mean partitions: true?"
		}
		return ""
	})
	for name, list := range map[string][]string{"mapper_names": s.MapperNames, "transport": s.Transport} {
		if !exclusion && !slices.ContainsFunc(s.Names, named("dm-")) && (name == "mapper_names" && len(list) > 0 || every(list, func(t string) bool { return t == "dm" })) {
			p.at(at[name], n.full(name), `found no "dm-*" in names, expected it too: device-mapper devices are selected only by that name`)
		}
	}
}

// exclude parses the exclusions of a file, before which others have that many.
func (p *parser) exclude(n *yaml.Node, before int) []disk.Selectors {
	var all []disk.Selectors
	for i, item := range p.items(n, "exclude", "selectors such as {serial: [OLD-*]}", 0) {
		key := fmt.Sprintf("exclude[%d]", i)
		p.origins[fmt.Sprintf("exclude[%d]", before+i)] = place{name: p.name, line: item.Line}
		faults := len(p.faults)
		s := p.selectors(&classNode{node: item, key: key, at: p.mapping(item, key, selectorKeys)})
		if s.IsZero() && len(p.faults) == faults {
			p.at(item, key, "found no selector, expected at least one of %s", strings.Join(selectorKeys, ", "))
		}
		all = append(all, s)
	}
	return all
}
