//go:build vm

package system

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// kernelErrors is a script that prints the kernel's error messages about disks and filesystems.
const kernelErrors = `journalctl -b -k -o cat --no-pager >/run/kernel; grep -iE 'xfs.*(error|shutdown|corrupt)|i/o error|buffer_io' /run/kernel || true`

// TestRelease checks that a disk in use is not released, and that hotmount names the disk's users. A release unmounts
// an idle disk, which then stays unmounted and loses no data when it is detached.
func TestRelease(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	refused := func(why string) {
		t.Helper()
		out, err := m.Run(ctx(t), "hotmount release "+name)
		if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), why) {
			t.Errorf("released while %s: %q, %v", why, out, err)
		}
		m.run("findmnt " + where)
	}
	m.run("systemd-run -q --unit=opener sh -c 'exec 3>" + where + "/open; exec sleep 1000'")
	m.wait("the file", "[ -e "+where+"/open ]")
	refused("has a file open")
	m.run("systemctl stop opener")
	m.run("systemd-run -q --unit=dweller -p WorkingDirectory=" + where + " sleep 1000")
	refused("has its working directory there")
	m.run("systemctl stop dweller")
	// The bind mount is like kubelet's bind mount of a pod's volume. A container sees the bind mount in its own mount
	// namespace.
	pod := "/var/lib/kubelet/pods/0e3b1b0a-1111-2222-3333-444444444444/volumes/kubernetes.io~local-volume/pv"
	m.run("mkdir -p " + pod + "; mount --bind " + where + " " + pod)
	refused("pod 0e3b1b0a-1111-2222-3333-444444444444")
	container := func(unit, propagation, more string) {
		t.Helper()
		m.run("systemd-run -q --unit=" + unit + " sh -c 'exec unshare --mount --propagation " + propagation + " sh -c \"" + more + "exec sleep 1000\"'")
		m.wait("the namespace", "pid=$(systemctl show -p MainPID --value "+unit+"); grep -qx sleep /proc/$pid/comm && grep -q "+where+" /proc/$pid/mountinfo")
	}
	container("container", "private", "")
	if out := m.fails("hotmount release --force " + name); !strings.Contains(out, "Delete these pods before you detach the disk (for their names: kubectl get pods -A ") || !strings.Contains(out, "0e3b1b0a-1111-2222-3333-444444444444") || !strings.Contains(out, "NOT safe to detach") {
		t.Errorf("forced: %s", out)
	}
	// The pod is gone, but a container still has the volume in its mount namespace.
	m.run("umount " + pod)
	if out := m.fails("hotmount status; hotmount release " + name); strings.Contains(out, "Delete these pods") || !strings.Contains(out, "whether the disk is safe to detach: hotmount release "+name) || !strings.Contains(out, "NOT safe to detach") || !strings.Contains(out, "in its mount namespace") {
		t.Errorf("forced, and still held: %s", out)
	}
	m.run("systemctl stop container")
	if out := m.run("hotmount release " + name); !strings.Contains(out, "\nsafe to detach: ") {
		t.Errorf("nobody holds it any more, and release prints %q", out)
	}
	m.run("hotmount accept " + name)
	m.mounted(name)
	container("container", "private", "")
	refused("in its mount namespace")
	m.run("systemctl stop container")
	// The container's mount is like the mount of `docker run -v /mnt/disks/UUID:/data:rslave`.
	container("slave", "slave", "mkdir -p /srv/own; mount --bind "+where+" /srv/own; ")
	refused("mounted at /srv/own in its mount namespace")
	m.run("systemctl stop slave")
	// A process has a file open on a mount that is no longer in any namespace's mount table.
	m.run("systemd-run -q --unit=hidden sh -c 'mount --bind " + where + " /srv/own; exec 3>/srv/own/hidden; umount -l /srv/own; exec sleep 1000'")
	m.wait("the umount", "grep -qx sleep /proc/$(systemctl show -p MainPID --value hidden)/comm")
	refused("has a file open")
	m.run("systemctl stop hidden")
	// The mount is in a mount namespace without a process, so hotmount cannot find the mount. The kernel bind-mounts
	// the file of a mount namespace (/proc/PID/ns/mnt) only inside a mount namespace with a lower id. Linux 6.18
	// reserves a range of namespace ids for each processor. The test therefore makes the namespace on each processor in
	// turn, until the new namespace has a higher id than PID 1's mount namespace.
	m.run("mkdir /run/pin; mount --bind --make-private /run/pin /run/pin; touch /run/pin/ns; pinned=; for cpu in $(seq 0 $(($(nproc --all) - 1))); do if taskset -c $cpu unshare --mount=/run/pin/ns --propagation private mount --bind " + where + " /srv/own; then pinned=yes; break; fi; done; [ $pinned ]")
	if out, err := m.Run(ctx(t), "hotmount release "+name); err == nil || strings.Contains(out, "safe to detach") || !strings.Contains(err.Error(), "NOT safe to detach") {
		t.Errorf("released while it is held: %q, %v", out, err)
	}
	m.mounted(name)
	m.run("umount /run/pin/ns /run/pin")

	m.run("seq 200000 >" + where + "/data")
	if out := m.run("hotmount release " + uuid); !strings.Contains(out, "safe to detach: ") {
		t.Errorf("releasing said %q", out)
	}
	m.wait("the directory to go", "[ ! -e "+where+" ]")
	m.run("systemctl restart hotmount; " + trigger)
	m.waitForLog("/dev/" + name + " .*hold: somebody ran hotmount release for the disk")
	if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
		t.Errorf("mounted again: %s", got)
	}
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("it came back as %s, it was %s", got, uuid)
	}
	const control = "XFS (none): log I/O error, as a control"
	want := "200000"
	if _, is := w.(*worker.Worker); is { // a container does not receive the kernel's log
		m.run("echo '" + control + "' >/dev/kmsg; journalctl --sync")
		want += "\n" + control
	}
	if got := m.run("tail -n 1 " + where + "/data; " + kernelErrors); got != want {
		t.Errorf("after the return: %s", got)
	}
}

