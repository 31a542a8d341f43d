//go:build vm

package system

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// download has apt fetch packages, with all that the machine knows of mirrors, and says
// where they are.
func download(t *testing.T, packages ...string) []string {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(ctx(t), "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("cannot download %s: %v: %s", strings.Join(packages, ", "), err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != len(packages) {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// TestSystemdUpgraded: Debian's packages of systemd and udev are unpacked and configured
// over themselves, with what they restart and execute again, with the daemon and without
// it: what is mounted is mounted afterwards, nobody's hand is seen in it, and a
// disk that is attached later is mounted.
func TestSystemdUpgraded(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	packages := strings.Fields(m.run(`dpkg-query -W -f '${source:Package} ${db:Status-Abbrev} ${Package}=${Version}\n' | sed -n 's/^systemd ii *//p'`))
	if !slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, "udev=") }) {
		t.Fatalf("of systemd's packages there are %q", packages)
	}
	// A new initramfs, which udev asks for, is no part of it and takes minutes.
	m.run("mkdir /root/systemd; mkdir -p /etc/initramfs-tools; echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf")
	for _, f := range download(t, packages...) {
		if err := w.Put(ctx(t), f, "/root/systemd/"+filepath.Base(f)); err != nil {
			t.Fatal(err)
		}
	}
	var names, uuids []string
	for range 3 {
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		names, uuids = append(names, name), append(uuids, m.mounted(name))
	}
	m.run(fmt.Sprintf(writer, uuids[0]))
	for _, down := range []bool{false, true} {
		if down {
			m.run("systemctl stop hotmount")
		}
		m.run("DEBIAN_FRONTEND=noninteractive dpkg -i /root/systemd/*.deb >/root/dpkg 2>&1; udevadm settle; systemctl start hotmount")
		m.wait("the daemon", "systemctl show -P StatusText hotmount | grep -q '^"+fmt.Sprint(len(names))+" mounted'")
		for i, name := range names {
			if got := m.mounted(name); got != uuids[i] {
				t.Errorf("daemon down %t: %s is mounted by %s, was by %s", down, name, got, uuids[i])
			}
		}
		if got := m.run("systemctl is-active writer; journalctl -b -o cat --no-pager -u hotmount | grep 'somebody unmounted' || true"); got != "active" {
			t.Errorf("daemon down %t: %s", down, got)
		}
		later, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		names, uuids = append(names, later), append(uuids, m.mounted(later))
	}
	t.Log(m.run("tail -n 20 /root/dpkg; journalctl -b -o cat --no-pager -u hotmount | grep -c 'systemd took it for unplugged' || true; journalctl -b --no-pager -o cat _PID=1 | grep -ci reexecut"))
}
