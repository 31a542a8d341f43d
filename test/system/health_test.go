//go:build vm

package system

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestDamaged checks that hotmount neither mounts nor repairs a damaged filesystem. The journal contains the kernel's
// message and the command that checks the filesystem. After a repair the filesystem is mounted. The test needs a
// virtual machine, because a container does not receive the kernel's log.
func TestDamaged(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.detach(w, id)
	m.run("systemctl stop hotmount")
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	// At a mount the kernel reads sector 2, the inode header (AGI) of the first allocation group. The test writes
	// random bytes to sector 2.
	m.run(fmt.Sprintf("dd if=/dev/%[1]s of=/root/agi bs=512 skip=2 count=1 status=none; head -c 512 /dev/urandom | dd of=/dev/%[1]s bs=512 seek=2 conv=notrunc,fsync status=none; dd if=/dev/%[1]s bs=512 skip=2 count=1 status=none | sha256sum >/root/sum; udevadm settle; systemctl start hotmount", name))
	m.waitForLog("/dev/" + name + " .*the kernel says: .*XFS .*; check the filesystem with: xfs_repair -n /dev/" + name + "; or, if its data is not needed: hotmount format " + name + ";")
	m.wait("it to be counted", "systemctl show -p StatusText --value hotmount | grep -q '1 failing'")
	m.checkStatus(name + " is failed: .*the kernel says: .*XFS .*xfs_repair -n /dev/" + name)
	m.run("if " + m.printed("xfs_repair -n /dev/"+name) + " >/root/check 2>&1; then exit 1; fi; grep 'agi .*bad\\|bad .*agi' /root/check || { cat /root/check; exit 1; }")
	// Only sector 2 is compared, because a failing mount may write to the log. A repair by hotmount would change sector
	// 2.
	m.run("dd if=/dev/" + name + " bs=512 skip=2 count=1 iflag=direct status=none | sha256sum -c --quiet /root/sum")
	m.run(fmt.Sprintf("dd if=/root/agi of=/dev/%s bs=512 seek=2 conv=notrunc,fsync status=none", name))
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}

// checkStatus checks that the output of `hotmount status` matches the pattern. Before the match, each line break in the
// output becomes a space.
func (m machine) checkStatus(words string) {
	m.t.Helper()
	m.run("(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E " + quote(words))
}

// TestGivenUp checks that hotmount reports a filesystem that the kernel has shut down or made read-only. TestGivenUp
// also checks that hotmount does not mount a filesystem that is larger than its disk. hotmount formats no disk while
// its state directory is read-only.
func TestGivenUp(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	// No event reports that the kernel has shut a filesystem down. hotmount notices the shutdown in its periodic
	// rescan.
	m.run("echo 'rescan: 10s' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	// The filesystem's root directory belongs to a pod's user, and hotmount must still find that the filesystem is shut
	// down.
	m.run("chown 1000:1000 /mnt/disks/" + uuid + "; chmod 0700 /mnt/disks/" + uuid + "; xfs_io -x -c shutdown /mnt/disks/" + uuid)
	m.waitForLog("/dev/" + name + " .*the kernel has shut the filesystem down")
	failed := func(name string) {
		t.Helper()
		for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
			m.wait("the status to show it", "code=0; out=$("+who+"hotmount status) || code=$?; [ $code = 3 ] && grep '^"+name+" .* failed ' <<<\"$out\"")
		}
	}
	failed(name)
	m.checkStatus(name + " is failed: .*the kernel has shut the filesystem down")

	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-e", "remount-ro", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: ext4})
	uuid = m.mounted(name)
	m.run("echo 1 >/sys/fs/ext4/" + name + "/trigger_fs_error; ! touch /mnt/disks/" + uuid + "/f 2>/dev/null")
	// After the error the ext4 filesystem is read-only, although the mount table of Linux 6.1 still shows "rw".
	m.run("touch /mnt/disks/" + uuid + "/f 2>&1 | grep 'Read-only file system'")
	m.waitForLog("/dev/" + name + " .*the kernel has counted errors in the ext4 filesystem .errors_count [0-9]+., and may no longer write to the filesystem.*e2fsck -fn /dev/" + name)
	failed(name)
	m.checkStatus(name + " is failed: .*the kernel has counted errors.*e2fsck -fn /dev/" + name)

	short := made(t, 400<<20)
	if err := os.Truncate(short, 350<<20); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id := m.attach(w, worker.Disk{File: short})
	m.waitForLog("/dev/" + name + " .*refuse: the disk has shrunk: its xfs .*not mounted")
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	// hotmount does not format a disk while its state directory is read-only.
	m.run("systemctl stop hotmount; cp -a /var/lib/hotmount /root/state; mount -t tmpfs -o mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount; mount -o remount,ro /var/lib/hotmount; systemctl start hotmount")
	name, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: the state directory could not be written .*read-only file system")
	m.checkUntouched(name)
}

