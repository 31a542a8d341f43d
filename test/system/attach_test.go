//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestForeignXFS checks that hotmount mounts a foreign XFS with many files, and changes no byte of the files (issue 2,
// section "Shown", item 2).
func TestForeignXFS(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	// While hotmount is stopped, the test makes the filesystem on this worker, as another node would.
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
	// `systemctl show` reads What= from the mount table. The mount table contains the device's kernel name, and not the
	// symbolic link in the unit file.
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

// TestExt4 checks that hotmount mounts an ext4 disk if the disk's class accepts ext4. If the class does not accept
// ext4, hotmount leaves the disk alone.
func TestExt4(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, gib)
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: image})
	m.make(name, "mkfs.ext4 -q")
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n    accept: [xfs]\\n' >/etc/hotmount/config.yaml; systemctl start hotmount")
	m.waitForLog("/dev/" + name + " .*refuse: the disk's class does not accept the type of its filesystem: ext4")
	if table := m.run("cat /proc/self/mountinfo"); strings.Contains(table, "/dev/"+name+" ") || strings.Contains(table, " /mnt/disks/") {
		t.Errorf("mounted although its class does not accept it:\n%s", table)
	}
	m.run("printf 'classes:\\n  - name: default\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	uuid := m.mounted(name)
	if got := m.run("findmnt -no FSTYPE /mnt/disks/" + uuid); got != "ext4" {
		t.Errorf("mounted as %s", got)
	}
}

// TestEphemeralDisk checks that hotmount ignores a disk with the label of a cloud's ephemeral disk or of a cloud-init
// seed. The type of the filesystem does not matter. After the label is removed, hotmount mounts the filesystem.
func TestEphemeralDisk(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	names, images := map[string]string{}, map[string]string{}
	for label, mkfs := range map[string]string{
		"ephemeral0": "mkfs.ext4 -q -L ephemeral0", "ephemeral1": "mkfs.xfs -q -f -L ephemeral1", "EPHEMERAL0": "mkfs.vfat -I -n EPHEMERAL0",
		"config-2": "mkfs.vfat -I -n config-2", "cidata": "mkfs.ext4 -q -L cidata",
	} {
		images[label] = blank(t, 320<<20)
		names[label], _ = m.attach(w, worker.Disk{File: images[label]})
		m.make(names[label], mkfs)
	}
	digests := map[string]string{}
	for label, image := range images {
		digests[label] = digest(t, image)
	}
	m.run("systemctl start hotmount")
	for label, name := range names {
		m.waitForLog("/dev/" + name + " .*ignore: the disk has the label of a cloud-init seed or of a cloud's ephemeral disk: " + label + "$")
		if digest(t, images[label]) != digests[label] {
			t.Errorf("%s was written to", label)
		}
		m.run("! findmnt /dev/" + name)
	}
	name := names["ephemeral0"]
	m.run("e2label /dev/" + name + " ''; udevadm trigger -s block -y " + name)
	m.mounted(name)
}

// TestTwentyDisks checks that twenty disks attached back to back are all mounted, each once (issue 2, section "Shown",
// item 4). Half of the disks hold a filesystem, and half are blank. The test then attaches six more disks. With the
// system disk, a virtual machine then has 27 virtio disks, and the kernel names the last disk vdaa, with four letters.
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
	// While another program mounts and unmounts a directory without a pause, PID 1 notices changes of the mount table
	// up to one second late. PID 1 must not lose a mount unit, however often the mount table changes.
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
	m.waitMinutes(3, "26 mounts, one of "+last, "[ $(findmnt -rno SOURCE,TARGET | grep -c ' /mnt/disks/') = 26 ] && findmnt -n /dev/"+last)
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
	if got := m.run("journalctl -b -o cat --no-pager -u 'hotmounts-*' | grep -c '^Starting.* several disks at once'"); got == "0" {
		t.Error("no disks were mounted together")
	}
	if got := m.run("journalctl -b -o cat --no-pager | grep -c ': formatted: xfs'"); got != "10" {
		t.Errorf("%s disks were formatted", got)
	}
	m.startsNothing() // a start with all disks mounted runs no other program (issue 8)
}

// TestDetach checks that the detach of an idle disk removes the disk's mount unit and directory, even while the daemon
// is down. A disk that is attached again is mounted at the same path with its data (issue 2, section "Shown", item 6).
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

// TestTogether checks that one service mounts several disks that are attached together. Each disk must still have its
// own transient mount unit (issue 8). A damaged disk, a disk that does not answer, and a masked unit do not prevent
// hotmount from mounting or releasing other disks.
func TestTogether(t *testing.T) { attachTogether(t, worker.Options{}) }

