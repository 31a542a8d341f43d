//go:build vm

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// The variable `full` reports whether the tests run all cases (make test-full) or only a random choice.
var full = os.Getenv("HOTMOUNT_TEST_FULL") != ""

// obedient is a script that replaces mkfs.xfs, and follows the orders in the disk's serial number. An order is an
// instruction for one run of mkfs.xfs. If a run has the option -N or -V, it writes nothing and has no order. The n-th
// field after the colon in the serial number is the order for the n-th run that writes. An order consists of a letter
// for the action, a letter for the system call, and the number of the call:
//
//	kp7  mkfs.xfs is killed instead of the 7th pwrite64
//	sf1  mkfs.xfs is stopped after the 1st fallocate
//
// "s0" stops mkfs.xfs before the first write. After the last write, "kx" kills mkfs.xfs and "sx" stops it. For a loop
// device, the name of the device's file is the serial number. For a disk without a serial number, obedient reads its
// orders from the file /var/lib/orders/serial.
//
// obedient records the arguments of each run as the name of an empty file. Bytes in a file would increase the kernel's
// count of the bytes that mkfs.xfs has written. hotmount compares this count with the bytes that reach the disk. On an
// ext4 with a journal, a new file name does not increase this count. After a killed run of mkfs.xfs, obedient writes
// the state of the XFS on the disk to another file.
const obedient = `#!/bin/bash
case " $* " in *" -N "*|*" -V "*) exec /usr/local/real/mkfs.xfs "$@" ;; esac
node=${!#}
disk=/sys/block/${node##*/}
serial=$(cat $disk/serial 2>/dev/null)
[ ! -e $disk/loop/backing_file ] || serial=$(basename "$(<$disk/loop/backing_file)" .raw)
: "${serial:=$(cat /var/lib/orders/serial 2>/dev/null)}"
dir=/var/lib/orders/${serial:-none}
mkdir -p "$dir/runs"
n=$(($(ls "$dir/runs" | wc -l) + 1))
: >"$dir/runs/$n ${*//\//%}"
sync "$dir/runs" "$dir" /var/lib/orders
IFS=:, read -ra orders <<<"$serial"
order=${orders[n]-}
at=${order:2}
case $order in
?p*) at=pwrite64,$at ;; ?f*) at=fallocate,$at ;; kx) at=exit_group,1 ;;
s0) echo stopped >"$dir/trace.$n"; kill -STOP $$; exec /usr/local/real/mkfs.xfs "$@" ;;
sx) /usr/local/real/mkfs.xfs "$@"; echo stopped >"$dir/trace.$n"; kill -STOP $$; exit ;;
*) exec /usr/local/real/mkfs.xfs "$@" ;;
esac
signal=KILL; [ "${order:0:1}" = k ] || signal=STOP
strace -f -q -o "$dir/trace.$n" -e trace=pwrite64,fallocate,exit_group -e "inject=${at%,*}:signal=$signal:when=${at#*,}" /usr/local/real/mkfs.xfs "$@"
code=$?
[ $signal = KILL ] || exit $code
state=$(dd if=$node bs=4096 count=1 iflag=direct status=none | od -An -v -tx1 | tr -d ' \n')
case $state in 58465342*) [ "${state:252:2}" = 00 ] && state=finished || state=begun ;; *) state=none ;; esac
echo $state >"$dir/left.$n"
kill -KILL $$
`

// installObedient is a script that installs obedient as mkfs.xfs. With a drop-in from obedientOptions, the formatting
// unit can run strace.
const installObedient = `mkdir /usr/local/real /var/lib/orders
mv /usr/sbin/mkfs.xfs /usr/local/real/
mv /usr/local/obedient /usr/sbin/mkfs.xfs
systemctl daemon-reload`

// obedientOptions returns the options of a worker on which the script `obedient` replaces mkfs.xfs.
func obedientOptions() worker.Options {
	return worker.Options{Setup: installObedient, Files: []worker.File{
		{Path: "/usr/local/obedient", Data: []byte(obedient), Mode: 0o755},
		{Path: "/etc/systemd/system/hotmount-format@.service.d/orders.conf", Data: []byte("[Service]\nSystemCallFilter=@debug\nReadWritePaths=/var/lib/orders\n")},
		{Path: "/etc/systemd/system/hotmount.service.d/orders.conf", Data: []byte("[Service]\nEnvironment=HOTMOUNT_FORMAT_LIMIT=256\n")},
	}}
}

