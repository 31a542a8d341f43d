//go:build vm

package system

import (
	"slices"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestTwoPaths checks two paths to one blank disk. hotmount formats one path, and does not open the other for writing.
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
		m.wait("one of the paths to be mounted", "findmnt -n /dev/"+names[0]+" || findmnt -n /dev/"+names[1])
		first, second := 0, 1
		if m.run("findmnt -n /dev/"+names[0]+" || [ $? = 1 ]") == "" {
			first, second = second, first
		}
		name, other := names[first], names[second]
		uuid, world := m.mounted(name), m.run("cat /sys/block/"+name+"/device/wwid")
		m.says("^/dev/" + other + " .*hold: it looks blank, and another disk has its WWN " + world + ": " + name + " .*second path.*multipathd")
		formats := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.WWN != world })
		if len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
			t.Errorf("%s has the filesystem %s, and the formats are %+v", name, uuid, formats)
		}
		m.untouched(other)
		// Now udev has seen the filesystem on the other path.
		m.run("udevadm trigger --action=change /dev/" + other)
		m.says("^/dev/" + other + " .*refuse: it has the UUID " + uuid + " of another disk: " + name + " .*WWN " + world + ".*second path to it.*multipathd")
		m.untouched(other)
		m.detach(w, ids[second])
		// This is another disk with the same WWN. Only the operator can know that it is another disk.
		another, anotherID := m.attach(w, worker.Disk{Bus: worker.BusSCSI, File: blank(t, 320<<20), Device: map[string]any{"wwn": wwn}})
		m.lift(another, "same-wwn")
		m.mounted(another)
		m.detach(w, anotherID)
		m.detach(w, ids[first])
		m.wait("the mount to go", "! findmnt -n /mnt/disks/"+uuid)
	}
}
