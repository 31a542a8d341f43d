//go:build vm

package system

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestThreats tries what packaging/doc/threat-model.md lists: neither a pod with the class directory, nor a local user, a tenant's
// filesystem or a mistaken administrator gets what is not theirs. A pod with
// NET_ADMIN is TestForgedEvents.
func TestThreats(t *testing.T) {
	m, w := start(t, worker.Options{})

	// A pod puts a symlink, and a link in place of one, where a disk is going to be mounted.
	const uuid = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
	const where = "/mnt/disks/" + uuid
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-m", "uuid="+uuid, image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	m.run("mkdir /root/victim; touch /root/victim/kept; ln -s /root/victim " + where + "; ln -s /root/victim /mnt/disks/." + uuid)
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "LED"})
	m.says("/dev/" + name + " .*cannot make the mount point " + where)
	if got := m.run("ls -A /root/victim; lsattr -d /root/victim | cut -c5; findmnt -n /dev/" + name + " || true"); got != "kept\n-" {
		t.Errorf("led elsewhere: %s", got)
	}
	m.run("rm -f " + where + " /mnt/disks/." + uuid + "; systemctl reload hotmount")
	m.mounted(name)

	// A local user reaches neither socket nor state, and can forge no event.
	if err := m.Write(ctx(t), "/tmp/forge.pl", []byte(forge), 0o644); err != nil {
		t.Fatal(err)
	}
	const user = "setpriv --reuid=65534 --regid=65534 --clear-groups "
	for _, try := range []string{
		"hotmount release " + name, "hotmount accept " + name, "hotmount format " + name,
		"ls /var/lib/hotmount", "touch /run/hotmount/x", "touch /mnt/disks/x", "rmdir " + where, "systemctl --no-ask-password start hotmount-unmount@x",
		"sh -c 'echo whole\\|ACTION=add\\|SUBSYSTEM=block\\|DEVTYPE=disk | perl /tmp/forge.pl 2>&1 | grep -q . && exit 1'",
	} {
		if out, err := m.Run(ctx(t), user+try+" </dev/null 2>&1"); err == nil {
			t.Errorf("a local user could %s: %s", try, out)
		}
	}
	if got := m.run("stat -c '%a %U' /var/lib/hotmount; find /run/hotmount -type s ! -perm 600; findmnt -no TARGET " + where); got != "700 root\n"+where {
		t.Errorf("what a local user finds: %s", got)
	}

	// A tenant's filesystem: a label that is no text, a program that is another user's, a device node.
	hostile := filepath.Join(t.TempDir(), "hostile.raw")
	if err := worker.NewDisk(hostile, 320<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx(t), "mke2fs", "-q", "-t", "ext4", "-L", "\x1b[2J\n../x", hostile).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	tenant, _ := m.attach(w, worker.Disk{File: hostile, Serial: "TENANT"})
	at := "/mnt/disks/" + m.mounted(tenant)
	m.run("cp /usr/bin/id " + at + "/id; chmod 4755 " + at + "/id; mknod -m 666 " + at + "/vda b $(stat -c '0x%t 0x%T' /dev/vda)")
	if got := m.run(user + at + "/id -u; " + user + "head -c 1 " + at + "/vda 2>&1 || true"); !strings.HasPrefix(got, "65534\n") || !strings.Contains(got, "Permission denied") {
		t.Errorf("from a tenant's filesystem: %s", got)
	}
	if got := m.run("{ hotmount plan -v; hotmount status; journalctl -b -o cat --no-pager -u hotmount -u 'mnt-disks-*.mount'; } | cat"); strings.Contains(got, "\x1b") {
		t.Errorf("a label is shown as it is:\n%q", got)
	}

	// A mistaken administrator: a file that others can write, and a class that has every disk.
	m.run("echo 'format_present: true' >/etc/hotmount/config.yaml; chmod 666 /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.says("cannot reload.*config.yaml.*writable")
	m.run("chmod 644 /etc/hotmount/config.yaml; chown nobody /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.says("cannot reload.*config.yaml.*root")
	m.run(`printf 'format_present: true\nsettle: 0s\nclasses:\n  - name: all\n    names: ["vd*"]\n    directory: /mnt/disks\n    blank: unsigned\n' >/etc/hotmount/config.yaml
chown root /etc/hotmount/config.yaml; systemctl restart hotmount`)
	m.wait("the system disk to be ignored", "hotmount plan | grep -q '^vda .*ignore .*system'")
	if got := m.run("cat /etc/hotmount/config.yaml | head -n 1; hotmount history | grep -c made || true; systemctl is-active hotmount"); got != "format_present: true\n0\nactive" {
		t.Errorf("with every disk selected: %s", got)
	}
}
