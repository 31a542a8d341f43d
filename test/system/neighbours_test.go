//go:build vm

package system

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// fieldRule is the udev rule that mounted the disks before the installation of hotmount. The rule also matches the
// action "change", because udev reports a loop device's new file by a change event.
const fieldRule = `ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="vd[b-z]|loop*", ENV{ID_FS_TYPE}=="xfs", RUN+="/usr/bin/systemd-mount --no-block --collect $devnode /mnt/disks/$env{ID_FS_UUID}"`

// example writes one of the package's example configurations to config.yaml, and does not reload the daemon.
func (m machine) example(name string) {
	m.t.Helper()
	text, err := os.ReadFile("../../packaging/examples/" + name)
	if err != nil {
		m.t.Fatal(err)
	}
	m.run(fmt.Sprintf("[ -e /usr/share/doc/hotmount/examples/%s ] || [ -e /usr/share/doc/hotmount/examples/%[1]s.gz ]; cat >/etc/hotmount/config.yaml <<'EOF'\n%sEOF\n", name, text))
}

// TestUdevRuleTakenOver checks a node on which a udev rule mounted the disks. hotmount adopts the mounts without
// mounting them again, and does not disturb a writer. The mount and its directory disappear when the disk is detached.
// When the disk is attached again, hotmount mounts it.
func TestUdevRuleTakenOver(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount; cat >/etc/udev/rules.d/99-disks.rules <<'X'\n" + fieldRule + "\nX\nudevadm control --reload")
	m.example("udev-rule.yaml")
	firstFile := made(t, gib)
	first, firstID := m.attach(w, worker.Disk{File: firstFile})
	second, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	one, two := m.mounted(first), m.mounted(second)
	m.run(fmt.Sprintf(writer, one))
	table := func() string { return m.run("findmnt -rno ID,SOURCE,TARGET,OPTIONS | grep ' /mnt/disks/' | sort") }
	before := table()
	m.run("systemctl start hotmount")
	m.wait("both to be adopted", "systemctl show -p StatusText hotmount | grep -q '2 mounted, 0 held, 0 refused, 0 failing'")

	// hotmount is installed and the udev rule is not yet removed, so the rule and hotmount both act on the third disk.
	third, thirdID := m.attach(w, worker.Disk{File: made(t, gib)})
	three := m.mounted(third)
	m.wait("three", "systemctl show -p StatusText hotmount | grep -q '3 mounted, 0 held, 0 refused, 0 failing'")
	if got := m.run("findmnt -rno TARGET | grep -c ^/mnt/disks/" + three); got != "1" {
		t.Errorf("the third is mounted %s times", got)
	}
	m.detach(w, thirdID)
	m.wait("the third to go", "! [ -e /mnt/disks/"+three+" ]")
	m.run("rm /etc/udev/rules.d/99-disks.rules; udevadm control --reload; systemctl restart hotmount")
	m.wait("both still", "systemctl show -p StatusText hotmount | grep -q '2 mounted, 0 held, 0 refused, 0 failing'")
	if after := table(); after != before {
		t.Errorf("the mounts were\n%s\nand are\n%s", before, after)
	}
	// The udev rule and hotmount both tried to mount the third disk, and one of them came too late. hotmount may
	// therefore have logged a warning. In a container, the test unmounts a disk by hand before it detaches the disk.
	of := "/dev/" + third + " .*(the unit exists already; next try|hold: somebody unmounted the disk by hand)"
	if got := m.run("systemctl is-active writer; journalctl -b -o cat -u hotmount -p warning -q --no-pager | grep -vE '" + of + "' || true"); got != "active" {
		t.Errorf("got %s", got)
	}

	// hotmount handles an adopted mount like a mount that it has made.
	m.resize(w, firstID, 2*gib)
	m.takes(one, 19*gib/10)
	m.run("systemctl stop writer; sync")
	m.detach(w, firstID)
	m.wait("unit and directory to go", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, one, quote(unitOf(one))))
	name, _ := m.attach(w, worker.Disk{File: firstFile})
	if got := m.mounted(name); got != one {
		t.Errorf("mounted by %s", got)
	}
	if got := m.run("systemctl cat " + quote(unitOf(one))); !strings.Contains(got, "by-diskseq") {
		t.Errorf("the unit is not hotmount's:\n%s", got)
	}
	if got := m.run("findmnt -no TARGET /dev/" + second); got != "/mnt/disks/"+two {
		t.Errorf("the second is mounted at %s", got)
	}
	// After the removal of hotmount, no program mounts the disk at the next boot.
	if said := m.run("dpkg -r hotmount 2>&1"); !strings.Contains(said, "missing after the next reboot:\n") || !strings.Contains(said, "\n  /mnt/disks/"+two+"\n") {
		t.Errorf("the removal says: %s", said)
	}
}

