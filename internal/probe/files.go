package probe

import (
	"bytes"
	"io"
)

// fileFormats are formats of files that may be written raw to a disk: disk images, archives, and compressed or
// encrypted data.
// wipefs and blkid do not recognise the formats in fileFormats. Each entry contains the magic bytes of a format, and
// their byte offset on the disk. If the field `last` is set, the offset is relative to the start of the disk's last
// sector.
var fileFormats = []struct {
	format string
	at     int
	bytes  string
	last   bool
}{
	{format: "qcow2", bytes: "QFI\xfb"},                // QEMU, docs/interop/qcow2
	{format: "vmdk", bytes: "KDMV"},                    // QEMU, block/vmdk.c, VMDK4_MAGIC
	{format: "vmdk", bytes: "COWD"},                    // VMDK3_MAGIC
	{format: "vmdk", bytes: "# Disk DescriptorFile"},   // VMware, Virtual Disk Format: the text file that names the data files
	{format: "vdi", at: 64, bytes: "\x7f\x10\xda\xbe"}, // QEMU, block/vdi.c, VDI_SIGNATURE
	{format: "vhd", bytes: "conectix"},                 // Microsoft, Virtual Hard Disk Image Format: a dynamic image
	{format: "vhd", bytes: "conectix", last: true},     // a VHD image of fixed size, which has only a footer
	{format: "vhdx", bytes: "vhdxfile"},                // [MS-VHDX] 2.2.1
	{format: "gzip", bytes: "\x1f\x8b\x08"},            // RFC 1952, 2.3.1
	{format: "xz", bytes: "\xfd7zXZ\x00"},              // The .xz File Format, 2.1.1.1
	{format: "zstd", bytes: "\x28\xb5\x2f\xfd"},        // RFC 8878, 3.1.1
	{format: "bzip2", at: 4, bytes: "1AY&SY"},          // bzip2, compress.c: the first block's header, after BZh and a digit
	{format: "lz4", bytes: "\x04\x22\x4d\x18"},         // LZ4 Frame Format Description
	{format: "zip", bytes: "PK\x03\x04"},               // PKWARE, APPNOTE.TXT, 4.3.7
	{format: "7z", bytes: "7z\xbc\xaf\x27\x1c"},        // 7-Zip, 7zFormat.txt
	{format: "tar", at: 257, bytes: "ustar"},           // POSIX, pax: ustar Interchange Format
	{format: "age", bytes: "age-encryption.org/v1\n"},  // C2SP, age.md
	{format: "age", bytes: "-----BEGIN AGE ENCRYPTED FILE-----"},
	{format: "openpgp", bytes: "-----BEGIN PGP MESSAGE-----"}, // RFC 9580, 6.2
	{format: "openssl", bytes: "Salted__"},                    // OpenSSL, apps/enc.c
}

// fileFormat returns the format of the file that begins with the bytes b. If the parameter `last` is set, fileFormat
// returns the format of a file that ends with the bytes b. fileFormat returns an empty string for an unknown format.
func fileFormat(b []byte, last bool) string {
	for _, f := range fileFormats {
		if f.last == last && len(b) >= f.at && bytes.HasPrefix(b[f.at:], []byte(f.bytes)) {
			return f.format
		}
	}
	return ""
}

// readFooter returns the format of a file that ends at the end of the disk, or an empty string for an unknown format.
func readFooter(r io.ReaderAt, size uint64) (string, error) {
	buf, err := alignedBuffer(align)
	if err != nil {
		return "", err
	}
	defer buf.free()
	at := (size - 1) / align * align
	last := buf[:size-at]
	if err := readFull(r, last, at); err != nil {
		return "", err
	}
	return fileFormat(last[max(0, len(last)-sector):], true), nil
}
