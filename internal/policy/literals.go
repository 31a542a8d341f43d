package policy

import (
	"regexp/syntax"
	"strings"
)

// leastLiterals is the number of literal characters that a pattern needs to single out a disk (singledOut).
const leastLiterals = 4

// literals returns how many characters of the pattern each matching value must contain, or 0 for a faulty regular
// expression.
func literals(pattern string) int { return spelled(pattern).all }

// wwnLiterals does the same as the function `literals`, but counts only the characters after the first dot. In a WWN,
// the part before the first dot names a kind of identifier and not a disk (wwid_show in drivers/nvme/host and
// drivers/scsi/scsi_sysfs.c).
func wwnLiterals(pattern string) int { return spelled(pattern).afterDot }

// spelling counts the characters of a pattern that each matching value must contain.
type spelling struct {
	all int
	// dot reports whether each matching value must contain a ".". afterDot is the number of literal characters after
	// that ".", or 0 without a ".".
	dot      bool
	afterDot int
}

// s.then(next) returns the spelling of a pattern that consists of two parts. The first part has the spelling s, and the
// second part has the spelling `next`.
func (s spelling) then(next spelling) spelling {
	if s.dot {
		return spelling{s.all + next.all, true, s.afterDot + next.all}
	}
	return spelling{s.all + next.all, next.dot, next.afterDot}
}

// s.or(other) returns the spelling of a pattern with the two alternatives s and other.
func (s spelling) or(other spelling) spelling {
	return spelling{min(s.all, other.all), s.dot && other.dot, min(s.afterDot, other.afterDot)}
}

func spelled(pattern string) spelling {
	expression, ok := strings.CutPrefix(pattern, Regexp)
	if !ok {
		return spelledByGlob([]rune(pattern))
	}
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return spelling{}
	}
	return spelledByExpression(re.Simplify())
}

func spelledByGlob(glob []rune) spelling {
	var s spelling
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			if i++; i < len(glob) {
				s = s.then(spelledByRunes(glob[i : i+1]))
			}
		case '[':
			for i++; i < len(glob) && glob[i] != ']'; i++ {
				if glob[i] == '\\' {
					i++
				}
			}
		case '*', '?':
		default:
			s = s.then(spelledByRunes(glob[i : i+1]))
		}
	}
	return s
}

func spelledByRunes(text []rune) spelling {
	var s spelling
	for _, r := range text {
		s = s.then(spelling{all: 1, dot: r == '.'})
	}
	return s
}

func spelledByExpression(re *syntax.Regexp) spelling {
	switch re.Op {
	case syntax.OpLiteral:
		return spelledByRunes(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return spelledByExpression(re.Sub[0])
	case syntax.OpConcat:
		var s spelling
		for _, sub := range re.Sub {
			s = s.then(spelledByExpression(sub))
		}
		return s
	case syntax.OpAlternate:
		least := spelledByExpression(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			least = least.or(spelledByExpression(sub))
		}
		return least
	}
	return spelling{}
}
