//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestThreeClasses: six disks on three buses, blank and with a filesystem, each in
// its class's directory, and published by what plays the provisioner with the values
// that hotmount prints.
func TestThreeClasses(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.example("three-classes.yaml")
	m.run(`mkdir -p /var/lib/disks/ssd /var/lib/disks/hdd /var/lib/disks/block
		printf '[Service]\nReadWritePaths=-/var/lib/disks\n' >/etc/systemd/system/hotmount.service.d/disks.conf
		systemctl daemon-reload; systemctl restart hotmount
		hotmount provisioner values >/root/values.yaml; hotmount provisioner check /root/values.yaml`)
	m.provision(w, "local-ssd:Filesystem:/var/lib/disks/ssd local-hdd:Filesystem:/var/lib/disks/hdd local-raw:Block:/var/lib/disks/block")
	want := map[string]string{}
	for i, d := range []worker.Disk{
		{Bus: worker.BusNVMe, File: blank(t, 320<<20)}, {Bus: worker.BusSCSI, File: made(t, 320<<20)}, {Bus: worker.BusVirtio, File: blank(t, 320<<20)},
		{Bus: worker.BusNVMe, File: made(t, 320<<20)}, {Bus: worker.BusSCSI, File: blank(t, 320<<20)}, {Bus: worker.BusVirtio, File: blank(t, 320<<20)},
	} {
		d.Serial = fmt.Sprint("DISK-", i)
		name, _ := m.attach(w, d)
		want[name] = map[worker.Bus]string{worker.BusNVMe: "ssd", worker.BusSCSI: "hdd", worker.BusVirtio: "block"}[d.Bus]
	}
	for name, class := range want {
		if class == "block" {
			link := "/var/lib/disks/block/virtio-" + m.run("cat /sys/block/"+name+"/serial")
			m.wait(name+" to be given out", "[ $(readlink -f "+link+") = /dev/"+name+" ]")
			m.volume(strings.TrimPrefix(link, "/var/lib/disks/block/"), "local-raw", 0)
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
}
