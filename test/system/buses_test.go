//go:build vm && full

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestThreeClasses: six disks on three buses, blank and with a filesystem, each in
// its class's directory, and published by what plays the provisioner with the values
// that hotmount prints; one that is excluded and one that is too small for its class
// in none.
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

	// A disk of which every selector tells something.
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
