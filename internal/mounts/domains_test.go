package mounts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

const domain = `<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->
<domain type='kvm'>
  <devices>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw'/>
      <source dev='/dev/vdb'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='block'><source dev="/dev/disk/by-id/virtio-DATA&#45;1" index='2'><slices/></source></disk>
    <disk type='file'><source file='/var/lib/libvirt/images/a.qcow2'/></disk>
    <disk type='file'><source file='/dev/vg0/guest'/><backingStore><source dev='/dev/vdd'/></backingStore></disk>
    <interface type='direct'><source dev='eth0'/></interface>
    <serial type='dev'><source path='/dev/ttyS0'/></serial>
  </devices>
</domain>
`

func TestDomainClaims(t *testing.T) {
	root := files(t, map[string]string{
		"etc/libvirt/qemu/guest.xml":            domain,
		"etc/libvirt/qemu/guest.xml.bak":        "<source dev='/dev/no'/>",
		"etc/libvirt/qemu/autostart/guest.xml":  "<source dev='/dev/no'/>",
		"etc/libvirt/qemu/networks/default.xml": "<source dev='/dev/no'/>",
		"etc/libvirt/qemu/broken.xml":           "<domain><source dev='/dev/vde'/><disk",
		"etc/libvirt/qemu/empty.xml":            "",
		"etc/libvirt/qemu/long.xml":             "<domain>" + strings.Repeat(" ", maxFile) + "</domain>",
		"etc/libvirt/qemu/vanished.xml":         "-> nowhere",
		"run/libvirt/qemu/other.xml":            "<domstatus><domain><devices><disk><source dev='/dev/vdf'/></disk></devices></domain></domstatus>",
	})
	got, err := Claims(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Claim{
		{"/etc/libvirt/qemu/broken.xml:1", "/dev/vde"},
		{"/etc/libvirt/qemu/broken.xml", ""},
		{"/etc/libvirt/qemu/guest.xml:8", "/dev/vdb"},
		{"/etc/libvirt/qemu/guest.xml:11", "/dev/disk/by-id/virtio-DATA-1"},
		{"/etc/libvirt/qemu/guest.xml:13", "/dev/vg0/guest"},
		{"/etc/libvirt/qemu/guest.xml:13", "/dev/vdd"},
		{"/etc/libvirt/qemu/long.xml", ""},
		{"/run/libvirt/qemu/other.xml:1", "/dev/vdf"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	f := disk.Facts{ID: disk.ID{Name: "vdc"}, Udev: disk.Udev{Links: []string{"/dev/disk/by-id/virtio-DATA-1"}}}
	if !want[3].Matches(&f) || want[2].Matches(&f) {
		t.Error("udev's link does not match the disk, or another disk's node does")
	}
}

// FuzzParseDomain checks that no text makes parseDomain panic. All names that parseDomain returns are below /dev.
func FuzzParseDomain(f *testing.F) {
	f.Add(domain)
	f.Fuzz(func(t *testing.T, text string) {
		claims, _ := parseDomain(nil, text, "/x")
		for _, c := range claims {
			if !strings.HasPrefix(c.Spec, "/dev/") {
				t.Errorf("%q", c.Spec)
			}
		}
	})
}
