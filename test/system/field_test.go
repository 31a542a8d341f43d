//go:build vm

package system

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hotmount/test/worker"
)

// The tests of this file, except TestNVMeOverTCP, reproduce problems from public reports. packaging/doc/field.md lists
// the reports.

// TestStaleUdevDatabase checks that hotmount reads a disk's content itself and does not rely on udev's properties
// (rook#10295). After writes that udev has missed, udev reports wrong content. One disk no longer contains the
// filesystem that udev reports. Another disk contains a filesystem that udev does not report.
func TestStaleUdevDatabase(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	was, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	is, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("udevadm settle; udevadm info -q property /dev/" + was + " | grep -x ID_FS_TYPE=xfs")
	// If a write ends while udevd is stopped, udevd misses the write even after its next start.
	m.run(fmt.Sprintf(`systemctl stop systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udevd
		head -c 4M /dev/urandom | dd of=/dev/%s bs=1M iflag=fullblock conv=notrunc,fsync status=none
		mkfs.ext4 -q -F -U 01234567-0123-4123-8123-0123456789ab /dev/%s
		systemctl start systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udevd
		udevadm info -q property /dev/%[1]s | grep -x ID_FS_TYPE=xfs
		[ -z "$(udevadm info -q property /dev/%[2]s | grep ^ID_FS_TYPE=)" ]
		systemctl start hotmount`, was, is))
	m.waitForLog("/dev/" + was + " .*(refuse|hold): ")
	m.waitForLog("/dev/" + is + " .*(refuse|hold): ")
	if got := m.run("findmnt -rno TARGET | grep ^/mnt/disks/ || [ $? = 1 ]"); got != "" {
		t.Errorf("mounted: %s", got)
	}
	if got := m.run("blkid -p -o value -s TYPE /dev/" + is); got != "ext4" {
		t.Errorf("the disk that udev takes for blank holds %q", got)
	}
	// After an event, udev's database describes the real content of both disks, and hotmount decides by this content.
	m.run("udevadm trigger --action=change /dev/" + was + " /dev/" + is)
	if got := m.mounted(is); got != "01234567-0123-4123-8123-0123456789ab" {
		t.Errorf("mounted as %s", got)
	}
	m.waitForLog("/dev/" + was + " .*refuse: ")
}

