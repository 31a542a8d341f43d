//go:build vm

package system

import (
	"testing"

	"hotmount/test/worker"
)

// csiVolume is an attached volume of a CSI driver.
type csiVolume struct {
	name, id, image string
	raw             bool   // volumeMode: Block
	pod             bool   // a pod uses the volume when the node changes
	written         string // the digest that the image must still have after the change, or "" if the volume may change
}

// csiChange is what happens to a node while a CSI driver's volumes are attached to the node.
type csiChange struct {
	apart bool   // hotmount is not installed before the change
	stays bool   // pods continue to run over the change
	make  func() // makes the change
}

// csiBatches runs csiLives for csiRounds volumes of each kind, a few at once. The function before runs before each
// batch of volumes is attached.
func (m machine) csiBatches(w worker.Node, before func(), change csiChange) {
	m.t.Helper()
	const atOnce = 5
	for left := csiRounds(); left > 0; left -= atOnce {
		before()
		m.csiLives(w, min(left, atOnce), change)
	}
}

// csiLives attaches, uses and detaches n volumes of each kind: filesystems, blank volumes and raw volumes. The change
// happens while all volumes are attached. A pod uses every second volume before and after the change, and the other
// volumes only after the change. Each volume is detached as soon as its pod has ended.
func (m machine) csiLives(w worker.Node, n int, change csiChange) {
	m.t.Helper()
	var volumes []csiVolume
	for i := range n {
		for kind, image := range []string{ext4Disk(m.t, 320<<20), blank(m.t, 320<<20), blank(m.t, 320<<20)} {
			v := csiVolume{image: image, raw: kind == 2, pod: i%2 == 0}
			v.name, v.id = m.attach(w, worker.Disk{File: image})
			volumes = append(volumes, v)
		}
	}
	for i := range volumes {
		v := &volumes[i]
		if !change.apart {
			m.heldFor(v.name, "cinder.csi.openstack.org")
		}
		m.untouched(v.name)
		if v.pod {
			m.podBegins(w, v, 1)
		}
	}
	m.run("sync")
	for i := range volumes {
		// An unmount writes to the disk, so a volume that a pod has mounted has no fixed digest.
		if v := &volumes[i]; v.raw || !v.pod {
			v.written = digest(m.t, v.image)
		}
	}
	if !change.apart {
		m.keepsOff()
	}
	change.make()
	for i := range volumes {
		m.leftAlone(&volumes[i], change.stays)
	}
	for i := range volumes {
		m.endOfLife(w, &volumes[i], change.stays)
	}
	m.keepsOff()
}

// podBegins gives the volume to a pod, which writes to it. A raw volume then has the given number of lines from pods.
func (m machine) podBegins(w worker.Node, v *csiVolume, times int) {
	m.t.Helper()
	if !v.raw {
		m.podMounts(v.name)
		return
	}
	m.publish(w, v.name)
	if times > 1 {
		m.run("debugfs -R 'cat /db' " + volumeDevices + "/dev/" + v.name + " | grep -x 'a pod was here'")
	}
	m.podWrites(v.name, times)
}

// leftAlone checks that hotmount holds the volume, or ignores it because a pod uses it, and has not written to it.
func (m machine) leftAlone(v *csiVolume, stays bool) {
	m.t.Helper()
	switch {
	case !v.pod:
		m.heldFor(v.name, "cinder.csi.openstack.org")
		// At a shutdown systemd flushes each disk. The kernel counts a flush as a write request without a sector.
		if got := m.run("awk '{print $7+$14}' /sys/block/" + v.name + "/stat"); got != "0" {
			m.t.Errorf("%s sectors of %s were written", got, v.name)
		}
	case !stays:
		m.wait("the hold of a disk that was used", "(hotmount status || [ $? = 3 ]) | grep -E '^"+v.name+" .* held ' && hotmount explain "+v.name+" | grep 'hotmount accept "+v.name+"'")
	case v.raw:
		m.wait("the raw volume to be in use", "hotmount plan | grep -E '^"+v.name+" .* ignore +the disk is in use through /dev/loop'")
	default:
		m.wait("the volume to be in use", "hotmount plan | grep -E '^"+v.name+" .* ignore +the disk is mounted elsewhere: "+stagingArea+"'")
	}
	if v.written != "" && digest(m.t, v.image) != v.written {
		m.t.Errorf("%s was written to", v.name)
	}
}

// endOfLife lets a pod write to the volume again, ends the pod, and detaches the volume at once.
func (m machine) endOfLife(w worker.Node, v *csiVolume, stays bool) {
	m.t.Helper()
	times := 1
	if v.pod {
		times = 2
	}
	switch {
	case !v.pod || !stays:
		m.podBegins(w, v, times)
	case v.raw:
		m.podWrites(v.name, times)
	default:
		m.run("echo a pod was here >>" + stagingArea + "/" + v.name + "/globalmount/db")
	}
	if v.raw {
		m.unpublish(v.name)
	} else {
		m.unstage(v.name)
	}
	m.stored(w, v.name, v.id, v.image, times)
}

// reboots reboots the node. The end of a kernel also ends loop devices, but a container's shutdown does not.
func (m machine) reboots(w worker.Node) {
	m.t.Helper()
	m.run("for f in /root/loop-*; do losetup -d $(cat $f); rm $f; done")
	if err := w.Reboot(ctx(m.t)); err != nil {
		m.t.Fatal(err)
	}
}

// TestCSIVolumesOverAReboot checks that hotmount leaves a CSI driver's volumes alone over a reboot, whether or not pods
// used the volumes before.
func TestCSIVolumesOverAReboot(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.register("cinder.csi.openstack.org")
	m.csiBatches(w, func() {}, csiChange{make: func() { m.reboots(w) }})
}

// TestCSIVolumesInstalledLater checks that neither the installation nor the next reboot disturbs volumes that a CSI
// driver attached before the installation. Some of the volumes are in use.
func TestCSIVolumesInstalledLater(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.register("cinder.csi.openstack.org")
	purge := func() { m.run("dpkg --purge hotmount && ! [ -e /var/lib/hotmount ]") }
	install := func() {
		if err := w.Install(ctx(t), deb(t)); err != nil {
			t.Fatal(err)
		}
	}
	m.csiBatches(w, purge, csiChange{apart: true, stays: true, make: install})
	m.csiBatches(w, purge, csiChange{apart: true, make: func() { install(); m.reboots(w) }})
}
