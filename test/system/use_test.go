//go:build vm

package system

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// usedHold matches the journal's message about a disk that another program has used.
const usedHold = " .*hold: the disk is not a hotmount volume, and somebody else on this node used the disk: "

// TestUsedByAnother checks a disk that is mounted elsewhere, bind-mounted as a device node, or named in a libvirt
// domain or by a link. hotmount does not use the disk. After the use by another program has ended, hotmount holds the
// disk until an accept. The hold persists across a restart and a reboot. If another program uses a volume of hotmount,
// hotmount does not hold the volume, but reports it as failed. After the other program's use has ended, the volume is
// mounted again.
func TestUsedByAnother(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("mkdir -p /var/lib/prometheus/node-exporter; systemctl restart hotmount")
	for _, use := range []struct{ name, begin, ignored, end, how string }{
		{"mount", "mkdir -p /srv/used; mount /dev/%s /srv/used", "the disk is mounted elsewhere: /srv/used", "umount /srv/used", "mounted at /srv/used"},
		{"bind", "touch /run/volume; mount --bind /dev/%s /run/volume", "the disk's device file is bind-mounted.*: /run/volume", "umount /run/volume", "bind-mounted as a device at /run/volume"},
		{"domain", "mkdir -p /etc/libvirt/qemu; echo \"<domain><devices><disk><source dev='/dev/%s'/></disk></devices></domain>\" >/etc/libvirt/qemu/guest.xml", "the system's configuration or a link in a class directory claims the disk: /etc/libvirt/qemu/guest.xml:1", "rm -r /etc/libvirt; hotmount rescan", "claimed by /etc/libvirt/qemu/guest.xml:1"},
		{"link", "ln -s /dev/%s /mnt/disks/own", "the system's configuration or a link in a class directory claims the disk: /mnt/disks/own; if no PersistentVolume uses the link, remove the link, then: hotmount rescan", "rm /mnt/disks/own; hotmount rescan", "claimed by /mnt/disks/own"},
	} {
		m.run("systemctl stop hotmount")
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		m.run("udevadm settle; " + fmt.Sprintf(use.begin, name) + "; systemctl start hotmount")
		m.waitForLog("/dev/" + name + " .*ignore: " + use.ignored)
		m.run(use.end)
		m.waitForLog("/dev/" + name + usedHold + use.how + ", seen .*; .*hotmount accept " + name)
		m.run("systemctl restart hotmount")
		held := "systemctl is-active hotmount && hotmount status | grep -q " + quote("hotmount accept "+name)
		m.wait("the next daemon to hold it", held)
		if use.name == "mount" {
			if err := w.(interface{ Reboot(context.Context) error }).Reboot(ctx(t)); err != nil {
				t.Fatal(err)
			}
			m.wait("the hold after a reboot", held)
		}
		if got := m.run("findmnt -n /dev/" + name + " || [ $? = 1 ]"); got != "" {
			t.Errorf("%s: it is mounted: %s", use.name, got)
		}
		m.run("hotmount accept " + name)
		where := "/mnt/disks/" + m.mounted(name)

		if use.name == "link" {
			// A link in the class directory must not prevent the mount of a recorded volume.
			m.run("ln -s /dev/" + name + " /mnt/disks/own; systemctl restart hotmount; findmnt " + where + "; hotmount status | grep -E '^" + name + " .* mounted '")
			if err := w.(interface{ Reboot(context.Context) error }).Reboot(ctx(t)); err != nil {
				t.Fatal(err)
			}
			m.wait("the volume after a reboot", "findmnt "+where)
			m.run(use.end)
			continue
		}
		// After the accept, the disk is a volume of this node. The test then repeats the use by the other program.
		m.run("systemctl stop hotmount; umount " + where + "; " + fmt.Sprintf(use.begin, name) + "; systemctl start hotmount")
		const inUse = " .*refuse: hotmount does not mount this volume of the node, because something else uses the disk: "
		m.waitForLog("/dev/" + name + inUse + use.how)
		m.wait("its state", "hotmount status | grep -qE '^"+name+" .* failed '")
		m.run(use.end + "; hotmount accept " + name)
		m.wait("the volume", "findmnt "+where)
		if use.name != "domain" {
			continue
		}
		// After a boot hotmount does not treat the volume as unmounted by hand.
		m.run(fmt.Sprintf(use.begin, name))
		if err := w.(interface{ Reboot(context.Context) error }).Reboot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.wait("its state after a reboot", "hotmount status | grep -qE '^"+name+" .* failed '")
		line := "/dev/" + name + inUse + use.how + "; .*hotmount mounts it by itself"
		m.waitForLog(line)
		m.run("[ $(journalctl -b -q -o cat -p warning --no-pager | grep -cE " + quote(line) + ") = 1 ] && ! findmnt " + where)
		m.wait("the metric", "grep -q 'reason=\"volume-in-use\",state=\"failed\"} 1$' /var/lib/prometheus/node-exporter/hotmount.prom")
		m.run(use.end)
		m.wait("the volume by itself", "findmnt "+where)
	}
}

