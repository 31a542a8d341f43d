//go:build vm

package system

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// putBytes writes b into a disk file at the offset at.
func putBytes(t *testing.T, image string, at int64, b string) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(b), at); err != nil {
		t.Fatal(err)
	}
}

// madeExt4 makes a disk file with an empty ext4 filesystem without checksums.
func madeExt4(t *testing.T, size int64) string {
	t.Helper()
	path := blank(t, size)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-O", "^metadata_csum", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	return path
}

// TestFileAsADisk checks a file, such as an image, that was attached as a raw disk. hotmount names the file's format
// before it refuses the disk for its size or for old data. No printed command destroys the file, except with a valid
// token.
func TestFileAsADisk(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const convert = "detach the disk, convert the image on the host, and attach the new file: qemu-img convert -f %s -O raw FILE NEWFILE"
	for _, f := range []struct {
		bytes       string
		at, size    int64
		holds, next string
	}{
		{"QFI\xfb\x00\x00\x00\x03", 0, 192 << 10, "a disk image of the format qcow2", "detach the disk, and on the host attach the image by its format: virsh attach-disk DOMAIN FILE TARGET --subdriver qcow2"},
		{"QFI\xfb\x00\x00\x00\x03", 0, 320 << 20, "a disk image of the format qcow2", "detach the disk, and on the host attach the image by its format: virsh attach-disk DOMAIN FILE TARGET --subdriver qcow2"},
		{"KDMV\x01\x00\x00\x00", 0, 64 << 10, "a disk image of the format vmdk", fmt.Sprintf(convert, "vmdk")},
		{"conectix\x00\x00\x00\x02", 320 << 20, 320<<20 + 512, "a disk image of the format vhd", fmt.Sprintf(convert, "vpc")},
		{"\x1f\x8b\x08\x00\x00\x00\x00\x00", 0, 1 << 20, "a file of the format gzip", "detach the disk, unpack the file on the host, and attach the new file: gzip -dc <FILE >NEWFILE"},
		{"age-encryption.org/v1\n", 0, 320 << 20, "a file encrypted with age", "detach the disk, decrypt the file on the host, and attach the decrypted content"},
	} {
		image := blank(t, f.size)
		putBytes(t, image, f.at, f.bytes)
		before := digest(t, image)
		name, id := m.attach(w, worker.Disk{File: image})
		next := f.next + "$"
		if f.size >= 300<<20 {
			next = f.next + "; if nothing on the disk is needed: hotmount format " + name + "$"
		}
		m.says("^/dev/" + name + " .*refuse: the disk holds what looks like " + f.holds + " .*not blank: looks like a file of the format .*; " + next)
		m.told(name + " is refused: the disk holds what looks like " + f.holds + ".* what helps: " + f.next)
		if got := m.run("hotmount plan | grep '^" + name + " '"); !strings.Contains(got, f.holds) || !strings.Contains(got, f.next) {
			t.Errorf("the plan: %s", got)
		}
		if digest(t, image) != before {
			t.Errorf("%s: it was written to", f.holds)
		}
		m.detach(w, id)
	}
	// An empty disk that is too small is still refused for its size. hotmount has not promised to format the disk.
	name, _ := m.attach(w, worker.Disk{File: blank(t, 1<<20)})
	m.says("^/dev/" + name + " .*: seen: it is read$")
	m.says("^/dev/" + name + " .*refuse: the disk is too small for its class: 1 MiB, minimum_size: 300 MiB; .*attach a larger disk")
}