// obedientNode returns a worker from startNode, and obedientWorker returns a virtual machine. On both, the script
// `obedient` replaces mkfs.xfs.
func obedientNode(t *testing.T) (machine, worker.Node) {
	t.Helper()
	return startNode(t, obedientOptions())
}

func obedientWorker(t *testing.T) (machine, *worker.Worker) {
	t.Helper()
	return start(t, obedientOptions())
}

// The method `ordered` returns a disk whose serial number contains the given orders for the test script `obedient`. In
// a container, the name of the disk's file replaces the serial number.
func (m machine) ordered(w worker.Node, image, orders string) worker.Disk {
	m.t.Helper()
	if _, is := w.(*worker.Container); !is {
		return worker.Disk{File: image, Serial: orders}
	}
	named := filepath.Join(filepath.Dir(image), orders+".raw")
	if err := os.Rename(image, named); err != nil {
		m.t.Fatal(err)
	}
	return worker.Disk{File: named}
}

// crashSize is the size of the disks in bytes, the smallest size that mkfs.xfs accepts.
const crashSize = 300 << 20

// mkfsWrites returns the names of the writes of mkfs.xfs to a disk of crashSize bytes, from the first write to the
// last. The orders use the same names, such as p1 or f1. mkfsWrites also returns the index of the first write of the
// superblock.
func (m machine) mkfsWrites(w worker.Node) (all []string, super int) {
	m.t.Helper()
	m.run("systemctl stop hotmount")
	name, id := m.attach(w, worker.Disk{File: blank(m.t, crashSize)})
	m.wait("udev", "[ -e /dev/"+name+" ] && udevadm settle")
	trace := m.run("strace -qq -o /root/trace -e trace=pwrite64,fallocate /usr/local/real/mkfs.xfs -K -m uuid=$(cat /proc/sys/kernel/random/uuid) /dev/" + name + " >/dev/null; cat /root/trace")
	// QEMU 7.2 sometimes crashes if a disk is removed while udev reads the disk.
	m.run("udevadm settle")
	m.detach(w, id)
	m.run("systemctl start hotmount")
	count := map[byte]int{}
	for i, call := range strings.Split(trace, "\n") {
		count[call[0]]++
		all = append(all, fmt.Sprintf("%c%d", call[0], count[call[0]]))
		if super == 0 && strings.Contains(call, `"XFSB`) {
			super = i
		}
	}
	m.t.Logf("mkfs.xfs writes %d times, the superblock first by %s, at last by %s", len(all), all[super], all[len(all)-1])
	if len(all) < 40 || super == 0 {
		m.t.Fatalf("these are not all:\n%s", trace)
	}
	return all, super
}

// someWrites returns all writes in the full test. In the short test, someWrites returns the first write, the last
// write, the superblock's first write, and up to the given number of random writes.
func someWrites(c *rand.Rand, writes []string, super, more int) []string {
	if full {
		return writes
	}
	last := len(writes) - 1
	choice := []int{0, super, last}
	for range more {
		choice = append(choice, 1+c.IntN(last-1))
	}
	slices.Sort(choice)
	var all []string
	for _, i := range slices.Compact(choice) {
		all = append(all, writes[i])
	}
	return all
}

// victim is a disk with orders for the script obedient, which replaces mkfs.xfs.
type victim struct {
	order, serial, name, id string
}

func (m machine) victims(w worker.Node, first int, orders ...string) []victim {
	m.t.Helper()
	var all []victim
	for i, order := range orders {
		v := victim{order: order, serial: fmt.Sprintf("%d:%s", first+i, order)}
		// Each disk has a size of its own, so that hotmount does not mistake the disk for an earlier disk in the same
		// slot.
		v.name, v.id = m.attach(w, m.ordered(w, blank(m.t, crashSize+int64(first+i)<<12), v.serial))
		all = append(all, v)
	}
	return all
}

func (v victim) dir() string { return "/var/lib/orders/" + v.serial }

// The method `stopped` waits until mkfs.xfs has stopped at the point that the disk's order specifies.
func (m machine) stopped(v victim) {
	m.t.Helper()
	m.wait("mkfs.xfs to be stopped at "+v.order, "grep stopped "+v.dir()+"/trace.1")
}

