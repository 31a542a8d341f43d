//go:build vm

package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/corpus"
	"hotmount/test/worker"
)

// suites returns the Debian releases whose tools the test uses.
func suites() []string {
	if full {
		return []string{"bookworm", "trixie"}
	}
	return []string{"bookworm"}
}

// preventAssembly is a script that prevents other programs from acting on a new disk. Without this script, the tools
// that assemble arrays and volume groups would write to the test's disks.
const preventAssembly = `mkdir -p /run/udev/rules.d
for r in 63-md-raid-arrays 64-md-raid-assembly 69-lvm 69-lvm-metad 69-bcache; do ln -sf /dev/null /run/udev/rules.d/$r.rules; done
udevadm control --reload`

// perWorker is the maximum number of disks that are attached to one worker.
const perWorker = 24

// someKinds returns, for each class in the corpus, one intact and one damaged kind of content. In the full test
// someKinds returns all kinds.
func someKinds(r *rand.Rand) []corpus.Kind {
	all := corpus.Kinds()
	if full {
		return all
	}
	var some []corpus.Kind
	taken := map[string]bool{}
	for _, i := range r.Perm(len(all)) {
		k := all[i]
		if kind := fmt.Sprint(k.Class, k.Damaged()); !taken[kind] {
			taken[kind] = true
			some = append(some, k)
		}
	}
	// At least one of the returned kinds of content must be a filesystem that hotmount mounts.
	if !slices.ContainsFunc(some, func(k corpus.Kind) bool { return k.Mounts }) {
		some = append(some, all[slices.IndexFunc(all, func(k corpus.Kind) bool { return k.Mounts })])
	}
	return some
}

// TestCorpus checks disks with some kinds of content, and in the full test with all kinds. After the test, the mounted
// disks contain the same files as before. On every other disk, each byte is the same as before, and the kernel counts
// no written sector (issue 3).
func TestCorpus(t *testing.T) {
	chance := randomSource(t)
	for _, suite := range suites() {
		kinds := someKinds(chance)
		i := 0
		for batch := range slices.Chunk(kinds, perWorker) {
			i++
			t.Run(fmt.Sprintf("%s-%d", suite, i), func(t *testing.T) { tryKinds(t, suite, batch) })
		}
	}
}

func tryKinds(t *testing.T, suite string, kinds []corpus.Kind) {
	parallel(t)
	if err := worker.Need(ctx(t), os.Stderr, corpus.Packages); err != nil {
		t.Fatal(err)
	}
	type filled struct {
		corpus.Kind
		image, digest, name string
	}
	disks := make([]filled, len(kinds))
	dir := t.TempDir()
	for i, k := range kinds {
		d := filled{Kind: k, image: filepath.Join(dir, fmt.Sprint(i))}
		if err := k.Make(ctx(t), d.image); err != nil {
			t.Fatal(err)
		}
		var err error
		if d.digest, err = corpus.Digest(d.image); err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		disks[i] = d
	}
	m, w := start(t, worker.Options{Suite: suite})
	m.run(preventAssembly)
	for i := range disks {
		disks[i].name, _ = m.attach(w, worker.Disk{File: disks[i].image, Serial: fmt.Sprint("CORPUS-", i)})
	}
	// At the end the journal contains a decision about each disk. The test waits for all decisions together and not for
	// each decision in turn, because the worker is slow.
	var names []string
	for _, d := range disks {
		names = append(names, d.name)
	}
	m.wait("a decision about each disk", fmt.Sprintf(
		`journalctl -b -o cat --no-pager >/tmp/journal; for d in %s; do grep -qE "^/dev/$d .*(refuse: |hold: |ignore: |mounted |cannot |mkfs)" /tmp/journal || exit 1; done; ! systemctl list-units --no-legend 'hotmount-format@*' | grep -q .`,
		strings.Join(names, " ")))
	plan := m.run("udevadm settle; sync; hotmount plan")
	journal := m.run("journalctl -b -o cat --no-pager")
	touched := m.run("for d in " + strings.Join(names, " ") + "; do echo $d $(awk '{print $5+$12, $7+$14}' /sys/block/$d/stat) $(findmnt -no TARGET /dev/$d); done")
	for _, d := range disks {
		if d.Mounts {
			m.hasFiles(d.Kind, m.mounted(d.name))
			t.Logf("%s: mounted, with its files", d.Name)
			continue
		}
		var says []string
		for line := range strings.Lines(journal) {
			if strings.HasPrefix(line, "/dev/"+d.name+" ") {
				says = append(says, line[:min(len(line), 300)])
			}
		}
		if !regexpLine(plan, `^`+d.name+` +[0-9.]+ [A-Z]iB +CORPUS-[0-9]+ +(refuse|ignore|mount) `) {
			t.Errorf("%s (%s): the plan:\n%s", d.Name, d.name, plan)
		}
		// udev reports the content of the disk as XFS, so hotmount asks the kernel to mount the disk. The kernel
		// flushes the disk before it refuses the mount. The kernel counts the flush as a write request without a
		// sector.
		requests := "0"
		if slices.ContainsFunc(says, func(line string) bool { return strings.Contains(line, ": mount: the disk holds xfs ") }) {
			requests = "[01]"
		}
		if !regexpLine(touched, `^`+d.name+` `+requests+` 0$`) {
			t.Errorf("%s (%s): writes and mounts:\n%s\n%q", d.Name, d.name, touched, says)
		}
		if got, err := corpus.Digest(d.image); err != nil || got != d.digest {
			t.Errorf("%s (%s): its bytes have changed (%v): %q", d.Name, d.name, err, says)
		}
		t.Logf("%s: %q", d.Name, says)
	}
}

