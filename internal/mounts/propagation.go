package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Propagates says, by nil, that what PID 1 mounts below the directory shows in
// this process's mount namespace. Where it does not, a directory there can be a
// live mount point on the host without looking like one, and removing it would
// take the mount away.
func Propagates(root, dir string) error {
	host, err := carrier(filepath.Join("/", root, tablePath), dir)
	if err != nil {
		return err
	}
	own, err := carrier(filepath.Join("/", root, ownTablePath), dir)
	if err != nil {
		return err
	}
	hostGroup := tag(host, "shared:")
	switch {
	case host.ID == own.ID && host.Mountpoint == own.Mountpoint:
		// A mount has one id in the whole system: this is PID 1's namespace.
		return nil
	case hostGroup == "":
		return fmt.Errorf("cannot see what is mounted below %s: the host's mount %s is not shared (mount --make-shared %s)", dir, host.Mountpoint, host.Mountpoint)
	case tag(own, "shared:") != hostGroup && tag(own, "master:") != hostGroup:
		return fmt.Errorf("cannot see what is mounted below %s: this process has it by another mount than the host", dir)
	}
	return nil
}

// carrier gives the mount through which a directory is reached: of those at the
// longest path the last, which lies on top.
func carrier(table, dir string) (*mountinfo.Info, error) {
	file, err := os.Open(table)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	defer file.Close()
	bounded, err := boundLines(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	above, err := mountinfo.GetMountsFromReader(bounded, mountinfo.ParentsFilter(dir))
	if err != nil {
		return nil, fmt.Errorf("cannot read mount table: %w", err)
	}
	var best *mountinfo.Info
	for _, m := range above {
		if best == nil || len(m.Mountpoint) >= len(best.Mountpoint) {
			best = m
		}
	}
	if best == nil {
		return nil, errors.New("cannot read mount table: it has no root")
	}
	return best, nil
}

// tag gives an optional field of the table, such as shared:1 (proc_pid_mountinfo(5)),
// without its name.
func tag(m *mountinfo.Info, name string) string {
	fields := strings.Fields(m.Optional)
	i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, name) })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(fields[i], name)
}
