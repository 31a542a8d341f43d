//go:build vm

package system

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// onePath checks that hotmount formats and mounts one of two paths to a blank disk, and holds the other path. identity
// is the serial or the WWN of both paths, as hotmount shows it. onePath returns the positions of the mounted and the
// held path in names, and the filesystem's UUID.
func (m machine) onePath(names []string, identity string) (first, second int, uuid string) {
	m.t.Helper()
	m.wait("one of the paths to be mounted", "findmnt -n /dev/"+names[0]+" || findmnt -n /dev/"+names[1])
	first, second = 0, 1
	if m.run("findmnt -n /dev/"+names[0]+" || [ $? = 1 ]") == "" {
		first, second = second, first
	}
	name, other := names[first], names[second]
	uuid = m.mounted(name)
	m.says("^/dev/" + other + " .*hold: the disk looks blank, and another disk has the same " + identity + ": " + name + " .*second path.*multipathd")
	_, value, _ := strings.Cut(identity, " ")
	formats := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.WWN != value && r.Identity.Serial != value })
	if len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
		m.t.Errorf("%s has the filesystem %s, and the formats are %+v", name, uuid, formats)
	}
	m.untouched(other)
	// Now udev has seen the filesystem on the other path.
	m.run("udevadm trigger --action=change /dev/" + other)
	m.says("^/dev/" + other + " .*refuse: the disk has the UUID " + uuid + " of another disk: " + name + " .*" + identity + ".*second path to it.*multipathd")
	m.untouched(other)
	return first, second, uuid
}

// TestTwoPaths checks two paths to one blank disk. hotmount formats one path, and does not open the other path for
// writing. Only the WWN shows that both paths lead to one disk. The paths are hot-plugged together, or found together
// at the start of the daemon.
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
		// Another disk has the same WWN. Only the operator can know that two disks have one WWN.
		another, anotherID := m.attach(w, worker.Disk{Bus: worker.BusSCSI, File: blank(t, 320<<20), Device: map[string]any{"wwn": wwn}})
		m.lift(another, "same-wwn")
		m.mounted(another)
		m.detach(w, anotherID)
		m.detach(w, ids[first])
		m.wait("the mount to go", "! findmnt -n /mnt/disks/"+uuid)
	}
}

// nvmeTarget is a script that makes the node an NVMe target for one file, with two ports, and connects the node to both
// ports. The script's parameters are whether native multipath is on (Y or N), the file, the serial, and the namespace's
// UUID.
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
	// hotmount remembers that the filesystem was on two disks. The accept that hotmount prints says that it is on one.
	m.says("^/dev/nvme0n1 .*refuse: a disk with the same WWN .* was refused while another disk had the UUID " + uuid + ".*if this disk holds the same data as the other disk: hotmount accept nvme0n1 twin;")
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
