package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

var selectorKeys = []string{"names", "mapper_names", "transport", "serial", "wwn", "model", "vendor", "by_path", "size", "rotational", "removable", "logical_sector", "partitions"}

var (
	transport = oneOf("virtio", "scsi", "nvme", "dm")
	anyText   = word(expectedText, wrongText)
	sizeRange = kind{
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
	return s
}

// serialLimit in bytes is how much of a serial virtio-blk hands on
// (VIRTIO_BLK_ID_BYTES, include/uapi/linux/virtio_blk.h).
const serialLimit = 20

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
	virtio := every(s.Transport, func(t string) bool { return t == "virtio" }) || every(s.Names, named("vd"))
	others := len(s.Transport) > 0 && !slices.Contains(s.Transport, "virtio") ||
		every(s.Names, func(name string) bool { return named("sd")(name) || named("nvme")(name) || named("dm-")(name) })
	if virtio || exclusion && !others {
		each("serial", s.Serial, func(pattern string) string {
			if least(pattern) <= serialLimit {
				return ""
			}
			expected := fmt.Sprintf("at most %d characters: virtio cuts serials there", serialLimit)
			if !virtio {
				expected += " (for other disks alone: transport: [scsi])"
			}
			return expected
		})
	}
	if virtio {
		for name, list := range map[string][]string{"wwn": s.WWN, "model": s.Model} {
			if len(list) > 0 {
				p.at(at[name], n.full(name), "found %s, expected none: virtio disks have no %s", quote(list[0]), name)
			}
		}
	}
	each("wwn", s.WWN, func(pattern string) string {
		if !strings.HasPrefix(pattern, "0x") {
			return ""
		}
		return "what /sys/block/DISK/wwid or device/wwid has, did you mean " + quote("naa."+pattern[2:]) + "?"
	})
	each("names", s.Names, func(name string) string {
		for transport, prefix := range map[string]string{"virtio": "vd", "scsi": "sd", "nvme": "nvme", "dm": "dm-"} {
			literal := name[:min(len(name), len(prefix))]
			if len(s.Transport) > 0 && literal == prefix && !slices.Contains(s.Transport, transport) && !strings.ContainsAny(literal, `*?[\`) {
				return "a pattern that can match something: the class's transport is " + strings.Join(s.Transport, ", ")
			}
		}
		switch whole, partition := ends(name); {
		case exclusion:
		case s.Partitions && !partition:
			return "a pattern that can match a partition, such as vdb1, for partitions: true"
		case !s.Partitions && !whole:
			return "a pattern that can match a whole disk; did you mean partitions: true?"
		}
		return ""
	})
	for name, list := range map[string][]string{"mapper_names": s.MapperNames, "transport": s.Transport} {
		if !slices.ContainsFunc(s.Names, named("dm-")) && (name == "mapper_names" && len(list) > 0 || every(list, func(t string) bool { return t == "dm" })) {
			p.at(at[name], n.full(name), `found no "dm-*" in names, expected it too: device-mapper devices are selected only by that name`)
		}
	}
}

// exclude reads what no class may have.
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
