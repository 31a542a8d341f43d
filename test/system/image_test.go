//go:build vm

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// changeID is a script that gives the worker another machine-id.
const changeID = "tr 0-9a-f 1-9a-f0 </etc/machine-id >/root/id; cat /root/id >/etc/machine-id; "

// waitForHold waits until `hotmount plan` shows the disk as held for a reason that matches the parameter `why`. The
// method then checks that nothing was written to the disk.
func (m machine) waitForHold(name, why string) {
	m.t.Helper()
	m.wait(name+" to be held", "hotmount plan | grep -E "+quote("^"+name+" .*hold .*"+why))
	m.checkUntouched(name)
}

const (
	newID   = "the disk was already attached when hotmount first started with the present machine-id"
	present = "the disk was attached before hotmount was installed"
)

// TestAnotherMachineID checks a worker whose machine-id has changed. The volumes stay mounted. If a blank disk is
// attached when the daemon first starts with the new machine-id, hotmount holds the disk. The hold ends when the
// operator runs `hotmount state keep`. The test uses `hotmount plan`, because the journal belongs to the former
// machine-id.
func TestAnotherMachineID(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	was, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	uuid := m.mounted(was)
	// Once the machine-id has changed, a running daemon formats no disk until it is restarted.
	m.run(changeID)
	early, _ := m.attach(w, worker.Disk{File: blank(t, 340<<20)})
	m.waitForHold(early, "the machine-id has changed, .*systemctl restart hotmount")
	m.run("systemctl restart hotmount")
	m.waitForHold(early, newID+".*hotmount accept "+early+".*hotmount state keep")
	later, _ := m.attach(w, worker.Disk{File: blank(t, 350<<20)})
	m.mounted(later)
	m.run("systemctl restart hotmount; hotmount status -o json | grep 'hotmount state keep.*hotmount state reset'")
	m.waitForHold(early, newID)
	if got := m.mounted(was); got != uuid {
		t.Errorf("the volume was %s and is %s", uuid, got)
	}
	m.run("hotmount state keep; ! hotmount status -o json | grep machine-id")
	m.mounted(early)
}

// TestStateReset checks that `hotmount state reset` deletes the records, but fails while the daemon, a mount or a
// format needs the records. hotmount treats its first start after the reset as the installation.
func TestStateReset(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	uuid := m.mounted(name)
	refuses := func(want string) {
		t.Helper()
		if out, err := m.Run(ctx(t), "hotmount state reset"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("state reset: %s, %v; want %q", out, err, want)
		}
	}
	refuses("systemctl stop hotmount")
	m.run("systemctl stop hotmount")
	refuses("umount /mnt/disks/" + uuid)
	// The test stops the daemon while a unit proves a disk blank. The unit continues, so `hotmount state reset` must
	// fail.
	m.run("systemctl start hotmount")
	proven, provenID := m.attach(w, worker.Disk{File: blank(t, 310<<20)})
	m.wait("the proof", "systemctl list-units --no-legend 'hotmount-format@*' | grep -q activating")
	m.run("systemctl stop hotmount")
	refuses("proves or formats a disk; wait until it has ended")
	m.wait("the end of the proof", "! systemctl list-units --no-legend 'hotmount-format@*' | grep -q .")
	m.detach(w, provenID)
	m.run("! findmnt /dev/" + proven)
	m.run("umount /mnt/disks/" + uuid + "; hotmount state reset")
	if got := m.run("ls /var/lib/hotmount"); got != "directories.json\nfirst-start\nlock" {
		t.Errorf("left: %s", got)
	}
	there, _ := m.attach(w, worker.Disk{File: blank(t, 330<<20)})
	m.run("systemctl start hotmount")
	m.waitForHold(there, present+".*hotmount accept "+there)
	if got := m.mounted(name); got != uuid {
		t.Errorf("the former volume was %s and is %s", uuid, got)
	}
	later, _ := m.attach(w, worker.Disk{File: blank(t, 340<<20)})
	m.mounted(later)
	if all := m.history(); len(all) != 1 {
		t.Errorf("the history is %+v", all)
	}
	m.run("hotmount accept " + there)
	m.mounted(there)
}

