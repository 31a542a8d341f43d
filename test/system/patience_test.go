//go:build vm && full

package system

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestRepairedLate: a damaged filesystem is tried eight times more, which takes some
// minutes, and no more; one that is repaired after that is mounted at once, for the
// repair is a write.
func TestRepairedLate(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.detach(w, id)
	// The header of the first inodes, as in TestDamaged.
	good := make([]byte, 512)
	f, err := os.Open(image)
	if err == nil {
		_, err = f.ReadAt(good, 1024)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	scribble(t, image, 1024, 512)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	tried := func() string {
		return m.run("journalctl -b -u hotmount -o cat --no-pager | grep -c '^/dev/" + name + " .*tried again in' || true")
	}
	m.waits(8, "the last try", "journalctl -b -u hotmount -o cat --no-pager | grep '^/dev/"+name+" .*not tried again until the disk changes'")
	if got := tried(); got != "8" {
		t.Errorf("tried again %s times", got)
	}
	// Looks are no tries.
	mounting := "journalctl -b -o cat --no-pager _PID=1 | grep -c '^Mounting .*" + uuid + "'"
	before := m.run(mounting)
	m.run("for i in 1 2 3; do udevadm trigger -s block; udevadm settle; done; hotmount plan | grep '^" + name + " '")
	m.wait("its failure to be shown", "hotmount status | grep '^"+name+" .* failed '")
	if got := m.run(mounting); got != before {
		t.Errorf("it was tried %s times, and is %s", before, got)
	}
	if err := m.Write(ctx(t), "/root/agi", good, 0o600); err != nil {
		t.Fatal(err)
	}
	m.run("dd if=/root/agi of=/dev/" + name + " bs=512 seek=2 conv=notrunc,fsync status=none")
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}

// TestSlowRecovery: a log that takes longer to be replayed than systemd waits for
// anything by default is waited for, tried once, and holds nobody else back.
func TestSlowRecovery(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 1<<30)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "DIRTY"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	// In the log and not yet in its place.
	m.run("mkdir " + where + "/d; cd " + where + "/d; for i in $(seq 20); do seq -f \"$i-%g\" 1000 | xargs touch; sync -f .; done; ls | wc -l")
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.detach(w, id)
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon", "systemctl is-active hotmount")
	m.run("systemctl stop hotmount")
	name, id = m.attach(w, worker.Disk{File: image, Serial: "DIRTY"})
	m.run("udevadm settle")
	throttle(t, w, id+"/virtio-backend", 64<<10, 64<<10)
	m.run("systemctl start --no-block hotmount")
	kernel := func(what string) string {
		return "journalctl -b -k -o short-monotonic --no-pager | sed -nE 's/^\\[ *([0-9]+)\\..*XFS \\(" + name + "\\): " + what + ".*/\\1/p' | grep ."
	}
	m.waits(5, "the recovery", kernel("Starting recovery"))
	usual, err := strconv.Atoi(m.run("systemctl show -P DefaultTimeoutStartUSec | sed 's/1min 30s/90/'"))
	if err != nil {
		t.Fatal(err)
	}
	throttle(t, w, id+"/virtio-backend", 8<<10, 8<<10)
	m.wait("the daemon, which does not wait for it", "systemctl is-active hotmount")
	other, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "QUICK"})
	m.mounted(other)
	start := m.run(kernel("Starting recovery"))
	m.waits(5, "longer than systemd's own patience", fmt.Sprintf("[ $(cut -d. -f1 /proc/uptime) -gt $((%s + %d)) ]", start, usual+10))
	if got := m.run("systemctl show -P ActiveState " + quote(unitOf(uuid)) + "; hotmount status | grep '^" + name + " '"); !strings.HasPrefix(got, "activating\n") || strings.Contains(got, "failed") {
		t.Fatalf("while the log is replayed: %s\n%s", got, m.run("journalctl -b --no-pager | tail -n 50"))
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.waits(3, "the mount", "findmnt "+where)
	t.Logf("the recovery began at %s s and ended at %s s", start, m.run(kernel("Ending recovery")))
	if got := m.run("ls " + where + "/d | wc -l"); got != "20000" {
		t.Errorf("%s files of 20000", got)
	}
	once := func() {
		t.Helper()
		if got := m.run("journalctl -b -o cat --no-pager | grep -iE 'timed out|tried again' || true; journalctl -b -o cat --no-pager _PID=1 | grep -c '^Mounting .*" + uuid + "'"); got != "1" {
			t.Errorf("the mount: %s", got)
		}
	}
	once()

	// So at a boot, where kubelet waits for it if READY is told to.
	m.run(kubelet + "; mkdir -p /etc/systemd/system/hotmount.service.d; printf '[Service]\\nExecStartPre=/bin/sh -c \"until [ -e /run/throttled ]; do sleep 0.1; done\"\\n' >/etc/systemd/system/hotmount.service.d/throttled.conf; echo 'ready_timeout: 10m' >/etc/hotmount/config.yaml; sync")
	m.run("cd " + where + "/d; for i in $(seq 21 40); do seq -f \"$i-%g\" 1000 | xargs touch; sync -f .; done")
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	throttle(t, w, id+"/virtio-backend", 64<<10, 64<<10)
	name = m.run("udevadm settle; touch /run/throttled; basename $(readlink -f /dev/disk/by-uuid/" + uuid + ")")
	m.waits(5, "the recovery at boot", kernel("Starting recovery"))
	throttle(t, w, id+"/virtio-backend", 8<<10, 8<<10)
	m.waits(5, "longer than READY and systemd wait by themselves", fmt.Sprintf("[ $(cut -d. -f1 /proc/uptime) -gt $((%s + %d)) ]", m.run(kernel("Starting recovery")), usual+10))
	if got := m.run("systemctl show -P ActiveState " + quote(unitOf(uuid)) + " hotmount kubelet; [ ! -e /root/kubelet-saw ]"); strings.Join(strings.Fields(got), " ") != "activating activating inactive" {
		t.Errorf("while the log is replayed at boot: %s", got)
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.waits(3, "kubelet", "systemctl is-active kubelet")
	if got := m.run("grep -x " + where + " /root/kubelet-saw; ls " + where + "/d | wc -l"); got != where+"\n40000" {
		t.Errorf("kubelet saw %s", got)
	}
	once()
}

// TestShutDownWhileItRests: no event tells of it, and it is found within ten minutes by the daemon as it is
// installed, which looks at no disk for an hour.
func TestShutDownWhileItRests(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.run("sleep 5; xfs_io -x -c shutdown /mnt/disks/" + uuid)
	m.run("sleep 300") // a script may take ten minutes
	m.run("for i in $(seq 70); do journalctl -b -u hotmount -o cat --no-pager | grep -q '^/dev/" + name + " .*the kernel has shut it down' && exit 0; sleep 5; done; exit 1")
}