// hasFiles checks the files in the filesystem with the given UUID.
func (m machine) hasFiles(k corpus.Kind, uuid string) {
	m.t.Helper()
	got := m.run("cd /mnt/disks/" + uuid + " && find . -type f -printf '%P\\n' | sort | xargs sha256sum")
	var want []string
	for path, sum := range corpus.Files() {
		want = append(want, sum+"  "+path)
	}
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	if got != strings.Join(want, "\n") {
		m.t.Errorf("%s: the files in it are\n%s", k.Name, got)
	}
}

// TestBlanks checks that a blank disk is formatted, whatever its size, its sector size, and the origin of its zeros.
func TestBlanks(t *testing.T) {
	for _, suite := range suites() {
		t.Run(suite, func(t *testing.T) {
			m, w := startNode(t, worker.Options{Suite: suite})
			sizes := map[string]int64{}
			large := int64(70 * gib)
			if full {
				large = 8 << 40
			}
			for _, b := range []struct {
				what    string
				size    int64
				sector  int
				written bool
			}{
				{"sparse", 320 << 20, 0, false},
				{"written zeros", 320 << 20, 0, true},
				{"no multiple of 1 MiB", 320<<20 + 3*512, 0, false},
				{"sectors of 4096 bytes", 321<<20 + 4096, 4096, false},
				{"the smallest", 300 << 20, 0, false},
				{"too large to be read in full", large, 0, false},
			} {
				image := blank(t, b.size)
				if b.written {
					writeZeros(t, image, b.size)
				}
				name, _ := m.attach(w, worker.Disk{File: image, LogicalBlockSize: b.sector})
				sizes[name] = b.size
				t.Logf("%s: %s", name, b.what)
			}
			for name, size := range sizes {
				if size > 1<<40 { // an emulated processor needs minutes to read more than 1 TiB
					m.waitMinutes(10, name+" to be formatted", "journalctl -b -o cat --no-pager | grep '^/dev/"+name+" .*: formatted: '")
				}
				uuid := m.mounted(name)
				if got := m.run("findmnt -no FSTYPE /dev/" + name + "; echo kept >/mnt/disks/" + uuid + "/f; sync; cat /mnt/disks/" + uuid + "/f"); got != "xfs\nkept" {
					t.Errorf("%s: %s", name, got)
				}
				if got := m.run("blockdev --getsize64 /dev/" + name); got != fmt.Sprint(size) {
					t.Errorf("%s has %s bytes", name, got)
				}
			}
			if got := m.run("journalctl -b -u hotmount -p warning -q --no-pager -o cat"); got != "" {
				t.Errorf("warnings:\n%s", got)
			}
		})
	}
}

func writeZeros(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
}

// readFault is a disk with a sector that cannot be read, temporarily or permanently.
type readFault struct {
	// The field `at` is the offset of the faulty sector in bytes.
	at int64
	// The field `times` is the number of failing reads of the faulty sector. 0 means that every read fails.
	times int
	// The field `data` reports whether the faulty sector contains data instead of zeros.
	data bool
	// The field `slow` is a limit for the speed of reads, in bytes per second. 0 means no limit.
	slow int

	image, digest, name string
}

func (f *readFault) String() string {
	return fmt.Sprintf("%s: byte %d, %d failures (0: always), data there: %t, %d bytes a second", f.name, f.at, f.times, f.data, f.slow)
}

const faultySize = 320 << 20