func attachTogether(t *testing.T, o worker.Options) {
	m, w := start(t, o)
	// The test freezes the daemon (SIGSTOP) and attaches the disks, so that the daemon finds all disks together after
	// SIGCONT. Three of the disks do not answer. The daemon may still find one of these three disks before the other
	// two. hotmount then starts a separate mount for this disk.
	m.run("systemctl kill -s STOP hotmount")
	const good, sick, slow, all = 4, 4, 5, 8 // disks 0 to 3 are good, disk 4 is damaged, and disks 5 to 7 do not answer
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
	// The random bytes damage the inode header (AGI) of the first allocation group. The kernel reads this header at
	// each mount.
	m.run("head -c 512 /dev/urandom | dd of=/dev/" + names[sick] + " bs=512 seek=2 conv=notrunc,fsync status=none; udevadm settle")
	for _, id := range ids[slow:] {
		throttle(t, w, id+"/virtio-backend", 1, 0)
	}
	m.run("systemctl kill -s CONT hotmount")
	for i, name := range names[:good] {
		if uuid := m.mounted(name); uuid != uuids[i] {
			t.Errorf("%s is mounted as %s", name, uuid)
		}
		m.waitForLog("/dev/" + name + " .*: mounted ")
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
	// Even after 20 seconds, the daemon reports no failure for a disk that may still answer.
	const service = "hotmounts-*.service"
	m.wait("the mounts of the slow disks to take long", `for unit in $(systemctl list-units --state activating --plain --no-legend '`+service+`' | cut -d ' ' -f 1); do
		since=$(systemctl show -P InactiveExitTimestampMonotonic $unit); [ $(($(awk '{print int($1)}' /proc/uptime) - since / 1000000)) -lt 20 ] || exit 0; done; exit 1`)
	awaited := strings.Join(names[slow:], "|")
	if got := m.run("findmnt -rno SOURCE,TARGET | grep -c ' /mnt/disks/'; journalctl -b -u hotmount -o cat --no-pager"); !strings.HasPrefix(got, "4\n") || regexpLine(got, "^/dev/("+awaited+") .*(cannot|ended)") {
		t.Errorf("while some do not answer: %s", got)
	}
	// The test releases two disks while a service is still mounting other disks. A released disk must stay released.
	// The journal says why a disk that is attached again has to wait.
	m.run("hotmount release " + uuids[2] + "; hotmount release " + uuids[3])
	m.detach(w, ids[2])
	kept := m.run("systemctl show -P Wants '" + service + "'")
	back, backID := m.attach(w, worker.Disk{File: images[2], Serial: "TOGETHER-2"})
	// The disk has to wait only if a service that still runs has mounted it together with other disks.
	if strings.Contains(kept, "mnt-disks-"+uuids[2][:8]) {
		m.waitForLog("/dev/" + back + " .*cannot mount .*perhaps systemd has not started .*mnt-disks-.*, because an earlier service that mounts several disks has not ended")
	} else {
		t.Log("the released disk was not mounted by a service that still runs, so the test does not check why a disk waits")
	}
	// The next daemon also waits for the mounts that the killed daemon has started.
	m.run("systemctl kill -s KILL hotmount")
	for _, name := range names[slow:] {
		m.wait("the next daemon to mount it", `[ $(journalctl -b -u hotmount -o cat --no-pager | grep -c '^/dev/`+name+` .*: mount: the disk holds') = 2 ]`)
	}
	for i, name := range names[slow:] {
		throttle(t, w, ids[slow+i]+"/virtio-backend", 0, 0)
		if uuid := m.mounted(name); uuid != uuids[slow+i] {
			t.Errorf("%s is mounted as %s", name, uuid)
		}
		m.waitForLog("/dev/" + name + " .*: mounted xfs " + uuids[slow+i])
	}
	// The daemon's journal names the damaged disk and the remedy. The mount unit's journal contains the output of
	// mount(8).
	m.waitMinutes(3, "the damaged disk to be in the journal", "journalctl -b --no-pager -o cat | grep -E '^/dev/"+names[sick]+" .*the kernel says: .*XFS .*; check the filesystem with: xfs_repair -n /dev/"+names[sick]+"'")
	if own := m.run("journalctl -b -o cat --no-pager -u " + quote(unitOf(uuids[sick]))); !regexpLine(own, "^mount: /mnt/disks/"+uuids[sick]+": ") {
		t.Errorf("the journal of the damaged disk's unit: %s", own)
	}
	m.wait("PID 1 to let the service go", "[ -z \"$(ls /run/systemd/transient | grep '^hotmounts-')\" ]")
	m.waitMinutes(3, "the disk that came back to be mounted", "findmnt /dev/"+back)
	if got := m.run("journalctl -b -u hotmount -o cat --no-pager"); regexpLine(got, "^/dev/"+back+" .*TOGETHER-2.*check the filesystem with") {
		t.Errorf("the disk that came back is reported as damaged: %s", got)
	}
	if twice := m.run("findmnt -rno TARGET | sort | uniq -d"); twice != "" {
		t.Errorf("mounted twice: %s", twice)
	}
	m.detach(w, ids[sick])
	m.wait("the failed mount to leave no directory", "[ $(ls /mnt/disks | wc -l) = 6 ]")
	if got := m.run("findmnt -rno TARGET | grep -c " + uuids[3] + " || [ $? = 1 ]; journalctl -b -o cat --no-pager -u '" + service + "' | grep '^Starting '"); !regexpLine(got, "^0\nStarting .*Mount several disks at once") {
		t.Errorf("the mounts of the released disk, and the starts of the service: %s", got)
	}

	// PID 1 refuses to start a service together with several mount units if one of the mount units is masked. hotmount
	// then requests each mount alone.
	services := "journalctl -b -o cat --no-pager -u '" + service + "' | grep -c '^Starting .*Mount several disks at once (3)' || [ $? = 1 ]"
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
	m.waitForLog("/dev/" + more[1] + " .*cannot mount .*the job of mnt-disks-.* failed, mount.8. printed nothing, .*; to see why: systemctl status")
	if got := m.run("findmnt /dev/" + more[1] + " || [ $? = 1 ]"); got != "" {
		t.Errorf("mounted although its unit is masked: %s", got)
	}
	if got := m.run(services); got != before {
		t.Errorf("%s services mounted disks together, %s before one unit was masked", got, before)
	}

	// After an unmount, hotmount-cleanup@ removes the mount point, even while the daemon is stopped.
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuids[0])
	m.wait("the cleanup after an unmount by hand", "[ ! -e /mnt/disks/"+uuids[0]+" ]")
	for i, id := range map[int]string{1: ids[1], 2: backID} {
		m.detach(w, id)
		m.wait("the pulled disk to be unmounted", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, uuids[i], quote(unitOf(uuids[i]))))
	}
	if got := m.run("systemctl list-units --all --no-legend '" + service + "'; findmnt -rno TARGET | grep -c ^/mnt/disks/"); got != "5" {
		t.Errorf("left: %s", got)
	}
}

