//go:build vm

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestFastAndSlow checks the example configuration with fast, slow and block classes. Each of six disks on virtio,
// virtio-scsi and NVMe gets the right class. hotmount formats the blank disks of the fast and slow classes, and leaves
// excluded disks alone. `hotmount explain` shows why a disk is excluded. The command examines the attached disk, or the
// saved output of `hotmount explain --facts`. A reload applies the whole configuration with its drop-ins, or nothing of
// it.
func TestFastAndSlow(t *testing.T) {
	m, w := start(t, worker.Options{})
	example, err := os.ReadFile("../../packaging/examples/fast-slow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.run("mkdir -p /var/lib/disks/ssd /var/lib/disks/hdd /var/lib/disks/block /etc/hotmount/config.d && cat >/etc/hotmount/config.yaml <<'X'\n" + string(example) +
		"X\nprintf '[Service]\\nReadWritePaths=/var/lib/disks\\n' >/etc/systemd/system/hotmount.service.d/disks.conf\n" +
		"printf 'classes:\\n- {name: ssd, mkfs_options: [\"-i size=1024\"], root_owner: \"1000:2000\", root_mode: \"2770\"}\\n- {name: hdd, create: ext4, root_owner: \"7:8\", root_mode: \"2770\", mkfs_options: [\"-m 0\"]}\\n' >/etc/hotmount/config.d/10-root.yaml\n" +
		"hotmount config check && systemctl daemon-reload && systemctl restart hotmount")

	type where struct{ name, directory string }
	var all []where
	attach := func(serial string, bus worker.Bus, file, directory string) string {
		name, _ := m.attach(w, worker.Disk{File: file, Serial: serial, Bus: bus})
		all = append(all, where{name, directory})
		return name
	}
	attach("FAST-1", worker.BusNVMe, blank(t, gib), "/var/lib/disks/ssd")
	attach("FAST-2", worker.BusNVMe, made(t, gib), "/var/lib/disks/ssd")
	// debugfs sets the mode of the root directory. In this test, a program that fails replaces debugfs. The ext4
	// filesystem is therefore complete except for the mode of its root directory, so hotmount does not mount the
	// filesystem.
	m.run("mount --bind /bin/false /usr/sbin/debugfs")
	slow := attach("SLOW-1", worker.BusSCSI, blank(t, gib), "/var/lib/disks/hdd")
	m.waitForLog("/dev/" + slow + ".* cannot run /usr/sbin/debugfs .*: exit code 1")
	if got := m.run("blkid -p -o value -s TYPE /dev/" + slow + "; findmnt -n /dev/" + slow + " || true; touch /etc/hotmount/hold; umount /usr/sbin/debugfs; systemctl reload hotmount"); got != "ext4" {
		t.Errorf("without the mode: %s", got)
	}
	// hotmount does not set the root directory's mode while the hold file forbids formatting.
	m.waitForLog("/dev/" + slow + ".* cannot finish the ext4 on .*: hotmount formats no disk: /etc/hotmount/hold exists")
	if got := m.run("debugfs -R 'stat <2>' /dev/" + slow + " 2>/dev/null | grep -o 'Mode: *0755'; findmnt -n /dev/" + slow + " || true; rm /etc/hotmount/hold; systemctl reload hotmount"); got != "Mode:  0755" {
		t.Errorf("with the hold file: %s", got)
	}
	attach("SLOW-2", worker.BusVirtio, made(t, gib), "/var/lib/disks/hdd")
	rawDisk := attach("RAW-1", worker.BusSCSI, blank(t, gib), "")
	left := attach("BACKUP-1", worker.BusVirtio, made(t, gib), "")
	for _, d := range all {
		if d.directory == "" {
			continue
		}
		m.wait(d.name+" mounted", "findmnt -n /dev/"+d.name)
		if path := m.run("findmnt -no TARGET /dev/" + d.name); !strings.HasPrefix(path, d.directory+"/") || !uuidPattern.MatchString(path[len(d.directory)+1:]) {
			t.Errorf("%s is mounted at %s, not in %s", d.name, path, d.directory)
		}
	}
	if got := m.run("p=$(findmnt -no TARGET /dev/" + all[0].name + "); stat -c '%u:%g %a' $p; xfs_info $p | grep -o isize=[0-9]*"); got != "1000:2000 2770\nisize=1024" {
		t.Errorf("the root of %s: %s", all[0].name, got)
	}
	if got := m.run("p=$(findmnt -no TARGET /dev/" + all[2].name + "); stat -c '%u:%g %a' $p; findmnt -no FSTYPE $p; dumpe2fs -h /dev/" + all[2].name + " 2>/dev/null | grep -oE 'Reserved block count: .*' | tr -s ' '"); got != "7:8 2770\next4\nReserved block count: 0" {
		t.Errorf("the ext4 of %s: %s", all[2].name, got)
	}
	m.wait("the link to "+rawDisk, "[ $(readlink -f /var/lib/disks/block/scsi-RAW-1) = /dev/"+rawDisk+" ]")
	if got := m.run("ls /var/lib/disks/ssd /var/lib/disks/hdd /var/lib/disks/block | grep -c -e - ; findmnt -n /dev/" + left + " || true"); got != "5" {
		t.Errorf("in the directories: %s", got)
	}

	// `hotmount explain` shows why the disk is excluded.
	m.wait("the excluded disk to be ignored", "hotmount plan | grep -E '^"+left+" .*ignore .*excludes the disk'")
	explained := m.run("hotmount explain " + left)
	for _, want := range []string{"exclude[0] matches the disk", "yes  serial: BACKUP-*: found BACKUP-1", "NO   transport: nvme: found virtio", "Decision: ignore: the configuration excludes the disk"} {
		if !strings.Contains(explained, want) {
			t.Errorf("no %q in\n%s", want, explained)
		}
	}
	if there := m.run("hotmount explain " + left + " --facts >/tmp/facts && hotmount explain --from /tmp/facts"); there != explained {
		t.Errorf("from the dump:\n%s\nhere:\n%s", there, explained)
	}

	// A reload applies the whole configuration or nothing of it.
	m.run("printf 'exclude: []\\nclasses:\\n- {name: hdd, blank: fool}\\n' >/etc/hotmount/config.d/50-bad.yaml; systemctl reload hotmount")
	m.waitForLog(`cannot reload, and the old settings stay in use: /etc/hotmount/config.d/50-bad.yaml:3: classes\[0\].blank: found "fool"`)
	if out, err := m.Run(ctx(t), "hotmount config check"); err == nil || !strings.Contains(fmt.Sprint(out, err), "50-bad.yaml:3") {
		t.Errorf("the check says %s, %v", out, err)
	}
	m.run("printf 'classes:\\n- {name: hdd, options: [nodev]}\\n' >/etc/hotmount/config.d/50-bad.yaml; hotmount config show | grep -E 'options: \\[\"nodev\"\\] +# /etc/hotmount/config.d/50-bad.yaml:2'; systemctl reload hotmount")
	name := attach("SLOW-3", worker.BusSCSI, made(t, gib), "/var/lib/disks/hdd")
	m.wait(name+" mounted with the new options", "findmnt -no OPTIONS /dev/"+name+" | grep nodev | grep -v nosuid")

	// A mounted volume keeps its class, even if another class now selects the volume's disk. After the operator
	// releases the volume, the disk has two holds: one for the release, and one for the new class. The first accept
	// lifts only the hold for the release.
	moved := all[3].name
	m.run("printf 'classes:\\n- {name: ssd, transport: [nvme, virtio]}\\n' >/etc/hotmount/config.d/60-moved.yaml; systemctl reload hotmount; hotmount plan | grep -E '^" + moved + " .*keep'; hotmount release " + moved + "; hotmount accept " + moved)
	m.wait("the volume to be held", "hotmount plan | grep -E '^"+moved+" .*hold .*the disk was a volume of class hdd '")
	m.run("hotmount accept " + moved)
	m.wait("the volume of its new class", "findmnt -no TARGET /dev/"+moved+" | grep ^/var/lib/disks/ssd/")
}

