//go:build vm

package system

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// options sets the mount options of the default class to noatime, nodev and the given options.
func (m machine) options(options string) {
	m.t.Helper()
	m.run("printf 'classes:\\n- {name: default, options: [noatime, nodev, " + options + "]}\\n' >/etc/hotmount/config.d/90-options.yaml; systemctl reload hotmount")
}

// corrected removes the options again, and runs the commands that the messages print.
func (m machine) corrected() {
	m.t.Helper()
	m.run("rm /etc/hotmount/config.d/90-options.yaml; hotmount config check && systemctl reload hotmount")
}

// healthy checks that the status shows the disk as failed and does not suggest a check of the filesystem.
func (m machine) healthy(name string) {
	m.t.Helper()
	m.wait("the failure in the status", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: '")
	m.run("! (hotmount status || [ $? = 3 ]) | grep -E 'xfs_repair|e2fsck'")
}

// noToken checks that hotmount offers no token to format a disk if the disk's content is not the reason for the failed
// mount.
func (m machine) noToken(name, why string) {
	m.t.Helper()
	if out := m.fails("hotmount format " + name); !strings.Contains(out, "cannot format "+name+": the content of the disk is not at fault") || !strings.Contains(out, why) || strings.Contains(out, "--confirm") {
		m.t.Error(out)
	}
}

// TestWhyNotMounted checks that wrong mount options are found before a blank disk is formatted. The message about a
// failed mount names the real cause and does not blame the disk. The printed commands help.
func TestWhyNotMounted(t *testing.T) {
	m, w := startNode(t, worker.Options{})

	m.options("noattime")
	m.run("out=$(hotmount config check 2>&1) || [ $? = 3 ]; echo \"$out\" >&2; grep -F \"90-options.yaml:2: classes[0].options: found\" <<<\"$out\" | grep -F \"with which a new xfs filesystem cannot be mounted: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'\"")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.says("/dev/" + name + " .*cannot format " + name + " .*: its class could not mount the new filesystem: xfs does not take the mount option noattime: xfs: Unknown parameter 'noattime'; nothing is written; .*hotmount config check && systemctl reload hotmount")
	m.untouched(name)
	m.corrected()
	m.mounted(name)

	// The journal has the failure only once, although hotmount retries the mount.
	m.options("logbsize=256k")
	m.run("out=$(hotmount config check 2>&1); echo \"$out\" | grep -F 'with which a new ext4 filesystem cannot be mounted: ext4 does not take the mount option logbsize=256k'")
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: image})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: mount.8. says: wrong fs type, .*; nothing reports damage; to check the options of class default: hotmount config check; for the whole log: journalctl -b -u ")
	m.wait("three tries", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: .*failed [3-9] times'")
	if got := m.run("journalctl -b -o cat --no-pager -u hotmount | grep -c '^/dev/" + name + " .*: cannot mount " + name + "'"); got != "1" {
		t.Errorf("the journal has the failure %s times", got)
	}
	m.healthy(name)
	m.noToken(name, "ext4 does not take the mount option logbsize=256k: ext4: Unknown parameter 'logbsize'; nothing is written; to check the options of class default: hotmount config check && systemctl reload hotmount")
	m.corrected()
	m.mounted(name)

	// The class directory is a mount point in fstab here, and its device never appears.
	m.run("echo 'UUID=00000000-0000-4000-8000-00000000dead /mnt/disks xfs nofail,x-systemd.device-timeout=3s 0 0' >>/etc/fstab; systemctl daemon-reload")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: systemd requires mnt-disks.mount for this mount, but mnt-disks.mount is not mounted: nothing is wrong with the disk; to see why: systemctl status mnt-disks.mount; if mnt-disks.mount is not needed: remove it from /etc/fstab, then systemctl daemon-reload")
	m.healthy(name)
	m.noToken(name, "systemd requires mnt-disks.mount for this mount")
	m.run("sed -i '/dead/d' /etc/fstab; systemctl daemon-reload; hotmount accept " + name)
	m.mounted(name)

	// The class directory's mount unit is not mounted, but is not the cause of the disk's failed mount. The condition
	// of the class directory's mount unit fails, and PID 1 starts the disk's mount unit even so. The message has only
	// mount(8)'s words, because a container does not receive the kernel's log.
	m.run("printf '[Unit]\\nConditionPathExists=!/etc\\n[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nWhere=/mnt/disks\\n' >/etc/systemd/system/mnt-disks.mount; systemctl daemon-reload")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), LogicalBlockSize: 4096})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: mount.8. says: mount.2. system call failed: Function not implemented")
	m.healthy(name)
	m.run("[ $(systemctl show -P LoadState mnt-disks.mount)-$(systemctl show -P ActiveState mnt-disks.mount) = loaded-inactive ]")
}

