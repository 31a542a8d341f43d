package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
)

// Show gives the effective settings as a configuration file that says the same,
// each value with the place that it comes from.
func Show(src Source) (string, error) {
	s, from, err := load(src)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(indent, key string, value any, origin string) {
		where := "default"
		if p, ok := from[origin]; ok {
			where = p.String()
		}
		fmt.Fprintf(&b, "%-50s # %s\n", fmt.Sprintf("%s%s: %s", indent, key, written(value)), where)
	}
	values := settingsByKey(s)
	for _, k := range scalars {
		value := values[k.key]
		if k.key == "scan_rate" && s.ScanRate == 0 {
			value = "none"
		} else if k.key == "scan_rate" {
			value = sizeInBytes(s.ScanRate)
		}
		line("", k.key, value, k.key)
	}
	if len(s.Exclude) > 0 {
		b.WriteString("exclude:\n")
	}
	for i := range s.Exclude {
		first := "  - "
		selectorLines(&s.Exclude[i], func(key string, value any) {
			line(first, key, value, fmt.Sprintf("exclude[%d]", i))
			first = "    "
		})
	}
	b.WriteString("classes:\n")
	for i := range s.Classes {
		c := &s.Classes[i]
		key := func(name string) string { return fmt.Sprintf("classes[%d].%s", i, name) }
		line("  - ", "name", c.Name, key("name"))
		selectorLines(&c.Selectors, func(name string, value any) { line("    ", name, value, key(name)) })
		for _, v := range []struct {
			name  string
			value any
		}{
			{"directory", c.Directory}, {"mode", c.Mode}, {"create", c.Create}, {"mkfs_options", c.MkfsOptions}, {"root_owner", c.RootOwner}, {"root_mode", c.RootMode}, {"accept", c.Accept}, {"options", c.Options}, {"blank", c.Blank},
			{"minimum_size", sizeInBytes(c.MinimumSize)}, {"grow", c.Grow}, {"trim", c.Trim}, {"provision", c.Provision}, {"storage_class", c.StorageClass},
		} {
			line("    ", v.name, v.value, key(v.name))
		}
	}
	return b.String(), nil
}

// Origin gives the place that the value of a key, such as "classes[1].mkfs_options",
// comes from.
func Origin(src Source, key string) string {
	_, from, err := load(src)
	if p, ok := from[key]; err == nil && ok {
		return p.String()
	}
	return "default"
}

// selectorLines gives the selectors that are given.
func selectorLines(s *disk.Selectors, line func(key string, value any)) {
	for _, v := range []struct {
		name   string
		values []string
	}{
		{"names", s.Names}, {"mapper_names", s.MapperNames}, {"backing_file", s.BackingFile}, {"transport", s.Transport}, {"serial", s.Serial}, {"wwn", s.WWN},
		{"model", s.Model}, {"vendor", s.Vendor}, {"by_path", s.ByPath},
	} {
		if v.values != nil {
			line(v.name, v.values)
		}
	}
	if r := s.Size; r != (disk.SizeRange{}) {
		line("size", r)
	}
	if s.Rotational != nil {
		line("rotational", *s.Rotational)
	}
	if s.Removable != nil {
		line("removable", *s.Removable)
	}
	if s.Partitions {
		line("partitions", true)
	}
	if s.LogicalSector != nil {
		line("logical_sector", s.LogicalSector)
	}
}

func settingsByKey(s disk.Settings) layer {
	return layer{
		"format": s.Format, "format_present": s.FormatPresent, "format_limit": s.FormatLimit, "format_period": s.FormatPeriod, "settle": s.Settle,
		"scan_rate": s.ScanRate, "ready_timeout": s.ReadyTimeout, "rescan": s.Rescan, "workers": s.Workers, "node": s.Node, "trim": s.Trim,
		"exclude": s.Exclude, "classes": s.Classes,
	}
}

// sizeInBytes is a size.
type sizeInBytes uint64

// written gives a value as it stands in the file.
func written(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return short(v)
	case disk.SizeRange:
		least, most := "", ""
		if v.Least > 0 {
			least = sizeText(v.Least)
		}
		if v.Most > 0 {
			most = sizeText(v.Most)
		}
		return least + ".." + most
	case sizeInBytes:
		return sizeText(uint64(v))
	case []string, []uint32, string:
		text, err := json.Marshal(v) // which is YAML, too
		if err != nil {
			panic(err) // there is nothing in texts that can not be written
		}
		// Marshal escapes what HTML would take amiss.
		return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(strings.ReplaceAll(string(text), `","`, `", "`))
	}
	return fmt.Sprint(value)
}

// sizeText gives a size with the largest unit in which it is a whole number.
func sizeText(n uint64) string {
	best := ""
	for name, unit := range units {
		if n%unit == 0 && (best == "" || unit > units[best]) && (n > 0 || name == "KiB") {
			best = name
		}
	}
	return fmt.Sprintf("%d%s", n/units[best], best)
}

// Directories gives what is wrong on this machine with the directories of the
// classes: one that is below a symbolic link can turn to another place under its
// mounts.
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
		at, ok := from[key]
		if !ok {
			at = place{name: "default"}
		}
		at.key = key
		for _, part := range above(c.Directory) {
			info, err := os.Lstat(part)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				faults.add(at, "found %s, which can not be looked at: %v", quote(c.Directory), bare(err))
			case info.Mode()&fs.ModeSymlink != 0:
				real, err := filepath.EvalSymlinks(c.Directory)
				if err != nil {
					real = "the directory itself"
				}
				faults.add(at, "found %s, of which %s is a symbolic link, expected %s", quote(c.Directory), part, disk.Visible(real))
			case !info.IsDir():
				faults.add(at, "found %s, of which %s is no directory, expected one", quote(c.Directory), part)
			default:
				continue
			}
			break
		}
	}
	return faults.err()
}

// above gives the path and all directories above it, the highest first.
func above(path string) []string {
	var all []string
	for ; path != "/"; path = filepath.Dir(path) {
		all = append(all, path)
	}
	slices.Reverse(all)
	return all
}