// TestRepairedLate checks that hotmount retries the mount of a damaged filesystem after growing delays. The commands
// `hotmount status`, `hotmount plan` and `hotmount explain` show the number of attempts. After a repair the filesystem
// is mounted at once, because the repair writes to the disk.
func TestRepairedLate(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.detach(w, id)
	// The test overwrites sector 2, as TestDamaged does, and later writes the old content back.
	good := make([]byte, 512)
	f, err := os.Open(image)
	if err == nil {
		_, err = f.ReadAt(good, 1024)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	writeRandom(t, image, 1024, 512)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	// The ninth attempt to mount comes at least 96 seconds after the eighth, so the test runs its checks between these
	// two attempts.
	m.waitMinutes(5, "the eighth try", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep '"+name+" is failed: .*failed 8 times so far'")
	m.checkStatus(name + " is failed: .*failed 8 times so far, next try at")
	m.run("hotmount plan | grep '^" + name + " .*failed 8 times so far'; hotmount explain " + name + " | grep '^The last try failed: .*failed 8 times so far'")
	// The journal does not say that the disk is being formatted, and the repeated attempts do not fill the journal.
	m.run("! journalctl -b -o cat --no-pager -u 'hotmount-format@*' | grep -E 'found. hotmount reads the disk|hotmount makes xfs'")
	lines := m.run("journalctl -b _COMM=hotmount -o cat --no-pager | grep -c '^/dev/" + name + "'")
	if n, err := strconv.Atoi(lines); err != nil || n > 5 {
		t.Errorf("%s lines for 8 tries", lines)
	}
	// A look at the disk does not increase the number of attempts to mount the disk.
	mounting := "journalctl -b -o cat --no-pager _PID=1 | grep -c '^Mounting .*" + uuid + "'"
	before := m.run(mounting)
	m.run("for i in 1 2 3; do udevadm trigger -s block; udevadm settle; done; hotmount plan | grep '^" + name + " '")
	m.wait("its failure to be shown", "hotmount status | grep '^"+name+" .* failed '")
	if got := m.run(mounting); got != before {
		t.Errorf("it was tried %s times, and now %s times", before, got)
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

// TestSlowRecovery checks a filesystem whose log replay takes longer than systemd's default timeout. hotmount starts
// the mount once, waits for the replay, and delays no other disk.
func TestSlowRecovery(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 1<<30)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "DIRTY"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	// The new files are in the log, and not yet in their final place on the disk.
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
	m.waitMinutes(5, "the recovery", kernel("Starting recovery"))
	usual, err := strconv.Atoi(m.run("systemctl show -P DefaultTimeoutStartUSec | sed 's/1min 30s/90/'"))
	if err != nil {
		t.Fatal(err)
	}
	throttle(t, w, id+"/virtio-backend", 8<<10, 8<<10)
	m.wait("the daemon, which does not wait for it", "systemctl is-active hotmount")
	other, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "QUICK"})
	m.mounted(other)
	start := m.run(kernel("Starting recovery"))
	m.waitMinutes(5, "longer than systemd's own patience", fmt.Sprintf("[ $(cut -d. -f1 /proc/uptime) -gt $((%s + %d)) ]", start, usual+10))
	if got := m.run("systemctl show -P ActiveState " + quote(unitOf(uuid)) + "; hotmount status | grep '^" + name + " '"); !strings.HasPrefix(got, "activating\n") || strings.Contains(got, "failed") {
		t.Fatalf("while the log is replayed: %s\n%s", got, m.run("journalctl -b --no-pager | tail -n 50"))
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.waitMinutes(3, "the mount", "findmnt "+where)
	t.Logf("the recovery began at %s s and ended at %s s", start, m.run(kernel("Ending recovery")))
	if got := m.run("ls " + where + "/d | wc -l"); got != "20000" {
		t.Errorf("%s files of 20000", got)
	}
	once := func() {
		t.Helper()
		if got := m.run("journalctl -b -o cat --no-pager | grep -iE 'timed out|next try' || true; journalctl -b -o cat --no-pager _PID=1 | grep -c '^Mounting .*" + uuid + "'"); got != "1" {
			t.Errorf("the mount: %s", got)
		}
	}
	once()

	// At boot, hotmount also waits for the replay and starts the mount once. kubelet waits for the replay, too, because
	// ready_timeout is long enough.
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
	m.waitMinutes(5, "the recovery at boot", kernel("Starting recovery"))
	throttle(t, w, id+"/virtio-backend", 8<<10, 8<<10)
	m.waitMinutes(5, "longer than READY and systemd wait by themselves", fmt.Sprintf("[ $(cut -d. -f1 /proc/uptime) -gt $((%s + %d)) ]", m.run(kernel("Starting recovery")), usual+10))
	if got := m.run("systemctl show -P ActiveState " + quote(unitOf(uuid)) + " hotmount kubelet; [ ! -e /root/kubelet-saw ]"); strings.Join(strings.Fields(got), " ") != "activating activating inactive" {
		t.Errorf("while the log is replayed at boot: %s", got)
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.waitMinutes(3, "kubelet", "systemctl is-active kubelet")
	if got := m.run("grep -x " + where + " /root/kubelet-saw; ls " + where + "/d | wc -l"); got != where+"\n40000" {
		t.Errorf("kubelet saw %s", got)
	}
	once()
}

// TestShutDownWhileItRests checks that the installed daemon finds a shut-down filesystem within eleven minutes. No
// event reports the shutdown, and the next full rescan is an hour away. The shutdown comes after the daemon's first
// check, so only the ten-minute check finds the shutdown.
func TestShutDownWhileItRests(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	// The daemon makes its first check when it has been idle for one minute.
	m.run("sleep 180; xfs_io -x -c shutdown /mnt/disks/" + uuid)
	m.run("sleep 300") // the wait is split into two scripts, because one script must end within ten minutes
	m.run("for i in $(seq 70); do journalctl -b -u hotmount -o cat --no-pager | grep -q '^/dev/" + name + " .*the kernel has shut the filesystem down' && exit 0; sleep 5; done; exit 1")
}

// TestTrim checks that hotmount gives the free space of a filesystem back to the host after 24 hours of use, and not
// earlier. hotmount trims its own filesystems and filesystems that were made elsewhere. With "trim: false", hotmount
// trims nothing.
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
		t.Errorf("before a day, the own image takes %d and the foreign one %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
	}
	// The test records that each filesystem has been in use for a day minus 30 seconds, and later waits for these 30
	// seconds. hotmount-trim trims no filesystem that has been in use for less than a day.
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
	// The test sets the clock to the next elapse of hotmount-trim.timer. The test also turns the timer's random delay
	// off. With a random delay, systemd would choose a new delay of up to three hours when the clock is set.
	m.run(`mkdir -p /run/systemd/system/hotmount-trim.timer.d; printf '[Timer]\nRandomizedDelaySec=0\nAccuracySec=1s\n' >/run/systemd/system/hotmount-trim.timer.d/test.conf; systemctl daemon-reload`)
	m.run("rm /etc/hotmount/config.yaml; systemctl reload hotmount; date -s \"$(systemctl show -P NextElapseUSecRealtime hotmount-trim.timer)\"")
	m.wait("the timer to have it trimmed", "[ $(journalctl -b --no-pager -o cat -u hotmount-trim | grep -c 'trimmed: /mnt') = 2 ]")
	if a, b := used(t, own), used(t, foreign); a > most || b > most {
		t.Errorf("after a day they take %d and %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
	}
	if got := used(t, kept); got < least {
		t.Errorf("the image of a disk that cannot discard takes %d", got)
	}
	if got := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(xfs))); !strings.Contains(got, "trimmed: ") {
		t.Errorf("the unit's journal: %s", got)
	}
	if got := m.run("systemctl start hotmount-trim; journalctl -b --no-pager -o cat -u hotmount-trim | grep -c 'trimmed: /mnt'"); got != "2" {
		t.Errorf("trimmed %s times, want once for each filesystem", got)
	}

	// `hotmount status` shows that xfs_growfs failed to grow the filesystem.
	tool := m.run("command -v xfs_growfs")
	m.run("mount --bind /bin/false " + tool)
	m.resize(w, xID, gib+gib/2)
	m.wait("the failure to be shown", "hotmount status | tr -s '\n ' ' ' | grep '"+x+" is mounted: the disk is mounted, and its filesystem could not be grown to fill the disk: .*systemctl start hotmount-grow@'")
	m.run("umount " + tool + "; $(hotmount status | tr -s '\n ' ' ' | grep -o 'systemctl start hotmount-grow@[0-9]*')")
	m.takes(xfs, gib+gib/2-130*mib)
	m.wait("the failure to be over", "! hotmount status | tr -s '\n ' ' ' | grep 'could not be grown'")
}

// The method `options` sets the mount options of the default class to noatime, nodev and the given options.
func (m machine) options(options string) {
	m.t.Helper()
	m.run("printf 'classes:\\n- {name: default, options: [noatime, nodev, " + options + "]}\\n' >/etc/hotmount/config.d/90-options.yaml; systemctl reload hotmount")
}

// The method `corrected` removes the wrong mount options from the configuration, checks the configuration and reloads
// the daemon.
func (m machine) corrected() {
	m.t.Helper()
	m.run("rm /etc/hotmount/config.d/90-options.yaml; hotmount config check && systemctl reload hotmount")
}

// checkNoRepair checks that the status shows the disk as failed, and suggests neither a check of the filesystem nor a
// format.
func (m machine) checkNoRepair(name string) {
	m.t.Helper()
	m.wait("the failure in the status", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: '")
	m.run("! (hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E 'xfs_repair|e2fsck|hotmount format'")
}

// noToken checks that `hotmount format` prints no token for the disk. The error must say that the disk's content is not
// at fault, and must contain the parameter `why`.
func (m machine) noToken(name, why string) {
	m.t.Helper()
	if out := m.fails("hotmount format " + name); !strings.Contains(out, "cannot format "+name+": the mount fails because of the node") || !strings.Contains(out, why) || strings.Contains(out, "--confirm") {
		m.t.Error(out)
	}
}

// TestWhyNotMounted checks that wrong mount options are found before a blank disk is formatted. The message about a
// failed mount names the real cause and does not blame the disk. After a correction of the mount options or of
// /etc/fstab, the commands in the message make hotmount mount the disk.
func TestWhyNotMounted(t *testing.T) {
	m, w := startNode(t, worker.Options{})

	m.options("noattime")
	m.run("out=$(hotmount config check 2>&1) || [ $? = 3 ]; echo \"$out\" >&2; grep -F \"90-options.yaml:2: classes[0].options: found\" <<<\"$out\" | grep -F \"with which a new xfs filesystem cannot be mounted: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'\"")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + name + " .*cannot format " + name + " .*: the mount of the new filesystem would fail: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'; nothing is written; .*hotmount config check && systemctl reload hotmount")
	m.checkUntouched(name)
	m.corrected()
	m.mounted(name)

	// The journal contains the failure only once, although hotmount retries the mount.
	m.options("logbsize=256k")
	m.run("out=$(hotmount config check 2>&1); echo \"$out\" | grep -F 'with which a new ext4 filesystem cannot be mounted: ext4 does not take the mount option logbsize=256k'")
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: image})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: mount.8. says: wrong fs type, .*; nothing reports damage; to check the options of class default: hotmount config check; for the whole log: journalctl -b -u ")
	m.wait("three tries", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: .*failed [3-9] times'")
	if got := m.run("journalctl -b -o cat --no-pager -u hotmount | grep -c '^/dev/" + name + " .*: cannot mount " + name + "'"); got != "1" {
		t.Errorf("the journal has the failure %s times", got)
	}
	m.checkNoRepair(name)
	m.noToken(name, "ext4 does not take the mount option logbsize=256k: ext4: Unknown parameter 'logbsize'; nothing is written; to check the options of class default: hotmount config check && systemctl reload hotmount")
	m.corrected()
	m.mounted(name)

	// fstab has an entry for the class directory, and the device of the entry never appears.
	m.run("echo 'UUID=00000000-0000-4000-8000-00000000dead /mnt/disks xfs nofail,x-systemd.device-timeout=3s 0 0' >>/etc/fstab; systemctl daemon-reload")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: systemd requires mnt-disks.mount for this mount, but mnt-disks.mount is not mounted; the disk is not the cause; to see the cause: systemctl status mnt-disks.mount; if mnt-disks.mount is not needed: remove it from /etc/fstab, then: systemctl daemon-reload")
	m.checkNoRepair(name)
	m.noToken(name, "systemd requires mnt-disks.mount for this mount")
	m.run("sed -i '/dead/d' /etc/fstab; " + m.printed("systemctl daemon-reload"))
	m.waitMinutes(3, "the next try", "findmnt /dev/"+name)

	// mnt-disks.mount, the unit of the class directory, is inactive, but is not the cause of the failed mount. PID 1
	// starts the disk's mount unit, although the condition of mnt-disks.mount is not met. The message contains only the
	// output of mount(8), because a container does not receive the kernel's log.
	m.run("printf '[Unit]\\nConditionPathExists=!/etc\\n[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nWhere=/mnt/disks\\n' >/etc/systemd/system/mnt-disks.mount; systemctl daemon-reload")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), LogicalBlockSize: 4096})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: mount.8. says: mount.2. system call failed: Function not implemented")
	m.checkNoRepair(name)
	m.run("[ $(systemctl show -P LoadState mnt-disks.mount)-$(systemctl show -P ActiveState mnt-disks.mount) = loaded-inactive ]")
}

