package policy

import (
	"regexp/syntax"
	"strings"
)

// leastLiterals is how many characters a pattern must spell to mean a disk or a few, and not any.
const leastLiterals = 4

// blankRune stands for a character that a pattern leaves open.
const blankRune = "\x00"

// sharedPrefixes are the beginnings of WWNs, which name a kind of identifier and no disk (wwid_show in
// drivers/nvme/host and drivers/scsi/scsi_sysfs.c).
var sharedPrefixes = strings.NewReplacer("naa.", "", "eui.", "", "nvme.", "", "uuid.", "", "t10.", "",
	"naa"+blankRune, "", "eui"+blankRune, "", "nvme"+blankRune, "", "uuid"+blankRune, "", "t10"+blankRune, "")

// literals returns how many characters the pattern spells, besides sharedPrefixes: each value that it matches has them.
// A faulty pattern spells none.
func literals(pattern string) int {
	expression, ok := strings.CutPrefix(pattern, Regexp)
	if !ok {
		return weight(spelledByGlob(pattern))
	}
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0
	}
	return weight(spelled(re.Simplify()))
}

// weight returns how many characters count.
func weight(text string) int {
	s := sharedPrefixes.Replace(text)
	return len(s) - strings.Count(s, blankRune)
}

// spelledByGlob returns the glob with each wildcard as a blankRune.
func spelledByGlob(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			if i++; i < len(glob) {
				b.WriteByte(glob[i])
			}
		case '[':
			for i++; i < len(glob) && glob[i] != ']'; i++ {
				if glob[i] == '\\' {
					i++
				}
			}
			b.WriteString(blankRune)
		case '*', '?':
			b.WriteString(blankRune)
		default:
			b.WriteByte(glob[i])
		}
	}
	return b.String()
}

// spelled returns the characters of every text that the regular expression matches, with a blankRune for what is open.
func spelled(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return spelled(re.Sub[0])
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(spelled(sub))
		}
		return b.String()
	case syntax.OpAlternate:
		least := spelled(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			if s := spelled(sub); weight(s) < weight(least) {
				least = s
			}
		}
		return least
	}
	return blankRune
}
