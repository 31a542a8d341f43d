package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

// maxList is the maximum length of a list, so that a comparison of all pairs of entries stays cheap.
const maxList = 64

// A document is the content of one configuration file.
type document struct {
	path string
	data []byte
}

// A parser reads the configuration files one after another. A parser does not accept anchors, tags or merge keys.
// Without anchors and merge keys, each value stands at the place in the file where the value applies. Without anchors,
// a short text cannot expand to a large value.
type parser struct {
	// name is the name of the file that is being read, in a form that is safe to print.
	name string
	// layers contains one layer for each file, and one layer for the merged classes and exclusions of all files.
	layers  []layer
	origins origins
	// classes contains the classes of all files, merged by name. exclude contains the exclusions of all files.
	classes, exclude []section
	faults
}

// section is a class or an exclusion.
type section struct {
	at     place
	values layer
	// The map `from` contains the place of each key, such as "names", and of each entry of a list, such as "names[0]".
	from origins
}

func parse(documents []document) *parser {
	p := &parser{origins: origins{}}
	for _, d := range documents {
		p.name = disk.Visible(d.path)
		p.document(d.data)
	}
	lists := layer{}
	for name, sections := range map[string][]section{"classes": p.classes, "exclude": p.exclude} {
		if len(sections) == 0 {
			continue
		}
		var all []any
		for i, s := range sections {
			full := fmt.Sprintf("%s[%d]", name, i)
			p.origins[full] = s.at
			for key, at := range s.from {
				p.origins[full+"."+key] = at
			}
			if name == "classes" {
				s.fillIn()
			}
			all = append(all, s.values)
		}
		lists[name] = all
	}
	p.layers = append(p.layers, lists)
	return p
}

// fillIn adds the default values of the keys that the class omits. A class with a selector gets no default selectors.
func (s *section) fillIn() {
	values := fields(classDefaults())
	if s.selects() {
		for _, k := range selectorKeys {
			delete(values, k.name)
		}
	}
	maps.Copy(values, s.values)
	s.values = values
}

// The method `selects` reports whether the section has a selector. "partitions: false" does not count as a selector,
// because the value false selects no disk.
func (s *section) selects() bool {
	return slices.ContainsFunc(selectorKeys, func(k key) bool {
		value, given := s.values[k.name]
		return given && !(k.name == "partitions" && value == false)
	})
}

func (p *parser) document(text []byte) {
	var first, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&first)
	if err == nil {
		p.root(first.Content[0])
		if err = decoder.Decode(&second); err == nil {
			p.addAt(&second, "", "found a second document, expected one")
		}
	}
	if err != nil && err != io.EOF {
		p.syntax(err)
	}
}

// syntax adds a fault for a syntax error that the yaml package reports. The yaml package may report the line where the
// faulty list or mapping starts, which can be above the fault.
func (p *parser) syntax(err error) {
	yamlError := regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)
	at, what := place{name: p.name}, err.Error()
	if m := yamlError.FindStringSubmatch(what); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		what = m[2]
	}
	if at.line > 0 {
		what += ", in this line or below"
	}
	p.add(at, "expected YAML: %s", disk.Visible(what))
}

func (p *parser) root(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Value == "" && n.Style == 0 && n.Anchor == "" {
		return // a file with only "---"
	}
	nodes := p.mapping(n, "", rootKeys)
	values, from := p.values(nodes, "", slices.Concat(scalars, lists))
	p.layers = append(p.layers, values)
	maps.Copy(p.origins, from)
	if v := nodes["classes"]; v != nil {
		p.addClasses(v)
	}
	if v := nodes["exclude"]; v != nil {
		p.addExclusions(v)
	}
}

// addClasses adds the classes of one file to the classes of earlier files. A key that the file omits keeps the value
// from earlier files.
func (p *parser) addClasses(n *yaml.Node) {
	before := len(p.classes)
	named := func(classes []section, name any) int {
		return slices.IndexFunc(classes, func(c section) bool { return name != nil && c.values["name"] == name })
	}
	var own []section
	for i, item := range p.items(n, "classes", "a class with name and directory", 1) {
		c, ok := p.section(item, fmt.Sprintf("classes[%d]", i), classKeys)
		if !ok {
			continue
		}
		name := c.values["name"]
		if same := named(own, name); same >= 0 {
			p.add(c.from["name"], "found %s, which is already the name of %s (line %d), expected a name that is not used yet", quote(name.(string)), own[same].at.key, own[same].at.line)
		}
		own = append(own, c)
		if same := named(p.classes[:before], name); same >= 0 {
			maps.Copy(p.classes[same].values, c.values)
			maps.Copy(p.classes[same].from, c.from)
		} else {
			p.classes = append(p.classes, c)
		}
	}
}

func (p *parser) addExclusions(n *yaml.Node) {
	for i, item := range p.items(n, "exclude", "selectors such as {serial: [OLD-*]}", 0) {
		faults := len(p.faults)
		s, ok := p.section(item, fmt.Sprintf("exclude[%d]", i), selectorKeys)
		if !ok {
			continue
		}
		if !s.selects() && len(p.faults) == faults {
			p.add(s.at, "found no selector, expected at least one of %s", strings.Join(names(selectorKeys), ", "))
		}
		p.exclude = append(p.exclude, s)
	}
}