// TestMovedClass checks a mounted volume whose class gets another directory. hotmount does not report that somebody
// else uses the volume. The printed command moves the volume to the other directory.
func TestMovedClass(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	old := "/mnt/disks/" + uuid
	m.run("mkdir /mnt/disks/moved; printf 'classes:\\n- {name: default, directory: /mnt/disks/moved}\\n' >/etc/hotmount/config.d/zz-moved.yaml; systemctl reload hotmount")
	m.waitForLog("/dev/" + name + " .*refuse: the disk is still mounted at " + old + ", but its class default has the directory /mnt/disks/moved now; if nobody needs the volume at the old path: umount " + old + "; hotmount then mounts the disk in /mnt/disks/moved")
	m.run("umount " + old)
	m.wait("the mount in the new directory", "findmnt /mnt/disks/moved/"+uuid)
}

// The function `newer` sets an unknown feature bit in the superblock of the XFS filesystem in a file. A kernel that
// does not support the feature must not write to the filesystem (sb_features_ro_compat in fs/xfs/libxfs/xfs_format.h).
func newer(t *testing.T, path string) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sector := make([]byte, 512)
	if _, err := f.ReadAt(sector, 0); err != nil {
		t.Fatal(err)
	}
	sector[212] |= 0x40
	binary.LittleEndian.PutUint32(sector[224:], 0)
	binary.LittleEndian.PutUint32(sector[224:], crc32.Checksum(sector, crc32.MakeTable(crc32.Castagnoli)))
	if _, err := f.WriteAt(sector, 0); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhyTheKernelDoesNotMount checks how hotmount explains the kernel's messages about failed mounts. Only the journal