// TestThreeClasses attaches six disks on three buses, some blank and some with a filesystem. Each disk is mounted in
// its class's directory, or given out there as a block volume. The stand-in for the provisioner creates a volume for
// each disk. No class selects the excluded disk or the disk that is too small.
func TestThreeClasses(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.example("fast-slow.yaml")
	m.run(`mkdir -p /var/lib/disks/ssd /var/lib/disks/hdd /var/lib/disks/block
		hotmount config apply-sandbox
		systemctl daemon-reload; systemctl restart hotmount
		hotmount provisioner values >/root/values.yaml; hotmount provisioner check /root/values.yaml`)
	m.provision(w, "local-ssd:Filesystem:/var/lib/disks/ssd local-hdd:Filesystem:/var/lib/disks/hdd local-block:Block:/var/lib/disks/block")
	excluded, _ := m.attach(w, worker.Disk{File: made(t, gib), Serial: "BACKUP-1"})
	small, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "SMALL"})
	want := map[string]string{}
	for class, disks := range map[string][]worker.Disk{
		"ssd":   {{Bus: worker.BusNVMe, File: blank(t, 320<<20), Serial: "NVME-1"}, {Bus: worker.BusNVMe, File: made(t, 320<<20), Serial: "NVME-2"}},
		"block": {{Bus: worker.BusSCSI, File: blank(t, 320<<20), Serial: "RAW-1"}, {Bus: worker.BusSCSI, File: blank(t, 320<<20), Serial: "RAW-2"}},
		"hdd":   {{Bus: worker.BusSCSI, File: made(t, gib), Serial: "SCSI-1"}, {Bus: worker.BusVirtio, File: blank(t, gib), Serial: "VIRTIO-1"}},
	} {
		for _, d := range disks {
			name, _ := m.attach(w, d)
			want[name] = class
			if class == "block" {
				want[name] += "/scsi-" + d.Serial
			}
		}
	}
	for name, where := range want {
		class, link, block := strings.Cut(where, "/")
		if block {
			m.wait(name+" to be given out", "[ $(readlink -f /var/lib/disks/block/"+link+") = /dev/"+name+" ]")
			m.volume(link, "local-block", 0)
			continue
		}
		m.wait(name+" to be mounted", "findmnt -n /dev/"+name)
		path := m.run("findmnt -no TARGET /dev/" + name)
		uuid, found := strings.CutPrefix(path, "/var/lib/disks/"+class+"/")
		if !found || !uuidPattern.MatchString(uuid) {
			t.Errorf("%s of class %s is mounted at %s", name, class, path)
			continue
		}
		m.volume(uuid, "local-"+class, 0)
	}
	if got := m.run("ls /var/lib/disks/* | grep -c -- -; grep -c ' created ' /var/lib/standin/log; systemctl show -p StatusText --value hotmount"); got != "6\n6\n4 mounted, 0 held, 0 refused, 0 failing, 2 given out" {
		t.Errorf("got %s", got)
	}
	plan := m.run("hotmount plan")
	for _, name := range []string{excluded, small} {
		if !regexpLine(plan, "^"+name+" .*ignore ") {
			t.Errorf("%s is not ignored:\n%s", name, plan)
		}
	}

	// Every selector of the class in odd.yaml matches the disk.
	m.run(`mkdir -p /etc/hotmount/config.d /var/lib/disks/odd; cat >/etc/hotmount/config.d/odd.yaml <<'X'
classes:
  - name: odd
    directory: /var/lib/disks/odd
    names: ["sd*"]
    transport: [scsi]
    serial: ["re:ODD-[0-9]"]
    wwn: ["naa.5000c50015ea71ac"]
    model: ["ODD MODEL"]
    vendor: [ACME]
    by_path: ["pci-*-scsi-*"]
    size: ..400MiB
    rotational: false
    removable: true
    logical_sector: [4096]
X
		hotmount config apply-sandbox; systemctl daemon-reload; systemctl restart hotmount`)
	odd, _ := m.attach(w, worker.Disk{Bus: worker.BusSCSI, File: blank(t, 320<<20), Serial: "ODD-1", LogicalBlockSize: 4096,
		Device: map[string]any{"wwn": 0x5000c50015ea71ac, "product": "ODD MODEL", "vendor": "ACME", "rotation_rate": 1, "removable": true}})
	m.wait(odd+" to be mounted", "findmnt -n /dev/"+odd)
	if path := m.run("findmnt -no TARGET /dev/" + odd); !strings.HasPrefix(path, "/var/lib/disks/odd/") {
		t.Errorf("%s is mounted at %s: %s", odd, path, m.run("hotmount explain "+odd))
	}
	explained := m.run("hotmount explain " + odd + " | sed -n '/^Class odd/,/^[^ ]/p'")
	if n := strings.Count(explained, "\n  yes  "); n != 11 || strings.Contains(explained, "  NO  ") {
		t.Errorf("%d selectors hold: %s", n, explained)
	}
}