// chooseFaults returns n disks with a random fault, and two slow disks. None of the disks may be formatted. On each
// faulty disk, reads of one sector fail always, or a limited number of times.
func chooseFaults(r *rand.Rand, n int) []*readFault {
	// The list `places` contains byte offsets that the tools read, or that lie in or beside the parts of the disk that
	// hotmount reads twice (probe.Window). Two offsets are places of second superblocks of XFS.
	places := []int64{0, 512, 1024, 4096, 32 << 10, 64 << 10, 1 << 20, 16<<20 - 512, 16 << 20, faultySize / 4, faultySize / 2,
		faultySize - 16<<20, faultySize - 64<<10, faultySize - 4096, faultySize - 512}
	var all []*readFault
	for i := range n {
		f := &readFault{at: r.Int64N(faultySize/512) * 512, data: i%3 != 0}
		if i%2 == 0 {
			f.at = places[r.IntN(len(places))]
		}
		if i%3 == 2 {
			f.times = 1 + r.IntN(4)
		}
		all = append(all, f)
	}
	return append(all, &readFault{at: faultySize - 512, times: 1, data: true, slow: 24 << 20}, &readFault{at: faultySize / 2, data: false, slow: 24 << 20})
}

// TestReadFaults checks that hotmount does not format a disk with an unreadable sector. It must not matter whether the
// reads fail a few times or always, or whether they are slow (issue 3).
func TestReadFaults(t *testing.T) {
	chance := randomSource(t)
	rounds, disks := 1, 9
	if full {
		rounds, disks = 8, 18
	}
	for i := range rounds {
		faults := chooseFaults(chance, disks)
		t.Run(fmt.Sprint(i), func(t *testing.T) { tryFaults(t, faults) })
	}
}

func tryFaults(t *testing.T, faults []*readFault) {
	m, w := start(t, worker.Options{})
	var names, readable []string
	for i, f := range faults {
		f.image = blank(t, faultySize)
		if f.data {
			writeByte(t, f.image, f.at+17)
		}
		f.digest = digestOrBlank(t, f.image)
		rule := map[string]any{"event": "none", "sector": f.at / 512, "errno": 5, "iotype": "read", "once": f.times > 0}
		d := worker.Disk{
			File: f.image, Serial: fmt.Sprint("FAULT-", i),
			Blkdebug: map[string]any{"inject-error": slices.Repeat([]any{rule}, max(f.times, 1))},
		}
		name, id := m.attach(w, d)
		f.name = name
		names = append(names, name)
		if f.times > 0 {
			readable = append(readable, name)
		}
		if f.slow > 0 {
			args := map[string]any{"id": "/machine/peripheral/" + id + "/virtio-backend", "bps": 0, "bps_rd": f.slow, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}
			if _, err := w.QMP(ctx(t), "block_set_io_throttle", args); err != nil {
				t.Fatal(err)
			}
		}
	}
	// After a temporary fault, hotmount repeats the reads of the disk until the reads succeed. hotmount then refuses
	// the disk, because the disk contains data.
	m.waitMinutes(5, "a refusal or an error for each disk", fmt.Sprintf(
		`journalctl -b -o cat --no-pager >/tmp/journal
		for d in %s; do grep -qE "^/dev/$d .*(refuse: |cannot )" /tmp/journal || exit 1; done
		for d in %s; do grep -qE "^/dev/$d .*refuse: " /tmp/journal || exit 1; done`, strings.Join(names, " "), strings.Join(readable, " ")))
	journal := m.run("journalctl -b -o cat --no-pager")
	touched := m.run("for d in " + strings.Join(names, " ") + "; do echo $d $(awk '{print $5+$12}' /sys/block/$d/stat) $(findmnt -no TARGET /dev/$d); done")
	for _, f := range faults {
		var says []string
		for line := range strings.Lines(journal) {
			if strings.HasPrefix(line, "/dev/"+f.name+" ") {
				says = append(says, line[:min(len(line), 300)])
			}
		}
		if !regexpLine(touched, `^`+f.name+` 0$`) || digestOrBlank(t, f.image) != f.digest {
			t.Errorf("%s: it was written to: %q\n%s", f, says, touched)
		}
		t.Logf("%s: %q", f, says)
	}
}

func digestOrBlank(t *testing.T, path string) string {
	t.Helper()
	d, err := corpus.Digest(path)
	if err != nil && !errors.Is(err, corpus.ErrBlank) {
		t.Fatal(err)
	}
	return d
}

func writeByte(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, at); err != nil {
		t.Fatal(err)
	}
}