// of a virtual machine contains the kernel's messages. In the first case the kernel's XFS module is missing.
func TestWhyTheKernelDoesNotMount(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /etc/hotmount/config.d; printf 'classes:\\n- {name: default, directory: /mnt/disks, names: [\"vd[b-z]\"]}\\n' >/etc/hotmount/config.d/10-default.yaml; hotmount config check && systemctl reload hotmount")
	m.run("modprobe -r xfs; mv /lib/modules/$(uname -r)/kernel/fs/xfs /root/; depmod")
	fresh, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "FRESH"})
	old, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "OLD"})
	const module = "this kernel cannot mount xfs, because the module is missing or cannot be loaded"
	m.waitForLog("/dev/" + fresh + " .*cannot format " + fresh + " .*: " + module + "; to see why: modprobe xfs; nothing is written")
	m.waitForLog("/dev/" + old + " .*cannot mount " + old + " .*: mount.8. says: unknown filesystem type 'xfs'; " + module + "; the disk is not the cause; to see the cause: modprobe xfs;")
	m.checkNoRepair(old)
	m.noToken(old, module)
	m.checkUntouched(fresh)
	m.run("if " + m.printed("modprobe xfs") + "; then exit 1; fi; mv /root/xfs /lib/modules/$(uname -r)/kernel/fs/; depmod; modprobe xfs; hotmount rescan")
	m.mounted(fresh)
	m.mounted(old)

	name, _ := m.attach(w, worker.Disk{File: newer(t, made(t, 320<<20)), Serial: "NEWER"})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*Superblock has unknown read-only compatible features .*SB validate failed with error -22; the filesystem is newer than this kernel, and is not damaged")
	m.checkNoRepair(name)

	apart := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-l", "logdev="+blank(t, 64<<20)+",size=64m", apart).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: apart, Serial: "APART"})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*external log; specify logdev .*; the filesystem has its log on another device")
	m.checkNoRepair(name)

	// In an ext4 filesystem without checksums, s_feature_incompat (0x60) gets a bit that no kernel supports.
	unknown := madeExt4(t, 320<<20)
	putBytes(t, unknown, 1024+0x60+2, "\x08")
	name, _ = m.attach(w, worker.Disk{File: unknown, Serial: "NEWER-E"})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*unsupported optional features .*; the filesystem is newer than this kernel, and is not damaged")
	m.checkNoRepair(name)

	// The ext4 superblock's s_journal_inum (0xe0) names no inode, and s_journal_dev (0xe4) names a missing device.
	elsewhere := madeExt4(t, 320<<20)
	putBytes(t, elsewhere, 1024+0xe0, "\x00\x00\x00\x00\x10\x08\x00\x00")
	name, _ = m.attach(w, worker.Disk{File: elsewhere, Serial: "APART-E"})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*journal device.*; the filesystem has its log on another device, and is not damaged")
	m.checkNoRepair(name)

	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SECTORS", LogicalBlockSize: 4096})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*device supports 4096 byte sectors .not 512.; the filesystem was made for smaller sectors than this disk has")
	m.checkNoRepair(name)
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SECTORS"})
	m.mounted(name)

	// While a program has the disk open with O_EXCL, the kernel cannot open the disk for a mount.
	m.run("systemctl stop hotmount")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "CLAIMED"})
	m.opens("claim", "smartd", name, "O_RDONLY | O_EXCL")
	m.run("systemctl start hotmount")
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*; the kernel says: .*Can't open blockdev; the kernel did not read the disk, so this is not a sign of damage")
	m.checkNoRepair(name)
	m.run(m.printed("fuser -v /dev/"+name) + " 2>&1 | grep smartd; systemctl stop claim")
	m.waitMinutes(3, "the next try", "findmnt /dev/"+name)

	m.options("noattime")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "OPTIONS"})
	m.waitForLog("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: xfs: Unknown parameter 'noattime'; the disk is not damaged; correct the options of class default")
	m.checkNoRepair(name)
	m.noToken(name, "xfs: Unknown parameter 'noattime'")
	m.corrected()
	m.mounted(name)

	// The kernel parses the option logbsize=17k without an error, and then refuses to mount with this option.
	m.options("logbsize=17k")
	m.run("out=$(hotmount config check 2>&1) || [ $? = 3 ]; grep -F 'with which a new xfs filesystem cannot be mounted: wrong fs type, bad option' <<<\"$out\"")
	name, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "SCRATCH"})
	m.waitForLog("/dev/" + name + " .*cannot format " + name + " .*: the mount of the new filesystem would fail: a new xfs filesystem cannot be mounted with .*logbsize=17k.*: wrong fs type, bad option.*; nothing is written; to check the options of class default: hotmount config check && systemctl reload hotmount")
	m.checkUntouched(name)
	m.corrected()
	m.mounted(name)
	m.run("[ -z \"$(losetup -nl)$(findmnt -rno TARGET | grep hotmount-check)\" ]")
}

