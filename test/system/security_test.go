//go:build vm

package system

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestThreats tries the threats for which packaging/doc/threat-model.md names TestThreats. The attackers are a pod that
// sees the class directory, a local user, a tenant's filesystem and a mistaken administrator. No attacker may gain
// anything. TestForgedEvents covers the forged events of a pod with the capability NET_ADMIN.
func TestThreats(t *testing.T) {
	m, w := start(t, worker.Options{})

	// A pod puts a symlink where a disk will be mounted, and a second symlink at the temporary name of the mount point.
	const uuid = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
	const where = "/mnt/disks/" + uuid
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-m", "uuid="+uuid, image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	// The daemon's sandbox allows writes to the directory /mnt/disks/.victim, to which the symlinks lead. The daemon
	// itself must refuse to follow the symlinks, because its sandbox does not prevent a write to the symlinks' target.
	const victim = "/mnt/disks/.victim"
	m.run("mkdir " + victim + "; ln -s " + victim + " " + where + "; ln -s " + victim + " /mnt/disks/." + uuid)
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "LED"})
	m.waitForLog("/dev/" + name + " .*cannot make the mount point " + where + ".*(not a directory|too many levels)")
	if got := m.run("ls -A " + victim + "; lsattr -d " + victim + " | cut -c5; findmnt -n /dev/" + name + " || true"); got != "-" {
		t.Errorf("the symlink was followed: %s", got)
	}
	m.run("rm -f " + where + " /mnt/disks/." + uuid + "; rmdir " + victim + "; systemctl reload hotmount")
	m.mounted(name)

	// A tenant's filesystem and its copy have a label that contains control characters. The tenant adds a setuid
	// program and a device node.
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
	m.waitForLog("/dev/" + twin + " .*refuse: ")
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
			t.Errorf("no output shows the label as %s:\n%s", visible, shown)
		}
	}

	// A local user cannot reach the socket or the state, and cannot forge an event. Root must be able to run each
	// command that fails for the local user, or the failure would prove nothing.
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

	// A pod whose mount namespace lacks the mount could remove the mount point's directory. The kernel would then also
	// remove the mount on the host. The immutable flag prevents the removal of the directory.
	unseen := func(where, try string) string {
		return m.run(strings.ReplaceAll("unshare -m --propagation private sh -c 'umount W; "+try+"' 2>&1 || true; findmnt -no TARGET W || true", "W", where))
	}
	if got := unseen(where, "rmdir W; mv W W.x; rm -rf W"); !strings.HasSuffix(got, "\n"+where) || strings.Count(got, "Operation not permitted") < 3 {
		t.Errorf("removed from a namespace without the mount: %s", got)
	}
	if got := unseen(at, "chattr -i W W/not-mounted; rm W/not-mounted; rmdir W"); got != "" {
		t.Errorf("without the flag it cannot be removed either: %s", got)
	}

	// A mistaken administrator has a configuration file that others can write, and a class that selects every disk.
	m.run("echo 'format_present: true' >/etc/hotmount/config.yaml; chmod 666 /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.waitForLog("cannot reload.*config.yaml.*only root can write")
	m.run("chmod 644 /etc/hotmount/config.yaml; chown nobody /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.waitForLog("cannot reload.*config.yaml.*root")
	m.run("mv /etc/hotmount/config.yaml /root; chmod 775 /etc/hotmount; systemctl reload hotmount")
	m.waitForLog("cannot reload.*/etc/hotmount: .*only root can write")
	m.run(`printf 'format_present: true\nsettle: 0s\nclasses:\n  - name: all\n    names: ["vd*"]\n    directory: /mnt/disks\n    blank: unsigned\n' >/etc/hotmount/config.yaml
chmod 755 /etc/hotmount; systemctl restart hotmount`)
	m.wait("the system disk to be ignored", "hotmount plan | grep -q '^vda .*ignore .*system'")
	if got := m.run("cat /etc/hotmount/config.yaml | head -n 1; hotmount history | grep -c made || true; systemctl is-active hotmount"); got != "format_present: true\n0\nactive" {
		t.Errorf("with a class that selects every disk: %s", got)
	}
}

// TestForgedEvents checks that hotmount trusts only the disks themselves, whatever events claim. Nothing is formatted,
// mounted or unmounted, and the daemon continues to run.
func TestForgedEvents(t *testing.T) {
	m, w := start(t, worker.Options{})
	c := randomSource(t)
	ours, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "OURS"})
	uuid := m.mounted(ours)
	data := withData(t, crashSize, 200<<20)
	foreign, _ := m.attach(w, worker.Disk{File: data, Serial: "FOREIGN"})
	m.waitForLog("^/dev/" + foreign + " .*refuse: ")
	// hotmount holds this blank disk because another disk has the same serial. Otherwise hotmount would format the
	// disk.
	held, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "OURS"})
	m.waitForLog("^/dev/" + held + " .*hold: ")
	before := digest(t, data)
	state := func() string {
		return m.run("systemctl show -p NRestarts -p MainPID hotmount; findmnt -rno ID,SOURCE,TARGET | grep -E ' /dev/vd' | sort; ls -A /mnt/disks; journalctl -b -o cat --no-pager | grep -c ': formatted'; hotmount history | grep -c made")
	}
	was := state()

	path := func(name string) string {
		p := m.run("readlink -f /sys/block/" + name)
		return strings.TrimPrefix(p, "/sys")
	}
	paths := map[string]string{"vda": path("vda"), ours: path(ours), foreign: path(foreign), held: path(held)}
	var frames []string
	for about, p := range paths {
		for says := range paths {
			seq := m.run("cat /sys/block/" + says + "/diskseq")
			for _, action := range []string{"add", "change", "remove", "move"} {
				for _, content := range []string{"", "|ID_FS_TYPE=xfs|ID_FS_USAGE=filesystem|ID_FS_UUID=" + uuid, "|ID_FS_TYPE=xfs|ID_FS_USAGE=filesystem|ID_FS_UUID=11111111-2222-4333-8444-555555555555"} {
					frames = append(frames, fmt.Sprintf("ACTION=%s|DEVPATH=%s|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=99999|DEVNAME=/dev/%s|DISKSEQ=%s|MAJOR=254|MINOR=0|USEC_INITIALIZED=1%s", action, p, says, seq, content))
				}
			}
		}
		frames = append(frames, "ACTION=add|DEVPATH=/devices/virtual/block/../../../../etc/passwd|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=1|DEVNAME=/dev/../etc/"+about,
			"ACTION=add|DEVPATH=/devices/virtual/block/vdzz|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=1|DEVNAME=/dev/vdzz|DISKSEQ=18446744073709551615",
			"ACTION=add|DEVPATH="+p+"|SUBSYSTEM=block|DEVTYPE=disk|DISKSEQ=-1|SEQNUM=1", "ACTION=|DEVPATH=|SUBSYSTEM=block|DEVTYPE=disk", "|=|==|SUBSYSTEM=block", "ACTION=add=|DEVPATH=a=b=c|ID_SERIAL==x")
	}
	var lines []string
	for _, how := range []string{"whole", "kernel", "cut", "lies", "huge", "noise"} {
		for _, frame := range frames {
			if full || c.IntN(4) == 0 {
				lines = append(lines, how+"|"+frame)
			}
		}
	}
	c.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if err := m.Write(ctx(t), "/root/forge.pl", []byte(forge), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(ctx(t), "/root/frames", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lost := "awk '$2 == 15 {lost += $9} END {print lost}' /proc/net/netlink"
	lostBefore := m.run(lost)
	if got := m.run("perl /root/forge.pl </root/frames 2>&1 | sort | uniq -c | head"); got != "" {
		t.Errorf("not all of %d frames were sent: %s", len(lines), got)
	}
	if got := m.run(lost); got != lostBefore {
		t.Errorf("listeners lost %s frames, and %s before", got, lostBefore)
	}
	// The daemon has received the forged events. If the daemon obeyed forged events, it would have acted by now.
	m.waitForLog("an event (could not be read|was too long)")
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '1 mounted, 1 held, 1 refused, 0 failing'")
	m.run("systemctl reload hotmount")
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '1 mounted, 1 held, 1 refused, 0 failing'")
	if now := state(); now != was {
		t.Errorf("after %d forged events:\n%s\nbefore:\n%s", len(lines), now, was)
	}
	m.checkUntouched(foreign)
	m.checkUntouched(held)
	if digest(t, data) != before {
		t.Error("the disk with data was written to")
	}
	// A true event still reaches the daemon.
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "NEW"})
	m.mounted(name)
}

