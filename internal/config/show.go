package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hotmount/internal/disk"
)

// Show returns the effective settings as a configuration file, each value with its origin.
func Show(src Source) (string, error) {
	s, from, err := load(src)
	if err != nil {
		return "", err
	}
	return file(&s, from), nil
}

// File returns a configuration file that has the same effect as the settings.
func File(s *disk.Settings) string { return file(s, nil) }

// The function `file` returns the settings as a configuration file. If the parameter `from` is not nil, a comment after
// each value names the origin of the value.
func file(s *disk.Settings, from origins) string {
	var b strings.Builder
	known := from != nil
	// section writes the keys of a struct. The parameter `first` is the text at the start of the first line. The
	// parameter `others` is the text at the start of each later line.
	section := func(of any, keys []key, first, others string, from origins) {
		values := fields(of)
		for _, k := range keys {
			value, ok := values[k.name]
			if !ok {
				continue
			}
			line := fmt.Sprintf("%s%s: %s", first, k.name, k.written(value))
			first = others
			if known {
				line = fmt.Sprintf("%-50s # %s", line, from.placeOf(k.name))
			}
			b.WriteString(line + "\n")
		}
	}
	section(*s, scalars, "", "", from)
	section(*s, lists, "", "", from)
	if len(s.Exclude) > 0 {
		b.WriteString("exclude:\n")
	}
	for i, e := range s.Exclude {
		section(e, selectorKeys, "  - ", "    ", from.entryPlaces("exclude", i))
	}
	b.WriteString("classes:\n")
	for i, c := range s.Classes {
		section(c, classKeys, "  - ", "    ", from.entryPlaces("classes", i))
	}
	return b.String()
}

// Origin returns the place from which a key such as "classes[1].mkfs_options" has its value.
func Origin(src Source, key string) string {
	_, from, _ := load(src) // there are no origins if the configuration has a fault
	return from.placeOf(key).String()
}

// The method `written` returns a value of the key in the form that the value has in a configuration file.
func (k key) written(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return short(v)
	case uint64:
		if k.name == "scan_rate" && v == 0 {
			return "none"
		}
		return sizeText(v)
	case disk.SizeRange:
		return bound(v.Least) + ".." + bound(v.Most)
	case *bool:
		return fmt.Sprint(*v)
	case string:
		return quoted(v)
	case []string:
		var texts []string
		for _, text := range v {
			texts = append(texts, quoted(text))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case []uint32:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
	}
	return fmt.Sprint(value)
}

// The function `quoted` returns the text as JSON, because JSON is YAML too. The JSON has no escapes for HTML.
func quoted(text string) string {
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(text); err != nil {
		panic(err) // Encode does not fail for texts
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// bound returns the lower or upper end of a range of sizes as text. bound returns "" for 0, which means no bound.
func bound(n uint64) string {
	if n == 0 {
		return ""
	}
	return sizeText(n)
}

// sizeText returns a size as a whole number of the largest unit that divides the size.
func sizeText(n uint64) string {
	best := ""
	for name, unit := range units {
		if n%unit == 0 && (best == "" || unit > units[best]) && (n > 0 || name == "KiB") {
			best = name
		}
	}
	return fmt.Sprintf("%d%s", n/units[best], best)
}

// Directories returns an error if a component of a class directory's path is a symbolic link, is not a directory, or
// cannot be examined. Directories refuses a symbolic link, because the link can later lead to a directory other than
// the one that contains the mounts.
func Directories(src Source) error {
	s, from, err := load(src)
	if err != nil {
		return err
	}
	return directories(s, from)
}

func directories(s disk.Settings, from origins) error {
	var faults faults
	for i, c := range s.Classes {
		key := fmt.Sprintf("classes[%d].directory", i)
		at := from.placeOf(key)
		at.key = key
		wrong := "" // describes the highest wrong part of the path
		for part := c.Directory; part != "/"; part = filepath.Dir(part) {
			info, err := os.Lstat(part)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				wrong = "which hotmount cannot look at: " + withoutPath(err).Error()
			case info.Mode()&fs.ModeSymlink != 0:
				real, err := filepath.EvalSymlinks(c.Directory)
				if err != nil {
					real = "the directory itself"
				}
				wrong = fmt.Sprintf("in which %s is a symbolic link, expected %s", part, disk.Visible(real))
			case !info.IsDir():
				wrong = fmt.Sprintf("in which %s is not a directory, expected a directory", part)
			}
		}
		if wrong != "" {
			faults.add(at, "found %s, %s", quote(c.Directory), wrong)
		}
	}
	return faults.err()
}