// TestVirsh follows a user's steps with a real libvirt: virsh attach-disk, detach-disk and blockresize. TestVirsh also
// checks the journal of the mount unit (issue 2, section "Shown", items 1 and 6).
func TestVirsh(t *testing.T) {
	parallel(t)
	o := worker.Options{Deb: deb(t), Progress: os.Stderr, Dir: logs(t)}
	l, err := worker.StartLibvirt(ctx(t), o)
	if err != nil {
		t.Fatal(err)
	}
	m := machine{l, t}
	m.endWith(o.Dir)
	virsh := func(args ...string) {
		t.Helper()
		if _, err := l.Virsh(ctx(t), args...); err != nil {
			t.Fatal(err)
		}
	}
	diskDirs.Store(t, t.TempDir()) // libvirtd has a /run of its own
	image := blank(t, 2*gib)
	virsh("attach-disk", l.Domain(), image, "vdc", "--persistent", "--serial", "VIRSH-1", "--subdriver", "raw")
	m.wait("the disk", "[ -e /dev/vdb ]")
	uuid := m.mounted("vdb")
	// The proof reads the whole disk once. Documentation/block/stat.rst in Linux describes the fields of the file
	// /sys/block/vdb/stat.
	if got := m.run("awk '{print ($3 >= 4194304 && $3 < 6291456)}' /sys/block/vdb/stat"); got != "1" {
		t.Errorf("the reads of a disk of 4194304 sectors: %s", m.run("cat /sys/block/vdb/stat"))
	}
	if got := m.run("findmnt -no FSTYPE /mnt/disks/" + uuid); got != "xfs" {
		t.Errorf("made a %s", got)
	}
	if got := m.run("blkid -p -o value -s UUID /dev/vdb"); got != uuid {
		t.Errorf("the path is %s, the filesystem %s", uuid, got)
	}
	story := m.run("journalctl -b --no-pager -o short -u " + quote(unitOf(uuid)))
	t.Logf("journalctl -u '%s'\n%s", unitOf(uuid), story)
	for _, want := range []string{"hotmount", "/dev/vdb", "VIRSH-1", "2 GiB", uuid, "blank", "all zero", "formatted", "mounted", "systemd[1]: Mounted"} {
		if !strings.Contains(strings.ToLower(story), strings.ToLower(want)) {
			t.Errorf("the unit's journal does not say %q", want)
		}
	}
	m.run(fmt.Sprintf("echo kept >/mnt/disks/%s/f; sync", uuid))
	virsh("blockresize", l.Domain(), "vdc", "3G")
	m.waitForLog("/dev/vdb .*grown: xfs " + uuid + " from 2 GiB .* to 3 GiB .*online; .*PersistentVolume")
	// `hotmount release` prints a command that finds the disk's name on the host. The test uses the XPath expression of
	// the printed command without a change.
	out := m.run("hotmount release vdb")
	find := regexp.MustCompile(`(?m)^on the hypervisor, the disk may have another name than vdb; .*: virsh dumpxml NODE --xpath "(.*)"$`).FindStringSubmatch(out)
	if find == nil {
		t.Fatalf("release says %q", out)
	}
	target, err := l.Virsh(ctx(t), "dumpxml", l.Domain(), "--xpath", find[1])
	if err != nil || strings.TrimSpace(target) != `dev="vdc"` {
		t.Errorf("%s gives %q, %v", find[1], target, err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	find = regexp.MustCompile(`(?m)^    virsh dumpxml NODE --xpath "(\S+serial='DATA-1'\S+)"`).FindStringSubmatch(string(readme))
	if find == nil {
		t.Fatal("README.md has no command that finds the disk's name")
	}
	target, err = l.Virsh(ctx(t), "dumpxml", l.Domain(), "--xpath", strings.Replace(find[1], "DATA-1", "VIRSH-1", 1))
	if err != nil || strings.TrimSpace(target) != `dev="vdc"` {
		t.Errorf("README.md: %s gives %q, %v", find[1], target, err)
	}
	virsh("detach-disk", l.Domain(), "vdc", "--persistent")
	m.wait("unit and directory to go", fmt.Sprintf(`[ ! -e /mnt/disks/%s ] && [ -z "$(systemctl list-units --all --no-legend %s)" ]`, uuid, quote(unitOf(uuid))))
	const control = "XFS (none): log I/O error, as a control"
	if got := m.run("echo '" + control + "' >/dev/kmsg; journalctl --sync; " + kernelErrors); got != control {
		t.Errorf("the kernel says: %s", got)
	}
	virsh("attach-disk", l.Domain(), image, "vdd", "--persistent", "--subdriver", "raw")
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := m.run(fmt.Sprintf("cat /mnt/disks/%s/f", uuid)); got != "kept" {
		t.Errorf("the data is %q", got)
	}
	// If a qcow2 image is attached as raw by mistake, hotmount prints the correct steps. The test follows the printed
	// steps.
	raw, qcow2 := made(t, 320<<20), blank(t, 0)
	if out, err := exec.CommandContext(ctx(t), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	inside, err := exec.CommandContext(ctx(t), "blkid", "-p", "-o", "value", "-s", "UUID", raw).Output()
	if err != nil {
		t.Fatal(err)
	}
	virsh("attach-disk", l.Domain(), qcow2, "vde", "--subdriver", "raw")
	m.waitForLog("^/dev/vd. .*refuse: the disk holds what looks like a disk image of the format qcow2 .*; detach the disk, and on the host attach the image with its format: virsh attach-disk")
	way := m.run("journalctl -b -o cat --no-pager | grep -o 'virsh attach-disk DOMAIN FILE TARGET [^;]*'")
	virsh("detach-disk", l.Domain(), "vde")
	virsh(strings.Fields(strings.NewReplacer("virsh ", "", "DOMAIN", l.Domain(), "FILE", qcow2, "TARGET", "vdf").Replace(way))...)
	m.wait("the mount", "findmnt /mnt/disks/"+strings.TrimSpace(string(inside)))
}

// TestExchange replaces the disk of a block volume by another disk while udev is late. The volume's link must never
// lead to the other disk. TestExchange covers SCSI and NVMe, because udev forms the names of SCSI disks and of NVMe
// disks differently. TestBlockVolumes covers virtio.
func TestExchange(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`mkdir -p /var/lib/disks/block && cat >/etc/hotmount/config.yaml <<'X'
settle: 1s
classes:
  - name: raw
    transport: [scsi, nvme]
    directory: /var/lib/disks/block
    mode: block
X
systemctl reload hotmount`)
	for bus, prefix := range map[worker.Bus]string{worker.BusSCSI: "scsi", worker.BusNVMe: "nvme"} {
		serial := func(n int) string { return fmt.Sprintf("RAW-%s-%d", prefix, n) }
		link := func(n int) string { return "/var/lib/disks/block/" + prefix + "-" + serial(n) }
		leads := func(n int, name string) {
			t.Helper()
			m.wait("the link to "+serial(n), fmt.Sprintf("[ $(readlink -f %s) = /dev/%s ]", link(n), name))
		}
		name, id := m.attach(w, worker.Disk{Bus: bus, File: blank(t, 320<<20), Serial: serial(1)})
		leads(1, name)
		second, _ := m.exchanged(w, name, id, link(1), worker.Disk{Bus: bus, File: blank(t, 320<<20), Serial: serial(2)})
		t.Logf("%s was %s, %s is %s", serial(1), name, serial(2), second)
		leads(2, second)
	}
}

// TestExchangedBeforeItsMount replaces a disk by another disk with the same kernel name before the first disk is
// mounted. udev handles neither the detach nor the attach, so the first disk's link leads to the second disk. In the
// first part of the test, hotmount delays the mount. hotmount then looks at the disk again, and notices that the first
// disk is gone. In the second part, PID 1 delays the mount, and then mounts the second disk through the first disk's
// link. The test checks that hotmount then unmounts the second disk, and does not record the second disk as the first
// disk.
func TestExchangedBeforeItsMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	// The function `exchanged` replaces the disk, and returns the kernel name of the second disk.
	exchanged := func(name, id string) string {
		t.Helper()
		seq := m.run("cat /sys/block/" + name + "/diskseq")
		m.detach(w, id)
		m.wait("the kernel to let it go", "! [ -e /sys/block/"+name+"/diskseq ] || [ $(cat /sys/block/"+name+"/diskseq) != "+seq+" ]")
		next, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		if got := m.run("readlink /dev/disk/by-diskseq/" + seq); next != name || got != "../../"+name {
			t.Fatalf("%s is %s now, the first disk's link leads to %s", name, next, got)
		}
		return next
	}
	// The function `settled` lets udev handle the events. The function then checks that each disk is mounted at its own
	// path and recorded with its own UUID.
	settled := func(gone string, names ...string) {
		t.Helper()
		m.run("udevadm control --start-exec-queue")
		for _, name := range names {
			if got := m.mounted(name); got == gone {
				t.Errorf("%s is mounted as %s", name, got)
			}
		}
		for _, name := range names { // without these records, it would prove nothing that the UUID `gone` is absent
			m.wait("the record of "+name, "grep -q $(blkid -o value -s UUID /dev/"+name+") /var/lib/hotmount/filesystems.json")
		}
		if got := m.run("ls -A /mnt/disks | wc -l; cat /var/lib/hotmount/filesystems.json; hotmount status"); !strings.HasPrefix(got, fmt.Sprintf("%d\n", len(names))) || strings.Contains(got, gone) {
			t.Errorf("%s", got)
		}
	}

	m.run("systemctl stop hotmount; echo 'ready_timeout: 30s' >/etc/hotmount/config.yaml")
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.run("udevadm settle; blkid -o value -s UUID /dev/" + name)
	// The first disk is new on this worker. hotmount therefore delays the first disk's mount until udev has handled the
	// event of the disk in the variable `late`, but at most for ready_timeout.
	m.run("udevadm control --stop-exec-queue")
	late, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.run("systemctl start --no-block hotmount")
	m.waitForLog(name + ".*the disk holds xfs " + uuid)
	next := exchanged(name, id)
	m.waitForLog("/dev/" + name + " .*: gone$")
	if got := m.run("journalctl -b -o cat -u hotmount"); strings.Contains(got, "mounted that disk by mistake") {
		t.Errorf("mounted: %s", got)
	}
	settled(uuid, next, late)

	m.run(`mkdir /etc/systemd/system/mnt-disks-.mount.d && printf '[Unit]\nAfter=slow.service\n' >/etc/systemd/system/mnt-disks-.mount.d/slow.conf
		printf '[Service]\nType=oneshot\nExecStart=sh -c "until [ -e /run/go ]; do sleep 0.1; done"\n' >/etc/systemd/system/slow.service
		systemctl daemon-reload; systemctl start --no-block slow`)
	name, id = m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid = m.run("udevadm settle; blkid -o value -s UUID /dev/" + name)
	m.wait("the mount to wait in PID 1", "systemctl list-jobs --no-legend | grep 'mnt-disks-.*start waiting'")
	m.run("udevadm control --stop-exec-queue")
	third := exchanged(name, id)
	m.run("touch /run/go")
	m.waitForLog("the name belonged to another disk already .*, and hotmount mounted that disk by mistake; that disk is unmounted again")
	m.wait("the mount point to go", "[ ! -e /mnt/disks/"+uuid+" ]")
	if got := m.run("findmnt -rno TARGET /dev/" + name + " || [ $? = 1 ]; cat /var/lib/hotmount/filesystems.json"); strings.Contains(got, "/mnt/disks/") || strings.Contains(got, uuid) {
		t.Errorf("left behind: %s", got)
	}
	settled(uuid, next, late, third)
}

// TestRewrittenBeforeItsMount changes a disk's content on the storage, after udev has read the disk and before the
// mount. The status must warn all users that another filesystem is at the first filesystem's path.
func TestRewrittenBeforeItsMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := made(t, 320<<20)
	name, _ := m.attach(w, worker.Disk{File: image})
	uuid := m.run("udevadm settle; blkid -o value -s UUID /dev/" + name)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-f", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	m.run("blockdev --flushbufs /dev/" + name)
	now := m.run("blkid -p -o value -s UUID /dev/" + name)
	if now == uuid || now == "" {
		t.Fatalf("the disk holds %q", now)
	}
	m.run("systemctl start hotmount")
	m.waitForLog("the disk holds " + now + ", and is mounted at /mnt/disks/" + uuid)
	trigger := "udevadm trigger --action=change /dev/" + name
	for _, who := range []string{"", "setpriv --reuid=65534 --clear-groups "} {
		got := m.run(who + "hotmount status 2>&1 || [ $? = 3 ]")
		if got = strings.Join(strings.Fields(got), " "); !strings.Contains(got, "stop the pods that use the disk, then: "+trigger+"; umount /mnt/disks/"+uuid) {
			t.Errorf("%shotmount status does not show the remedy: %s", who, got)
		}
	}
	m.run(trigger + "; udevadm settle; umount /mnt/disks/" + uuid)
	if got := m.mounted(name); got != now {
		t.Errorf("it is mounted as %s, and holds %s", got, now)
	}
}