// TestRemediesForFiles runs the commands that hotmount prints for images and packed files on real files. Each printed
// command makes a disk with the content of the file, and hotmount mounts the disk.
func TestRemediesForFiles(t *testing.T) {
	if err := worker.Need(ctx(t), os.Stderr, []string{"qemu-utils", "gzip", "xz-utils", "zstd", "bzip2", "lz4"}); err != nil {
		t.Fatal(err)
	}
	m, w := startNode(t, worker.Options{})
	onHost := func(command, from, to string) {
		t.Helper()
		command = strings.NewReplacer("NEWFILE", to, "FILE", from).Replace(command)
		if out, err := exec.CommandContext(ctx(t), "bash", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	files := []struct{ format, pack, image, file, before, name, id string }{
		{format: "vmdk", pack: "qemu-img convert -f raw -O vmdk FILE NEWFILE"},
		{format: "vdi", pack: "qemu-img convert -f raw -O vdi FILE NEWFILE"},
		{format: "vhd", pack: "qemu-img convert -f raw -O vpc FILE NEWFILE"},
		{format: "vhdx", pack: "qemu-img convert -f raw -O vhdx FILE NEWFILE"},
		{format: "gzip", pack: "gzip -c <FILE >NEWFILE"},
		{format: "xz", pack: "xz -0 -c <FILE >NEWFILE"},
		{format: "zstd", pack: "zstd -q -c <FILE >NEWFILE"},
		{format: "bzip2", pack: "bzip2 -c <FILE >NEWFILE"},
		{format: "lz4", pack: "lz4 -q -c <FILE >NEWFILE"},
	}
	for i := range files {
		f := &files[i]
		f.image, f.file = made(t, 320<<20), blank(t, 0)
		// A packed empty filesystem has less than 4 KiB, which is too small for a disk.
		onHost("head -c 64K /dev/urandom | dd of=FILE bs=64K seek=3200 iflag=fullblock conv=notrunc status=none", f.image, "")
		onHost(f.pack, f.image, f.file)
		f.before = digest(t, f.file)
		f.name, f.id = m.attach(w, worker.Disk{File: f.file})
	}
	for i := range files {
		f := &files[i]
		m.says("^/dev/" + f.name + " .*refuse: the disk holds what looks like a .*of the format " + f.format + " ")
		remedy := m.run("journalctl -b -o cat --no-pager | grep '^/dev/" + f.name + " .*refuse: the disk holds' | grep -oE '(qemu-img convert|" + f.format + " -dc) [^;]*NEWFILE'")
		m.detach(w, f.id)
		if digest(t, f.file) != f.before {
			t.Errorf("%s: it was written to", f.format)
		}
		unpacked := blank(t, 0)
		onHost(remedy, f.file, unpacked)
		onHost("cmp -n $(stat -c %s FILE) FILE NEWFILE", f.image, unpacked) // the size of a VHD is rounded up
		f.name, f.id = m.attach(w, worker.Disk{File: unpacked})
		onHost("rm FILE NEWFILE", f.file, f.image)
	}
	for _, f := range files {
		m.mounted(f.name)
	}
}

// TestOneWishOneCommand checks a disk that was unmounted by hand and wiped. The token is enough to format the disk, and
// the offer lists what the token overrides. A later hold makes the token invalid. If the later hold protects another
// owner's disk, the disk needs a separate accept. An accept with the reason of another hold lifts nothing.
func TestOneWishOneCommand(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: madeExt4(t, 320<<20)})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("umount /mnt/disks/" + uuid)
	m.says("/dev/" + name + " .*hold: somebody unmounted the disk; .*hotmount accept " + name + " unmounted-by-hand")
	m.run("wipefs -qa /dev/" + name + "; udevadm settle")
	if out := m.fails("hotmount accept " + name + " released"); !strings.Contains(out, "the reason is unmounted-by-hand and not released") {
		t.Error(out)
	}
	m.run("touch /run/volume; mount --bind /dev/" + name + " /run/volume")
	m.told(name + " is ignored: the disk's device file is bind-mounted, as kubelet does for a pod or a virtual machine: /run/volume")
	m.run("umount /run/volume")
	text, token := m.offer(name)
	t.Log(text)
	const vanished = "no filesystem was seen on the disk since it was attached, or the disk was accepted: ext4 "
	if !strings.Contains(text, "the token overrides them:\n") || !strings.Contains(text, "  nobody has unmounted the disk by hand\n") || !strings.Contains(text, vanished+uuid) {
		t.Errorf("the offer:\n%s", text)
	}
	// After the token was printed, a claim appears that hotmount cannot read.
	m.run("ln -s /root/srv.mount /etc/systemd/system/srv.mount; hotmount rescan")
	// A hold about the owner of the disk needs a separate accept.
	for _, command := range []string{"hotmount format " + name + " --confirm " + token, "hotmount format " + name} {
		if out := m.fails(command); !strings.Contains(out, "/etc/systemd/system/srv.mount; if it does not name this disk: hotmount accept "+name+" claims-unseen") {
			t.Error(out)
		}
	}
	m.run("hotmount accept " + name + " claims-unseen")
	_, token = m.offer(name)
	t.Log(m.run("hotmount format " + name + " --confirm " + token))
	if now := m.mounted(name); now == uuid {
		t.Error("the new filesystem has the old UUID")
	}
}

// TestUnmountable checks a disk whose filesystem can never be mounted. The token formats the disk, and its offer names
// what will be lost. Before the offer, no message about a failed mount promises a format.
func TestUnmountable(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := madeExt4(t, 320<<20)
	putBytes(t, image, 1024+0x60+2, "\x08") // s_feature_incompat: a bit that no kernel knows
	before := digest(t, image)
	name, _ := m.attach(w, worker.Disk{File: image})
	m.says("/dev/" + name + " .*tried again in")
	m.wait("a second try", "hotmount status -o json | grep '\"tries\": [2-9]'")
	if out := m.run("journalctl -b --no-pager -o cat | grep -E 'it becomes|Prove the disk|proven blank' || [ $? = 1 ]"); out != "" {
		t.Errorf("a format is promised:\n%s", out)
	}
	m.told(name + " is failed: ")
	text, token := m.offer(name)
	t.Log(text)
	if !strings.Contains(text, " holds a filesystem (ext4)") || !strings.Contains(text, "\nThe disk could not be mounted: ") || digest(t, image) != before {
		t.Errorf("the offer:\n%s", text)
	}
	t.Log(m.run("hotmount format " + name + " --confirm " + token))
	m.mounted(name)
	if out := m.fails("hotmount format " + name); !strings.Contains(out, "mounted") {
		t.Error(out)
	}
}
