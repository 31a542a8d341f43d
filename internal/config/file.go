package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"hotmount/internal/disk"
)

const (
	// maxFile is the size in bytes that the file may have.
	maxFile = 1 << 20
	// maxList bounds every list, so that comparing each with each stays cheap.
	maxList = 64
)

// maxFiles bounds the number of drop-ins.
const maxFiles = 64

// dropIns is the directory beside the file whose *.yaml files are read after it.
const dropIns = "config.d"

// file gives what the configuration file and its drop-ins say, and where.
func (src *Source) file() (layer, origins, error) {
	file, at, explicit := src.path()
	if file == "" {
		return nil, nil, &fault{at, `found "", expected the path of a file`}
	}
	trust := src.Trust
	if trust == nil {
		trust = rootAlone
	}
	// Whoever can write to the directory can take the file away, and what it forbids
	// with it. From a directory such as /tmp nobody can take another's file.
	info, err := os.Stat(filepath.Dir(file))
	if err == nil && info.Mode()&fs.ModeSticky == 0 {
		if err := trust(info); err != nil {
			return nil, nil, fmt.Errorf("cannot use the configuration in %s: %w", disk.Visible(filepath.Dir(file)), err)
		}
	}
	var texts []document
	data, err := read(file, trust)
	switch {
	case !explicit && errors.Is(err, fs.ErrNotExist) && missing(file):
	case err != nil:
		return nil, nil, fmt.Errorf("cannot read the configuration file %s: %w", disk.Visible(file), err)
	default:
		texts = append(texts, document{file, data})
	}
	dir := filepath.Join(filepath.Dir(file), dropIns)
	more, err := readAll(dir, trust)
	if err != nil {
		return nil, nil, err
	}
	return parse(append(texts, more...))
}

// readAll reads the drop-ins in the order of their names. One that can not be read
// is an error: what it says may be what keeps a disk from being used.
func readAll(dir string, trust func(fs.FileInfo) error) ([]document, error) {
	wrong := func(name string, err error) error {
		return fmt.Errorf("cannot read the configuration file %s: %w", disk.Visible(name), bare(err))
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && missing(dir) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil {
		err = trust(info)
	}
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return nil, wrong(dir, err)
	}
	var texts []document
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := filepath.Join(dir, e.Name())
		data, err := read(name, trust)
		if err == nil && len(texts) == maxFiles {
			err = fmt.Errorf("expected at most %d files in its directory", maxFiles)
		}
		if err != nil {
			return nil, wrong(name, err)
		}
		texts = append(texts, document{name, data})
	}
	return texts, nil
}

// missing says whether nothing has that name. Where it, or a directory on the way, is a symlink to
// nowhere, what is there was to say something.
func missing(name string) bool {
	for path := filepath.Clean(name); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
			continue
		}
		_, err := os.Stat(path)
		return err == nil && path != name
	}
}

func read(path string, trust func(fs.FileInfo) error) ([]byte, error) {
	// O_NONBLOCK: a FIFO must not hang the start.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("expected a regular file, its mode is %s", info.Mode())
	}
	if err := trust(info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than %s", disk.HumanSize(maxFile))
	}
	return data, nil
}

// bare takes the path out of an error: it is foreign and may be long.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// rootAlone is the check of owner and mode. Where there is an access control
// list, the group's bits of the mode are its mask (acl(5)).
func rootAlone(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	mode := "0644"
	if info.Mode().IsDir() {
		mode = "0755"
	}
	switch {
	case !ok:
		return errors.New("its owner can not be told, expected root")
	case st.Uid != 0:
		return fmt.Errorf("it belongs to user %d, expected root", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode is %04o, expected it to be writable by root alone (%s)", info.Mode().Perm(), mode)
	}
	return nil
}

// document is the content of a file.
type document struct {
	path string
	data []byte
}

// parser reads one file after the other.
type parser struct {
	// name is that of the current file, safe to print.
	name string
	// files are those that the nodes are from.
	files   map[*yaml.Node]string
	origins origins
	// classes are merged by name from all files.
	merged []*classNode
	faults
}

// parse gives what the files say, the later going before the earlier. Neither
// anchors nor tags nor merge keys are taken: without them a value is where it is
// read, and its size is that of the file.
func parse(texts []document) (layer, origins, error) {
	p := &parser{files: map[*yaml.Node]string{}, origins: origins{}}
	l := layer{}
	for _, t := range texts {
		p.name = disk.Visible(t.path)
		var first, second yaml.Node
		decoder := yaml.NewDecoder(bytes.NewReader(t.data))
		err := decoder.Decode(&first)
		if err == nil {
			p.from(&first)
			p.settings(first.Content[0], l)
			if err = decoder.Decode(&second); err == nil {
				p.at(&second, "", "found a second document, expected one")
			}
		}
		if err != nil && err != io.EOF {
			p.syntax(err, t.data)
		}
	}
	if len(p.merged) > 0 {
		l["classes"] = p.classes()
	}
	return l, p.origins, p.err()
}

func (p *parser) syntax(err error, text []byte) {
	yamlError := regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)
	// fromZero are the errors whose lines yaml counts from 0: those of its
	// parser, while those of its scanner are counted from 1 (go.yaml.in/yaml/v3,
	// decode.go, parser.fail; parserc.go). The line is where the list or mapping
	// begins that is at fault.
	fromZero := regexp.MustCompile(`^(did not find expected (<document start>|node content|'-' indicator|key|',' or '[\]}]')|found (undefined tag handle|duplicate %|incompatible YAML document))`)
	at, what := place{name: p.name}, err.Error()
	if m := yamlError.FindStringSubmatch(what); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		what = m[2]
		if fromZero.MatchString(what) {
			at.line++
			what += ", in this line or below"
		}
	}
	if at.line == 0 {
		at.line = faultyLine(what, text)
	}
	p.add(at, "expected YAML: %s", disk.Visible(what))
}

