package config

import (
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// regexpPrefix as in policy.Regexp.
const regexpPrefix = "re:"

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
		for i, sub := range re.Sub {
			// Something before the beginning, or after the end.
			first := slices.ContainsFunc(re.Sub[:i], func(s *syntax.Regexp) bool { return leastOf(s) > 0 })
			last := slices.ContainsFunc(re.Sub[i+1:], func(s *syntax.Regexp) bool { return leastOf(s) > 0 })
			if never(sub) || sub.Op == syntax.OpBeginText && first || sub.Op == syntax.OpEndText && last {
				return true
			}
		}
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

// elements takes a glob apart: each is a character, "?", "*" or a bracket.
func elements(glob string) []string {
	var all []string
	for glob != "" {
		n := 1
		switch glob[0] {
		case '\\':
			n = min(2, len(glob))
		case '[':
			for n < len(glob) && glob[n] != ']' {
				if glob[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(glob))
		}
		all, glob = append(all, glob[:n]), glob[n:]
	}
	return all
}

// least is how many characters a text has at least that matches the pattern.
func least(pattern string) int {
	if expression, ok := strings.CutPrefix(pattern, regexpPrefix); ok {
		re, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			return 0
		}
		return leastOf(re.Simplify())
	}
	n := 0
	for _, e := range elements(pattern) {
		if e != "*" {
			n++
		}
	}
	return n
}

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

// aDisk and aPartition are how the kernel names whole disks and partitions
// (virtblk_name_format in drivers/block/virtio_blk.c, sd_format_disk_name in
// drivers/scsi/sd.c, nvme_alloc_ns in drivers/nvme/host/core.c, bdevname in
// block/partitions/core.c).
var (
	aDisk      = regexp.MustCompile(`^(?:[vs]d[a-z]+|nvme[0-9]+n[0-9]+)$`)
	aPartition = regexp.MustCompile(`^(?:[vs]d[a-z]+|nvme[0-9]+n[0-9]+p)[1-9][0-9]*$`)
)

// names says whether a pattern of kernel names can match a whole disk, and whether it can
// match a partition: a name, or by the end of a glob of virtio-blk or SCSI disks, which
// is a letter for disks (vdb) and a digit for partitions (vdb1). Of other patterns it
// says that both can be.
func names(pattern string) (disk, partition bool) {
	name, complete := literal(pattern)
	if complete && slices.ContainsFunc(kernelPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return aDisk.MatchString(name), aPartition.MatchString(name)
	}
	glob, all := pattern, elements(pattern)
	if !strings.HasPrefix(glob, "vd") && !strings.HasPrefix(glob, "sd") || len(all) < 3 {
		return true, true
	}
	can := func(characters string) bool {
		return slices.ContainsFunc(strings.Split(characters, ""), func(c string) bool {
			ok, err := path.Match(all[len(all)-1], c)
			return ok || err != nil
		})
	}
	return can("abcdefghijklmnopqrstuvwxyz"), can("0123456789")
}

// literal gives what every text begins with that the pattern matches, and whether that
// is all of it.
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

// canBegin says whether a text that the pattern matches can begin with the prefix. Of
// regular expressions it may say so wrongly.
func canBegin(pattern, prefix string) bool {
	if strings.HasPrefix(pattern, regexpPrefix) {
		start, complete := literal(pattern)
		return strings.HasPrefix(start, prefix) || !complete && strings.HasPrefix(prefix, start)
	}
	for i, e := range elements(pattern) {
		if e == "*" || i == len(prefix) {
			return true
		}
		if ok, err := path.Match(e, prefix[i:i+1]); !ok && err == nil {
			return false
		}
	}
	return len(elements(pattern)) >= len(prefix)
}

// kernelName is how the kernel names the disks of a transport.
type kernelName struct{ transport, prefix string }

var diskNames = []kernelName{{"virtio", "vd"}, {"scsi", "sd"}, {"nvme", "nvme"}, {"dm", "dm-"}, {"loop", "loop"}}

// kernelPrefixes begin the kernel names of disks that every pattern may select;
// others have to be named by their first two letters (policy.Select).
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
