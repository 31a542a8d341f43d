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

// TestClaims checks that the tests named in threat-model.md, field.md, long.txt and full.txt exist.
func TestClaims(t *testing.T) {
	named := map[string]bool{}
	for file, pattern := range map[string]string{
		"../packaging/doc/threat-model.md": "`(Test[A-Za-z0-9]+)`",
		"../packaging/doc/field.md":        "`(Test[A-Za-z0-9]+)`",
		"system/long.txt":                  "(?m)^(Test.*)$",
		"system/full.txt":                  "(?m)^(Test.*)$",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if len(found) < 10 {
			t.Errorf("%s names only %d tests", file, len(found))
		}
		for _, m := range found {
			named[string(m[1])] = true
		}
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