// faultyLine looks for the line of a fault of which yaml does not say it: what is no
// character of YAML, or an alias that means nothing; 0 where it is not found.
func faultyLine(what string, text []byte) int {
	at := -1
	if m := regexp.MustCompile(`^unknown anchor '(.+)' referenced$`).FindStringSubmatch(what); m != nil {
		// What is quoted or a comment is none; its lines stay.
		blind := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|(?m:(?:^|[ \t])#.*$)`).ReplaceAllFunc(text, func(b []byte) []byte {
			return regexp.MustCompile(`[^\n]`).ReplaceAll(b, []byte(" "))
		})
		if found := regexp.MustCompile(`\*` + regexp.QuoteMeta(m[1]) + `(?:[^0-9A-Za-z_-]|$)`).FindIndex(blind); found != nil {
			text, at = blind, found[0]
		}
	} else if strings.Contains(what, "control characters") || strings.Contains(what, "UTF-8") {
		for i, r := range string(text) {
			if _, n := utf8.DecodeRune(text[i:]); r == utf8.RuneError && n == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
				at = i
				break
			}
		}
	}
	if at < 0 {
		return 0
	}
	return 1 + bytes.Count(text[:at], []byte("\n"))
}

func (p *parser) at(n *yaml.Node, key, format string, args ...any) {
	p.add(place{p.file(n), n.Line, key}, format, args...)
}

// file is the name of the file that the node is from.
func (p *parser) file(n *yaml.Node) string {
	if name := p.files[n]; name != "" {
		return name
	}
	return p.name
}

// from notes down for every node below n that it is from the current file.
func (p *parser) from(n *yaml.Node) {
	p.files[n] = p.name
	for _, below := range n.Content {
		p.from(below)
	}
}

// settings reads the root of one file into l, but for its classes.
func (p *parser) settings(n *yaml.Node, l layer) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && n.Value == "" && n.Style == 0 && n.Anchor == "" {
		return // "---" alone
	}
	known := []string{"classes", "exclude"}
	for _, s := range scalars {
		known = append(known, s.key)
	}
	values := p.mapping(n, "", known)
	for _, s := range scalars {
		if v := values[s.key]; v != nil {
			l[s.key] = p.scalar(v, s.key, s.kind, nil)
			p.origins[s.key] = place{name: p.name, line: v.Line}
		}
	}
	if v := values["classes"]; v != nil {
		p.collect(v)
	}
	if v := values["exclude"]; v != nil {
		all, _ := l["exclude"].([]disk.Selectors)
		l["exclude"] = append(all, p.exclude(v, len(all))...)
	}
}

// plain says whether the node is one that is taken.
func (p *parser) plain(n *yaml.Node, key string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		p.at(n, key, "found the alias *%s, expected the value itself", disk.Visible(n.Value))
	case n.Anchor != "":
		p.at(n, key, "found the anchor &%s, expected the value alone", disk.Visible(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		p.at(n, key, "found the tag %s, expected the value alone", disk.Visible(n.Tag))
	default:
		return true
	}
	return false
}

// mapping gives the values of the known keys of n.
func (p *parser) mapping(n *yaml.Node, key string, known []string) map[string]*yaml.Node {
	if !p.plain(n, key) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.at(n, key, "found %s, expected keys with values", found(n))
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
			p.at(k, key, "found %s as a key, expected one of %s", found(k), strings.Join(known, ", "))
		case k.ShortTag() == "!!merge":
			p.at(k, full, "found a merge key, expected every key to be written out")
		case twice:
			p.at(k, full, "found a second time, expected once: it stands in line %d", first.Line)
		case !slices.Contains(known, k.Value):
			p.at(k, full, "unknown key, %s", suggest(k.Value, known))
		default:
			values[k.Value] = v
		}
	}
	return values
}

// items gives the entries of a list that has at least so many.
func (p *parser) items(n *yaml.Node, key, expected string, least int) []*yaml.Node {
	switch {
	case !p.plain(n, key):
	case n.Kind != yaml.SequenceNode:
		p.at(n, key, "found %s, expected a list, each entry %s", found(n), expected)
	case len(n.Content) < least:
		p.at(n, key, "found an empty list, expected at least %d entry, each %s", least, expected)
	case len(n.Content) > maxList:
		p.at(n, key, "found a list of %d entries, expected at most %d", len(n.Content), maxList)
	default:
		return n.Content
	}
	return nil
}

// scalar gives the value of n, or otherwise if there is none or a wrong one.
func (p *parser) scalar(n *yaml.Node, key string, k kind, otherwise any) any {
	if n == nil || !p.plain(n, key) {
		return otherwise
	}
	expected := k.expected
	if n.Kind == yaml.ScalarNode && n.ShortTag() == k.tag {
		v, ok := k.parse(n.Value)
		if ok {
			return v
		}
		expected = k.expects(n.Value)
	}
	p.at(n, key, "found %s, expected %s", found(n), expected)
	return otherwise
}

// found describes what is at a node.
func found(n *yaml.Node) string {
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
