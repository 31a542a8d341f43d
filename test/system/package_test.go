//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// interruptible is a script that changes a package so that one of the package's maintainer scripts kills dpkg once. The
// file /run/kill names the maintainer script, and the place where it kills dpkg: the beginning or the end of the
// script.
const interruptible = `set -e
rm -rf /root/tree
dpkg-deb -R "$1" /root/tree
for s in postinst prerm postrm; do
	f=/root/tree/DEBIAN/$s
	gate() { echo "if [ \"\$(cat /run/kill 2>/dev/null)\" = $s-$1 ]; then rm /run/kill; kill -KILL \$PPID; exit 1; fi"; }
	sed -i "/^set -e/a $(gate begin)" $f
	sed -i "\$i $(gate end)" $f
	[ $(grep -c /run/kill $f) = 2 ]
done
# The later version has a new default configuration.
case $1 in *next*) echo '# new' >>/root/tree/etc/hotmount/config.yaml ;; esac
dpkg-deb -b -Znone /root/tree "$1" >/dev/null
`

// TestPackage checks what dpkg does with the package while a mount is in use (issue 7, section "Package"). TestPackage
// upgrades and downgrades the package, with an interruption in each maintainer script. The scripts must respect the
// administrator's configuration, mask, preset and policy-rc.d. The test also checks the messages of the scripts, and
// purges the package.
func TestPackage(t *testing.T) {
	later := nextDeb(t)
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "KEEP"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	m.kernelReadOnly()
	m.run(fmt.Sprintf(writer, uuid))
	mountID := m.run("findmnt -no ID " + where)
	for local, remote := range map[string]string{deb(t): "/root/this.deb", later: "/root/next.deb"} {
		if err := w.Put(ctx(t), local, remote); err != nil {
			t.Fatal(err)
		}
	}
	m.run("cat >/root/interruptible <<'X'\n" + interruptible + "X\nsh /root/interruptible /root/this.deb; sh /root/interruptible /root/next.deb")
	this, next := m.run("dpkg-deb -f /root/this.deb Version"), m.run("dpkg-deb -f /root/next.deb Version")
	const install = "DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold -i "

	// The closure checks that the daemon runs, that the package has the given version and that the disk is still
	// mounted.
	stands := func(after, version string) {
		t.Helper()
		m.wait("the daemon after "+after, "systemctl is-active hotmount && systemctl show -p StatusText hotmount | grep -q '1 mounted'")
		if got := m.run("hotmount version | cut -d' ' -f2; dpkg-query -W -f '${Status} ${Version}\n' hotmount; systemctl is-enabled hotmount hotmount-trim.timer hotmount-tidy; readlink /proc/$(systemctl show -p MainPID --value hotmount)/exe; systemctl is-active writer; findmnt -no ID " + where); got != version+"\ninstall ok installed "+version+"\nenabled\nenabled\nenabled\n/usr/bin/hotmount\nactive\n"+mountID {
			t.Fatalf("after %s: %s", after, got)
		}
	}
	if previous := os.Getenv("HOTMOUNT_DEB_PREVIOUS"); previous != "" {
		m.fromRelease(w, previous, install, stands, this)
	}
	m.run("echo 'settle: 2s # the administrator' >/etc/hotmount/config.yaml; mkdir -p /var/lib/prometheus/node-exporter")
	kept := func(after string) {
		t.Helper()
		if got := m.run("cat /etc/hotmount/config.yaml"); got != "settle: 2s # the administrator" {
			t.Fatalf("after %s the configuration is\n%s", after, got)
		}
	}
	// A released disk remains released after an upgrade.
	released, releasedID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "RELEASED"})
	m.mounted(released)
	m.run("hotmount release " + released)
	m.run(install + "/root/next.deb 2>&1")
	stands("an upgrade", next)
	if got := m.run("systemctl reload hotmount; hotmount plan; ! findmnt -n /dev/" + released); !regexpLine(got, "^"+released+" .* hold .*somebody ran hotmount release for the disk") {
		t.Errorf("released before the upgrade, and after it: %s", got)
	}
	m.run("hotmount accept " + released)
	m.mounted(released)
	m.detach(w, releasedID)
	m.wait("its mount to go", "! findmnt -n /dev/"+released)
	kept("an upgrade")
	m.run("[ -e /etc/hotmount/config.yaml.dpkg-dist ]; " + install + "--force-downgrade /root/this.deb 2>&1")
	stands("a downgrade", this)
	kept("a downgrade")

	// A maintainer script kills dpkg. The next run of dpkg completes the interrupted work.
	version := this
	// Other parts of this test kill dpkg in prerm during the removal, and in postinst during the first installation.
	cuts := []string{"postrm-end", "postinst-begin"}
	if os.Getenv("HOTMOUNT_TEST_FULL") != "" {
		cuts = append(cuts, "prerm-begin", "prerm-end", "postrm-begin", "postinst-end")
	}
	for _, at := range cuts {
		file := "/root/next.deb"
		if version == next {
			file = "/root/this.deb"
		}
		m.run("echo " + at + " >/run/kill; if " + install + file + " >/root/killed 2>&1; then exit 1; fi; [ ! -e /run/kill ]")
		if got := m.run("systemctl is-active writer; findmnt -no ID " + where); got != "active\n"+mountID {
			t.Fatalf("cut short at %s: %s", at, got)
		}
		// If dpkg is killed before it has unpacked the package, the package is half installed. In this state,
		// dpkg --configure may fail. The test ignores a failure unless dpkg was killed in postinst.
		m.run("DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a || case " + at + " in postinst-*) exit 1 ;; esac")
		// If dpkg was killed before it had unpacked the package, the test starts the upgrade again.
		m.run("[ \"$(dpkg-query -W -f '${Status} ${Version}' hotmount)\" = \"install ok installed $(dpkg-deb -f " + file + " Version)\" ] || " + install + file)
		if version = next; file == "/root/this.deb" {
			version = this
		}
		stands("an interruption at "+at, version)
		kept("an interruption at " + at)
	}

	// The administrator forbids starts of the daemon: first with a systemd mask, and then with policy-rc.d.
	m.run("systemctl mask --now hotmount; " + install + "/root/next.deb 2>&1")
	if got := m.run("systemctl is-enabled hotmount || true; systemctl is-active hotmount || true; findmnt -no ID " + where); got != "masked\ninactive\n"+mountID {
		t.Errorf("upgraded while masked: %s", got)
	}
	m.run("systemctl unmask hotmount; printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; " + install + "/root/this.deb 2>&1")
	if got := m.run("systemctl is-enabled hotmount; systemctl is-active hotmount || true"); got != "enabled\ninactive" {
		t.Errorf("upgraded with a policy-rc.d that forbids starts: %s", got)
	}
	m.run("rm /usr/sbin/policy-rc.d; systemctl start hotmount")
	stands("all that", this)

	// To stop using hotmount, an administrator exports its mounts as static units.
	m.run("mkdir /root/units; hotmount export-units /root/units; if hotmount export-units /root/units 2>/dev/null; then exit 1; fi; systemd-analyze verify /root/units/*.mount")
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n  - name: far\n    names: [vdz]\n    directory: /srv/far\n' >/root/far.yaml; hotmount config apply-sandbox --config /root/far.yaml; [ -e /etc/systemd/system/hotmount.service.d/50-classes.conf ]`)
	m.wait("the metrics", "[ -e /var/lib/prometheus/node-exporter/hotmount.prom ]")
	removed := m.run("echo prerm-end >/run/kill; if dpkg -r hotmount >/dev/null 2>&1; then exit 1; fi; [ ! -e /run/kill ]; dpkg --configure -a >/dev/null 2>&1; dpkg -r hotmount 2>&1")
	if !strings.Contains(removed, "will be missing after the next reboot:\n  "+where) {
		t.Errorf("removal says: %s", removed)
	}
	leftover := "/mnt/disks/11111111-2222-4333-8444-555555555555"
	m.run("mkdir " + leftover + " " + strings.Replace(leftover, "1111", "2222", 1) + "; touch " + leftover + "/not-mounted " + strings.Replace(leftover, "1111", "2222", 1) + "/data; chattr +i " + leftover + "/not-mounted " + leftover)
	// A purge empties no filesystem that somebody has mounted in the state directory.
	m.run("mkdir /var/lib/hotmount/data; mount -t tmpfs none /var/lib/hotmount/data; touch /var/lib/hotmount/data/kept")
	purged := m.run("dpkg -P hotmount 2>&1; rm /var/lib/hotmount/data/kept; umount /var/lib/hotmount/data; rmdir /var/lib/hotmount/data /var/lib/hotmount")
	if got := m.run("ls /var/lib/hotmount /etc/hotmount /run/hotmount 2>&1 | grep -v 'No such' || true; find / -xdev -path /root -prune -o -path /proc -prune -o \\( -name 50-classes.conf -o -name '*hotmount*' -not -path /etc/systemd/system/hotmount.service.d -not -path '/run/*' -not -path '/var/log/*' -not -path '/sys/*' -print \\); systemctl is-active writer; findmnt -no ID " + where + "; ls /mnt/disks | sort"); got != fmt.Sprintf("active\n%s\n%s", mountID, strings.Join(sorted("22221111-2222-4333-8444-555555555555", uuid), "\n")) {
		t.Errorf("after a purge: %s\nit said: %s", got, purged)
	}
	if !strings.Contains(purged, "a filesystem is still mounted at "+where+"; after you unmount the filesystem, remove the mount point: chattr -i "+where) {
		t.Errorf("the purge says: %s", purged)
	}
	static := "'" + unitOf(uuid) + "'"
	m.run("cp /root/units/*.mount /etc/systemd/system; systemctl stop writer; systemctl stop " + static + "; systemctl daemon-reload; systemctl enable " + static + "; systemctl start " + static)
	if got := m.run("findmnt -no TARGET /dev/" + name + "; systemctl show -p FragmentPath --value " + static); got != where+"\n/etc/systemd/system/"+unitOf(uuid) {
		t.Errorf("mounted by the static unit: %s", got)
	}

	// The administrator runs `hotmount plan` before the first installation. The first installation is tested with a
	// preset, a mask, a blank disk and an interruption.
	held, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "BLANK"})
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	look := regexp.MustCompile(`(?m)^    (.*dpkg-deb -x hotmount_amd64.deb .*)$`).FindString(string(readme))
	if plan := m.run("udevadm settle; cd /root; ln -s this.deb hotmount_amd64.deb; " + look + "; [ ! -e /var/lib/hotmount ]; [ ! -e /run/hotmount ]"); !regexpLine(plan, "^"+held+" .* hold .*attached before hotmount was installed.*hotmount accept "+held) || !regexpLine(plan, "^"+name+" .* keep ") {
		t.Errorf("planned before the installation: %s", plan)
	}
	// The disk EARLY is attached before the installation, after a manual `hotmount state init`. hotmount must also hold
	// this disk.
	m.run("look=$(mktemp -d); dpkg-deb -x /root/this.deb $look; $look/usr/bin/hotmount state init")
	early, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "EARLY"})
	m.run("systemctl mask hotmount-tidy; mkdir -p /etc/systemd/system-preset; echo 'disable hotmount*' >/etc/systemd/system-preset/00-admin.preset; echo postinst-end >/run/kill; if " + install + "/root/this.deb >/root/first 2>&1; then exit 1; fi; [ ! -e /run/kill ]; dpkg --configure -a")
	if got := m.run("cat /root/first"); !strings.Contains(got, "/dev/"+held+" ") || !strings.Contains(got, "hotmount accept "+held) {
		t.Errorf("the installation says: %s", got)
	}
	if got := m.run("systemctl is-enabled hotmount hotmount-trim.timer hotmount-tidy || true; systemctl is-active hotmount hotmount-trim.timer || true"); got != "disabled\ndisabled\nmasked\ninactive\ninactive" {
		t.Errorf("installed where a preset or a mask forbids it: %s", got)
	}
	m.run("rm /etc/systemd/system-preset/00-admin.preset; systemctl unmask hotmount-tidy; systemctl preset hotmount hotmount-tidy hotmount-trim.timer; systemctl start hotmount")
	m.waitForLog("/dev/" + held + " .*hold")
	m.waitForLog("/dev/" + early + " .*hold: .*attached before hotmount was installed")
	if got := m.run("systemctl is-enabled hotmount; hotmount history; blkid -p /dev/" + held + " || true"); got != "enabled" {
		t.Errorf("after the first installation: %s", got)
	}

	// dpkg runs no prerm for a package that is unpacked but not configured.
	m.run("dpkg --force-confdef --force-confold --unpack /root/next.deb; systemctl start hotmount; systemctl is-active hotmount; dpkg -r hotmount")
	if got := m.run("systemctl is-active hotmount || true; pgrep -x hotmount || true"); got != "inactive" {
		t.Errorf("after the removal of an unpacked package: %s", got)
	}
	between, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "BETWEEN"})
	m.run(install + "/root/this.deb; systemctl start hotmount")
	m.waitForLog("/dev/" + between + " .*hold")

	// The removal deletes leftover mount points. If chattr is missing, the purge prints the names of leftover mount
	// points.
	leftover = strings.Replace(leftover, "1111", "3333", 1)
	m.run("systemctl stop hotmount; " + immutable(leftover) + "; dpkg -r hotmount; [ ! -e " + leftover + " ]")
	if said := m.run(immutable(leftover) + "; mv $(command -v chattr) /root; dpkg -P hotmount 2>&1"); !strings.Contains(said, "cannot remove "+leftover+"; to remove it by hand (chattr is in e2fsprogs): chattr -i "+leftover) {
		t.Errorf("the purge says: %s", said)
	}
	if got := m.run("findmnt -no TARGET " + where + "; ls /var/lib/hotmount /etc/hotmount 2>&1 | grep -v 'No such' || true"); got != where {
		t.Errorf("after a purge: %s", got)
	}
}

