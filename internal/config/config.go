// Package config makes the checked settings from the built-in defaults, the
// configuration file, the environment and the command line; of these the later
// wins. Nothing is guessed: what is not understood is an error.
package config

import (
	"errors"
	"io/fs"
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
	// names one; it may be missing, one that is named may not. Empty means
	// DefaultPath.
	Path string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags is the parsed command line with the flags of AddFlags, or nil.
	Flags *pflag.FlagSet
	// Trust says what is wrong with owner and mode of the file. Nil means that
	// it must belong to root and be writable by root alone.
	Trust func(fs.FileInfo) error
}

// Default gives the settings that hold where nothing else is said.
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

// defaultClass gives what holds for the keys that a class leaves out. Name and
// directory can not be left out.
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

// layer is what one source says, by key, in the types of disk.Settings.
type layer map[string]any

// Load gives the settings, or every fault of every source, each on a line of its
// own that names the place, what was found and what was expected.
func Load(src Source) (disk.Settings, error) {
	s, _, err := load(src)
	return s, err
}

func load(src Source) (disk.Settings, origins, error) {
	file, from, fileErr := src.file()
	environment, environmentErr := src.environment()
	flags, flagsErr := src.flags()
	if err := errors.Join(fileErr, environmentErr, flagsErr); err != nil {
		return disk.Settings{}, nil, err
	}
	for _, s := range scalars {
		if _, ok := environment[s.key]; ok {
			from[s.key] = place{name: s.variable()}
		}
		if _, ok := flags[s.key]; ok {
			from[s.key] = place{name: "--" + s.flag()}
		}
	}

	v := viper.New()
	for key, value := range settingsByKey(Default()) {
		v.SetDefault(key, value)
	}
	// viper's own environment is the process's, and its own flags convert
	// silently: here both are layers of checked values.
	for _, l := range []layer{file, environment, flags} {
		if err := v.MergeConfigMap(l); err != nil {
			return disk.Settings{}, nil, err
		}
	}
	var s disk.Settings
	err := v.UnmarshalExact(&s, func(c *mapstructure.DecoderConfig) {
		c.TagName = "json"
		c.WeaklyTypedInput = false
		c.DecodeHook = nil
		c.ErrorUnset = true
	})
	if err != nil {
		return disk.Settings{}, nil, err
	}
	return s, from, nil
}