// section reads a class or an exclusion. The result ok is false if the node is not a mapping.
func (p *parser) section(n *yaml.Node, full string, keys []key) (s section, ok bool) {
	nodes := p.mapping(n, full, names(keys))
	values, from := p.values(nodes, full+".", keys)
	return section{p.place(n, full), values, from}, nodes != nil
}

// The method `values` returns the valid values of the keys, and the place of each key and each list entry in the file.
func (p *parser) values(nodes map[string]*yaml.Node, parent string, keys []key) (layer, origins) {
	values, from := layer{}, origins{}
	for _, k := range keys {
		n, full := nodes[k.name], parent+k.name
		if n == nil {
			continue
		}
		from[k.name] = p.place(n, full)
		var value any
		var ok bool
		if k.count == single {
			value, ok = p.scalar(n, full, k.kind)
		} else {
			for i, item := range n.Content {
				from[fmt.Sprintf("%s[%d]", k.name, i)] = p.place(item, fmt.Sprintf("%s[%d]", full, i))
			}
			value, ok = p.list(n, full, k)
		}
		if ok {
			values[k.name] = value
		}
	}
	return values, from
}

func (p *parser) place(n *yaml.Node, key string) place { return place{p.name, n.Line, key} }

func (p *parser) addAt(n *yaml.Node, key, format string, args ...any) {
	p.add(p.place(n, key), format, args...)
}

// plain reports whether the node has no alias, no anchor and no tag. If the node has an alias, an anchor or a tag,
// plain adds a fault.
func (p *parser) plain(n *yaml.Node, key string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		p.addAt(n, key, "found the alias *%s, expected the value itself", disk.Visible(n.Value))
	case n.Anchor != "":
		p.addAt(n, key, "found the anchor &%s, expected only the value", disk.Visible(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		p.addAt(n, key, "found the tag %s, expected only the value", disk.Visible(n.Tag))
	default:
		return true
	}
	return false
}

// mapping returns the values of the known keys of a YAML node, or nil if the node is not a mapping.
func (p *parser) mapping(n *yaml.Node, key string, known []string) map[string]*yaml.Node {
	if !p.plain(n, key) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.addAt(n, key, "found %s, expected keys with values", describeNode(n))
		return nil
	}
	if key != "" {
		key += "."
	}
	values := map[string]*yaml.Node{}
	for pair := range slices.Chunk(n.Content, 2) {
		k, v := pair[0], pair[1]
		full := key + disk.Visible(k.Value)
		switch first, twice := values[k.Value]; {
		case !p.plain(k, full):
		case k.Kind != yaml.ScalarNode:
			p.addAt(k, key, "found %s as a key, expected one of %s", describeNode(k), strings.Join(known, ", "))
		case k.ShortTag() == "!!merge":
			p.addAt(k, full, "found a merge key, expected every key to be written out")
		case twice:
			p.addAt(k, full, "found this key a second time, expected it once (first in line %d)", first.Line)
		case !slices.Contains(known, k.Value):
			p.addAt(k, full, "unknown key, %s", suggest(k.Value, known))
		default:
			values[k.Value] = v
		}
	}
	return values
}

// items returns the entries of a list. A list with fewer entries than the parameter `least`, or with more than maxList,
// is a fault.
func (p *parser) items(n *yaml.Node, key, expected string, least int) []*yaml.Node {
	switch {
	case !p.plain(n, key):
	case n.Kind != yaml.SequenceNode:
		p.addAt(n, key, "found %s, expected a list, each entry %s", describeNode(n), expected)
	case len(n.Content) < least:
		p.addAt(n, key, "found an empty list, expected at least %d entry, each %s", least, expected)
	case len(n.Content) > maxList:
		p.addAt(n, key, "found a list of %d entries, expected at most %d", len(n.Content), maxList)
	default:
		return n.Content
	}
	return nil
}

// list returns the values of a list. The result ok is false if one of the values is wrong.
func (p *parser) list(n *yaml.Node, full string, k key) (values []any, ok bool) {
	least, before := 0, len(p.faults)
	if k.count == nonEmptyList {
		least = 1
	}
	values = []any{}
	for i, item := range p.items(n, full, k.expected, least) {
		at := fmt.Sprintf("%s[%d]", full, i)
		switch v, ok := p.scalar(item, at, k.kind); {
		case !ok:
		case slices.Contains(values, v):
			p.addAt(item, at, "found %s a second time, expected once", quote(item.Value))
		default:
			values = append(values, v)
		}
	}
	return values, len(p.faults) == before
}

// scalar returns the value of a YAML node. The result ok is false if the value is wrong.
func (p *parser) scalar(n *yaml.Node, key string, k kind) (value any, ok bool) {
	if !p.plain(n, key) {
		return nil, false
	}
	expected := k.expected
	if n.Kind == yaml.ScalarNode && n.ShortTag() == k.tag {
		if value, ok = k.parse(n.Value); ok {
			return value, true
		}
		expected = k.expects(n.Value)
	}
	p.addAt(n, key, "found %s, expected %s", describeNode(n), expected)
	return nil, false
}

// describeNode describes the content of a node.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!str":
		return quote(n.Value)
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + disk.Visible(n.Value)
	}
	return disk.Visible(n.Value)
}
