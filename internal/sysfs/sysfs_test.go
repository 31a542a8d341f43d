package sysfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func vdbFacts() disk.Facts {
	return disk.Facts{
		ID:            disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 12},
		Size:          5 << 30,
		Serial:        "a=b \x01c",
		Vendor:        "0x1af4",
		Transport:     "virtio",
		Slot:          "pci-0000:05:00.0",
		Rotational:    true,
		LogicalSector: 512,
		Writes:        12,
		Discards:      true,
		Udev: disk.Udev{Initialized: true, Links: []string{
			"/dev/disk/by-path/pci-0000:05:00.0", "/dev/disk/by-path/virtio-pci-0000:05:00.0", "/dev/disk/by-diskseq/12",
		}},
	}
}

func sdaFacts() disk.Facts {
	return disk.Facts{
		ID:            disk.ID{Name: "sda", Dev: disk.Dev{Major: 8}, Seq: 3},
		Size:          1 << 20,
		Model:         "QEMU HARDDISK",
		Vendor:        "QEMU",
		WWN:           "naa.5000c500a1b2c3d4",
		Transport:     "virtio-scsi",
		Slot:          "pci-0000:02:00.0",
		ReadOnly:      true,
		Removable:     true,
		LogicalSector: 4096, Uncounted: true,
		Writes:     5,
		InFlight:   9,
		Partitions: []string{"sda1", "sda2"},
		Holders:    []string{"dm-0", "dm-1", "gone", "md"},
	}
}

// as(change) calls the function `change` with the facts of the disk vdb, and returns the changed facts.
func as(change func(*disk.Facts)) disk.Facts {
	f := vdbFacts()
	change(&f)
	return f
}

// TestNewest checks that Newest leaves out disks that were attached after the removal of the named disk. A disk that
// now has the name of a removed disk was attached after the removal.
func TestNewest(t *testing.T) {
	disks := tree{
		"sys/block/vda/diskseq":    "1\n",
		"sys/block/vdc/diskseq":    "9\n",
		"sys/block/vdd/diskseq":    "14\n",
		"sys/block/gone/dev":       "1:1\n",
		"sys/block/nvme0c0/hidden": "1\n", "sys/block/nvme0c0/diskseq": "99\n",
	}
	for name, want := range map[string]uint64{"vdb": 14, "vdd": 9, "vdc": 1, "vda": 0} {
		if got, err := disks.make(t).Newest(name, nil); got != want || err != nil {
			t.Errorf("with %s: %d, %v", name, got, err)
		}
	}
	for later, want := range map[string]uint64{"vdd": 9, "vdc": 14, "vda": 14, "vdc vdd": 1, "vda vdc vdd": 0} {
		if got, err := disks.make(t).Newest("vdb", func(o string) bool { return strings.Contains(later, o) }); got != want || err != nil {
			t.Errorf("with %s later: %d, %v", later, got, err)
		}
	}
	if got, err := disks.with(tree{"sys/block/vdc/diskseq": "x\n"}).make(t).Newest("vdb", nil); err == nil {
		t.Errorf("unreadable number: %d", got)
	}
	if got, err := (FS{Root: t.TempDir()}).Newest("vdb", nil); err == nil {
		t.Errorf("without sysfs: %d", got)
	}
}