// byName finds the disk by its serial number after a boot, and updates the disk's kernel name.
func (m machine) byName(v *victim) {
	m.t.Helper()
	m.wait("disk "+v.serial, "grep -lx "+quote(v.serial)+" /sys/block/vd*/serial")
	v.name = strings.Split(m.run("grep -lx "+quote(v.serial)+" /sys/block/vd*/serial"), "/")[3]
}

// checkFormat waits until the disk is mounted, and checks how it was formatted. Each run of mkfs.xfs must have used the
// UUID of the mounted filesystem. The number of runs must be right, and the journal must show no refusal or hold.
// checkFormat returns a line for the log.
func (m machine) checkFormat(v victim, runs int) string {
	m.t.Helper()
	uuid := m.mounted(v.name)
	lines := strings.Split(m.run("ls "+v.dir()+"/runs"), "\n")
	for _, line := range lines {
		if !strings.Contains(line, "uuid="+uuid+" ") {
			m.t.Errorf("%s: %s is mounted, %s was made", v.order, uuid, line)
		}
	}
	if len(lines) != runs {
		m.t.Errorf("%s: %d runs of mkfs.xfs, not %d:\n%s", v.order, len(lines), runs, strings.Join(lines, "\n"))
	}
	m.run(fmt.Sprintf("echo kept >/mnt/disks/%[1]s/f; sync -f /mnt/disks/%[1]s", uuid))
	if got := m.run("journalctl --no-pager -o cat >/run/said; grep -E '/dev/" + v.name + " .*(refuse|hold): ' /run/said || [ $? = 1 ]"); got != "" {
		m.t.Errorf("%s: %s", v.order, got)
	}
	return fmt.Sprintf("%-12s %d runs, %s", v.order, len(lines), uuid)
}

// stateLeft returns the state of the XFS that the killed run of mkfs.xfs left on the disk: "finished", "begun" or
// "none".
func (m machine) stateLeft(v victim, run int) string {
	m.t.Helper()
	return m.run(fmt.Sprintf("cat %s/left.%d", v.dir(), run))
}

// forget detaches the disks. The method also deletes the journal, because the tests search the journal for kernel
// names, and later disks have the same kernel names.
func (m machine) forget(w worker.Node, victims []victim) {
	m.t.Helper()
	for _, v := range victims {
		m.detach(w, v.id)
	}
	m.wait("the mounts to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q")
}

// TestAgentKilled kills the daemon while mkfs.xfs is stopped at a write. The full test does so at each write, and the
// short test at some writes. TestAgentKilled checks that mkfs.xfs continues, and that the next daemon waits for
// mkfs.xfs. For half of the disks the test also kills the formatting process.
func TestAgentKilled(t *testing.T) {
	m, w := obedientNode(t)
	orders := []string{"s0"}
	writes, super := m.mkfsWrites(w)
	for _, at := range someWrites(randomSource(t), writes, super, 1) {
		orders = append(orders, "s"+at)
	}
	last := orders[len(orders)-1]
	// Each element of the slice `turns` is the index of an order, and stands for two disks. The first disk has the
	// order at this index, and the second disk has the next order. The test also kills the formatting process of the
	// second disk. The full test kills the daemon twice at each write, once with the formatting process and once
	// without it.
	var turns []int
	for i := range orders {
		if full || i%2 == 0 {
			turns = append(turns, i)
		}
	}
	begun := 0
	// A stopped formatting process occupies one of the daemon's four places for proofs (proofsAtOnce) for a minute. A
	// fifth disk would wait for that minute, so a group has two turns, which are four disks.
	for some := range slices.Chunk(turns, 2) {
		var stay, end []string
		for _, i := range some {
			stay, end = append(stay, orders[i]), append(end, orders[(i+1)%len(orders)])
		}
		victims := m.victims(w, begun, append(stay, end...)...)
		begun += len(victims)
		alone, both := victims[:len(stay)], victims[len(stay):]
		for _, v := range victims {
			m.stopped(v)
		}
		restarts := m.run("systemctl show -p NRestarts --value hotmount")
		kill := "systemctl kill -s KILL hotmount"
		for _, v := range both {
			kill += fmt.Sprintf("; systemctl kill -s KILL hotmount-format@$(cat /sys/block/%s/diskseq)", v.name)
		}
		m.run(kill)
		m.wait("another daemon", "[ $(systemctl show -p NRestarts --value hotmount) -gt "+restarts+" ] && systemctl is-active hotmount")
		for _, v := range both {
			runs := 2
			if v.order == last {
				runs = 1
			}
			t.Logf("killed with its process: %s", m.checkFormat(v, runs))
		}
		for _, v := range alone {
			if got := m.run("ls " + v.dir() + "/runs | wc -l; findmnt -n /dev/" + v.name + " || true; pkill -CONT -f 'mkfs.xfs .*/dev/" + v.name + "$'"); got != "1" {
				t.Errorf("%s: while mkfs.xfs is stopped: %s", v.order, got)
			}
		}
		for _, v := range alone {
			t.Logf("the daemon killed: %s", m.checkFormat(v, 1))
		}
		m.forget(w, victims)
	}
	t.Logf("%d times", len(turns))
}

