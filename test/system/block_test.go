//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hotmount/test/worker"
)

const blockConfig = `settle: 1s
node: worker-1
classes:
  - name: raw
    names: ["vd[a-z]"]
    directory: /var/lib/disks/block
    mode: %s
    storage_class: raw
`

// The method `exchanged` detaches a disk that is given out as a block volume, and attaches another disk. udev sees
// these two events late. The method checks that the link leads nowhere until udev has seen the events, and that the
// link is then removed. The method returns the other disk's kernel name and ID.
func (m machine) exchanged(w *worker.Worker, name, id, link string, other worker.Disk) (string, string) {
	m.t.Helper()
	_, base, _ := strings.Cut(link, "/block/")
	seq := m.run("cat /sys/block/" + name + "/diskseq; udevadm settle; udevadm control --stop-exec-queue")
	m.detach(w, id)
	m.wait("the kernel to let it go", "! [ -e /sys/block/"+name+"/diskseq ] || [ $(cat /sys/block/"+name+"/diskseq) != "+seq+" ]")
	now, otherID := m.attach(w, other)
	if got := m.run("readlink /dev/disk/by-diskseq/" + seq + "; readlink " + link); got != "../../"+name+"\n/dev/hotmount/"+base {
		m.t.Errorf("udev is not late: %s", got)
	}
	if out, err := m.Run(ctx(m.t), "stat -L "+link+" || [ -e /dev/"+name+" ]"); err == nil {
		m.t.Errorf("%s leads to another disk, which is %s: %s", link, now, out)
	}
	m.run("udevadm control --start-exec-queue")
	m.wait("the link to go", "! [ -L "+link+" ] && ! [ -L /dev/hotmount/"+base+" ]")
	return now, otherID
}

