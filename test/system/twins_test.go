//go:build vm

package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestTwins checks two disks with one UUID. hotmount mounts the first disk, even after a reboot. The second disk
// replaces the first disk only after `hotmount accept`.
func TestTwins(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "FIRST"})
	uuid := m.mounted(name)
	m.run("echo first >/mnt/disks/" + uuid + "/f; sync; fsfreeze -f /mnt/disks/" + uuid)
	copied := copyOf(t, image)
	m.run("fsfreeze -u /mnt/disks/" + uuid)
	before := m.run("findmnt -no ID,SOURCE /mnt/disks/" + uuid)
	twin, twinID := m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	refused := "/dev/" + twin + " .*refuse: another disk has the same UUID " + uuid + ": .*FIRST.*SECOND.*xfs_admin -U generate /dev/" + twin + " && udevadm trigger /dev/" + twin
	m.waitForLog(refused)
	m.wait("the link by UUID to move", "[ $(readlink -f /dev/disk/by-uuid/"+uuid+") = /dev/"+twin+" ]")
	// The command from the journal must give a copy its own UUID, even if the copy's log must be replayed first.
	cured := func(d worker.Disk) {
		t.Helper()
		name, id := m.attach(w, d)
		command := "journalctl -b -u hotmount -o cat --no-pager | sed -n 's|^/dev/" + name + " .*" + d.Serial + ".* a UUID of its own: ||p' | grep ."
		m.wait("the remedy for "+name, command)
		m.run("sh -c " + quote(m.run(command))) // without set -e, because e2fsck exits with 1 after it has replayed a journal
		m.mounted(name)
		m.detach(w, id)
		m.wait(name+" to go", "! findmnt -n /dev/"+name)
	}
	cured(worker.Disk{File: copyOf(t, copied), Serial: "CURED-X"})
	ext4 := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	e, eID := m.attach(w, worker.Disk{File: ext4, Serial: "FIRST-E"})
	m.run("touch /mnt/disks/" + m.mounted(e) + "/f; sync")
	cured(worker.Disk{File: copyOf(t, ext4), Serial: "CURED-E"})
	m.detach(w, eID)
	// The removal of a twin does not affect the mount of the first disk.
	m.detach(w, twinID)
	m.wait("the end of the twin", "udevadm settle; journalctl -b -u hotmount -o cat --no-pager | grep '^/dev/"+twin+" .*SECOND.*gone'")
	if got := m.run("findmnt -no ID,SOURCE /mnt/disks/" + uuid); got != before {
		t.Errorf("without the twin %q is mounted, before %q", got, before)
	}
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q")
	_, twinID = m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	m.waitForLog(refused)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	// Even if the size of the recorded disk has changed, hotmount recognises the disk by its serial.
	if err := os.Truncate(image, 384<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := m.run("lsblk -dno SERIAL $(findmnt -no SOURCE /mnt/disks/" + uuid + ")"); got != "FIRST" {
		t.Errorf("after a reboot %s is mounted", got)
	}
	m.detach(w, id)
	m.wait("the first to go", "! findmnt /mnt/disks/"+uuid)
	twin = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"SECOND\" {print $1}'")
	m.run("udevadm trigger -s block; udevadm settle; systemctl restart hotmount")
	gone := " .*the filesystem .* was last mounted from another disk, which was detached while this one was attached"
	m.waitForLog("/dev/" + twin + " .*refuse:" + gone + ": .*serial FIRST, at ")
	m.resize(w, twinID, 512<<20)
	m.wait("the kernel to see the size", fmt.Sprintf("[ $(cat /sys/block/%s/size) = %d ]", twin, 512<<20/512))
	m.run("udevadm settle; systemctl restart hotmount; hotmount plan | grep '^" + twin + " .*refuse" + gone + "'")
	if got := m.run("systemctl show -p StatusText --value hotmount; findmnt -n /dev/" + twin + " || true"); got != "0 mounted, 0 held, 1 refused, 0 failing" {
		t.Errorf("the twin took its place: %s", got)
	}
	m.run("hotmount accept " + twin)
	m.mounted(twin)
	// While the daemon is stopped, the twin is detached and the first disk is attached.
	m.run("systemctl stop hotmount")
	m.detach(w, twinID)
	name, id = m.attach(w, worker.Disk{File: image, Serial: "FIRST"})
	m.run("udevadm settle; systemctl start hotmount")
	m.waitForLog("/dev/" + name + " .*refuse: the filesystem " + uuid + " was last mounted from another disk, whose removal hotmount did not see: .*SECOND.*hotmount accept " + name)
	if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
		t.Errorf("the first took the twin's place: %s", got)
	}
	m.run("hotmount accept " + name)
	m.mounted(name)
	// The twin is attached once more, and the first disk is detached before udev has handled the twin.
	m.run("journalctl --rotate -q; journalctl --vacuum-size=1 -q; udevadm control --stop-exec-queue")
	twin, twinID = m.attach(w, worker.Disk{File: copied, Serial: "SECOND"})
	m.detach(w, id)
	m.run("hotmount rescan") // the rescan is needed, because udev's event for the detach waits in the stopped queue
	m.wait("the first to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	m.run("udevadm control --start-exec-queue")
	m.waitForLog("/dev/" + twin + " .*refuse: the filesystem " + uuid + " was last mounted from another disk, which was detached while this one was attached: .*FIRST.*hotmount accept " + twin)
	if got := m.run("udevadm settle; ls -A /mnt/disks"); got != "" {
		t.Errorf("the twin took the place of the first: %s", got)
	}
	m.detach(w, twinID)

	// Without serials hotmount distinguishes the twins by their slots, and by the record of the mounted disk.
	m.wait("the mount to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	bare := made(t, 320<<20)
	name, id = m.attach(w, worker.Disk{File: bare})
	uuid = m.mounted(name)
	m.run("sync -f /mnt/disks/" + uuid)
	copied = copyOf(t, bare)
	twin, _ = m.attach(w, worker.Disk{File: copied})
	slot := func(name string) string {
		return m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	}
	m.waitForLog("/dev/" + twin + " .*refuse: another disk has the same UUID " + uuid + ": .*" + slot(name) + ".*no serial.*" + slot(twin) + ".*no serial")
	m.detach(w, id)
	m.wait("the first to go", "! findmnt /mnt/disks/"+uuid)
	m.run("udevadm trigger -s block; udevadm settle; systemctl restart hotmount")
	m.waitForLog("/dev/" + twin + " .*no serial.*refuse:" + gone + ": .*no serial, at ")
	name, _ = m.attach(w, worker.Disk{File: bare})
	if got := m.mounted(name); got != uuid {
		t.Errorf("the first came back as %s", got)
	}
	if got := m.run("hotmount plan; findmnt -n /dev/" + twin + " || true"); !regexpLine(got, "^"+twin+" .* refuse ") || !regexpLine(got, "^"+name+" .* keep ") {
		t.Errorf("the first and its twin: %s", got)
	}
	// The mounts are the same after a boot, in which the kernel may give the disks other names.
	first := slot(name)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := slot(strings.TrimPrefix(m.run("findmnt -no SOURCE /mnt/disks/"+uuid), "/dev/")); got != first {
		t.Errorf("after a reboot the disk at %s is mounted, before the one at %s", got, first)
	}
	for _, a := range w.Attached() {
		m.detach(w, a.ID)
	}

	// Two twins are present at boot, and hotmount has no record of either twin. hotmount cannot know which twin is the
	// original, so it must refuse both.
	m.wait("the mount to go", "[ -z \"$(ls -A /mnt/disks)\" ]")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	one := made(t, 320<<20)
	for image, serial := range map[string]string{one: "THIRD", copyOf(t, one): "FOURTH"} {
		if _, err := w.Attach(ctx(t), worker.Disk{File: image, Serial: serial}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon", "systemctl is-active hotmount")
	m.waitForLog("refuse: another disk has the same UUID .*this disk is vd. .*.serial THIRD.")
	m.waitForLog("refuse: another disk has the same UUID .*this disk is vd. .*.serial FOURTH.")
	if got := m.run("ls -A /mnt/disks; journalctl -b -u hotmount -o cat --no-pager | grep ': mounted' || true"); got != "" {
		t.Errorf("one of two disks that are not on record is mounted: %s", got)
	}
}

// TestTwoMachines checks two machines that share a disk. Both machines run hotmount. The two machines together make at
// most one filesystem on the shared disk. The machine that did not make the filesystem does not mount it.
func TestTwoMachines(t *testing.T) {
	one, w1 := start(t, worker.Options{})
	two, w2 := start(t, worker.Options{})
	machines, workers := []machine{one, two}, []*worker.Worker{w1, w2}
	c := randomSource(t)
	rounds := 2
	if full {
		rounds = 20
	}
	mounted := 0
	// In some rounds, both machines may fail to format the shared disk. At least one round must end with a disk that
	// one machine has formatted.
	for round := 0; round < rounds || mounted == 0 && round < 20; round++ {
		shared := worker.Disk{File: blank(t, crashSize+int64(round)<<12), Serial: fmt.Sprint("SHARED", round), Shared: true}
		var ids, names [2]string
		skew := time.Duration(c.Int64N(int64(1500 * time.Millisecond)))
		var both sync.WaitGroup
		for i, w := range workers {
			a, err := w.Attach(ctx(t), shared)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = a.ID
			if i == 0 {
				time.Sleep(skew) // a random delay, so that the machines begin at different times
			}
		}
		for i, m := range machines {
			both.Go(func() {
				var err error
				if names[i], err = workers[i].BlockDevice(ctx(t), ids[i]); err == nil {
					_, err = m.Run(ctx(t), fmt.Sprintf("for i in $(seq 600); do ! journalctl -b -o cat --no-pager -u hotmount | grep -qE '^/dev/%s .*SHARED%d.*(mounted xfs|hold: |refuse: |ended with .failed.)' || exit 0; sleep 0.2; done; exit 1", names[i], round))
				}
				if err != nil {
					t.Errorf("machine %d, %s: %v", i, names[i], err)
				}
			})
		}
		both.Wait()
		made := 0
		var by []int
		for i, m := range machines {
			t.Logf("skew %s, machine %d: %s", skew, i, m.run("journalctl -b -o cat --no-pager -u hotmount | grep -E '^/dev/"+names[i]+" .*SHARED' | tail -n 3 | cut -c1-400"))
			// Later udev events and a reload of the daemon must not change the result.
			m.run("udevadm settle; i=$(stat -c %i /run/hotmount/settings.json); systemctl reload hotmount; for n in $(seq 300); do [ $(stat -c %i /run/hotmount/settings.json) = $i ] || exit 0; sleep 0.1; done; exit 1")
			m.wait("quiet", "systemctl is-active hotmount && ! systemctl show -p StatusText --value hotmount | grep 'working on'")
			where := m.run("findmnt -no TARGET /dev/" + names[i] + " || true")
			ours := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.Serial != shared.Serial || !r.Made() })
			made += len(ours)
			if where != "" {
				by = append(by, i)
				if len(ours) != 1 || where != "/mnt/disks/"+ours[0].UUID {
					t.Errorf("machine %d has mounted %s, and has made %+v", i, where, ours)
				}
			}
		}
		if made > 1 || len(by) > 1 {
			t.Errorf("%d filesystems were made of it, and %d machines have mounted it", made, len(by))
		}
		for _, i := range by {
			mounted++
			// The filesystem must be sound, because one machine alone wrote it.
			machines[i].run(fmt.Sprintf("echo x >$(findmnt -no TARGET /dev/%s)/f; umount /dev/%[1]s; xfs_repair -n /dev/%[1]s 2>&1 || { echo 'the filesystem is damaged' >&2; exit 1; }", names[i]))
		}
		one.detach(w1, ids[0])
		two.detach(w2, ids[1])
	}
	if mounted == 0 {
		t.Error("no machine has mounted it in any round")
	}
}

// TestRivals lets another program, the rival, write to a disk. The rival writes at a random moment of the scan or the
// settle time, or before hotmount looks at the disk. If the rival writes, its data must stay intact and hotmount must
// make no filesystem (issue 3).
//
// hotmount opens the disk exclusively before its first read. A rival that also opens the disk exclusively gets the
// error "busy" before it writes. A rival that gets this error has written nothing and loses nothing. hotmount's
// filesystem must then be sound. A rival that does not open the disk exclusively can always write.
func TestRivals(t *testing.T) {
	m, w := start(t, worker.Options{})
	// An emulated machine may start a program two seconds later than intended.
	const settle, late = 6 * time.Second, 2 * time.Second
	m.run(fmt.Sprintf("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=%s HOTMOUNT_FORMAT_LIMIT=256\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount", settle))
	c := randomSource(t)
	rounds := 1
	if full {
		rounds = 20
	}
	type opponent struct {
		what, name, id, serial, env, check string
		asks                               bool
	}
	won, busy := map[string]int{}, map[string]int{}
	for round := range rounds {
		begin, here := "", rivals
		if round == 0 {
			// In the first round, each rival that opens its disk exclusively gets two disks. On the second disk, the
			// rival begins before hotmount.
			m.run("systemctl stop hotmount")
			here = slices.Concat(rivals, slices.DeleteFunc(slices.Clone(rivals), func(r rival) bool { return !r.asks }))
		}
		var all []opponent
		for i, r := range here {
			o := opponent{what: r.what, check: r.check, asks: r.asks, serial: fmt.Sprintf("R%d-%d", round, i)}
			o.name, o.id = m.attach(w, worker.Disk{File: blank(t, crashSize+int64(round)<<12), Serial: o.serial})
			uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", c.Uint32(), i)
			if r.what == "pvcreate" {
				uuid = fmt.Sprintf("aaaaaa-bbbb-cccc-dddd-eeee-%04d-%06d", i, round)
			}
			o.env = fmt.Sprintf("d=/dev/%s; at=%d; u=%s", o.name, c.IntN(crashSize-8<<20), uuid)
			all = append(all, o)
			moment := ""
			if i < len(rivals) {
				// The rival begins at a random moment after hotmount has opened the disk. Until hotmount opens the
				// disk, the formatting unit waits for its turn.
				moment = fmt.Sprintf(`unit=/sys/fs/cgroup/system.slice/system-hotmount*format.slice/hotmount-format@$(cat /sys/block/%s/diskseq).service
opened() { local f; read -r pid <$unit/cgroup.procs && for f in /proc/$pid/fd/*; do [ $f -ef $d ] && return; done; }
until opened; do sleep 0.1; done 2>/dev/null
sleep %.3f`, o.name, time.Duration(c.Int64N(int64(settle-late))).Seconds())
			}
			begin += fmt.Sprintf(`cat >/root/%[1]s <<'X'
%[2]s
%[3]s
%[4]s
echo $? >/root/%[1]s.code
X
rm -f /root/%[1]s.code; nohup bash /root/%[1]s >/root/%[1]s.log 2>&1 </dev/null &
`, o.name, o.env, moment, r.write)
			if round > 0 {
				m.run(begin)
				begin = ""
			}
		}
		if round == 0 {
			m.run(begin + "systemctl start hotmount")
		}
		for _, o := range all {
			m.wait(o.what, "[ -s /root/"+o.name+".code ]")
			m.wait("the end of the work on "+o.name, fmt.Sprintf("journalctl -b -o cat --no-pager -u hotmount | grep -E '^/dev/%s .*%s.*(mounted|refuse: |ignore: )' && ! systemctl is-active hotmount-format@$(cat /sys/block/%[1]s/diskseq) | grep activating", o.name, o.serial))
			said := m.run("cat /root/" + o.name + ".log")
			formats := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.Serial != o.serial })
			if m.run("cat /root/"+o.name+".code") == "0" {
				won[o.what]++
				m.run(o.env + "; udevadm settle; { " + o.check + "; } >&2")
				for _, f := range formats {
					// A failed format may be in the history, because hotmount records a format before its last look
					// at the disk.
					if !regexpLine(f.Failure, "somebody writes to the disk|the disk is in use|(?i)busy") {
						t.Errorf("%s was first, but the history has %+v", o.what, f)
					}
				}
				continue
			}
			busy[o.what]++
			if !o.asks || !regexpLine(said, `(?i)busy|in use|exclusively`) {
				t.Errorf("%s failed: %s", o.what, said)
			}
			uuid := m.mounted(o.name)
			if len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
				t.Errorf("%s failed, %s is mounted, and the formats are %+v", o.what, uuid, formats)
			}
			if got := m.run("journalctl -b -o cat --no-pager | grep -E '^/dev/" + o.name + " .*" + o.serial + ".*somebody writes to the disk' || true"); got != "" {
				t.Errorf("%s failed, but had written before: %s", o.what, got)
			}
			m.run(fmt.Sprintf("umount /dev/%s; xfs_repair -n /dev/%[1]s >&2", o.name))
		}
		for _, o := range all {
			m.run("vgchange -q -an >/dev/null 2>&1 || true")
			m.detach(w, o.id)
		}
	}
	t.Logf("of %d rounds each, these won: %v; these found the disk busy: %v", rounds, won, busy)
	for _, r := range rivals {
		// A rival that opens the disk exclusively must win at least once and find the disk busy at least once. Any
		// other rival must win every round.
		if r.asks && (won[r.what] == 0 || busy[r.what] == 0) || !r.asks && won[r.what] != rounds {
			t.Errorf("%s has won %d times, and found the disk busy %d times, in %d rounds", r.what, won[r.what], busy[r.what], rounds)
		}
	}
}

