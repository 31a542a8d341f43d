//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

const growConfig = `node: worker-1
classes:
  - name: default
    directory: /mnt/disks
    storage_class: local
`

const mib = 1 << 20

func (m machine) resize(w worker.Node, id string, size int64) {
	m.t.Helper()
	if err := w.Resize(ctx(m.t), id, size); err != nil {
		m.t.Fatal(err)
	}
}

// The method `takes` waits until the filesystem has at least the given size in bytes.
func (m machine) takes(uuid string, least int64) {
	m.t.Helper()
	m.wait(fmt.Sprint(uuid, " to take ", least), fmt.Sprintf("[ $(stat -f -c '%%b * %%S' /mnt/disks/%s | xargs expr) -ge %d ]", uuid, least))
}

// count returns the number of lines of this boot's journal that match the pattern.
func (m machine) count(pattern string) int {
	m.t.Helper()
	n, err := strconv.Atoi(m.run("journalctl -b --no-pager -o cat >/run/said; grep -cE -- " + quote(pattern) + " /run/said || true"))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

const fill = `cd /mnt/disks/%s && mkdir -p data && head -c 50M /dev/urandom >data/f && sync && sha256sum data/f`

// TestGrow checks that XFS and ext4 filesystems grow online with their disks, at once or when the daemon starts. If the
// disk grew while it was detached, the filesystem grows before the volume is mounted at its path. The data on the
// filesystems stays intact. If the new space is too small, hotmount does not try to grow an XFS filesystem, and tries
// only once to grow an ext4 filesystem.
func TestGrow(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + growConfig + "X\nsystemctl reload hotmount")
	xImage := made(t, gib)
	x, xID := m.attach(w, worker.Disk{File: xImage, Serial: "GROW-X"})
	xfs := m.mounted(x)
	// Debian 12's libblkid does not report the size of an XFS filesystem. hotmount's udev rule reports the size of an
	// XFS filesystem.
	if got := m.run("udevadm info -q property --property=HOTMOUNT_XFS --value -n /dev/" + x); got != "00001000 00000000 00040000" {
		t.Errorf("udev knows of the XFS %q", got)
	}
	image := blank(t, gib)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, eID := m.attach(w, worker.Disk{File: image, Serial: "GROW-E"})
	ext4 := m.mounted(e)
	sums := map[string]string{}
	for _, uuid := range []string{xfs, ext4} {
		// The root directory of the volume belongs to a pod's user, and only this user may enter the directory.
		m.run(fmt.Sprintf("chown 1000:1000 /mnt/disks/%s && chmod 0700 /mnt/disks/%s", uuid, uuid))
		sums[uuid] = m.run(fmt.Sprintf(fill, uuid))
	}
	same := func(what string) {
		t.Helper()
		for uuid, sum := range sums {
			if got := m.run(fmt.Sprintf("echo 3 >/proc/sys/vm/drop_caches; cd /mnt/disks/%s && sha256sum data/f", uuid)); got != sum {
				t.Errorf("after %s %s has %q, had %q", what, uuid, got, sum)
			}
		}
	}

	m.resize(w, xID, 2*gib)
	m.resize(w, eID, 2*gib)
	m.takes(xfs, 2*gib-130*mib)
	m.takes(ext4, 2*gib-130*mib)
	for uuid, dev := range map[string]string{xfs: x, ext4: e} {
		m.waitForLog("/dev/" + dev + ` .*grown: .* ` + uuid + ` from 1 GiB \(1073741824 bytes\) to 2 GiB \(2147483648 bytes\), online; .*capacity.*` + disk.VolumeName(uuid, "worker-1", "local") + " ")
		if story := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid))); !strings.Contains(story, "grown") {
			t.Errorf("the journal of the unit of %s does not have the growth: %s", uuid, story)
		}
	}
	t.Log(m.run("journalctl -b --no-pager -o cat -u 'mnt-disks-*.mount' | grep grown"))
	same("growing")

	m.run("systemctl stop hotmount")
	m.resize(w, xID, 3*gib)
	m.resize(w, eID, 3*gib)
	m.wait("the kernel to see the sizes", fmt.Sprintf("[ $(cat /sys/block/%s/size /sys/block/%s/size | grep -cx %d) = 2 ]", x, e, 3*gib/512))
	m.run("systemctl start hotmount")
	m.takes(xfs, 3*gib-130*mib)
	m.takes(ext4, 3*gib-200*mib)
	m.wait("four growths", "[ $(journalctl -b --no-pager -o cat | grep -c 'grown: ') = 4 ]")
	same("growing while the daemon was down")

	// The disk of the XFS ends 63 blocks after the end of an allocation group. The disk of the ext4 is one block larger
	// than the part of the disk that ext4 can use.
	group := m.run("xfs_info /mnt/disks/" + xfs + " | sed -n 's/.*agsize=\\([0-9]*\\) blks.*/\\1/p'")
	blocks, err := strconv.ParseInt(group, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	size := (3*gib/(blocks*4096)+1)*blocks*4096 + 63*4096
	m.resize(w, xID, size)
	m.takes(xfs, size-63*4096-130*mib)
	m.wait("the fifth growth", "[ $(journalctl -b --no-pager -o cat | grep -c 'grown: ') = 5 ]")
	m.resize(w, eID, 3*gib+4096)
	ran := func() int {
		return m.count(`Finished.*hotmount-grow@|Finished hotmount-grow@|Finished.*Grow the filesystem of the disk with sequence number [0-9]+`)
	}
	m.wait("a try", fmt.Sprintf("grep -q %d /run/hotmount/fits/*", 3*gib+4096))
	before := ran()
	if before < 6 {
		t.Fatalf("%d runs of hotmount-grow@ are counted, of at least 6", before)
	}
	for range 5 {
		m.run("udevadm trigger -s block -c change; udevadm settle; systemctl reload hotmount")
	}
	m.run("systemctl restart hotmount")
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '2 mounted, 0 held, 0 refused, 0 failing'")
	if got := ran(); got != before {
		t.Errorf("it was tried again: %d runs, before %d", got, before)
	}
	if got := m.count("grown: "); got != 5 {
		t.Errorf("%d growths in the journal, want 5", got)
	}
	if got := m.run("journalctl -b -p warning --no-pager -q -o cat -u hotmount -u 'hotmount-grow@*'"); got != "" {
		t.Errorf("warnings: %s", got)
	}
	same("all")
	m.detach(w, xID)
	m.wait("the end of the record", "! grep -q "+fmt.Sprint(size)+" /run/hotmount/fits/*")

	m.detach(w, eID)
	for uuid, d := range map[string]worker.Disk{xfs: {File: xImage, Serial: "GROW-X"}, ext4: {File: image, Serial: "GROW-E"}} {
		m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")
		if err := os.Truncate(d.File, 4*gib); err != nil {
			t.Fatal(err)
		}
		since := m.run("date +%s.%N")
		name, id := m.attach(w, d)
		if uuid == xfs {
			x, xID = name, id
		}
		if got := m.mounted(name); got != uuid {
			t.Errorf("%s is mounted", got)
		}
		m.takes(uuid, 4*gib-300*mib)
		m.wait("the rest", "systemctl show -p StatusText --value hotmount | grep -q ' 0 failing'")
		story := m.run("journalctl -b --no-pager -o cat --since @" + since + " -u " + quote(unitOf(uuid)) + ` | grep -oE 'grown: .* before the mount|online|mounted at|Mounted .*\.mount' | sed 's/grown: .* before/before/; s/Mounted.*/Mounted/'`)
		if !strings.HasPrefix(story, "before the mount\nMounted") || strings.Contains(story, "online") {
			t.Errorf("the journal of %s after a growth while detached: %s\nall of it: %s", uuid, story, m.run("journalctl -b --no-pager --since @"+since))
		}
	}
	same("growing while detached")
	// If hotmount has recorded that an XFS fills its disk, the udev rule does not read the XFS. hotmount makes the
	// record from the superblock that the udev rule has read into HOTMOUNT_XFS. After growing an XFS, hotmount does not
	// make this record.
	back := func() {
		t.Helper()
		m.detach(w, xID)
		m.wait("the end of the mount", "[ ! -e /mnt/disks/"+xfs+" ]")
		x, xID = m.attach(w, worker.Disk{File: xImage, Serial: "GROW-X"})
		m.mounted(x)
	}
	if got := m.run("ls /var/lib/hotmount/full >/run/full; grep -c " + xfs + " /run/full || true"); got != "0" {
		t.Errorf("%s sizes are recorded for the XFS, want none", got)
	}
	back()
	m.wait("the record", fmt.Sprintf("[ -e /var/lib/hotmount/full/%s-%d ]", xfs, 4*gib/512))
	m.run("udevadm info -q property --property=HOTMOUNT_XFS --value -n /dev/" + x + " | grep .")
	back()
	if got := m.run("udevadm info -q property --property=HOTMOUNT_XFS --value -n /dev/" + x + "; ls /var/lib/hotmount/full | grep -c " + xfs); got != "1" {
		t.Errorf("udev has the unchanged XFS, or not one size is recorded: %q", got)
	}
	m.takes(xfs, 4*gib-300*mib)
	same("a return")
	if got := m.run("if [ -e /run/hotmount-stage ]; then ls -A /run/hotmount-stage; fi; grep stage /proc/1/mountinfo || true; systemctl --failed --no-legend --no-pager"); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if got := m.run("journalctl -b -p warning --no-pager -q -o cat -u hotmount -u 'hotmount-grow@*' -u 'hotmount-stage@*'"); got != "" {
		t.Errorf("warnings: %s", got)
	}
}