// TestPluggedAndUnplugged attaches and detaches a loop device ten times. At least three of the ten rounds must take
// less than 100 ms each. The test uses a loop device, because the detach of a virtio disk from a virtual machine takes
// longer than 100 ms. In most rounds the disk is detached before hotmount has mounted it. After the ten rounds, the
// test checks the mounts, first with the disk attached and then with the disk detached (udisks#886).
func TestPluggedAndUnplugged(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	// PID 1 waits up to 10 seconds for a disk that was detached again (JobRunningTimeoutSec=). Without hotmount's
	// drop-in, PID 1 would wait 90 seconds (DefaultDeviceTimeoutSec=). The limit of 40 seconds is long enough for a
	// machine under load.
	const limit = 40 * time.Second
	early, quick := 0, 0
	for i := range 10 {
		begun := time.Now()
		name, id := m.attach(w, worker.Disk{File: image})
		if i%3 == 2 {
			m.run("udevadm settle") // gives hotmount time to begin its work on the disk before the detach
		}
		err := w.Detach(ctx(t), id)
		took := time.Since(begun)
		if t.Logf("round %d: detached %v after the attach began", i, took); took < 100*time.Millisecond {
			quick++
		}
		if took > limit {
			t.Errorf("attached and detached within %v, want %v at most", took, limit)
		}
		if err == nil {
			early++
			continue
		}
		// The kernel does not detach a loop device while it is mounted.
		m.run("if findmnt -n /dev/" + name + " >/dev/null; then umount --all-targets /dev/" + name + "; fi")
	}
	if quick < 3 {
		t.Errorf("only %d of ten disks were detached within 100 ms", quick)
	}
	if early < 6 {
		t.Errorf("hotmount had mounted all but %d of ten disks before they were detached", early)
	}
	m.wait("the last mount to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	// If a unit starts for a disk that is gone, PID 1 waits for the disk. This wait delays the mount of the next disk
	// with the same kernel name.
	begun := time.Now()
	m.run("timeout 60 systemctl start hotmount-format@999999 2>/dev/null || [ $? = 1 ]")
	if took := time.Since(begun); took < 8*time.Second || took > limit {
		t.Errorf("PID 1 waited %v for a disk that does not come, want 10 seconds", took)
	}
	begun = time.Now()
	name, id := m.attach(w, worker.Disk{File: image})
	m.wait("the last disk to be mounted", "findmnt -n /dev/"+name)
	if took := time.Since(begun); took > limit {
		t.Errorf("the last disk was mounted after %v, want %v at most", took, limit)
	}
	uuid := m.mounted(name)
	m.wait("quiet", "systemctl show -P StatusText hotmount | grep -qx '1 mounted, 0 held, 0 refused, 0 failing'")
	if got := m.run("findmnt -rno TARGET | grep -c ^/mnt/disks/"); got != "1" {
		t.Errorf("%s mounts", got)
	}
	m.detach(w, id)
	m.wait("its mount to go", "[ ! -e /mnt/disks/"+uuid+" ]")
	if got := m.run("systemctl list-units --no-legend --all --state=failed; systemctl show -P NRestarts hotmount"); got != "0" {
		t.Errorf("got %s", got)
	}
}

// TestDamagedLog checks a filesystem whose log cannot be replayed (talos#9217). The status shows the disk as failed,
// with the command that checks the filesystem. The journal contains the kernel's message. The filesystem is mounted
// after a repair.
func TestDamagedLog(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	// On a slow machine, the kernel's periodic flush would empty the log before the shutdown.
	m.run("modprobe xfs; sysctl -q fs.xfs.xfssyncd_centisecs=720000")
	name, id := m.attach(w, worker.Disk{File: image, Serial: "LOG"})
	uuid := m.mounted(name)
	// The repair discards the log. The file f is at first only in the log, so a freeze writes f to its final place
	// before the repair.
	m.run("cd /mnt/disks/" + uuid + "; echo kept >f; sync; xfs_freeze -f .; xfs_freeze -u .; for i in {1..60}; do mkdir d$i; touch d$i/x; sync -f .; done; cd /; xfs_io -x -c 'shutdown -f' /mnt/disks/" + uuid)
	m.detach(w, id)
	damageLog(t, image)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "LOG"})
	m.wait("it to be failed", "(hotmount status || [ $? = 3 ]) | grep '^"+name+" .* failed '")
	m.checkStatus(name + " is failed: .*xfs_repair -n /dev/" + name)
	m.waitForLog("^/dev/" + name + " .*the kernel says: .*log mount/recovery failed")
	m.run("systemctl stop hotmount")
	m.wait("nobody to read it", "! systemctl list-units --no-legend 'hotmount-format@*' | grep -q .")
	m.run("xfs_repair -L /dev/" + name + " 2>&1; systemctl start hotmount")
	if got := m.mounted(name); got != uuid {
		t.Errorf("repaired and mounted as %s", got)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}

// damageLog inverts a byte of a log record that a mount has to replay. The record is in the middle between the log's
// tail and head. If the record were at the head, the kernel would only cut off the damaged records, as after a power
// cut (xlog_verify_head in fs/xfs/xfs_log_recover.c).
func damageLog(t *testing.T, image string) {
	t.Helper()
	start, length := logOf(t, image)
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := make([]byte, length)
	if _, err := f.ReadAt(log, start); err != nil {
		t.Fatal(err)
	}
	// A record header begins with its magic number. The record's LSN is at offset 16, and the tail's LSN is at offset
	// 24 (struct xlog_rec_header).
	var head, tail uint64
	var records []int64
	for at := int64(0); at < length; at += 512 {
		if binary.BigEndian.Uint32(log[at:]) != 0xfeedbabe {
			continue
		}
		records = append(records, at)
		if lsn := binary.BigEndian.Uint64(log[at+16:]); lsn > head {
			head, tail = lsn, binary.BigEndian.Uint64(log[at+24:])
		}
	}
	records = slices.DeleteFunc(records, func(at int64) bool { return binary.BigEndian.Uint64(log[at+16:]) < tail })
	if len(records) < 30 {
		t.Fatalf("only %d records have to be replayed, from %x to %x", len(records), tail, head)
	}
	at := records[len(records)/2] + 512 + 64
	log[at] ^= 0xff
	if _, err := f.WriteAt(log[at:at+1], start+at); err != nil {
		t.Fatal(err)
	}
}