// rootOn puts the class directory and the state directory on one new filesystem of the given type. In the test, the new
// filesystem represents the node's root filesystem.
func (m machine) rootOn(w worker.Node, fstype string) {
	m.t.Helper()
	image := made(m.t, 400<<20)
	if fstype == "ext4" {
		if out, err := exec.CommandContext(ctx(m.t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
			m.t.Fatalf("mkfs.ext4: %v: %s", err, out)
		}
	}
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: image})
	m.run("mkdir -p /root/os; mount /dev/" + name + " /root/os; mount --make-private /root/os; mkdir /root/os/disks /root/os/lib; cp -a /var/lib/hotmount/. /root/os/lib; mount --bind /root/os/disks /mnt/disks; mount --make-shared /mnt/disks; mount --bind /root/os/lib /var/lib/hotmount; systemctl start hotmount")
}

// fillRoot fills the filesystem that rootOn has made, first with a file and then with directories. On ext4, directories
// can take some blocks that a file cannot take.
func (m machine) fillRoot() {
	m.t.Helper()
	m.run("mkdir -p /root/os/fill; cd /root/os/fill; for i in 1 2; do cat /dev/zero >>f 2>/dev/null && exit 1; sync; done; while mkdir $$-$i 2>/dev/null; do i=$((i+1)); done")
}

