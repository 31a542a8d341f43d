// Package mounts reads the mount table and watches the mount table for changes. Package mounts also finds the active
// swap space, and the disks that the system's configuration claims. The package gets all facts from the kernel and from
// files, never from systemd.
package mounts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"hotmount/internal/disk"
)

const (
	// tablePath is the mount table of PID 1, which shows the host's mounts. In the mount table of a sandboxed service,
	// some mounts appear twice.
	tablePath = "/proc/1/mountinfo"
	// ownTablePath is the mount table of this process.
	ownTablePath = "/proc/self/mountinfo"
)

const (
	// maxLine is the maximum length in bytes of a line of the mount table. The reader of package mountinfo fails on
	// lines of 64 KiB or more.
	maxLine = 60 << 10
	// maxField is the maximum length in bytes of a field of a line, except the mount point. overlayfs lists its layers
	// in the last field. A pod can move a mounted directory to a long path.
	maxField = 8 << 10
	// maxPoint is the maximum length in bytes of a mount point, with its octal escapes. A longer path is too long for
	// every system call, even after it is shortened. A shortened path is therefore never taken for another path.
	maxPoint = 4 * 4096
)

// Tree reads the mount table once, like Reader.Tree.
func Tree(root string) ([]Mount, error) { return new(Reader).Tree(root) }

// At returns the mount whose filesystem a process reaches when it opens the path, or nil if there is none.
func At(tree []Mount, path string) *Mount { return ByPath(tree).At(path) }

// Paths finds the mounts of a tree by path. For many lookups in one tree, Paths is faster than the function At. ByPath
// makes a value of type Paths.
type Paths struct {
	at  map[string][]*Mount // mounts in the kernel's order
	ids map[int]bool
}

// ByPath returns the Paths of a tree. The caller must not change the tree afterwards.
func ByPath(tree []Mount) Paths {
	p := Paths{make(map[string][]*Mount, len(tree)), make(map[int]bool, len(tree))}
	for i := range tree {
		m := &tree[i]
		p.at[m.Path], p.ids[m.ID] = append(p.at[m.Path], m), true
	}
	return p
}

