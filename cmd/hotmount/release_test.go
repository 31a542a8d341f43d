package main

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestToDetach: virsh is never given the name that the disk has on the worker, and no
// foreign bytes; of what is no disk of the host nothing is called safe.
func TestToDetach(t *testing.T) {
	vdc := disk.ID{Name: "vdc", Seq: 9}
	for name, tt := range map[string]struct {
		f    disk.Facts
		want string
	}{
		"serial": {disk.Facts{ID: vdc, Transport: "virtio", Serial: "A.b_1-2:3", Slot: "pci-0000:05:00.0", Size: 1 << 30},
			"safe to detach: its serial is A.b_1-2:3, its size is 1 GiB, its place here pci-0000:05:00.0\non the host it need not be called vdc; its name there, the TARGET, tells: virsh dumpxml NODE --xpath \"//disk[serial='A.b_1-2:3']/target/@dev\"\nthen: virsh detach-disk NODE TARGET --persistent"},
		"serial cut by virtio": {disk.Facts{ID: vdc, Transport: "virtio", Serial: strings.Repeat("s", 20), Size: 1 << 30},
			"safe to detach: its serial is ssssssssssssssssssss, its size is 1 GiB\non the host it need not be called vdc; its name there, the TARGET, tells: virsh dumpxml NODE --xpath \"//disk[starts-with(serial,'ssssssssssssssssssss')]/target/@dev\"\nthen: virsh detach-disk NODE TARGET --persistent"},
		"hostile serial": {disk.Facts{ID: vdc, Transport: "virtio", Serial: `']$(id)"`, Slot: "pci-0000:05:00.0", Size: 1 << 30},
			"safe to detach: its size is 1 GiB, its place here pci-0000:05:00.0\non the host it need not be called vdc; its name there, the TARGET, tells: virsh dumpxml NODE, which has a <target> and an <address> for each disk\nthen: virsh detach-disk NODE TARGET --persistent"},
		"no serial": {disk.Facts{ID: vdc, Transport: "virtio", Size: 1 << 30},
			"safe to detach: its size is 1 GiB\non the host it need not be called vdc; its name there, the TARGET, tells: virsh dumpxml NODE, which has a <target> and an <address> for each disk\nthen: virsh detach-disk NODE TARGET --persistent"},
		"partition": {disk.Facts{ID: disk.ID{Name: "vdc1", Seq: 9}, Whole: "vdc", Transport: "virtio", Serial: "S"},
			"it is a partition of vdc, which is safe to detach once hotmount status shows no other one mounted"},
		"volume": {disk.Facts{ID: disk.ID{Name: "dm-3", Seq: 9}, Transport: "dm", Size: 1 << 30},
			"it is a volume on other disks (lsblk -s /dev/dm-3), and says nothing of what else is on them: before one of them is detached, lsblk has to show no mount on it"},
	} {
		if got := toDetach(&tt.f); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