func sorted(a, b string) []string {
	if b < a {
		a, b = b, a
	}
	return []string{a, b}
}

// fromRelease downgrades hotmount to the previous release, and purges it. Then fromRelease installs the previous
// release anew, and upgrades it to the package under test. Each of the two versions continues with the state of the
// other version. After the upgrade, hotmount formats a blank disk.
func (m machine) fromRelease(w worker.Node, previous, install string, stands func(after, version string), this string) {
	m.t.Helper()
	if err := w.Put(ctx(m.t), previous, "/root/previous.deb"); err != nil {
		m.t.Fatal(err)
	}
	m.run(install + "--force-downgrade /root/previous.deb 2>&1")
	stands("going back to the last release", m.run("dpkg-deb -f /root/previous.deb Version"))
	m.run("dpkg -P hotmount; rm -rf /var/lib/hotmount; " + install + "/root/previous.deb 2>&1")
	stands("the installation of the last release", m.run("dpkg-deb -f /root/previous.deb Version"))
	m.run(install + "/root/this.deb 2>&1")
	stands("an upgrade from the last release", this)
	name, id := m.attach(w, worker.Disk{File: blank(m.t, 320<<20), Serial: "UPGRADED"})
	uuid := m.mounted(name)
	m.detach(w, id)
	m.wait("its mount to go", "[ ! -e /mnt/disks/"+uuid+" ]")
}