// unexpectedLines returns the unexpected lines of the provisioner's log. Lines about the provisioner's start and about
// volumes with a disk sequence number are expected.
//
// The parameter `gone` contains the start and the end of a period. During this period, each pass of the provisioner may
// log the missing disk one time. The period begins before the disk is detached, and ends after the disk's link is
// removed. The provisioner may log its last line about the missing disk up to one pass after the end of the period.
func unexpectedLines(t *testing.T, log string, gone [2]string) (lines []string) {
	t.Helper()
	const pass = time.Second
	at := func(text string) time.Time {
		t.Helper()
		clock, _, _ := strings.Cut(text, " ")
		when, err := time.Parse(time.RFC3339, clock)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	from, to, said := at(gone[0]), at(gone[1]), 0
	for _, line := range strings.Split(log, "\n") {
		switch when := at(line); {
		case strings.HasSuffix(line, " started"), strings.Contains(line, " seq="):
		case strings.Contains(line, " error stat "+raw) && !when.Before(from) && when.Before(to.Add(pass)) && said <= int(to.Sub(from)/pass):
			said++
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

const raw = "/var/lib/disks/block/virtio-"

// formatsFormerBlock formats a disk that was given out as a block volume. hotmount formats a former block volume only
// with a token. hotmount holds the new filesystem until the operator accepts the disk, because the recorded block
// volume may have been another disk with the same serial.
func (m machine) formatsFormerBlock(w *worker.Worker, disk worker.Disk) {
	m.t.Helper()
	m.run("mv /etc/hotmount/config.yaml /root; systemctl reload hotmount")
	name, id := m.attach(w, disk)
	m.wait("the remedy", "hotmount status | tr -s '\n ' ' ' | grep '"+name+" is refused: the disk was given out .* hotmount format "+name+"'")
	m.run("$(hotmount format " + name + " | tail -n 1)")
	m.lift(name, "filesystem-on-former-block-volume")
	uuid := m.mounted(name)
	m.detach(w, id)
	m.wait("its mount to go", "[ ! -e /mnt/disks/"+uuid+" ]")
	m.run("mv /root/config.yaml /etc/hotmount; systemctl reload hotmount")
}

// TestBlockVolumes checks that a class in block mode gives out disks by links, and that a link leads to its disk or
// nowhere. A stand-in program replaces the provisioner. The test covers attach, use and cleaning, a detach while udev
// is late, a restart and a power cut. After a disk was given out, hotmount formats the disk only with a token from
// `hotmount format`.
func TestBlockVolumes(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/disks/block && cat >/etc/hotmount/config.yaml <<'X'\n" + fmt.Sprintf(blockConfig, "block") + "X\nsystemctl reload hotmount")
	m.provision(w, "raw:Block:/var/lib/disks/block")
	seq := func(name string) string { return m.run("cat /sys/block/" + name + "/diskseq") }
	given := func(serial, name string) {
		t.Helper()
		m.wait("the link to "+serial, fmt.Sprintf("[ $(readlink -f %s%s) = /dev/%s ]", raw, serial, name))
		if got := m.run(fmt.Sprintf("readlink %[1]s%[2]s; readlink /dev/hotmount/virtio-%[2]s", raw, serial)); got != "/dev/hotmount/virtio-"+serial+"\n/dev/disk/by-diskseq/"+seq(name) {
			t.Errorf("%s leads over %s", serial, got)
		}
	}
	image := blank(t, 320<<20)
	zeros := digest(t, image)
	disk := worker.Disk{File: image, Serial: "RAW-1"}
	name, id := m.attach(w, disk)
	given("RAW-1", name)
	volume, size := m.volume("virtio-RAW-1", "raw", 0)
	if size != 320<<20 {
		t.Errorf("the volume has %d bytes", size)
	}
	m.log(fmt.Sprintf(" created %s .* seq=%s$", volume, seq(name)), 0)
	// The process sleep(1) keeps the disk open, and runs without capabilities.
	status := m.run("cat /proc/$(systemctl show -p MainPID --value hotmount-block@" + seq(name) + ")/status")
	if !strings.Contains(status, "Name:\tsleep") || !regexpLine(status, "^CapEff:\t0000000000000000$") {
		t.Errorf("the holder: %s", status)
	}

	// hotmount refuses a disk without a serial, and a disk with the serial of another disk.
	none, noneID := m.attach(w, worker.Disk{File: blank(t, gib)})
	m.waitForLog("/dev/" + none + " .*refuse: hotmount names a block volume after the disk.s serial, but the disk has no serial")
	second, secondID := m.attach(w, worker.Disk{File: blank(t, gib), Serial: "RAW-1"})
	m.waitForLog("/dev/" + second + " .*refuse: another disk has the same serial RAW-1: " + name)
	given("RAW-1", name)
	m.detach(w, secondID)
	m.detach(w, noneID)

	// After a kill and a restart, the daemon does not touch a link that works. If somebody kills the process that keeps
	// the disk open, hotmount makes the link again.
	before := m.run("stat -c %i " + raw + "RAW-1")
	m.run("systemctl kill -s KILL hotmount; sleep 1; systemctl restart hotmount")
	m.wait("the daemon", "systemctl show -p StatusText hotmount | grep -q '1 given out'")
	if after := m.run("stat -c %i " + raw + "RAW-1"); after != before {
		t.Errorf("the link was inode %s and is %s", before, after)
	}
	holder := "systemctl show -P MainPID hotmount-block@" + seq(name)
	killed := m.run(holder)
	m.run("systemctl kill -s KILL hotmount-block@" + seq(name))
	m.wait("another to hold the disk", "now=$("+holder+") && [ $now != 0 ] && [ $now != "+killed+" ]")
	given("RAW-1", name)

	// After a tenant has released the volume, the provisioner zeroes the whole disk. hotmount does not release the disk
	// while a process has the disk open.
	m.run("head -c 20M /dev/urandom >/dev/" + name + "; sync")
	since := m.lines()
	m.release(volume)
	m.log(" cleaned "+volume+" .* seq="+seq(name)+"$", since)
	m.volume("virtio-RAW-1", "raw", since)
	if _, err := m.Run(ctx(t), fmt.Sprintf("sleep 100 <%sRAW-1 >/dev/null 2>&1 & e=0; hotmount release %s || e=$?; kill $!; wait; exit $e", raw, name)); err == nil || !strings.Contains(err.Error(), "(sleep): has the disk open") {
		t.Errorf("released while in use: %v", err)
	}

	var otherID string
	var err error
	// clock returns the time in the format of the provisioner's log.
	clock := func() string { return m.run("date -u +%FT%T.%3NZ") }
	gone := [2]string{clock()}
	name, otherID = m.exchanged(w, name, id, raw+"RAW-1", worker.Disk{File: blank(t, gib), Serial: "RAW-2"})
	gone[1] = clock()
	given("RAW-2", name)

	// The disk looks blank. hotmount holds the disk, because a second disk with the same serial was seen. After
	// `hotmount accept`, hotmount gives the disk out, although the disk is in another slot than before. If a disk was
	// once given out, hotmount formats the disk only with a token from `hotmount format`, whatever the configuration
	// says.
	held := func(name string) {
		t.Helper()
		m.wait(name+" to be held", "hotmount plan | grep -E '^"+name+" .*hold .*a disk with the serial RAW-1 was given out as a block volume .*two disks with this serial' && ! [ -L "+raw+"RAW-1 ]")
	}
	name, id = m.attach(w, disk)
	held(name)
	if got := m.lift(name, "name-of-another-block-volume"); !strings.Contains(got, "hotmount gives out the disk as a block volume") {
		t.Errorf("%s", got)
	}
	given("RAW-1", name)
	// When the first disk is detached, the second disk with the same serial does not get the link.
	second, secondID = m.attach(w, worker.Disk{File: blank(t, gib), Serial: "RAW-1"})
	m.wait("the second to be refused", "hotmount plan | grep -E '^"+second+" .*refuse .*another disk has the same serial RAW-1'")
	if got := m.run("hotmount status || [ $? = 3 ]; hotmount release " + name); !strings.Contains(got, "given out") || !strings.Contains(got, "safe to detach") {
		t.Errorf("%s", got)
	}
	slot := func(name string) string {
		return m.run("udevadm info -q property --property=ID_PATH --value -n /dev/" + name)
	}
	was := slot(name)
	m.detach(w, id)
	held(second)
	// A second disk with the same serial does not get the detached disk's link, even in the detached disk's slot.
	m.detach(w, secondID)
	second, secondID = m.attach(w, worker.Disk{File: blank(t, gib), Serial: "RAW-1"})
	held(second)
	if is := slot(second); is != was {
		t.Errorf("it is in slot %s, not in that of the first, %s", is, was)
	}
	// After a power cut, hotmount removes the old link before the provisioner starts. After hotmount has identified the
	// disk, it makes the link again.
	m.run("[ -L " + raw + "RAW-2 ] && sync")
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if name, err = w.BlockDevice(ctx(t), otherID); err != nil {
		t.Fatal(err)
	}
	given("RAW-2", name)
	if second, err = w.BlockDevice(ctx(t), secondID); err != nil {
		t.Fatal(err)
	}
	held(second)
	m.detach(w, secondID)
	if digest(t, image) != zeros {
		t.Error("the cleaner has left something")
	}
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + fmt.Sprintf(blockConfig, "filesystem") + "X\nsystemctl reload hotmount")
	m.wait("the other disk to be left alone", "hotmount plan | grep -E '^"+name+" .*ignore .*given out as a block volume'")
	name, id = m.attach(w, disk)
	m.waitForLog("/dev/" + name + " .*refuse: the disk was given out as a block volume [(]" + raw + "RAW-1, first on .*[)], and hotmount does not format it by itself")
	if _, err := m.Run(ctx(t), "hotmount accept "+name); err == nil {
		t.Error("it could be accepted for formatting")
	}
	m.detach(w, id)
	if digest(t, image) != zeros {
		t.Error("a disk that was given out was written to")
	}
	m.formatsFormerBlock(w, disk)

	log := m.run("systemctl stop kubelet; cat /var/lib/standin/log")
	for _, line := range unexpectedLines(t, log, gone) {
		t.Errorf("the provisioner: %s", line)
	}
	t.Log(log)

	// `hotmount release` takes a disk back, even if the class that gave the disk out is no longer in block mode.
	if name, err = w.BlockDevice(ctx(t), otherID); err != nil {
		t.Fatal(err)
	}
	m.run("hotmount plan | tr -s '\n ' ' ' | grep 'hotmount release " + name + "'; hotmount release " + name + " | grep 'safe to detach'; ! [ -L " + raw + "RAW-2 ]")

	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + fmt.Sprintf(blockConfig, "block") + "X\nsystemctl reload hotmount; hotmount accept " + name)
	given("RAW-2", name)
	// If a disk is not blank, hotmount gives the disk out after the operator accepts its content.
	full, fullID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "RAW-3"})
	m.lift(full, "content-to-be-given-out")
	given("RAW-3", full)
	m.detach(w, fullID)
	m.wait("the link to go", "! [ -L "+raw+"RAW-3 ]")
	// The disk RAW-4 contains bytes that udev does not recognise. At first the disk's class is not in block mode, so
	// hotmount reads these bytes.
	m.run("mv /etc/hotmount/config.yaml /root; systemctl reload hotmount")
	unknown := blank(t, 320<<20)
	writeRandom(t, unknown, 100<<20, 512)
	read, readID := m.attach(w, worker.Disk{File: unknown, Serial: "RAW-4"})
	m.waitForLog("serial RAW-4, .*refuse: ")
	m.run("mv /root/config.yaml /etc/hotmount; systemctl reload hotmount")
	m.remedy(read, "content-to-be-given-out")
	// A write invalidates the result of hotmount's read. hotmount does not read the disk again, because the disk's
	// class is in block mode.
	m.run("dd if=/dev/zero of=/dev/" + read + " bs=512 count=1 oflag=direct status=none; udevadm settle; hotmount plan | grep '^" + read + " .* hold '")
	m.lift(read, "content-to-be-given-out")
	given("RAW-4", read)
	m.detach(w, readID)
	m.wait("the link to go", "! [ -L "+raw+"RAW-4 ]")
	// Removing the package leaves the link in place and prints the link's name. A purge removes links that lead
	// nowhere.
	if out := m.run("dpkg --remove hotmount 2>&1"); !strings.Contains(out, "are broken once the disk is detached or the machine reboots:\n  "+raw+"RAW-2\n") {
		t.Errorf("the removal says:\n%s", out)
	}
	given("RAW-2", name)
	m.detach(w, otherID)
	m.run("[ -L " + raw + "RAW-2 ] && ! [ -e " + raw + "RAW-2 ] && dpkg --purge hotmount && ! [ -L " + raw + "RAW-2 ]")
}
