package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
)

// sandboxDropIn is for what the configuration needs beyond what hotmount.service
// grants; an administrator's own drop-ins stand beside it.
const sandboxDropIn = "/etc/systemd/system/hotmount.service.d/50-classes.conf"

// shippedDirectory is the one that hotmount.service grants.
const shippedDirectory = "/mnt/disks"

func applySandboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply-sandbox",
		Short: "Let the daemon make mount points in the directories of the classes",
		Long: "Write " + sandboxDropIn + ", which lets the daemon make mount points\n" +
			"in the directories of the configuration's classes, or remove it where none but " + shippedDirectory + " is needed. Devices need\n" +
			"nothing: the daemon opens none, and whatever the driver each formatting unit gets its own disk.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return applySandbox(c, sandboxDropIn) },
	}
	config.AddFlags(c.Flags())
	return c
}

func applySandbox(c *cobra.Command, path string) error {
	s, err := load(c)
	if err != nil {
		return err
	}
	want := sandbox(s)
	has, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot change the sandbox: %w", err)
	}
	if string(has) == want {
		_, err = fmt.Fprintln(c.OutOrStdout(), "The sandbox fits the configuration already.")
		return err
	}
	if err := replace(path, want); err != nil {
		return fmt.Errorf("cannot change the sandbox: %w", err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s is changed. It takes effect with:\n  systemctl daemon-reload && systemctl restart hotmount\n", path)
	return err
}

// sandbox is the drop-in's text, empty where none is needed. The names of
// directories have been checked: they hold nothing that systemd expands.
func sandbox(s *disk.Settings) string {
	var b strings.Builder
	seen := map[string]bool{}
	for i := range s.Classes {
		dir := s.Classes[i].Directory
		if seen[dir] || dir == shippedDirectory || strings.HasPrefix(dir, shippedDirectory+"/") {
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
