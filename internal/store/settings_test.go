package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestKeptSettings checks that hotmount does not use a settings file that is incomplete or of another version.
func TestKeptSettings(t *testing.T) {
	s := made(t)
	if path, err := s.KeptSettings(); path != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %q, %v", path, err)
	}
	if err := s.KeepSettings("settle: 1s\n"); err != nil {
		t.Fatal(err)
	}
	path, err := s.KeptSettings()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(whole), "\nsettle: 1s\n") {
		t.Fatalf("%q, %v", whole, err)
	}
	// KeepSettings must write the file only if the settings have changed.
	if err := s.KeepSettings("settle: 1s\n"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(info, again) {
		t.Errorf("written again, %v", err)
	}
	if err := s.KeepSettings("settle: 2s\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "\nsettle: 2s\n") {
		t.Errorf("%q, %v", text, err)
	}
	const broken, other = "is incomplete", `has version "2", but this hotmount knows version 1`
	for _, tt := range []struct{ text, want string }{
		{"", broken},
		{string(whole[:len(whole)-1]), broken},
		{strings.TrimSuffix(string(whole), keptEnd), broken},
		{"settle: 1s\n" + keptEnd, broken},
		{keptHead + keptVersion + "\n", broken},
		{strings.Replace(string(whole), keptHead+"1", keptHead+"2", 1), other},
		{strings.Replace(string(whole), keptHead+"1", keptHead+"\x1b[2J", 1), `has version "\x1b[2J"`},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.KeptSettings(); got != "" || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %q, %v", tt.text, got, err)
		}
	}
}

// TestSettingsThatCannotBeKept checks that formatting continues if hotmount cannot keep the settings.
func TestSettingsThatCannotBeKept(t *testing.T) {
	s := made(t)
	if err := os.Mkdir(s.keptFile(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepSettings("x"); err == nil {
		t.Error("kept")
	}
	if err := s.failure(); err != nil {
		t.Errorf("a gap: %v", err)
	}
}
