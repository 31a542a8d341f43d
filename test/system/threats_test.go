//go:build vm && (long || full)

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
	// Where the daemon may write: it is the symlink that stops it, not its sandbox.
	const victim = "/mnt/disks/.victim"
	m.run("mkdir " + victim + "; ln -s " + victim + " " + where + "; ln -s " + victim + " /mnt/disks/." + uuid)
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "LED"})
	m.says("/dev/" + name + " .*cannot make the mount point " + where + ".*(not a directory|too many levels)")
	if got := m.run("ls -A " + victim + "; lsattr -d " + victim + " | cut -c5; findmnt -n /dev/" + name + " || true"); got != "-" {
		t.Errorf("led elsewhere: %s", got)
	}
	m.run("rm -f " + where + " /mnt/disks/." + uuid + "; rmdir " + victim + "; systemctl reload hotmount")
	m.mounted(name)

	// A tenant's filesystem, and a copy of it: a label that is no text, a program that
	// is another user's, a device node.
	hostile := filepath.Join(t.TempDir(), "hostile.raw")
	if err := worker.NewDisk(hostile, 320<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx(t), "mke2fs", "-q", "-t", "ext4", "-L", "\x1b[2J\n\u009b2m\u202e../", hostile).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	copied := copyOf(t, hostile)
	tenant, _ := m.attach(w, worker.Disk{File: hostile, Serial: "TENANT"})
	at := "/mnt/disks/" + m.mounted(tenant)
	twin, _ := m.attach(w, worker.Disk{File: copied, Serial: "TWIN"})
	m.says("/dev/" + twin + " .*refuse: ")
	const user = "setpriv --reuid=65534 --regid=65534 --clear-groups "
	m.run("cp /usr/bin/id " + at + "/id; chmod 4755 " + at + "/id; mknod -m 666 " + at + "/vda b $(stat -c '0x%t 0x%T' /dev/vda)")
	if got := m.run(user + at + "/id -u; " + user + "head -c 1 " + at + "/vda 2>&1 || true"); !strings.HasPrefix(got, "65534\n") || !strings.Contains(got, "Permission denied") {
		t.Errorf("from a tenant's filesystem: %s", got)
	}
	shown := m.run(strings.ReplaceAll("{ hotmount format TWIN; hotmount explain TWIN; hotmount explain TWIN --facts; hotmount plan -v; hotmount status; hotmount status -o json; hotmount status -o yaml; journalctl -b -o cat --no-pager -u hotmount -u 'mnt-disks-*.mount'; } 2>&1 | cat", "TWIN", twin))
	if strings.ContainsAny(shown, "\x1b\u009b\u202e") {
		t.Errorf("a label is shown as it is:\n%q", shown)
	}
	for _, visible := range []string{`label \x1b[2J\n\u009b2m\u202e../`, `\u001b[2J\n\u009b2m\u202e../`} {
		if !strings.Contains(shown, visible) {
			t.Errorf("nothing shows a label, as %s:\n%s", visible, shown)
		}
	}

	// A local user reaches neither socket nor state, and can forge no event; root can
	// do each of that, in this order.
	if err := m.Write(ctx(t), "/tmp/forge.pl", []byte(forge), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, try := range []string{
		"hotmount release " + name, "hotmount accept " + name, "hotmount format " + twin,
		"ls /var/lib/hotmount", "touch /run/hotmount/x", "touch /mnt/disks/x", "systemctl --no-ask-password restart hotmount-tidy",
		"sh -c '! echo whole\\|ACTION=add\\|SUBSYSTEM=block\\|DEVTYPE=disk | perl /tmp/forge.pl 2>&1 | grep -q .'",
	} {
		if out, err := m.Run(ctx(t), user+try+" </dev/null 2>&1"); err == nil {
			t.Errorf("a local user could %s: %s", try, out)
		}
		if out, err := m.Run(ctx(t), try+" </dev/null 2>&1"); err != nil {
			t.Errorf("not even root could %s: %v: %s", try, err, out)
		}
	}
	m.mounted(name)
	if got := m.run("rm /run/hotmount/x /mnt/disks/x; stat -c '%a %U' /var/lib/hotmount; find /run/hotmount -type s ! -perm 600; findmnt -no TARGET " + where); got != "700 root\n"+where {
		t.Errorf("what a local user finds: %s", got)
	}

	// A pod that does not see the mount takes its directory away, and with it the mount
	// on the host, but for the flag.
	unseen := func(where, try string) string {
		return m.run(strings.ReplaceAll("unshare -m --propagation private sh -c 'umount W; "+try+"' 2>&1 || true; findmnt -no TARGET W || true", "W", where))
	}
	if got := unseen(where, "rmdir W; mv W W.x; rm -rf W"); !strings.HasSuffix(got, "\n"+where) || strings.Count(got, "Operation not permitted") < 3 {
		t.Errorf("taken from where it is not seen: %s", got)
	}
	if got := unseen(at, "chattr -i W W/not-mounted; rm W/not-mounted; rmdir W"); got != "" {
		t.Errorf("without the flag it is not taken either: %s", got)
	}

	// A mistaken administrator: a file that others can write, and a class that has every disk.
	m.run("echo 'format_present: true' >/etc/hotmount/config.yaml; chmod 666 /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.says("cannot reload.*config.yaml.*writable")
	m.run("chmod 644 /etc/hotmount/config.yaml; chown nobody /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.says("cannot reload.*config.yaml.*root")
	m.run("mv /etc/hotmount/config.yaml /root; chmod 775 /etc/hotmount; systemctl reload hotmount")
	m.says("cannot reload.*/etc/hotmount: .*writable")
	m.run(`printf 'format_present: true\nsettle: 0s\nclasses:\n  - name: all\n    names: ["vd*"]\n    directory: /mnt/disks\n    blank: unsigned\n' >/etc/hotmount/config.yaml
chmod 755 /etc/hotmount; systemctl restart hotmount`)
	m.wait("the system disk to be ignored", "hotmount plan | grep -q '^vda .*ignore .*system'")
	if got := m.run("cat /etc/hotmount/config.yaml | head -n 1; hotmount history | grep -c made || true; systemctl is-active hotmount"); got != "format_present: true\n0\nactive" {
		t.Errorf("with every disk selected: %s", got)
	}
}