// TestLoopDevices checks a disk that is in use through a loop device. For a disk below a loop device, the kernel shows
// neither a claim nor a holder. hotmount neither mounts nor formats a disk that a loop device uses, even if the
// operator accepts the disk. hotmount does not report a disk as safe to detach while a loop device uses it.
func TestLoopDevices(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	used, _ := m.attach(w, worker.Disk{File: image, Serial: "USED"})
	empty, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "EMPTY"})
	// Each loop device uses a second device node of its disk. The daemon cannot see the second device node, just as it
	// cannot see a device node in a container.
	m.run("udevadm settle; for d in " + used + " " + empty + "; do mknod /root/node-$d b $(sed 's/:/ /' /sys/block/$d/dev); done; losetup /dev/loop3 /root/node-" + used + "; mount /dev/loop3 /srv; echo kept >/srv/f; sync; losetup /dev/loop4 /root/node-" + empty + "; udevadm settle; systemctl start hotmount")
	m.waitForLog("/dev/" + used + " .*ignore: the disk seems to be in use through /dev/loop3")
	m.waitForLog("/dev/" + empty + " .* the disk is in use through /dev/loop4; next try in")
	m.wait("both to be left alone", "hotmount plan | grep '^"+used+" .*ignore .*in use through /dev/loop3' && hotmount plan | grep '^"+empty+" .*ignore .*in use through /dev/loop4'")
	m.run("systemctl reload hotmount; udevadm trigger -s block; udevadm settle")
	if got := m.run("findmnt -rno SOURCE,TARGET -t ext4,xfs | grep -v ' /$'"); got != "/dev/loop3 /srv" {
		t.Errorf("mounted are %s", got)
	}
	m.checkUntouched(empty)
	for _, name := range []string{used, empty} {
		if out, err := m.Run(ctx(t), "hotmount format "+name); err == nil || !strings.Contains(err.Error(), "in use through /dev/loop") {
			t.Errorf("a token is offered for %s: %s, %v", name, out, err)
		}
	}
	m.run("umount /srv; losetup -d /dev/loop3; losetup -d /dev/loop4; hotmount rescan")
	where := "/mnt/disks/" + m.mounted(used)
	if got := m.run("cat " + where + "/f"); got != "kept" {
		t.Errorf("its data is %q", got)
	}
	m.mounted(empty)

	// Loop device 4 uses a bind mount of the disk's device node, as kubelet's loop devices do. The daemon sees the bind
	// mount of the device node.
	bound, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "BOUND"})
	boundAt := "/mnt/disks/" + m.mounted(bound)
	m.run("umount " + boundAt)
	m.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+bound+" .*hold .*somebody unmounted the disk by hand'")
	m.run("touch /run/volume; mount --bind /dev/" + bound + " /run/volume; losetup /dev/loop4 /run/volume; udevadm settle; hotmount accept " + bound)
	m.waitForLog("/dev/" + bound + " .*refuse: hotmount does not mount this volume of the node, because something else uses the disk: bind-mounted as a device at /run/volume")
	m.run("losetup -d /dev/loop4; umount /run/volume; hotmount rescan")
	m.wait("the mount", "findmnt "+boundAt)

	m.run("losetup -r /dev/loop3 /dev/" + used)
	if out, err := m.Run(ctx(t), "hotmount release "+used); err == nil || !strings.Contains(err.Error(), "in use through the loop device /dev/loop3") {
		t.Errorf("released below a loop device: %s, %v", out, err)
	}
	m.run("findmnt " + where + "; losetup -d /dev/loop3; hotmount release " + used + " | grep 'safe to detach'; losetup -r /dev/loop3 /dev/" + used)
	if out, err := m.Run(ctx(t), "hotmount release "+used); err == nil || !strings.Contains(err.Error(), "NOT safe to detach") || !strings.Contains(err.Error(), "in use through the loop device /dev/loop3") {
		t.Errorf("safe below a loop device: %s, %v", out, err)
	}
}

