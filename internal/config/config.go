// Package config makes the checked settings from the built-in defaults, the
// configuration files, the environment and the command line. The later of these
// wins. What is not understood is an error, never a guess.
package config

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"hotmount/internal/disk"
)

// DefaultPath is the configuration file that is read if no other is named.
const DefaultPath = "/etc/hotmount/config.yaml"

// Source is what the settings are made from.
type Source struct {
	// Path of the file that is read if neither --config nor HOTMOUNT_CONFIG
	// names one. It may be missing; a named one may not. Empty means DefaultPath.
	Path string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags is the parsed command line with the flags of AddFlags, or nil.
	Flags *pflag.FlagSet
	// Trust returns what is wrong with owner and mode of a file. Nil means that
	// the file must belong to root and be writable by root alone.
	Trust func(fs.FileInfo) error
}

// Default returns the settings that hold where nothing else is said.
func Default() disk.Settings {
	class := defaultClass()
	class.Name, class.Directory = "default", "/mnt/disks"
	return disk.Settings{
		Format:        true,
		FormatPresent: false,
		FormatLimit:   64,
		FormatPeriod:  10 * time.Minute,
		Settle:        5 * time.Second,
		ReadyTimeout:  30 * time.Second,
		Rescan:        time.Hour,
		Workers:       16,
		Trim:          true,
		Classes:       []disk.Class{class},
	}
}

// defaultClass returns what holds for the keys that a class leaves out. It cannot
// leave out name and directory.
func defaultClass() disk.Class {
	return disk.Class{
		Selectors:   disk.Selectors{Names: []string{"vd[a-z]", "vd[a-z][a-z]"}},
		Mode:        disk.ModeFilesystem,
		Create:      "xfs",
		MkfsOptions: []string{},
		RootOwner:   "0:0",
		RootMode:    "0755",
		Accept:      []string{"xfs", "ext4"},
		Options:     []string{"noatime", "nodev", "nosuid"},
		Blank:       "auto",
		MinimumSize: minimumXFS,
		Grow:        true,
		Trim:        true,
		Provision:   true,
	}
}

// layer is what one source says: checked values by key, in the types of disk.Settings.
type layer map[string]any

// Load returns the settings, or every fault of every source. Each fault has a line
// of its own with the place, what was found and what was expected.
func Load(src Source) (disk.Settings, error) {
	s, _, err := load(src)
	return s, err
}

func load(src Source) (disk.Settings, origins, error) {
	documents, readErr := src.read()
	files := parse(documents)
	environment, environmentErr := src.environment(files.origins)
	flags, flagsErr := src.flags(files.origins)

	s, err := merge(append(files.layers, environment, flags))
	if err != nil {
		return disk.Settings{}, nil, err
	}
	check(&s, files.origins, &files.faults)
	if err := errors.Join(readErr, files.err(), environmentErr, flagsErr); err != nil {
		return disk.Settings{}, nil, err
	}
	return s, files.origins, nil
}

// merge returns the defaults with the layers on top, the last one uppermost.
func merge(layers []layer) (s disk.Settings, err error) {
	// viper's own environment is that of the process, and its own flags and files
	// convert silently. So all of them come as layers of checked values.
	v := viper.New()
	for key, value := range fields(Default()) {
		v.SetDefault(key, value)
	}
	for _, l := range layers {
		if err := v.MergeConfigMap(l); err != nil {
			return s, err
		}
	}
	err = v.UnmarshalExact(&s, func(c *mapstructure.DecoderConfig) {
		c.TagName = "json"
		c.Squash = true // disk.Class embeds its selectors
		c.WeaklyTypedInput = false
		c.DecodeHook = nil
	})
	return s, err
}

// fields returns the fields of a struct by their keys, without those that are
// omitted because they are empty.
func fields(of any) layer {
	l := layer{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		key, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		if value := reflect.ValueOf(of).FieldByIndex(f.Index); key != "" && key != "-" && !(omit != "" && value.IsZero()) {
			l[key] = value.Interface()
		}
	}
	return l
}
