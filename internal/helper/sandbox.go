package helper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/disk"
)

// SandboxDropIn is for what the configuration needs beyond what hotmount.service
// grants; an administrator's own drop-ins stand beside it.
const SandboxDropIn = "/etc/systemd/system/hotmount.service.d/50-classes.conf"

// ShippedDirectory is the one that hotmount.service grants.
const ShippedDirectory = "/mnt/disks"

// ApplySandbox writes the drop-in that the settings need to the path, or removes it if none
// is needed. It reports whether that has changed anything.
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

// sandbox is the drop-in's text, empty where none is needed. The names of
// directories have been checked: they hold nothing that systemd expands.
func sandbox(s *disk.Settings) string {
	var b strings.Builder
	seen := map[string]bool{}
	for i := range s.Classes {
		dir := s.Classes[i].Directory
		if seen[dir] || dir == ShippedDirectory || strings.HasPrefix(dir, ShippedDirectory+"/") {
			continue
		}
		seen[dir] = true
		// One that is missing keeps no other from being used.
		b.WriteString("ReadWritePaths=-" + dir + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "# Written by hotmount config apply-sandbox.\n[Service]\n" + b.String()
}

// replace writes the file as a whole, or removes it where nothing is to be in it.
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
