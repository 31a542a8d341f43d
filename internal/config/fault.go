package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// origins maps the full names of keys to the places of their values.
type origins map[string]place

// String returns the file with its line, the variable or the flag.
func (p place) String() string {
	if p.line > 0 {
		return fmt.Sprintf("%s:%d", p.name, p.line)
	}
	return p.name
}

// place is the place of a fault or a value.
type place struct {
	// name is the file, the variable or the flag. It is safe to print.
	name string
	// line is the line of the file, counted from 1. 0 is the whole file.
	line int
	// key is the full path of the key, such as "classes[1].name". It is safe to print.
	key string
}

type fault struct {
	place
	what string
}

func (f *fault) Error() string {
	s := f.String() + ": "
	if f.key != "" {
		s += f.key + ": "
	}
	return s + f.what
}

// faults are those of one source.
type faults []*fault

func (fs *faults) add(at place, format string, args ...any) {
	*fs = append(*fs, &fault{at, fmt.Sprintf(format, args...)})
}

// maxFaults bounds the faults that are reported for one source. A file that is no configuration at all must not fill
// the journal.
const maxFaults = 100

// err joins the faults in the order of their files and lines. It returns nil if there are none.
func (fs faults) err() error {
	slices.SortStableFunc(fs, func(a, b *fault) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.line, b.line))
	})
	var errs []error
	for i, f := range fs {
		if i == maxFaults {
			errs = append(errs, fmt.Errorf("%s: %d more faults", f.name, len(fs)-i))
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

func quote(s string) string { return `"` + disk.Visible(s) + `"` }

// suggest returns what was expected instead of an unknown name.
func suggest(name string, known []string) string {
	const near = 2
	best, least := "", near+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k), near); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "expected one of " + strings.Join(known, ", ")
}

// distance returns the Levenshtein distance, or limit+1 if it is larger. The limit keeps long names cheap.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