// TestSurpriseRemoval pulls idle and busy disks, even while the daemon is down. The disk's mount and directory must
// disappear, and hotmount must not retry the unmount endlessly. The test attaches a disk again while a process or a
// mount, such as a pod's mount, still uses the old filesystem. hotmount mounts the disk again as soon as the old
// filesystem is no longer in use.
func TestSurpriseRemoval(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	other, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "STAYS"})
	stays := m.mounted(other)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "PULLED"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/f; sync")
	m.run("systemd-run -q --unit=opener sh -c 'exec 3<" + where + "/f; exec sleep 1000'")
	if err := w.DetachSurprise(ctx(t), id); err != nil {
		t.Fatal(err)
	}
	m.wait("mount, unit and directory to go", fmt.Sprintf(`! findmnt %[1]s && [ ! -e %[1]s ] && [ -z "$(systemctl list-units --all --no-legend %[2]s)" ]`, where, quote(unitOf(uuid))))
	if got := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid))); !strings.Contains(got, "detached from the mount tree") || !strings.Contains(got, "(sh)") && !strings.Contains(got, "(sleep)") {
		t.Errorf("the unit's journal does not name the holder:\n%s", got)
	}
	// systemd and hotmount each try to unmount the filesystem before hotmount detaches the mount from the mount tree.
	if n := strings.Count(m.run("journalctl -b --no-pager -o cat -u "+quote(unitOf(uuid))), "Unmounting "); n < 1 || n > 3 {
		t.Errorf("%d tries to unmount", n)
	}
	again, id2 := m.attach(w, worker.Disk{File: image, Serial: "PULLED"})
	if again == name {
		t.Errorf("%s is the old filesystem's, and was given to another disk", again)
	}
	m.waitForLog("/dev/" + again + " .*next try in")
	m.run("systemctl stop opener")
	if got := m.mounted(again); got != uuid {
		t.Errorf("it came back as %s", got)
	}
	if got := m.run("cat " + where + "/f"); got != "kept" {
		t.Errorf("the data is %q", got)
	}
	// A mount in another namespace keeps the filesystem in use, like a container's mount. The other namespace does not
	// prevent the unmount on the host. The process also has a file open on its namespace's copy of the host's mount.
	// The copy of the mount disappears when the host's mount point is removed.
	m.run("systemd-run -q --unit=pod unshare --mount --propagation private sh -c 'mount --bind " + where + " /srv; exec 3<" + where + "/f; exec sleep 1001'")
	m.wait("the pod", "[ -e /proc/$(pgrep -f '^sleep 1001')/fd/3 ]")
	if err := w.DetachSurprise(ctx(t), id2); err != nil {
		t.Fatal(err)
	}
	m.wait("mount and directory to go", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
	m.waitForLog(where + " was unmounted: its disk .* is gone, but the filesystem was still in use; its users:")
	again, id3 := m.attach(w, worker.Disk{File: image, Serial: "PULLED"})
	m.waitForLog("/dev/" + again + " .*used by: process .*\\(sleep\\): mounted at /srv in its mount namespace; .*: has a file open.*; to see what uses the earlier mount: hotmount doctor; next try in")
	// The test restarts the daemon, so that the daemon's memory no longer contains anything about the pulled disk.
	m.run("systemctl restart hotmount")
	m.wait("it to fail again", "[ $(journalctl -b -o cat --no-pager -u hotmount | grep -c 'still has the filesystem mounted') -ge 2 ]")
	if got := m.run("journalctl -b -o cat --no-pager -u hotmount >/run/said; grep xfs_repair /run/said || [ $? = 1 ]"); got != "" {
		t.Errorf("nothing is damaged: %s", got)
	}
	m.run("systemctl stop pod")
	m.mounted(again)
	opened := func() {
		t.Helper()
		m.run("systemd-run -q --unit=opener sh -c 'exec 3<" + where + "/f; exec sleep 1002'")
		m.wait("the file", "[ -e /proc/$(pgrep -f '^sleep 1002')/fd/3 ]")
	}
	// The disk is pulled while the daemon is stopped, or while the daemon cannot start.
	for _, c := range []struct {
		down, words, holder string
		held                func()
	}{
		{"systemctl stop hotmount", "was detached from the mount tree", "(sleep): has a file open", opened},
		{"echo broken >/etc/hotmount/config.yaml; rm /var/lib/hotmount/settings.yaml; systemctl restart --no-block hotmount", "was unmounted: its disk", "(sleep): mounted at /srv in its mount namespace", func() {
			m.run("systemd-run -q --unit=opener unshare --mount --propagation private sh -c 'mount --bind " + where + " /srv; umount " + where + "; exec sleep 1003'")
			m.wait("the pod", "pgrep -f '^sleep 1003'")
		}},
	} {
		c.held()
		since := m.run("date +%s.%N")
		m.run(c.down)
		m.wait("the end of the daemon", "[ $(systemctl show -p ActiveState --value hotmount) != active ]")
		if err := w.DetachSurprise(ctx(t), id3); err != nil {
			t.Fatal(err)
		}
		story := "journalctl -b -o cat --no-pager --since @" + since + " -u " + quote(unitOf(uuid))
		m.wait("mount and directory to go, and the holder's name", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ] && %s | grep -F %s", where, story, quote(c.holder)))
		if got := m.run(story); strings.Count(got, c.words) != 1 {
			t.Errorf("%s: the unit's journal:\n%s", c.down, got)
		}
		if got := m.run("systemctl show -p ActiveState --value hotmount"); got == "active" {
			t.Errorf("%s: the daemon runs", c.down)
		}
		m.run("systemctl stop opener; echo 'settle: 1s' >/etc/hotmount/config.yaml; systemctl restart hotmount")
		again, id3 = m.attach(w, worker.Disk{File: image, Serial: "PULLED"})
		m.mounted(again)
	}
	// Another filesystem is mounted over the pulled disk's filesystem.
	opened()
	before := strings.Count(m.run("journalctl -b -o cat --no-pager -u "+quote(unitOf(uuid))), "was detached from the mount tree")
	gone := m.run("echo hotmount-gone@" + again + ":$(cat /sys/block/" + again + "/diskseq)::$(cat /sys/block/" + again + "/dev)")
	m.run("systemctl stop hotmount; ln -s /dev/null '/run/systemd/system/hotmount-gone@.service'; systemctl daemon-reload")
	if err := w.DetachSurprise(ctx(t), id3); err != nil {
		t.Fatal(err)
	}
	m.wait("systemd to try", "[ ! -e /dev/"+again+" ] && [ \"$(systemctl show -p Result --value "+quote(unitOf(uuid))+")\" != success ]")
	m.run("findmnt " + where + "; mount -t tmpfs over " + where + "; rm '/run/systemd/system/hotmount-gone@.service'; systemctl daemon-reload; ! systemctl start " + gone)
	if got := m.run("findmnt -S over; journalctl -b -o cat --no-pager -u hotmount-unmount@*"); !strings.Contains(got, "and hides the filesystem; first: umount ") {
		t.Errorf("without the daemon: %s", got)
	}
	m.run("systemctl start hotmount")
	m.waitForLog("cannot unmount " + where + ", whose disk " + again + " .*is mounted at " + where + " and hides the filesystem; first: umount " + where)
	m.run("findmnt -S over; umount " + where)
	m.wait("mount and directory to go", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
	if got := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(uuid))); strings.Count(got, "was detached from the mount tree") != before+1 || !strings.Contains(got[strings.LastIndex(got, "was detached from the mount tree"):], "(sleep): has a file open") {
		t.Errorf("the unit's journal does not name the second holder:\n%s", got)
	}
	m.run("systemctl stop opener")
	// The disk is now pulled while it is idle.
	again, id4 := m.attach(w, worker.Disk{File: image, Serial: "PULLED"})
	m.mounted(again)
	tries := "journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid)) + " | grep -c '^Unmounting '"
	tried := m.run(tries)
	m.wait("the former holders to be forgotten", "[ -z \"$(ls /run/hotmount/holders)\" ]")
	if err := w.DetachSurprise(ctx(t), id4); err != nil {
		t.Fatal(err)
	}
	m.wait("mount and directory to go", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
	if got := m.run("expr $(" + tries + ") - " + tried); got != "1" {
		t.Errorf("%s tries to unmount an idle filesystem", got)
	}
	if got := m.run("ls /mnt/disks; findmnt -no SOURCE /mnt/disks/" + stays + "; systemctl list-units --failed --no-legend 'mnt-*'"); got != stays+"\n/dev/"+other {
		t.Errorf("the rest of the node: %s", got)
	}
}

