//go:build vm

package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// kubeletRoot is kubelet's root directory in the worker.
const kubeletRoot = "/var/lib/kubelet"

// register makes the sockets of the drivers in kubelet's directories. No process listens on the sockets, as after a
// power cut. The method also removes the drivers from csi_ignore, because an earlier call of unregister may have added
// them.
func (m machine) register(drivers ...string) {
	m.t.Helper()
	for _, driver := range drivers {
		sockets := []string{kubeletRoot + "/plugins_registry/" + driver + "-reg.sock", kubeletRoot + "/plugins/" + driver + "/csi.sock"}
		if driver == hetzner {
			sockets = []string{kubeletRoot + "/plugins/" + driver + "/socket"}
		}
		m.run(`for s in ` + strings.Join(sockets, " ") + `; do
			mkdir -p ${s%/*} && perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) && bind(S, sockaddr_un($ARGV[0])) or die $!' $s || exit 1
		done`)
		m.run("! [ -e " + ignoredDrivers + " ] || { sed -i '/^- " + driver + "$/d' " + ignoredDrivers + "; grep -q '^- ' " + ignoredDrivers + " || rm " + ignoredDrivers + "; systemctl reload hotmount; }")
	}
}

// ignoredDrivers is the path of the drop-in whose setting csi_ignore contains the drivers' names. In the order of file
// names, this drop-in comes before the drop-in at the path `dropIn`.
const ignoredDrivers = "/etc/hotmount/config.d/drivers.yaml"

// hetzner is the name of Hetzner's driver, whose socket is at another path than the sockets of other drivers.
const hetzner = "csi.hetzner.cloud"

// unregister removes all drivers' sockets and directories, and writes the drivers' names into csi_ignore, as an
// administrator does.
func (m machine) unregister() {
	m.t.Helper()
	m.run(`set -e; cd ` + kubeletRoot + `; f=` + ignoredDrivers + `; mkdir -p ${f%/*}; [ -e $f ] || echo csi_ignore: >$f
		for driver in $(ls plugins); do echo "- $driver" >>$f; done
		rm -rf plugins_registry plugins; hotmount config check; systemctl reload hotmount`)
}

// endDriver removes the driver's sockets and keeps its directory, as a driver does at a reboot or a rolling update.
func (m machine) endDriver(driver string) {
	m.t.Helper()
	m.run("cd " + kubeletRoot + " && rm plugins_registry/" + driver + "-reg.sock plugins/" + driver + "/csi.sock")
}

// ext4Disk makes the file of a disk with an empty ext4 filesystem, and returns its path.
func ext4Disk(t *testing.T, size int64) string {
	t.Helper()
	image := blank(t, size)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	return image
}