// TestShrunk checks that hotmount logs an error if a disk is smaller than its filesystem. hotmount neither mounts a
// disk that is smaller than its filesystem nor writes to the disk.
func TestShrunk(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 2*gib)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	sum := m.run(fmt.Sprintf(fill, uuid))
	m.detach(w, id)
	m.wait("the end of the mount", "[ ! -e /mnt/disks/"+uuid+" ]")

	short := copyOf(t, image)
	if err := os.Truncate(short, gib); err != nil {
		t.Fatal(err)
	}
	before := digest(t, short)
	name, id = m.attach(w, worker.Disk{File: short})
	m.waitForLog("/dev/" + name + " .*refuse: the disk has shrunk: its xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*not mounted")
	if got := m.run("findmnt -no TARGET /dev/" + name + " || true; ls -A /mnt/disks"); got != "" {
		t.Errorf("it is there: %s", got)
	}
	m.detach(w, id)
	if digest(t, short) != before {
		t.Error("the shrunk disk was written to")
	}

	ext4 := blank(t, 2*gib)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", ext4).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if err := os.Truncate(ext4, gib); err != nil {
		t.Fatal(err)
	}
	before = digest(t, ext4)
	name, id = m.attach(w, worker.Disk{File: ext4})
	m.waitForLog("/dev/" + name + " .*refuse: the disk has shrunk: its ext4 .* takes 2 GiB .*has only 1 GiB .*not mounted")
	if got := m.run("findmnt -no TARGET /dev/" + name + " || true; ls -A /mnt/disks"); got != "" {
		t.Errorf("the ext4 is there: %s", got)
	}
	m.detach(w, id)
	if digest(t, ext4) != before {
		t.Error("the shrunk ext4 was written to")
	}

	name, id = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted %s", got)
	}
	if got := m.run(fmt.Sprintf("cd /mnt/disks/%s && sha256sum data/f", uuid)); got != sum {
		t.Errorf("%q, was %q", got, sum)
	}
	m.resize(w, id, gib)
	m.waitForLog("/dev/" + name + " .*the disk has shrunk: its xfs " + uuid + " takes 2 GiB .*has only 1 GiB .*still mounted")
	if got := m.run("journalctl -b -p err --no-pager -q -o cat -u hotmount"); !strings.Contains(got, "still mounted") {
		t.Errorf("the errors of the daemon are %q", got)
	}
	for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
		m.wait("the status to show it", "code=0; out=$("+who+"hotmount status) || code=$?; [ $code = 3 ] && grep '^"+name+" .* failed ' <<<\"$out\"")
	}
}

