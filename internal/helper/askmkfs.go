package helper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/run"
)

// AskMkfs checks whether mkfs.xfs or mkfs.ext4 accepts the mkfs options of each class that formats disks. mkfs runs on
// temporary files. The function `origin` returns the file and line of a setting in the configuration.
func AskMkfs(ctx context.Context, r run.Runner, s *disk.Settings, origin func(key string) string) (err error) {
	dir, err := os.MkdirTemp("", "hotmount-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for i := range s.Classes {
		class := &s.Classes[i]
		if class.Mode == disk.ModeBlock || class.Create == "none" || len(class.MkfsOptions) == 0 && class.Create != disk.Ext4 {
			continue
		}
		agrees := format.AgreesExt4
		if class.Create == disk.XFS {
			agrees = func(ctx context.Context, r run.Runner, options []string, file string) error {
				return format.Agrees(ctx, r, options, "", file)
			}
		}
		if refused := agrees(ctx, r, class.MkfsOptions, filepath.Join(dir, fmt.Sprint("disk", i))); refused != nil {
			// The first line of mkfs's output explains the fault, and the rest is the usage text.
			what, _, _ := strings.Cut(refused.Error(), `\n`)
			err = errors.Join(err, fmt.Errorf("%s: classes[%d].mkfs_options: found %q, which mkfs.%s refuses: %s", origin(fmt.Sprintf("classes[%d].mkfs_options", i)), i, class.MkfsOptions, class.Create, what))
		}
	}
	return err
}