// rival is another program. The shell script in the second field (write) changes the disk $d while hotmount looks at
// the disk. The shell script in the third field (check) succeeds if the rival's data on the disk is intact. In the two
// scripts, $u is the UUID of the rival's data. The last field is true if the rival opens the disk exclusively before it
// writes.
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
	{"cloud-init's fs_setup", "mkfs.ext4 -q -L data -F -U $u $d", "[ $(blkid -p -o value -s UUID $d) = $u ] && { findmnt $d || e2fsck -n $d; }", true}, // cloud-init#3902
	{"mkfs.xfs", "mkfs.xfs -q -m uuid=$u $d", "[ $(blkid -p -o value -s UUID $d) = $u ] && { findmnt $d || xfs_repair -n $d; }", true},
}

// withData makes a disk image that looks blank unless the whole image is read. mkfs.xfs would overwrite the image's
// data.
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

// TestSwap pulls a disk while hotmount proves it blank or formats it. TestSwap then attaches a second disk, which has
// data and may get the kernel name of the first disk. The second disk is never written to. In most rounds mkfs.xfs is
// paused before its first write or after some writes.
func TestSwap(t *testing.T) {
	m, w := obedientWorker(t)
	c := randomSource(t)
	rounds := 3
	if full {
		rounds = 200
	}
	// The test first measures the time from the attachment of a disk to its mount. In some rounds, the test later pulls
	// a disk at a random moment within this time after the attachment.
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
			time.Sleep(time.Duration(c.Int64N(int64(took)))) // a random moment
		}
		if err := w.DetachSurprise(ctx(t), victim.ID); err != nil {
			t.Fatal(err)
		}
		// The test attaches the second disk at one of three moments. The moments are: at once, after the kernel has
		// released the first disk, and after the formatting unit has also ended. Once the formatting unit has ended, no
		// process has the first disk open, and the disk's kernel name is free.
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
			// If mkfs.xfs is still alive, it now continues and could write to the second disk.
			m.run("pkill -CONT -f 'mkfs.xfs .*/dev/' || true")
		}
		if victim.ID != "" {
			if err := w.WaitDetached(ctx(t), victim.ID); err != nil {
				t.Fatal(err)
			}
		}
		m.waitForLog("^/dev/" + name + " .*serial " + serial + ".*refuse: ")
		if name == was {
			same++
		}
		m.checkUntouched(name)
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

