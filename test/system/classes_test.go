//go:build vm && (long || full)

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestFastAndSlow: the example with fast, slow and block classes puts six disks,
// of virtio, virtio-scsi and NVMe, into their places, blank ones formatted; what is
// excluded is left alone and explained, here and from a dump; a reload takes all or
// nothing, drop-ins included.
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
	// What sets the mode fails: the ext4, which is whole, is not mounted before it has it.
	m.run("mount --bind /bin/false /usr/sbin/debugfs")
	slow := attach("SLOW-1", worker.BusSCSI, blank(t, gib), "/var/lib/disks/hdd")
	m.says("/dev/" + slow + ".* cannot run /usr/sbin/debugfs .*: exit code 1")
	if got := m.run("blkid -p -o value -s TYPE /dev/" + slow + "; findmnt -n /dev/" + slow + " || true; touch /etc/hotmount/hold; umount /usr/sbin/debugfs; systemctl reload hotmount"); got != "ext4" {
		t.Errorf("without the mode: %s", got)
	}
	// Nor is it set while nothing may be formatted.
	m.says("/dev/" + slow + ".* cannot finish the ext4 on .*: nothing is formatted: /etc/hotmount/hold exists")
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

	// Why not.
	m.wait("the excluded disk to be ignored", "hotmount plan | grep -E '^"+left+" .*ignore .*excludes it'")
	explained := m.run("hotmount explain " + left)
	for _, want := range []string{"exclude[0] holds for it", "yes  serial: BACKUP-*: found BACKUP-1", "NO   transport: nvme: found virtio", "Decision: ignore: the configuration excludes it"} {
		if !strings.Contains(explained, want) {
			t.Errorf("no %q in\n%s", want, explained)
		}
	}
	if there := m.run("hotmount explain " + left + " --facts >/tmp/facts && hotmount explain --from /tmp/facts"); there != explained {
		t.Errorf("from the dump:\n%s\nhere:\n%s", there, explained)
	}

	// All or nothing.
	m.run("printf 'exclude: []\\nclasses:\\n- {name: hdd, blank: fool}\\n' >/etc/hotmount/config.d/50-bad.yaml; systemctl reload hotmount")
	m.says(`cannot reload, the settings stay as they were: /etc/hotmount/config.d/50-bad.yaml:3: classes\[0\].blank: found "fool"`)
	if out, err := m.Run(ctx(t), "hotmount config check"); err == nil || !strings.Contains(fmt.Sprint(out, err), "50-bad.yaml:3") {
		t.Errorf("the check says %s, %v", out, err)
	}
	m.run("printf 'classes:\\n- {name: hdd, options: [nodev]}\\n' >/etc/hotmount/config.d/50-bad.yaml; hotmount config show | grep -E 'options: \\[\"nodev\"\\] +# /etc/hotmount/config.d/50-bad.yaml:2'; systemctl reload hotmount")
	name := attach("SLOW-3", worker.BusSCSI, made(t, gib), "/var/lib/disks/hdd")
	m.wait(name+" mounted with the new options", "findmnt -no OPTIONS /dev/"+name+" | grep nodev | grep -v nosuid")

	// A volume that another class selects stays what it is, and is then held: also when
	// it was accepted for something else.
	moved := all[3].name
	m.run("printf 'classes:\\n- {name: ssd, transport: [nvme, virtio]}\\n' >/etc/hotmount/config.d/60-moved.yaml; systemctl reload hotmount; hotmount plan | grep -E '^" + moved + " .*keep'; hotmount release " + moved + "; hotmount accept " + moved)
	m.wait("the volume to be held", "hotmount plan | grep -E '^"+moved+" .*hold .*it was a volume of class hdd '")
	m.run("hotmount accept " + moved)
	m.wait("the volume of its new class", "findmnt -no TARGET /dev/"+moved+" | grep ^/var/lib/disks/ssd/")
}
