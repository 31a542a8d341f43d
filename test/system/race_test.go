//go:build vm

package system

import (
	"fmt"
	"os"
	"testing"
	"time"

	"hotmount/test/worker"
)

// rivals are others who write to the disk $d that hotmount looks at, and what has
// to be there afterwards if they have succeeded. $u is a UUID of their own. Those that
// ask open the disk exclusively before they write to it.
type rival struct {
	what, write, check string
	asks               bool
}

var rivals = []rival{
	{"dd", "printf theirs | dd of=$d bs=1 seek=$at conv=notrunc,fsync", "[ $(dd if=$d bs=1 skip=$at count=6) = theirs ]", false},
	{"dd oflag=direct", "printf theirs | dd of=$d bs=4096 seek=$((at >> 12)) conv=notrunc,sync oflag=direct", "[ $(dd if=$d bs=4096 skip=$((at >> 12)) count=1 | head -c 6) = theirs ]", false},
	{"dd of 8 MiB", "yes theirs | head -c 8M | dd of=$d bs=1M iflag=fullblock seek=$((at >> 20)) conv=notrunc,fsync", "dd if=$d bs=1M skip=$((at >> 20)) count=8 | cmp - <(yes theirs | head -c 8M)", false},
	{"sgdisk", "sgdisk -n 1:0:0 $d", "sgdisk -v $d | grep 'No problems found' && sgdisk -i 1 $d | grep 'Partition GUID'", false},
	{"pvcreate", "pvcreate -u $u --norestorefile $d", "pvs --noheadings -o pv_uuid $d | grep -i $u", true},
	{"mkfs.ext4", "mkfs.ext4 -q -U $u $d", "[ $(blkid -p -o value -s UUID $d) = $u ] && { findmnt $d || e2fsck -n $d; }", true},
	{"mkfs.xfs", "mkfs.xfs -q -m uuid=$u $d", "[ $(blkid -p -o value -s UUID $d) = $u ] && { findmnt $d || xfs_repair -n $d; }", true},
}

// withData makes the image of a disk that looks blank to everybody but who reads
// all of it: mkfs.xfs would overwrite it.
func withData(t *testing.T, size, at int64) string {
	t.Helper()
	image := blank(t, size)
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("somebody's data"), at); err != nil {
		t.Fatal(err)
	}
	return image
}

// TestSwap: while a disk is proven blank or formatted it is pulled, and another
// one, with data, is plugged in and may get its name. The other one is never
// written to. In half of the rounds mkfs.xfs is held up right before its first
// write, or after some.
func TestSwap(t *testing.T) {
	m, w := obedientWorker(t)
	c := chance(t)
	rounds := 3
	if full {
		rounds = 200
	}
	// The time from the attachment of a disk to its end, for the random moments.
	begun := time.Now()
	name, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "TIME"})
	m.mounted(name)
	took := time.Since(begun)
	m.detach(w, id)
	same := 0
	for round := range rounds {
		size := crashSize + int64(round+1)<<12
		data := withData(t, size, 1<<20+c.Int64N(crashSize-2<<20))
		before := digest(t, data)
		order := []string{"", "", "s0", "s0", "sp1", "sp20"}[c.IntN(6)]
		victim, err := w.Attach(ctx(t), worker.Disk{File: blank(t, size), Serial: fmt.Sprintf("A%d:%s", round, order)})
		if err != nil {
			t.Fatal(err)
		}
		was, err := w.BlockDevice(ctx(t), victim.ID)
		if err != nil {
			t.Fatal(err)
		}
		if order != "" {
			m.wait("mkfs.xfs to be stopped", fmt.Sprintf("grep stopped '/var/lib/orders/A%d:%s/trace.1'", round, order))
		} else {
			time.Sleep(time.Duration(c.Int64N(int64(took)))) // the random moment
		}
		if err := w.DetachSurprise(ctx(t), victim.ID); err != nil {
			t.Fatal(err)
		}
		// At once, when the kernel has let the first one go, or when nobody has it
		// open any more and its name is free.
		patience := c.IntN(4)
		if patience > 0 {
			if err := w.WaitDetached(ctx(t), victim.ID); err != nil {
				t.Fatal(err)
			}
			victim.ID = ""
		}
		if patience > 1 {
			m.wait("the end of the unit", "! compgen -G '/sys/fs/cgroup/system.slice/system-hotmount*format.slice/hotmount-format@*.service'")
		}
		serial := fmt.Sprintf("B%d", round)
		name, id := m.attach(w, worker.Disk{File: data, Serial: serial})
		if order != "" {
			// One that lives on against all odds shall do its worst.
			m.run("pkill -CONT -f 'mkfs.xfs .*/dev/' || true")
		}
		if victim.ID != "" {
			if err := w.WaitDetached(ctx(t), victim.ID); err != nil {
				t.Fatal(err)
			}
		}
		m.says("^/dev/" + name + " .*serial " + serial + ".*refuse: ")
		if name == was {
			same++
		}
		m.untouched(name)
		if digest(t, data) != before {
			t.Errorf("round %d, order %q: the second disk, %s as the first, was written to", round, order, name)
		}
		m.detach(w, id)
	}
	if full && same < rounds/10 {
		t.Errorf("only %d of %d times the second disk had the first one's name", same, rounds)
	}
	t.Logf("%d rounds of up to %s: %d times the second disk had the first one's name", rounds, took, same)
	if got := m.run("pgrep mkfs.xfs || true; systemctl show -p NRestarts --value hotmount"); got != "0" {
		t.Errorf("left behind, or restarted: %s", got)
	}
}