// TestPulledFromAPod pulls a disk that a pod uses, and attaches the disk again. kubelet's bind mount for the pod is in
// the host's mount namespace. hotmount leaves kubelet's mounts alone. While the disk is gone, nothing is at the
// volume's path, and the journal names the pod. When the disk is back, an ext4 filesystem is mounted again at once. An
// XFS filesystem is mounted again as soon as nobody uses its old mount.
func TestPulledFromAPod(t *testing.T) {
	m, w := start(t, worker.Options{})
	for fstype, mkfs := range map[string][]string{"xfs": {"mkfs.xfs", "-q"}, "ext4": {"mkfs.ext4", "-q", "-F"}} {
		image := blank(t, 320<<20)
		if out, err := exec.CommandContext(ctx(t), mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", mkfs, err, out)
		}
		name, id := m.attach(w, worker.Disk{File: image, Serial: "POD"})
		uuid := m.mounted(name)
		where := "/mnt/disks/" + uuid
		pod := "/var/lib/kubelet/pods/0e3b1b0a-1111-2222-3333-" + uuid[24:] + "/volumes/kubernetes.io~local-volume/pv"
		m.run(fmt.Sprintf("echo kept >%[1]s/f; sync; mkdir -p %[2]s; mount --bind %[1]s %[2]s", where, pod))
		m.run("systemd-run -q --unit=container sh -c 'exec 3<" + pod + "/f; exec sleep 1004'")
		m.wait("the container", "[ -e /proc/$(pgrep -f '^sleep 1004')/fd/3 ]")
		if err := w.DetachSurprise(ctx(t), id); err != nil {
			t.Fatal(err)
		}
		m.wait("mount and directory to go", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
		m.waitForLog(where + " was .*: its disk .* is gone, but the filesystem was still in use; its users:")
		if got := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid))); !regexpLine(got, "pod 0e3b1b0a-1111-2222-3333-"+uuid[24:]) {
			t.Errorf("%s: the unit's journal does not name the pod:\n%s", fstype, got)
		}
		if got := m.run("findmnt -no FSTYPE " + pod); got != fstype {
			t.Errorf("the kubelet's own mount is %q", got)
		}
		name, id = m.attach(w, worker.Disk{File: image, Serial: "POD"})
		if fstype == "xfs" {
			m.waitForLog("/dev/" + name + " .*used by: .*next try in")
			m.run("systemctl stop container")
			if got := m.run("findmnt -n " + where + " || echo none"); got != "none" {
				t.Errorf("while the pod has its mount: %s", got)
			}
			m.run("umount " + pod)
		}
		if got := m.mounted(name); got != uuid {
			t.Errorf("%s: it came back as %s, it was %s", fstype, got, uuid)
		}
		if got := m.run("cat " + where + "/f; findmnt -no FSTYPE " + where); got != "kept\n"+fstype {
			t.Errorf("%s: after the return: %s", fstype, got)
		}
		if fstype == "ext4" {
			m.run("systemctl stop container; umount " + pod)
		}
		m.detach(w, id)
		m.wait("mount and directory to go again", fmt.Sprintf("! findmnt %[1]s && [ ! -e %[1]s ]", where))
	}
}

