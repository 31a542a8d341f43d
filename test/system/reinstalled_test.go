//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestReinstalled: a new system mounts the disks of the old one, which are there when
// hotmount is installed, at the same paths, and formats none, not the blank one either;
// those of a machine that went down with a busy pod need no recovery. What is not there
// any more is listed as missing.
func TestReinstalled(t *testing.T) {
	one, two := made(t, 320<<20), made(t, 320<<20)
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	first := m.mounted(name)
	name, gone := m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	second := m.mounted(name)
	slot := m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	m.run("echo one >/mnt/disks/" + first + "/f; echo two >/mnt/disks/" + second + "/f")
	// As a kubelet and a runtime have it: the volume bound for the pod, and its process in
	// a scope below kubepods.slice, which nothing orders against mounts, with the bind in a
	// mount namespace of its own. It takes its time to end, and writes until then.
	bind := "/var/lib/kubelet/pods/0e3b1b0a-1111-2222-3333-444444444444/volumes/kubernetes.io~local-volume/pv"
	m.run("mkdir -p " + bind + "; mount --bind /mnt/disks/" + first + " " + bind +
		"; setsid systemd-run --quiet --scope --unit=cri-containerd-pod --slice=kubepods-besteffort-pod0e3b1b0a_1111_2222_3333_444444444444.slice unshare --mount --propagation private" +
		" bash -c 'exec 3>" + bind + "/open; trap \"sleep 3; echo end; exit\" TERM; while :; do date; sync " + bind + "/open; sleep 0.1; done >&3' </dev/null >/dev/null 2>&1 &")
	m.wait("the pod", "[ -s "+bind+"/open ] && systemctl show -P ControlGroup cri-containerd-pod.scope | grep ^/kubepods.slice/")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	serial, err := w.Serial()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(serial) {
		if strings.Contains(line, "Failed unmounting") || strings.Contains(line, "timed out") {
			t.Errorf("the shutdown: %s", line)
		}
	}
	if err := w.Detach(ctx(t), gone); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+first)
	if got := m.run("tail -n 1 /mnt/disks/" + first + "/open; journalctl -b -1 -o cat --no-pager _PID=1 | grep -ciE 'Failed unmounting|timed out' || true; journalctl -b -1 -o cat --no-pager _PID=1 | grep -c '^Unmounted .*" + first + "' || true"); got != "end\n0\n1" {
		t.Errorf("the shutdown: %s", got)
	}
	m.says("missing: xfs " + second + ", on a disk of 320 MiB .*serial TWO.*" + slot + ".*attached without --persistent.*hotmount forget " + second)
	if got := m.run("hotmount status | grep -A 9 '^missing: xfs " + second + "'; hotmount status -o json | grep '\"serial\": \"TWO\"'; hotmount forget " + second + "; hotmount status | grep missing: || true"); !strings.Contains(got, "hotmount forget "+second) || !strings.HasSuffix(got, "listed as missing no more") {
		t.Errorf("what is missing in the status, and forgotten: %s", got)
	}
	if got := m.run("journalctl -b -k -o cat --no-pager | grep -c 'Starting recovery' || true"); got != "0" {
		t.Errorf("%s filesystems needed recovery", got)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}

	m, w = startAs(t, worker.Options{})
	m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	empty := blank(t, 320<<20)
	held, _ := m.attach(w, worker.Disk{File: empty, Serial: "BLANK"})
	before := digest(t, empty)
	m.run("udevadm settle")
	if err := w.Install(ctx(t), deb(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("both mounts", "findmnt /mnt/disks/"+first+" && findmnt /mnt/disks/"+second)
	m.says("/dev/" + held + " .*hold: .*attached before hotmount was installed")
	if got := m.run("cat /mnt/disks/" + first + "/f /mnt/disks/" + second + "/f; hotmount history | grep -c xfs || true; ls /mnt/disks | wc -l"); got != "one\ntwo\n0\n2" {
		t.Errorf("on the new system: %s", got)
	}
	m.untouched(held)
	if digest(t, empty) != before {
		t.Error("the blank disk was written to")
	}
}
