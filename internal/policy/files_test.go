package policy

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestFilesAreNotDestroyed checks the remedies for a file that was attached as a raw disk. A remedy names
// `hotmount format` if and only if the token of that command would be valid. A remedy names no other command that
// destroys the file.
func TestFilesAreNotDestroyed(t *testing.T) {
	for name, tt := range map[string]struct {
		put   func(*disk.Facts, *disk.Settings)
		token bool
	}{
		"large enough":          {func(*disk.Facts, *disk.Settings) {}, true},
		"too small":             {func(f *disk.Facts, _ *disk.Settings) { f.Size = 192 << 10 }, false},
		"formatting off":        {func(_ *disk.Facts, s *disk.Settings) { s.Format = false }, false},
		"class creates nothing": {func(_ *disk.Facts, s *disk.Settings) { s.Classes[0].Create = "none" }, false},
		"on a block volume":     {func(f *disk.Facts, _ *disk.Settings) { onBlockVolume(f) }, false},
	} {
		for _, format := range []string{"qcow2", "vmdk", "vdi", "vhd", "vhdx", "gzip", "xz", "zstd", "bzip2", "lz4", "zip", "7z", "tar", "age", "openpgp", "openssl"} {
			f, c, s := blankDisk(), &disk.Content{Kind: disk.Other, Type: format, Proven: true}, settings()
			tt.put(f, s)
			why, next := Words(f, c, s, Decide(f, c, s))
			if !strings.Contains(why, "format "+format) && !strings.Contains(why, "encrypted with "+format) {
				t.Errorf("%s, %s: %q", name, format, why)
			}
			use, token, found := strings.Cut(next, "; if nothing on the disk is needed: hotmount format vdb")
			if found != tt.token || token != "" || !strings.HasPrefix(use, "detach the disk, ") {
				t.Errorf("%s, %s: %q", name, format, next)
			}
			for _, destroys := range []string{"wipefs", "mkfs", "blkdiscard", "vol-wipe", "attach a larger disk"} {
				if strings.Contains(next, destroys) {
					t.Errorf("%s, %s: %q", name, format, next)
				}
			}
		}
	}
}