// TestFullRoot checks that disks with data are mounted while the root filesystem is full, even after several
// attachments. A blank disk is held. After the root filesystem has room again, the command in the status makes hotmount
// format the blank disk.
func TestFullRoot(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			m, w := startNode(t, worker.Options{})
			m.rootOn(w, fstype)
			m.wait("the reserve", "[ $(ls /var/lib/hotmount/reserve | wc -l) = 64 ]")
			m.fillRoot()
			m.run("systemctl restart hotmount")
			var ids []string
			for range 4 {
				name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
				m.mounted(name)
				ids = append(ids, id)
			}
			m.fillRoot() // fills the space that hotmount has freed from its reserve
			name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
			m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: the filesystem of /var/lib/hotmount is full; make room on the filesystem of /var/lib/hotmount, then: hotmount rescan")
			m.checkUntouched(name)
			for _, id := range ids {
				m.detach(w, id)
			}
			again, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
			uuid := m.mounted(again)
			if got := m.run("ls -A /var/lib/hotmount/reserve | wc -l; grep -c " + uuid + " /var/lib/hotmount/filesystems.json; journalctl -b -p err -o cat --no-pager -u hotmount"); !strings.HasSuffix(got, "\n1") {
				t.Errorf("of the reserve are left, is the filesystem on record, errors: %s", got)
			}
			m.run("rm -r /root/os/fill; $(hotmount status | tr -s '\n ' ' ' | grep -o 'hotmount rescan')")
			m.mounted(name)
		})
	}
}

