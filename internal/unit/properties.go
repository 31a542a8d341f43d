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

// MountTimeout is how long a mount may take: the recovery of a large XFS log
// fits into it.
const MountTimeout = 15 * time.Minute

// MountUnit is a transient mount unit.
type MountUnit struct {
	ID disk.ID
	// Path is the mount point, a class directory with the filesystem's UUID.
	Path string
	// Type is the filesystem's, xfs or ext4.
	Type string
	// Options are mount options, one word each.
	Options []string
	// Description is for people; foreign bytes in it must be visible.
	Description string
	// Timeout is how long mount(8) may take.
	Timeout time.Duration
}

// Name is the name of the mount unit of a mount point (systemd-escape -p
// --suffix=mount).
func Name(path string) string { return unit.UnitNamePathEscape(path) + ".mount" }

func cleanupUnit(path string) string {
	return "hotmount-cleanup@" + unit.UnitNamePathEscape(path) + ".service"
}

// types are the filesystems that PID 1 is asked to mount.
var types = []string{"xfs", "ext4"}

// properties are all that PID 1 is ever told about a mount unit. Which may be set
// on a transient unit, and their D-Bus types, is in systemd's
// bus_mount_set_transient_property (src/core/dbus-mount.c) and, with the list of
// dependencies that are allowed, bus_unit_set_transient_property
// (src/core/dbus-unit.c).
//
// There is no BindsTo= the device: with it, systemd unmounts a busy mount of a
// lost disk again and again without end. The dependency that it adds by itself
// stops the unit once. And there is no systemd-fsck@.service: for XFS it does
// nothing, and ext4 replays its journal when it is mounted.
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
		// nofail: nothing at boot waits for the mount (systemd.mount(5)).
		p("Options", strings.Join(append(slices.Clone(u.Options), "nofail"), ",")),
		p("TimeoutUSec", uint64(u.Timeout/time.Microsecond)),
		p("Environment", environment),
		// So that the name is free again when the mount has failed.
		p("CollectMode", "inactive-or-failed"),
		// Because of nofail systemd does not order the mount against
		// local-fs.target. With this order it is unmounted only after the
		// services that may use it have stopped, kubelet among them.
		p("Before", []string{"local-fs.target"}),
		// The directory goes with the mount, also while the daemon is down, but
		// the job for that replaces no other: not that of a shutdown.
		p("OnSuccess", cleanup),
		p("OnFailure", cleanup),
		p("OnFailureJobMode", "fail"),
	}, nil
}

// environment is that of mount(8): it says what it says in English, and reads none of the dozen files of a locale.
var environment = []string{"LC_ALL=C"}

// line is the mount as a line of fstab(5). There is no nofail: with it mount(8) takes a disk that is not
// there for mounted.
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
		return fmt.Errorf("%q is not a mount point of ours", p)
	}
	return nil
}
