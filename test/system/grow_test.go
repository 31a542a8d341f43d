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

func (m machine) resize(w *worker.Worker, id string, size int64) {
	m.t.Helper()
	if err := w.Resize(ctx(m.t), id, size); err != nil {
		m.t.Fatal(err)
	}
}

// takes waits until the filesystem at the mount point takes at least that many of
// the bytes that df counts.
func (m machine) takes(uuid string, least int64) {
	m.t.Helper()
	m.wait(fmt.Sprint(uuid, " to take ", least), fmt.Sprintf("[ $(stat -f -c '%%b * %%S' /mnt/disks/%s | xargs expr) -ge %d ]", uuid, least))
}

// count gives how many lines of the journal match.
func (m machine) count(pattern string) int {
	m.t.Helper()
	n, err := strconv.Atoi(m.run("journalctl -b --no-pager -o cat | grep -cE -- " + quote(pattern) + " || true"))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

const fill = `cd /mnt/disks/%s && mkdir -p data && head -c 50M /dev/urandom >data/f && sync && sha256sum data/f`

// TestGrow: XFS and ext4 grow online with their disks, at once, and after a
// growth while the daemon was down; after one while they were detached, before
// anybody sees the mount. The data stays. A tail that is too small for
// XFS is no reason to try, one too small for ext4 to try once.
func TestGrow(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + growConfig + "X\nsystemctl reload hotmount")
	xImage := made(t, gib)
	x, xID := m.attach(w, worker.Disk{File: xImage, Serial: "GROW-X"})
	xfs := m.mounted(x)
	image := blank(t, gib)
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, eID := m.attach(w, worker.Disk{File: image, Serial: "GROW-E"})
	ext4 := m.mounted(e)
	sums := map[string]string{}
	for _, uuid := range []string{xfs, ext4} {
		// The root directory is the pod's own.
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
		m.says("/dev/" + dev + ` .*grown: .* ` + uuid + ` from 1 GiB \(1073741824 bytes\) to 2 GiB \(2147483648 bytes\), online; .*capacity.*` + disk.VolumeName(uuid, "worker-1", "local") + " ")
		if story := m.run("journalctl -b --no-pager -o cat -u " + quote(unitOf(uuid))); !strings.Contains(story, "grown") {
			t.Errorf("the unit's story of %s does not tell of it: %s", uuid, story)
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

	// 63 blocks beyond a group, one block beyond what ext4 uses.
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
		return m.count(`Finished.*hotmount-grow@|Finished hotmount-grow@|Finished.*sequence number [0-9]+ fill it`)
	}
	m.wait("a try", fmt.Sprintf("grep -q %d /run/hotmount/fits/*", 3*gib+4096))
	before := ran()
	if before < 6 {
		t.Fatalf("%d runs of hotmount-grow@ are counted, 6 were made at least", before)
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
		name, _ := m.attach(w, d)
		if got := m.mounted(name); got != uuid {
			t.Errorf("%s is mounted", got)
		}
		m.takes(uuid, 4*gib-300*mib)
		m.wait("the rest", "systemctl show -p StatusText --value hotmount | grep -q ' 0 failing'")
		story := m.run("journalctl -b --no-pager -o cat --since @" + since + " -u " + quote(unitOf(uuid)) + ` | grep -oE 'grown: .* before it is mounted|online|mounted at|Mounted .*\.mount' | sed 's/grown: .* before/before/; s/Mounted.*/Mounted/'`)
		if !strings.HasPrefix(story, "before it is mounted\nMounted") || strings.Contains(story, "online") {
			t.Errorf("the story of %s after it had grown while detached: %s\nall of it: %s", uuid, story, m.run("journalctl -b --no-pager --since @"+since))
		}
	}
	same("growing while detached")
	if got := m.run("ls -A /run/hotmount-stage 2>/dev/null || true; grep stage /proc/1/mountinfo || true; systemctl --failed --no-legend | cat"); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if got := m.run("journalctl -b -p warning --no-pager -q -o cat -u hotmount -u 'hotmount-grow@*' -u 'hotmount-stage@*'"); got != "" {
		t.Errorf("warnings: %s", got)
	}
}

// TestShrunk: a disk smaller than its filesystem is an error in the journal; it is
// not mounted if it was not, and not written to.
func TestShrunk(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := blank(t, 2*gib)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SHRINK"})
	uuid := m.mounted(name)
	sum := m.run(fmt.Sprintf(fill, uuid))
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")

	short := copyOf(t, image)
	if err := os.Truncate(short, gib); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id = m.attach(w, worker.Disk{File: short, Serial: "SHRINK"})
	m.says("/dev/" + name + " .*refuse: the disk has shrunk: xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*not mounted")
	if got := m.run("findmnt -no TARGET /dev/" + name + " || true; ls -A /mnt/disks"); got != "" {
		t.Errorf("it is there: %s", got)
	}
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	name, id = m.attach(w, worker.Disk{File: image, Serial: "SHRINK"})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted %s", got)
	}
	if got := m.run(fmt.Sprintf("cd /mnt/disks/%s && sha256sum data/f", uuid)); got != sum {
		t.Errorf("%q, was %q", got, sum)
	}
	m.resize(w, id, gib)
	m.says("/dev/" + name + " .*the disk has shrunk: xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*still mounted")
	if got := m.run("journalctl -b -p err --no-pager -q -o cat -u hotmount"); !strings.Contains(got, "still mounted") {
		t.Errorf("the errors of the daemon are %q", got)
	}
	for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
		if out := m.run(who + "hotmount status && echo 0 || echo $?"); !strings.HasSuffix(out, "\n3") || !regexpLine(out, "^"+name+" .* failed ") {
			t.Errorf("%q: %s", who, out)
		}
	}
}

