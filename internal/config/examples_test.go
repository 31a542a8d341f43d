package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestExamples checks that each shipped example is a valid configuration. A class of an example that can select SCSI or
// NVMe disks must be local, because a copied example must not take a network's disks.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../packaging/examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	inReadme := regexp.MustCompile("(?s)```yaml\n(classes:.*?)```")
	for _, file := range append(files, "../../README.md") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if filepath.Ext(file) == ".md" {
			found := inReadme.FindAllStringSubmatch(text, -1)
			if len(found) != 1 {
				t.Fatalf("README.md has %d configurations", len(found))
			}
			text = found[0][1]
		}
		s, err := Load(source(t, text, nil))
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		for i := range s.Classes {
			if c := &s.Classes[i]; reachesFabric(&c.Selectors) && (c.Local == nil || !*c.Local) {
				t.Errorf("%s: class %s can select SCSI or NVMe disks, but is not local", filepath.Base(file), c.Name)
			}
		}
	}
}

// reachesFabric reports whether neither the transports nor the names exclude SCSI and NVMe disks.
func reachesFabric(s *disk.Selectors) bool {
	harmless := func(patterns []string, begins ...string) bool {
		return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool {
			return !slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(p, b) })
		})
	}
	return !harmless(s.Transport, "virtio", "dm", "md", "loop") && !harmless(s.Names, "vd", "dm-", "md", "loop")
}
