package unit

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/godbus/dbus/v5"

	"hotmount/internal/disk"
)

// MountTimeout is the time limit for a mount. The recovery of a large XFS log takes less time than MountTimeout.
const MountTimeout = 15 * time.Minute

// MountUnit is a transient mount unit.
type MountUnit struct {
	ID disk.ID
	// Path is the mount point: a directory in a class directory, named for the filesystem's UUID.
	Path string
	// Type is the filesystem's type: xfs or ext4.
	Type string
	// Options are the mount options, one option in each entry.
	Options []string
	// Description is a text for people. Description must be safe to print.
	Description string
	// Timeout is the time limit for mount(8).
	Timeout time.Duration
}

// Name returns the name of the mount unit of a mount point (systemd-escape -p --suffix=mount).
func Name(path string) string { return unit.UnitNamePathEscape(path) + ".mount" }

func cleanupUnit(path string) string {
	return "hotmount-cleanup@" + unit.UnitNamePathEscape(path) + ".service"
}

// The variable `types` lists the filesystem types that hotmount may ask PID 1 to mount.
var types = []string{"xfs", "ext4"}

// The method `properties` returns the properties that hotmount sets for every mount unit. startTogether sets two more
// properties. The properties that a transient mount unit can have, and their D-Bus types, are listed in
// bus_mount_set_transient_property (systemd's src/core/dbus-mount.c). The general properties and the allowed
// dependencies are listed in bus_unit_set_transient_property (src/core/dbus-unit.c).
//
// The mount unit has no BindsTo= on the device. With BindsTo=, systemd would try endlessly to unmount a busy mount of a
// lost disk. systemd itself adds a weaker dependency on the device. Because of this dependency, systemd tries once to
// stop the unit when the disk disappears. The unit does not use systemd-fsck@.service: for XFS this service does
// nothing, and ext4 replays its journal at the mount.
func (u *MountUnit) properties() ([]sd.Property, error) {
	if err := u.check(); err != nil {
		return nil, fmt.Errorf("cannot mount %s: %w", u.ID, err)
	}
	cleanup := []string{cleanupUnit(u.Path)}
	p := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	return []sd.Property{
		p("Description", u.Description),
		p("What", u.ID.BySeq()),
		p("Where", u.Path),
		p("Type", u.Type),
		// With nofail, the boot does not wait for the mount (systemd.mount(5)).
		p("Options", strings.Join(append(slices.Clone(u.Options), "nofail"), ",")),
		p("TimeoutUSec", uint64(u.Timeout/time.Microsecond)),
		p("Environment", environment),
		// CollectMode frees the unit's name after a failed mount.
		p("CollectMode", "inactive-or-failed"),
		// Because of nofail, systemd does not add Before=local-fs.target by itself. With Before=, systemd unmounts the
		// filesystem only after it has stopped the services that may use the mount, such as kubelet.
		p("Before", []string{"local-fs.target"}),
		// PID 1 removes the directory when the mount ends, even while the daemon is down. The job for the cleanup never
		// replaces another job, such as a job of a shutdown.
		p("OnSuccess", cleanup),
		p("OnFailure", cleanup),
		p("OnFailureJobMode", "fail"),
	}, nil
}

// environment is the environment of mount(8). With LC_ALL=C, the messages of mount(8) are English, and mount(8) does
// not read the many files of a locale.
var environment = []string{"LC_ALL=C"}

// The method `line` returns the mount as a line of fstab(5). The line does not contain the option nofail, because with
// nofail mount(8) reports success even if the disk is missing.
func (u *MountUnit) line() string {
	path := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(u.Path)
	return fmt.Sprintf("%s %s %s %s 0 0\n", u.ID.BySeq(), path, u.Type, cmp.Or(strings.Join(u.Options, ","), "defaults"))
}

func (u *MountUnit) check() error {
	if err := checkPath(u.Path); err != nil {
		return err
	}
	switch {
	case u.ID.Seq == 0:
		return fmt.Errorf("the disk has no disk sequence number")
	case !slices.Contains(types, u.Type):
		return fmt.Errorf("hotmount does not mount filesystems of the type %q", u.Type)
	case u.Timeout < time.Second:
		return fmt.Errorf("the timeout of %s is shorter than a second", u.Timeout)
	case strings.ContainsFunc(u.Description, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("description %q", u.Description)
	}
	for _, o := range u.Options {
		if o == "" || strings.ContainsFunc(o, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,%\"`, r) }) {
			return fmt.Errorf("the mount option %q is empty or has a forbidden character", o)
		}
	}
	return nil
}

func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || path.Dir(p) == "/" || !disk.ValidUUID(path.Base(p)) {
		return fmt.Errorf("%q is not a mount point of hotmount", p)
	}
	return nil
}