// TestGrowDuringMkfs grows a disk while mkfs.xfs runs. The disk must be formatted once and mounted. The filesystem must
// grow to fill the disk.
func TestGrowDuringMkfs(t *testing.T) {
	m, w := obedientNode(t)
	victims := m.victims(w, 0, "sp20")
	v := victims[0]
	m.stopped(v)
	m.resize(w, v.id, gib)
	m.wait("the kernel to see the size", fmt.Sprintf("[ $(cat /sys/block/%s/size) = %d ]", v.name, gib/512))
	m.run("pkill -CONT -f 'mkfs.xfs .*/dev/" + v.name + "$'")
	t.Log(m.checkFormat(v, 1))
	m.takes(m.mounted(v.name), gib-130*mib)
	m.waitForLog("/dev/" + v.name + " .*grown: xfs .* from 300 MiB .* to 1 GiB ")
}

// scsiTarget returns the host, channel, target and LUN of a SCSI disk.
func (m machine) scsiTarget(name string) string {
	m.t.Helper()
	return m.run("basename $(readlink -f /sys/block/" + name + "/device)")
}

// TestVirtioSCSI checks disks on virtio-scsi. If no class selects a disk, hotmount reports the disk once, and prints a
// class that would select the disk. With the built-in class, the test covers hot-plug, a resize, and a copy of the
// disk. The test also pulls a busy disk, and then attaches another disk at the same SCSI target. The built-in class
// does not select a SCSI disk of a vendor other than QEMU, such as a cloud provider's disk. If a class in block mode
// and a later class both select a disk, the class in block mode gets the disk. After a power cut, each of these two
// classes gets its disk again.
func TestVirtioSCSI(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter /var/lib/disks/block; printf 'classes:\\n  - name: default\\n    names: [\"vd*\"]\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl restart hotmount")
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "DATA-1", Bus: worker.BusSCSI})
	said := "/dev/" + name + " .*ignore: no class selects the disk, and nothing uses it; .*: [{]name: extra, serial: [[]\"DATA-1\"[]], directory: /mnt/extra[}]"
	m.waitForLog(said)
	m.wait("its row", "hotmount status | grep -E '^"+name+" .* ignored '")
	m.wait("its metric", "grep -E '^hotmount_disks.*reason=\"unselected\".* 1$' /var/lib/prometheus/node-exporter/hotmount.prom")
	m.run("systemctl restart hotmount; " + trigger)
	m.wait("its row", "hotmount status | grep -E '^"+name+" .* ignored '")
	if got := m.run("journalctl -b --no-pager -o cat -u hotmount | grep -cE -- " + quote(said)); got != "1" {
		t.Errorf("it is named %s times", got)
	}

	m.run("rm /etc/hotmount/config.yaml; systemctl restart hotmount")
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/file; sync -f " + where)
	if err := w.Resize(ctx(t), id, 640<<20); err != nil {
		t.Fatal(err)
	}
	m.wait("the filesystem to grow", "[ $(findmnt -bno SIZE "+where+") -gt $((500<<20)) ]")

	twin, twinID := m.attach(w, worker.Disk{File: copyOf(t, image), Serial: "DATA-2", Bus: worker.BusSCSI})
	m.waitForLog("/dev/" + twin + " .*refuse: another disk has the same UUID " + uuid)
	m.detach(w, twinID)

	// A disk is pulled while busy. The next disk gets the pulled disk's SCSI target, but gets another kernel name. The
	// kernel does not reuse a disk's name while a process uses the disk's filesystem. The unit's command runs cd,
	// because with WorkingDirectory= systemd would stop the unit before the unmount.
	m.run("systemd-run --unit busy sh -c 'cd " + where + " && exec sleep infinity'")
	m.wait("the disk to be in use", "[ $(readlink /proc/$(systemctl show -P MainPID busy)/cwd) = "+where+" ]")
	target := m.scsiTarget(name)
	m.detach(w, id)
	m.wait("the mount to go", "! findmnt "+where+" && ! [ -e "+where+" ]")
	other, otherID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "DATA-3", Bus: worker.BusSCSI})
	if got := m.scsiTarget(other); other == name || got != target {
		t.Errorf("the next disk is %s at %s, after %s at %s", other, got, name, target)
	}
	if got := m.mounted(other); got == uuid {
		t.Errorf("%s is mounted as %s", other, got)
	}
	m.run("systemctl stop busy")
	m.detach(w, otherID)

	cloud, cloudID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "CLOUD", Bus: worker.BusSCSI, Device: map[string]any{"vendor": "HC", "product": "Volume"}})
	m.wait("the cloud's disk to be of no class", "hotmount status | grep -E '^"+cloud+" .* ignored '")
	m.checkUntouched(cloud)
	m.detach(w, cloudID)

	m.run(`cat >/etc/hotmount/config.yaml <<'X'
classes:
  - {name: raw, transport: [scsi], serial: ["RAW-*"], directory: /var/lib/disks/block, mode: block}
  - {name: default, directory: /mnt/disks}
X
		hotmount config apply-sandbox; systemctl daemon-reload; systemctl restart hotmount`)
	block, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "RAW-1", Bus: worker.BusSCSI})
	m.wait("the link", "[ $(readlink -f /var/lib/disks/block/scsi-RAW-1) = /dev/"+block+" ]")

	name, _ = m.attach(w, worker.Disk{File: image, Serial: "DATA-1", Bus: worker.BusSCSI})
	if got := m.mounted(name); got != uuid {
		t.Errorf("it comes back as %s, it was %s", got, uuid)
	}
	m.run("sync")
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount after the power cut", fmt.Sprintf("grep kept %s/file", where))
	m.wait("the link after the power cut", "[ -b /var/lib/disks/block/scsi-RAW-1 ]")
	if got := m.run("hotmount explain $(basename $(findmnt -no SOURCE " + where + "))"); !strings.Contains(got, "virtio-scsi") {
		t.Errorf("%s", got)
	}
}