// used gives how much of the host's storage the image takes.
func used(t *testing.T, image string) int64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(image, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestTrim: what was deleted is given back to the host, only after 24 hours in use,
// whoever made the filesystem, and not where it is switched off.
func TestTrim(t *testing.T) {
	m, w := start(t, worker.Options{})
	if got := m.run("systemctl is-active hotmount-trim.timer; systemctl is-enabled hotmount-trim.timer"); got != "active\nenabled" {
		t.Errorf("the timer is %s", got)
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
	for _, uuid := range []string{xfs, ext4} {
		m.run(fmt.Sprintf("cd /mnt/disks/%s && head -c 200M /dev/urandom >f && sync && rm f && sync && chown 1000 . && chmod 0700 .", uuid))
	}
	const most, least = 150 * mib, 190 * mib
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Fatalf("the images take %d and %d before", a, b)
	}

	m.run("echo 'trim: false' >/etc/hotmount/config.yaml; systemctl reload hotmount; systemctl start hotmount-trim")
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Errorf("switched off, and the images take %d and %d", a, b)
	}
	m.run("rm /etc/hotmount/config.yaml; systemctl reload hotmount; systemctl start hotmount-trim")
	if a, b := used(t, own), used(t, foreign); a < least || b < least {
		t.Errorf("young, the one takes %d, the one made elsewhere %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
	}
	// A day passes in the record.
	m.run(`sed -i -E 's/"ran": [0-9]+/"ran": 86400000000000/' /var/lib/hotmount/running.json; systemctl start hotmount-trim`)
	if a, b := used(t, own), used(t, foreign); a > most || b > most {
		t.Errorf("after a day they take %d and %d; journal: %s", a, b, m.run("journalctl -b -u hotmount-trim --no-pager -o cat"))
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
	m.wait("the failure to be shown", "hotmount status | tr -s '\n ' ' ' | grep '"+x+" is mounted: it is mounted, and its filesystem could not be made to fill it: .*systemctl start hotmount-grow@'")
	m.run("umount " + tool + "; $(hotmount status | tr -s '\n ' ' ' | grep -o 'systemctl start hotmount-grow@[0-9]*')")
	m.takes(xfs, gib+gib/2-130*mib)
	m.wait("the failure to be over", "! hotmount status | grep 'could not be made'")
}

// TestGrowDuringMkfs: a disk that grows while mkfs.xfs runs on it is mounted, made
// once, and fills its disk.
func TestGrowDuringMkfs(t *testing.T) {
	m, w := obedientWorker(t)
	victims := m.victims(w, 0, "sp20")
	v := victims[0]
	m.stopped(v)
	m.resize(w, v.id, gib)
	m.wait("the kernel to see the size", fmt.Sprintf("[ $(cat /sys/block/%s/size) = %d ]", v.name, gib/512))
	m.run("pkill -CONT -f 'mkfs.xfs .*/dev/" + v.name + "$'")
	t.Log(m.whole(v, 1))
	m.takes(m.mounted(v.name), gib-130*mib)
	m.says("/dev/" + v.name + " .*grown: xfs .* from 300 MiB .* to 1 GiB ")
}