// forge sends frames to the multicast groups of udev and of the kernel. Only root in the host's network namespace can
// send frames that reach the daemon. The script is in Perl, which every Debian has. Each input line describes a frame:
// how to send or damage the frame, then the frame's properties. After each frame, the script waits until all listeners
// have read the frame, because a listener with a full buffer would lose the next frame.
const forge = `use strict;
socket(my $s, 16, 3, 15) or die "socket: $!"; # AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT
sub out { my ($frame, $group) = @_;
	send($s, $frame, 0, pack("SSLL", 16, 0, 0, $group)) // warn "send: $!";
	select(undef, undef, undef, 0.001) while unread(); }
sub unread { # the columns of the table are sk, Eth, Pid, Groups and Rmem
	open(my $table, "<", "/proc/net/netlink") or die "/proc/net/netlink: $!";
	return scalar grep { my @column = split; $column[1] eq "15" && $column[4] > 0 } <$table>; }
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

// TestHangingMkfs checks that other disks are formatted while runs of mkfs.xfs hang on storage that answers one write.
// Each run of mkfs.xfs ends when its disk is detached.
func TestHangingMkfs(t *testing.T) {
	m, w := start(t, worker.Options{})
	// The hanging disks are SCSI disks. QEMU removes SCSI disks at once, even with requests in flight.
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    names: [\"vd[a-z]\", \"sd[a-z]\"]\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	const hanging = 3
	var ids []string
	for i := range hanging {
		_, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: fmt.Sprint("DEAD", i), Bus: worker.BusSCSI})
		throttle(t, w, id, 0, 1) // the disk completes its first write and no later write
		ids = append(ids, id)
	}
	// hotmount reads at most two disks at once, and ignores a read that has hung for 30 seconds. The disk DEAF does not
	// answer any read.
	_, id := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "DEAF", Bus: worker.BusSCSI})
	m.run("udevadm settle")
	throttle(t, w, id, 1, 0)
	ids = append(ids, id)
	m.run("systemctl start hotmount")
	count := "[ $(pgrep -a mkfs.xfs | grep -vc -- -N) = " + fmt.Sprint(hanging) + " ]"
	m.wait("mkfs.xfs on all of them", count)
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "ALIVE"})
	// The hanging disks occupy all places for proofs (proofsAtOnce) until their units have run for a minute
	// (proofPatience).
	m.waitMinutes(3, "the disk that answers", "findmnt -n /dev/"+name)
	m.mounted(name)
	m.run(count)
	m.run(fmt.Sprintf("[ $(systemctl list-units --no-legend 'hotmount-format@*' | grep -c activating) = %d ]", len(ids)))
	// When the daemon ends, it does not wait for the hanging runs of mkfs.xfs (issue 2: the daemon ends within one
	// second after SIGTERM).
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

// onePath checks that hotmount formats and mounts one of two paths to a blank disk, and holds the other path. The
// parameter `identity` is the serial or the WWN that both paths have, in the form that hotmount shows. onePath returns
// the indexes of the mounted and the held path, and the filesystem's UUID.
func (m machine) onePath(names []string, identity string) (first, second int, uuid string) {
	m.t.Helper()
	m.wait("one of the paths to be mounted", "findmnt -n /dev/"+names[0]+" || findmnt -n /dev/"+names[1])
	first, second = 0, 1
	if m.run("findmnt -n /dev/"+names[0]+" || [ $? = 1 ]") == "" {
		first, second = second, first
	}
	name, other := names[first], names[second]
	uuid = m.mounted(name)
	m.waitForLog("^/dev/" + other + " .*hold: the disk looks blank, and another disk has the same " + identity + ": " + name + " .*second path.*multipathd")
	_, value, _ := strings.Cut(identity, " ")
	formats := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.WWN != value && r.Identity.Serial != value })
	if len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
		m.t.Errorf("%s has the filesystem %s, and the formats are %+v", name, uuid, formats)
	}
	m.checkUntouched(other)
	// The event makes udev find the new filesystem on the other path.
	m.run("udevadm trigger --action=change /dev/" + other)
	m.waitForLog("^/dev/" + other + " .*refuse: another disk has the same UUID " + uuid + ": " + name + " .*" + identity + ".*both may be paths to one disk.*multipathd")
	m.checkUntouched(other)
	return first, second, uuid
}

// TestTwoPaths checks two paths to one blank disk. hotmount formats one path, and writes nothing through the other path.
// Only the WWN shows that both paths lead to one disk. The paths are hot-plugged together, or found together at the
// start of the daemon.
func TestTwoPaths(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n    names: ["sd*"]\n    transport: [scsi]\n' >/etc/hotmount/config.yaml; systemctl restart hotmount`)
	for wwn, found := range map[int]bool{0x5000c50015ea71ac: false, 0x5000c50015ea71ad: true} {
		if found {
			m.run("systemctl stop hotmount")
		}
		image := blank(t, 320<<20)
		var ids, names []string
		for range 2 {
			a, err := w.Attach(ctx(t), worker.Disk{Bus: worker.BusSCSI, File: image, Shared: true, Device: map[string]any{"wwn": wwn}})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID)
		}
		for _, id := range ids {
			name, err := w.BlockDevice(ctx(t), id)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		if found {
			m.run("udevadm settle; systemctl start hotmount")
		}
		first, second, uuid := m.onePath(names, "WWN "+m.run("cat /sys/block/"+names[0]+"/device/wwid"))
		m.detach(w, ids[second])
		// The test attaches a different disk with the same WWN. Only the operator can know that the disk is not a
		// second path to the first disk.
		another, anotherID := m.attach(w, worker.Disk{Bus: worker.BusSCSI, File: blank(t, 320<<20), Device: map[string]any{"wwn": wwn}})
		m.lift(another, "same-wwn")
		m.mounted(another)
		m.detach(w, anotherID)
		m.detach(w, ids[first])
		m.wait("the mount to go", "! findmnt -n /mnt/disks/"+uuid)
	}
}

