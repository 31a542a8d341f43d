//go:build vm && (long || full)

package system

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestTrim: what was deleted is given back to the host, only after 24 hours in use,
// whoever made the filesystem, and not where it is switched off.
func TestTrim(t *testing.T) {
	m, w := start(t, worker.Options{})
	if got := m.run("systemctl is-active hotmount-trim.timer; systemctl is-enabled hotmount-trim.timer"); got != "active\nenabled" {
		t.Errorf("the timer is %s", got)
	}
	if got := m.run("systemctl show -p Unit --value hotmount-trim.timer; next=$(date -d \"$(systemctl show -p NextElapseUSecRealtime --value hotmount-trim.timer)\" +%s) && [ $((next - $(date +%s))) -le $((9 * 3600 + 600)) ]"); got != "hotmount-trim.service" {
		t.Errorf("the timer starts %s", got)
	}
	own := blank(t, gib)
	x, xID := m.attach(w, worker.Disk{File: own, Serial: "TRIM-X"})
	xfs := m.mounted(x)
	foreign := blank(t, gib)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", foreign).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, _ := m.attach(w, worker.Disk{File: foreign, Serial: "TRIM-E"})
	ext4 := m.mounted(e)
	kept := made(t, gib)
	k, _ := m.attach(w, worker.Disk{File: kept, Serial: "TRIM-NO", Device: map[string]any{"discard": false}})
	m.run("[ $(cat /sys/block/" + k + "/queue/discard_max_bytes) = 0 ]")
	for _, uuid := range []string{xfs, ext4, m.mounted(k)} {
		m.run(fmt.Sprintf("cd /mnt/disks/%s && head -c 200M /dev/urandom >f && sync && rm f && sync && chown 1000 . && chmod 0700 .", uuid))
	}
	const most, least = 150 * mib, 190 * mib
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Fatalf("the images take %d and %d before", a, b)
	}

	m.run("systemctl start hotmount-trim")
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Errorf("young, the one takes %d, the one made elsewhere %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
	}
	// All of a day but a moment passes in the record, and the rest on the clock: less
	// than that between two runs is not enough.
	m.run(`systemctl start hotmount-trim; sed -i -E 's/"ran": [0-9]+/"ran": 86370000000000/' /var/lib/hotmount/running.json; systemctl start hotmount-trim`)
	ran := m.run(`awk '{print int($1)}' /proc/uptime; grep -c '"ran": 863[789]' /var/lib/hotmount/running.json`)
	if a, b := used(t, own), used(t, foreign); a < least || b < least || !strings.HasSuffix(ran, "\n3") {
		t.Errorf("less than a day in use, and they take %d and %d; %s", a, b, m.run("cat /var/lib/hotmount/running.json"))
	}
	uptime, _, _ := strings.Cut(ran, "\n")
	m.wait("the rest of the day", "[ $(awk '{print int($1)}' /proc/uptime) -gt $(("+uptime+" + 30)) ]")
	m.run("echo 'trim: false' >/etc/hotmount/config.yaml; systemctl reload hotmount; systemctl start hotmount-trim")
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Errorf("after a day, switched off, they take %d and %d", a, b)
	}
	// The timer's own time comes. What it takes by chance, and may be late, is set aside:
	// systemd takes three hours at most of it anew when the clock is set past the time.
	m.run(`mkdir -p /run/systemd/system/hotmount-trim.timer.d; printf '[Timer]\nRandomizedDelaySec=0\nAccuracySec=1s\n' >/run/systemd/system/hotmount-trim.timer.d/test.conf; systemctl daemon-reload`)
	ended := "systemctl show -P ExecMainExitTimestampMonotonic hotmount-trim"
	last := m.run(ended)
	m.run("rm /etc/hotmount/config.yaml; systemctl reload hotmount; date -s \"$(systemctl show -P NextElapseUSecRealtime hotmount-trim.timer)\"")
	m.wait("the timer to have it trimmed", "! systemctl is-active hotmount-trim | grep activating && [ $("+ended+") != "+last+" ]")
	if a, b := used(t, own), used(t, foreign); a > most || b > most {
		t.Errorf("after a day they take %d and %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
	}
	if got := used(t, kept); got < least {
		t.Errorf("of a disk that can not discard %d are left", got)
	}
	if got := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(xfs))); !strings.Contains(got, "trimmed: ") {
		t.Errorf("the unit's story: %s", got)
	}
	if got := m.run("systemctl start hotmount-trim; journalctl -b --no-pager -o cat -u hotmount-trim | grep -c 'trimmed: /mnt'"); got != "2" {
		t.Errorf("trimmed %s times, want once for each", got)
	}

	// A growth that fails is not only in the journal.
	tool := m.run("command -v xfs_growfs")
	m.run("mount --bind /bin/false " + tool)
	m.resize(w, xID, gib+gib/2)
	m.wait("the failure to be shown", "hotmount status | tr -s '\n ' ' ' | grep '"+x+" is mounted: it is mounted, and its filesystem could not be grown to fill it: .*systemctl start hotmount-grow@'")
	m.run("umount " + tool + "; $(hotmount status | tr -s '\n ' ' ' | grep -o 'systemctl start hotmount-grow@[0-9]*')")
	m.takes(xfs, gib+gib/2-130*mib)
	m.wait("the failure to be over", "! hotmount status | grep 'could not be made'")
}