// TestImage checks that the package can be installed into an image whose system does not run. hotmount treats its first
// start in the image's system as the installation. The machine that builds the image may run systemd, and may share its
// /proc and /sys with the image.
func TestImage(t *testing.T) {
	parallel(t)
	root := ""
	for _, image := range []struct{ what, script string }{
		{"a bare root", `dpkg --root="$1" -i "$1/root/hotmount.deb"`},
		{"the builder's systems", `mount --bind /sys "$1/sys"; mount -o remount,bind,ro "$1/sys"; mount -t proc proc "$1/proc"; mkdir -p "$1/run/systemd/system"; chroot "$1" dpkg -i /root/hotmount.deb; rm -r "$1/run/systemd"`},
	} {
		root = imageOf(t, image.script)
		for path, there := range map[string]bool{"var/lib/hotmount/first-start": true, "var/lib/hotmount/state.json": false, "etc/systemd/system/multi-user.target.wants/hotmount.service": true} {
			if _, err := os.Lstat(filepath.Join(root, path)); (err == nil) != there {
				t.Errorf("%s: %s: %v", image.what, path, err)
			}
		}
	}
	// The last of the two images boots. systemd does not start hotmount at boot, so hotmount's first start comes after
	// the first disks are attached.
	if err := os.Remove(filepath.Join(root, "etc/systemd/system/multi-user.target.wants/hotmount.service")); err != nil {
		t.Fatal(err)
	}
	o := worker.Options{Files: []worker.File{quick()}, Progress: os.Stderr, Dir: logs(t)}
	w, err := worker.StartContainer(ctx(t), worker.ContainerOptions{Options: o, Root: root, BackingDirs: []string{diskDir(t)}})
	if err != nil {
		t.Fatal(err)
	}
	m := machine{w, t}
	m.endWith(o.Dir)
	diskDirs.Store(t, w.HostDisks())
	there, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	full, _ := m.attach(w, worker.Disk{File: made(t, 330<<20)})
	m.run("systemctl daemon-reload; systemctl start hotmount; [ ! -e /var/lib/hotmount/first-start ]")
	m.waitForHold(there, present+".*hotmount accept "+there)
	m.mounted(full)
	later, _ := m.attach(w, worker.Disk{File: blank(t, 340<<20)})
	m.mounted(later)
	m.run("systemctl restart hotmount")
	m.waitForHold(there, present)
	m.run("hotmount accept " + there)
	m.mounted(there)
}

// imageOf returns a copy of the containers' root filesystem, into which the script has installed the package. The
// script gets the directory of the copy as $1. In the copy the package is the file /root/hotmount.deb.
func imageOf(t *testing.T, script string) string {
	t.Helper()
	from, release, err := worker.ContainerRoot(ctx(t), worker.DefaultSuite, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	root := filepath.Join(t.TempDir(), "image")
	content, err := os.ReadFile(deb(t))
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(ctx(t), name, args...)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "hotmount: ") {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	run("cp", "-a", from, root)
	if err := os.WriteFile(filepath.Join(root, "root/hotmount.deb"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	run("unshare", "--mount", "sh", "-ec", script, "sh", root)
	return root
}

// TestMachineID checks a changed machine-id and a clone of a sealed image, with real boots and with serials.
// TestAnotherMachineID and TestStateReset check the other cases in a container.
func TestMachineID(t *testing.T) {
	m, w := start(t, worker.Options{})
	was, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "WAS"})
	volume := m.mounted(was)
	bySerial := func(serial string) string {
		return m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"" + serial + "\" {print $1}'")
	}
	reboot := func() {
		t.Helper()
		if err := w.Reboot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.wait("the daemon", "systemctl is-active hotmount")
		if got := m.mounted(bySerial("WAS")); got != volume {
			t.Errorf("the volume was %s and is %s", volume, got)
		}
	}
	m.run("systemctl stop hotmount")
	m.attach(w, worker.Disk{File: blank(t, 330<<20), Serial: "CAME"})
	m.attach(w, worker.Disk{File: blank(t, 340<<20)})
	m.run(changeID + "sync")
	reboot()
	bare := m.run("lsblk -dno NAME,SIZE | awk '$2 == \"340M\" {print $1}'")
	for range 2 {
		m.waitForLog("the records in /var/lib/hotmount belong to a worker with another machine-id.*hotmount state keep.*hotmount state reset")
		for _, name := range []string{bySerial("CAME"), bare} {
			m.waitForLog("/dev/" + name + " .*hold: .*" + newID + ".*hotmount accept " + name)
			m.checkUntouched(name)
		}
		reboot()
	}
	later, _ := m.attach(w, worker.Disk{File: blank(t, 350<<20), Serial: "LATER"})
	m.mounted(later)
	m.run("hotmount accept " + bare)
	m.mounted(bare)
	m.run("hotmount state keep")
	m.mounted(bySerial("CAME"))

	// The worker is sealed like an image, and then boots as a clone.
	m.run("systemctl stop hotmount")
	m.attach(w, worker.Disk{File: blank(t, 360<<20), Serial: "CLONE"})
	m.run("umount /mnt/disks/*; hotmount state reset; truncate -s 0 /etc/machine-id; sync")
	reboot()
	m.waitForLog("/dev/" + bySerial("CLONE") + " .*hold: .*" + present)
	m.checkUntouched(bySerial("CLONE"))
	if got := m.run("findmnt -rno TARGET | grep -c ^/mnt/disks/; hotmount status -o json | grep machine-id || [ $? = 1 ]"); got != "4" {
		t.Errorf("the clone: %s", got)
	}
}
