package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestExamples checks that each shipped example is a valid configuration.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../packaging/examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Load(source(t, string(text), nil)); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}
