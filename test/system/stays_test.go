//go:build vm

package system

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hotmount/test/worker"
)

// TestBlockLinksStay checks that the link of a block volume survives systemctl isolate. When the link's unit ends,
// hotmount makes the link again at once. The unit ends after a kill or a stop, or when systemd takes the disk for
// unplugged. A released disk remains released.
func TestBlockLinksStay(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/disks/block && cat >/etc/hotmount/config.yaml <<'X'\n" + fmt.Sprintf(blockConfig, "block") + "X\nsystemctl reload hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "RAW-1"})
	const link = raw + "RAW-1"
	m.wait("the link", "[ -b "+link+" ]")
	unit := "hotmount-block@" + m.run("cat /sys/block/"+name+"/diskseq")
	invocation := func() string { return m.run("systemctl show -P InvocationID " + unit) }
	before := invocation() + m.run("stat -c %i "+link)
	m.run("systemctl isolate multi-user.target")
	if after := invocation() + m.run("stat -c %i "+link); after != before {
		t.Errorf("isolate has ended the unit: it was %s and is %s", before, after)
	}
	rule := "/run/udev/rules.d/99-away.rules"
	for what, end := range map[string]string{
		"killed": "systemctl kill -s KILL " + unit, "ended": "systemctl kill -s TERM " + unit, "stopped": "systemctl stop --no-block " + unit,
		"taken for unplugged": `mkdir -p /run/udev/rules.d; echo 'KERNEL=="` + name + `", ENV{SYSTEMD_READY}="0"' >` + rule + `; udevadm control --reload; udevadm trigger --settle /dev/` + name +
			"; rm " + rule + "; udevadm control --reload; udevadm trigger --settle /dev/" + name,
	} {
		was := invocation()
		m.run(end)
		m.wait("the link of a unit that was "+what, fmt.Sprintf("[ -b %s ] && now=$(systemctl show -P InvocationID %s) && [ -n \"$now\" ] && [ $now != %s ]", link, unit, was))
	}
	m.run("hotmount release " + name)
	// After a reload the daemon has looked at each disk.
	m.run("systemctl reload hotmount; ! [ -L " + link + " ]")
	m.wait("the release to be known", "hotmount plan | grep -E '^"+name+" .*hold .*released'")
}

// TestSoftReboot checks a soft reboot, which ends all mounts and keeps the kernel's boot ID. hotmount must not take the
// end of the mounts for an unmount by hand, and must mount the volumes again without a command.
func TestSoftReboot(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	where := "/mnt/disks/" + m.mounted(name)
	boot, mount := m.run("cat /proc/sys/kernel/random/boot_id"), m.run("findmnt -no ID "+where)
	// The connection may end before the command's answer arrives.
	_, _ = m.Run(ctx(t), "systemctl soft-reboot")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for c, out := ctx(t), ""; out != "1\nactive\n"; out, _ = m.Run(c, "systemctl show -P SoftRebootsCount; systemctl is-active hotmount") {
		select {
		case <-c.Done():
			t.Fatal("the worker does not come back")
		case <-tick.C:
		}
	}
	m.wait("the mount", "findmnt "+where)
	if got := m.run("cat /proc/sys/kernel/random/boot_id"); got != boot {
		t.Errorf("the boot id is %s, it was %s", got, boot)
	}
	if got := m.run("findmnt -no ID " + where); got == mount {
		t.Errorf("the mount %s was never ended", got)
	}
	if got := m.run("hotmount status"); !strings.Contains(got, "mounted") || strings.Contains(got, "held") {
		t.Errorf("%s", got)
	}
}

// TestCoveredByAMount checks that a volume is failed while another mount hides it. At boot hotmount starts after a slow
// mount above its class directory, and makes the directory in that mount. If the slow mount fails, hotmount starts and
// names the failed mount. systemd mounts nothing below the failed mount until the administrator repairs the mount or
// removes it from fstab.
func TestCoveredByAMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	is := func(state string) {
		t.Helper()
		m.wait("it to be "+state, "(hotmount status || [ $? = 3 ]) | grep -E '^"+name+" .* "+state+" '")
	}
	m.run("mount -t tmpfs none /mnt")
	is("failed")
	m.says("/dev/" + name + " .*keep: the disk is mounted, and another mount covers it: .*: /mnt; .*: umount /mnt")
	late, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.says("cannot make the mount point /mnt/disks/.*; tried again in")
	m.run("umount /mnt")
	is("mounted")
	m.mounted(late)

	// cloud-init writes lines like the following line to fstab.
	m.run(`printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 5\n' >/etc/systemd/system/slow.service
echo 'none /mnt tmpfs nofail,x-systemd.requires=slow.service,x-systemd.after=slow.service 0 0' >>/etc/fstab`)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	m.run("findmnt -t tmpfs /mnt")
	is("mounted")
	m.run("sed -i 's/tmpfs nofail/tmpfs nonsense,nofail/' /etc/fstab")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.says("cannot mount loop.*: systemd requires mnt.mount for this mount, but mnt.mount is not mounted: nothing is wrong with the disk; .*; tried again in")
	m.wait("hotmount to be ready", "systemctl is-active hotmount && systemctl is-failed mnt.mount && ! findmnt /mnt")
	m.run("sed -i '/^none .mnt /d' /etc/fstab; systemctl daemon-reload; systemctl reload hotmount")
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	is("mounted")
}
