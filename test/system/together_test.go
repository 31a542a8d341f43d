//go:build vm

package system

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestTogether: disks that come at once are mounted by one process, each by a transient mount unit of
// its own like any other (issue 8). One that is damaged and those that do not answer keep none of the others from being
// mounted or released, nor does one whose unit is masked.
func TestTogether(t *testing.T) { together(t, worker.Options{}) }

func together(t *testing.T, o worker.Options) {
	m, w := start(t, o)
	// The daemon hears of all at once. Of three that do not answer one may come first, and alone.
	m.run("systemctl kill -s STOP hotmount")
	const good, sick, slow, all = 4, 4, 5, 8 // the first four are good, from slow on none answers
	var names, ids, uuids, images []string
	for i := range all {
		image := made(t, 320<<20)
		if i == 1 {
			image = blank(t, 320<<20)
			if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
				t.Fatalf("mkfs.ext4: %v: %s", err, out)
			}
		}
		name, id := m.attach(w, worker.Disk{File: image, Serial: fmt.Sprint("TOGETHER-", i)})
		names, ids, images = append(names, name), append(ids, id), append(images, image)
		uuids = append(uuids, m.run("udevadm settle; blkid -o value -s UUID /dev/"+name))
	}
	// The header of the first inodes, which a mount reads.
	m.run("head -c 512 /dev/urandom | dd of=/dev/" + names[sick] + " bs=512 seek=2 conv=notrunc,fsync status=none; udevadm settle")
	for _, id := range ids[slow:] {
		throttle(t, w, id+"/virtio-backend", 1, 0)
	}
	m.run("systemctl kill -s CONT hotmount")
	for i, name := range names[:good] {
		if uuid := m.mounted(name); uuid != uuids[i] {
			t.Errorf("%s is mounted as %s", name, uuid)
		}
		m.says("/dev/" + name + " .*: mounted ")
	}
	for i := range good {
		show := m.run(fmt.Sprintf("systemctl cat %[1]s; systemctl show -p ActiveState -p Result -p Transient -p CollectMode -p OnSuccess -p Before -p StopPropagatedFrom %[1]s", quote(unitOf(uuids[i]))))
		for _, want := range []string{"What=/dev/disk/by-diskseq/", "ActiveState=active", "Result=success", "Transient=yes", "CollectMode=inactive-or-failed", `OnSuccess="?hotmount-cleanup@`, "Before=.*local-fs.target", "Before=.*umount.target", "StopPropagatedFrom=dev-vd"} {
			if !regexpLine(show, want) {
				t.Errorf("the unit of %s lacks %s:\n%s", names[i], want, show)
			}
		}
		if says := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(uuids[i]))); regexpLine(says, "skipped") || !regexpLine(says, ": mounted (xfs|ext4) "+uuids[i]) {
			t.Errorf("the journal of %s: %s", names[i], says)
		}
		if table := m.run("findmnt -rno FSTYPE,OPTIONS /mnt/disks/" + uuids[i]); !regexpLine(table, "^"+map[bool]string{true: "ext4", false: "xfs"}[i == 1]+" rw,nosuid,nodev,noatime") {
			t.Errorf("%s is mounted %s", names[i], table)
		}
	}

	if twice := m.run("findmnt -rno TARGET | sort | uniq -d"); twice != "" {
		t.Errorf("mounted twice: %s", twice)
	}
	// What goes together has not failed while it may come: PID 1 is asked for sure after 15 seconds.
	const service = "hotmounts-*.service"
	m.wait("the slow ones to be awaited for long", `for unit in $(systemctl list-units --state activating --plain --no-legend '`+service+`' | cut -d ' ' -f 1); do
		since=$(systemctl show -P InactiveExitTimestampMonotonic $unit); [ $(($(awk '{print int($1)}' /proc/uptime) - since / 1000000)) -lt 20 ] || exit 0; done; exit 1`)
	awaited := strings.Join(names[slow:], "|")
	if got := m.run("findmnt -rno SOURCE,TARGET | grep -c ' /mnt/disks/'; journalctl -b -u hotmount -o cat --no-pager"); !strings.HasPrefix(got, "4\n") || regexpLine(got, "^/dev/("+awaited+") .*(cannot|ended)") {
		t.Errorf("while some do not answer: %s", got)
	}
	// What is released meanwhile stays so, and what comes back is told why it waits.
	m.run("hotmount release " + uuids[2] + "; hotmount release " + uuids[3])
	m.detach(w, ids[2])
	kept := m.run("systemctl show -P Wants '" + service + "'")
	back, backID := m.attach(w, worker.Disk{File: images[2], Serial: "TOGETHER-2"})
	// But not the one that came first.
	if strings.Contains(kept, "mnt-disks-"+uuids[2][:8]) {
		m.says("/dev/" + back + " .*cannot mount .*systemd has mnt-disks-.* from another start")
	}
	// Another daemon finds them under way, and waits as well.
	m.run("systemctl kill -s KILL hotmount")
	for _, name := range names[slow:] {
		m.wait("the next daemon to want it", `[ $(journalctl -b -u hotmount -o cat --no-pager | grep -c '^/dev/`+name+` .*: mount: it holds') = 2 ]`)
	}
	for i, name := range names[slow:] {
		throttle(t, w, ids[slow+i]+"/virtio-backend", 0, 0)
		if uuid := m.mounted(name); uuid != uuids[slow+i] {
			t.Errorf("%s is mounted as %s", name, uuid)
		}
		m.says("/dev/" + name + " .*: mounted xfs " + uuids[slow+i])
	}
	// The damaged one is told of, and has its own journal.
	m.waits(3, "the damaged one to be told of", "journalctl -b --no-pager -o cat | grep -E '^/dev/"+names[sick]+" .*the kernel says: .*XFS .*; look at it with: xfs_repair -n /dev/"+names[sick]+"'")
	if own := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(uuids[sick]))); !regexpLine(own, "^mount: /mnt/disks/"+uuids[sick]+": ") {
		t.Errorf("the damaged one's own journal: %s", own)
	}
	m.wait("PID 1 to let the service go", "[ -z \"$(ls /run/systemd/transient | grep '^hotmounts-')\" ]")
	m.waits(3, "what came back to be mounted", "findmnt /dev/"+back)
	if got := m.run("journalctl -b -u hotmount -o cat --no-pager"); regexpLine(got, "^/dev/"+back+" .*TOGETHER-2.*look at it with") {
		t.Errorf("what came back is said to be damaged: %s", got)
	}
	if twice := m.run("findmnt -rno TARGET | sort | uniq -d"); twice != "" {
		t.Errorf("mounted twice: %s", twice)
	}
	m.detach(w, ids[sick])
	m.wait("what is not mounted to leave nothing behind", "[ $(ls /mnt/disks | wc -l) = 6 ]")
	if got := m.run("findmnt -rno TARGET | grep -c " + uuids[3] + " || [ $? = 1 ]; journalctl -b -o cat --no-pager -u '" + service + "' | grep '^Starting '"); !regexpLine(got, "^0\nStarting .*Mount disks that come together") {
		t.Errorf("the released one's mounts, and how they came: %s", got)
	}

	// PID 1 refuses all of which one is masked.
	services := "journalctl -b -o cat --no-pager -u '" + service + "' | grep -c '^Starting '"
	before := m.run(services)
	m.run("systemctl kill -s STOP hotmount")
	var more []string
	for i := range 3 {
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: fmt.Sprint("MORE-", i)})
		more = append(more, name)
	}
	m.run("udevadm settle; systemctl mask --quiet mnt-disks-$(blkid -o value -s UUID /dev/" + more[1] + " | sed 's/-/\\\\x2d/g').mount; systemctl kill -s CONT hotmount")
	m.mounted(more[0])
	m.mounted(more[2])
	m.says("/dev/" + more[1] + " .*job for mnt-disks-.* ended")
	if got := m.run("findmnt /dev/" + more[1] + " || [ $? = 1 ]"); got != "" {
		t.Errorf("mounted although its unit is masked: %s", got)
	}
	if got := m.run(services); got != before {
		t.Errorf("%s services mount together, %s before one was masked", got, before)
	}

	// Each goes like any other, while no daemon runs, too.
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuids[0])
	m.wait("what is unmounted by hand to be cleared up", "[ ! -e /mnt/disks/"+uuids[0]+" ]")
	for i, id := range map[int]string{1: ids[1], 2: backID} {
		m.detach(w, id)
		m.wait("what is pulled to be unmounted", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, uuids[i], quote(unitOf(uuids[i]))))
	}
	if got := m.run("systemctl list-units --all --no-legend '" + service + "'; findmnt -rno TARGET | grep -c ^/mnt/disks/"); got != "5" {
		t.Errorf("left: %s", got)
	}
}