// TestMountedOutOfSight checks a disk that a service has mounted in its own mount namespace, and a disk below a mounted
// loop device. In the host's mount table, no line names either disk. hotmount does not mount the disk, and holds the
// disk after the use has ended. An accepted disk is mounted only after the use has ended.
func TestMountedOutOfSight(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const sleep = "used by sleep \\(process [0-9]+\\): mounted at /srv/private in its mount namespace"
	for _, use := range []struct{ begin, during, accepted, end, how string }{
		{`systemd-run -q --unit=private -p PrivateMounts=yes sh -c 'mkdir -p /srv/private; mount /dev/%s /srv/private && exec sleep infinity'
for i in $(seq 1 50); do nsenter -t $(systemctl show -P MainPID private) -m findmnt /srv/private && exit 0; sleep 0.1; done; exit 1`,
			usedHold + sleep, " .*cannot use the disk: it is " + sleep, "systemctl stop private", ""},
		{"loop=$(" + freeLoop(w) + "); losetup $loop /dev/%s; echo $loop >/root/loop; mkdir -p /srv/loop; mount $loop /srv/loop",
			" .*ignore: the disk is in use through /dev/loop", "", "umount /srv/loop; losetup -d $(cat /root/loop); hotmount rescan", "below loop[0-9]+"},
	} {
		m.run("systemctl stop hotmount")
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		begin := strings.Replace(use.begin, "%s", name, 1)
		m.run("udevadm settle; " + begin)
		m.run("systemctl start hotmount")
		m.waitForLog("/dev/" + name + use.during)
		m.run(use.end)
		if use.how != "" {
			m.waitForLog("/dev/" + name + usedHold + use.how + ", seen .*; .*hotmount accept " + name)
		}
		m.run("systemctl restart hotmount")
		m.wait("the next daemon to hold the disk", "systemctl is-active hotmount && hotmount status | grep -q "+quote("hotmount accept "+name))
		if use.accepted != "" {
			m.run(begin)
			m.run("hotmount accept " + name)
			m.waitForLog("/dev/" + name + use.accepted)
			m.run(m.printed("findmnt --task [0-9]+ /dev/"+name) + " | grep /srv/private; systemctl stop private")
		} else {
			m.run("hotmount accept " + name)
		}
		m.mounted(name)
	}
}

// TestABindOfADiskThatIsHeld bind-mounts a disk's device node, and ends the bind mount, while hotmount runs. hotmount
// notices the bind mount and does not format the disk.
func TestABindOfADiskThatIsHeld(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("touch /etc/hotmount/hold /run/volume")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk")
	m.run("mount --bind /dev/" + name + " /run/volume")
	m.waitForLog("/dev/" + name + " .*ignore: the disk's device file is bind-mounted")
	m.run("umount /run/volume")
	m.waitForLog("/dev/" + name + usedHold + "bind-mounted as a device at /run/volume")
	m.run("rm /etc/hotmount/hold; systemctl reload hotmount")
	m.wait("the hold for use to stay", "hotmount plan | grep -q '^"+name+" .*hold .*somebody else on this node used the disk'")
	m.checkUntouched(name)
	m.run("hotmount accept " + name)
	m.mounted(name)
}

