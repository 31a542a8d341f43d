package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// mkfs and mountHelpers map a filesystem type to the Debian package of its programs. Those are /sbin/mkfs.TYPE, and
// /sbin/mount.TYPE where the kernel cannot mount the type alone (mount(8)).
var (
	mkfs         = map[string]string{"xfs": "xfsprogs", "ext4": "e2fsprogs"}
	mountHelpers = map[string]string{
		"nfs": "nfs-common", "nfs4": "nfs-common", "cifs": "cifs-utils", "ntfs": "ntfs-3g", "ntfs-3g": "ntfs-3g", "lowntfs-3g": "ntfs-3g", "ceph": "ceph-common",
		"glusterfs": "glusterfs-client", "fuse": "fuse3", "zfs": "zfsutils-linux", "bcachefs": "bcachefs-tools", "davfs": "davfs2",
	}
)

// helpers returns the programs that the class needs, with their packages.
func helpers(c *disk.Class) map[string]string {
	all := map[string]string{}
	if pkg, ok := mkfs[c.Create]; ok {
		all["mkfs."+c.Create] = pkg
	}
	for _, t := range c.Accept {
		if pkg, ok := mountHelpers[t]; ok {
			all["mount."+t] = pkg
		}
	}
	return all
}

// system gathers everything that is not about mounts.
func (src Source) system(s *Snapshot) {
	s.Programs = map[string]bool{}
	for i := range s.Classes {
		for name := range helpers(&s.Classes[i]) {
			s.Programs[name] = slices.ContainsFunc([]string{"/sbin", "/usr/sbin", "/bin", "/usr/bin"}, func(dir string) bool {
				info, err := os.Stat(src.path(path.Join(dir, name)))
				return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
			})
		}
	}
	_, err := os.Lstat(src.path("/etc/systemd/system/timers.target.wants/fstrim.timer"))
	s.Trim = err == nil
	fstab, err := src.read("/etc/fstab")
	s.FstabEmpty = err == nil && !fstabEntry().MatchString(fstab)
	if err := errors.Join(err, src.udevRules(s)); err != nil {
		s.blind("%v", err)
	}
	src.names(s)
	seen := map[string]bool{}
	for _, v := range s.all() {
		seen[v.Namespace] = true
	}
	for i := range s.Host.Mounts {
		if m := &s.Host.Mounts[i]; m.Type == "nsfs" && strings.HasPrefix(m.Root, "mnt:[") && !seen[m.Root] {
			s.Pinned = append(s.Pinned, m.Path)
		}
	}
}

// fstabEntry matches a line that is neither empty nor a comment.
var fstabEntry = pattern(`(?m)^\s*[^#\s]`)

// read returns the text of a configuration file.
func (src Source) read(name string) (string, error) { return mounts.ReadFile(src.path(name)) }

// ruleDirectories are udev's (udev(7)). The first file of a name wins.
var ruleDirectories = []string{"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"}

// udevRules finds rules that run systemd-mount.
func (src Source) udevRules(s *Snapshot) error {
	done := map[string]bool{}
	for _, dir := range ruleDirectories {
		entries, err := os.ReadDir(src.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			if done[name] || !strings.HasSuffix(name, ".rules") {
				continue
			}
			done[name] = true
			text, err := src.read(path.Join(dir, name))
			if err != nil {
				return err
			}
			for i, line := range strings.Split(text, "\n") {
				if strings.Contains(line, "systemd-mount") && !strings.HasPrefix(strings.TrimSpace(line), "#") {
					s.Rules = append(s.Rules, fmt.Sprintf("%s:%d", path.Join(dir, disk.Visible(name)), i+1))
				}
			}
		}
	}
	return nil
}

// names reads the names of pods and containers from the file names of kubelet's logs: /var/log/pods/NAMESPACE_POD_UID
// and /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log. It opens no log.
func (src Source) names(s *Snapshot) {
	s.Pods, s.Containers = map[string]PodName{}, map[string]string{}
	pods, _ := os.ReadDir(src.path("/var/log/pods"))
	for _, e := range pods {
		if parts := strings.Split(e.Name(), "_"); len(parts) == 3 {
			s.Pods[parts[2]] = PodName{parts[0], parts[1]}
		}
	}
	containers, _ := os.ReadDir(src.path("/var/log/containers"))
	for _, e := range containers {
		parts := strings.Split(strings.TrimSuffix(e.Name(), ".log"), "_")
		if len(parts) != 3 {
			continue
		}
		if i := strings.LastIndexByte(parts[2], '-'); i > 0 {
			s.Containers[parts[2][i+1:]] = parts[2][:i]
		}
	}
}
