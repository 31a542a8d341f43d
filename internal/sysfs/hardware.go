package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"hotmount/internal/disk"
)

// fillHardware reads the facts that identify the hardware of a disk, such as model and serial. The driver of a disk
// determines which sysfs attributes the disk has.
func fillHardware(facts *disk.Facts, dir string) error {
	var err error
	if facts.Transport, err = transport(facts.Name, dir); err != nil {
		return err
	}
	if facts.Transport == "loop" {
		// The kernel does not show the path of a backing file if the path is longer than a page. If the kernel does not
		// show the path, the loop device matches no class.
		file, err := readAttribute(filepath.Join(dir, "loop/backing_file"))
		if missing(err) {
			return fmt.Errorf("%w: %w", disk.ErrGone, err) // the file was detached from the loop device during the look
		}
		facts.BackingFile = strings.TrimSuffix(file, "\n")
	}
	for _, from := range []struct {
		to *string
		// The field `attributes` lists the names of sysfs attributes in the order of preference. fillHardware uses the
		// first sysfs attribute that exists and is not empty.
		attributes []string
		// The field `trim` contains the characters to remove from the end of the value. SCSI and NVMe pad values with
		// spaces (SPC, INQUIRY; NVMe, Identify Controller).
		trim string
		// The field `virtio` reports whether a virtio-blk disk may have the attribute (drivers/block/virtio_blk.c and
		// drivers/virtio/virtio.c). Disk does not try to open other attributes of a virtio-blk disk, because such
		// attempts would take much of the time that Disk needs.
		virtio bool
	}{
		{&facts.Serial, []string{"serial"}, "", true},
		// LVM gives each logical volume its own permanent dm/uuid.
		{&facts.Serial, []string{"dm/uuid"}, "", false},
		{&facts.Serial, []string{"device/serial"}, " ", false},
		{&facts.Model, []string{"device/model"}, " ", false},
		{&facts.Vendor, []string{"device/vendor"}, " ", true},
		{&facts.WWN, []string{"wwid", "device/wwid"}, "", false},
		{&facts.MapperName, []string{"dm/name"}, "", false},
	} {
		// A loop device has no hardware identity.
		if facts.Transport == "loop" || facts.Transport == "virtio" && !from.virtio {
			continue
		}
		for _, attribute := range from.attributes {
			if *from.to != "" {
				break
			}
			text, err := readAttribute(filepath.Join(dir, attribute))
			if err != nil && !isMissingValue(err) {
				return err
			}
			*from.to = strings.TrimRight(strings.TrimSuffix(text, "\n"), from.trim)
		}
	}
	if facts.Serial == "" && facts.Transport != "loop" && facts.Transport != "virtio" {
		page, err := readAttribute(filepath.Join(dir, "device/vpd_pg80"))
		if err != nil && !isMissingValue(err) {
			return err
		}
		facts.Serial = unitSerial(page)
	}
	if facts.Serial != "" && strings.HasPrefix(facts.Name, "nvme") {
		// The namespaces of an NVMe controller share the controller's serial (nsid in drivers/nvme/host/sysfs.c), so
		// the namespace number becomes part of the serial. The namespace number comes first, because virtio may cut off
		// the end of a serial.
		id, err := readAttribute(filepath.Join(dir, "nsid"))
		if err != nil && !isMissingValue(err) {
			return err
		}
		facts.Serial = disk.NamespacePrefix(strings.TrimSuffix(id, "\n")) + facts.Serial
	}
	facts.Serial, facts.WWN = recordable(facts.Serial), recordable(facts.WWN)
	return nil
}

// The function `recordable` returns a serial or WWN in a form that JSON keeps unchanged. recordable replaces each byte
// that is not UTF-8 by % and two hexadecimal digits. A virtio serial may end with bytes that are not UTF-8, because
// virtio cuts a serial after 20 bytes.
func recordable(serial string) string {
	if utf8.ValidString(serial) {
		return serial
	}
	var b strings.Builder
	for len(serial) > 0 {
		r, n := utf8.DecodeRuneInString(serial)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%%%02x", serial[0])
		} else {
			b.WriteString(serial[:n])
		}
		serial = serial[n:]
	}
	return b.String()
}

// unitSerial returns the serial number of a SCSI disk from page 80h of its vital product data (SPC, "Unit Serial Number
// VPD page"). Page 80h begins with a header of four bytes, and the last two bytes of the header contain the length of
// the serial. The serial is padded with spaces.
func unitSerial(page string) string {
	if len(page) < 4 || page[1] != 0x80 {
		return ""
	}
	length := int(page[2])<<8 | int(page[3])
	return strings.Trim(page[4:min(len(page), 4+length)], " \x00")
}

// isMissingValue reports whether the error means that the disk does not have the attribute, or that the attribute has
// no value. The kernel's sdev_show_wwid returns EINVAL for a missing value (drivers/scsi/scsi_sysfs.c).
func isMissingValue(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EINVAL, syscall.ENXIO, syscall.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func transport(name, dir string) (string, error) {
	subsystem, err := os.Readlink(filepath.Join(dir, "device/subsystem"))
	if err == nil {
		switch subsystem = filepath.Base(subsystem); subsystem {
		case "scsi":
			if onVirtio(dir) {
				return disk.VirtioSCSI, nil
			}
			return subsystem, nil
		case "nvme":
			return subsystem, nil
		case "nvme-subsystem":
			return "nvme", nil
		case "virtio":
			driver, err := os.Readlink(filepath.Join(dir, "device/driver"))
			if err != nil && !missing(err) {
				return "", err
			}
			if filepath.Base(driver) == "virtio_blk" {
				return "virtio", nil
			}
		}
		return "", nil
	}
	if !missing(err) {
		return "", err
	}
	// A loop device has the directory "loop" only while a file is attached to it.
	for _, kind := range []string{"dm", "md", "loop"} {
		if _, err := os.Stat(filepath.Join(dir, kind)); err == nil || kind == "loop" && strings.HasPrefix(name, kind) {
			return kind, nil
		} else if !missing(err) {
			return "", err
		}
	}
	return "", nil
}

// onVirtio reports whether the sysfs path of a SCSI device contains a virtio-scsi host. Of all SCSI hosts, only a
// virtio-scsi host is the direct child of a virtio device (virtscsi_probe in drivers/scsi/virtio_scsi.c).
func onVirtio(dir string) bool {
	above := ""
	for e := range strings.SplitSeq(dir, "/") {
		if strings.HasPrefix(e, "host") && strings.HasPrefix(above, "virtio") {
			return true
		}
		above = e
	}
	return false
}

// pciAddress matches the kernel's name of a PCI function (pci_name in include/linux/pci.h).
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// busAddress returns the last PCI address in the sysfs path of a device, in the form of ID_PATH from udev's path_id.
// busAddress returns an empty string if the path has no PCI address.
func busAddress(dir string) string {
	elements := strings.Split(dir, "/")
	for _, e := range slices.Backward(elements) {
		if pciAddress.MatchString(e) {
			return "pci-" + e
		}
	}
	return ""
}
