//go:build vm && full

package system

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestNoCapabilityTooMany: each unit that works for the daemon fails, or does less,
// without any of its capabilities, and does its work with all of them; and a disk
// that a unit's sandbox bars is told from one that has a fault.
func TestNoCapabilityTooMany(t *testing.T) {
	m, w := start(t, worker.Options{})
	x, xID := m.attach(w, worker.Disk{File: made(t, gib), Serial: "CAP-X"})
	xfs := m.mounted(x)
	image := blank(t, gib)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, eID := m.attach(w, worker.Disk{File: image, Serial: "CAP-E"})
	ext4 := m.mounted(e)

	// given changes a unit's sandbox until the next change; "" is the shipped one.
	given := func(unit, lines string) {
		t.Helper()
		dir := "/run/systemd/system/" + unit + ".d"
		script := "rm -rf " + dir
		if lines != "" {
			// At once: PID 1 reads it anew for each disk, also just now.
			script = "mkdir -p " + dir + "; printf '[Service]\\n" + lines + "' >" + dir + "/new; mv " + dir + "/new " + dir + "/sandbox.conf"
		}
		m.run(script + "; systemctl daemon-reload")
	}
	// all are a unit's capabilities.
	all := func(unit string) []string {
		t.Helper()
		return strings.Fields(m.run("sed -n 's/^CapabilityBoundingSet=//p' /lib/systemd/system/" + unit))
	}
	// without gives the lines for all but one of them.
	without := func(unit, capability string) string {
		var rest []string
		for _, c := range all(unit) {
			if c != capability {
				rest = append(rest, c)
			}
		}
		return "CapabilityBoundingSet=\\nCapabilityBoundingSet=" + strings.Join(rest, " ") + "\\n"
	}

	// needsEach has the unit work for two disks, without each of its capabilities and
	// with all; did gives for how many it has.
	needsEach := func(unit string, did func() int) {
		t.Helper()
		for _, capability := range all(unit) {
			given(unit, without(unit, capability))
			n := did()
			t.Logf("%s without %s: %d of 2 have grown", unit, capability, n)
			if n == 2 {
				t.Errorf("%s does its work without %s", unit, capability)
			}
		}
		given(unit, "")
		if n := did(); n != 2 {
			t.Errorf("%s: %d of 2 have grown: %s", unit, n, m.run("journalctl -b --no-pager -u "+quote(strings.Replace(unit, "@", "@*", 1))+" | tail -n 30"))
		}
	}

	// A disk whose unit may not open it. It was not touched, and is made when the
	// sandbox is as it was.
	const format = "hotmount-format@.service"
	given(format, "DeviceAllow=\\n")
	barred, _ := m.attach(w, worker.Disk{File: blank(t, 320*mib), Serial: "BARRED"})
	m.says("/dev/" + barred + `: cannot open .*: operation not permitted: that is the sandbox of hotmount-format@[0-9]+\.service and no fault of the disk`)
	for _, capability := range all(format) {
		given(format, without(format, capability))
		m.run("systemctl reload hotmount")
		m.says("/dev/" + barred + ": cannot make a filesystem .*mkfs.xfs")
	}
	given(format, "")
	m.run("hotmount accept " + barred)
	m.mounted(barred)

	// The root directories are a pod's own, and only one who may everything opens them.
	m.run("systemctl stop hotmount; cd /mnt/disks; chown 1000:1000 " + xfs + " " + ext4 + "; chmod 0700 " + xfs + " " + ext4)
	const grow = "hotmount-grow@.service"
	size := int64(gib)
	grown := func() int {
		t.Helper()
		size += gib
		m.resize(w, xID, size)
		m.resize(w, eID, size)
		m.wait("the kernel to see the sizes", fmt.Sprintf("[ $(cat /sys/block/%s/size /sys/block/%s/size | grep -cx %d) = 2 ]", x, e, size/512))
		n, err := strconv.Atoi(m.run(fmt.Sprintf(`n=0
for d in %s %s; do
	systemctl start hotmount-grow@$(cat /sys/block/$d/diskseq) || true
	if stat -f -c '%%b %%S' $(findmnt -no TARGET /dev/$d) | awk '{ exit !($1 * $2 >= %d) }'; then n=$((n + 1)); fi
done 2>/dev/null; echo $n`, x, e, size-300*mib)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	needsEach(grow, grown)

	// Those of two disks that nobody has mounted.
	const stage = "hotmount-stage@.service"
	image = blank(t, gib)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "root_owner=1000:1000", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("debugfs", "-w", "-R", "set_inode_field / mode 040700", image).CombinedOutput(); err != nil {
		t.Fatalf("debugfs: %v: %s", err, out)
	}
	sx, sxID := m.attach(w, worker.Disk{File: made(t, gib), Serial: "STAGE-X"})
	se, seID := m.attach(w, worker.Disk{File: image, Serial: "STAGE-E"})
	size = gib
	staged := func() int {
		t.Helper()
		size += gib
		m.resize(w, sxID, size)
		m.resize(w, seID, size)
		m.wait("the kernel to see the sizes", fmt.Sprintf("[ $(cat /sys/block/%s/size /sys/block/%s/size | grep -cx %d) = 2 ]", sx, se, size/512))
		m.run(fmt.Sprintf("for d in %s %s; do systemctl start hotmount-stage@$(cat /sys/block/$d/diskseq) || true; done; sync", sx, se))
		n, err := strconv.Atoi(m.run(fmt.Sprintf(`{ xfs_db -r -c 'sb 0' -c 'print dblocks' /dev/%s; dumpe2fs -h /dev/%s 2>/dev/null; } | sed -nE 's/^(dblocks =|Block count:) *//p' | grep -cx %d || true`, sx, se, size/4096)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	needsEach(stage, staged)
	m.detach(w, sxID)
	m.detach(w, seID)

	const trim = "hotmount-trim.service"
	// A day passes in the record.
	m.run("systemctl start " + trim + `; sed -i -E 's/"ran": [0-9]+/"ran": 86400000000000/' /var/lib/hotmount/running.json; grep '"ran": 86400000000000' /var/lib/hotmount/running.json`)
	for _, capability := range all(trim) {
		given(trim, without(trim, capability))
		m.run("! systemctl start " + trim)
	}
	given(trim, "")
	m.run("systemctl start " + trim)

	// A disk that is pulled while somebody uses it.
	const unmount = "hotmount-unmount@.service"
	at := "/mnt/disks/" + ext4
	m.run("systemd-run -q --unit=holder sh -c 'cd " + at + " && exec sleep infinity'; systemctl start hotmount")
	m.wait("the holder", "[ $(readlink /proc/$(systemctl show -p MainPID --value holder)/cwd) = "+at+" ]")
	device := m.run("findmnt -no MAJ:MIN " + at)
	given(unmount, without(unmount, "CAP_SYS_ADMIN"))
	if err := w.DetachSurprise(ctx(t), eID); err != nil {
		t.Fatal(err)
	}
	m.says("cannot unmount " + at + " lazily: operation not permitted")
	given(unmount, without(unmount, "CAP_SYS_PTRACE"))
	m.run("systemctl start " + quote("hotmount-unmount@"+strings.TrimSuffix(unitOf(ext4), ".mount")+":"+device+".service") + "; ! findmnt " + at)
	m.says(at + " was taken off the tree: .*still used by")
	if got := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(ext4))); strings.Contains(got, "(sleep)") {
		t.Errorf("the user is named without CAP_SYS_PTRACE: %s", got)
	}

	at = "/mnt/disks/" + xfs
	m.run("systemd-run -q --unit=other-holder sh -c 'cd " + at + " && exec sleep infinity'")
	m.wait("the other holder", "[ $(readlink /proc/$(systemctl show -p MainPID --value other-holder)/cwd) = "+at+" ]")
	given(unmount, without(unmount, "CAP_DAC_READ_SEARCH"))
	if err := w.DetachSurprise(ctx(t), xID); err != nil {
		t.Fatal(err)
	}
	m.says("cannot shut down the filesystem of .*: permission denied")
}