// putStandin builds the stand-in for Kubernetes and copies it to the worker.
func (m machine) putStandin(w worker.Node) {
	m.t.Helper()
	helper := filepath.Join(m.t.TempDir(), "standin")
	build := exec.Command("go", "build", "-o", helper, "hotmount/test/standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("cannot build the stand-in: %v: %s", err, out)
	}
	if err := w.Put(ctx(m.t), helper, "/usr/local/bin/standin"); err != nil {
		m.t.Fatal(err)
	}
	m.run("chmod 755 /usr/local/bin/standin")
}

// provision runs the stand-in for the provisioner at ten times the real rate, in a unit with the name kubelet.service.
// The stand-in has its own mount namespace, like a provisioner with mountPropagation: HostToContainer.
func (m machine) provision(w worker.Node, classes string) {
	m.t.Helper()
	m.putStandin(w)
	m.run(`cat >/etc/systemd/system/kubelet.service <<'X'
[Service]
PrivateMounts=yes
ExecStart=/usr/local/bin/standin provisioner /var/lib/standin worker-1 1s ` + classes + `
[Install]
WantedBy=multi-user.target
X
systemctl -q enable --now kubelet`)
}

// The method `volume` waits until the provisioner has created the volume for the directory entry. The parameter `since`
// is the number of lines to skip at the beginning of the provisioner's log. The method returns the volume's name and
// size.
func (m machine) volume(entry, class string, since int) (name string, size uint64) {
	m.t.Helper()
	name = disk.VolumeName(entry, "worker-1", class)
	line := fmt.Sprintf("tail -n +%d /var/lib/standin/log | grep ' created %s '", since+1, name)
	m.wait("the volume "+name, line)
	if _, err := fmt.Sscan(m.run(line+" | tail -n 1 | cut -d ' ' -f 5"), &size); err != nil {
		m.t.Fatal(err)
	}
	return name, size
}

