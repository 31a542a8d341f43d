//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestVirtioSCSI checks disks on virtio-scsi. A disk that no class selects is reported once, with the class to add.
// With the built-in class the test covers hot-plug, resize, a copy, removal while busy, a reused target, and a power
// cut. A disk of another vendor is not selected. A class in block mode gets the disks that it selects, before the next
// class.
func TestVirtioSCSI(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter /var/lib/disks/block; printf 'classes:\\n  - name: default\\n    names: [\"vd*\"]\\n    directory: /mnt/disks\\n' >/etc/hotmount/config.yaml; systemctl restart hotmount")
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "DATA-1", Bus: worker.BusSCSI})
	said := "/dev/" + name + " .*ignore: no class selects the disk, and nothing uses it; .*: [{]name: extra, serial: [[]\"DATA-1\"[]], directory: /mnt/extra[}]"
	m.says(said)
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
	m.says("/dev/" + twin + " .*refuse: the disk has the UUID " + uuid)
	m.detach(w, twinID)

	// The next disk gets the target and the name of a disk that was pulled while it was busy. The unit does not use
	// WorkingDirectory=, with which systemd would stop the unit before the unmount.
	m.run("systemd-run --unit busy sh -c 'cd " + where + " && exec sleep infinity'")
	m.wait("the disk to be in use", "[ $(readlink /proc/$(systemctl show -P MainPID busy)/cwd) = "+where+" ]")
	m.detach(w, id)
	m.wait("the mount to go", "! findmnt "+where+" && ! [ -e "+where+" ]")
	other, otherID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "DATA-3", Bus: worker.BusSCSI})
	if got := m.mounted(other); got == uuid {
		t.Errorf("%s is mounted as %s", other, got)
	}
	m.run("systemctl stop busy")
	m.detach(w, otherID)

	cloud, cloudID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "CLOUD", Bus: worker.BusSCSI, Device: map[string]any{"vendor": "HC", "product": "Volume"}})
	m.wait("the cloud's disk to be of no class", "hotmount status | grep -E '^"+cloud+" .* ignored '")
	m.untouched(cloud)
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