// At returns the mount whose filesystem a process reaches when it opens the path, or nil if there is none.
func (p Paths) At(path string) *Mount {
	way := p.onWay(path)
	var at *Mount
	for range way {
		var next *Mount
		for _, m := range way {
			// A path walk starts at the root mount, which has no parent in the mount table of the process.
			first := m.Parent == m.ID || !p.ids[m.Parent]
			if at != nil && (m.Parent != at.ID || m == at) || at == nil && !first {
				continue
			}
			// A path walk first reaches the mount with the shortest path. If several mounts have the same path, the
			// last mount in the table is on top.
			if next == nil || len(m.Path) <= len(next.Path) {
				next = m
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	return at
}

// onWay returns the mounts that a path walk to the given path can cross: mounts on the path itself and on its parent
// directories.
func (p Paths) onWay(path string) []*Mount {
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	way := slices.Clone(p.at["/"])
	for i := 2; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			way = append(way, p.at[path[:i]]...)
		}
	}
	return way
}

// OnTop reports whether the device is mounted at the path. OnTop returns an error if another device is mounted over the
// device's mount, because umount(8) would unmount the other device.
func OnTop(tree []Mount, path string, dev disk.Dev) (bool, error) {
	there := slices.ContainsFunc(tree, func(m Mount) bool { return m.Path == path && m.Dev == dev })
	if at := At(tree, path); there && at != nil && (at.Path != path || at.Dev != dev) {
		return true, fmt.Errorf("%s is mounted at %[2]s and hides the filesystem; first: umount %[2]s", at.Dev, disk.Visible(at.Path))
	}
	return there, nil
}

// Mount is a mount, with its peer groups and its place in the mount tree of its namespace (proc_pid_mountinfo(5),
// mount_namespaces(7)).
type Mount struct {
	disk.MountPoint
	// ID identifies the mount. Parent is the ID of the parent mount, which contains the mount point. A copy of a mount
	// in another mount namespace has another ID.
	ID     int `json:"id"`
	Parent int `json:"parent"`
	// Shared is the peer group of which the mount is a member. Master is the peer group of which the mount is a slave.
	// From is the closest dominant peer group that has a mount below the root directory of the process (propagate_from
	// in mount_namespaces(7)). If that group is the group in the field Master, the field From is 0. Shared, Master and
	// From are 0 if the mount has no such peer group. A peer group has the same number in all namespaces.
	Shared int `json:"shared,omitempty"`
	Master int `json:"master,omitempty"`
	From   int `json:"from,omitempty"`
}

// ParseTree reads a mount table (proc_pid_mountinfo(5)). ParseTree returns one mount for each line, in the order of the
// lines.
func ParseTree(r io.Reader) ([]Mount, error) {
	bounded, err := boundLines(r)
	if err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMountsFromReader(bounded, nil)
	if err != nil {
		// The error of package mountinfo quotes a line of the mount table, which can contain arbitrary bytes.
		return nil, errors.New(disk.Visible(err.Error()))
	}
	var tree []Mount
	for _, i := range infos {
		tree = append(tree, Mount{
			MountPoint: disk.MountPoint{
				Dev:          disk.Dev{Major: uint32(i.Major), Minor: uint32(i.Minor)},
				Root:         i.Root,
				Path:         i.Mountpoint,
				Type:         i.FSType,
				Source:       i.Source,
				Options:      i.Options,
				SuperOptions: i.VFSOptions,
			},
			ID: i.ID, Parent: i.Parent,
			Shared: group(i, "shared:"), Master: group(i, "master:"), From: group(i, "propagate_from:"),
		})
	}
	return tree, nil
}

// group returns the peer group from an optional field such as shared:1, or 0 if the field is missing.
func group(m *mountinfo.Info, name string) int {
	for field := range strings.FieldsSeq(m.Optional) {
		if n, err := strconv.Atoi(strings.TrimPrefix(field, name)); err == nil {
			return n
		}
	}
	return 0
}

// maxTable is the maximum size of a mount table in bytes. A pod can make as many mounts as /proc/sys/fs/mount-max
// allows, each with a long path.
const maxTable = 32 << 20

// ReadTable reads the mount table of a process from its file in /proc. If the process has ended, ProcessEnded returns
// true for the error of ReadTable.
func ReadTable(name string) ([]Mount, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	bounded := &io.LimitedReader{R: file, N: maxTable}
	tree, err := ParseTree(bounded)
	switch {
	case bounded.N == 0:
		return nil, fmt.Errorf("the table has more than %d bytes", maxTable)
	case err == nil && len(tree) == 0:
		return nil, fs.ErrNotExist
	}
	return tree, err
}

// boundLines reads a mount table and shortens fields and lines that are too long. boundLines also checks the device
// numbers, because package mountinfo reads an invalid number as 0.
func boundLines(r io.Reader) (io.Reader, error) {
	var out bytes.Buffer
	// The buffer keeps the small default size, because each read of a mount table allocates a new buffer. When hotmount
	// examines a disk, the buffers for mount tables are most of the memory that the garbage collector must free.
	lines := bufio.NewReader(r)
	for {
		line, long, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			return &out, nil
		}
		if err != nil {
			return nil, err
		}
		fields := bytes.SplitN(line, []byte{' '}, 6)
		if len(fields) < 4 {
			return nil, fmt.Errorf("cannot parse line %q", disk.Visible(string(line)))
		}
		if dev, err := disk.ParseDev(string(fields[2])); err != nil || max(dev.Major, dev.Minor) > math.MaxInt32 {
			return nil, fmt.Errorf("cannot parse device number %q", disk.Visible(string(fields[2])))
		}
		short := shortLine{out: &out}
		for short.add(line); long; short.add(line) {
			if line, long, err = lines.ReadLine(); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
		out.WriteByte('\n')
	}
}

// shortLine writes one line of the mount table to a buffer, and leaves out the end of each field that is too long.
type shortLine struct {
	out *bytes.Buffer
	// The field `number` is the number of fields before the current field, and `length` is the length of the current
	// field. The field `written` is the number of bytes that the buffer already contains.
	number, length, written int
}

// The method `add` writes a part of the line.
func (l *shortLine) add(part []byte) {
	for _, c := range part {
		if l.length++; c == ' ' {
			l.number, l.length = l.number+1, 0
		}
		limit := maxField
		if l.number == 4 {
			limit = maxPoint
		}
		if l.length <= limit && l.written < maxLine {
			l.out.WriteByte(c)
			l.written++
		}
	}
}

// Swaps returns the paths of all active swap space from /proc/swaps (proc_swaps(5)): device nodes below /dev, and
// files.
func Swaps(root string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join("/", root, "proc/swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		// A kernel without CONFIG_SWAP has no /proc/swaps.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the list of active swap spaces: %w", err)
	}
	return parseSwaps(string(b))
}

func parseSwaps(text string) ([]string, error) {
	header, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(header, "Filename") {
		return nil, fmt.Errorf("cannot read the list of active swap spaces: expected a header, found %q", disk.Visible(header))
	}
	var paths []string
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return nil, errors.New("cannot read the list of active swap spaces: empty line")
		}
		paths = append(paths, unescapeOctal(fields[0]))
	}
	return paths, nil
}

// unescapeOctal decodes escapes of the form \NNN. The kernel (mangle_path in fs/seq_file.c) and fstab(5) use these
// escapes for white space and backslashes.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && len(s) >= i+4 && isOctal(s[i+1], '3') && isOctal(s[i+2], '7') && isOctal(s[i+3], '7') {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(c, highest byte) bool { return c >= '0' && c <= highest }

// maxFile is the maximum size in bytes of a configuration file.
const maxFile = 1 << 20