// TestNoCapabilityTooMany checks six units that work for the daemon. If one capability of a unit is missing, the unit
// fails or does less. Each unit except hotmount-unmount@ also runs with all its capabilities, and then does its work.
// The journal shows whether a unit's sandbox denies access to a disk, or whether the disk has a fault.
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

	// The closure writes the lines to a drop-in that changes a unit's sandbox, and replaces an earlier drop-in. If the
	// parameter `lines` is empty, the closure restores the sandbox of the package.
	given := func(unit, lines string) {
		t.Helper()
		dir := "/run/systemd/system/" + unit + ".d"
		script := "rm -rf " + dir
		if lines != "" {
			// The drop-in is renamed into place when complete, because PID 1 may read it at any time for another disk's
			// unit.
			script = "mkdir -p " + dir + "; printf '[Service]\\n" + lines + "' >" + dir + "/new; mv " + dir + "/new " + dir + "/sandbox.conf"
		}
		m.run(script + "; systemctl daemon-reload")
	}
	// The closure returns the capabilities in the unit file of the package.
	all := func(unit string) []string {
		t.Helper()
		return strings.Fields(m.run("sed -n 's/^CapabilityBoundingSet=//p' /lib/systemd/system/" + unit))
	}
	// without(unit, capability) returns drop-in lines with which the unit has all its capabilities except the given
	// one.
	without := func(unit, capability string) string {
		var rest []string
		for _, c := range all(unit) {
			if c != capability {
				rest = append(rest, c)
			}
		}
		return "CapabilityBoundingSet=\\nCapabilityBoundingSet=" + strings.Join(rest, " ") + "\\n"
	}

	// needsEach runs the unit for two disks. In each run except the last, the unit lacks a different one of its
	// capabilities. The callback did() runs the unit, and returns the number of disks for which the unit did its work.
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

	// A drop-in forbids the formatting unit to open its disk. The disk remains untouched. The disk is formatted when
	// the package's sandbox is restored.
	const format = "hotmount-format@.service"
	given(format, "DeviceAllow=\\n")
	barred, _ := m.attach(w, worker.Disk{File: blank(t, 320*mib), Serial: "BARRED"})
	m.waitForLog("/dev/" + barred + `: cannot open .*: operation not permitted: this is a fault of the sandbox of hotmount-format@[0-9]+\.service, not of the disk`)
	m.checkUntouched(barred)
	for _, capability := range all(format) {
		given(format, without(format, capability))
		m.run("systemctl reload hotmount")
		m.waitForLog("/dev/" + barred + ": cannot make a filesystem .*mkfs.xfs")
	}
	given(format, "")
	m.run("hotmount accept " + barred)
	m.mounted(barred)

	// The filesystems' root directories belong to a pod's user, so the unit needs a capability to open the root
	// directories.
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

	// The test of hotmount-stage@ unmounts its two disks first.
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
	// hotmount grows a filesystem that was made elsewhere only after it has mounted the disk once.
	m.run("systemctl start hotmount")
	sxUUID, seUUID := m.mounted(sx), m.mounted(se)
	m.run("systemctl stop hotmount; grep -q " + sxUUID + " /var/lib/hotmount/filesystems.json && grep -q " + seUUID + " /var/lib/hotmount/filesystems.json; umount /mnt/disks/" + sxUUID + " /mnt/disks/" + seUUID)
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
	// The test records that each filesystem has been in use for 24 hours, so that hotmount-trim trims the filesystems.
	m.run("systemctl start " + trim + `; sed -i -E 's/"ran": [0-9]+/"ran": 86400000000000/' /var/lib/hotmount/running.json; grep '"ran": 86400000000000' /var/lib/hotmount/running.json`)
	for _, capability := range all(trim) {
		given(trim, without(trim, capability))
		m.run("! systemctl start " + trim)
	}
	given(trim, "")
	m.run("systemctl start " + trim)

	const options = "hotmount-options.service"
	m.run("printf 'classes:\\n- {name: default, directory: /mnt/disks, names: [\"vd[b-z]\"], options: [noatime, logbufs=8]}\\n' >/etc/hotmount/config.yaml; hotmount config check; systemctl restart hotmount")
	tried := func() string {
		t.Helper()
		return m.run("rm -f /run/hotmount/options.json; if ! systemctl start " + options + "; then echo failed; fi; if [ -e /run/hotmount/options.json ]; then cat /run/hotmount/options.json; fi")
	}
	for _, capability := range all(options) {
		given(options, without(options, capability))
		if got := tried(); strings.Contains(got, "logbufs=8") {
			t.Errorf("%s does its work without %s: %s", options, capability, got)
		}
	}
	given(options, "")
	if got := tried(); !regexp.MustCompile(`"[^"]*logbufs=8[^"]*": ""`).MatchString(got) {
		t.Errorf("%s: %s", options, got)
	}
	m.run("rm /etc/hotmount/config.yaml")

	// A disk is pulled while a process uses its filesystem.
	const unmount = "hotmount-unmount@.service"
	at := "/mnt/disks/" + ext4
	m.run("systemd-run -q --unit=holder sh -c 'cd " + at + " && exec sleep infinity'; systemctl start hotmount")
	m.wait("the holder", "[ $(readlink /proc/$(systemctl show -p MainPID --value holder)/cwd) = "+at+" ]")
	device := m.run("findmnt -no MAJ:MIN " + at)
	given(unmount, without(unmount, "CAP_SYS_ADMIN"))
	m.detach(w, eID)
	m.waitForLog("cannot unmount " + at + " lazily: operation not permitted")
	given(unmount, without(unmount, "CAP_SYS_PTRACE"))
	m.run("systemctl start " + quote("hotmount-unmount@"+strings.TrimSuffix(unitOf(ext4), ".mount")+":"+device+".service") + "; ! findmnt " + at)
	m.waitForLog(at + " was detached from the mount tree: .*but the filesystem was still in use; its users:")
	if got := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(ext4))); strings.Contains(got, "(sleep)") {
		t.Errorf("the user is named without CAP_SYS_PTRACE: %s", got)
	}

	at = "/mnt/disks/" + xfs
	m.run("systemd-run -q --unit=other-holder sh -c 'cd " + at + " && exec sleep infinity'")
	m.wait("the other holder", "[ $(readlink /proc/$(systemctl show -p MainPID --value other-holder)/cwd) = "+at+" ]")
	given(unmount, without(unmount, "CAP_DAC_READ_SEARCH"))
	m.detach(w, xID)
	m.waitForLog("cannot shut down the filesystem of .*: permission denied")
}

