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

// MountTimeout bounds a mount. The recovery of a large XFS log takes less.
const MountTimeout = 15 * time.Minute

// MountUnit is a transient mount unit.
type MountUnit struct {
	ID disk.ID
	// Path is the mount point: a class directory with the filesystem's UUID.
	Path string
	// Type is the filesystem's type, xfs or ext4.
	Type string
	// Options are mount options, one word each.
	Options []string
	// Description is for people. Foreign bytes in it must be visible.
	Description string
	// Timeout bounds mount(8).
	Timeout time.Duration
}

// Name returns the name of the mount unit of a mount point (systemd-escape -p --suffix=mount).
func Name(path string) string { return unit.UnitNamePathEscape(path) + ".mount" }

func cleanupUnit(path string) string {
	return "hotmount-cleanup@" + unit.UnitNamePathEscape(path) + ".service"
}

// types are the filesystems that PID 1 may be asked to mount.
var types = []string{"xfs", "ext4"}

// properties returns everything that PID 1 learns about a mount unit. systemd's bus_mount_set_transient_property
// (src/core/dbus-mount.c) has the properties that a transient unit can have, and their D-Bus types.
// bus_unit_set_transient_property (src/core/dbus-unit.c) has the rest, and the dependencies that are allowed.
//
// There is no BindsTo= the device: with it, systemd would unmount a busy mount of a lost disk again and again without
// end. The dependency that systemd adds stops the unit once. There is no systemd-fsck@.service either: it does nothing
// for XFS, and ext4 replays its journal when it is mounted.
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
		// nofail keeps the boot from waiting for the mount (systemd.mount(5)).
		p("Options", strings.Join(append(slices.Clone(u.Options), "nofail"), ",")),
		p("TimeoutUSec", uint64(u.Timeout/time.Microsecond)),
		p("Environment", environment),
		// This frees the name after a failed mount.
		p("CollectMode", "inactive-or-failed"),
		// Because of nofail systemd does not order the mount against local-fs.target. This order has it unmounted only
		// after the services that may use it, kubelet among them.
		p("Before", []string{"local-fs.target"}),
		// The directory goes with the mount, even while the daemon is down. The job for that never replaces another,
		// such as a shutdown's.
		p("OnSuccess", cleanup),
		p("OnFailure", cleanup),
		p("OnFailureJobMode", "fail"),
	}, nil
}

// environment is that of mount(8). Its messages are then English, and it reads none of a locale's dozen files.
var environment = []string{"LC_ALL=C"}

// line returns the mount as a line of fstab(5). It has no nofail, with which mount(8) reports success for a missing
// disk.
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
		return fmt.Errorf("it has no disk sequence number")
	case !slices.Contains(types, u.Type):
		return fmt.Errorf("filesystem type %q", u.Type)
	case u.Timeout < time.Second:
		return fmt.Errorf("a timeout of %s", u.Timeout)
	case strings.ContainsFunc(u.Description, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("description %q", u.Description)
	}
	for _, o := range u.Options {
		if o == "" || strings.ContainsFunc(o, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,%\"`, r) }) {
			return fmt.Errorf("mount option %q", o)
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