// luksDisk makes the file of a disk with the beginning of a LUKS header, and returns its path.
func luksDisk(t *testing.T, size int64) string {
	t.Helper()
	image := blank(t, size)
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("LUKS\xba\xbe\x00\x01")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// heldFor waits until the status shows that the disk is held because of the given driver.
func (m machine) heldFor(name, driver string) {
	m.t.Helper()
	// heldFor does not read the journal, because the journal may show a hold of an earlier disk with this kernel name.
	m.wait("the hold", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is held .another user.: a storage driver .*"+driver+".*hotmount accept "+name+"'")
}

// stageVolume handles a volume as kubelet does (FormatAndMount in k8s.io/mount-utils, NodeUnstageVolume). stageVolume
// mounts the disk, writes like a pod, and unmounts the disk. stageVolume detaches the disk directly after the unmount.
// Each command must succeed at the first attempt, and the pod's data must be on the storage. The argument `times` is the
// number of writes by pods to the volume so far.
func (m machine) stageVolume(w worker.Node, name, id, image string, times int) {
	m.t.Helper()
	m.podMounts(name)
	m.unstageVolume(name)
	m.stored(w, name, id, image, times)
}

// podMounts runs blkid, makes a filesystem if the disk is blank, mounts the disk, and writes one more line, as a pod
// does.
func (m machine) podMounts(name string) {
	m.t.Helper()
	m.run(fmt.Sprintf(`set -e; d=%s/%[2]s/globalmount; mkdir -p $d
		blkid -p -s TYPE -s PTTYPE -o export /dev/%[2]s || { [ $? = 2 ]; mkfs.ext4 -q -F -m0 /dev/%[2]s; }
		mount -t ext4 -o defaults /dev/%[2]s $d; echo a pod was here >>$d/db`, stagingArea, name))
}

// unstageVolume unmounts the disk. After the unmount, the disk must have no other mount.
func (m machine) unstageVolume(name string) {
	m.t.Helper()
	m.run(fmt.Sprintf("set -e; d=%s/%[2]s/globalmount; umount $d; rmdir $d; ! findmnt /dev/%[2]s", stagingArea, name))
}

// The method `stored` detaches the disk, and checks that the lines of all pods are on the storage.
func (m machine) stored(w worker.Node, name, id, image string, times int) {
	m.t.Helper()
	if err := w.Detach(ctx(m.t), id); err != nil {
		m.t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx(m.t), "debugfs", "-R", "cat /db", image).Output()
	if err != nil || string(out) != strings.Repeat("a pod was here\n", times) {
		m.t.Errorf("%s: the storage has %q (%v)", name, out, err)
	}
	if out, err := exec.CommandContext(ctx(m.t), "e2fsck", "-fn", image).CombinedOutput(); err != nil {
		m.t.Errorf("%s: the pod's filesystem on the storage: %v: %s", name, err, out)
	}
}

// publish handles a raw volume as kubelet does (NodePublishVolume, MapDevice and AttachFileDevice in
// pkg/volume/util/volumepathhandler). The driver bind-mounts the device node. kubelet bind-mounts the driver's mount
// for the pod, and sets up a loop device on the pod's mount.
func (m machine) publish(w worker.Node, name string) {
	m.t.Helper()
	m.run(fmt.Sprintf(`set -e; mkdir -p %[1]s/publish %[1]s/dev; touch %[1]s/publish/%[2]s %[1]s/dev/%[2]s
		mount --bind /dev/%[2]s %[1]s/publish/%[2]s; mount --bind %[1]s/publish/%[2]s %[1]s/dev/%[2]s
		loop=$(%[3]s); losetup $loop %[1]s/dev/%[2]s; echo $loop >/root/loop-%[2]s`, volumeDevices, name, freeLoop(w)))
}

// freeLoop returns a shell command that prints the path of a free loop device.
func freeLoop(w worker.Node) string {
	c, is := w.(*worker.Container)
	if !is {
		return "losetup -f"
	}
	// The command prints the container's last free loop device, because disks use the first loop devices.
	last := c.First() + c.Loops() - 1
	return fmt.Sprintf("n=%d; while [ -e /sys/block/loop$n/loop ]; do n=$((n-1)); done; [ -b /dev/loop$n ] || mknod /dev/loop$n b 7 $n; echo /dev/loop$n", last)
}

// kubelet stages filesystems below stagingArea, and raw volumes below volumeDevices.
const (
	stagingArea   = kubeletRoot + "/plugins/kubernetes.io/csi/cinder.csi.openstack.org"
	volumeDevices = kubeletRoot + "/plugins/kubernetes.io/csi/volumeDevices"
)

// podWrites makes an ext4 filesystem on a raw volume, as a pod does. A file in the filesystem contains the given number
// of lines.
func (m machine) podWrites(name string, times int) {
	m.t.Helper()
	m.run(fmt.Sprintf("mkdir -p /root/pod; yes a pod was here | head -n %d >/root/pod/db; mkfs.ext4 -q -F -d /root/pod %s/dev/%s; sync", times, volumeDevices, name))
}

// unpublish removes the loop device and the mounts that publish made. If udev has the loop device open, the kernel
// detaches the loop device only at the last close.
func (m machine) unpublish(name string) {
	m.t.Helper()
	m.run("losetup -d $(cat /root/loop-" + name + ")")
	m.wait("the loop device to be detached", "[ ! -e /sys/block/$(basename $(cat /root/loop-"+name+"))/loop ]")
	m.run(fmt.Sprintf("set -e; umount %[1]s/dev/%[2]s; umount %[1]s/publish/%[2]s; rm %[1]s/dev/%[2]s %[1]s/publish/%[2]s /root/loop-%[2]s", volumeDevices, name))
}

// keepsOff checks that hotmount has not read, formatted or mounted any disk since the boot.
func (m machine) keepsOff() {
	m.t.Helper()
	if got := m.run("journalctl -q -b --no-pager -o cat | grep -E 'hotmount-format@|mnt-disks-[0-9a-f]' || [ $? = 1 ]; ls -A /mnt/disks"); got != "" {
		m.t.Errorf("hotmount did something:\n%s", got)
	}
}

// csiRounds returns how often the tests attach and detach a volume of each kind.
func csiRounds() int {
	if os.Getenv("HOTMOUNT_TEST_FULL") != "" {
		return 50
	}
	return 3
}

// eachKind attaches, uses and detaches one volume of each kind: a blank volume, a filesystem and a raw volume. The
// volumes have the given serials. In every second round, kubelet uses each volume at once, and does not wait until
// hotmount has held the volume.
func (m machine) eachKind(w worker.Node, round int, blankSerial, ext4Serial, rawSerial string) {
	m.t.Helper()
	held := func(name string) {
		if round%2 == 0 {
			m.heldFor(name, "cinder.csi.openstack.org")
		}
	}
	for _, d := range []worker.Disk{{File: blank(m.t, 320<<20), Serial: blankSerial}, {File: ext4Disk(m.t, 320<<20), Serial: ext4Serial}} {
		name, id := m.attach(w, d)
		held(name)
		m.stageVolume(w, name, id, d.File, 1)
	}
	image := blank(m.t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: rawSerial})
	held(name)
	m.publish(w, name)
	m.podWrites(name, 1)
	m.unpublish(name)
	m.stored(w, name, id, image, 1)
}

// TestCSIVolumes checks that hotmount leaves the volumes of CSI drivers alone. kubelet formats, mounts and unmounts the
// volumes undisturbed, and the data is on the storage. A driver that attaches no disks to the node causes no hold. Each
// setting and each command that is meant to lift the hold must lift it.
func TestCSIVolumes(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.register("cinder.csi.openstack.org")
	for round := range csiRounds() {
		m.eachKind(w, round, "", "", "")
	}
	m.keepsOff()

	// Before the accept, hotmount does not advise anyone to overwrite the disk, whatever the disk contains. After the
	// accept, the disk is still refused for its content.
	encrypted, encryptedID := m.attach(w, worker.Disk{File: luksDisk(t, 320<<20)})
	m.heldFor(encrypted, "cinder.csi.openstack.org")
	m.wait("its hold", "hotmount status | grep -E '^"+encrypted+" .*crypto_.* held '") // the journal may show that an earlier disk was held
	if got := m.run("journalctl -b -q -o cat --no-pager | grep -F 'hotmount format " + encrypted + "' || [ $? = 1 ]; hotmount explain " + encrypted + "; hotmount format " + encrypted + " 2>&1 || [ $? = 1 ]"); strings.Contains(got, "--confirm") || strings.Contains(got, "needed: hotmount format") || !strings.Contains(got, "cannot format "+encrypted+": hold: ") {
		t.Errorf("before the accept:\n%s", got)
	}
	m.run("hotmount accept " + encrypted)
	m.waitForLog("/dev/" + encrypted + " .*refuse: the disk holds crypto_LUKS.*hotmount format " + encrypted)
	m.detach(w, encryptedID)

	// Each command in the loop warns in advance that the class will hold new disks.
	const beforehand = "class default holds each new disk until you run hotmount accept DISK may-be-a-csi-volume: a storage driver seen on this node (cinder.csi.openstack.org) can attach or use such disks"
	for _, command := range []string{"hotmount plan 2>&1 >/dev/null", "hotmount config check 2>&1", "hotmount doctor || [ $? = 3 ]", "touch /var/lib/hotmount/removed; hotmount state init"} {
		if got := m.run(command); !strings.Contains(got, beforehand) {
			t.Errorf("%s: %s", command, got)
		}
	}

	// An accepted disk is mounted, and stays mounted across a restart of the daemon. An accept is valid for one disk
	// only.
	accepted, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.heldFor(accepted, "cinder.csi.openstack.org")
	m.wait("the accept", "hotmount accept "+accepted) // the journal also shows that an earlier disk with this name was held
	uuid := m.mounted(accepted)
	m.run("systemctl restart hotmount")
	m.wait("the volume to be there", "systemctl show -P StatusText hotmount | grep -q '^1 mounted'")
	if again := m.mounted(accepted); again != uuid {
		t.Errorf("it was mounted as %s and is as %s", uuid, again)
	}

	lifts := func(config string) {
		t.Helper()
		name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		m.heldFor(name, "cinder.csi.openstack.org")
		m.run("cat >/etc/hotmount/config.d/zz.yaml <<'X'\n" + config + "X\nhotmount config check; systemctl reload hotmount")
		m.mounted(name)
		m.detach(w, id)
		m.run("rm /etc/hotmount/config.d/zz.yaml; systemctl reload hotmount")
	}
	lifts("csi_ignore: [cinder.csi.openstack.org]\n")
	lifts("classes:\n- {name: default, neighbours: ignore}\n")

	m.driversThatCount(w)
	m.driversThatDoNot(w)
}

// driversThatCount checks that each of four drivers causes a hold of a new disk. One driver is unknown to hotmount, one
// driver uses whole disks of the node, and two drivers attach disks.
func (m machine) driversThatCount(w worker.Node) {
	m.t.Helper()
	for _, driver := range []string{"csi.example.com", "directpv-min-io", hetzner, "cinder.csi.openstack.org"} {
		m.unregister()
		m.register(driver)
		name, id := m.attach(w, worker.Disk{File: ext4Disk(m.t, 320<<20)})
		m.heldFor(name, driver)
		m.checkUntouched(name)
		m.detach(w, id)
	}
}

// driversThatDoNot checks that no driver in its list causes a hold. The volumes of these drivers are of another kind
// than the disks that the test attaches.
func (m machine) driversThatDoNot(w worker.Node) {
	m.t.Helper()
	m.unregister()
	m.register("csi.tigera.io", "nfs.csi.k8s.io", "secrets-store.csi.k8s.io", "driver.longhorn.io", "rook-ceph.rbd.csi.ceph.com", "rook-ceph.cephfs.csi.ceph.com")
	for _, image := range []string{blank(m.t, 320<<20), ext4Disk(m.t, 320<<20)} {
		name, _ := m.attach(w, worker.Disk{File: image})
		m.mounted(name)
	}
}

// TestADriverThatEnds checks that disks stay held after an unknown driver has removed its sockets, even across a
// reboot. The disks stay held and untouched until csi_ignore names the driver.
func TestADriverThatEnds(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const driver = "csi.example.com"
	m.register(driver)
	digests := map[string]string{}
	var names []string
	for _, image := range []string{blank(t, 320<<20), ext4Disk(t, 320<<20)} {
		digests[image] = digest(t, image)
		name, _ := m.attach(w, worker.Disk{File: image})
		names = append(names, name)
	}
	held := func(when string) {
		t.Helper()
		for _, name := range names {
			m.heldFor(name, driver)
		}
		for image, before := range digests {
			if digest(t, image) != before {
				t.Errorf("%s: %s was written to", when, image)
			}
		}
		m.keepsOff()
	}
	held("while the driver runs")
	m.endDriver(driver)
	m.run("hotmount rescan; hotmount plan 2>&1 >/dev/null | grep 'class default holds each new disk .*" + driver + "'")
	held("after the driver's end")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.run("hotmount rescan")
	held("after a reboot")
	m.configured("csi_ignore: [" + driver + "]")
	m.run("rm -r " + kubeletRoot + "/plugins")
	for _, name := range names {
		m.mounted(name)
	}
}

// TestCSIVolumesOnVirtio checks a CSI driver's volumes on disks with serials, across a reboot. At the reboot the driver
// is registered before hotmount starts. A class that selects by serial gets its disk without an accept. A driver causes
// a hold only if it attaches disks, uses whole disks of the node, or is unknown.
func TestCSIVolumesOnVirtio(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.register("cinder.csi.openstack.org")
	blankImage, ext4Image := blank(t, 320<<20), ext4Disk(t, 320<<20)
	first, firstID := m.attach(w, worker.Disk{File: blankImage, Serial: "4d8ac1b2-9f6e-4a3c-8"})
	m.heldFor(first, "cinder.csi.openstack.org")
	m.waitForLog("/dev/" + first + " .*serial: \\['4d8ac1b2-9f6e-4a3c-8'\\]")
	second, secondID := m.attach(w, worker.Disk{File: ext4Image, Serial: "5e9bd2c3-0a7f-5b4d-9"})
	m.heldFor(second, "cinder.csi.openstack.org")
	// RAW-1 and RAW-2 are raw volumes. A pod uses RAW-1 until the reboot.
	rawImage, newImage := blank(t, 320<<20), blank(t, 320<<20)
	raw, rawID := m.attach(w, worker.Disk{File: rawImage, Serial: "RAW-1"})
	unused, unusedID := m.attach(w, worker.Disk{File: newImage, Serial: "RAW-2"})
	m.heldFor(raw, "cinder.csi.openstack.org")
	m.heldFor(unused, "cinder.csi.openstack.org")
	for _, name := range []string{first, second, raw, unused} {
		m.checkUntouched(name)
	}
	m.publish(w, raw)
	m.podWrites(raw, 1)
	written := digest(t, rawImage)

	m.run("sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	bySerial := func(serial string) string {
		return m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"" + serial + "\" {print $1}'")
	}
	for serial, d := range map[string]struct{ id, image string }{"4d8ac1b2-9f6e-4a3c-8": {firstID, blankImage}, "5e9bd2c3-0a7f-5b4d-9": {secondID, ext4Image}} {
		name := bySerial(serial)
		m.heldFor(name, "cinder.csi.openstack.org")
		m.stageVolume(w, name, d.id, d.image, 1)
	}
	raw, unused = bySerial("RAW-1"), bySerial("RAW-2")
	m.waitForLog("/dev/" + raw + usedHold + "bind-mounted as a device at " + volumeDevices)
	m.heldFor(unused, "cinder.csi.openstack.org")
	if digest(t, rawImage) != written {
		t.Error("the raw volume was written to after its pod had ended")
	}
	m.publish(w, raw)
	m.publish(w, unused)
	m.run("debugfs -R 'cat /db' " + volumeDevices + "/dev/" + raw + " | grep -x 'a pod was here'")
	m.podWrites(raw, 1)
	m.podWrites(unused, 1)
	m.unpublish(raw)
	m.unpublish(unused)
	m.stored(w, raw, rawID, rawImage, 1)
	m.stored(w, unused, unusedID, newImage, 1)
	for round := range csiRounds() {
		m.eachKind(w, round, fmt.Sprintf("7abd-%d", round), fmt.Sprintf("8bce-%d", round), fmt.Sprintf("9cdf-%d", round))
	}
	m.driversThatCount(w)
	m.keepsOff()

	m.run("cp /etc/hotmount/config.yaml /root/default.yaml; cat >/etc/hotmount/config.yaml <<'X'\nclasses:\n- {name: default, directory: /mnt/disks, serial: ['DATA-*']}\nX\nhotmount config check; systemctl reload hotmount")
	ours, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "DATA-1"})
	m.mounted(ours)
	theirs, theirID := m.attach(w, worker.Disk{File: ext4Disk(t, 320<<20), Serial: "6fac"})
	m.wait("the other to be left alone", "hotmount plan | grep -E '^"+theirs+" .* ignore '")
	m.checkUntouched(theirs)
	m.detach(w, theirID)

	m.run("cp /root/default.yaml /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.driversThatDoNot(w)
}

