package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"hotmount/internal/disk"
)

func (k key) flag() string     { return strings.ReplaceAll(k.name, "_", "-") }
func (k key) variable() string { return prefix + strings.ToUpper(k.name) }

const (
	configFlag     = "config"
	configVariable = prefix + "CONFIG"
	prefix         = "HOTMOUNT_"
	// testPrefix is reserved for the tests of this repository.
	testPrefix = prefix + "TEST_"
)

// AddFlags adds --config and a flag for every scalar key. The flags accept any value, because Load checks the values.
// Load reports a wrong value of a flag together with all other faults.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(configFlag, DefaultPath, "configuration `file`")
	defaults := fields(Default())
	for _, k := range scalars {
		value := ""
		if d := defaults[k.name]; d != "" {
			value = k.written(d)
		}
		f := flags.VarPF(&text{value, k.kind.name}, k.flag(), "", k.usage)
		if k.kind.name == boolean.name {
			f.NoOptDefVal = "true"
		}
	}
}

// HasFlags reports whether the command line has any of the flags of AddFlags.
func HasFlags(flags *pflag.FlagSet) bool {
	return flags.Changed(configFlag) || slices.ContainsFunc(scalars, func(k key) bool { return flags.Changed(k.flag()) })
}

// text is the unchecked value of a flag.
type text struct{ value, kind string }

func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) String() string     { return t.value }
func (t *text) Type() string       { return t.kind }

func (src *Source) flags(from origins) (layer, error) {
	l, faults := layer{}, faults{}
	for _, k := range scalars {
		if given, ok := src.flag(k.flag()); ok {
			from[k.name] = place{name: "--" + k.flag()}
			l.set(k, given, from[k.name], &faults)
		}
	}
	return l, faults.err()
}

func (l layer) set(k key, given string, at place, faults *faults) {
	value, ok := k.parse(given)
	if !ok {
		faults.add(at, "found %s, expected %s", quote(given), k.expects(given))
		return
	}
	l[k.name] = value
}

func (src *Source) flag(name string) (string, bool) {
	if src.Flags == nil || !src.Flags.Changed(name) {
		return "", false
	}
	return src.Flags.Lookup(name).Value.String(), true
}

func (src *Source) environment(from origins) (layer, error) {
	known := []string{configVariable} // Source.path reads the variable
	for _, k := range scalars {
		known = append(known, k.variable())
	}
	l, faults := layer{}, faults{}
	for _, e := range slices.Sorted(slices.Values(src.Environ)) {
		name, given, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, testPrefix) {
			continue
		}
		at := place{name: disk.Visible(name)}
		switch i := slices.Index(known, name); {
		case i < 0:
			faults.add(at, "unknown variable, %s", suggest(name, known))
		case i > 0:
			k := scalars[i-1]
			from[k.name] = at
			l.set(k, given, at, &faults)
		}
	}
	return l, faults.err()
}

// path returns the path of the configuration file, and the flag or the environment variable that names the path. The
// third result reports whether there is such a flag or environment variable.
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
