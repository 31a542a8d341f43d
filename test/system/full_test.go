//go:build vm

package system

import (
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// rootOn puts the class directory and the state directory on one new filesystem of the given type. The filesystem plays
// the node's root filesystem.
func (m machine) rootOn(w worker.Node, fstype string) {
	m.t.Helper()
	image := made(m.t, 400<<20)
	if fstype == "ext4" {
		if out, err := exec.CommandContext(ctx(m.t), "mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
			m.t.Fatalf("mkfs.ext4: %v: %s", err, out)
		}
	}
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: image})
	m.run("mkdir -p /root/os; mount /dev/" + name + " /root/os; mount --make-private /root/os; mkdir /root/os/disks /root/os/lib; cp -a /var/lib/hotmount/. /root/os/lib; mount --bind /root/os/disks /mnt/disks; mount --make-shared /mnt/disks; mount --bind /root/os/lib /var/lib/hotmount; systemctl start hotmount")
}

// fillRoot fills the filesystem of rootOn, first with a file and then with directories. ext4 reserves blocks for the
// metadata of files, and directories can fill these blocks.
func (m machine) fillRoot() {
	m.t.Helper()
	m.run("mkdir -p /root/os/fill; cd /root/os/fill; for i in 1 2; do cat /dev/zero >>f 2>/dev/null && exit 1; sync; done; while mkdir $$-$i 2>/dev/null; do i=$((i+1)); done")
}

// TestFullRoot checks that disks with data are mounted while the root filesystem is full, even after several
// attachments. A blank disk waits. Once the root filesystem has room again, the command that the status prints gets the
// blank disk formatted.
func TestFullRoot(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) {
			m, w := startNode(t, worker.Options{})
			m.rootOn(w, fstype)
			m.wait("the reserve", "[ $(ls /var/lib/hotmount/reserve | wc -l) = 64 ]")
			m.fillRoot()
			m.run("systemctl restart hotmount")
			var ids []string
			for range 4 {
				name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
				m.mounted(name)
				ids = append(ids, id)
			}
			m.fillRoot() // fills the space of the reserve that is still free
			name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
			m.says("/dev/" + name + " .*hold: nothing is formatted: the filesystem of /var/lib/hotmount is full; make room in /var/lib/hotmount, then: hotmount rescan")
			m.untouched(name)
			for _, id := range ids {
				m.detach(w, id)
			}
			again, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
			uuid := m.mounted(again)
			if got := m.run("ls -A /var/lib/hotmount/reserve | wc -l; grep -c " + uuid + " /var/lib/hotmount/filesystems.json; journalctl -b -p err -o cat --no-pager -u hotmount"); !strings.HasSuffix(got, "\n1") {
				t.Errorf("of the reserve are left, is the filesystem on record, errors: %s", got)
			}
			m.run("rm -r /root/os/fill; $(hotmount status | tr -s '\n ' ' ' | grep -o 'hotmount rescan')")
			m.mounted(name)
		})
	}
}

// TestFullRootWithoutReserve checks the messages when the root filesystem is full and hotmount's reserve is gone.
// Without its reserve hotmount cannot make the mount point and cannot write a record. Each printed command helps.
func TestFullRootWithoutReserve(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.rootOn(w, "ext4")
	m.wait("the reserve", "[ $(ls /var/lib/hotmount/reserve | wc -l) = 64 ]")
	m.run("rm -r /var/lib/hotmount/reserve; sync")
	m.fillRoot()
	data, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait("the failure", "hotmount status | tr -s '\n ' ' ' | grep '"+data+" is failed: cannot make the mount point /mnt/disks/.*: no space left on device: the disk is untouched, and hotmount mounts it when there is room for a directory; to see what is full: df -h /mnt/disks; df -i /mnt/disks;'")
	m.run("$(hotmount status | tr -s '\n ' ' ' | grep -o 'df -h /mnt/disks') | grep '100%'; ls -A /mnt/disks | grep -v . || [ $? = 1 ]")
	m.run("systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.says("/dev/" + name + ` .*hold: nothing is formatted: the state directory could not be written at 2[-0-9]+ [0-9:]+ UTC .*no space left on device\), and a record may be missing; the filesystem of the directory is full now; once the state directory can be written: hotmount state init`)
	m.run("rm -r /root/os/fill; sync")
	m.told(name + " is held .operator.: .*and a record may be missing; the directory can be written now")
	m.untouched(name)
	m.run("$(hotmount status | tr -s '\n ' ' ' | grep -o 'hotmount state init')")
	m.mounted(name)
	m.mounted(data)
}
