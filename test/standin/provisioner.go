package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/provisioner"
)

// volume is a PersistentVolume that the provisioner has made.
type volume struct {
	Path     string `json:"path"`
	Capacity uint64 `json:"capacity"`
	Block    bool   `json:"block"`
}

// class is a storage class of the provisioner.
type class struct {
	name, directory string
	block           bool
}

// The type `provision` plays the part of sig-storage-local-static-provisioner 2.9. Once per period, the stand-in first
// cleans the released volumes, as DeletePVs (pkg/deleter/deleter.go) does. Then the stand-in looks for new volumes, as
// DiscoverLocalVolumes (pkg/discovery/discovery.go) does.
//
// A directory replaces the Kubernetes API: its file volumes.json lists the volumes, and a file released/NAME marks the
// volume NAME as released. A goroutine cleans each released volume in the background. In the first period after the
// cleaning, the stand-in deletes the cleaned volume.
//
// The log contains a line for each "error" that the provisioner would log, and for each volume that is "created" or
// "cleaned". A "created" or "cleaned" line also shows the disk or filesystem that was at the volume's path: see
// whatIsAt.
type provision struct {
	dir, node string
	classes   []class
	volumes   map[string]volume
	// The field `cleaning` maps the name of a released volume to its cleaner.
	cleaning map[string]*cleaner
	log      *os.File
}

// cleaner is the state of a goroutine that cleans one volume. At the end of the cleaning, the goroutine stores its
// error in the field `err`, and closes the channel in the field `ended`. The fields `before` and `after` show what was
// at the volume's path at the start and at the end of the cleaning.
type cleaner struct {
	ended         chan struct{}
	err           error
	before, after string
}

// runProvisioner runs the provisioner with the arguments DIRECTORY NODE PERIOD CLASS:MODE:DIRECTORY...
func runProvisioner(args []string) error {
	period, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	p := &provision{dir: args[0], node: args[1], volumes: map[string]volume{}, cleaning: map[string]*cleaner{}}
	for _, a := range args[3:] {
		f := strings.Split(a, ":")
		p.classes = append(p.classes, class{f[0], f[2], f[1] == "Block"})
	}
	if err := os.MkdirAll(filepath.Join(p.dir, "released"), 0o755); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "volumes.json"))
	if err == nil {
		err = json.Unmarshal(data, &p.volumes)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if p.log, err = os.OpenFile(filepath.Join(p.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	p.say("started")
	for {
		p.clean()
		for _, c := range p.classes {
			p.discover(c)
		}
		if err := p.save(); err != nil {
			return err
		}
		time.Sleep(period)
	}
}

func (p *provision) say(format string, args ...any) {
	fmt.Fprintf(p.log, time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")+format+"\n", args...)
}

// save replaces the file volumes.json atomically, so that the list of volumes survives a crash of the node, as in a
// real cluster.
func (p *provision) save() error {
	data, err := json.Marshal(p.volumes)
	if err != nil {
		return err
	}
	name := filepath.Join(p.dir, "volumes.json")
	if old, err := os.ReadFile(name); err == nil && string(old) == string(data) {
		return nil
	}
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// whatIsAt describes the disk or the filesystem at a volume's path. For a filesystem, whatIsAt returns the device
// number, root and type from PID 1's mount table, and the UUID from udev's database. For a link to a disk, whatIsAt
// returns the disk's sequence number (diskseq). If the path leads neither to a disk nor to a mounted filesystem,
// whatIsAt returns "nothing".
func whatIsAt(path string, block bool) string {
	if block {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
			return "nothing"
		}
		seq, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/diskseq", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
		if err != nil {
			return "nothing"
		}
		return "seq=" + strings.TrimSpace(string(seq))
	}
	table, _ := os.ReadFile("/proc/1/mountinfo")
	found := "nothing"
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 8 && f[4] == path {
			i := slices.Index(f, "-")
			known, _ := os.ReadFile("/run/udev/data/b" + f[2])
			_, uuid, _ := strings.Cut(string(known), "\nE:ID_FS_UUID=")
			uuid, _, _ = strings.Cut(uuid, "\n")
			found = "dev=" + f[2] + " root=" + f[3] + " type=" + f[i+1] + " uuid=" + uuid
		}
	}
	return found
}

func (p *provision) clean() {
	names, err := os.ReadDir(filepath.Join(p.dir, "released"))
	if err != nil {
		p.say("error %v", err)
		return
	}
	for _, n := range names {
		v, ok := p.volumes[n.Name()]
		if !ok {
			continue
		}
		if _, err := os.Stat(v.Path); err != nil { // the provisioner's getVolMode also calls stat(2)
			p.say("event cleaning %s: %v", n.Name(), err)
			continue
		}
		c := p.cleaning[n.Name()]
		if c == nil {
			p.cleaning[n.Name()] = begin(v)
			continue
		}
		select {
		case <-c.ended:
		default:
			continue
		}
		delete(p.cleaning, n.Name())
		if c.err != nil {
			p.say("event cleaning %s: %s", n.Name(), strings.ReplaceAll(c.err.Error(), "\n", "; "))
			p.cleaning[n.Name()] = begin(v)
			continue
		}
		p.say("cleaned %s %s %s", n.Name(), v.Path, c.before)
		if c.after != c.before {
			p.say("error %s was cleaned, and %s was there in the end", n.Name(), c.after)
		}
		delete(p.volumes, n.Name())
		if err := os.Remove(filepath.Join(p.dir, "released", n.Name())); err != nil {
			p.say("error %v", err)
		}
	}
}

func begin(v volume) *cleaner {
	c := &cleaner{ended: make(chan struct{}), before: whatIsAt(v.Path, v.Block)}
	go func() {
		defer close(c.ended)
		c.err = cleanVolume(v)
		c.after = whatIsAt(v.Path, v.Block)
	}()
	return c
}

func cleanVolume(v volume) error {
	if v.Block {
		// The real provisioner runs this dd command in the cleaning script dd_zero.sh. In the output of `hotmount
		// provisioner values`, blockCleanerCommand is this script.
		info, err := os.Stat(v.Path)
		if err == nil && info.Mode()&fs.ModeDevice == 0 {
			err = errors.New("the disk is not a block device")
		}
		if err != nil {
			return err
		}
		dd := exec.Command("dd", "if=/dev/zero", "of="+v.Path, "bs=8096")
		dd.Env = []string{"LC_ALL=C"}
		if out, _ := dd.CombinedOutput(); !strings.Contains(string(out), "No space left on device") {
			return fmt.Errorf("%s: %s", dd, out)
		}
		return nil
	}
	// Like the provisioner's DeleteContents, this code keeps the directory open until all files are removed.
	dir, err := os.Open(v.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(v.Path, name)))
	}
	return err
}

