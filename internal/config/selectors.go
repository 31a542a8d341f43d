package config

import (
	"fmt"
	"path"
	"regexp/syntax"
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

// regexpPrefix as in policy.Regexp.
const regexpPrefix = "re:"

func wrongText(s string) string {
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return expectedText
	}
	return wrongSyntax(s, expectedText)
}

// wrongSyntax gives what is expected instead of a pattern that can not be read or
// that matches nothing, whatever it is compared with.
func wrongSyntax(s, expected string) string {
	if expression, ok := strings.CutPrefix(s, regexpPrefix); ok {
		re, err := syntax.Parse(expression, syntax.Perl)
		switch {
		case err != nil:
			return "a regular expression (RE2); " + err.Error()
		case never(re.Simplify()):
			return "a pattern that can match something"
		}
		return ""
	}
	if _, err := path.Match(s, ""); err != nil {
		return expected + "; it has a bracket or a backslash without its end"
	}
	if backward(s) {
		return "a pattern that can match something: in [z-a] the first is above the last"
	}
	return ""
}

// never says whether the expression matches no text at all.
func never(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpNoMatch:
		return true
	case syntax.OpCharClass:
		return len(re.Rune) == 0
	case syntax.OpConcat:
		return slices.ContainsFunc(re.Sub, never)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !never(s) })
	case syntax.OpCapture, syntax.OpPlus:
		return never(re.Sub[0])
	}
	return false
}

// backward says whether a glob has a bracket that holds only ranges whose first is
// above their last (path.Match: '[' [ '^' ] { character-range } ']').
func backward(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			negated := i+1 < len(s) && s[i+1] == '^'
			if negated {
				i++
			}
			some := false
			character := func() byte {
				i++
				if s[i] == '\\' {
					i++
				}
				return s[i]
			}
			for i+1 < len(s) && s[i+1] != ']' {
				low := character()
				high := low
				if s[i+1] == '-' {
					i++
					high = character()
				}
				some = some || low <= high
			}
			i++
			if !some && !negated {
				return true
			}
		}
	}
	return false
}

// kernelPrefixes begin the kernel names of disks that every pattern may select;
// others have to be named by their first two letters (policy.Named).
var kernelPrefixes = []string{"vd", "sd", "nvme"}

// reachesNothing says whether a pattern of kernel names can select no device: no
// name that begins as it does is one of a disk that it may select.
func reachesNothing(pattern string) bool {
	if strings.HasPrefix(pattern, regexpPrefix) {
		return false // what it begins with can not be told in general
	}
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		literal = pattern[:i]
	}
	return len(literal) < 2 && literal != "" && !slices.ContainsFunc(kernelPrefixes, func(p string) bool { return strings.HasPrefix(p, literal) }) ||
		strings.HasPrefix(literal, "dm") && !strings.HasPrefix(literal, "dm-")
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

// possible refuses what can hold for no disk.
func (p *parser) possible(n *classNode, s *disk.Selectors) {
	at := n.at
	item := func(name string, i int) *yaml.Node { return at[name].Content[i] }
	only := func(name string) bool { return len(s.Transport) == 1 && s.Transport[0] == name }
	if only("virtio") {
		for i, pattern := range s.Serial {
			if !strings.HasPrefix(pattern, regexpPrefix) && !strings.ContainsAny(pattern, `*?[\`) && len(pattern) > serialLimit {
				p.at(item("serial", i), fmt.Sprintf("%s[%d]", n.full("serial"), i), "found %s, expected at most %d characters: virtio cuts serials there", quote(pattern), serialLimit)
			}
		}
	}
	for i, name := range s.Names {
		for transport, prefix := range map[string]string{"virtio": "vd", "scsi": "sd", "nvme": "nvme", "dm": "dm-"} {
			literal := name[:min(len(name), len(prefix))]
			if len(s.Transport) > 0 && literal == prefix && !slices.Contains(s.Transport, transport) && !strings.ContainsAny(literal, `*?[\`) {
				p.at(item("names", i), fmt.Sprintf("%s[%d]", n.full("names"), i), "found %s, expected a pattern that can match something: the class's transport is %s", quote(name), strings.Join(s.Transport, ", "))
			}
		}
	}
	if len(s.MapperNames) > 0 && !slices.ContainsFunc(s.Names, func(n string) bool { return strings.HasPrefix(strings.TrimPrefix(n, regexpPrefix), "dm-") }) {
		p.at(at["mapper_names"], n.full("mapper_names"), `found no "dm-*" in names, expected it too: device-mapper devices are selected only by that name`)
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