// The method starts a unit. The name of the unit's process is the parameter `comm`, and the process opens the disk with
// the given flags of open(2).
func (m machine) opens(unit, comm, name, flags string) {
	m.t.Helper()
	// The Perl program is in a file, because systemd would expand the program's variables in a command line.
	m.run(fmt.Sprintf(`cat >/root/opens <<'X'
use Fcntl; $0 = $ARGV[0]; sysopen(F, $ARGV[1], eval $ARGV[2]) or die $!; sleep;
X
systemd-run -q --unit=%[1]s perl /root/opens '%[3]s' /dev/%[4]s '%[2]s'
for i in $(seq 1 50); do grep -qx '%[3]s' /proc/$(systemctl show -P MainPID %[1]s)/comm && ls -l /proc/$(systemctl show -P MainPID %[1]s)/fd | grep -q '/dev/%[4]s$' && exit 0; sleep 0.1; done; exit 1`, unit, flags, comm, name))
}

// TestOpenInAMachine checks disks that a virtual machine monitor has open, with and without O_EXCL. hotmount holds a
// disk that a monitor has open, whatever is on the disk, even after the monitor ends. hotmount does not use an accepted
// disk while the monitor has it open. If another program has a disk open for writing, hotmount uses the disk after the
// program ends. If another program has a disk open only for reading, hotmount uses the disk even before the program
// ends.
func TestOpenInAMachine(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("mkdir -p /etc/libvirt/qemu")
	for i, flags := range []string{"O_RDWR", "O_RDWR|O_EXCL", "O_RDONLY"} {
		m.run("systemctl stop hotmount")
		full, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		empty, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		encrypted, _ := m.attach(w, worker.Disk{File: luksDisk(t, 320<<20)})
		m.run("udevadm settle")
		advised := func() string {
			return m.run("journalctl -b -q -o cat --no-pager | grep -c 'hotmount format " + encrypted + "' || [ $? = 1 ]")
		}
		before := advised()
		for _, name := range []string{full, empty, encrypted} {
			m.opens(fmt.Sprintf("guest%d-%s", i, name), "qemu-system-x86", name, flags)
		}
		m.run("systemctl start hotmount")
		for _, name := range []string{full, empty, encrypted} {
			m.waitForLog("/dev/" + name + usedHold + `opened by the virtual machine monitor qemu-system-x86 \(process [0-9]+\), seen .*; .*hotmount accept ` + name)
		}
		// Before the accept, no message advises the user to overwrite the disk. Even after the accept, hotmount neither
		// mounts nor formats a disk that the monitor still has open.
		if got := advised(); got != before {
			t.Errorf("%s: the journal advises to format it %s times, before %s", flags, got, before)
		}
		const nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups hotmount "
		if got := m.run(nobody + "plan; " + nobody + "explain " + encrypted); strings.Contains(got, "needed: ") || !strings.Contains(got, "nothing on the disk may be overwritten yet: cannot read the records: ") {
			t.Errorf("%s: a user who cannot read the records is advised:\n%s", flags, got)
		}
		m.run("hotmount accept " + encrypted)
		m.waitForLog("/dev/" + encrypted + " .*refuse: the disk holds crypto_LUKS.*hotmount format " + encrypted)
		for _, name := range []string{full, empty} {
			m.run("hotmount accept " + name)
			m.waitForLog("/dev/" + name + " .*cannot use the disk: it is opened by the virtual machine monitor .*next try in")
		}
		if got := m.run("findmnt -rno SOURCE | grep -E '/(" + full + "|" + empty + ")$' || true"); got != "" {
			t.Errorf("%s: mounted are %s", flags, got)
		}
		m.checkUntouched(empty)
		m.run(fmt.Sprintf("systemctl stop guest%d-%s guest%[1]d-%[3]s guest%[1]d-%[4]s; hotmount accept %[2]s; hotmount accept %[3]s", i, full, empty, encrypted))
		m.mounted(full)
		m.mounted(empty)
	}

	// A monitor opens the disk while hotmount proves it blank, after the daemon has looked for open files.
	late, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.wait("the proof", "systemctl list-units --no-legend 'hotmount-format@*' | grep -q activating")
	m.opens("late", "qemu-system-x86", late, "O_RDWR")
	m.waitForLog("/dev/" + late + usedHold + "opened by the virtual machine monitor qemu-system-x86")
	m.checkUntouched(late)
	m.run("systemctl stop late; hotmount accept " + late)
	m.mounted(late)

	m.run("systemctl stop hotmount")
	written, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	read, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.run("udevadm settle")
	m.opens("writer", "dd", written, "O_RDWR")
	m.opens("reader", "smartd", read, "O_RDONLY")
	m.run("systemctl start hotmount")
	m.waitForLog("/dev/" + written + ` .*cannot use the disk: it is opened for writing by dd \(process [0-9]+\); nothing on it was changed; .*fuser -v /dev/` + written)
	m.run(m.printed("fuser -v /dev/"+written) + " 2>&1 | grep dd")
	m.mounted(read)
	m.run("! findmnt /dev/" + written)
	m.run("systemctl stop writer; hotmount accept " + written)
	m.mounted(written)
	if got := m.run("journalctl -b -o cat -u 'hotmount-users@*' -p warning --no-pager"); got != "" {
		t.Errorf("the looks for open files say:\n%s", got)
	}
	m.run("rm -r /etc/libvirt")
	looks := "journalctl -b -q -o cat -u 'hotmount-users@*' --no-pager | wc -l"
	before := m.run(looks)
	again, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.mounted(again)
	if after := m.run(looks); after != before || before == "0" {
		t.Errorf("without others it was looked for open files: %s lines, before %s", after, before)
	}
}