// TestFullRootWithoutReserve checks the messages when the root filesystem is full and hotmount's reserve is gone.
// Without its reserve hotmount cannot make the mount point and cannot write a record. The first printed command shows
// which filesystem has no free space. After a cleanup, the second printed command ends the hold.
func TestFullRootWithoutReserve(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.rootOn(w, "ext4")
	m.wait("the reserve", "[ $(ls /var/lib/hotmount/reserve | wc -l) = 64 ]")
	m.run("rm -r /var/lib/hotmount/reserve; sync")
	m.fillRoot()
	data, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait("the failure", "hotmount status | tr -s '\n ' ' ' | grep '"+data+" is failed: cannot make the mount point /mnt/disks/.*: no space left on device: the disk is untouched, and hotmount mounts it when there is room for a directory; to see what is full: df -h /mnt/disks; df -i /mnt/disks;'")
	m.run("$(hotmount status | tr -s '\n ' ' ' | grep -o 'df -h /mnt/disks') | grep '100%'; ls -A /mnt/disks | grep -v . || [ $? = 1 ]")
	m.run("systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + name + ` .*hold: hotmount formats no disk: the state directory could not be written at 2[-0-9]+ [0-9:]+ UTC .*no space left on device\), and a record may be missing; the filesystem of the directory is full now; make sure that the state directory can be written, then: hotmount state init`)
	m.run("rm -r /root/os/fill; sync")
	m.checkStatus(name + " is held .operator.: .*and a record may be missing; the directory can be written now")
	m.checkUntouched(name)
	m.run("$(hotmount status | tr -s '\n ' ' ' | grep -o 'hotmount state init')")
	m.mounted(name)
	m.mounted(data)
}
