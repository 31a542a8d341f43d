// Package config makes the checked settings from four sources: the built-in defaults, the configuration files, the
// environment and the command line. Later sources win. Anything that it does not understand is an error.
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

// Source is where the settings come from.
type Source struct {
	// Path is the file that is read if neither --config nor HOTMOUNT_CONFIG names one. It may be missing; a named file
	// may not. Empty means DefaultPath.
	Path string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags is the parsed command line with the flags of AddFlags, or nil.
	Flags *pflag.FlagSet
	// Trust returns an error if owner or mode of a file are wrong. Nil means that the file must belong to root, and
	// that only root may write to it.
	Trust func(fs.FileInfo) error
}

// Default returns the built-in settings.
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
		CSIIgnore:     []string{},
		Classes:       []disk.Class{class},
	}
}

// defaultClass returns the defaults of the keys that a class may omit: all but name and directory. It selects virtio-blk
// disks, all of whose vendors begin with 0x (vendor_show in drivers/virtio/virtio.c), and the disks that QEMU has on
// virtio-scsi. Clouds have volumes there under names of their own.
func defaultClass() disk.Class {
	return disk.Class{
		Selectors: disk.Selectors{
			Transport: []string{"virtio", disk.VirtioSCSI},
			Vendor:    []string{"0x*", "QEMU"},
		},
		Mode:        disk.ModeFilesystem,
		Neighbours:  disk.NeighboursHold,
		Create:      "xfs",
		MkfsOptions: []string{},
		RootOwner:   "0:0",
		RootMode:    "0755",
		Accept:      []string{"xfs", "ext4"},
		Adopt:       disk.AdoptAny,
		Options:     []string{"noatime", "nodev", "nosuid"},
		Blank:       "auto",
		MinimumSize: minimumXFS,
		Grow:        true,
		Trim:        true,
		Provision:   true,
	}
}

// layer has the checked values of one source by key, in the types of disk.Settings.
type layer map[string]any

// Load returns the settings, or every fault of every source. Each fault is a line with its place, the value found and
// the value expected.
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

// merge returns the defaults overlaid with the layers, of which the last wins.
func merge(layers []layer) (s disk.Settings, err error) {
	// viper's environment is the process's, and its flags and files convert silently. So all sources come as layers of
	// checked values.
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

// fields returns the fields of a struct by their keys, without empty fields that omitempty omits.
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