// TestDropIns checks that hotmount validates drop-ins and merges them in the order of their names. `hotmount config
// show` shows the file and the line of each value. A reload applies all drop-ins or none. hotmount explains the effect
// of the configuration on a disk, even after the disk is gone.
func TestDropIns(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`mkdir -p /etc/hotmount/config.d; cd /etc/hotmount
		printf 'classes:\n- name: main\n  directory: /mnt/disks\n  serial: ["DATA-*"]\n' >config.yaml
		printf 'classes:\n- name: main\n  options: [nodev, noexec]\n  mkfs_options: ["-i size=1024"]\n  root_owner: "1000:2000"\n  root_mode: "2770"\n' >config.d/10-a.yaml
		printf 'exclude:\n- serial: ["re:DATA-OLD.*"]\n' >config.d/20-b.yaml
		hotmount config check; systemctl reload hotmount`)
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "DATA-1"})
	uuid := m.mounted(name)
	if got := m.run("findmnt -no OPTIONS /dev/" + name); !strings.Contains(got, "noexec") {
		t.Errorf("mounted with %s", got)
	}
	show := m.run("hotmount config show")
	for _, line := range []string{`  - name: "main" .*# /etc/hotmount/config.d/10-a.yaml:2`, `    serial: \["DATA-\*"\] .*# /etc/hotmount/config.yaml:4`,
		`    options: .*"noexec".*# /etc/hotmount/config.d/10-a.yaml:3`, `    grow: true .*# default`} {
		if !regexpLine(show, "^"+line+"$") {
			t.Errorf("no line %s in\n%s", line, show)
		}
	}

	// hotmount applies no part of a configuration with a fault.
	m.run(`printf 'format: false\nclasses:\n- name: main\n  sreial: [X]\n' >/etc/hotmount/config.d/30-c.yaml; systemctl reload hotmount`)
	const fault = `/etc/hotmount/config.d/30-c.yaml:4: classes\[0\].sreial: unknown key, did you mean "serial"\?`
	m.waitForLog("cannot reload, and the old settings stay in use: " + fault)
	if got := m.run("hotmount config check || echo $?"); !regexpLine(got, "^"+fault+"$") || !strings.HasSuffix(got, "\n3") {
		t.Errorf("hotmount config check: %s", got)
	}
	fresh, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "DATA-2"})
	own := m.mounted(fresh) // the disk is formatted, so format: false was not applied
	if got := m.run("stat -c '%a %u:%g' /mnt/disks/" + own + "; xfs_info /mnt/disks/" + own + " | grep -o isize=1024"); got != "2770 1000:2000\nisize=1024" {
		t.Errorf("the filesystem that was made has %s", got)
	}
	if got := m.run("findmnt -no TARGET /dev/" + name); got != "/mnt/disks/"+uuid {
		t.Errorf("mounted at %s", got)
	}
	m.run("rm /etc/hotmount/config.d/30-c.yaml")

	old, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "DATA-OLD-1"})
	m.wait("udev", "udevadm settle; [ -e /dev/disk/by-id/virtio-DATA-OLD-1 ]")
	told := m.run("hotmount explain " + old)
	for _, line := range []string{`exclude\[0\] matches the disk: no class can use the disk\.`, `  yes  serial: re:DATA-OLD\.\*: found DATA-OLD-1`, `  yes  serial: DATA-\*: found DATA-OLD-1`, `Decision: ignore: .*`} {
		if !regexpLine(told, "^"+line+"$") {
			t.Errorf("no line %s in\n%s", line, told)
		}
	}
	m.run("hotmount explain --facts " + old + " >/root/dump")
	m.detach(w, id)
	m.wait(old+" to go", "[ ! -e /sys/block/"+old+" ]")
	if later := m.run("rm -r /etc/hotmount/config.*; hotmount explain --from /root/dump"); later != told {
		t.Errorf("without the disk and its configuration:\n%s\nand with them:\n%s", later, told)
	}
}

