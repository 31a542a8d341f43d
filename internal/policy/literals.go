package policy

import (
	"regexp/syntax"
	"strings"
)

// leastLiterals is the least number of literal characters in a pattern that counts as selecting only a few disks.
const leastLiterals = 4

// blankRune stands for a part of a value that a pattern does not spell.
const blankRune = "\x00"

// sharedPrefixes are the beginnings of WWNs that name a kind of identifier and not a disk (wwid_show in
// drivers/nvme/host and drivers/scsi/scsi_sysfs.c).
var sharedPrefixes = strings.NewReplacer("naa.", "", "eui.", "", "nvme.", "", "uuid.", "", "t10.", "",
	"naa"+blankRune, "", "eui"+blankRune, "", "nvme"+blankRune, "", "uuid"+blankRune, "", "t10"+blankRune, "")

// literals returns how many characters, without sharedPrefixes, are in every value that the pattern matches. literals
// returns 0 for a faulty pattern.
func literals(pattern string) int {
	expression, ok := strings.CutPrefix(pattern, Regexp)
	if !ok {
		return countLiterals(spelledByGlob(pattern))
	}
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0
	}
	return countLiterals(spelled(re.Simplify()))
}

// countLiterals returns the number of characters in the text, without sharedPrefixes and blankRunes.
func countLiterals(text string) int {
	s := sharedPrefixes.Replace(text)
	return len(s) - strings.Count(s, blankRune)
}

// spelledByGlob returns the glob with a blankRune for each wildcard.
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

// spelled returns the characters that every match of the regular expression contains, with a blankRune for each part
// that may differ.
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
			if s := spelled(sub); countLiterals(s) < countLiterals(least) {
				least = s
			}
		}
		return least
	}
	return blankRune
}