// The method `lines` returns the number of lines in the provisioner's log.
func (m machine) lines() (n int) {
	m.t.Helper()
	if _, err := fmt.Sscan(m.run("wc -l </var/lib/standin/log"), &n); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// The method `log` waits until the provisioner's log contains a line that matches the pattern. The parameter `since` is
// the number of lines to skip at the beginning of the log.
func (m machine) log(pattern string, since int) {
	m.t.Helper()
	m.wait("the provisioner's log to say "+pattern, fmt.Sprintf("tail -n +%d /var/lib/standin/log | grep -E -- %s", since+1, quote(pattern)))
}

// release tells the stand-in that the claim on the volume was deleted.
func (m machine) release(volume string) { m.run("touch /var/lib/standin/released/" + volume) }

// roundDownCapacity returns the size that the provisioner publishes for a volume of n bytes. A size of 10 GiB or more
// is rounded down to full GiB, and a smaller size of at least 10 MiB to full MiB. No test has a smaller volume.
func roundDownCapacity(n uint64) uint64 {
	if n >= 10<<30 {
		return n >> 30 << 30
	}
	return n >> 20 << 20
}

var (
	// The pattern `bare` matches a log line about a directory whose mount is missing. The pattern also matches a line
	// about a directory that disappeared before the provisioner called stat(2) on it.
	bare = regexp.MustCompile(` error (?:path "|stat )/mnt/disks/([0-9a-f-]{36})(?:" is (?:not an actual mountpoint|a volume's, and nothing is there)|: no such file or directory)$`)
	// The pattern matches a log line about a mount point while hotmount makes or removes it. The provisioner creates no
	// volume for a mount point that is being made or removed.
	being    = regexp.MustCompile(` foreign /mnt/disks/\.[0-9a-f-]{36}$`)
	finished = regexp.MustCompile(` (?:created|cleaned) [^ ]+ /mnt/disks/([0-9a-f-]{36}) .*root=/ type=(?:xfs|ext4) uuid=(.*)$`)
)

// TestProvisioner runs the stand-in for the provisioner at ten times the real rate. Meanwhile disks are attached, grown
// and detached, volumes are released, and the daemon and the machine are restarted. After a power cut a disk with a
// volume is missing. Volumes are released before and during an attach and a boot. A disk is pulled while the
// provisioner deletes the data of its released volume.
//
// The stand-in may make or clean a volume only while the volume's filesystem is mounted at its path. The stand-in must
// publish the same names and sizes as the real provisioner. A directory may lack its mount only while the test attaches
// or detaches the disk, or restarts the machine.
func TestProvisioner(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + growConfig + "X\nsystemctl reload hotmount")
	m.provision(w, "local:Filesystem:/mnt/disks")
	if got := m.run("hotmount provisioner values >/root/v.yaml && hotmount provisioner check /root/v.yaml"); got != "/root/v.yaml fits the configuration" {
		t.Errorf("the values: %s", got)
	}
	// clock returns the guest's time. The log uses the guest's clock, too.
	clock := func() time.Time {
		t.Helper()
		var nanoseconds int64
		if _, err := fmt.Sscan(m.run("date +%s%N"), &nanoseconds); err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, nanoseconds)
	}
	// A period is a time in which the volume's directory may lack its mount. A period begins before the test detaches
	// the disk or stops the machine. A period ends after the provisioner has seen the disk mounted again, or has ended.
	// After the power cut, the period of the missing disk ends when the provisioner has missed the disk. The keys of
	// the map `periods` are UUIDs.
	type period struct{ begin, end time.Time }
	periods := map[string][]period{}
	begin := func(uuids ...string) {
		t.Helper()
		for _, uuid := range uuids {
			periods[uuid] = append(periods[uuid], period{begin: clock()})
		}
	}
	end := func(uuid string) {
		t.Helper()
		if n := len(periods[uuid]); n > 0 && periods[uuid][n-1].end.IsZero() {
			periods[uuid][n-1].end = clock()
		}
	}
	within := func(at time.Time) func(period) bool {
		return func(p period) bool { return !at.Before(p.begin) && !at.After(p.end) }
	}
	beginning := clock()
	attach := func(d worker.Disk) (uuid, id string) {
		t.Helper()
		name, id := m.attach(w, d)
		return m.mounted(name), id
	}
	// The closure `published` waits for the volume, and ends the volume's period. The closure checks that the volume
	// has the size of the filesystem, and returns the volume's name.
	published := func(uuid string, since int) (name string) {
		t.Helper()
		name, got := m.volume(uuid, "local", since)
		end(uuid)
		var blocks, block uint64
		if _, err := fmt.Sscan(m.run("stat -f -c '%b %S' /mnt/disks/"+uuid), &blocks, &block); err != nil {
			t.Fatal(err)
		}
		if got != roundDownCapacity(blocks*block) {
			t.Errorf("the volume %s of %s has %d bytes, and the filesystem %d blocks of %d", name, uuid, got, blocks, block)
		}
		return name
	}

	// The test attaches a blank disk, a large XFS filesystem and an ext4 filesystem. The two filesystems were made
	// elsewhere on smaller disks, and they keep their size.
	smallDisk := worker.Disk{File: blank(t, gib), Serial: "SMALL"}
	large, ext4 := blank(t, 12*gib), blank(t, 400<<20)
	for _, c := range [][]string{{"mkfs.xfs", "-q", large}, {"mkfs.ext4", "-q", "-F", ext4}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for image, size := range map[string]int64{large: 13 * gib, ext4: 800 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	small, smallID := attach(smallDisk)
	big, bigID := attach(worker.Disk{File: large, Serial: "LARGE"})
	other, _ := attach(worker.Disk{File: ext4, Serial: "EXT4"})
	for _, uuid := range []string{small, big, other} {
		periods[uuid] = []period{{begin: beginning}}
	}
	published(other, 0)
	bigVolume := published(big, 0)
	for uuid, most := range map[string]uint64{other: 400 << 20, big: 12 * gib} {
		if _, got := m.volume(uuid, "local", 0); got > most {
			t.Errorf("the volume of %s, whose disk grew while it was elsewhere, has %d bytes", uuid, got)
		}
	}
	smallVolume := published(small, 0)
	m.run(fmt.Sprintf("for i in %s %s %s; do echo tenant >/mnt/disks/$i/data; done; sync", small, big, other))

	// After a volume is released, the provisioner deletes the tenant's data and creates a new volume. While the disk is
	// detached, the provisioner cannot delete the data of the released volume. When the disk is attached again, the
	// provisioner deletes the data.
	since := m.lines()
	m.release(smallVolume)
	published(small, since)
	if got := m.run(fmt.Sprintf("ls -A /mnt/disks/%s; cat /mnt/disks/%s/data", small, big)); got != "tenant" {
		t.Errorf("after cleaning the files are %q", got)
	}
	// The closure `emptied` waits until the provisioner has created the released volume again, and checks that the new
	// volume is empty.
	emptied := func(uuid, volume string, since int) {
		t.Helper()
		m.log(" cleaned "+volume, since)
		published(uuid, since)
		if got := m.run(fmt.Sprintf("tail -n +%d /var/lib/standin/log", since+1)); !regexp.MustCompile(" created " + volume + " .* files=0 ").MatchString(got) {
			t.Fatalf("the next tenant finds the last one's files:\n%s", got)
		}
	}
	// tenant makes 20 directories with the given number of files each, so that the cleaner works for several passes of
	// the provisioner.
	tenant := func(uuid string, files int) {
		t.Helper()
		m.run(fmt.Sprintf("cd /mnt/disks/%s && mkdir -p many/{1..20} && (cd many && for i in {1..20}; do touch $i/{1..%d}; done) && echo old tenant >data && sync", uuid, files))
	}
	// Each entry of the slice `pulls` is the period from just before a disk is pulled until the disk's mount point is
	// removed.
	var pulls []period
	rounds := 1
	if os.Getenv("HOTMOUNT_TEST_FULL") != "" {
		rounds = 20
	}
	dice := randomSource(t)
	for range rounds {
		m.run(fmt.Sprintf("echo old tenant >/mnt/disks/%s/data; sync", small))
		begin(small)
		m.detach(w, smallID)
		m.wait("the directory to go", "! [ -e /mnt/disks/"+small+" ]")
		since = m.lines()
		m.release(smallVolume)
		m.log(" event cleaning "+smallVolume, since)
		m.log(" event cleaning "+smallVolume, since+1)
		back, id := attach(smallDisk)
		if smallID = id; back != small {
			t.Fatalf("the disk came back as %s", back)
		}
		emptied(small, smallVolume, since)

		// The volume is released at a random moment after its disk is attached: before, during or after the mount.
		tenant(small, 100)
		begin(small)
		m.detach(w, smallID)
		m.wait("the directory to go", "! [ -e /mnt/disks/"+small+" ]")
		since = m.lines()
		_, smallID = m.attach(w, smallDisk)
		late := dice.IntN(2000)
		m.run(fmt.Sprintf("sleep %d.%03d", late/1000, late%1000))
		m.release(smallVolume)
		emptied(small, smallVolume, since)

		// The disk is pulled while the cleaner works, and is away until its mount point is removed. After the pull, the
		// cleaner's deletions happen only in memory, and do not reach the disk. If the cleaner cannot find a file, it
		// treats the file as deleted. The test freezes the provisioner until QEMU has begun to remove the disk. On a
		// slow machine, the cleaner could otherwise finish before the pull. The provisioner would then not learn that
		// the deletions are lost.
		tenant(small, 1000)
		since = m.lines()
		m.release(smallVolume)
		m.wait("the cleaner to be at work", "[ $(ls /mnt/disks/"+small+"/many | wc -l) -lt 20 ] && systemctl freeze kubelet")
		m.run("ls /mnt/disks/" + small + "/many | grep -q .")
		pulled := clock()
		begin(small)
		if err := w.DetachSurprise(ctx(t), smallID); err != nil {
			t.Fatal(err)
		}
		m.run("systemctl thaw kubelet")
		if err := w.WaitDetached(ctx(t), smallID); err != nil {
			t.Fatal(err)
		}
		// The test also searches the mount table, because stat(2) fails even while the pulled disk's filesystem is
		// still mounted.
		m.wait("the end of all units for it", "! grep -qF ' /mnt/disks/"+small+" ' /proc/self/mountinfo && ! [ -e /mnt/disks/"+small+" ] && ! systemctl list-units --plain --no-legend 'hotmount-*@mnt*' | grep .")
		pulls = append(pulls, period{pulled, clock()})
		if got := m.run(fmt.Sprintf("tail -n +%d /var/lib/standin/log | grep ' cleaned ' || true", since+1)); got != "" {
			t.Fatalf("the volume was empty before its disk was pulled: %s", got)
		}
		_, smallID = m.attach(w, smallDisk)
		emptied(small, smallVolume, since)
	}

	// After its disk grows, the volume keeps its published size until the provisioner creates the volume again.
	m.resize(w, bigID, 14*gib)
	m.takes(big, 13*gib)
	since = m.lines()
	m.release(bigVolume)
	emptied(big, bigVolume, since)

	// The daemon is restarted, and then the machine.
	m.run("echo stays >/mnt/disks/" + other + "/data; systemctl kill -s KILL hotmount")
	m.wait("a new daemon", "[ $(systemctl show -p NRestarts --value hotmount) -ge 1 ]")
	m.run("systemctl restart hotmount; systemctl stop hotmount; systemctl start hotmount")
	if os.Getenv("HOTMOUNT_TEST_FULL") != "" {
		// The machine is rebooted while the cleaner works.
		tenant(small, 100)
		since = m.lines()
		m.release(smallVolume)
		begin(small, big, other)
		if err := w.Reboot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.log(" started", since)
		m.wait("the mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 3 ]")
		emptied(small, smallVolume, since)
		// A pass of the provisioner may have begun before the mounts were back. The restart of the provisioner ends
		// such a pass.
		m.run("systemctl restart kubelet")
		end(big)
		end(other)
	}
	// Two volumes are released, and the disk of one of them is missing after the power cut. hotmount must remove the
	// mount point of the missing disk. Otherwise the cleaner would clean the empty directory, and the provisioner would
	// consider the volume clean. In its first pass, the provisioner begins to clean the volume of the disk that is
	// present.
	tenant(big, 100)
	m.run("systemctl stop kubelet; cd /var/lib/standin/released && touch " + smallVolume + " " + bigVolume + "; sync")
	since = m.lines()
	begin(small, big, other)
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), smallID); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.log(" started", since)
	m.log(" event cleaning "+smallVolume, since)
	end(small)
	m.wait("the mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 2 ]")
	emptied(big, bigVolume, since)
	// Each of the provisioner's next two passes must log the event for the missing disk.
	since = m.lines()
	m.log(" event cleaning "+smallVolume, since)
	m.log(" event cleaning "+smallVolume, m.lines())
	m.run("systemctl stop kubelet")
	end(other)
	if got := m.run("cat /mnt/disks/" + other + "/data"); got != "stays" {
		t.Errorf("the data of a volume that nobody released is %q", got)
	}

	// The test prints the log first. CI shows only the end of a test's output, where the errors must be.
	log := m.run("cat /var/lib/standin/log")
	t.Logf("the log:\n%s", log)
	lines := 0
	for _, line := range strings.Split(log, "\n") {
		stamp, _, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			t.Fatal(err)
		}
		f, b := finished.FindStringSubmatch(line), bare.FindStringSubmatch(line)
		switch {
		case f != nil && f[1] == f[2]:
		case strings.HasSuffix(line, " started"), being.MatchString(line), strings.Contains(line, " event cleaning "+smallVolume):
		case strings.HasSuffix(line, " error stat /mnt/disks/"+small+": input/output error"):
			if !slices.ContainsFunc(pulls, within(at)) {
				t.Errorf("no disk had been pulled then (%v): %s", pulls, line)
			}
		case b != nil:
			lines++
			if !slices.ContainsFunc(periods[b[1]], within(at)) {
				t.Errorf("the directory lacks its mount outside of %v: %s", periods[b[1]], line)
			}
		default:
			t.Errorf("the provisioner: %s", line)
		}
	}
	t.Logf("%d lines of a directory without its mount", lines)
}