// TestMovedClass checks a mounted volume whose class gets another directory. hotmount does not report that somebody else
// uses the volume. The printed command moves the volume to the other directory.
func TestMovedClass(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	old := "/mnt/disks/" + uuid
	m.run("mkdir /mnt/disks/moved; printf 'classes:\\n- {name: default, directory: /mnt/disks/moved}\\n' >/etc/hotmount/config.d/zz-moved.yaml; systemctl reload hotmount")
	m.says("/dev/" + name + " .*refuse: the disk is still mounted at " + old + ", but its class default has the directory /mnt/disks/moved now; if nobody needs the volume there: umount " + old + "; hotmount then mounts the disk in /mnt/disks/moved")
	m.run("umount " + old)
	m.wait("the mount in the new directory", "findmnt /mnt/disks/moved/"+uuid)
}

// newer makes the XFS filesystem in a file newer than every kernel. newer sets a feature bit that forbids kernels
// without the feature to write (sb_features_ro_compat in fs/xfs/libxfs/xfs_format.h).
func newer(t *testing.T, path string) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sector := make([]byte, 512)
	if _, err := f.ReadAt(sector, 0); err != nil {
		t.Fatal(err)
	}
	sector[212] |= 0x40
	binary.LittleEndian.PutUint32(sector[224:], 0)
	binary.LittleEndian.PutUint32(sector[224:], crc32.Checksum(sector, crc32.MakeTable(crc32.Castagnoli)))
	if _, err := f.WriteAt(sector, 0); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhyTheKernelDoesNotMount checks how hotmount explains the kernel's messages about failed mounts. Only a virtual
// machine has the kernel's messages in its journal. The first case is a missing module for XFS.
func TestWhyTheKernelDoesNotMount(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /etc/hotmount/config.d; printf 'classes:\\n- {name: default, directory: /mnt/disks, names: [\"vd[b-z]\"]}\\n' >/etc/hotmount/config.d/10-default.yaml; hotmount config check && systemctl reload hotmount")
	m.run("modprobe -r xfs; mv /lib/modules/$(uname -r)/kernel/fs/xfs /root/; depmod")
	fresh, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "FRESH"})
	old, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "OLD"})
	const module = "this kernel cannot mount xfs, because the module is missing or cannot be loaded; .*to see why: modprobe xfs"
	m.says("/dev/" + fresh + " .*cannot format " + fresh + " .*: " + module + "; nothing is written")
	m.says("/dev/" + old + " .*cannot mount " + old + " .*: mount.8. says: unknown filesystem type 'xfs'; " + module)
	m.healthy(old)
	m.noToken(old, module[:strings.Index(module, ";")])
	m.untouched(fresh)
	m.run("! modprobe xfs; mv /root/xfs /lib/modules/$(uname -r)/kernel/fs/; depmod; modprobe xfs; hotmount rescan")
	m.mounted(fresh)
	m.mounted(old)

	name, _ := m.attach(w, worker.Disk{File: newer(t, made(t, 320<<20)), Serial: "NEWER"})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*Superblock has unknown read-only compatible features .*SB validate failed with error -22; the filesystem is newer than this kernel, and is not damaged")
	m.healthy(name)

	apart := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", "-l", "logdev="+blank(t, 64<<20)+",size=64m", apart).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	name, _ = m.attach(w, worker.Disk{File: apart, Serial: "APART"})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: .*external log; specify logdev .*; the filesystem has its log on another device")
	m.healthy(name)

	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SECTORS", LogicalBlockSize: 4096})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*device supports 4096 byte sectors .not 512.; the filesystem was made for smaller sectors than this disk has")
	m.healthy(name)
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SECTORS"})
	m.mounted(name)

	m.options("noattime")
	name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "OPTIONS"})
	m.says("/dev/" + name + " .*cannot mount " + name + " .*: the kernel says: xfs: Unknown parameter 'noattime'; the disk is not damaged; correct the options of class default")
	m.healthy(name)
	m.noToken(name, "xfs: Unknown parameter 'noattime'")
	m.corrected()
	m.mounted(name)
}
