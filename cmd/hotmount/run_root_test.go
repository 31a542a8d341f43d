//go:build root

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/report"
)

// TestLastGood checks that the last good settings replace a faulty configuration. lastGood must return an error if no
// settings are saved, or if the saved settings are not valid in this version.
func TestLastGood(t *testing.T) {
	h := machine(t)
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("config.yaml:1: a\nconfig.yaml:2: b\nconfig.yaml:3: c")
	if s, err := lastGood(h.Store, fault); s != nil || !errors.Is(err, fault) || err.Error() != fault.Error() {
		t.Errorf("without any: %v, %v", s, err)
	}
	want := config.Default()
	want.Node, want.Classes[0].Options = "n", []string{"noatime"}
	if err := h.Store.KeepSettings(config.File(&want)); err != nil {
		t.Fatal(err)
	}
	// lastGood must ignore the environment, because the fault may be in the environment.
	t.Setenv("HOTMOUNT_NODE", "other")
	s, err := lastGood(h.Store, fault)
	if err != nil || s.Node != "n" || s.Classes[0].Options[0] != "noatime" || s.Fault != "config.yaml:1: a (and 2 more)" || s.Classes[0].Grow {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = lastGood(h.Store, errors.New("one")); err != nil || s.Fault != "one" {
		t.Errorf("%+v, %v", s, err)
	}
	path, err := h.Store.KeptSettings()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what, text string
		mode       os.FileMode
	}{
		{"the file's mode is 0666", string(whole), 0o666},
		{"is incomplete", string(whole[:100]), 0o600},
		{"unknown key", strings.Replace(string(whole), "workers:", "wurkers:", 1), 0o600},
		{"expected a whole number", strings.Replace(string(whole), "workers: 16", "workers: 0", 1), 0o600},
		{"has version \"9\"", strings.Replace(string(whole), "version 1", "version 9", 1), 0o600},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(tt.text), tt.mode), os.Chmod(path, tt.mode)); err != nil {
			t.Fatal(err)
		}
		s, err := lastGood(h.Store, fault)
		if s != nil || err == nil || !strings.Contains(err.Error(), tt.what) || !strings.HasPrefix(err.Error(), fault.Error()+"\ncannot use the last good settings instead: ") {
			t.Errorf("%s: %v, %v", tt.what, s, err)
		}
	}
}

// TestLoadAndKeep checks that good settings are saved, and that faulty settings are not saved.
func TestLoadAndKeep(t *testing.T) {
	h := machine(t)
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	load := func(text string) error {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := runCommand()
		if err := c.ParseFlags([]string{"--config=" + file, "--node=of-a-flag"}); err != nil {
			t.Fatal(err)
		}
		_, err := loadAndKeep(c, report.New())
		return err
	}
	kept := func() string {
		path, err := h.Store.KeptSettings()
		if err != nil {
			return ""
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := load("settle: 7"); err == nil || kept() != "" {
		t.Errorf("%v, kept %q", err, kept())
	}
	if err := load("settle: 7s"); err != nil || !strings.Contains(kept(), "settle: 7s\n") || !strings.Contains(kept(), "of-a-flag") {
		t.Errorf("%v, kept %q", err, kept())
	}
	good := kept()
	if err := load("settle: 8"); err == nil || kept() != good {
		t.Errorf("%v, kept %q", err, kept())
	}
}
