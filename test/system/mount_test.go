//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestForeignXFS: a disk with an XFS full of files from elsewhere is mounted,
// with every byte the same (issue 2, shown 2).
func TestForeignXFS(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	// Another worker stands for elsewhere: this one, with the daemon stopped.
	image := blank(t, gib)
	m.run("systemctl stop hotmount")
	name, id := m.attach(w, worker.Disk{File: image})
	sums := m.run(fmt.Sprintf(`set -e
		mkfs.xfs -q /dev/%[1]s; mkdir /root/x; mount /dev/%[1]s /root/x; cd /root/x
		mkdir -p a/b "with space"; cp -a /etc/systemd /usr/lib/udev a/; head -c 3000000 /dev/urandom >a/b/big
		printf 'x' >"with space/$(printf 'new\nline')"; chown 1234:4321 a/b/big; setfattr -n user.k -v v a/b/big
		mkfifo a/pipe; ln -s big a/b/link; chmod 0700 a
		find . -printf '%%p %%m %%U %%G %%s %%T@ %%l\n' | sort >/root/listing; find . -type f -exec sha256sum {} + | sort >>/root/listing
		cat /root/listing; cd /; umount /root/x`, name))
	m.detach(w, id)
	m.run("systemctl start hotmount")

	name, _ = m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	again := m.run(fmt.Sprintf(`cd /mnt/disks/%s; find . -printf '%%p %%m %%U %%G %%s %%T@ %%l\n' | sort; find . -type f -exec sha256sum {} + | sort; getfattr -n user.k --only-values a/b/big >/dev/null`, uuid))
	if sums != again {
		t.Errorf("the files differ:\n%s\n---\n%s", sums, again)
	}
	options := m.run("findmnt -no OPTIONS /mnt/disks/" + uuid)
	for _, want := range []string{"noatime", "nodev", "nosuid", "rw"} {
		if !strings.Contains(","+options+",", ","+want+",") {
			t.Errorf("mount options %s lack %s", options, want)
		}
	}
	// systemctl show gives What= as the mount table has it: the device's own node.
	description := m.run("systemctl show -P Description " + quote(unitOf(uuid)))
	for _, want := range []string{"no serial", uuid, "1 GiB", "/dev/" + name} {
		if !strings.Contains(description, want) {
			t.Errorf("the unit's description %q lacks %s", description, want)
		}
	}
	show := m.run(fmt.Sprintf("systemctl cat %[1]s; systemctl show -p CollectMode -p Type -p TimeoutUSec -p BindsTo -p Requires %[1]s", quote(unitOf(uuid))))
	for _, want := range []string{"What=/dev/disk/by-diskseq/", "CollectMode=inactive-or-failed", "Type=xfs", "TimeoutUSec=15min"} {
		if !strings.Contains(show, want) {
			t.Errorf("the unit's properties lack %s:\n%s", want, show)
		}
	}
	if strings.Contains(show, "fsck") || strings.Contains(show, "BindsTo=dev-") {
		t.Errorf("the unit asks for fsck, or binds to its device:\n%s", show)
	}
}

// TestExt4: an ext4 is mounted by a class that accepts it, and left alone by one
// that does not.
func TestExt4(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, gib)
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: image})
	m.make(name, "mkfs.ext4 -q")
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    accept: [xfs]\\n' >/etc/hotmount/config.yaml; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: its class does not accept the type of its filesystem: ext4")
	if table := m.run("cat /proc/self/mountinfo"); strings.Contains(table, "/dev/"+name+" ") || strings.Contains(table, " /mnt/disks/") {
		t.Errorf("mounted all the same:\n%s", table)
	}
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	uuid := m.mounted(name)
	if got := m.run("findmnt -no FSTYPE /mnt/disks/" + uuid); got != "ext4" {
		t.Errorf("mounted as %s", got)
	}
}