// nvmeTarget is a script that makes the node an NVMe target for one file, with two ports, and connects the node to both
// ports. The script's parameters are the setting of native multipath (Y or N), the file, the serial, and the
// namespace's UUID.
const nvmeTarget = `set -e
modprobe -a nvmet-tcp nvme-tcp; ip link set lo up
[ $(cat /sys/module/nvme_core/parameters/multipath) = $1 ]
cd /sys/kernel/config/nvmet
mkdir -p subsystems/far/namespaces/1
echo 1 >subsystems/far/attr_allow_any_host; echo "$3" >subsystems/far/attr_serial
cd subsystems/far/namespaces/1; echo -n $2 >device_path; echo $4 >device_uuid; echo 1 >enable; cd /sys/kernel/config/nvmet
for p in 1 2; do
	mkdir ports/$p; echo ipv4 >ports/$p/addr_adrfam; echo tcp >ports/$p/addr_trtype; echo 442$p >ports/$p/addr_trsvcid
	echo 127.0.0.1 >ports/$p/addr_traddr; ln -s /sys/kernel/config/nvmet/subsystems/far ports/$p/subsystems/far
done
for p in 1 2; do echo transport=tcp,traddr=127.0.0.1,trsvcid=442$p,nqn=far >/dev/nvme-fabrics; done
`