// TestFormatBesideALoopDevice checks that hotmount mounts a loop device with data while another loop device of the same
// size is formatted. A loop device has no serial and no slot, so the two loop devices look alike.
func TestFormatBesideALoopDevice(t *testing.T) {
	m, w := obedientNode(t)
	victims := m.victims(w, 0, "s0")
	m.stopped(victims[0])
	name, _ := m.attach(w, worker.Disk{File: made(t, crashSize)})
	m.mounted(name)
	m.run("pkill -CONT -f 'mkfs.xfs .*/dev/" + victims[0].name + "$'")
	t.Log(m.checkFormat(victims[0], 1))
}

// TestMkfsKilled kills mkfs.xfs before one of its writes, or after its last write. The full test does so for each
// write, and the short test for some writes. For some disks, the test also kills the next run of mkfs.xfs.
// TestMkfsKilled checks that the result is one mounted XFS with the intended UUID (issue 3, section "Shown").
func TestMkfsKilled(t *testing.T) {
	m, w := obedientNode(t)
	writes, super := m.mkfsWrites(w)
	var orders []string
	c := randomSource(t)
	for _, at := range someWrites(c, writes, super, 1) {
		orders = append(orders, "k"+at)
	}
	// For the next disks the second run of mkfs.xfs is killed, too. The second run of mkfs.xfs may first zero the
	// superblocks that the first run wrote.
	twice := 1
	if full {
		twice = 20
	}
	for range twice {
		orders = append(orders, "k"+writes[c.IntN(len(writes))]+",k"+writes[c.IntN(len(writes))])
	}
	orders = append(orders, "kx")
	begun := 0
	// hotmount reads two disks at once, and each disk at least twice. The test therefore uses groups of at most six
	// disks. In a larger group, the last disk would wait too long.
	for some := range slices.Chunk(orders, 6) {
		victims := m.victims(w, begun, some...)
		begun += len(some)
		for _, v := range victims {
			m.mounted(v.name)
			runs := strings.Count(v.order, ",") + 2
			left := m.stateLeft(v, runs-1)
			if left == "finished" {
				runs--
			}
			if (left == "finished") != (v.order == "kx") {
				t.Errorf("%s: the killed run left %s", v.order, left)
			}
			t.Logf("%s, %s at first", m.checkFormat(v, runs), left)
		}
		m.forget(w, victims)
	}
}

