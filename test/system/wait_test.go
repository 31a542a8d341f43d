//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestWait: a service that needs a disk at boot waits for it.
func TestWait(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.run("hotmount wait " + uuid)
	m.detach(w, id)
	m.wait("the mount to go", "! findmnt /mnt/disks/"+uuid)
	if _, err := m.Run(ctx(t), "hotmount wait --timeout 1s "+uuid); err == nil || !strings.Contains(err.Error(), "cannot wait until "+uuid+" is mounted") {
		t.Errorf("waiting for a disk that is not there: %v", err)
	}
	m.run(fmt.Sprintf("systemd-run -q --no-block --unit=needs -p Requires=hotmount-wait@%[1]s.service -p After=hotmount-wait@%[1]s.service touch /mnt/disks/%[1]s/started", uuid))
	m.wait("the wait", "systemctl show -p ActiveState --value hotmount-wait@"+uuid+" | grep -q activating")
	m.attach(w, worker.Disk{File: image})
	m.wait("the service", "[ -e /mnt/disks/"+uuid+"/started ]")
	m.run(fmt.Sprintf(`cat >/etc/systemd/system/needs.service <<'X'
[Unit]
Requires=hotmount-wait@%[1]s.service
After=hotmount-wait@%[1]s.service
[Service]
Type=oneshot
ExecStart=/bin/touch /mnt/disks/%[1]s/booted
[Install]
WantedBy=multi-user.target
X
systemctl -q enable needs`, uuid))
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the service after the reboot", "[ -e /mnt/disks/"+uuid+"/booted ]")
}