// nfsPackages are nfs-kernel-server and all of its dependencies that a worker lacks.
var nfsPackages = []string{
	"libsasl2-modules-db", "libsasl2-2", "libldap-2.5-0", "libevent-core-2.1-7", "libnfsidmap1", "netbase", "rpcbind", "keyutils", "nfs-common", "nfs-kernel-server",
}

// nfsServer returns a worker with Debian's NFS server. The server is stopped.
func nfsServer(t *testing.T, packages []worker.File) (machine, *worker.Worker) {
	t.Helper()
	o := worker.Options{Files: append([]worker.File{}, packages...), Setup: `set -e
		export DEBIAN_FRONTEND=noninteractive
		dpkg -i /root/nfs/*.deb >/root/nfs/log 2>&1 || { cat /root/nfs/log >&2; exit 1; }
		printf '[nfsd]\ngrace-time=10\nlease-time=10\n' >/etc/nfs.conf.d/quick.conf
		systemctl stop nfs-server nfs-mountd nfsdcld rpc-statd
		mkdir -p /srv/disks /srv/nfs /mnt/client; echo '/srv/nfs *(rw,sync,no_subtree_check,no_root_squash,fsid=0)' >/etc/exports
		modprobe nfsd; modprobe nfsv4`}
	for name, path := range map[string]string{"hotmount-srv.conf": "/etc/systemd/system/hotmount.service.d/srv.conf", "nfs-disk@.service": "/etc/systemd/system/nfs-disk@.service"} {
		text, err := os.ReadFile("../../packaging/examples/nfs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		o.Files = append(o.Files, worker.File{Path: path, Data: text, Mode: 0o644})
	}
	m, w := start(t, o)
	m.example("nfs.yaml")
	m.run("systemctl daemon-reload; systemctl restart hotmount")
	return m, w
}

// lan adds a network card with the given address to the worker, on a network that two workers share. If the parameter
// `listen` is true, the worker's QEMU listens on the TCP port for the network's frames. Otherwise QEMU connects to this
// port.
func (m machine) lan(w *worker.Worker, port int, listen bool, address string) {
	m.t.Helper()
	end := "connect"
	if listen {
		end = "listen"
	}
	mac := "52:54:00:00:09:0" + address[len(address)-1:]
	for _, c := range []struct {
		command string
		args    map[string]any
	}{
		{"netdev_add", map[string]any{"type": "socket", "id": "lan", end: fmt.Sprint("127.0.0.1:", port)}},
		{"device_add", map[string]any{"driver": "virtio-net-pci", "id": "lan-card", "bus": "worker-port31", "netdev": "lan", "mac": mac}},
	} {
		if _, err := w.QMP(ctx(m.t), c.command, c.args); err != nil {
			m.t.Fatal(err)
		}
	}
	m.run(`cat >/etc/systemd/system/lan.service <<'X'
[Unit]
Before=nfs-server.service
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'for i in $(seq 300); do for d in /sys/class/net/*; do if grep -qi ` + mac + ` $d/address; then ip address replace ` + address + `/24 dev $(basename $d) && ip link set $(basename $d) up && exit; fi; done; sleep 0.2; done; exit 1'
[Install]
WantedBy=multi-user.target
X
systemctl daemon-reload; systemctl -q enable --now lan`)
}

// TestNFSServer checks Debian's NFS server, whose exports and state are on a disk that hotmount mounts. The test
// restarts the server and its worker, and moves the disk to another worker. The data and the server's identity remain.
// A client writes constantly, and continues after each restart and after the move.
func TestNFSServer(t *testing.T) {
	parallel(t)
	var packages []worker.File
	for _, f := range download(t, nfsPackages...) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, worker.File{Path: "/root/nfs/" + filepath.Base(f), Data: data, Mode: 0o644})
	}
	a, aw := nfsServer(t, packages)
	b, bw := nfsServer(t, packages)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	a.lan(aw, port, true, "10.9.0.1")
	b.lan(bw, port, false, "10.9.0.2")

	image := made(t, gib)
	name, id := a.attach(aw, worker.Disk{File: image, Serial: "NFS"})
	a.wait("the disk", "findmnt -n /dev/"+name)
	uuid := filepath.Base(a.run("findmnt -no TARGET /dev/" + name))
	serve := "systemctl -q enable nfs-disk@" + uuid + "; systemctl restart nfs-server; exportfs -v | grep -q /srv/nfs"
	a.run(serve + "; cat /proc/sys/kernel/random/uuid >/srv/nfs/nfs-provisioner.identity")
	identity := func(m machine) string {
		return m.run("cat /srv/nfs/nfs-provisioner.identity; findmnt -no SOURCE /srv/nfs /var/lib/nfs | cut -d '[' -f 2; [ -e /var/lib/nfs/nfsdcld/main.sqlite ]")
	}
	before := identity(a)
	b.run("mount -t nfs4 -o vers=4.2,hard 10.9.0.1:/ /mnt/client; cat /mnt/client/nfs-provisioner.identity")
	b.run(`cat >/run/systemd/system/client.service <<'X'
[Service]
ExecStart=/bin/bash -c 'set -e; exec 3>>/mnt/client/log; for ((n = 1; ; n++)); do echo $n >&3; sync /mnt/client/log; echo $n >/run/client; sleep 0.1; done'
X
systemctl daemon-reload; systemctl start client`)
	goesOn := func(after string) {
		t.Helper()
		var n int
		if _, err := fmt.Sscan(b.run("cat /run/client || echo 0"), &n); err != nil {
			t.Fatal(err)
		}
		b.wait("the client to continue after "+after, fmt.Sprintf("[ $(cat /run/client) -gt %d ] && systemctl is-active client", n+5))
	}
	goesOn("the start")
	a.run("systemctl restart nfs-server")
	goesOn("a restart of the server")
	if err := aw.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	goesOn("a restart of the worker")
	if got := identity(a); got != before {
		t.Errorf("the server was\n%s\nand is\n%s", before, got)
	}

	// The address and the disk are moved to the second worker.
	a.run("ip address flush to 10.9.0.1/32; systemctl disable --now -q nfs-disk@" + uuid)
	if got := a.run("hotmount release " + uuid); !regexpLine(got, "^safe to detach") {
		t.Errorf("released: %s", got)
	}
	a.detach(aw, id)
	name, _ = b.attach(bw, worker.Disk{File: image, Serial: "NFS"})
	b.wait("the disk", "findmnt -n /dev/"+name)
	b.run("i=$(ip -o address show to 10.9.0.2 | cut -d ' ' -f 2); ip address add 10.9.0.1/32 dev $i; " + serve)
	goesOn("the move")
	if got := identity(b); got != before {
		t.Errorf("the server was\n%s\nand is\n%s", before, got)
	}
	b.run("systemctl stop client; sync")
	n, err := strconv.Atoi(b.run("cat /run/client"))
	if err != nil {
		t.Fatal(err)
	}
	// The file contains each line of the client exactly once.
	b.run(fmt.Sprintf("head -n %d /srv/nfs/log | cmp - <(seq %[1]d)", n))
	t.Logf("%d lines", n)
}