// TestPowerCutAfterGrowth checks an XFS that has just grown, so that only the log contains the new size. If the log
// contains writes to new allocation groups, the first log recovery of Debian 12's kernel fails. If only the last
// allocation group grew, the recovery succeeds, but the kernel shuts the filesystem down when the new space is used.
//
// hotmount first mounts the filesystem at another path, where a failed recovery or a shutdown does no harm. hotmount
// then mounts the filesystem at its own path, where the filesystem works and still contains its data.
func TestPowerCutAfterGrowth(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + growConfig + "X\nsystemctl reload hotmount")
	// The setting fs.xfs.xfssyncd_centisecs keeps the new size only in the log for as long as the test lasts
	// (xfs_log_worker).
	m.run("modprobe xfs; sysctl -q -w fs.xfs.xfssyncd_centisecs=720000")
	const eighth = gib / 8
	grown := []struct {
		serial   string
		from, to int64
		written  bool
	}{
		{"GROUPS", gib, 3 * gib, true},
		{"WRITTEN", gib + eighth, gib + 2*eighth, true},
		{"QUIET", gib + eighth, gib + 2*eighth, false},
	}
	var uuids, sums []string
	for _, g := range grown {
		name, id := m.attach(w, worker.Disk{File: made(t, g.from), Serial: g.serial})
		uuid := m.mounted(name)
		m.run("echo before >/mnt/disks/" + uuid + "/data; sync")
		m.resize(w, id, g.to)
		m.takes(uuid, g.to-150*mib)
		uuids = append(uuids, uuid)
	}
	// XFS puts each new directory and its files into the next allocation group.
	const write = "cd /mnt/disks/%s; for i in {1..40}; do mkdir %s$i; head -c 256K /dev/urandom >%[2]s$i/f; done; sync; "
	for i, g := range grown {
		if g.written {
			m.run(fmt.Sprintf(write, uuids[i], "old"))
		}
		sums = append(sums, m.run("cd /mnt/disks/"+uuids[i]+"; sync; find . -type f | sort | xargs sha256sum"))
	}
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mounts", fmt.Sprintf("systemctl is-active -q hotmount && [ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = %d ]", len(grown)))
	if n := m.count("Finished.*hotmount-stage@"); n != len(grown) {
		t.Errorf("%d filesystems were mounted elsewhere first, want %d", n, len(grown))
	}
	since := m.run("date +%s.%N")
	for i, uuid := range uuids {
		if got := m.run("cd /mnt/disks/" + uuid + "; find . -type f | sort | xargs sha256sum"); got != sums[i] {
			t.Errorf("%s: after the power cut there is\n%s\nand there was\n%s", grown[i].serial, got, sums[i])
		}
		m.takes(uuid, grown[i].to-150*mib)
		m.run(fmt.Sprintf(write, uuid, "new") + "rm -rf old*; sync; touch after; sync")
	}
	if got := m.run("journalctl -b -k --no-pager -o cat --since @" + since + " | grep XFS || true"); got != "" {
		t.Errorf("the kernel says: %s", got)
	}
	if got := m.run("systemctl show -p StatusText --value hotmount"); !strings.HasPrefix(got, fmt.Sprint(len(grown), " mounted, 0 held, 0 refused, 0 failing")) {
		t.Errorf("the daemon says: %s", got)
	}
	if n := m.count(`mnt-disks-.*Failed with result|cannot mount vd`); n != 0 {
		t.Errorf("%d mounts have failed", n)
	}
}