// TestDiskBelowAVolumeIsPulled pulls the disk below a mounted logical volume two times. Each time the disk is back, the
// test runs the commands that the status advises. After the first pull, the volume stays mounted while the disk is
// away. After the second pull, the volume is written to and released, and the daemon is restarted. Another logical
// volume of the same volume group is always in use.
func TestDiskBelowAVolumeIsPulled(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter; printf 'classes:\\n  - {name: lvm, names: [\"dm-*\"], mapper_names: [\"my--vg-disk*\"], blank: unsigned, directory: /mnt/disks}\\n' >/etc/hotmount/config.yaml; hotmount config check && systemctl restart hotmount")
	disk := worker.Disk{File: blank(t, 3*gib), Serial: "PV-1"}
	name, id := m.attach(w, disk)
	m.run("udevadm settle; pvcreate -q /dev/" + name + "; vgcreate -q my-vg /dev/" + name + "; lvcreate -q -y -n disk1 -L 1G my-vg; udevadm settle; udevadm trigger -c change /dev/my-vg/disk1")
	m.waitMinutes(3, "the volume", "findmnt /dev/my-vg/disk1")
	path := m.run("findmnt -no TARGET /dev/my-vg/disk1")
	m.run("lvcreate -q -y -n other -L 500M my-vg; mkfs.ext4 -q /dev/my-vg/other; mount /dev/my-vg/other /srv")
	m.run("echo precious >" + path + "/data; sync")
	if got := m.run("hotmount status | sed -n '/^dm-0/p'; hotmount doctor >/dev/null 2>&1 || [ $? = 3 ]"); !strings.Contains(got, "my--vg-di…") || !strings.Contains(got, " mounted ") {
		t.Errorf("status does not name the volume: %s", got)
	}

	m.detach(w, id)
	const gone = "dm-0 (my--vg-disk1) is failed: a disk below this device is gone (vdb, serial PV-1): reads and writes fail until the device is set up again"
	m.wait("the volume to be failed", "hotmount status --output wide | tr -s ' \\n' ' ' | grep -F "+quote(gone))
	m.waitForLog("/dev/dm-0 .my--vg-disk1, 1 GiB.: keep: a disk below this device is gone .vdb, serial PV-1.: ")
	if got := m.run("hotmount doctor || [ $? = 3 ]"); !strings.Contains(got, "PROBLEM: /dev/dm-0 (my--vg-disk1, 1 GiB) has failed: a disk below this device is gone (vdb") || !strings.Contains(got, "lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1") {
		t.Errorf("the doctor: %s", got)
	}
	m.waitMinutes(2, "the metric", `grep -F 'hotmount_disks{class="lvm",reason="disk-below-gone",state="failed"} 1' /var/lib/prometheus/node-exporter/hotmount.prom`)
	name, id = m.attach(w, disk)
	m.follow("dm-0", "once the lost disk is attached again and no pod uses this device: ", "hotmount release dm-0; lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1", "")
	m.wait("the volume to be mounted again", "[ \"$(cat "+path+"/data)\" = precious ] && findmnt "+path)

	m.detach(w, id)
	m.wait("the volume to be failed again", "hotmount status --output wide | tr -s ' \\n' ' ' | grep -F 'a disk below this device is gone ("+name+", serial PV-1)'")
	m.run("if dd if=/dev/zero of=" + path + "/more bs=1M count=8 conv=fsync; then exit 1; fi; hotmount release dm-0; systemctl restart hotmount")
	m.attach(w, disk)
	m.follow("dm-0", "once the lost disk is attached again: ", "lvchange -an my-vg/disk1; lvchange -ay my-vg/disk1", "")
	m.wait("the volume to be mounted again", "[ \"$(cat "+path+"/data)\" = precious ] && findmnt "+path)
	if got := m.run("hotmount status | sed -n '/^dm-0/p'"); !strings.Contains(got, " mounted ") {
		t.Errorf("at the end: %s", got)
	}
	m.run("findmnt /srv")
}