// nvmeTargetOff is a script that undoes nvmeTarget.
const nvmeTargetOff = `set -e; sync
for c in /sys/class/nvme/nvme*; do echo 1 >$c/delete_controller; done
cd /sys/kernel/config/nvmet; rm ports/*/subsystems/far; rmdir ports/*
echo 0 >subsystems/far/namespaces/1/enable; rmdir subsystems/far/namespaces/1 subsystems/far
`

// TestTwoPathsOfNVMe checks the two paths of an NVMe namespace. Without native multipath each path is a disk: hotmount
// formats one path, and holds the other path. The kernel gives all paths of a subsystem one serial. If the serial is
// empty, only the namespace's UUID shows that both paths are one disk. With native multipath the namespace is one disk,
// which hotmount mounts after an accept.
func TestTwoPathsOfNVMe(t *testing.T) {
	m, w := start(t, worker.Options{KernelArgs: []string{"nvme_core.multipath=N"}})
	m.run(`printf 'classes:\n  - name: default\n    directory: /mnt/disks\n    names: ["nvme*"]\n    transport: [nvme]\n' >/etc/hotmount/config.yaml; systemctl restart hotmount`)
	m.run("cat >/root/on <<'X'\n" + nvmeTarget + "X\ncat >/root/off <<'X'\n" + nvmeTargetOff + "X\ntruncate -s 320M /root/1.img /root/2.img")
	names := []string{"nvme0n1", "nvme1n1"}
	const id = "0b1c2d3e-4f50-4617-8a9b-0c1d2e3f405%d"
	both := func(number int, multipath, serial string) {
		t.Helper()
		m.run(fmt.Sprintf("sh /root/on %s /root/%d.img '%s' "+id, multipath, number, serial, number))
	}

	both(1, "N", "ONE-SERIAL")
	_, _, uuid := m.onePath(names, "serial ONE-SERIAL")
	m.run("sh /root/off")
	m.wait("the mount to go", "! findmnt -n /mnt/disks/"+uuid)

	m.run("systemctl stop hotmount")
	both(2, "N", " ")
	m.wait("the paths", "[ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ] && udevadm settle")
	m.run("systemctl start hotmount")
	_, _, uuid = m.onePath(names, "WWN "+fmt.Sprintf("uuid."+id, 2))
	m.run("sh /root/off")
	m.wait("the mount to go", "! findmnt -n /mnt/disks/"+uuid)

	w.SetKernelArgs("nvme_core.multipath=Y")
	if err := errors.Join(w.Shutdown(ctx(t)), w.PowerOn(ctx(t))); err != nil {
		t.Fatal(err)
	}
	both(2, "Y", " ")
	// hotmount remembers that it has seen two disks with the UUID of this filesystem. With the printed `hotmount
	// accept`, the operator confirms that both paths lead to the same data.
	m.waitForLog("^/dev/nvme0n1 .*refuse: hotmount refused a disk with the same WWN .*, because another disk had the UUID " + uuid + ".*if this disk holds the same data as the other disk: hotmount accept nvme0n1 twin;")
	m.run("hotmount accept nvme0n1 twin")
	if got := m.mounted("nvme0n1"); got != uuid {
		t.Errorf("mounted as %s, before as %s", got, uuid)
	}
	m.wait("both paths", "[ -e /sys/block/nvme0c0n1 ] && [ -e /sys/block/nvme0c1n1 ]")
	m.run("hotmount rescan")
	m.wait("one mount", "systemctl show -P StatusText hotmount | grep -qx '1 mounted, 0 held, 0 refused, 0 failing'")
	if got := m.run("hotmount status | grep -c '^nvme'; journalctl -b -q --no-pager -o cat | grep -E '^/dev/nvme0c' || [ $? = 1 ]"); got != "1" {
		t.Errorf("the status has so many NVMe disks, and the journal says of the paths: %s", got)
	}
}