// TestAdoptKnown checks that hotmount holds a filesystem made elsewhere if the class has "adopt: known". hotmount
// writes nothing to the disk. An accepted filesystem is mounted, and is mounted again whenever its disk is attached
// again. A filesystem that this node made needs no accept.
func TestAdoptKnown(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf '%s\n' classes: '- name: default' '  directory: /mnt/disks' '  adopt: known' >/etc/hotmount/config.d/50-known.yaml; systemctl reload hotmount")
	image := made(t, 320<<20)
	before := digest(t, image)
	name, id := m.attach(w, worker.Disk{File: image})
	m.waitForLog("/dev/" + name + " .*hold: the disk holds xfs .*, which this node neither made nor mounted before, and class default mounts only known filesystems .adopt: known.; .*if the filesystem belongs here: hotmount accept " + name)
	if got := m.run("hotmount status || [ $? = 3 ]"); !strings.Contains(got, "previous data") {
		t.Errorf("the status shows no kind of the hold:\n%s", got)
	}
	m.detach(w, id)
	if digest(t, image) != before {
		t.Error("the held disk was written to")
	}
	name, id = m.attach(w, worker.Disk{File: image})
	m.wait("the hold", "hotmount plan | grep '^"+name+" .*hold'")
	m.run("hotmount accept " + name)
	uuid := m.mounted(name)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	name, _ = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted by %s", got)
	}

	own := blank(t, 320<<20)
	name, id = m.attach(w, worker.Disk{File: own})
	uuid = m.mounted(name)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	// Without filesystems.json, hotmount recognises its own filesystem by the record of the format.
	m.run("systemctl stop hotmount; rm /var/lib/hotmount/filesystems.json; systemctl start hotmount")
	name, _ = m.attach(w, worker.Disk{File: own})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted by %s", got)
	}
}

