//go:build vm && (long || full)

package system

import (
	"fmt"
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
