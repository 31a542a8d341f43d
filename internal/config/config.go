// Package config builds the checked settings from four sources: the built-in defaults, the configuration files, the
// environment and the command line. A later source overrides an earlier one. Anything that config does not understand
// is an error.
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

// DefaultPath is the configuration file that is read if no other file is named.
const DefaultPath = "/etc/hotmount/config.yaml"

// Source is the set of places from which the settings come.
type Source struct {
	// Path is the file that is read if neither --config nor HOTMOUNT_CONFIG names a file. An empty Path means
	// DefaultPath. The file at Path may be missing. If --config or HOTMOUNT_CONFIG names a file, that file must exist.
	Path string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags is the parsed command line of a command to which AddFlags has added flags. Flags is nil if there is no
	// command line.
	Flags *pflag.FlagSet
	// Trust returns an error if the owner or the mode of a file is wrong. If Trust is nil, the file must belong to
	// root, and only root may have write access to the file.
	Trust func(fs.FileInfo) error
}

// Default returns the built-in settings.
func Default() disk.Settings {
	class := classDefaults()
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

// classDefaults returns the defaults of the keys that a class may omit: all but name and directory. The default
// selectors match virtio-blk disks, whose vendor values all begin with 0x (vendor_show in drivers/virtio/virtio.c). The
// default selectors also match QEMU's own disks on virtio-scsi. The default selectors do not match cloud volumes on
// virtio-scsi, whose vendor names differ from QEMU's.
func classDefaults() disk.Class {
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
		MinimumSize: minimumXFS, // the method `check` refuses a smaller size if the class creates a filesystem
		Grow:        true,
		Trim:        true,
		Provision:   true,
	}
}

// A layer maps the keys of one source to the checked values, in the types of disk.Settings.
type layer map[string]any

// Load returns the settings, or an error with every fault of every source. Each fault is a line of the error, with the
// place, the value found and the value expected.
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

// merge returns the default settings, overridden by the values of the layers. A later layer overrides an earlier one.
func merge(layers []layer) (s disk.Settings, err error) {
	// viper cannot read Source.Environ, and converts values of a wrong type without an error. Each source therefore
	// reaches viper as a layer of checked values.
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

// fields returns the fields of a struct by their JSON keys. The result omits empty fields whose tag has omitempty.
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