// ownOrders puts obedient's records on a filesystem of their own, and sets the commit interval of the system's
// filesystem to one hour. A sync of one file on an ext4 filesystem commits the journal, and can make earlier writes to
// other files durable. On the system's filesystem, a sync of obedient's records could also make hotmount's intent
// durable. The test would then pass even if hotmount did not sync the intent.
func (m machine) ownOrders(w *worker.Worker) {
	m.t.Helper()
	image := blank(m.t, 64<<20)
	if out, err := exec.CommandContext(ctx(m.t), "mkfs.ext4", "-q", "-F", "-L", "orders", image).CombinedOutput(); err != nil {
		m.t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	m.run("echo 'LABEL=orders /var/lib/orders ext4 defaults 0 0' >>/etc/fstab; sync")
	name, _ := m.attach(w, worker.Disk{File: image, Serial: "ORDERS"})
	m.wait("the orders' disk", "udevadm settle; [ -e /dev/disk/by-label/orders ] && mount /var/lib/orders")
	m.run("findmnt -n /dev/" + name + "; sync; mount -o remount,commit=3600 /; findmnt -no OPTIONS / | grep commit=3600")
}

// TestPowerCutDuringMkfs cuts the power while mkfs.xfs is stopped, either before its first write or after a later
// write. The full test cuts the power at each write. The short test cuts the power at the last write and at one other
// point.
func TestPowerCutDuringMkfs(t *testing.T) {
	m, w := obedientWorker(t)
	writes, super := m.mkfsWrites(w)
	m.ownOrders(w)
	last := "s" + writes[len(writes)-1]
	others := []string{"s0", "s" + writes[super]}
	for _, at := range writes[:len(writes)-1] {
		others = append(others, "s"+at)
	}
	orders := []string{last, others[randomSource(t).IntN(len(others))]}
	if full {
		orders = append(others, last)
	}
	begun := 0
	for some := range slices.Chunk(orders, 8) { // a chunk has several disks, because each chunk costs a boot
		victims := m.victims(w, begun, some...)
		begun += len(some)
		for _, v := range victims {
			m.stopped(v)
		}
		if err := w.PowerCut(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if err := w.PowerOn(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.run("mount -o remount,commit=3600 /")
		for _, v := range victims {
			m.byName(&v)
			runs := 2
			if v.order == last {
				runs = 1
			}
			t.Log(m.checkFormat(v, runs))
			// The history still contains the format that was recorded before the power cut.
			if got := m.run("hotmount history | grep -c " + m.mounted(v.name) + " || true"); got == "0" {
				t.Errorf("%s: the history does not have it", v.order)
			}
		}
		m.forget(w, victims)
	}
}

// TestCopyOfAHalfMade cuts the power while hotmount formats a disk by the operator's order, and then attaches a copy of
// the disk. hotmount must not overwrite the copy. hotmount must refuse the original disk until the operator orders a
// second format.
func TestCopyOfAHalfMade(t *testing.T) {
	m, w := obedientWorker(t)
	image := blank(t, crashSize)
	writeRandom(t, image, 20<<20, 1<<20)
	v := victim{order: "sp30", serial: "0:sp30"}
	v.name, v.id = m.attach(w, worker.Disk{File: image, Serial: v.serial})
	m.waitForLog("/dev/" + v.name + " .*refuse: .*old data at byte 20971520")
	_, token := m.offer(v.name)
	m.run("systemd-run --quiet hotmount format " + v.name + " --confirm " + token)
	m.stopped(v)
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), v.id); err != nil {
		t.Fatal(err)
	}
	other := image + ".copy"
	if out, err := exec.CommandContext(ctx(t), "cp", "--sparse=always", image, other).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	before := digest(t, other)
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name, id := m.attach(w, worker.Disk{File: other, Serial: "RESCUE"})
	m.waitForLog("/dev/" + name + " .*refuse: mkfs.xfs did not finish: this node began .* on a disk of 300 MiB .serial 0:sp30, .* and this disk may be a copy of that disk")
	if got := m.run("awk '{print $7+$14}' /sys/block/" + name + "/stat"); got != "0" || digest(t, other) != before {
		t.Errorf("%s sectors of the copy were written", got)
	}
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: v.serial})
	m.waitForLog("/dev/" + name + " .*refuse: an operator.s format of the disk did not finish; hotmount does not know what the disk holds now.*hotmount format " + name)
	_, token = m.offer(name)
	m.run("hotmount format " + name + " --confirm " + token)
	m.mounted(name)
}

// TestStalledWrite starts a direct write to a disk during hotmount's settle time, and makes the storage stall the
// write. The kernel's count of completed writes does not include the stalled write. Even so, hotmount must not format
// the disk.
func TestStalledWrite(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=15s\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl stop hotmount")
	name, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "STALLS"})
	m.run("udevadm settle")
	throttle(t, w, id+"/virtio-backend", 0, 1)
	write := func(from, at string) string {
		return fmt.Sprintf("dd if=%s of=/dev/%s bs=4096 count=1 seek=%s oflag=direct conv=notrunc status=none", from, name, at)
	}
	m.run(write("/dev/zero", "0")) // the storage completes the first write, and stalls the next write
	before := m.writes(name)
	m.run("yes theirs | head -c 4096 >/root/theirs; systemctl start hotmount")
	unit := "hotmount-format@" + m.run("cat /sys/block/"+name+"/diskseq")
	m.wait("the proof", "systemctl is-active "+unit+" | grep activating")
	m.run("systemd-run -q --unit=theirs " + write("/root/theirs", "51200")) // at byte 200 MiB
	m.wait("the write to stall", "awk '$2 != 1 {exit 1}' /sys/block/"+name+"/inflight")
	m.waitForLog("/dev/" + name + ".*somebody writes to the disk: 1 writes are not complete yet")
	if now := m.writes(name); now != before {
		t.Errorf("%s writes are complete, before %s: the count alone would have shown it", now, before)
	}
	throttle(t, w, id+"/virtio-backend", 0, 0)
	m.waitForLog("^/dev/" + name + " .*refuse: .*old data at byte 209715200")
	m.run("dd if=/dev/" + name + " bs=4096 skip=51200 count=1 iflag=direct status=none | cmp - /root/theirs")
	if got := m.run("dd if=/dev/" + name + " bs=1M count=1 iflag=direct status=none | tr -d '\\0' | wc -c; journalctl -b -o cat --no-pager | grep -E ': formatted|making XFS' || true"); got != "0" {
		t.Errorf("it was written to: %s", got)
	}
}

