package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/unit"
)

// SandboxDropIn is the path of the drop-in with the settings that the configuration needs in addition to
// hotmount.service. The administrator's own drop-ins stay valid.
const SandboxDropIn = "/etc/systemd/system/hotmount.service.d/50-classes.conf"

// ShippedDirectory is the directory below which hotmount.service allows mount points without a drop-in.
const ShippedDirectory = "/mnt/disks"

// ApplySandbox writes the drop-in file, or removes the file if the settings need no drop-in. The first result reports
// whether the drop-in is different now.
func ApplySandbox(s *disk.Settings, path string) (changed bool, err error) {
	want := sandbox(s)
	has, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot change the sandbox: %w", err)
	}
	if string(has) == want {
		return false, nil
	}
	if err := replace(path, want); err != nil {
		return false, fmt.Errorf("cannot change the sandbox: %w", err)
	}
	return true, nil
}

// sandbox returns the drop-in's text, or "" if no drop-in is needed. The check of the configuration ensures that the
// directory names contain nothing that systemd expands.
func sandbox(s *disk.Settings) string {
	var b strings.Builder
	var after []string
	seen := map[string]bool{}
	for i := range s.Classes {
		dir := s.Classes[i].Directory
		if !seen[dir] && !strings.HasPrefix(dir+"/", ShippedDirectory+"/") {
			// With the prefix "-", systemd ignores a directory that does not exist (systemd.exec(5)).
			b.WriteString("ReadWritePaths=-" + dir + "\n")
		}
		seen[dir] = true
		for above := dir; above != "/" && above != ShippedDirectory; above = filepath.Dir(above) {
			if mount := unit.Name(above); !slices.Contains(after, mount) {
				after = append(after, mount)
			}
		}
	}
	if len(after) == 0 {
		return ""
	}
	// After= makes hotmount.service start after the mount units of each class directory and its parent directories. The
	// shipped unit contains the same setting for /mnt/disks and its parent directory.
	return "# Written by hotmount config apply-sandbox.\n[Unit]\nAfter=" + strings.Join(after, " ") + "\n[Service]\n" + b.String()
}

// replace writes the whole file atomically, or removes the file if the text is empty.
func replace(path, text string) error {
	if text == "" {
		return os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".50-classes-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