// TestForeignHalfMade checks that hotmount refuses a disk on which another node began to make a filesystem. Only the
// operator's `hotmount format` formats the disk.
func TestForeignHalfMade(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	m.run("LIBXFS_DEBUG_WRITE_CRASH=ddev=20 mkfs.xfs -q -K /dev/" + name + " || true; sync")
	m.detach(w, id)
	before := digest(t, image)
	name, _ = m.attach(w, worker.Disk{File: image})
	m.run("udevadm settle; udevadm info -q property /dev/" + name + " | grep -x ID_FS_TYPE=xfs; systemctl start hotmount")
	m.waitForLog("/dev/" + name + " .*refuse: mkfs.xfs did not finish the filesystem .* on the disk, and this node has no record of that format; .*hotmount format " + name)
	// udev reports the content of the disk as XFS, so hotmount asks the kernel to mount the disk. The kernel then
	// flushes the disk. The kernel counts the flush as a write request without a sector.
	if got := m.run("awk '{print $7+$14}' /sys/block/" + name + "/stat"); got != "0" {
		t.Errorf("%s sectors were written", got)
	}
	if digest(t, image) != before {
		t.Error("its bytes have changed")
	}
	_, token := m.offer(name)
	m.run("hotmount format " + name + " --confirm " + token)
	m.mounted(name)
}

// TestWritesThatAreNotCounted checks that hotmount refuses a disk while the kernel does not count the writes to the
// disk.
func TestWritesThatAreNotCounted(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("echo 0 >/sys/block/" + name + "/queue/iostats; systemctl start hotmount")
	m.waitForLog("/dev/" + name + " .*refuse: the kernel does not count the writes to the disk .*echo 1 >/sys/block/" + name + "/queue/iostats")
	m.run("echo 1 >/sys/block/" + name + "/queue/iostats; systemctl reload hotmount")
	m.mounted(name)
}

