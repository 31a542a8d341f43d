package format

import (
	"context"
	"errors"
	"os"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// scratchSize is the size of the test file in bytes, a little more than the smallest filesystem that mkfs.xfs makes.
const scratchSize = 320 << 20

// Scratch makes an XFS or ext4 filesystem in a new file, for a test of mount options.
func Scratch(ctx context.Context, r run.Runner, kind, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(scratchSize), f.Close()); err != nil {
		return err
	}
	path := mkfs
	if kind == disk.Ext4 {
		path = mkfsExt4
	}
	_, _, err = runMkfs(ctx, r, run.Command{Path: path, Args: []string{"-q", file}, Timeout: MkfsTime}, false)
	return err
}