// TestAdoptedKeepsItsSize checks a filesystem that was made elsewhere and is smaller than its disk. The filesystem does
// not grow when the disk is attached or hotmount is restarted. A filesystem made elsewhere grows when its disk becomes
// larger.
func TestAdoptedKeepsItsSize(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 512<<20)
	if err := os.Truncate(image, gib); err != nil {
		t.Fatal(err)
	}
	smaller := func(when, uuid string) {
		t.Helper()
		m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -q '^1 mounted, 0 held, 0 refused, 0 failing'")
		m.run("systemctl start hotmount-grow@$(cat /sys/block/$(basename $(findmnt -no SOURCE /mnt/disks/" + uuid + "))/diskseq)")
		if size := numbers(t, m.run("stat -f -c '%b * %S' /mnt/disks/"+uuid+" | xargs expr"))[0]; size >= 512<<20 {
			t.Errorf("%s: it has grown to %.0f bytes", when, size)
		}
	}
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	smaller("at first", uuid)
	m.run("hotmount rescan; systemctl restart hotmount")
	smaller("after a restart", uuid)
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
	name, id = m.attach(w, worker.Disk{File: image})
	m.mounted(name)
	smaller("attached again", uuid)
	m.resize(w, id, gib+gib/2)
	m.takes(uuid, gib+gib/2-130*mib)
	m.waitForLog("/dev/" + name + " .*grown: xfs " + uuid + " from 512 MiB ")
}

// TestExt4Defaults checks that hotmount overrides the ext4 superblock's settings for errors and barriers, unless the
// class's options set them.
func TestExt4Defaults(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 320<<20)
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"tune2fs", "-e", "panic", "-o", "nobarrier", image}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	name, _ := m.attach(w, worker.Disk{File: image})
	has := func(when string, want ...string) {
		t.Helper()
		got := strings.Fields(m.run("cat /proc/fs/ext4/" + name + "/options"))
		for _, option := range want {
			if !slices.Contains(got, option) {
				t.Errorf("%s: no %s in %q", when, option, got)
			}
		}
	}
	uuid := m.mounted(name)
	has("mounted by hotmount", "errors=remount-ro", "barrier")
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuid + "; mkdir /root/x; mount -o noatime /dev/" + name + " /root/x")
	has("mounted by hand", "errors=panic", "nobarrier")
	m.run(`umount /root/x
printf '%s\n' classes: '- name: default' '  directory: /mnt/disks' '  options: [noatime, errors=continue, nobarrier]' >/etc/hotmount/config.d/50-options.yaml
systemctl start hotmount`)
	m.wait("the accept", "hotmount accept "+name)
	m.mounted(name)
	has("as the class says", "errors=continue", "nobarrier")
}