// TestCSIVolumesBeforeInstallation checks that hotmount uses no volume that a CSI driver attached before the package
// was installed.
func TestCSIVolumesBeforeInstallation(t *testing.T) {
	parallel(t)
	m, w := startAs(t, worker.Options{})
	m.register("cinder.csi.openstack.org")
	images := []string{blank(t, 320<<20), ext4Disk(t, 320<<20)}
	var names, ids []string
	for _, image := range images {
		name, id := m.attach(w, worker.Disk{File: image})
		names, ids = append(names, name), append(ids, id)
	}
	// A pod has written to this raw volume. The pod writes to the raw volume again after the installation.
	rawImage := blank(t, 320<<20)
	raw, rawID := m.attach(w, worker.Disk{File: rawImage})
	m.publish(w, raw)
	m.podWrites(raw, 1)
	written := digest(t, rawImage)
	if err := w.Install(ctx(t), deb(t)); err != nil {
		t.Fatal(err)
	}
	for i, image := range images {
		m.heldFor(names[i], "cinder.csi.openstack.org")
		m.stageVolume(w, names[i], ids[i], image, 1)
	}
	m.wait("the raw volume to be in use", "hotmount plan | grep -E '^"+raw+" .* ignore +the disk is in use through /dev/loop'")
	if digest(t, rawImage) != written {
		t.Error("the raw volume was written to")
	}
	m.podWrites(raw, 1)
	m.unpublish(raw)
	m.waitForLog("/dev/" + raw + usedHold + "bind-mounted as a device at " + volumeDevices)
	m.stored(w, raw, rawID, rawImage, 1)
	m.keepsOff()
}