// TestPartitionOfAUsedDisk checks a partition that somebody makes on a disk after somebody else has used the whole
// disk. hotmount holds the partition, even after a restart, until the operator accepts the partition. After the accept,
// a new filesystem on the partition is not held.
func TestPartitionOfAUsedDisk(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	m.example("partitions.yaml")
	used, _ := m.attach(w, worker.Disk{File: made(t, 640<<20), Serial: "USED"})
	m.run("udevadm settle; mkdir /srv/guest; mount /dev/" + used + " /srv/guest; systemctl start hotmount")
	m.wait("the record of the use", "grep -q 'mounted at /srv/guest' /var/lib/hotmount/state.json")
	m.run("umount /srv/guest; wipefs -qa /dev/" + used + "; printf 'label: gpt\n,500M\n' | sfdisk -q -w always /dev/" + used + "; udevadm settle")
	m.waitForLog("/dev/" + used + "1" + usedHold + "mounted at /srv/guest")
	m.run("systemctl restart hotmount")
	m.checkStatus(used + "1 .*held")
	m.run("! findmnt /dev/" + used + "1")
	m.run("hotmount accept " + used + "1")
	m.waitForLog("/dev/" + used + "1 .*refuse: hotmount never formats partitions")
	m.run("mkfs.xfs -q /dev/" + used + "1")
	m.mounted(used + "1")
}

