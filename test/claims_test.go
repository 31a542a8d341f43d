package test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClaims: each test that the threat model, or a promise in it, names is there.
func TestClaims(t *testing.T) {
	text, err := os.ReadFile("../packaging/doc/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1) {
		named[string(m[1])] = true
	}
	if len(named) < 30 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, dir := range []string{"../internal", "../cmd", "."} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for name := range named {
				if bytes.Contains(source, []byte("\nfunc "+name+"(")) {
					delete(named, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range named {
		t.Errorf("there is no %s", name)
	}
}