// TestAMachinesDiskAfterABoot checks what a container cannot show: another boot ID, other sequence numbers, and disks
// that exist before the daemon starts. A disk that QEMU had open remains held after a reboot, even if QEMU does not
// run. A disk that was mounted elsewhere must also remain held, whether or not the disk has a serial. hotmount does not
// use a disk that a libvirt domain names by a udev link. When the domain is removed, hotmount holds the disk. No disk's
// data changes.
func TestAMachinesDiskAfterABoot(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /etc/libvirt/qemu; systemctl stop hotmount")
	images := map[string]string{}
	attach := func(serial string) string {
		t.Helper()
		image := made(t, 320<<20)
		name, _ := m.attach(w, worker.Disk{File: image, Serial: serial})
		images[name] = image
		return name
	}
	guest, elsewhere, bare, named := attach("GUEST"), attach("ELSEWHERE"), attach(""), attach("NAMED")
	m.run("udevadm settle; mkdir /srv/a /srv/b; mount -o ro,norecovery /dev/" + elsewhere + " /srv/a; mount -o ro,norecovery /dev/" + bare + " /srv/b")
	m.opens("guest", "qemu-system-x86", guest, "O_RDWR|O_EXCL")
	m.run("echo \"<domain><devices><disk><source dev='/dev/disk/by-id/virtio-NAMED'/></disk></devices></domain>\" >/etc/libvirt/qemu/guest.xml; systemctl start hotmount")
	m.waitForLog("/dev/" + guest + usedHold + "opened by the virtual machine monitor")
	m.waitForLog("/dev/" + elsewhere + " .*ignore: the disk is mounted elsewhere: /srv/a")
	m.waitForLog("/dev/" + bare + " .*ignore: the disk is mounted elsewhere: /srv/b")
	m.waitForLog("/dev/" + named + " .*ignore: the system's configuration or a link in a class directory claims the disk: /etc/libvirt/qemu/guest.xml:1")
	digests := map[string]string{}
	for name, image := range images {
		digests[name] = digest(t, image)
	}
	slots := m.run("for d in " + strings.Join([]string{guest, elsewhere, bare, named}, " ") + "; do udevadm info -q property --property ID_PATH --value /dev/$d; done")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("three holds and the claim", "systemctl show -P StatusText hotmount | grep -q '^0 mounted, 3 held, '")
	now := strings.Fields(m.run("for s in " + strings.Join(strings.Fields(slots), " ") + "; do readlink -f /dev/disk/by-path/$s | xargs basename; done"))
	for i, how := range []string{"opened by the virtual machine monitor", "mounted at /srv/a", "mounted at /srv/b"} {
		m.waitForLog("/dev/" + now[i] + usedHold + how)
	}
	m.run("rm /etc/libvirt/qemu/guest.xml; hotmount rescan")
	m.waitForLog("/dev/" + now[3] + usedHold + "claimed by /etc/libvirt/qemu/guest.xml:1")
	for name, image := range images {
		if digest(t, image) != digests[name] {
			t.Errorf("%s was written to", name)
		}
	}
	for _, name := range now {
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
}

// qemu is the path of QEMU on the host and on the worker.
const qemu = "/usr/bin/qemu-system-x86_64"

// putQEMU copies the host's QEMU, with its libraries, into the worker.
func (m machine) putQEMU(w worker.Node) {
	m.t.Helper()
	libraries, err := exec.CommandContext(ctx(m.t), "ldd", qemu).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	modules, err := filepath.Glob("/usr/lib/*/qemu/accel-tcg-x86_64.so")
	if err != nil {
		m.t.Fatal(err)
	}
	m.run("mkdir /opt/qemu")
	for _, at := range slices.Concat(regexp.MustCompile(`/\S+/lib\S+\.so\S*`).FindAllString(string(libraries), -1), modules, []string{qemu}) {
		to := "/opt/qemu/" + filepath.Base(at)
		if at == qemu {
			to = qemu
		}
		// The host's C library is not copied, because the worker must use its own C library.
		if strings.HasPrefix(filepath.Base(at), "libc.") || strings.HasPrefix(filepath.Base(at), "libm.") {
			continue
		}
		if err := w.Put(ctx(m.t), at, to); err != nil {
			m.t.Fatal(err)
		}
	}
	m.run("chmod 0755 " + qemu)
}

// TestOpenInQEMU checks a disk that a real QEMU has open. The disk remains held after a boot at which QEMU does not
// run. By default QEMU opens disks without O_EXCL.
func TestOpenInQEMU(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.putQEMU(w)
	m.run("systemctl stop hotmount")
	full, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	empty, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	for _, name := range []string{full, empty} {
		m.run(fmt.Sprintf("udevadm settle; systemd-run -q --unit guest-%[1]s --setenv=LD_LIBRARY_PATH=/opt/qemu --setenv=QEMU_MODULE_DIR=/opt/qemu %[2]s -machine none -nodefaults -display none -S -blockdev driver=host_device,node-name=d,filename=/dev/%[1]s", name, qemu))
		m.wait("QEMU to have it open", "ls -l /proc/$(systemctl show -P MainPID guest-"+name+")/fd | grep -q '/dev/"+name+"$'")
	}
	m.run("systemctl start hotmount")
	held := func(when string) {
		t.Helper()
		for _, name := range []string{full, empty} {
			m.wait(name+" to be held "+when, "hotmount explain "+name+" | grep 'opened by the virtual machine monitor qemu-system-x86'")
		}
		if got := m.run("findmnt -rno SOURCE | grep -E '/(" + full + "|" + empty + ")$' || [ $? = 1 ]"); got != "" {
			t.Errorf("mounted are %s", got)
		}
		// QEMU flushes the disk when it ends. The kernel counts the flush as a write request without a sector.
		if got := m.run("awk '{print $7 + $14}' /sys/block/" + empty + "/stat"); got != "0" {
			t.Errorf("%s sectors of %s were written %s", got, empty, when)
		}
	}
	held("while QEMU runs")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.run("[ -z \"$(pgrep qemu)\" ]")
	held("after a boot")
	for _, name := range []string{full, empty} {
		m.wait("the accept", "hotmount accept "+name)
		m.mounted(name)
	}
}

// guestFiles makes the unit guest@SERIAL.service, which runs QEMU with the virtio disk that has this serial. systemd
// considers the unit started only after QEMU has opened the disk, and hotmount starts after the unit. If a serial ends
// in EXCL, the unit opens the disk with O_EXCL and passes the open disk to QEMU.
const guestFiles = `cat >/root/guest <<'X'
#!/usr/bin/perl
use Fcntl;
my $serial = $ARGV[0];
my ($disk, @pass) = "/dev/disk/by-id/virtio-$serial";
if ($serial =~ /EXCL$/) {
    $^F = 1000; # QEMU inherits the open disk
    sysopen(DISK, $disk, O_RDWR|O_EXCL) or die "$disk: $!";
    @pass = ("-add-fd", "fd=" . fileno(DISK) . ",set=1");
    $disk = "/dev/fdset/1";
}
$ENV{LD_LIBRARY_PATH} = $ENV{QEMU_MODULE_DIR} = "/opt/qemu";
exec "/usr/bin/qemu-system-x86_64", qw(-machine none -nodefaults -display none -S), @pass,
    "-blockdev", "driver=host_device,node-name=d,filename=$disk";
X
cat >/etc/systemd/system/guest@.service <<'X'
[Unit]
Requires=dev-disk-by\x2did-virtio\x2d%i.device
After=dev-disk-by\x2did-virtio\x2d%i.device
Before=hotmount.service
[Service]
Type=exec
ExecStart=/root/guest %i
ExecStartPost=/bin/sh -c 'until ls -l /proc/$MAINPID/fd | grep -q "/dev/vd"; do sleep 0.1; done'
[Install]
WantedBy=multi-user.target
X
chmod 0755 /root/guest; systemctl daemon-reload`

// TestOpenInQEMUOnVirtio checks virtio disks that a real QEMU opens, with and without O_EXCL. QEMU opens some of the
// disks while hotmount runs. hotmount already holds these disks because of a storage driver. QEMU opens the other disks
// at a boot, before hotmount starts and sees these disks for the first time. All disks remain held after QEMU has
// ended, and after a reboot. Until an accept, no sector of a disk is written.
func TestOpenInQEMUOnVirtio(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.putQEMU(w)
	m.run(guestFiles)
	images, digests := map[string]string{}, map[string]string{}
	attach := func(serials ...string) (guests string) {
		t.Helper()
		for _, serial := range serials {
			image := blank(t, 320<<20)
			if strings.HasPrefix(serial, "full") {
				image = made(t, 320<<20)
			}
			images[serial], digests[serial] = image, digest(t, image)
			m.attach(w, worker.Disk{File: image, Serial: serial})
			guests += " guest@" + serial
		}
		m.run("udevadm settle")
		return guests
	}
	name := func(serial string) string {
		return m.run("basename $(readlink -f /dev/disk/by-id/virtio-" + serial + ")")
	}
	held := func(when string) {
		t.Helper()
		for serial, image := range images {
			disk := name(serial)
			m.wait(serial+" to be held "+when, "hotmount explain "+disk+" | grep 'opened by the virtual machine monitor qemu-system-x86'")
			if got := m.run("findmnt -n /dev/" + disk + " || [ $? = 1 ]; awk '{print $7 + $14}' /sys/block/" + disk + "/stat"); got != "0" {
				t.Errorf("%s, mounts and written sectors %s: %s", serial, when, got)
			}
			if digest(t, image) != digests[serial] {
				t.Errorf("%s was written to %s", serial, when)
			}
		}
	}

	m.register("disks.example.com")
	m.run("touch /etc/hotmount/hold; hotmount rescan")
	guests := attach("full1", "empty1", "full1EXCL", "empty1EXCL")
	for serial := range images {
		m.heldFor(name(serial), "disks.example.com")
	}
	m.run("systemctl start" + guests + "; ! perl -MFcntl -e 'sysopen(F, $ARGV[0], O_EXCL) or die' /dev/disk/by-id/virtio-full1EXCL 2>/dev/null")
	m.unregister()
	m.run("rm /etc/hotmount/hold; hotmount rescan")
	held("while QEMU runs")
	m.run("systemctl stop" + guests + "; hotmount rescan")
	held("after QEMU has ended")

	m.run("systemctl stop hotmount")
	guests = attach("full2", "empty2", "full2EXCL", "empty2EXCL")
	m.run("systemctl enable -q" + guests)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for _, guest := range strings.Fields(guests) {
		serial := strings.TrimPrefix(guest, "guest@")
		m.waitForLog("/dev/" + name(serial) + usedHold + `opened by the virtual machine monitor qemu-system-x86 \(process ` + m.run("systemctl show -P MainPID "+guest) + `\), seen `)
		m.run("[ $(systemctl show -P ActiveEnterTimestampMonotonic " + guest + ") -lt $(systemctl show -P ExecMainStartTimestampMonotonic hotmount) ]")
	}
	held("after a boot")
	m.run("systemctl stop" + guests + "; hotmount rescan")
	held("after the QEMU of the boot has ended")
	for serial := range images {
		disk := name(serial)
		m.wait("the accept", "hotmount accept "+disk)
		m.mounted(disk)
	}
}