// csiVolume is an attached volume of a CSI driver.
type csiVolume struct {
	name, id, image string
	raw             bool   // volumeMode: Block
	pod             bool   // a pod uses the volume during the change
	written         string // the digest that the image must still have after the change, or "" if the volume may change
}

// csiChange is what happens to a node while a CSI driver's volumes are attached to the node.
type csiChange struct {
	apart bool   // hotmount is not installed before the change
	stays bool   // pods continue to run during the change
	make  func() // makes the change
}

// csiBatches calls csiLives for all volumes, in batches of at most five volumes of each kind. csiRounds returns the
// number of volumes of each kind. Before each batch is attached, csiBatches calls the given function.
func (m machine) csiBatches(w worker.Node, before func(), change csiChange) {
	m.t.Helper()
	const atOnce = 5
	for left := csiRounds(); left > 0; left -= atOnce {
		before()
		m.csiLives(w, min(left, atOnce), change)
	}
}

// csiLives attaches, uses and detaches n volumes of each kind: filesystems, blank volumes and raw volumes. The change
// happens while all volumes are attached. For each kind, a pod uses a volume with an even index both before and after
// the change. Pods use the volumes with an odd index only after the change. Each volume is detached as soon as its pod
// has ended.
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
		m.checkUntouched(v.name)
		if v.pod {
			m.podBegins(w, v, 1)
		}
	}
	m.run("sync")
	for i := range volumes {
		// If a pod has mounted a volume, the unmount writes to the disk and changes the disk's digest.
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

// podBegins gives the volume to a pod, which writes to it. On a raw volume, the pod makes a filesystem with a file, and
// the parameter `times` is the number of lines in the file.
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

// leftAlone checks that hotmount has not written to the volume. If a pod still uses the volume, hotmount must ignore
// the volume. Otherwise hotmount must hold the volume.
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
		m.unstageVolume(v.name)
	}
	m.stored(w, v.name, v.id, v.image, times)
}

// reboots restarts the node. The method first detaches the loop devices, because they survive the shutdown of a
// container.
func (m machine) reboots(w worker.Node) {
	m.t.Helper()
	m.run("for f in /root/loop-*; do losetup -d $(cat $f); rm $f; done")
	if err := w.Reboot(ctx(m.t)); err != nil {
		m.t.Fatal(err)
	}
}

// TestCSIVolumesOverAReboot checks that hotmount leaves a CSI driver's volumes alone across a reboot. Before the
// reboot, pods use only some of the volumes.
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