// TestDiskBelowLUKSIsPulled checks a LUKS device whose disk is pulled. hotmount must immediately report the LUKS device
// as failed. After the disk is attached again, the printed commands open the LUKS device again, and the volume is
// mounted.
func TestDiskBelowLUKSIsPulled(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`printf 'classes:\n  - {name: secret, names: ["dm-*"], mapper_names: [secret], directory: /mnt/disks}\n' >/etc/hotmount/config.yaml; hotmount config check && systemctl restart hotmount`)
	const id, passphrase = "01234567-89ab-cdef-0123-456789abcdef", "correct horse"
	d := worker.Disk{File: blank(t, gib), Serial: "LUKS"}
	under, attached := m.attach(w, d)
	// systemd's udev rules mark a LUKS device without a filesystem as not ready.
	m.run(fmt.Sprintf(`udevadm settle; cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --uuid %s /dev/%s <<<'%[3]s'
		cryptsetup open /dev/%[2]s secret <<<'%[3]s'; mkfs.xfs -q /dev/mapper/secret; udevadm trigger -c change /dev/mapper/secret; udevadm settle`, id, under, passphrase))
	name := m.run("basename $(readlink /dev/mapper/secret)")
	uuid := m.mounted(name)
	file := "/mnt/disks/" + uuid + "/data"
	m.run("echo precious >" + file + "; sync")

	m.detach(w, attached)
	m.wait("the device to be failed", "systemctl show -P StatusText hotmount | grep -qx '0 mounted, 0 held, 0 refused, 1 failing'")
	m.checkStatus(name + " .*is failed: a disk below this device is gone ." + under + ", serial LUKS.: ")
	m.attach(w, d)
	m.follow(name, "once the lost disk is attached again and no pod uses this device: ", "hotmount release "+name+"; cryptsetup close secret; cryptsetup open UUID="+id+" secret", passphrase)
	m.wait("the volume to be mounted again", "[ \"$(cat "+file+")\" = precious ] && findmnt /mnt/disks/"+uuid)
}

// The method `follow` checks that the status advises the given commands for the disk, and runs the commands. The method
// passes the given input to the commands on stdin.
func (m machine) follow(name, when, commands, input string) {
	m.t.Helper()
	if got := m.next(name); got != when+commands {
		m.t.Fatalf("status advises %q", got)
	}
	m.run("sh -exc " + quote(commands) + " <<<" + quote(input))
}