// TestPartitions checks a disk that another installer has partitioned. The node uses the example configuration
// partitions.yaml. Partitions with a filesystem are mounted. A partition without a filesystem is refused and not
// written to, and the disk is not reported as a problem. A release of one partition leaves the other partitions
// mounted.
//
// After a reboot hotmount mounts the partitions again. When the disk is detached, all its mounts disappear. A guest may
// make a filesystem on a partition of its raw volume. Before and after the reboot, hotmount mounts no filesystem that a
// guest made.
func TestPartitions(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	m.example("partitions.yaml")
	file := blank(t, 2*gib)
	name, id := m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	m.run("printf 'label: gpt\n,600M\n,600M\n,600M\n' | sfdisk -q -w always /dev/" + name + "; udevadm settle; mkfs.xfs -q /dev/" + name + "1; mkfs.ext4 -q /dev/" + name + "2; udevadm settle; sync")
	m.detach(w, id)
	m.run("mkdir -p /var/lib/disks/block; cat >>/etc/hotmount/config.yaml <<'X'\n  - name: raw\n    serial: [RAW-1]\n    directory: /var/lib/disks/block\n    mode: block\nX\nhotmount config check && systemctl start hotmount")
	guest, guestID := m.attach(w, worker.Disk{File: blank(t, gib), Serial: "RAW-1"})
	isRaw := func() {
		t.Helper()
		m.wait("the link", "[ $(readlink -f /var/lib/disks/block/virtio-RAW-1) = /dev/"+guest+" ]")
		m.wait("the partition to be left alone", "hotmount plan | grep -E '^"+guest+"1 .*ignore .*the disk is a partition of "+guest+", and class raw, which comes earlier, selects the whole disk' && ! findmnt /dev/"+guest+"1")
	}
	m.wait("the link", "[ -e /var/lib/disks/block/virtio-RAW-1 ]")
	m.run("printf 'label: gpt\n,600M\n' | sfdisk -q -w always /dev/" + guest + "; udevadm settle; mkfs.xfs -q /dev/" + guest + "1; udevadm settle; sync")
	isRaw()
	for _, want := range []string{"Class partitions does not apply: another class has given the disk out as a block volume", "Class raw has the partition's disk " + guest + ".\n  yes  serial: RAW-1: found RAW-1\n"} {
		if got := m.run("hotmount explain " + guest + "1"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	name, id = m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	one, two := m.mounted(name+"1"), m.mounted(name+"2")
	m.run("echo 1 >/mnt/disks/" + one + "/number; echo 2 >/mnt/disks/" + two + "/number")
	m.run("grep -x What=/dev/disk/by-diskseq/$(cat /sys/block/" + name + "/diskseq)-part1 '/run/systemd/transient/" + unitOf(one) + "'")
	// Partitions stay mounted when no class selects them any more. A restart of the daemon would not unmount the
	// partitions either.
	m.run("cp /etc/hotmount/config.yaml /root/config.yaml; : >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.wait("the partitions to be left alone", "! hotmount status | grep '^"+name+"[12] '")
	m.run("cp /root/config.yaml /etc/hotmount/config.yaml; systemctl reload hotmount; hotmount rescan")
	if got := m.run("cat /mnt/disks/" + one + "/number /mnt/disks/" + two + "/number; ! journalctl -b -o cat -u hotmount | grep '" + name + "[12].* gone'"); got != "1\n2" {
		t.Errorf("after a configuration without partitions: %s", got)
	}
	plan := m.run("hotmount plan")
	for _, want := range []string{
		"^" + name + " .*ignore +a class selects the disk's partitions instead of the disk: " + name + "1, " + name + "2, " + name + "3",
		"^" + name + "1 .*PARTED-part1 +keep", "^" + name + "2 .*keep",
		"^" + name + "3 .*refuse +hotmount never formats partitions, and this partition has no finished filesystem",
		"^vda .*ignore +the disk carries the system",
	} {
		if !regexpLine(plan, want) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
	if got := m.run("hotmount format " + name + "3 2>&1 || true"); !strings.Contains(got, "never formats partitions") {
		t.Errorf("a partition can be formatted: %s", got)
	}
	if got := m.run("cat /sys/block/" + name + "/" + name + "3/stat | awk '{print $5+$12}'"); got != "0" {
		t.Errorf("%s writes to the third partition", got)
	}

	m.run("hotmount release " + name + "1")
	if got := m.run("findmnt -n /dev/" + name + "1 || true; cat /mnt/disks/" + two + "/number"); got != "2" {
		t.Errorf("after the release: %s", got)
	}
	m.run("hotmount accept " + name + "1")
	m.mounted(name + "1")

	err := w.Reboot(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	if guest, err = w.BlockDevice(ctx(t), guestID); err != nil {
		t.Fatal(err)
	}
	isRaw()
	if again := m.mounted(name+"1") + m.mounted(name+"2") + m.run("cat /mnt/disks/"+one+"/number /mnt/disks/"+two+"/number"); again != one+two+"1\n2" {
		t.Errorf("after the reboot: %s", again)
	}
	m.detach(w, id)
	m.wait("the mounts to go", "! [ -e /mnt/disks/"+one+" ] && ! [ -e /mnt/disks/"+two+" ]")
	if got := m.run("journalctl -b -o cat -u hotmount -p err -q --no-pager"); got != "" {
		t.Errorf("the journal has errors: %s", got)
	}

	// The disk is pulled while one process has a file open on the first partition. Another process has mounted the
	// second partition in its own mount namespace.
	name, id = m.attach(w, worker.Disk{File: file, Serial: "PARTED"})
	m.mounted(name + "1")
	m.mounted(name + "2")
	m.run(fmt.Sprintf("systemd-run -q --unit=one sh -c 'exec 3</mnt/disks/%s/number; exec sleep 1001'; systemd-run -q --unit=two unshare --mount --propagation private sh -c 'mount --bind /mnt/disks/%s /srv; umount /mnt/disks/*; exec sleep 1002'", one, two))
	m.wait("both", "pgrep -f '^sleep 1001' && pgrep -f '^sleep 1002'")
	m.run("systemctl stop hotmount")
	if err := w.DetachSurprise(ctx(t), id); err != nil {
		t.Fatal(err)
	}
	for uuid, holder := range map[string]string{one: "(sleep): has a file open", two: "(sleep): mounted at /srv in its mount namespace"} {
		m.wait("mount and directory to go, and the holder's name", fmt.Sprintf("! findmnt /mnt/disks/%[1]s && [ ! -e /mnt/disks/%[1]s ] && journalctl -b -o cat --no-pager -u %[2]s | grep -F %[3]s", uuid, quote(unitOf(uuid)), quote(holder)))
	}
}

// TestLogicalVolumes checks that ten logical volumes of 5 GiB, selected by name, are formatted and mounted. Volumes
// with other names on the same disk are not formatted. After a reboot the ten volumes are mounted again. The node uses
// the example configuration lvm.yaml.
func TestLogicalVolumes(t *testing.T) {
	m, w := start(t, worker.Options{})
	example, err := os.ReadFile("../../packaging/examples/lvm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.run("cat >/etc/hotmount/config.yaml <<'X'\n" + string(example) + "X\nhotmount config check && systemctl reload hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 60*gib), Serial: "VG"})
	m.run("udevadm settle; pvcreate -q /dev/" + name + " && vgcreate -q vg0 /dev/" + name + " && lvcreate -q -y -n other -L 1G vg0")
	// The volume disk1 has old data, like a volume that was in use before.
	m.run("lvcreate -q -y -n disk1 -L 5G vg0 && echo old | dd of=/dev/vg0/disk1 bs=1M seek=100 conv=fsync status=none")
	m.run("for i in 2 3 4 5 6 7 8 9 10; do lvcreate -q -y -n disk$i -L 5G vg0; done")
	// LVM hides a new volume from udev at first. Sometimes udev gets no event when LVM stops hiding the volume. In this
	// case, the remedy that hotmount prints must help.
	m.run("udevadm settle; journalctl -b -o cat --no-pager -u hotmount | sed -n 's/.*: wait: .*if udev does not finish: //p' | sort -u | sh -ex")
	const ten = "[ $(findmnt -rno TARGET,SOURCE -t xfs | grep -c '^/mnt/disks/') = 10 ]"
	m.waitMinutes(3, "ten filesystems", ten)
	m.run("for i in 1 2 3 4 5 6 7 8 9 10; do p=$(findmnt -no TARGET /dev/vg0/disk$i) && echo $i >$p/number; done")
	other := m.run("basename $(readlink -f /dev/vg0/other)")
	if got := m.run("hotmount plan | grep -E '^" + other + " '; findmnt -n /dev/vg0/other || true; blkid -p /dev/vg0/other || true"); !strings.Contains(got, "no class selects the disk") || strings.Contains(got, "xfs") {
		t.Errorf("the other volume: %s", got)
	}
	if got := m.run("hotmount explain " + other); !strings.Contains(got, "NO   mapper_names: vg0-disk*: found vg0-other") || !strings.Contains(got, "yes  names: dm-*: found "+other) {
		t.Error(got)
	}
	// During lvextend systemd may treat a volume as unplugged and unmount it. hotmount does not treat systemd's unmount
	// as an unmount by hand, and mounts the grown volume at the same path.
	first := m.run("findmnt -no TARGET /dev/vg0/disk1")
	m.run("lvextend -q -y -L +1G vg0/disk1 && udevadm settle")
	m.waitMinutes(3, "the first to be grown", "findmnt "+first+" && [ $(stat -f -c '%b * %S' "+first+" | xargs expr) -ge 6200000000 ] && [ $(cat "+first+"/number) = 1 ]")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.waitMinutes(3, "ten filesystems after the reboot", ten)
	if got := m.run("for i in 1 2 3 4 5 6 7 8 9 10; do cat $(findmnt -no TARGET /dev/vg0/disk$i)/number; done | tr '\\n' ' '"); got != "1 2 3 4 5 6 7 8 9 10" {
		t.Errorf("after the reboot: %s", got)
	}
	// The mounts stay when the package is removed, even when udev processes the volumes again without hotmount's rule.
	// After a later installation and an accept, the volumes are mounted again, although they existed before the
	// installation.
	m.run("dpkg -r hotmount && udevadm control --reload && udevadm trigger --action=change --subsystem-match=block && udevadm settle")
	m.run(ten + " && ! ls /dev/disk/by-diskseq/$(cat /sys/class/block/$(basename $(readlink -f /dev/vg0/disk1))/diskseq) && umount /mnt/disks/*-*")
	if err := w.Put(ctx(t), nextDeb(t), "/root/next.deb"); err != nil {
		t.Fatal(err)
	}
	// The volumes are held, because they were unmounted by hand. hotmount can mount accepted volumes only because the
	// installation has made udev process the volumes again.
	m.run("dpkg -i /root/next.deb >/dev/null 2>&1")
	m.waitMinutes(3, "all to be held", "[ $(hotmount plan | grep -c 'hold .*somebody unmounted the disk by hand') = 10 ]")
	m.run("for i in 1 2 3 4 5 6 7 8 9 10; do hotmount accept $(basename $(readlink -f /dev/vg0/disk$i)); done")
	m.waitMinutes(3, "ten filesystems after the installation", ten)
}

// TestClassDirectory checks that nobody can write to a mount point while nothing is mounted there. Foreign files and
// directories in the class directory are reported. hotmount neither deletes foreign files and directories nor mounts
// over them. hotmount removes empty mount points that are not in use.
func TestClassDirectory(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "STRAY"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	if got := m.run("mkdir /root/below; mount --bind / /root/below; touch /root/below" + where + "/f 2>&1 || true; umount /root/below"); !strings.Contains(got, "not permitted") {
		t.Errorf("a write below the mount is possible: %q", got)
	}
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e "+where+" ]")

	// The directory contains the file f, but is otherwise like a mount point that hotmount makes.
	m.run("mkdir " + where + "; echo precious >" + where + "/f; touch " + where + "/not-mounted; chattr +i " + where + "/not-mounted " + where + "; mkfifo /mnt/disks/pipe; ln -s /etc /mnt/disks/link; mkdir /mnt/disks/11111111-2222-4333-8444-555555555555 /mnt/disks/nested; mount -t tmpfs none /mnt/disks/nested; systemctl reload hotmount")
	m.waitForLog("nothing is mounted at " + where + ", but the directory has files .for example f.")
	m.waitForLog("/mnt/disks/pipe is a FIFO")
	m.waitForLog("/mnt/disks/link is a symlink")
	m.waitForLog("/mnt/disks/nested .*mount")
	m.run("umount /mnt/disks/nested; rmdir /mnt/disks/nested")
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "STRAY"})
	m.waitForLog("/dev/" + name + " .*cannot make the mount point " + where + ".*not empty")
	// At boot, unused mount points are removed before kubelet starts, even if the daemon cannot start.
	m.run(kubelet + "; echo 'nonsense: true' >/etc/hotmount/config.yaml; rm /var/lib/hotmount/settings.yaml; ls -d /mnt/disks/11111111-2222-4333-8444-555555555555; sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon to give up", "systemctl is-failed hotmount || systemctl show -p NRestarts --value hotmount | grep -v '^0$'")
	m.wait("kubelet", "systemctl is-active kubelet")
	if got := m.run("cat /root/kubelet-saw"); got != uuid+"\nlink\npipe" && got != "link\npipe\n"+uuid {
		t.Errorf("at a boot with a broken configuration kubelet saw %s", got)
	}
	m.run("rm /etc/hotmount/config.yaml; systemctl reset-failed hotmount; systemctl restart hotmount")
	m.waitForLog("nothing is mounted at " + where + ", but the directory has files")
	if got := m.run("cat " + where + "/f; findmnt -n " + where + " || true; ls /mnt/disks"); got != "precious\n"+uuid+"\nlink\npipe" && got != "precious\nlink\npipe\n"+uuid {
		t.Errorf("after a reboot: %s", got)
	}
	name = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"STRAY\" {print $1}'")
	// The daemon retries the mount by itself after growing delays. The test freezes the daemon, so that the daemon does
	// not retry the mount in the middle of the remedy.
	remedy := m.run("journalctl -b -u hotmount -o cat --no-pager | sed -n 's|^nothing is mounted at " + where + ", but .*; move the files away; ||p' | tail -n 1")
	m.run("systemctl freeze hotmount")
	m.wait("the daemon's jobs of systemd", "[ -z \"$(systemctl list-jobs --no-legend)\" ]")
	m.run("chattr -i " + where + "; rm " + where + "/f; sh -exc '" + remedy + "'; [ ! -e " + where + " ]; systemctl thaw hotmount; systemctl reload hotmount")
	m.mounted(name)
}