func TestDisk(t *testing.T) {
	const db = "run/udev/data/b254:16"
	entry := virtio[db]
	notInitialized := func(f *disk.Facts) { f.Udev = disk.Udev{} }
	for _, test := range []struct {
		name string
		tree tree
		disk string
		want disk.Facts
	}{
		{"virtio", virtio, "vdb", vdbFacts()},
		{"scsi", scsi, "sda", sdaFacts()},
		{"scsi with a serial", scsi.with(tree{"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/vpd_pg80": "\x00\x80\x00\x04 S1 x"}), "sda",
			func() disk.Facts { f := sdaFacts(); f.Serial = "S1"; return f }()},
		{"a WWN that is no text", scsi.with(tree{"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/wwid": "naa.\xc3\n"}), "sda",
			func() disk.Facts { f := sdaFacts(); f.WWN = "naa.%c3"; return f }()},
		{"nvme with a WWN", virtio.with(tree{"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/subsystem": "-> ../class/nvme", vdb + "wwid": "eui.0025388b710116a1\n", "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/transport": "pcie\n"}), "vdb",
			as(func(f *disk.Facts) { f.Transport, f.WWN = "nvme", "eui.0025388b710116a1" })},
		{"scsi with another page", scsi.with(tree{"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/vpd_pg80": "\x00\x83\x00\x02S1"}), "sda", sdaFacts()},
		{"scsi with a page cut short", scsi.with(tree{"sys/devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtio1/host2/target2:0:0/2:0:0:1/vpd_pg80": "\x00\x80\x01"}), "sda", sdaFacts()},
		{"no serial", virtio.with(tree{vdb + "serial": ""}), "vdb", as(func(f *disk.Facts) { f.Serial = "" })},
		{"no serial attribute", virtio.with(tree{vdb + "serial": "-"}), "vdb", as(func(f *disk.Facts) { f.Serial = "" })},
		{"only one newline is the kernel's", virtio.with(tree{vdb + "serial": " x\n\n"}), "vdb", as(func(f *disk.Facts) { f.Serial = " x\n" })},
		{"udev has not seen it", virtio.with(tree{db: "-"}), "vdb", as(notInitialized)},
		{"udev's entry is of the disk before", virtio.with(tree{db: strings.ReplaceAll(entry, "by-diskseq/12", "by-diskseq/11")}), "vdb", as(notInitialized)},
		{"no address on the path", virtio.with(tree{db: "-", vdb + "dev": "1:1\n", "sys/block/vdb": "-> ../devices/flat/vdb"}).with(flat()), "vdb",
			as(func(f *disk.Facts) {
				f.Udev, f.Slot, f.Dev, f.Vendor, f.Transport = disk.Udev{}, "", disk.Dev{Major: 1, Minor: 1}, "", ""
			})},
		{"another virtio driver", virtio.with(tree{"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/driver": "-> ../x/virtio_pmem"}), "vdb", as(func(f *disk.Facts) { f.Transport = "" })},
		{"nvme", virtio.with(tree{"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/subsystem": "-> ../class/nvme", vdb + "serial": "-", "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/serial": "S1  \n", "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/transport": "pcie\n"}), "vdb",
			as(func(f *disk.Facts) { f.Transport, f.Serial = "nvme", "S1" })},
		{"nvme over TCP", virtio.with(tree{"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/subsystem": "-> ../class/nvme", "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/transport": "tcp\n"}), "vdb",
			as(func(f *disk.Facts) { f.Transport, f.Fabric = "nvme", true })},
		{"a serial that is cut within a character", virtio.with(tree{vdb + "serial": "disk\xc3"}), "vdb", as(func(f *disk.Facts) { f.Serial = "disk%c3" })},
		{"nvme with several paths", virtio.with(tree{"sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/subsystem": "-> ../class/nvme-subsystem", "sys/devices/pci0000:00/0000:00:02.4/0000:05:00.0/virtio4/nvme0/transport": "pcie\n"}), "vdb", as(func(f *disk.Facts) { f.Transport = "nvme" })},
		{"logical volume", virtio.with(tree{vdb + "device": "-", vdb + "serial": "-", vdb + "dm/name": "vg-a\n", vdb + "dm/uuid": "LVM-x\n"}), "vdb",
			as(func(f *disk.Facts) {
				f.Transport, f.Vendor, f.MapperName, f.Serial = "dm", "", "vg-a", "LVM-x"
			})},
		{"device mapper", virtio.with(tree{vdb + "device": "-", vdb + "dm/name": "x\n"}), "vdb", as(func(f *disk.Facts) { f.Transport, f.Vendor, f.MapperName = "dm", "", "x" })},
		{"md", virtio.with(tree{vdb + "device": "-", vdb + "md/level": "x\n"}), "vdb", as(func(f *disk.Facts) { f.Transport, f.Vendor = "md", "" })},
		{"an old kernel's statistics", virtio.with(tree{vdb + "stat": "1 2 3 4 5 6 7 8 9 10 11\n"}), "vdb", as(func(f *disk.Facts) { f.Writes, f.InFlight = 5, 9 })},
		{"a slot for want of udev's", virtio.with(tree{db: strings.ReplaceAll(entry, "E:ID_PATH=", "E:X=")}), "vdb", vdbFacts()},
		{"udev's slot", virtio.with(tree{db: strings.ReplaceAll(entry, "E:ID_PATH=pci", "E:ID_PATH=acpi")}), "vdb", as(func(f *disk.Facts) { f.Slot = "acpi-0000:05:00.0" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.tree.make(t).Disk(test.disk)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// The function `flat` returns the sysfs tree of the disk vdb without the link that shows the disk's bus.
func flat() tree {
	t := tree{}
	for path, content := range virtio {
		if attribute, found := strings.CutPrefix(path, vdb); found && attribute != "device" {
			t["sys/devices/flat/vdb/"+attribute] = content
		}
	}
	t["sys/devices/flat/vdb/dev"] = "1:1\n"
	return t
}

func TestDiskFails(t *testing.T) {
	for _, test := range []struct {
		name string
		tree tree
		disk string
		gone bool
		want string
	}{
		{"not there", virtio, "vdc", true, ""},
		{"its directory is gone", virtio.with(tree{"sys/block/vdc": "-> ../devices/vdc"}), "vdc", true, ""},
		{"a name that leaves the directory", virtio, "../block/vdb", false, "not a name of a disk"},
		{"no name", virtio, "", false, "not a name of a disk"},
		{"a kernel without sequence numbers", virtio.with(tree{vdb + "diskseq": "-"}), "vdb", false, "diskseq"},
		{"no device number", virtio.with(tree{vdb + "dev": "-"}), "vdb", false, "dev"},
		{"device number", virtio.with(tree{vdb + "dev": "254"}), "vdb", false, "cannot parse device number"},
		{"no size", virtio.with(tree{vdb + "size": "-"}), "vdb", false, "size"},
		{"size", virtio.with(tree{vdb + "size": "-1\n"}), "vdb", false, "size"},
		{"no statistics", virtio.with(tree{vdb + "stat": "-"}), "vdb", false, "stat"},
		{"statistics", virtio.with(tree{vdb + "stat": "1 2 3\n"}), "vdb", false, "3 fields"},
		{"a serial that cannot be read", virtio.with(tree{vdb + "serial": "-", vdb + "serial/": ""}), "vdb", false, "serial"},
		{"holders that cannot be read", virtio.with(tree{vdb + "holders/": "-", vdb + "holders": ""}), "vdb", false, "holders"},
		{"too large an entry in udev's database", virtio.with(tree{"run/udev/data/b254:16": strings.Repeat("E:A=B\n", 20000)}), "vdb", false, "more than 65536 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.tree.make(t).Disk(test.disk)
			if err == nil {
				t.Fatalf("got %+v, want an error", got)
			}
			if errors.Is(err, disk.ErrGone) != test.gone || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %q, want %q, gone %v", err, test.want, test.gone)
			}
			if diff := cmp.Diff(disk.Facts{}, got); diff != "" {
				t.Errorf("facts and an error:\n%s", diff)
			}
		})
	}
}

// TestDiskGoesWhileRead removes the disk, or gives the disk's name to another disk, while Disk reads the facts. A FIFO
// in place of an attribute stops the call of Disk until the test has changed the tree.
func TestDiskGoesWhileRead(t *testing.T) {
	for _, test := range []struct {
		name    string
		meddle  func(root string) error
		content string
		gone    bool
	}{
		{"nothing happens", func(string) error { return nil }, "0\n", false},
		{"pulled", func(root string) error { return os.RemoveAll(filepath.Join(root, "sys")) }, "0\n", true},
		{"pulled, and the attribute has nonsense in it", func(root string) error { return os.RemoveAll(filepath.Join(root, "sys")) }, "", true},
		{"replaced", func(root string) error {
			return os.WriteFile(filepath.Join(root, vdb, "diskseq"), []byte("13\n"), 0o644)
		}, "0\n", true},
		{"replaced by a disk on another path", func(root string) error {
			return errors.Join(
				os.MkdirAll(filepath.Join(root, "sys/devices/new/vdb"), 0o755),
				os.WriteFile(filepath.Join(root, "sys/devices/new/vdb/diskseq"), []byte("13\n"), 0o644),
				os.Remove(filepath.Join(root, "sys/block/vdb")),
				os.Symlink("../devices/new/vdb", filepath.Join(root, "sys/block/vdb")))
		}, "0\n", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			fs := virtio.with(tree{vdb + "ro": "-"}).make(t)
			ro := filepath.Join(fs.Root, vdb, "ro")
			if err := syscall.Mkfifo(ro, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				// OpenFile waits until Disk opens the FIFO for reading.
				w, err := os.OpenFile(ro, os.O_WRONLY, 0)
				if err == nil {
					err = test.meddle(fs.Root)
					_, werr := w.WriteString(test.content)
					err = errors.Join(err, werr, w.Close())
				}
				done <- err
			}()
			_, err := fs.Disk("vdb")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if test.gone && !errors.Is(err, disk.ErrGone) || !test.gone && err != nil {
				t.Errorf("error %v, want gone %v", err, test.gone)
			}
		})
	}
}

func TestNames(t *testing.T) {
	fs := scsi.with(tree{
		"sys/block/loop0":                                   "-> ../devices/virtual/block/loop0",
		"sys/devices/virtual/block/loop0/diskseq":           "9\n",
		"sys/block/loop1":                                   "-> ../devices/virtual/block/loop1",
		"sys/devices/virtual/block/loop1/loop/backing_file": "/srv/ci/a.img\n",
		"sys/block/nvme0c0n1":                               "-> ../devices/nvme0c0n1",
		"sys/devices/nvme0c0n1/hidden":                      "1\n",
	}).make(t)
	got, err := fs.Names()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dm-0", "dm-1", "loop1", "sda", "vdb"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := fs.Disk("loop0"); !errors.Is(err, disk.ErrGone) {
		t.Errorf("loop device without a file: %v", err)
	}
	if _, err := (FS{Root: t.TempDir()}).Names(); err == nil {
		t.Error("a missing sysfs is not an error")
	}
}

func TestDevices(t *testing.T) {
	fs := scsi.make(t)
	f := sdaFacts()
	got, err := fs.Devices(&f)
	if err != nil {
		t.Fatal(err)
	}
	want := map[disk.Dev]string{
		{Major: 8}:             "sda",
		{Major: 8, Minor: 1}:   "sda1",
		{Major: 8, Minor: 2}:   "sda2",
		{Major: 253}:           "dm-0",
		{Major: 253, Minor: 1}: "dm-1",
		{Major: 259, Minor: 7}: "dm-1p1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}

	other := f
	other.Seq = 4
	if _, err := fs.Devices(&other); !errors.Is(err, disk.ErrGone) {
		t.Errorf("of another disk: %v", err)
	}
	pulled := disk.Facts{ID: disk.ID{Name: "vdz"}}
	if _, err := fs.Devices(&pulled); !errors.Is(err, disk.ErrGone) {
		t.Errorf("of a pulled disk: %v", err)
	}
	f.Holders = []string{"../x"}
	if _, err := fs.Devices(&f); err == nil {
		t.Error("accepted a path as the name of a holder")
	}
}

func TestBootID(t *testing.T) {
	const id = "0c6e3f0e-7a4e-4a53-8e0f-7b1f5cfd1a2b"
	fs := tree{"proc/sys/kernel/random/boot_id": id + "\n"}.make(t)
	if got, err := fs.BootID(); err != nil || got != id {
		t.Errorf("boot id is %q, %v", got, err)
	}
	for _, bad := range []tree{{}, {"proc/sys/kernel/random/boot_id": "x\n"}} {
		if got, err := bad.make(t).BootID(); err == nil {
			t.Errorf("boot id of %v is %q", bad, got)
		}
	}
}

func TestKernelFormatOff(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"":                                        false,
		"root=/dev/vda1 quiet\n":                  false,
		"hotmount.format=no\n":                    true,
		"quiet hotmount.format=0 ro\n":            true,
		"hotmount.format=false":                   true,
		"hotmount.format=OFF":                     true,
		"hotmount.format=":                        true,
		"hotmount.format=nein":                    true,
		`"hotmount.format=no" quiet`:              true,
		"hotmount.format=yes hotmount.format=no":  true,
		"hotmount.format=no hotmount.format=yes":  true,
		"hotmount.format=yes":                     false,
		"hotmount.format=1":                       false,
		"xhotmount.format=no hotmount.formats=no": false,
	} {
		got, err := tree{"proc/cmdline": cmdline}.make(t).KernelFormatOff()
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", cmdline, got, err, want)
		}
	}
	if _, err := (FS{Root: t.TempDir()}).KernelFormatOff(); err == nil {
		t.Error("a missing command line is not an error")
	}
}

