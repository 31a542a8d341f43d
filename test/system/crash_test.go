//go:build vm

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// full asks for all there is instead of a choice (make test-full).
var full = os.Getenv("HOTMOUNT_TEST_FULL") != ""

// obedient takes the place of mkfs.xfs. What happens to the n-th run that writes
// says the disk's serial number in its n-th field after the colon, one letter for
// what, one for a system call and the number of that call at which it happens:
//
//	kp7  killed in place of the 7th pwrite64
//	sf1  stopped after the 1st fallocate
//
// A loop device has its file's name as a serial number, any other disk without one that of the
// file /var/lib/orders/serial.
//
// "s0" is stopped before the first write, "kx" killed and "sx" stopped after the last. Each run is
// recorded with its arguments, and whether what it left is a finished XFS. The record of a run is
// the name of an empty file: the kernel would count bytes in a file for mkfs.xfs, which hotmount
// compares with those that reach the disk, and names in a journaled ext4 it counts for nobody.
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

// obey puts obedient in its place, for which the formatting unit has to allow
// strace.
const obey = `mkdir /usr/local/real /var/lib/orders
mv /usr/sbin/mkfs.xfs /usr/local/real/
mv /usr/local/obedient /usr/sbin/mkfs.xfs
systemctl daemon-reload`

// obedientOptions are of a worker on which obedient is mkfs.xfs.
func obedientOptions() worker.Options {
	return worker.Options{Setup: obey, Files: []worker.File{
		{Path: "/usr/local/obedient", Data: []byte(obedient), Mode: 0o755},
		{Path: "/etc/systemd/system/hotmount-format@.service.d/orders.conf", Data: []byte("[Service]\nSystemCallFilter=@debug\nReadWritePaths=/var/lib/orders\n")},
		{Path: "/etc/systemd/system/hotmount.service.d/orders.conf", Data: []byte("[Service]\nEnvironment=HOTMOUNT_FORMAT_LIMIT=256\n")},
	}}
}

// obedientNode returns such a container, obedientWorker such a virtual machine.
func obedientNode(t *testing.T) (machine, worker.Node) {
	t.Helper()
	return startNode(t, obedientOptions())
}

func obedientWorker(t *testing.T) (machine, *worker.Worker) {
	t.Helper()
	return start(t, obedientOptions())
}

// ordered returns a disk with orders for obedient.
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

// crashSize is the size of the disks: the smallest that mkfs.xfs takes.
const crashSize = 300 << 20

// mkfsWrites gives the writes of mkfs.xfs on a disk of that size, in their order, in
// obedient's words: p1, p2, f1, p3 and so on; super is the index of the one that
// writes the superblock first.
func (m machine) mkfsWrites(w worker.Node) (all []string, super int) {
	m.t.Helper()
	m.run("systemctl stop hotmount")
	name, id := m.attach(w, worker.Disk{File: blank(m.t, crashSize)})
	m.wait("udev", "[ -e /dev/"+name+" ] && udevadm settle")
	trace := m.run("strace -qq -o /root/trace -e trace=pwrite64,fallocate /usr/local/real/mkfs.xfs -K -m uuid=$(cat /proc/sys/kernel/random/uuid) /dev/" + name + " >/dev/null; cat /root/trace")
	// QEMU 7.2 does not always survive that a disk is taken out while udev reads it.
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

// some gives all of the writes, or a choice: the first, that of the superblock,
// the last, and as many more.
func some(c *rand.Rand, writes []string, super, more int) []string {
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

// victim is a disk with orders for mkfs.xfs.
type victim struct {
	order, serial, name, id string
}

func (m machine) victims(w worker.Node, first int, orders ...string) []victim {
	m.t.Helper()
	var all []victim
	for i, order := range orders {
		v := victim{order: order, serial: fmt.Sprintf("%d:%s", first+i, order)}
		// Of a size of its own: the slots are used again.
		v.name, v.id = m.attach(w, m.ordered(w, blank(m.t, crashSize+int64(first+i)<<12), v.serial))
		all = append(all, v)
	}
	return all
}

func (v victim) dir() string { return "/var/lib/orders/" + v.serial }

// stopped waits until mkfs.xfs stands where it was to be stopped.
func (m machine) stopped(v victim) {
	m.t.Helper()
	m.wait("mkfs.xfs to be stopped at "+v.order, "grep stopped "+v.dir()+"/trace.1")
}

// byName finds the disk again after a boot.
func (m machine) byName(v *victim) {
	m.t.Helper()
	m.wait("disk "+v.serial, "grep -lx "+quote(v.serial)+" /sys/block/vd*/serial")
	v.name = strings.Split(m.run("grep -lx "+quote(v.serial)+" /sys/block/vd*/serial"), "/")[3]
}

// whole waits until the disk is mounted, and checks how it came about: every run
// was for the UUID that it is mounted by, there are no more runs than it needs,
// and nothing was refused on the way. It gives a line for a table.
func (m machine) whole(v victim, runs int) string {
	m.t.Helper()
	uuid := m.mounted(v.name)
	lines := strings.Split(m.run("ls "+v.dir()+"/runs"), "\n")
	for _, line := range lines {
		if !strings.Contains(line, "uuid="+uuid+" ") {
			m.t.Errorf("%s: mounted is %s, made was %s", v.order, uuid, line)
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

// left says whether the killed run had finished the filesystem.
func (m machine) left(v victim, run int) string {
	m.t.Helper()
	return m.run(fmt.Sprintf("cat %s/left.%d", v.dir(), run))
}

// forget takes the disks out, and what the worker knows of their names with them.
func (m machine) forget(w worker.Node, victims []victim) {
	m.t.Helper()
	for _, v := range victims {
		m.detach(w, v.id)
	}
	m.wait("the mounts to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q")
}

// TestAgentKilled: the daemon is killed at each of mkfs.xfs's writes: mkfs goes
// on, and the next daemon waits for it. The other half of the disks lose the
// process that formats as well.
func TestAgentKilled(t *testing.T) {
	m, w := obedientNode(t)
	orders := []string{"s0"}
	writes, super := m.mkfsWrites(w)
	for _, at := range some(chance(t), writes, super, 1) {
		orders = append(orders, "s"+at)
	}
	last := orders[len(orders)-1]
	// So that both fates meet each write in the full test, the other half is one behind.
	var turns []int
	for i := range orders {
		if full || i%2 == 0 {
			turns = append(turns, i)
		}
	}
	begun := 0
	for some := range slices.Chunk(turns, 4) {
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
			t.Logf("killed with its process: %s", m.whole(v, runs))
		}
		for _, v := range alone {
			if got := m.run("ls " + v.dir() + "/runs | wc -l; findmnt -n /dev/" + v.name + " || true; pkill -CONT -f 'mkfs.xfs .*/dev/" + v.name + "$'"); got != "1" {
				t.Errorf("%s: while mkfs.xfs stands still: %s", v.order, got)
			}
		}
		for _, v := range alone {
			t.Logf("the daemon killed: %s", m.whole(v, 1))
		}
		m.forget(w, victims)
	}
	t.Logf("%d times", len(turns))
}
