package test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPromises checks that threat-model.md names a test for each promise that it lists from the README.
func TestPromises(t *testing.T) {
	text, err := os.ReadFile("../packaging/doc/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## What the README promises\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| promise ") {
			continue
		}
		rows++
		if !strings.Contains(line, "`Test") {
			t.Errorf("no test shows: %s", line)
		}
	}
	if rows < 10 {
		t.Errorf("only %d promises were found", rows)
	}
}

// TestPhases checks that architecture.md and the comment of package agent list the same transitions between the phases
// of a disk.
func TestPhases(t *testing.T) {
	changes := func(file, pattern string) (all []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1]+" to "+m[2])
		}
		return all
	}
	const phase = `(\(unknown\)|idle|backing off|looking|waiting|acting)`
	page := changes("../packaging/doc/architecture.md", `(?m)^\| `+phase+` \|.*\| (as if|`+phase[1:]+`.* \|$`)
	comment := changes("../internal/agent/agent.go", `(?m)^//\t`+phase+` .* {2,}(as if|`+phase[1:]+`.*$`)
	if len(page) < 10 || !slices.Equal(page, comment) {
		t.Errorf("architecture.md: %q\npackage agent:   %q", page, comment)
	}
}

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