// TestTornFormat checks that a disk is refused if the header of an allocation group is missing, as after a power cut
// during mkfs.xfs. Only the operator's order to format the disk overrides the refusal.
func TestTornFormat(t *testing.T) {
	m, w := obedientNode(t)
	v := m.victims(w, 0, "sx")[0]
	m.stopped(v)
	// The third of the four allocation groups, group 2, begins at the offset 150 MiB.
	m.run(fmt.Sprintf("systemctl stop hotmount; dd if=/dev/zero of=/dev/%s bs=4096 count=1 seek=38400 oflag=direct conv=notrunc status=none; systemctl kill -s KILL 'hotmount-format@*'", v.name))
	m.wait("the unit's end", "! systemctl is-active 'hotmount-format@*' | grep -E '^(de)?activating' && ! pgrep mkfs.xfs")
	m.run("systemctl start hotmount")
	refused := "^/dev/" + v.name + " .*refuse: this node's format of the disk did not finish: the superblock of xfs .* is there, but parts of the filesystem are missing .*byte 157286400, in the headers of group 2, .*hotmount format " + v.name
	m.waitForLog(refused)
	if out := m.fails("hotmount accept " + v.name); !strings.Contains(out, "did not finish") {
		t.Error(out)
	}
	m.run("journalctl --rotate; journalctl --vacuum-time=1s; rm -f /run/hotmount/verdicts/*; systemctl restart hotmount")
	m.waitForLog(refused)
	if got := m.run("findmnt -no SOURCE /dev/" + v.name + " || true; ls " + v.dir() + "/runs | wc -l"); got != "1" {
		t.Errorf("mounted, or mkfs.xfs has run again: %s", got)
	}
	text, token := m.offer(v.name)
	if !strings.Contains(text, "a part of what mkfs.xfs wrote is missing: byte 157286400") {
		t.Error(text)
	}
	m.run("hotmount format " + v.name + " --confirm " + token)
	m.mounted(v.name)
	m.run("umount /dev/" + v.name + "; xfs_repair -n /dev/" + v.name)
}

// TestDisturbedFormat checks that a disk is held if somebody wrote to it between the end of mkfs.xfs and hotmount's
// read-back. The disk stays held even if a later read finds the filesystem intact.
func TestDisturbedFormat(t *testing.T) {
	m, w := obedientWorker(t)
	name, _ := m.attach(w, m.ordered(w, blank(t, crashSize), "DISTURBED"))
	// tail(1) starts no process while it waits, so the write comes early enough even on a busy machine.
	m.run(fmt.Sprintf(`yes theirs | head -c 4096 >/root/theirs
for i in $(seq 3000); do [ -e /var/lib/orders/DISTURBED/runs ] && break; sleep 0.05; done
pid=$(pgrep -of '[m]kfs.xfs .*/dev/%[1]s') && tail --pid=$pid -s 0.05 -f /dev/null
dd if=/root/theirs of=/dev/%[1]s bs=4096 count=1 seek=51200 oflag=direct conv=notrunc status=none`, name))
	m.waitForLog("/dev/" + name + ".*somebody writes to the disk: 1 writes and discards since the last count")
	held := "^/dev/" + name + " .*hold: this node made xfs .* on the disk; somebody else may have used the disk before hotmount had checked the new filesystem: .*hotmount accept " + name
	m.waitForLog(held)
	m.run("journalctl --rotate; journalctl --vacuum-time=1s; rm -f /run/hotmount/verdicts/*; systemctl restart hotmount")
	m.waitForLog(held)
	if got := m.run("findmnt -no SOURCE /dev/" + name + " || true; dd if=/dev/" + name + " bs=4096 skip=51200 count=1 iflag=direct status=none | cmp - /root/theirs"); got != "" {
		t.Error(got)
	}
	m.offer(name)
	m.run("hotmount accept " + name)
	uuid := m.mounted(name)
	if out := m.run("hotmount history"); !regexpLine(out, uuid) || m.run("ls /var/lib/hotmount/intents") != "" {
		t.Errorf("the history:\n%s", out)
	}
}