// TestNamespaces checks that the namespaces of an NVMe controller are disks with their own serials.
func TestNamespaces(t *testing.T) {
	for id, want := range map[string]string{"": "SER=1", "1\n": "SER=1", "2\n": "n2-SER=1"} {
		named := tree{}
		for path, text := range virtio {
			named[strings.ReplaceAll(path, "vdb", "nvme0n2")] = strings.ReplaceAll(text, "vdb", "nvme0n2")
		}
		dir := strings.ReplaceAll(vdb, "vdb", "nvme0n2")
		named[dir+"serial"] = "SER=1"
		if id != "" {
			named[dir+"nsid"] = id
		}
		got, err := named.make(t).Disk("nvme0n2")
		if err != nil || got.Serial != want {
			t.Errorf("namespace %q: serial %q, want %q, error %v", id, got.Serial, want, err)
		}
	}
}

// TestOnVirtio checks that onVirtio recognises virtio-scsi by a SCSI host directly below a virtio device. A virtio
// device elsewhere in the sysfs path must not count as virtio-scsi.
func TestOnVirtio(t *testing.T) {
	for path, want := range map[string]bool{
		"/sys/devices/pci0000:00/0000:00:06.0/virtio2/host2/target2:0:1/2:0:1:0/block/sda":          true,
		"/sys/devices/platform/a003e00.virtio_mmio/virtio0/host0/target0:0:0/0:0:0:0/block/sda":     true,
		"/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda":             false,
		"/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sdb":                        false,
		"/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host6/target6:0:0/6:0:0:0/block/sdc": false,
		"/sys/devices/pci0000:00/0000:00:06.0/virtio2/block/vda":                                    false,
		"/sys/devices/pci0000:00/0000:00:06.0/virtio2/net/host2":                                    false,
	} {
		if onVirtio(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