// ownMountPoints returns the mount points in the mount table of this process. Escaped characters remain escaped.
func ownMountPoints() (map[string]bool, error) {
	table, err := os.ReadFile("/proc/mounts")
	points := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 {
			points[f[1]] = true
		}
	}
	return points, err
}

func (p *provision) discover(c class) {
	entries, err := os.ReadDir(c.directory)
	if err != nil {
		p.say("error reading directory: %v", err)
		return
	}
	points, err := ownMountPoints()
	if err != nil {
		p.say("error retrieving mountpoints: %v", err)
		return
	}
	pattern := provisioner.MountPattern
	if c.block {
		pattern = provisioner.LinkPattern
	}
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); !ok {
			p.say("foreign %s", filepath.Join(c.directory, e.Name()))
			continue
		}
		if err := p.entry(c, e.Name(), points); err != nil {
			p.say("error %v", err)
		}
	}
}

func (p *provision) entry(c class, file string, points map[string]bool) error {
	path := filepath.Join(c.directory, file)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	block := info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
	if !block && !info.IsDir() {
		return fmt.Errorf("path %q has unexpected volume type", path)
	}
	name := disk.VolumeName(file, p.node, c.name)
	if _, exists := p.volumes[name]; exists {
		// The real provisioner does not check the path of a known volume again. The stand-in logs an error for a known
		// volume whose disk or filesystem is gone.
		if whatIsAt(path, c.block) == "nothing" {
			return fmt.Errorf("path %q is a volume's, and nothing is there", path)
		}
		return nil
	}
	v := volume{Path: path, Block: block}
	switch {
	case block:
		if v.Capacity, err = deviceSize(path); err != nil {
			return fmt.Errorf("path %q block stats error: %w", path, err)
		}
	case c.block:
		return fmt.Errorf("path %q of filesystem mode cannot be used to create block volume", path)
	case !points[path]:
		return fmt.Errorf("path %q is not an actual mountpoint", path)
	default:
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			return fmt.Errorf("path %q fs stats error: %w", path, err)
		}
		v.Capacity = st.Blocks * uint64(st.Bsize)
	}
	v.Capacity = roundDownCapacity(v.Capacity)
	p.volumes[name] = v
	fileCount := ""
	if !block {
		files, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		fileCount = fmt.Sprintf(" files=%d", len(files))
	}
	p.say("created %s %s %d%s %s", name, path, v.Capacity, fileCount, whatIsAt(path, block))
	return nil
}

func deviceSize(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	size, err := f.Seek(0, 2)
	return uint64(size), errors.Join(err, f.Close())
}

// roundDownCapacity rounds a size in bytes, as the provisioner's roundDownCapacityPretty does. A size of 10 GiB or more
// is rounded down to full GiB, and a size of 10 MiB or more to full MiB.
func roundDownCapacity(n uint64) uint64 {
	for _, unit := range []uint64{1 << 30, 1 << 20} {
		if n/unit >= 10 {
			return n / unit * unit
		}
	}
	return n
}