// forge sends frames to udev's group, as only root in the host's network namespace
// can: perl, because every Debian has it. Its input is one frame a line: what to
// do with it, then the properties.
const forge = `use strict;
socket(my $s, 16, 3, 15) or die "socket: $!"; # AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT
sub out { my ($frame, $group) = @_;
	send($s, $frame, 0, pack("SSLL", 16, 0, 0, $group)) // warn "send: $!"; }
sub udev { my ($p, $length) = @_; # struct monitor_netlink_header; the hashes are of "block" and "disk"
	return pack("a8NLLLNNNN", "libudev", 0xfeedcafe, 40, 40, $length // length $p, 0xf0031db7, 0x7bcbc5ee, 0, 0) . $p; }
while (my $line = <STDIN>) {
	chomp $line;
	my ($how, @properties) = split /\|/, $line;
	my $p = join "", map { "$_\0" } @properties;
	if ($how eq "whole") { out(udev($p), 2) }
	elsif ($how eq "kernel") { out("$properties[0]\0$p", 1); out("$properties[0]\0$p", 2) }
	elsif ($how eq "cut") { my $f = udev($p); out(substr($f, 0, 41 + rand(length($f) - 42)), 2) }
	elsif ($how eq "lies") { out(udev($p, 0x7fffffff), 2); out(udev($p, 0), 2) }
	elsif ($how eq "huge") { out(udev($p . "X=" . "y" x 60000 . "\0"), 2) }
	elsif ($how eq "noise") { my $f = udev($p); substr($f, 40 + rand(length($f) - 40), 1) = chr(rand(256)) for 1 .. 20; out($f, 2) }
}
`

// TestHangingMkfs: however many runs of mkfs.xfs hang on storage that answers
// no write any more, other disks are formatted, and each ends with its disk.
func TestHangingMkfs(t *testing.T) {
	m, w := start(t, worker.Options{})
	// The disks that hang are SCSI: QEMU takes those away at once, whatever is
	// under way on them.
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    names: [\"vd[a-z]\", \"sd[a-z]\"]\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	const hanging = 3
	var ids []string
	for i := range hanging {
		_, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: fmt.Sprint("DEAD", i), Bus: worker.BusSCSI})
		throttle(t, w, id, 0, 1) // the first write goes, the next one waits for ever
		ids = append(ids, id)
	}
	// One of the two that are read at once does not answer at all.
	_, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "DEAF", Bus: worker.BusSCSI})
	m.run("udevadm settle")
	throttle(t, w, id, 1, 0)
	ids = append(ids, id)
	m.run("systemctl start hotmount")
	count := "[ $(pgrep -a mkfs.xfs | grep -vc -- -N) = " + fmt.Sprint(hanging) + " ]"
	m.wait("mkfs.xfs on all of them", count)
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "ALIVE"})
	// They are as many as are worked on at once, until they are a minute old.
	m.waits(3, "the disk that answers", "findmnt -n /dev/"+name)
	m.mounted(name)
	m.run(count)
	m.run(fmt.Sprintf("[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = %d ]", len(ids)))
	// The daemon waits for none of them (issue 2: it ends within a second of SIGTERM).
	m.run("systemctl stop hotmount; " + count + " && systemctl start hotmount")
	if times := m.stops(); times[len(times)-1] > time.Second {
		t.Errorf("while disks are formatted, from Stopping to Stopped it took %s", times[len(times)-1])
	}
	for _, id := range ids {
		m.detach(w, id)
	}
	m.wait("mkfs.xfs to end", "! pgrep mkfs.xfs && [ -z \"$(systemctl list-units --no-legend 'hotmount-format@*')\" ]")
	if got := m.run("systemctl show -p NRestarts --value hotmount; findmnt -no SOURCE /dev/" + name); got != "0\n/dev/"+name {
		t.Errorf("got %s", got)
	}
}