// download fetches packages with apt and returns their paths. The function uses the same mirrors as apt on this
// machine.
func download(t *testing.T, packages ...string) []string {
	t.Helper()
	dir := t.TempDir()
	command := exec.CommandContext(ctx(t), "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("cannot download %s: %v: %s", strings.Join(packages, ", "), err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != len(packages) {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// TestSystemdUpgraded reinstalls Debian's packages systemd and udev. The packages' scripts restart and re-execute
// services. The test installs the packages while the daemon runs, and again while the daemon is stopped. After the
// installation all disks are still mounted, and hotmount does not report that somebody unmounted a disk by hand. A disk
// that is attached later is mounted.
func TestSystemdUpgraded(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	packages := strings.Fields(m.run(`dpkg-query -W -f '${source:Package} ${db:Status-Abbrev} ${Package}=${Version}\n' | sed -n 's/^systemd ii *//p'`))
	if !slices.ContainsFunc(packages, func(p string) bool { return strings.HasPrefix(p, "udev=") }) {
		t.Fatalf("the installed packages of systemd are %q", packages)
	}
	// The package udev requests a new initramfs. A new initramfs takes minutes and is not part of this test.
	m.run("mkdir /root/systemd; mkdir -p /etc/initramfs-tools; echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf")
	for _, f := range download(t, packages...) {
		if err := w.Put(ctx(t), f, "/root/systemd/"+filepath.Base(f)); err != nil {
			t.Fatal(err)
		}
	}
	var names, uuids []string
	for range 3 {
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		names, uuids = append(names, name), append(uuids, m.mounted(name))
	}
	m.run(fmt.Sprintf(writer, uuids[0]))
	for _, down := range []bool{false, true} {
		if down {
			m.run("systemctl stop hotmount")
		}
		m.run("DEBIAN_FRONTEND=noninteractive dpkg -i /root/systemd/*.deb >/root/dpkg 2>&1; udevadm settle; systemctl start hotmount")
		m.wait("the daemon", "systemctl show -P StatusText hotmount | grep -q '^"+fmt.Sprint(len(names))+" mounted'")
		for i, name := range names {
			if got := m.mounted(name); got != uuids[i] {
				t.Errorf("daemon down %t: %s is mounted by %s, was by %s", down, name, got, uuids[i])
			}
		}
		if got := m.run("systemctl is-active writer; journalctl -b -o cat --no-pager -u hotmount | grep 'somebody unmounted' || true"); got != "active" {
			t.Errorf("daemon down %t: %s", down, got)
		}
		later, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		names, uuids = append(names, later), append(uuids, m.mounted(later))
	}
	t.Log(m.run("tail -n 20 /root/dpkg; journalctl -b -o cat --no-pager -u hotmount | awk '/systemd unmounted the disk for a soft reboot, or because systemd considered the disk unplugged/ {n++} END {print n+0}'; journalctl -b --no-pager -o cat _PID=1 | grep -ci reexecut"))
}

// TestTryOnDebian12 checks that `make try` and `make bench` work on a Debian whose PID 1 is systemd.
func TestTryOnDebian12(t *testing.T) { tryOn(t, worker.Options{Memory: 2048}) }

// TestTryOnDebian13 checks `make try` and `make bench` with the kernel and the systemd of Debian 13.
func TestTryOnDebian13(t *testing.T) { tryOn(t, worker.Options{Suite: "trixie", Memory: 2048}) }

// tryOn runs `make try` to its end, kills a second run, and runs `make try` to its end again. Then tryOn runs one round
// of `make bench`. `make try` and `make bench` leave nothing on the worker. `make try` runs a second hotmount in a
// container on the worker. The worker's hotmount does not touch the container's disks, and the container's hotmount
// does not touch the worker's disks.
func tryOn(t *testing.T, o worker.Options) {
	m, w := start(t, o)
	m.putTry()
	// `make try` names the missing kernel modules and does not load them. Only the operator of the host may load kernel
	// modules.
	loaded := m.run("cut -d ' ' -f 1 /proc/modules")
	if _, err := m.Run(ctx(t), tryCommand); err == nil || !strings.Contains(err.Error(), "modprobe -a overlay xfs") {
		t.Errorf("without modules: %v", err)
	}
	if got := m.run("cut -d ' ' -f 1 /proc/modules"); got != loaded {
		t.Errorf("the modules were %q, and after try %q", loaded, got)
	}
	m.run("modprobe -a overlay xfs loop; truncate -s 400M /srv/decoy.img; losetup /dev/loop0 /srv/decoy.img; mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
	own, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.mounted(own)
	const written = "awk '{print $5, $6, $7, $12, $14}' /sys/block/loop0/stat"
	before, decoy := m.run(tryLeaves), m.run(written)

	m.runTry(own)
	m.run(tryCommand + ` >/root/killed.log 2>&1 & pid=$!
for i in $(seq 1500); do ! grep -q 'attach lvm.img' /root/killed.log || break; sleep 0.2; done
kill -9 $pid; [ -d /run/hotmount-container/try ] || { cat /root/killed.log >&2; exit 1; }`)
	m.runTry(own)
	if out := m.typed("A shell in the container", `echo "$(hostname): $((6 * 7))"\nexit\n`); !strings.Contains(out, "try: 42") || !strings.HasSuffix(out, "\nexit code 0") {
		t.Errorf("a command in try's shell, and exit: %s", out)
	}
	if out := m.typed("try# attach lvm.img", `\003`); !strings.HasSuffix(out, "\nexit code 1") || strings.Contains(out, "All of this took") {
		t.Errorf("try, ended by Ctrl-C: %s", out)
	}
	if after := m.run(tryLeaves); after != before {
		t.Errorf("before try there was\n%s\nafter it is\n%s", before, after)
	}
	// The killed run of `make bench` leaves behind a container and a trace instance of the kernel.
	m.run(benchCommand + ` -only split >/root/killed.log 2>&1 & pid=$!
for i in $(seq 3000); do ! grep -q '^split, hotmount: ' /root/killed.log || break; sleep 0.2; done
kill -9 $pid; [ -d /run/hotmount-container/bench ] && [ -d /sys/kernel/tracing/instances/hotmount-bench ] || { cat /root/killed.log >&2; exit 1; }`)
	m.benched()
	if after := m.run(tryLeaves); after != before {
		t.Errorf("before bench there was\n%s\nafter it is\n%s", before, after)
	}
	if got := m.run(written); got != decoy {
		t.Errorf("the host's loop device was written: %s, before %s", got, decoy)
	}
	if got := m.run("journalctl -b -o cat -u 'hotmount*' | grep -E 'loop[1-9]' || true"); got != "" {
		t.Errorf("the worker's hotmount has seen the container's disks:\n%s", got)
	}
}

// putTry copies the programs `try` and `bench`, the package and the container's root filesystem to the worker. putTry
// builds both programs as make builds `bench`.
func (m machine) putTry() {
	m.t.Helper()
	dir := m.t.TempDir()
	if err := worker.NewContainerRoot(ctx(m.t), worker.DefaultSuite, filepath.Join(dir, "root.tar.gz"), os.Stderr); err != nil {
		m.t.Fatal(err)
	}
	for _, program := range []string{"try", "bench"} {
		build := exec.CommandContext(ctx(m.t), "go", "build", "-trimpath", "-o", filepath.Join(dir, program), "hotmount/test/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			m.t.Fatalf("%v: %s", err, said)
		}
	}
	for local, remote := range map[string]string{
		filepath.Join(dir, "root.tar.gz"): "root.tar.gz", filepath.Join(dir, "try"): "try", filepath.Join(dir, "bench"): "bench", deb(m.t): "hotmount.deb",
	} {
		if err := m.Put(ctx(m.t), local, "/root/"+remote); err != nil {
			m.t.Fatal(err)
		}
	}
}

const (
	tryCommand   = "/root/try -deb /root/hotmount.deb -root /root/root.tar.gz </dev/null"
	benchCommand = "/root/bench </dev/null -deb /root/hotmount.deb -root /root/root.tar.gz -turns 1 -dir /root/results"
	// The script tryLeaves prints everything that a container uses on its host, and the host's files that are newer
	// than /root/try. The script also prints the kernel modules and the sysctl values, but omits the values that the
	// kernel itself changes.
	tryLeaves = `find /etc /opt /root /srv /usr -xdev -newer /root/try -type f ! -path '/root/.cache/*' ! -path '/root/results/*' ! -path /root/killed.log ! -path '/root/typed*'
cut -d ' ' -f 1 /proc/modules | sort; ls /sys/kernel/tracing/instances
sysctl -a 2>/dev/null | grep -vE '^(fs\.(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota)|kernel\.(ns_last_pid|perf_event_max_sample_rate|pty\.nr|random)|net\.netfilter\.nf_conntrack_count)'
ls /sys/block; losetup -a; findmnt -rno TARGET,SOURCE | sort; find /run/hotmount-container -mindepth 1 ! -name '*.lock' 2>/dev/null || true
find /sys/fs/cgroup -name 'hotmount-try*' -o -name 'hotmount-bench*'
systemctl list-units --all --no-legend 'hotmount-try*' 'hotmount-bench*'; systemctl --failed --no-legend; pgrep -a sleep || true`
)

// runTry runs the program `try` until the program ends, and checks that the program's output contains what a user
// should see.
func (m machine) runTry(own string) {
	m.t.Helper()
	out := m.run("time " + tryCommand + " 2>&1")
	m.t.Log(out)
	for _, words := range []string{"try# attach lvm.img", "/mnt/disks/", "precious", "formatted: xfs", "active (running)", "All of this took"} {
		if !strings.Contains(out, words) {
			m.t.Errorf("try does not print %q", words)
		}
	}
	if !regexp.MustCompile(`(?m)^` + own + ` .*ignore +no class selects the disk$`).MatchString(out) {
		m.t.Errorf("the container does not ignore the worker's disk %s", own)
	}
}

// The method `typed` runs the program `try` in a terminal. When the program has printed the given words, the method
// types the keys, which are in the syntax of printf(1). The method returns everything that the terminal shows. The last
// line of the result is the exit code.
func (m machine) typed(words, keys string) string {
	m.t.Helper()
	return m.run(`rm -f /root/typed*; mkfifo /root/typed.keys
script -qefc '` + strings.TrimSuffix(tryCommand, " </dev/null") + `' /root/typed.log </root/typed.keys >/root/typed.out 2>&1 & pid=$!
exec 3>/root/typed.keys
for i in $(seq 1500); do ! grep -qF '` + words + `' /root/typed.log || break; sleep 0.2; done
printf '` + keys + `' >&3; wait $pid && code=0 || code=$?
tr -d '\r' </root/typed.out; echo; echo "exit code $code"`)
}

// The method `benched` measures each method to mount one disk, in one turn without a trace and one turn with a trace.
// For each method in the list below, both tables of the results must contain a line with a measured turn.
func (m machine) benched() {
	m.t.Helper()
	m.t.Log(m.run("time " + benchCommand + " -only one,split 2>&1"))
	table := m.run("cat /root/results/bench.txt")
	m.t.Log(table)
	// The results contain no line for a turn with a fault. If other programs kept the machine busy before or during a
	// method's turn, the method's line shows "0 of 1".
	oneDisk, traced, _ := strings.Cut(table, "\nONE DISK, TRACED ")
	for _, method := range []string{"hotmount", "rule", "rule tuned", "shell loop", "systemd-mount", "mount(2)"} {
		line := `^` + regexp.QuoteMeta(method) + ` +[01] of 1 +[1-9]`
		if !regexpLine(oneDisk, line) || !regexpLine(traced, line) || strings.Contains(table, "not measured") {
			m.t.Errorf("bench did not measure %s", method)
		}
	}
}
