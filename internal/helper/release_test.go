package helper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
)

// TestReleaseWritesFirst checks that the data of pods is on the disk before the release unmounts the disk. The daemon
// must get the release request only after a successful sync.
func TestReleaseWritesFirst(t *testing.T) {
	const where = "/mnt/disks/0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	const pod = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	h, socket := nodetest.New(t), filepath.Join(t.TempDir(), "socket")
	nodetest.Write(t, h.Root, map[string]string{
		"proc/1/mountinfo":  "27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 254:16 / " + where + " rw - xfs /dev/vdb rw\n",
		"proc/1/ns/mnt":     "-> mnt:[1]",
		"proc/77/mountinfo": "90 1 254:16 / /data rw - xfs /dev/vdb rw\n",
		"proc/77/ns/mnt":    "-> mnt:[2]",
		"proc/77/cgroup":    "0::/kubepods/pod" + pod + "/x\n",
	})
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("input/output error")
	for name, tt := range map[string]struct {
		force     bool
		fails     error
		synced    []string
		want, not error
	}{
		"in use":      {not: control.ErrDown},
		"forced":      {force: true, synced: []string{where}, want: control.ErrDown},
		"not written": {force: true, fails: broken, synced: []string{where}, want: broken, not: control.ErrDown},
	} {
		var synced []string
		err := (&Release{Host: h, Socket: socket, Out: io.Discard, Force: tt.force, Sync: func(path string) error {
			synced = append(synced, path)
			return tt.fails
		}}).Do(t.Context(), "vdb")
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.not != nil && errors.Is(err, tt.not) || !slices.Equal(synced, tt.synced) {
			t.Errorf("%s: written %q, %v", name, synced, err)
		}
	}
	// hotmount cannot write out the data of a filesystem that the kernel has shut down. hotmount must unmount such a
	// filesystem nevertheless, because a repair needs an unmounted filesystem.
	table, err := os.ReadFile(h.Root + "/proc/1/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": strings.ReplaceAll(string(table), where+" rw - xfs /dev/vdb rw", where+" rw - xfs /dev/vdb ro")})
	var said strings.Builder
	err = (&Release{Host: h, Socket: socket, Out: &said, Force: true, Sync: func(string) error { return broken }}).Do(t.Context(), "vdb")
	if !errors.Is(err, control.ErrDown) || !strings.Contains(said.String(), "; data that was not yet written to the disk is lost: input/output error") {
		t.Errorf("given up by the kernel: %q, %v", said.String(), err)
	}
	nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": string(table)})
}

// TestReleaseOfACoveredMount checks that the release fails, even by force, if another mount covers the disk's mount. The
// release must not open the path, because the path leads to the covering filesystem.
func TestReleaseOfACoveredMount(t *testing.T) {
	const where = "/mnt/disks/0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	for by, over := range map[string]string{"/mnt": "27", where: "40"} {
		h := nodetest.New(t)
		nodetest.Write(t, h.Root, map[string]string{
			"proc/1/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 254:16 / " + where + " rw - xfs /dev/vdb rw\n41 " + over + " 0:50 / " + by + " rw - nfs far:/x rw\n",
			"proc/1/ns/mnt":    "-> mnt:[1]",
		})
		settings := config.Default()
		if err := h.Store.SaveSettings(&settings); err != nil {
			t.Fatal(err)
		}
		err := (&Release{Host: h, Socket: filepath.Join(t.TempDir(), "socket"), Out: io.Discard, Force: true, Sync: func(path string) error {
			t.Errorf("%s is opened", path)
			return nil
		}}).Do(t.Context(), "vdb")
		want := "another mount covers its mount " + where + "; if nothing needs the covering mount: umount " + by + "; then: hotmount release vdb"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// TestDetachedItself checks that detachedItself reports true only for a loop device that is gone.
func TestDetachedItself(t *testing.T) {
	gone := fmt.Errorf("cannot look at it: %w", disk.ErrGone)
	for transport, want := range map[string][3]bool{"loop": {false, true, false}, "virtio": {}, "": {}} {
		f := &disk.Facts{Transport: transport}
		if got := [3]bool{detachedItself(f, nil), detachedItself(f, gone), detachedItself(f, errors.New("no"))}; got != want {
			t.Errorf("%q: %v, want %v", transport, got, want)
		}
	}
}

// TestToDetach checks that the virsh command never contains the disk's kernel name, or unsafe bytes of its serial. A
// partition or a device-mapper volume must not be reported as safe to detach.
func TestToDetach(t *testing.T) {
	vdc := disk.ID{Name: "vdc", Seq: 9}
	for name, tt := range map[string]struct {
		f    disk.Facts
		want string
	}{
		"serial": {disk.Facts{ID: vdc, Transport: "virtio", Serial: "A.b_1-2:3", Slot: "pci-0000:05:00.0", Size: 1 << 30},
			"safe to detach: serial A.b_1-2:3, size 1 GiB, slot on this node pci-0000:05:00.0\non the hypervisor, the disk may have another name than vdc; to see that name, the TARGET: virsh dumpxml NODE --xpath \"//disk[serial='A.b_1-2:3']/target/@dev\"\nthen: virsh detach-disk NODE TARGET --persistent"},
		"serial cut by virtio": {disk.Facts{ID: vdc, Transport: "virtio", Serial: strings.Repeat("s", 20), Size: 1 << 30},
			"safe to detach: serial ssssssssssssssssssss, size 1 GiB\non the hypervisor, the disk may have another name than vdc; to see that name, the TARGET: virsh dumpxml NODE --xpath \"//disk[starts-with(serial,'ssssssssssssssssssss')]/target/@dev\"\nthen: virsh detach-disk NODE TARGET --persistent"},
		"hostile serial": {disk.Facts{ID: vdc, Transport: "virtio", Serial: `']$(id)"`, Slot: "pci-0000:05:00.0", Size: 1 << 30},
			"safe to detach: size 1 GiB, slot on this node pci-0000:05:00.0\non the hypervisor, the disk may have another name than vdc; to see that name, the TARGET (the <target> beside the disk's <address>): virsh dumpxml NODE\nthen: virsh detach-disk NODE TARGET --persistent"},
		"no serial": {disk.Facts{ID: vdc, Transport: "virtio", Size: 1 << 30},
			"safe to detach: size 1 GiB\non the hypervisor, the disk may have another name than vdc; to see that name, the TARGET (the <target> beside the disk's <address>): virsh dumpxml NODE\nthen: virsh detach-disk NODE TARGET --persistent"},
		"partition": {disk.Facts{ID: disk.ID{Name: "vdc1", Seq: 9}, Whole: "vdc", Transport: "virtio", Serial: "S"},
			"the disk is a partition of vdc; vdc is safe to detach when no partition is mounted, given out or in use; to see all uses: hotmount status; lsblk /dev/vdc"},
		"loop device": {disk.Facts{ID: disk.ID{Name: "loop7", Seq: 9}, Transport: "loop", BackingFile: "/srv/ci/a\x1b.img", Size: 1 << 30},
			"safe to detach: the loop device /dev/loop7, with the file /srv/ci/a\\x1b.img\nto detach the file: losetup -d /dev/loop7"},
		"volume": {disk.Facts{ID: disk.ID{Name: "dm-3", Seq: 9}, Transport: "dm", Size: 1 << 30},
			"the disk is made of other disks, which may have more mounts; to see the other disks: lsblk -s /dev/dm-3; detach such a disk only when lsblk DISK shows no mount"},
	} {
		if got := toDetach(&tt.f); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
