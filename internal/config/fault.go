package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// origins maps the full name of each key to the place of its value.
type origins map[string]place

// placeOf returns the place of the key's value. For a built-in value the place is named "default".
func (o origins) placeOf(key string) place {
	if p, ok := o[key]; ok {
		return p
	}
	return place{name: "default"}
}

// String returns the name of the file with the line number, or the name of the environment variable or flag.
func (p place) String() string {
	if p.line > 0 {
		return fmt.Sprintf("%s:%d", p.name, p.line)
	}
	return p.name
}

// A place shows where a fault or a value is: in a file, an environment variable or a flag.
type place struct {
	// name is the name of a file, an environment variable or a flag, in a form that is safe to print.
	name string
	// line is the line in the file, counted from 1, or 0 for the whole file.
	line int
	// key is the full path of the key, such as "classes[1].name". The field `key` is safe to print.
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

// faults are the faults of one source.
type faults []*fault

func (fs *faults) add(at place, format string, args ...any) {
	*fs = append(*fs, &fault{at, fmt.Sprintf(format, args...)})
}

// maxFaults is the maximum number of faults that are reported for one source. Without a maximum, a file that is not a
// configuration would fill the journal with faults.
const maxFaults = 100

// err joins the faults in the order of their files and lines. err returns nil if there are no faults.
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

// suggest returns a hint for an unknown name: the known name that was probably meant, or a list of all known names.
func suggest(name string, known []string) string {
	const most = 2
	for edits := range most + 1 {
		for _, k := range known {
			if withinEdits(strings.ToLower(name), strings.ToLower(k), edits) {
				return fmt.Sprintf("did you mean %q?", k)
			}
		}
	}
	return "expected one of " + strings.Join(known, ", ")
}

// withinEdits reports whether two words differ by at most the given number of added, removed or changed letters.
func withinEdits(a, b string, edits int) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= edits
	case edits == 0:
		return false
	}
	return withinEdits(a[1:], b, edits-1) || withinEdits(a, b[1:], edits-1) || withinEdits(a[1:], b[1:], edits-1)
}
