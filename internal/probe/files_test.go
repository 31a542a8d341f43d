package probe

import (
	"bytes"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/run/runtest"
)

// TestLookAtAFile checks that Look returns the format of a file whose bytes are the content of a raw disk. Look must
// also recognise a format that has only a footer. Look must return no format for bytes that are not the header or the
// footer of a known file format.
func TestLookAtAFile(t *testing.T) {
	const size = 192 << 10
	at := func(offset int, text string, more ...string) []byte {
		b := make([]byte, size)
		copy(b[offset:], text)
		for _, m := range more {
			copy(b, m)
		}
		return b
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"qcow2", at(0, "QFI\xfb\x00\x00\x00\x03"), "qcow2"},
		{"VMDK", at(0, "KDMV\x01\x00\x00\x00"), "vmdk"},
		{"VMDK of ESX", at(0, "COWD\x01\x00\x00\x00"), "vmdk"},
		{"the text of a VMDK", at(0, "# Disk DescriptorFile\nversion=1\n"), "vmdk"},
		{"VDI", at(0, "<<< Oracle VM VirtualBox Disk Image >>>\n"+strings.Repeat("\x00", 24)+"\x7f\x10\xda\xbe"), "vdi"},
		{"dynamic VHD", at(0, "conectix\x00\x00\x00\x02"), "vhd"},
		{"fixed VHD", at(size-512, "conectix\x00\x00\x00\x02", "data that no tool names"), "vhd"},
		{"fixed VHD of a blank disk", at(size-512, "conectix\x00\x00\x00\x02"), "vhd"},
		{"VHDX", at(0, "vhdxfileQ\x00E\x00M\x00U\x00"), "vhdx"},
		{"gzip", at(0, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"), "gzip"},
		{"xz", at(0, "\xfd7zXZ\x00\x00\x04"), "xz"},
		{"zstd", at(0, "\x28\xb5\x2f\xfd\x04\x58"), "zstd"},
		{"bzip2", at(0, "BZh91AY&SYd\x8c"), "bzip2"},
		{"lz4", at(0, "\x04\x22\x4d\x18\x64\x40"), "lz4"},
		{"zip", at(0, "PK\x03\x04\x14\x00"), "zip"},
		{"7z", at(0, "7z\xbc\xaf\x27\x1c\x00\x04"), "7z"},
		{"tar", at(0, "disk.img"+strings.Repeat("\x00", 249)+"ustar\x0000"), "tar"},
		{"age", at(0, "age-encryption.org/v1\n-> X25519 "), "age"},
		{"age, armored", at(0, "-----BEGIN AGE ENCRYPTED FILE-----\n"), "age"},
		{"OpenPGP, armored", at(0, "-----BEGIN PGP MESSAGE-----\n\n"), "openpgp"},
		{"openssl enc", at(0, "Salted__01234567"), "openssl"},

		{"text", at(0, "this disk is mine\n"), ""},
		{"a header that is not at the start", at(4096, "QFI\xfb"), ""},
		{"a footer that is not at the end", at(size-1024, "conectix"), ""},
		{"a part of a header", at(0, "QFI"), ""},
	} {
		for _, plan := range []Plan{Full, Sampled} {
			r := runtest.New(t)
			r.On(wipefsLine, runtest.Print(wipefsNothing, 0))
			r.On(blkidLine, runtest.Print("", 2))
			got, err := Look(t.Context(), r, Source{Reader: bytes.NewReader(tc.data), Node: "/dev/vdb", Size: size}, plan)
			kind, line := disk.Unknown, "as on a recycled volume or a damaged disk"
			if tc.want != "" {
				kind, line = disk.Other, "not blank: looks like a file of the format "+tc.want
			}
			if err != nil || got.Kind != kind || got.Type != tc.want || !strings.Contains(strings.Join(got.Evidence, "\n"), line) {
				t.Errorf("%s, %s: %+v, %v", tc.name, plan, got, err)
			}
		}
	}
}
