package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hotmount/internal/disk"
)

// kind is a type of configuration value.
type kind struct {
	// name is the name of the value in the usage text of a flag. A name in backquotes in the usage text takes
	// precedence.
	name string
	// tag is the YAML tag of the value in a file.
	tag string
	// kind.expected describes the texts that parse accepts.
	expected string
	parse    func(string) (any, bool)
	// If parse refuses a text, the function `wrong` describes what parse accepts instead. The description can be more
	// precise than kind.expected. The field `wrong` may be nil.
	wrong func(string) string
}

func (k *kind) expects(s string) string {
	if k.wrong != nil {
		return k.wrong(s)
	}
	return k.expected
}

// matching returns a kind for texts that match a regular expression as a whole. The parameter `most` is the maximum
// length of a text in bytes. The functions in the parameter `wrong` check each text that matches the regular expression.
// Each of these functions describes the expected text, or returns "" if the given text is correct.
func matching(expression string, most int, expected string, wrong ...func(s, expected string) string) kind {
	// The regular expression is compiled at its first use, because most hotmount processes read no configuration.
	form := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + expression + `)$`) })
	k := kind{tag: "!!str", expected: expected, wrong: func(s string) string {
		if len(s) > most || !form().MatchString(s) {
			return expected
		}
		for _, w := range wrong {
			if what := w(s, expected); what != "" {
				return what
			}
		}
		return ""
	}}
	k.parse = func(s string) (any, bool) { return s, k.wrong(s) == "" }
	return k
}

// oneOf returns a kind that accepts only the given values.
func oneOf(values ...string) kind {
	last := len(values) - 1
	return matching(strings.Join(values, "|"), 16, strings.Join(values[:last], ", ")+" or "+values[last])
}

var boolean = kind{
	name: "bool", tag: "!!bool", expected: "true or false",
	parse: func(s string) (any, bool) { return s == "true", s == "true" || s == "false" },
}

// The function `duration` returns a kind for durations between the parameters `least` and `most`. If `most` is 0, the
// durations have no upper bound.
func duration(least, most time.Duration) kind {
	limits := "of at least " + short(least)
	if most > 0 {
		limits = "from " + short(least) + " to " + short(most)
	}
	return kind{
		name: "duration", tag: "!!str", expected: "a duration with a unit " + limits + ", such as 30s or 1m30s",
		parse: func(s string) (any, bool) {
			d, err := time.ParseDuration(s)
			// time.ParseDuration accepts 0 without a unit, but the configuration requires a unit.
			unit := strings.ContainsAny(s, "smh")
			return d, err == nil && unit && d >= least && (most == 0 || d <= most)
		},
	}
}

func wholeNumber(least, most int) kind {
	return kind{
		name: "int", tag: "!!int", expected: fmt.Sprintf("a whole number from %d to %d", least, most),
		parse: func(s string) (any, bool) {
			n, err := strconv.Atoi(s)
			// A leading 0 is a fault, because some YAML readers read a number with a leading 0 as octal.
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

// leastRate is the lowest scan_rate in bytes per second. At this rate, hotmount reads 64 GiB within five hours.
const leastRate = 4 << 20

var rate = kind{
	name: "size", tag: size.tag, expected: "none, or " + size.expected + ", at least 4MiB per second",
	parse: func(s string) (any, bool) {
		if s == "none" {
			return uint64(0), true
		}
		n, ok := size.parse(s)
		return n, ok && n.(uint64) >= leastRate
	},
}

// maxSize is the largest size of a disk in bytes. maxSize is the kernel's limit, because the kernel stores a number of
// bytes in a loff_t (include/linux/types.h).
const maxSize = 1<<63 - 1

var units = map[string]uint64{
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// The function `short` returns a duration as text, without zero seconds and zero minutes at the end: "10m" or "1h", not
// "10m0s" or "1h0m0s".
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

var sizeRange = kind{
	name: "range", tag: "!!str", expected: "a range of sizes such as 5GiB..100GiB, 5GiB.. or ..100GiB, the first size not larger than the second",
	parse: func(s string) (any, bool) {
		var r disk.SizeRange
		least, most, ok := strings.Cut(s, "..")
		bound := func(text string) uint64 {
			if text == "" {
				return 0
			}
			n, valid := size.parse(text)
			ok = ok && valid && n != uint64(0)
			value, _ := n.(uint64)
			return value
		}
		r.Least, r.Most = bound(least), bound(most)
		return r, ok && r != (disk.SizeRange{}) && (r.Most == 0 || r.Least <= r.Most)
	},
}

var sector = kind{
	tag: "!!int", expected: "a size of sectors in bytes: 512, 1024, 2048 or 4096",
	parse: func(s string) (any, bool) {
		n, err := strconv.ParseUint(s, 10, 32)
		return uint32(n), err == nil && slices.Contains([]uint64{512, 1024, 2048, 4096}, n)
	},
}
