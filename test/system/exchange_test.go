//go:build vm && (long || full)

package system

import (
	"fmt"
	"testing"

	"hotmount/test/worker"
)

// TestExchange: on each bus whose driver gives names in a way of its own, a link to a
// block volume never leads to the disk that comes in its disk's place while udev is late.
// That of virtio is in TestBlockVolumes.
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