// logOf returns the start and the length of the internal log of an XFS filesystem, both in bytes.
func logOf(t *testing.T, image string) (start, length int64) {
	t.Helper()
	value := func(name string) (n int64) {
		out, err := exec.CommandContext(ctx(t), "xfs_db", "-r", "-c", "sb 0", "-c", "p "+name, image).CombinedOutput()
		if err != nil {
			t.Fatalf("xfs_db: %v: %s", err, out)
		}
		if _, err := fmt.Sscanf(string(out), name+" = %d", &n); err != nil {
			t.Fatalf("xfs_db printed %q: %v", out, err)
		}
		return n
	}
	block := value("logstart")
	group := block >> value("agblklog")
	return (group*value("agblocks") + block&(1<<value("agblklog")-1)) * value("blocksize"), value("logblocks") * value("blocksize")
}

// TestFirstMountFailsOnce checks that a single read error only delays a mount, at the attachment and at boot
// (directpv#704, directpv#788). The journal names the read error, and advises no repair.
func TestFirstMountFailsOnce(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	at, _ := logOf(t, image)
	// The error is at the beginning of the XFS log. The kernel reads the log at a mount, and blkid does not read the
	// log.
	once := map[string]any{"inject-error": []any{map[string]any{"event": "none", "sector": at / 512, "errno": 5, "iotype": "read", "once": true}}}
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "ONCE", Blkdebug: once})
	const cause = ".* the kernel says: .*I/O error.*; the disk has read or write errors, and the filesystem may still be good; to see the errors: journalctl -k -b -g vd.; .*next try in"
	noRepair := "! journalctl -b -o cat --no-pager _COMM=hotmount | grep xfs_repair"
	m.waitForLog("^/dev/" + name + cause)
	m.run(m.printed("journalctl -k -b -g "+name) + " --no-pager | grep 'I/O error'")
	uuid := m.mounted(name)
	m.run(noRepair)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// At boot, the kernel logs many lines before the mount fails.
	m.waitForLog("^/dev/vd. .*ONCE" + cause)
	m.wait("its mount", "findmnt -n /mnt/disks/"+uuid)
	m.run(noRepair)
	if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
}