// TestTwentyDisks: twenty disks attached back to back are all mounted, none
// twice (issue 2, shown 4). Half of them hold a filesystem, half are blank. So are
// six more, after which the kernel's names of virtio disks have four letters.
func TestTwentyDisks(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	var images []string
	for i := range 26 {
		if i%2 == 0 || i >= 20 {
			images = append(images, made(t, 320<<20))
		} else {
			images = append(images, blank(t, 320<<20))
		}
	}
	// So often PID 1 does not read the mount table, but once a second: it must not lose the units meanwhile.
	m.run(`mkdir /run/busy; (while [ -e /run/busy ]; do mount --bind /run/busy /run/busy; umount /run/busy; done) </dev/null >/dev/null 2>&1 &`)
	last := ""
	for _, image := range images {
		a, err := w.Attach(ctx(t), worker.Disk{File: image})
		if err != nil {
			t.Fatal(err)
		}
		last = a.ID
	}
	last, err := w.BlockDevice(ctx(t), last)
	if err != nil {
		t.Fatal(err)
	}
	m.waits(3, "26 mounts, one of "+last, "[ $(findmnt -rno SOURCE,TARGET | grep -c ' /mnt/disks/') = 26 ] && findmnt -n /dev/"+last)
	table := m.run("findmnt -rno MAJ:MIN,TARGET | grep ' /mnt/disks/' | sort")
	devices, paths := map[string]bool{}, map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		dev, path, _ := strings.Cut(line, " ")
		if devices[dev] || paths[path] {
			t.Errorf("twice: %s", line)
		}
		devices[dev], paths[path] = true, true
	}
	if len(devices) != 26 {
		t.Errorf("%d devices are mounted:\n%s", len(devices), table)
	}
	m.run("while ! rmdir /run/busy; do umount /run/busy || [ $? = 32 ]; done 2>/dev/null")
	m.wait("PID 1 to have them all", "[ $(systemctl list-units --state active --plain --no-legend 'mnt-disks-*.mount' | wc -l) = 26 ]")
	if got := m.run(`for u in $(systemctl list-units --plain --no-legend 'mnt-disks-*.mount' | cut -d ' ' -f 1); do systemctl show -p Transient -p OnSuccess -p Result $u; done | sed 's/cleanup@.*/cleanup@/' | sort | uniq -c | tr -s ' '`); strings.TrimSpace(got) != "26 OnSuccess=\"hotmount-cleanup@\n 26 Result=success\n 26 Transient=yes" {
		t.Errorf("the units: %s", got)
	}
	if got := m.run("ls /mnt/disks | wc -l; systemctl list-units --failed --no-legend; journalctl -b -u hotmount -p err -q --no-pager"); got != "26" {
		t.Errorf("got %s", got)
	}
	if got := m.run("journalctl -b -o cat --no-pager -u 'hotmounts-*' | grep -c '^Starting.* disks that come together'"); got == "0" {
		t.Error("none came together")
	}
	if got := m.run("journalctl -b -o cat --no-pager | grep -c ': formatted: xfs'"); got != "10" {
		t.Errorf("%s disks were formatted", got)
	}
	m.startsNothing() // with all of them mounted (issue 8)
}

// TestDetach: an idle disk's unit and directory go with it, and it comes back at
// the same path with its data; also while the daemon is down (issue 2, shown 6).
func TestDetach(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.run(fmt.Sprintf("echo kept >/mnt/disks/%s/f; sync", uuid))
	for _, daemon := range []string{"running", "stopped"} {
		if daemon == "stopped" {
			m.run("systemctl stop hotmount")
		}
		m.detach(w, id)
		m.wait("unit and directory to go with the daemon "+daemon,
			fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, uuid, quote(unitOf(uuid))))
		if daemon == "stopped" {
			m.run("systemctl start hotmount")
		}
		name, id = m.attach(w, worker.Disk{File: image})
		if again := m.mounted(name); again != uuid {
			t.Errorf("mounted by %s, not %s", again, uuid)
		}
		if got := m.run(fmt.Sprintf("cat /mnt/disks/%s/f", uuid)); got != "kept" {
			t.Errorf("the data is %q", got)
		}
	}
	if got := m.run("ls -A /mnt/disks"); got != uuid {
		t.Errorf("/mnt/disks holds %q", got)
	}
}