// TestDriverThatDoesNotCount checks a disk whose driver accepts the switch queue/iostats but never counts a request.
// hotmount cannot see writes to the disk, so it does not format the disk. On this kernel, NVMe multipath devices and
// bio-based null_blk devices (queue_mode=0) count no requests.
func TestDriverThatDoesNotCount(t *testing.T) {
	m, _ := start(t, worker.Options{})
	m.run("printf 'classes:\\n  - name: nulls\\n    names: [nullb0]\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	// udev makes no /dev/disk/by-diskseq link for a null_blk disk.
	m.run(`echo 'KERNEL=="nullb0", SYMLINK+="disk/by-diskseq/$env{DISKSEQ}"' >/etc/udev/rules.d/99-null.rules; udevadm control --reload`)
	m.run("modprobe null_blk queue_mode=0 memory_backed=1 gb=1 nr_devices=1; udevadm settle")
	m.waitForLog("/dev/nullb0 .*refuse: the kernel does not count the writes to the disk .*echo 1 >/sys/block/nullb0/queue/iostats")
	m.run("echo 1 >/sys/block/nullb0/queue/iostats; systemctl reload hotmount")
	m.waitForLog("/dev/nullb0 .*driver does not count reads and writes")
	// The test reads zeros from the whole disk, and the kernel's statistics still show neither a read nor a write.
	if got := m.run("cmp -n 1073741824 /dev/nullb0 /dev/zero; awk '{print $3, $7}' /sys/block/nullb0/stat; ls -A /mnt/disks"); got != "0 0" {
		t.Errorf("counted, written to, or mounted: %q", got)
	}
}

// TestSlowProof checks that a long proof reports its progress, continues when the daemon is killed, and ends when its
// disk is detached. A restarted daemon waits for the running proof. Other disks do not wait for the proof.
func TestSlowProof(t *testing.T) {
	m, w := start(t, worker.Options{})
	// The proof takes longer than the unit's start timeout of 20 seconds. While the proof advances, the unit requests
	// more time from systemd.
	m.run("mkdir /etc/systemd/system/hotmount-format@.service.d; printf '[Service]\\nTimeoutStartSec=20s\\n' >/etc/systemd/system/hotmount-format@.service.d/short.conf; systemctl daemon-reload; systemctl stop hotmount")
	slow, slowID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "SLOW"})
	throttle(t, w, slowID+"/virtio-backend", 10<<20, 0)
	m.run("systemctl start --no-block hotmount")
	seq := m.run("cat /sys/block/" + slow + "/diskseq")
	unit := "hotmount-format@" + seq
	m.wait("the unit's status", "systemctl status "+unit+" | grep -E 'Status: .*"+slow+": proving that the disk is blank: [0-9]+ % of 2 GiB, .*/s'")
	m.waitForLog("/dev/" + slow + " .*proving that the disk is blank: [0-9]+ % of 2 GiB")
	m.wait("the daemon's status", "systemctl status hotmount | grep -E 'Status: .*proving that these disks are blank: "+slow+"'")
	t.Log(m.run("systemctl status " + unit + " | grep Status; systemctl status hotmount | grep Status; journalctl -o cat --no-pager -b | grep 'proving that'"))
	invocation := m.run("systemctl show -P InvocationID " + unit)
	m.run("timeout 10 hotmount plan | grep -E '^" + slow + " .*the daemon reads or formats the disk now; to see the result: hotmount status'")
	// While no daemon runs, `hotmount plan` waits for its turn to read.
	m.run("systemctl stop hotmount; systemd-run --quiet --unit=place flock /run/hotmount/scan.1 sleep infinity; timeout 10 hotmount plan 2>&1 | grep -x 'waiting until other disks have been read'; systemctl stop place; systemctl start hotmount")

	m.run("systemctl kill -s KILL hotmount")
	m.wait("the next daemon", "systemctl is-active hotmount && systemctl status hotmount | grep -E 'Status: .*proving that these disks are blank.*"+slow+"'")
	other, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "QUICK"})
	m.mounted(other)
	if got := m.run("systemctl show -P InvocationID -P ActiveState " + unit); got != invocation+"\nactivating" && got != "activating\n"+invocation {
		t.Errorf("the unit was %s and is %s", invocation, got)
	}
	m.wait("a second report of its progress, after 35 seconds", "test $(journalctl -b -o cat --no-pager | grep -c '^/dev/"+slow+" .*proving that the disk is blank: ') -ge 2")
	throttle(t, w, slowID+"/virtio-backend", 0, 0)
	m.mounted(slow)
	if out, err := m.Run(ctx(t), "journalctl -b --no-pager -o cat -u "+unit+" | grep -i 'timed out'"); err == nil {
		t.Errorf("the unit got no more time: %s", out)
	}
	if got := m.run("journalctl -b --no-pager -o cat -u " + unit + " | grep -c 'formatted: xfs'"); got != "1" {
		t.Errorf("formatted %s times", got)
	}

	// scan_rate limits the speed of a scan. hotmount scans two disks at the same time. The two scans use at most 16 MiB
	// of memory together.
	m.run("echo 'scan_rate: 10MiB' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "BESIDE"})
	gone, goneID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "GONE"})
	unit = "hotmount-format@" + m.run("cat /sys/block/"+gone+"/diskseq")
	m.wait("two proofs", "[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = 2 ]")
	var own, read int
	for range 5 {
		var ms, bytes int
		if _, err := fmt.Sscan(m.run(`now() { read -r up _ </proc/uptime; read -r _ _ sectors _ </sys/block/`+gone+`/stat; }
			now; a=$up; b=$sectors; sleep 3; now
			awk "BEGIN {print ($up - $a) * 1000, ($sectors - $b) * 512}"
			cat $(pgrep -f '^/usr/bin/hotmount format-disk' | sed 's,.*,/proc/&/status,') | awk '/^RssAnon:/ {kib += $2; n++} END {if (n != 2) exit 1; print kib}'`), &ms, &bytes, &own); err != nil {
			t.Fatal(err)
		}
		read = max(read, bytes*1000/ms)
		if own > 16<<10 {
			t.Errorf("two scans have %d KiB of private memory", own)
		}
	}
	t.Logf("two scans at once have %d KiB of private memory, and one reads at most %d bytes a second", own, read)
	if read == 0 || read > 12<<20 {
		t.Errorf("it is read at %d bytes a second, and the limit is 10 MiB", read)
	}
	begun := time.Now()
	m.detach(w, goneID)
	m.wait("the end of the unit", "! systemctl is-active "+unit+" | grep -E 'activating|deactivating'")
	took := time.Since(begun)
	t.Logf("from the detaching to the end of the unit: %s", took)
	if took > 30*time.Second { // 30 seconds, because the machine is emulated; the whole proof would take minutes
		t.Errorf("the unit went on for %s after its disk was gone", took)
	}
	t.Log(m.run("journalctl -b --no-pager -o cat -u " + unit + " | tail -n 4"))

	// The settings under which a disk was proven blank must still apply when mkfs writes. If the settings change, the
	// disk is proven again.
	changed, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "CHANGED"})
	m.waitForLog("/dev/" + changed + " .serial CHANGED.*proving that the disk is blank")
	m.run("printf 'scan_rate: 10MiB\nclasses:\n  - name: default\n    directory: /mnt/disks\n    names: [\"vd[a-z]\"]\n    blank: sampled\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.waitForLog("/dev/" + changed + " .*has to be proven again")
	m.mounted(changed)
}

