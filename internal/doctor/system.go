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

// mkfs maps each filesystem type to the Debian package of /sbin/mkfs.TYPE.
var mkfs = map[string]string{disk.XFS: "xfsprogs", disk.Ext4: "e2fsprogs"}

// The method `system` adds findings about the host itself, such as missing programs. The method also reads the names of
// pods and containers.
func (src Source) system(s *Snapshot, fault string) {
	if fault != "" {
		s.Found.Add(Finding{}, Warning, FaultySettings, advice("configuration"),
			"the configuration has a fault, and hotmount runs on its last good settings: it mounts or gives out only disks on record, and formats none: %s", fault)
	}
	rulesErr := src.udevRules(s)
	_, noTrim := os.Lstat(src.path("/etc/systemd/system/timers.target.wants/fstrim.timer"))
	fstab, fstabErr := src.read("/etc/fstab")
	if noTrim == nil && fstabErr == nil && !fstabEntry().MatchString(fstab) {
		s.Found.Add(Finding{}, Note, Trimmed, advice("fstrim"),
			"fstrim.timer is enabled and /etc/fstab has no entries: once a week, fstrim trims all mounted filesystems in one run, including the disks of pods")
	}
	if err := errors.Join(rulesErr, fstabErr); err != nil {
		s.blind("%v", err)
	}
	for i := range s.Classes {
		src.helper(s, &s.Classes[i])
	}
	src.names(s)
	seen := map[string]bool{}
	for _, v := range s.allViews() {
		seen[v.Namespace] = true
	}
	for i := range s.Host.Mounts {
		if m := &s.Host.Mounts[i]; m.Type == "nsfs" && strings.HasPrefix(m.Root, "mnt:[") && !seen[m.Root] {
			s.Found.Add(Finding{Paths: []string{m.Path}}, Note, NotSeen, advice("pinned", "path", m.Path),
				"no process is in the mount namespace %s, so hotmount cannot see the mounts of that namespace", disk.Visible(m.Path))
		}
	}
}

// The method `helper` adds a finding if the program that makes the filesystems of the class is missing.
func (src Source) helper(s *Snapshot, c *disk.Class) {
	name := "mkfs." + c.Create
	if mkfs[c.Create] != "" && !slices.ContainsFunc([]string{"/sbin", "/usr/sbin", "/bin", "/usr/bin"}, func(dir string) bool {
		info, err := os.Stat(src.path(path.Join(dir, name)))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}) {
		s.Found.Add(Finding{Class: c.Name, Paths: []string{"/sbin/" + name}}, Warning, NoHelper, advice("apt", "package", mkfs[c.Create]),
			"class %s needs %s, which is missing", c.Name, name)
	}
}

// fstabEntry matches a line that is neither empty nor a comment.
var fstabEntry = pattern(`(?m)^\s*[^#\s]`)

// read returns the text of a configuration file.
func (src Source) read(name string) (string, error) { return mounts.ReadFile(src.path(name)) }

// ruleDirectories are the directories of udev's rules (udev(7)). If several files have the same name, udev uses the
// file in the first of these directories.
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
					file := path.Join(dir, disk.Visible(name))
					rule := fmt.Sprintf("%s:%d", file, i+1)
					s.Found.Add(Finding{Paths: []string{rule}}, Warning, UdevRule, advice("udev-rule", "file", file),
						"the udev rule %s runs systemd-mount, which may mount the same disks, even disks that hotmount refuses", rule)
				}
			}
		}
	}
	return nil
}

// The method `names` reads the names of pods and containers from the file names of kubelet's logs:
// /var/log/pods/NAMESPACE_POD_UID and /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log. The method does not open the
// logs.
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