// TestDevicesInReach checks which disks a process in a unit's control group can open. In the daemon's control group a
// process can open no disk. In the formatting unit's control group a process can open only the disk of this unit.
func TestDevicesInReach(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=20s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount")
	one, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "ONE"})
	m.wait("the proof to run", "systemctl list-units 'hotmount-format@*' --no-legend | grep -q activating")
	// The script /root/open moves itself into a unit's control group. Then /root/open runs the script `reach`, which
	// tries to open disks.
	m.run(`cat >/usr/local/bin/reach <<'X'
for disk in vda ` + one + `; do
	for how in '<' '>>'; do if eval ": $how/dev/$disk" 2>/dev/null; then echo "$disk $how"; fi; done
done
echo that is all
X
echo 'echo $$ >/sys/fs/cgroup$(systemctl show -p ControlGroup --value "$1")/cgroup.procs && . /usr/local/bin/reach' >/root/open`)
	const none = "that is all"
	if got := m.run("bash /root/open hotmount.service"); got != none {
		t.Errorf("a process in the daemon's control group can open:\n%s", got)
	}
	want := one + " <\n" + one + " >>\n" + none
	if got := m.run("bash /root/open $(systemctl list-units 'hotmount-format@*' --plain --no-legend | cut -d' ' -f1)"); got != want {
		t.Errorf("a process in the formatting unit's control group can open:\n%s", got)
	}
	// Each capability is one bit (capability.h): CAP_LINUX_IMMUTABLE is bit 9, CAP_SYS_ADMIN is bit 21.
	for unit, most := range map[string]string{"hotmount": "0000000000000200", "hotmount-format@*": "0000000000200000"} {
		if got := m.run("sed -n 's/^CapBnd:[[:space:]]*//p' /proc/$(systemctl show -p MainPID --value '" + unit + "')/status"); got != most {
			t.Errorf("%s may have the capabilities %s", unit, got)
		}
	}
	// Most of the following units run only for a short time. In each of these units, a drop-in replaces the program
	// with a test script.
	seq := m.run("cat /sys/block/" + one + "/diskseq")
	for unit, want := range map[string]string{"grow@": want, "stage@": want, "block@": one + " <\n" + none, "users@": none, "wait@": none, "cleanup@": none, "unmount@": none, "gone@": none, "udev": none, "options": none, "trim": none, "tidy": none} {
		m.run("d=/run/systemd/system/hotmount-" + unit + ".service.d; mkdir $d; printf '[Service]\\nExecStart=\\nExecStart=/bin/bash /usr/local/bin/reach\\nStandardOutput=append:/run/reach\\n' >$d/reach.conf; systemctl daemon-reload")
		if got := m.run("rm -f /run/reach; systemctl restart hotmount-" + strings.Replace(unit, "@", "@"+seq, 1) + ".service || true; cat /run/reach"); got != want {
			t.Errorf("hotmount-%s.service can open:\n%s", unit, got)
		}
	}
}