// TestHangingReads attaches two disks whose storage does not answer reads. hotmount reads at most two disks at once,
// and ignores a read that has hung for 30 seconds. TestHangingReads checks that hotmount still mounts a third disk.
func TestHangingReads(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    names: [\"vd[a-z]\", \"sd[a-z]\"]\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	var ids []string
	for i := range 2 {
		name, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: fmt.Sprint("DEAD", i), Bus: worker.BusSCSI})
		m.wait("udev", "[ -e /dev/"+name+" ] && udevadm settle")
		throttle(t, w, id, 1, 0)
		ids = append(ids, id)
	}
	m.run("systemctl start hotmount")
	m.wait("both to be read", "[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = 2 ]")
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "ALIVE"})
	m.mounted(name)
	if got := m.run("systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating"); got != "2" {
		t.Errorf("%s of 2 hang", got)
	}
	for _, id := range ids {
		m.detach(w, id)
	}
	m.wait("the units to end", "[ -z \"$(systemctl list-units --no-legend 'hotmount-format@*')\" ]")
}

// TestZerosWhereAFilesystemWas checks a disk without a serial. After a reboot the disk is in its old slot, and contains
// only zeros. hotmount holds the disk and names the missing filesystem, which hotmount had mounted or refused before.
// If hotmount has seen the old disk being detached, hotmount does not hold a new disk in the slot.
func TestZerosWhereAFilesystemWas(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	first := m.mounted(name)
	slotOf := func(name string) string {
		return m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	}
	slot := slotOf(name)
	m.detach(w, id)
	m.waitForLog("/dev/" + name + " .*gone")
	image := blank(t, 320<<20)
	name, _ = m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	if now := slotOf(name); now != slot || uuid == first {
		t.Fatalf("it came to %s, not to %s, with the UUID %s", now, slot, uuid)
	}
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("systemctl stop hotmount")
	foreign := blank(t, 320<<20)
	refused, _ := m.attach(w, worker.Disk{File: foreign})
	refusedSlot := slotOf(refused)
	m.make(refused, "mkfs.btrfs -q")
	m.run("systemctl start hotmount")
	btrfs := m.run("blkid -p -o value -s UUID /dev/" + refused)
	m.waitForLog("/dev/" + refused + " .*refuse: .*btrfs")
	m.wait("the record of the refused content", "grep -q "+btrfs+" /var/lib/hotmount/contents.json")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// The test overwrites the disks with zeros, like a rollback to a snapshot that is older than the format.
	for _, size := range []int64{0, 320 << 20} {
		if err := errors.Join(os.Truncate(image, size), os.Truncate(foreign, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name = m.run("readlink -f /dev/disk/by-path/" + slot + " | xargs basename")
	m.waitForLog("/dev/" + name + " .*hold: the disk looks blank, but a disk in the same slot held data before a reboot, and this data is missing now: xfs " + uuid + " .* at " + slot + "; .*hotmount accept " + name)
	m.checkUntouched(name)
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^`+name+` .*hold .*`+uuid) {
		t.Errorf("the plan does not hold %s:\n%s", name, plan)
	}
	refused = m.run("readlink -f /dev/disk/by-path/" + refusedSlot + " | xargs basename")
	m.waitForLog("/dev/" + refused + " .*hold: the disk looks blank, but a disk in the same slot held data before a reboot, and this data is missing now: btrfs " + btrfs + " .* at " + refusedSlot + "; .*hotmount accept " + refused)
	m.checkUntouched(refused)
	for name, before := range map[string]string{name: uuid, refused: btrfs} {
		m.lift(name, "former-slot")
		if now := m.mounted(name); now == before {
			t.Errorf("the new filesystem has the old UUID")
		}
	}
	m.wait("the end of the record of the slot's former content", "! grep -q "+btrfs+" /var/lib/hotmount/contents.json")
}

func regexpLine(text, pattern string) bool {
	return regexp.MustCompile(`(?m)` + pattern).MatchString(text)
}

// TestSerials checks odd serials, a missing serial, and a serial that two blank disks share (issue 2, section "Shown",
// item 3). TestSerials also checks two serials that differ only after the 20 characters that virtio passes on (issue
// 42, F9).
func TestSerials(t *testing.T) {
	m, w := start(t, worker.Options{})
	for _, serial := range []string{"a=b", "with space", "esc\x1b[31m\nnl\t", ""} {
		name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: serial})
		uuid := m.mounted(name)
		// The kernel shows each serial unchanged. Output for people shows a serial's control characters in a visible
		// form.
		if got := m.run("cat /sys/block/" + name + "/serial | od -An -v -tx1 | tr -d ' \\n'"); got != fmt.Sprintf("%x", serial) {
			t.Errorf("the kernel has the serial %q as %s", serial, got)
		}
		shown := m.run("systemctl show -P Description " + quote(unitOf(uuid)) + "; journalctl -b -o cat --no-pager -u " + quote(unitOf(uuid)))
		if want := map[bool]string{true: "no serial", false: "serial " + disk.Visible(serial)}[serial == ""]; strings.Count(shown, want) < 2 {
			t.Errorf("%q is not %q in the unit's description and journal:\n%q", serial, want, shown)
		}
		if strings.ContainsAny(shown, "\x1b\t") {
			t.Errorf("a control character of a serial is shown as it is:\n%q", shown)
		}
	}

	first, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	uuid := m.mounted(first)
	second, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	m.waitForLog(fmt.Sprintf("/dev/%s .*hold: the disk looks blank, and another disk has the same serial TWICE: %s .*; this disk is %s .*; the other disk holds xfs %s; .*hotmount accept %s", second, first, second, uuid, second))
	if got := m.run("cut -c1-200 /sys/block/" + second + "/stat | awk '{print $5+$12}'"); got != "0" {
		t.Errorf("%s write requests reached the disk that is held", got)
	}
	m.lift(second, "same-serial")
	m.mounted(second)

	// virtio passes on only 20 of the 25 characters of each serial.
	const cut = "2026-rack-07-worker-"
	first, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: cut + "disk1"})
	uuid = m.mounted(first)
	second, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: cut + "disk2"})
	m.waitForLog(fmt.Sprintf("/dev/%s .*hold: the disk looks blank, and another disk has the same serial %s: %s .*; this disk is %s .*; the other disk holds xfs %s; virtio passes on only the first 20 characters of a serial; .*on the host, give each disk a serial that differs in its first 20 characters .virsh attach-disk --serial.; or, if these are two different disks: hotmount accept %[1]s", second, cut, first, second, uuid))
	m.checkUntouched(second)
	// The test gives the disk a serial that differs in the first 20 characters, as the message advises.
	m.detach(w, id)
	second, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "disk2-" + cut})
	m.mounted(second)
}

// TestTwoBlankDisksOfOneSerialAtOnce checks two blank disks with one serial. hotmount uses the disk that was attached
// first.
func TestTwoBlankDisksOfOneSerialAtOnce(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	one, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	two, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "TWICE"})
	m.run("systemctl start hotmount")
	m.mounted(one)
	m.waitForLog("/dev/" + two + " .*hold: the disk looks blank, and another disk has the same serial TWICE: .*" + one + " .*; this disk is " + two + " ")
	// The second disk remains held after the first is mounted.
	m.run("hotmount rescan")
	if got := m.run("hotmount plan | grep '^" + two + " '"); !strings.Contains(got, " hold ") || m.writes(two) != "0" {
		t.Errorf("%s: %s, %s write requests", two, got, m.writes(two))
	}
}

// untouchable contains kinds of disk content that hotmount must not touch. Each value of the map is a shell script that
// writes the content to the disk $d.
var untouchable = map[string]string{
	"ext4, which the class does not accept": "mkfs.ext4 -q $d",
	"GPT":                                   "sgdisk -n 1:0:0 $d",
	"GPT, only the backup":                  "sgdisk -n 1:0:0 $d; dd if=/dev/zero of=$d bs=512 count=34 conv=notrunc",
	"MBR":                                   "printf 'label: dos\\n,\\n' | sfdisk -q $d",
	"LUKS":                                  "echo x | cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $d",
	"LVM":                                   "pvcreate -q $d",
	"swap":                                  "mkswap $d",
	"md":                                    "mdadm --zero-superblock $d; mdadm -q --create /dev/md9 --run --level=1 --raid-devices=2 $d missing; mdadm -q --stop /dev/md9",
	"random bytes":                          "dd if=/dev/urandom of=$d bs=1M count=8",
	"text in the middle":                    "echo hello | dd of=$d bs=1 seek=167772167 conv=notrunc",
	"one bit at the end":                    "printf '\\001' | dd of=$d bs=1 seek=335544319 conv=notrunc",
	"XFS with a zeroed head":                "mkfs.xfs -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc",
	"ext4 with a zeroed head":               "mkfs.ext4 -q $d; dd if=/dev/zero of=$d bs=4096 count=1 conv=notrunc",
	"btrfs":                                 "mkfs.btrfs -q $d",
	"tar":                                   "tar -cf $d -C /usr/lib udev",
}

// TestUntouched checks that hotmount does not change disks that it must not touch (issue 2, section "Shown", item 7).
// The disks are attached with their content. The kernel's write counters must remain 0, too.
func TestUntouched(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount; systemctl mask --runtime --now lvm2-pvscan@.service >/dev/null 2>&1 || true")
	type filled struct{ what, image, digest, name string }
	var disks []filled
	for _, what := range slices.Sorted(maps.Keys(untouchable)) {
		fill, image := untouchable[what], blank(t, 320<<20)
		name, id := m.attach(w, worker.Disk{File: image})
		m.run("d=/dev/" + name + "; set -e; { " + fill + "; } >/dev/null 2>&1; sync; udevadm settle; blockdev --flushbufs $d")
		m.detach(w, id)
		disks = append(disks, filled{what: what, image: image, digest: digest(t, image)})
	}
	// The system may write to its own disk, but neither to the sectors in front of the first partition nor to files of
	// Debian packages.
	const systemDisk = "lsblk -no NAME,PARTUUID,FSTYPE,UUID /dev/vda; dd if=/dev/vda bs=1M count=1 iflag=direct status=none | sha256sum; dpkg --verify coreutils systemd udev util-linux xfsprogs || true"
	system := m.run(systemDisk)
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    accept: [xfs]\\n' >/etc/hotmount/config.yaml; systemctl start hotmount")
	for i := range disks {
		disks[i].name, _ = m.attach(w, worker.Disk{File: disks[i].image})
	}
	for _, d := range disks {
		m.waitForLog(fmt.Sprintf("^/dev/%s .*(refuse|ignore): ", d.name))
	}
	plan := m.run("hotmount plan")
	for _, d := range disks {
		if !regexpLine(plan, `^`+d.name+` .*(refuse|ignore) `) {
			t.Errorf("%s: the plan does not refuse %s:\n%s", d.what, d.name, plan)
		}
		if got := m.run("awk '{print $5+$12}' /sys/block/" + d.name + "/stat"); got != "0" {
			t.Errorf("%s: %s write requests reached it", d.what, got)
		}
		if got := digest(t, d.image); got != d.digest {
			t.Errorf("%s: its bytes have changed", d.what)
		}
	}
	if got := m.run(systemDisk); got != system {
		t.Errorf("the system disk was %q and is %q", system, got)
	}
	if !regexpLine(plan, `^vda .*ignore .*carries the system`) {
		t.Errorf("the plan does not ignore the system disk:\n%s", plan)
	}
	if got := m.run("ls -A /mnt/disks"); got != "" {
		t.Errorf("/mnt/disks holds %s", got)
	}
}

// TestWhoeverWritesFirstWins checks a program that starts to write to a disk while hotmount proves it blank. After the
// write the disk belongs to the program.
func TestWhoeverWritesFirstWins(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=8s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.wait("the proof to run", "systemctl is-active --quiet 'hotmount-format@*' || systemctl list-units 'hotmount-format@*' --no-legend | grep -q activating")
	wait := time.Duration(randomSource(t).IntN(5000)) * time.Millisecond
	m.run(fmt.Sprintf("sleep %.3f; printf hello | dd of=/dev/%s bs=1 seek=123456789 conv=notrunc,fsync 2>/dev/null", wait.Seconds(), name))
	m.waitForLog("/dev/" + name + " .*refuse: ")
	if got := m.run(fmt.Sprintf("dd if=/dev/%s bs=1 skip=123456789 count=5 2>/dev/null; ls -A /mnt/disks", name)); strings.TrimSpace(got) != "hello" {
		t.Errorf("the other writer's bytes are %q", got)
	}
}

// checkUntouched fails the test if a write or discard has reached the disk.
func (m machine) checkUntouched(name string) {
	m.t.Helper()
	if got := m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat"); got != "0" {
		m.t.Errorf("%s write requests reached %s", got, name)
	}
}

// history returns the output of `hotmount history -o json`.
func (m machine) history() []disk.Record {
	m.t.Helper()
	var all []disk.Record
	if err := json.Unmarshal([]byte(m.run("hotmount history -o json")), &all); err != nil {
		m.t.Fatal(err)
	}
	return all
}
