package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"hotmount/internal/disk"
)

// scalar is a key that can be set in the file, in the environment and on the
// command line.
type scalar struct {
	key   string
	usage string
	kind
}

// kind is a type of value.
type kind struct {
	// name is what the usage of a flag calls it.
	name string
	// tag is the YAML tag that the value has in a file.
	tag string
	// expected says in words what parse takes.
	expected string
	parse    func(string) (any, bool)
	// wrong, where it is given, says it better of a text that parse refuses.
	wrong func(string) string
}

func (k *kind) expects(s string) string {
	if k.wrong != nil {
		return k.wrong(s)
	}
	return k.expected
}

var scalars = []scalar{
	{"format", "format blank disks", boolean},
	{"format_present", "format blank disks that were there before hotmount was installed", boolean},
	{"format_limit", "how many disks are formatted within format_period before the operator's word is wanted", whole(1, 256)},
	{"format_period", "the time for format_limit", duration(time.Minute, 24*time.Hour)},
	{"settle", "how long nobody may have written to a disk before it is formatted", duration(0, 10*time.Minute)},
	{"scan_rate", "how much a second may be read of a disk to prove it blank", rate},
	{"ready_timeout", "how long a disk that is there at start may hold back readiness", duration(0, 10*time.Minute)},
	{"rescan", "how often every disk is looked at without an event", duration(10*time.Second, 0)},
	{"workers", "how many disks are looked at at once", whole(1, 64)},
	{"node", "the node's name in the cluster (default the host's name)", nodeName},
	{"trim", "give the free space of filesystems back to the storage", boolean},
}

var boolean = kind{
	name: "bool", tag: "!!bool", expected: "true or false",
	parse: func(s string) (any, bool) { return s == "true", s == "true" || s == "false" },
}

// duration takes least to most; most 0 is no upper bound.
func duration(least, most time.Duration) kind {
	limits := "of at least " + short(least)
	if most > 0 {
		limits = "from " + short(least) + " to " + short(most)
	}
	return kind{
		name: "duration", tag: "!!str", expected: "a duration with a unit " + limits + ", such as 30s or 1m30s",
		parse: func(s string) (any, bool) {
			d, err := time.ParseDuration(s)
			// ParseDuration takes a zero without a unit.
			unit := strings.ContainsAny(s, "smh")
			return d, err == nil && unit && d >= least && (most == 0 || d <= most)
		},
	}
}

func whole(least, most int) kind {
	return kind{
		name: "int", tag: "!!int", expected: fmt.Sprintf("a whole number from %d to %d", least, most),
		parse: func(s string) (any, bool) {
			n, err := strconv.Atoi(s)
			// What begins with 0 is octal to some readers of YAML.
			return n, err == nil && n >= least && n <= most && s == strconv.Itoa(n)
		},
	}
}

var size = kind{
	name: "size", tag: "!!str", expected: "a whole number with one of the units KiB, MiB, GiB, TiB, KB, MB, GB, TB, such as 300MiB",
	parse: func(s string) (any, bool) {
		number := strings.TrimRight(s, "KMGTiB")
		unit, ok := units[s[len(number):]]
		n, err := strconv.ParseUint(number, 10, 64)
		return n * unit, ok && err == nil && n <= maxSize/unit
	},
}

// leastRate in bytes a second still gets through 64 GiB within five hours.
const leastRate = 4 << 20

var rate = kind{
	name: "size", tag: size.tag, expected: "none, or " + size.expected + ", of at least 4MiB (a second)",
	parse: func(s string) (any, bool) {
		if s == "none" {
			return uint64(0), true
		}
		n, ok := size.parse(s)
		return n, ok && n.(uint64) >= leastRate
	},
}

// maxSize of a disk: the kernel counts bytes in a loff_t (include/linux/types.h).
const maxSize = 1<<63 - 1

var units = map[string]uint64{
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// short is time.Duration's String without seconds and minutes that are zero: "10m", "1h".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (s scalar) flag() string     { return strings.ReplaceAll(s.key, "_", "-") }
func (s scalar) variable() string { return prefix + strings.ToUpper(s.key) }

const (
	configFlag     = "config"
	configVariable = prefix + "CONFIG"
	prefix         = "HOTMOUNT_"
	// testPrefix is left to the tests of this repository.
	testPrefix = prefix + "TEST_"
)

// AddFlags adds --config and a flag for every scalar key. Their values are
// checked by Load, so that a wrong one is reported with all other faults.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, DefaultPath, "configuration `file`")
	values := settingsByKey(Default())
	for _, s := range scalars {
		value := fmt.Sprint(values[s.key])
		if d, ok := values[s.key].(time.Duration); ok {
			value = short(d)
		}
		if s.key == "scan_rate" {
			value = "none"
		}
		f := flags.VarPF(&text{value, s.name}, s.flag(), "", s.usage)
		if s.name == boolean.name {
			f.NoOptDefVal = "true"
		}
	}
}

// Given says whether any of the flags that AddFlags has made was given.
func Given(flags *pflag.FlagSet) bool {
	given := flags.Changed(configFlag)
	for _, s := range scalars {
		given = given || flags.Changed(s.flag())
	}
	return given
}

// text is the value of a flag as it was given.
type text struct{ value, kind string }

func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) String() string     { return t.value }
func (t *text) Type() string       { return t.kind }

func (src *Source) flags() (layer, error) {
	l, faults := layer{}, faults{}
	for _, s := range scalars {
		given, ok := src.flag(s.flag())
		if !ok {
			continue
		}
		if l[s.key], ok = s.parse(given); !ok {
			faults.add(place{name: "--" + s.flag()}, "found %s, expected %s", quote(given), s.expected)
		}
	}
	return l, faults.err()
}

func (src *Source) flag(name string) (string, bool) {
	if src.Flags == nil {
		return "", false
	}
	f := src.Flags.Lookup(name)
	if f == nil || !f.Changed {
		return "", false
	}
	return f.Value.String(), true
}

func (src *Source) environment() (layer, error) {
	known := []string{configVariable}
	for _, s := range scalars {
		known = append(known, s.variable())
	}
	l, faults := layer{}, faults{}
	for _, e := range slices.Sorted(slices.Values(src.Environ)) {
		name, given, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		at := place{name: disk.Visible(name)}
		switch i := slices.Index(known, name); i {
		case -1:
			faults.add(at, "unknown variable, %s", suggest(name, known))
		case 0: // the file's path, read by Source.path
		default:
			s, ok := scalars[i-1], false
			if l[s.key], ok = s.parse(given); !ok {
				faults.add(at, "found %s, expected %s", quote(given), s.expected)
			}
		}
	}
	return l, faults.err()
}

// path gives the path of the file, where it was named, and whether it was.
func (src *Source) path() (path string, at place, explicit bool) {
	if path, ok := src.flag(configFlag); ok {
		return path, place{name: "--" + configFlag}, true
	}
	for _, e := range src.Environ {
		if path, ok := strings.CutPrefix(e, configVariable+"="); ok {
			return path, place{name: configVariable}, true
		}
	}
	if src.Path != "" {
		return src.Path, place{}, false
	}
	return DefaultPath, place{}, false
}
