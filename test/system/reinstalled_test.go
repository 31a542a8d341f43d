//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestReinstalled: a new system mounts the disks of the old one at the same paths
// and formats none; those of a machine that went down with a busy pod need no
// recovery. What is not there any more is listed as missing.
func TestReinstalled(t *testing.T) {
	one, two := made(t, 320<<20), made(t, 320<<20)
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	first := m.mounted(name)
	name, gone := m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	second := m.mounted(name)
	m.run("echo one >/mnt/disks/" + first + "/f; echo two >/mnt/disks/" + second + "/f")
	m.run("systemd-run -q --unit=pod sh -c 'exec unshare --mount --propagation private sh -c \"exec 3>/mnt/disks/" + first + "/open; while :; do date >&3; sleep 0.1; done\"'")
	m.wait("the pod", "[ -s /mnt/disks/"+first+"/open ]")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	serial, err := w.Serial()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(serial) {
		if strings.Contains(line, "Failed unmounting /mnt") || strings.Contains(line, "timed out") {
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
	m.says("missing: xfs " + second + ".*serial TWO.*hotmount forget " + second)
	if got := m.run("hotmount status | grep -A 9 '^missing: xfs " + second + "'; hotmount status -o json | grep '\"serial\": \"TWO\"'; hotmount forget " + second + "; hotmount status | grep missing: || true"); !strings.Contains(got, "hotmount forget "+second) || !strings.HasSuffix(got, "listed as missing no more") {
		t.Errorf("what is missing in the status, and forgotten: %s", got)
	}
	if got := m.run("journalctl -b -k -o cat --no-pager | grep -c 'Starting recovery' || true"); got != "0" {
		t.Errorf("%s filesystems needed recovery", got)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}

	m, w = start(t, worker.Options{})
	m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	m.wait("both mounts", "findmnt /mnt/disks/"+first+" && findmnt /mnt/disks/"+second)
	if got := m.run("cat /mnt/disks/" + first + "/f /mnt/disks/" + second + "/f; hotmount history | grep -c xfs || true"); got != "one\ntwo\n0" {
		t.Errorf("on the new system: %s", got)
	}
}
