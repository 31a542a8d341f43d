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

// TestExamples checks that each example in the package, README and the manual pages is a valid configuration. An
// example class that can select SCSI or NVMe disks must set local: true, because a copied example must not take
// network disks.
func TestExamples(t *testing.T) {
	inReadme := regexp.MustCompile("(?s)```yaml\n(classes:.*?)```")
	inManual := regexp.MustCompile(`(?s)\n\.nf\n([a-z_]+:.*?)\.fi\n`)
	for pattern, blocks := range map[string]*regexp.Regexp{
		"packaging/examples/*.yaml": regexp.MustCompile("(?s)^(.*)$"),
		"README.md":                 inReadme,
		"packaging/man/*.5":         inManual,
		"packaging/man/*-block.7":   inManual,
	} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := blocks.FindAllStringSubmatch(string(data), -1)
			if len(found) == 0 {
				t.Errorf("%s has no configuration", file)
			}
			for _, m := range found {
				checkExample(t, filepath.Base(file), strings.ReplaceAll(m[1], `\-`, "-"))
			}
		}
	}
}

func checkExample(t *testing.T, name, text string) {
	t.Helper()
	s, err := Load(source(t, text, nil))
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
		return
	}
	for i := range s.Classes {
		if c := &s.Classes[i]; reachesFabric(&c.Selectors) && (c.Local == nil || !*c.Local) {
			t.Errorf("%s: class %s can select SCSI or NVMe disks, but is not local", name, c.Name)
		}
	}
}

// reachesFabric reports whether the selectors for transports and names can match SCSI or NVMe disks.
func reachesFabric(s *disk.Selectors) bool {
	harmless := func(patterns []string, begins ...string) bool {
		return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool {
			return !slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(p, b) })
		})
	}
	return !harmless(s.Transport, "virtio", "dm", "md", "loop") && !harmless(s.Names, "vd", "dm-", "md", "loop")
}
