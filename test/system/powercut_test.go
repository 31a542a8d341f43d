//go:build vm && (long || full)

package system

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestPowerCutAfterGrowth: of an XFS that has just grown only the log knows. Debian 12's
// kernel fails in the first recovery of what was written to new allocation groups, and
// after that of a growth of the last one, which ends well, it shuts the filesystem down
// once the new space is used. Both happen before the filesystem is mounted in its place;
// there it works, with its data.
func TestPowerCutAfterGrowth(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + growConfig + "X\nsystemctl reload hotmount")
	// The log is all that knows of it for as long as the test lasts (xfs_log_worker).
	m.run("modprobe xfs; sysctl -q -w fs.xfs.xfssyncd_centisecs=720000")
	const eighth = gib / 8
	grown := []struct {
		serial   string
		from, to int64
		written  bool
	}{
		{"GROUPS", gib, 3 * gib, true},
		{"WRITTEN", gib + eighth, gib + 2*eighth, true},
		{"QUIET", gib + eighth, gib + 2*eighth, false},
	}
	var uuids, sums []string
	for _, g := range grown {
		name, id := m.attach(w, worker.Disk{File: made(t, g.from), Serial: g.serial})
		uuid := m.mounted(name)
		m.run("echo before >/mnt/disks/" + uuid + "/data; sync")
		m.resize(w, id, g.to)
		m.takes(uuid, g.to-150*mib)
		uuids = append(uuids, uuid)
	}
	// A directory goes into the next allocation group, and its files with it.
	const write = "cd /mnt/disks/%s; for i in {1..40}; do mkdir %s$i; head -c 256K /dev/urandom >%[2]s$i/f; done; sync; "
	for i, g := range grown {
		if g.written {
			m.run(fmt.Sprintf(write, uuids[i], "old"))
		}
		sums = append(sums, m.run("cd /mnt/disks/"+uuids[i]+"; sync; find . -type f | sort | xargs sha256sum"))
	}
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mounts", fmt.Sprintf("systemctl is-active -q hotmount && [ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = %d ]", len(grown)))
	if n := m.count("Finished.*hotmount-stage@"); n != len(grown) {
		t.Errorf("%d filesystems were mounted elsewhere first, want %d", n, len(grown))
	}
	since := m.run("date +%s.%N")
	for i, uuid := range uuids {
		if got := m.run("cd /mnt/disks/" + uuid + "; find . -type f | sort | xargs sha256sum"); got != sums[i] {
			t.Errorf("%s: after the power cut there is\n%s\nand there was\n%s", grown[i].serial, got, sums[i])
		}
		m.takes(uuid, grown[i].to-150*mib)
		m.run(fmt.Sprintf(write, uuid, "new") + "rm -rf old*; sync; touch after; sync")
	}
	if got := m.run("journalctl -b -k --no-pager -o cat --since @" + since + " | grep XFS || true"); got != "" {
		t.Errorf("the kernel says: %s", got)
	}
	if got := m.run("systemctl show -p StatusText --value hotmount"); !strings.HasPrefix(got, fmt.Sprint(len(grown), " mounted, 0 held, 0 refused, 0 failing")) {
		t.Errorf("the daemon says: %s", got)
	}
	if n := m.count(`mnt-disks-.*(Failed with result|ended "failed")`); n != 0 {
		t.Errorf("%d mounts have failed", n)
	}
}

// ownOrders puts what obedient records on a filesystem of its own, and has the
// system's write by itself nothing for an hour: an ext4 that is told to make one
// file durable makes all durable that was written before, and with it the intent
// of a daemon that did not wait for that.
func (m machine) ownOrders(w *worker.Worker) {
	m.t.Helper()
	image := blank(m.t, 64<<20)
	if out, err := exec.CommandContext(ctx(m.t), "mkfs.ext4", "-q", "-F", "-L", "orders", image).CombinedOutput(); err != nil {
		m.t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	m.run("echo 'LABEL=orders /var/lib/orders ext4 defaults 0 0' >>/etc/fstab; sync")
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "ORDERS"})
	m.wait("the orders' disk", "udevadm settle; [ -e /dev/disk/by-label/orders ] && mount /var/lib/orders")
	m.run("findmnt -n /dev/" + name + "; sync; mount -o remount,commit=3600 /; findmnt -no OPTIONS / | grep commit=3600")
}

// TestPowerCutDuringMkfs: the power goes after each of mkfs.xfs's writes.
func TestPowerCutDuringMkfs(t *testing.T) {
	m, w := obedientWorker(t)
	writes, super := m.mkfsWrites(w)
	m.ownOrders(w)
	last := "s" + writes[len(writes)-1]
	others := []string{"s0", "s" + writes[super]}
	for _, at := range writes[:len(writes)-1] {
		others = append(others, "s"+at)
	}
	orders := []string{last, others[chance(t).IntN(len(others))]}
	if full {
		orders = append(others, last)
	}
	begun := 0
	for some := range slices.Chunk(orders, 8) { // each costs a boot
		victims := m.victims(w, begun, some...)
		begun += len(some)
		for _, v := range victims {
			m.stopped(v)
		}
		if err := w.PowerCut(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if err := w.PowerOn(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.run("mount -o remount,commit=3600 /")
		for _, v := range victims {
			m.byName(&v)
			runs := 2
			if v.order == last {
				runs = 1
			}
			t.Log(m.whole(v, runs))
			// What was written down before the power went is still there.
			if got := m.run("hotmount history | grep -c " + m.mounted(v.name) + " || true"); got == "0" {
				t.Errorf("%s: the history does not know it", v.order)
			}
		}
		m.forget(w, victims)
	}
}