// TestMultipathdTakesADisk checks that hotmount leaves both paths of a blank disk to multipathd, and that the status
// shows the reason (longhorn#1210, longhorn#3994). With the setting "find_multipaths greedy", multipathd uses each SCSI
// disk. If a class selects multipathd's device, hotmount mounts the device and ignores the device's paths.
func TestMultipathdTakesADisk(t *testing.T) {
	var files []worker.File
	for _, f := range download(t, "multipath-tools", "kpartx", "libaio1", "liburcu8", "sg3-utils", "sg3-utils-udev", "libsgutils2-1.46-2") {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, worker.File{Path: "/root/multipath/" + filepath.Base(f), Data: data, Mode: 0o644})
	}
	m, w := start(t, worker.Options{Files: files, Setup: `set -e
		echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf
		printf 'defaults {\n find_multipaths greedy\n user_friendly_names yes\n}\n' >/etc/multipath.conf
		DEBIAN_FRONTEND=noninteractive dpkg -i /root/multipath/*.deb >/root/multipath/log 2>&1 || { cat /root/multipath/log >&2; exit 1; }`})
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n    names: ["sd*"]\n    transport: [scsi]\n' >/etc/hotmount/config.yaml; systemctl restart hotmount`)
	const reason = "the disk is a path of a multipath device"
	leg := worker.Disk{Bus: worker.BusSCSI, File: blank(t, 320<<20), Shared: true, Device: map[string]any{"wwn": 0x5000c50015ea71ae}}
	var legs, ids []string
	for range 2 {
		name, id := m.attach(w, leg)
		legs, ids = append(legs, name), append(ids, id)
	}
	var holder string
	for _, name := range legs {
		m.wait("multipathd to take it", "ls /sys/block/"+name+"/holders | grep ^dm-")
		holder = m.run("ls /sys/block/" + name + "/holders")
		m.wait("the reason", "hotmount explain "+name+" | grep '"+reason+"'")
		m.wait("the remedy", "hotmount explain "+name+" | grep 'to keep multipathd off the disk: list the disk in the section blacklist'")
		// The test counts sectors, because multipathd flushes the disk and the kernel counts a flush as a write request
		// without sectors.
		if got := m.run("awk '{print $7 + $14}' /sys/block/" + name + "/stat"); got != "0" {
			t.Errorf("%s sectors of %s were written", got, name)
		}
		if got := m.run("hotmount status -o wide || [ $? = 3 ]"); !regexpLine(got, "^"+name+" .*"+reason) {
			t.Errorf("the status has no reason for %s:\n%s", name, got)
		}
	}
	if got := m.run("hotmount history -o json"); got != "[]" {
		t.Errorf("the history has %s", got)
	}

	// Both paths lead to one disk. If a class selects multipathd's device, hotmount formats the device one time and
	// ignores the paths.
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n    names: ["sd*", "dm-*"]\n    transport: [scsi, dm]\n' >/etc/hotmount/config.yaml; systemctl reload hotmount`)
	uuid := m.mounted(holder)
	if formats := m.history(); len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
		t.Errorf("%s has the filesystem %s, and the formats are %+v", holder, uuid, formats)
	}
	for _, name := range legs {
		m.run("udevadm trigger --action=change /dev/" + name)
	}
	m.run("udevadm settle; hotmount rescan")
	for _, name := range legs {
		m.wait(name+" to be ignored", "hotmount explain "+name+" | grep '"+reason+"'")
	}
	m.wait("one mount", "systemctl show -P StatusText hotmount | grep -qx '1 mounted, 0 held, 0 refused, 0 failing'")

	// Both paths are detached, and one path is attached again.
	for _, id := range ids {
		m.detach(w, id)
	}
	m.wait("the device to be failed", "systemctl show -P StatusText hotmount | grep -qx '0 mounted, 0 held, 0 refused, 1 failing'")
	m.checkStatus(holder + " .*is failed: a disk below this device is gone .*: attach one of the device's disks again; multipathd then sets the device up again by itself; to see the paths: multipath -ll")
	_, id := m.attach(w, leg)
	m.wait("the volume to be usable again", "systemctl show -P StatusText hotmount | grep -qx '1 mounted, 0 held, 0 refused, 0 failing'")
	m.run("multipath -ll | grep active; echo x >/mnt/disks/" + uuid + "/f; sync -f /mnt/disks/" + uuid)
	m.run("systemctl stop hotmount; umount /dev/" + holder)
	m.detach(w, id)
}

// TestNVMeOverTCP checks that a class with "local: true" does not select an NVMe disk behind a network. The node is its
// own NVMe target, so the test uses a real disk and a real connection.
func TestNVMeOverTCP(t *testing.T) {
	m, _ := start(t, worker.Options{})
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n    names: ["nvme*"]\n    transport: [nvme]\n    local: true\n' >/etc/hotmount/config.yaml; systemctl restart hotmount
		truncate -s 320M /root/x.img; mkfs.xfs -q /root/x.img; losetup /dev/loop5 /root/x.img
		modprobe nvmet-tcp; modprobe nvme-tcp; ip link set lo up
		cd /sys/kernel/config/nvmet
		mkdir -p subsystems/far/namespaces/1 ports/1
		echo 1 >subsystems/far/attr_allow_any_host; echo -n /dev/loop5 >subsystems/far/namespaces/1/device_path; echo 1 >subsystems/far/namespaces/1/enable
		echo ipv4 >ports/1/addr_adrfam; echo tcp >ports/1/addr_trtype; echo 4420 >ports/1/addr_trsvcid; echo 127.0.0.1 >ports/1/addr_traddr
		ln -s /sys/kernel/config/nvmet/subsystems/far ports/1/subsystems/far
		echo transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=far >/dev/nvme-fabrics`)
	m.wait("the disk", "[ -b /dev/nvme0n1 ]")
	m.run("udevadm settle")
	m.wait("the reason", "hotmount explain nvme0n1 | grep 'NO *local: '")
	m.checkUntouched("nvme0n1")
	if got := m.run("findmnt -n /dev/nvme0n1 || [ $? = 1 ]"); got != "" {
		t.Errorf("mounted: %s", got)
	}
	m.run("sed -i '/local:/d' /etc/hotmount/config.yaml; systemctl reload hotmount")
	// Without "local: true" the class selects the disk. hotmount then ignores the disk, because /dev/loop5 seems to be
	// on the disk.
	m.waitForLog("^/dev/nvme0n1 .*ignore: the disk seems to be in use through /dev/loop5")
}