// TestGrowWithErrorsOnRecord checks an ext4 filesystem with recorded errors. The kernel does not grow such a
// filesystem. The filesystem stays mounted, and the status and the metrics report the failed growth. The printed
// commands make the growth possible. The test needs a virtual machine, because root may lack the capability to grow
// ext4 in a container.
func TestGrowWithErrorsOnRecord(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter; systemctl restart hotmount")
	image := blank(t, gib)
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"debugfs", "-w", "-R", "set_super_value state 3", image}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	name, id := m.attach(w, worker.Disk{File: image, Serial: "ERRORS"})
	uuid := m.mounted(name)
	sum := m.run(fmt.Sprintf(fill, uuid))
	m.resize(w, id, 2*gib)
	const what = "the disk is mounted, and its filesystem could not be grown to fill the disk: cannot grow the filesystem of .*: the ext4 filesystem has recorded errors, and the kernel does not grow such a filesystem"
	m.waitForLog("/dev/" + name + " .*keep: " + what + "; stop the pods that use the disk, then: hotmount release " + name + "; e2fsck -f /dev/" + name + "; hotmount accept " + name + " released")
	m.run("hotmount status >/run/status || [ $? = 3 ]; grep '^" + name + " .* mounted ' /run/status; ! grep -F '\\' /run/status")
	m.checkStatus(name + " is mounted: " + what)
	m.wait("the metric", `grep -F 'hotmount_disks{class="default",reason="not-grown",state="mounted"} 1' /var/lib/prometheus/node-exporter/hotmount.prom`)
	// script(1) provides a terminal, which e2fsck needs for its questions.
	commands, found := strings.CutPrefix(m.next(name), "stop the pods that use the disk, then: ")
	if !found {
		t.Fatalf("status advises %q", commands)
	}
	m.run("script -qec " + quote(commands) + " /dev/null </dev/null")
	m.takes(uuid, 2*gib-130*mib)
	m.run("hotmount status; ! hotmount status | grep 'could not be grown'")
	if got := m.run(fmt.Sprintf("cd /mnt/disks/%s && sha256sum data/f", uuid)); got != sum {
		t.Errorf("the data is %q, was %q", got, sum)
	}
}

// The function `used` returns the number of bytes that the image occupies on the host.
func used(t *testing.T, image string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(image, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}
