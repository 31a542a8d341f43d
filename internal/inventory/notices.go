package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Notices returns messages about problems that do not concern an attached disk. Examples are records of another
// machine-id, filesystems that were mounted in an earlier boot and are now missing, and foreign entries in a class
// directory.
func (h Host) Notices(s *disk.Settings) ([]string, error) {
	missing, err := h.earlierFilesystems()
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 { // in the usual case no filesystem is missing, and no scan is needed
		disks, err := h.Scan()
		if err != nil {
			return nil, err
		}
		missing = filesystemsWithoutDisk(missing, disks)
	}
	var all []string
	if what, next := h.Elsewhere(); what != "" {
		all = append(all, what+"; "+next)
	}
	for _, m := range missing {
		what, next := Absence(&m)
		all = append(all, fmt.Sprintf("missing: %s; %s", what, next))
	}
	for i := range s.Classes {
		strays, err := h.describeStrays(s.Classes[i].Directory)
		if err != nil {
			return nil, fmt.Errorf("cannot look into %s: %w", s.Classes[i].Directory, err)
		}
		all = append(all, strays...)
	}
	return all, nil
}

// Absence returns a message that names the missing filesystem and its disk, and a command that helps.
func Absence(m *disk.Sighting) (what, next string) {
	where := "with no serial"
	switch {
	case m.Identity.Serial != "":
		where = "with serial " + disk.Visible(m.Identity.Serial)
	case m.Identity.WWN != "":
		where = "with WWN " + disk.Visible(m.Identity.WWN)
	}
	if m.Identity.Slot != "" {
		where += " at " + disk.Visible(m.Identity.Slot)
	}
	return fmt.Sprintf("%s %s, on a disk of %s %s, last mounted %s; was the disk attached by virsh attach-disk without --persistent?", disk.Visible(m.Type), disk.Visible(m.UUID), disk.HumanSize(m.Identity.Size), where, m.Mounted.UTC().Format("2006-01-02 15:04 MST")),
		"attach the disk again; if it will not come back: hotmount forget " + disk.Visible(m.UUID)
}

// Missing returns the filesystems that were last mounted in an earlier boot, and that are on none of the given disks.
// Missing does not return a filesystem if hotmount noticed the removal of its disk.
func (h Host) Missing(disks []disk.Facts) ([]disk.Sighting, error) {
	earlier, err := h.earlierFilesystems()
	return filesystemsWithoutDisk(earlier, disks), err
}

// earlierFilesystems returns the filesystems that were mounted in an earlier boot but not in this boot.
// earlierFilesystems leaves out a filesystem if hotmount noticed the removal of its disk.
func (h Host) earlierFilesystems() ([]disk.Sighting, error) {
	boot, err := h.Boot()
	if err != nil {
		return nil, err
	}
	seen, err := h.Store.Sightings()
	return slices.DeleteFunc(seen, func(m disk.Sighting) bool { return m.Identity.Boot == boot || m.Left }), err
}

// filesystemsWithoutDisk returns the filesystems that are on none of the disks.
func filesystemsWithoutDisk(all []disk.Sighting, disks []disk.Facts) []disk.Sighting {
	here := map[string]bool{}
	for i := range disks {
		here[disks[i].KnownContent().UUID] = true
		for _, m := range disks[i].Mounts {
			here[filepath.Base(m.Path)] = true
		}
	}
	return slices.DeleteFunc(all, func(m disk.Sighting) bool { return here[m.UUID] })
}

// describeStrays describes the entries that do not belong in a class directory. hotmount's volumes, and an empty
// directory for the next mount, belong in a class directory.
func (h Host) describeStrays(dir string) ([]string, error) {
	real := filepath.Join("/", h.Root, dir)
	entries, err := os.ReadDir(real)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// describeStrays opens no mounted directory, because the disk or the server behind the mount may never answer.
	before, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	mounted := map[string]bool{}
	for _, m := range before {
		mounted[m.Path] = true
	}
	// While hotmount makes or removes a mount point, the name of the mount point begins with a dot. Like a mount point,
	// a directory whose name is a dot and a UUID must contain nothing but the marker.
	point := func(name string) bool { return disk.ValidUUID(strings.TrimPrefix(name, ".")) }
	full := map[string]string{}
	for _, e := range entries {
		if e.IsDir() && point(e.Name()) && !mounted[dir+"/"+e.Name()] {
			first, err := firstEntry(filepath.Join(real, e.Name()))
			if err != nil {
				continue // the directory is gone
			}
			full[e.Name()] = first
		}
	}
	// describeStrays reads the mount table again after it has read the directories. A volume that is mounted in the
	// meantime is therefore not reported as foreign.
	table, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	mounted = map[string]bool{}
	var all []string
	for _, m := range table {
		mounted[m.Path] = true
		below, found := strings.CutPrefix(m.Path, dir+"/")
		if !found {
			continue
		}
		if top, _, nested := strings.Cut(below, "/"); nested && mounted[dir+"/"+top] {
			continue // a mount inside a volume belongs to the volume's user
		} else if nested || !disk.ValidUUID(below) {
			all = append(all, fmt.Sprintf("%s is mounted in the class directory %s, but not by hotmount: the provisioner may use it as a volume", disk.Visible(m.Path), dir))
		}
	}
	for _, e := range entries {
		name, path := e.Name(), dir+"/"+disk.Visible(e.Name())
		switch {
		case mounted[dir+"/"+name]:
		case e.Type()&fs.ModeSymlink != 0 && h.given(dir, name):
		case e.Type()&(fs.ModeSymlink|fs.ModeDevice) != 0:
			all = append(all, fmt.Sprintf("%s is %s that hotmount did not make: the provisioner may make a volume of the disk behind this link, so hotmount does not begin to use the disk", path, cmp.Or(kinds[e.Type()], "a device node")))
		case !e.IsDir():
			all = append(all, fmt.Sprintf("%s is %s that hotmount did not make: the provisioner reports it as an error", path, kinds[e.Type()]))
		case !point(name):
			all = append(all, fmt.Sprintf("%s is a directory that hotmount did not make, and nothing is mounted there: the provisioner reports the directory as an error", path))
		case full[name] != "":
			all = append(all, fmt.Sprintf("nothing is mounted at %s, but the directory has files (for example %s); the files are on the system disk, and hotmount does not mount over them; to clear the directory: chattr -i %[1]s %[1]s/%[3]s; move the files away; %[4]s", path, disk.Visible(full[name]), disk.Marker, disk.RemoveCommands(path)))
		}
	}
	return all, nil
}

// The method `given` reports whether the entry of a class directory has the form of hotmount's link to a block volume.
// The block volume may have been released a moment ago.
func (h Host) given(dir, name string) bool {
	target, err := os.Readlink(filepath.Join("/", h.Root, dir, name))
	return err == nil && target == disk.LinkDirectory+"/"+name
}

// firstEntry returns the name of an entry other than a valid marker, or "" if the directory has no such entry. A valid
// marker is an empty regular file. firstEntry does not follow a symlink.
func firstEntry(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	d := os.NewFile(uintptr(fd), path)
	defer d.Close()
	names, err := d.Readdirnames(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if first := disk.Unmarked(names); first != "" || len(names) == 0 {
		return first, nil
	}
	var st unix.Stat_t
	err = unix.Fstatat(fd, disk.Marker, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != 0) {
		return disk.Marker, nil
	}
	return "", nil // the marker is valid, or has just been removed
}

var kinds = map[fs.FileMode]string{0: "a file", fs.ModeSymlink: "a symlink", fs.ModeNamedPipe: "a FIFO", fs.ModeSocket: "a socket"}
