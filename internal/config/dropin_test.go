package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

// The function `files` makes a directory that contains config.yaml and drop-ins.
func files(t *testing.T, contents map[string]string) Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "config.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Source{Path: filepath.Join(dir, "config.yaml"), Trust: anyone}
}

func TestDropIns(t *testing.T) {
	src := files(t, map[string]string{
		"config.yaml":           "settle: 1s\nworkers: 2\nexclude: [{serial: [A]}]\nclasses:\n- {name: a, directory: /a, names: [vdb], blank: sampled, grow: false}\n- {name: b, directory: /b, names: [vdc]}\n",
		"config.d/20-more.yaml": "workers: 4\nclasses:\n- {name: c, directory: /c, names: [vdd]}\n- {name: a, blank: unsigned, names: [vde]}\n",
		"config.d/10-more.yaml": "workers: 3\nexclude: [{serial: [B]}]\nclasses: [{name: a, blank: full, trim: false}]\n",
		"config.d/.hidden.yaml": "workers: x",
		"config.d/other.conf":   "workers: x",
	})
	s, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := Show(src)
	for pattern, origin := range map[string]string{`  - serial: \["?A"?\]`: "/config.yaml:3", `  - serial: \["?B"?\]`: "/config.d/10-more.yaml:2"} {
		if err != nil || !regexp.MustCompile(`(?m)^`+pattern+` +# .*`+regexp.QuoteMeta(origin)+`$`).MatchString(shown) {
			t.Errorf("no %s from %s in %s (%v)", pattern, origin, shown, err)
		}
	}
	want := Default()
	a, b, c := want.Classes[0], want.Classes[0], want.Classes[0]
	a.Selectors, b.Selectors, c.Selectors = disk.Selectors{}, disk.Selectors{}, disk.Selectors{}
	a.Name, a.Directory, a.Names, a.Blank, a.Grow, a.Trim = "a", "/a", []string{"vde"}, "unsigned", false, false
	b.Name, b.Directory, b.Names = "b", "/b", []string{"vdc"}
	c.Name, c.Directory, c.Names = "c", "/c", []string{"vdd"}
	want.Settle, want.Workers = 1e9, 4
	want.Classes = append(want.Classes[:0], a, b, c)
	got := s.Exclude
	s.Exclude = nil
	if diff := cmp.Diff(want, s); diff != "" || len(got) != 2 || got[0].Serial[0] != "A" || got[1].Serial[0] != "B" {
		t.Error(diff, got)
	}

	// Show must return a configuration file with the same settings, and with the origin of each setting.
	text, err := Show(src)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(src.Path)
	for key, where := range map[string]string{
		"workers: 4": "config.d/20-more.yaml:1", "settle: 1s": "config.yaml:1", "format: true": "default", "  - name: \"a\"": "config.d/20-more.yaml:4",
		"    blank: \"unsigned\"": "config.d/20-more.yaml:4", "    trim: false": "config.d/10-more.yaml:3", "    grow: false": "config.yaml:5", "    mode: \"filesystem\"": "default",
	} {
		if where != "default" {
			where = filepath.Join(dir, where)
		}
		found := false
		for line := range strings.Lines(text) {
			value, origin, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "#")
			found = found || strings.TrimRight(value, " ") == key && strings.TrimSpace(origin) == where
		}
		if !found {
			t.Errorf("no line %q from %s in\n%s", key, where, text)
		}
	}
	s.Exclude = got
	again, err := Load(source(t, text, nil))
	if diff := cmp.Diff(s, again); err != nil || diff != "" {
		t.Errorf("the shown configuration differs from the effective one: %v %s\n%s", err, diff, text)
	}
}

func TestShowWritesEveryValue(t *testing.T) {
	src := source(t, `scan_rate: 5MB
format_period: 90s
csi_ignore: [csi.example.com]
exclude: [{serial: ["a\"b<&>", 're:\d,"']}, {size: ..5GB}]
classes:
- {name: a, directory: /a, minimum_size: 1000MB, storage_class: x, size: 5GiB..10GB, rotational: false, removable: true, local: false, logical_sector: [512, 4096]}
- {name: b, directory: /b, create: none, adopt: known, minimum_size: 0KiB, options: [], size: 1TiB..}
`, []string{"HOTMOUNT_SETTLE=0s"}, "--node=n")
	s, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Show(src)
	if err != nil || !strings.Contains(text, "# HOTMOUNT_SETTLE\n") || !strings.Contains(text, "# --node\n") {
		t.Error(err, text)
	}
	again, err := Load(source(t, text, nil))
	if diff := cmp.Diff(s, again); err != nil || diff != "" {
		t.Errorf("the shown configuration differs from the effective one: %v %s\n%s", err, diff, text)
	}
	// File must return a configuration file with the same settings, without their origins.
	text = File(&s)
	again, err = Load(source(t, text, nil))
	if diff := cmp.Diff(s, again); err != nil || diff != "" || strings.Contains(text, " # ") {
		t.Errorf("the saved configuration differs from the effective one: %v %s\n%s", err, diff, text)
	}
	s = Default()
	if again, err = Load(source(t, File(&s), nil)); err != nil || cmp.Diff(s, again) != "" {
		t.Errorf("the saved defaults differ: %v %s", err, cmp.Diff(s, again))
	}
}

// TestWritten checks that a configuration file has the same texts as the settings from which the file was made.
func TestWritten(t *testing.T) {
	piece := rapid.SampledFrom([]string{`\`, `"`, ",", " ", "<", "u003c", "u0026", "#", "x"})
	rapid.Check(t, func(t *rapid.T) {
		var want, got []string
		for range rapid.IntRange(1, 3).Draw(t, "texts") {
			want = append(want, strings.Join(rapid.SliceOf(piece).Draw(t, "text"), ""))
		}
		if err := yaml.Unmarshal([]byte(key{}.written(want)), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", want, got, err)
		}
		var one string
		if err := yaml.Unmarshal([]byte(key{}.written(want[0])), &one); err != nil || one != want[0] {
			t.Errorf("%q: %q, %v", want[0], one, err)
		}
	})
}

func TestFaultsOfDropIns(t *testing.T) {
	for _, test := range []struct {
		contents map[string]string
		want     string
	}{
		{map[string]string{"config.d/a.yaml": "setle: 1s"}, `DIR/config.d/a.yaml:1: setle: unknown key, did you mean "settle"?`},
		{map[string]string{"config.d/a.yaml": "classes:\n- {name: a, directory: /a}\n- {name: a, directory: /b, blank: full}"}, `DIR/config.d/a.yaml:3: classes[1].name: found "a", which is already the name of classes[0] (line 2), expected a name that is not used yet`},
		{map[string]string{"config.d/a.yaml": "classes: [{name: a, blank: full}]"}, `DIR/config.d/a.yaml:1: classes[0]: found no directory, expected one`},
		{map[string]string{"config.yaml": "classes:\n- {name: x, directory: /x}\n- {name: a, directory: /a}", "config.d/a.yaml": "classes:\n- {name: a, blank: fool}"}, `DIR/config.d/a.yaml:2: classes[0].blank: found "fool", expected auto, full, sampled or unsigned`},
		{map[string]string{"config.yaml": "classes: [{name: a, directory: /a}]", "config.d/a.yaml": "\nclasses: [{name: b, directory: /a/b}]"}, `DIR/config.d/a.yaml:2: classes[0].directory: found "/a/b", expected a directory that is not inside, and does not contain, the directory of classes[0] (DIR/config.yaml:1) ("/a")`},
		{map[string]string{"config.yaml": "workers: 0", "config.d/b.yaml": "workers: -1", "config.d/a.yaml": "a: [\n"}, "DIR/config.d/a.yaml:1: expected YAML: did not find expected node content, in this line or below\n" +
			"DIR/config.d/b.yaml:1: workers: found the number -1, expected a whole number from 1 to 64\nDIR/config.yaml:1: workers: found the number 0, expected a whole number from 1 to 64"},
	} {
		src := files(t, test.contents)
		_, err := Load(src)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), filepath.Dir(src.Path), "DIR")
		}
		if got != test.want {
			t.Errorf("%v\ngot  %s\nwant %s", test.contents, got, test.want)
		}
	}
	// Load must return an error for a drop-in that cannot be read or trusted.
	src := files(t, nil)
	if err := os.Symlink("nowhere", filepath.Join(filepath.Dir(src.Path), "config.d", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(src); err == nil {
		t.Error("a missing drop-in was ignored")
	}
	// Load must return an error if the directory hotmount or hotmount/config.d is a dangling symbolic link.
	for _, link := range []string{"hotmount/config.d", "hotmount"} {
		dir := t.TempDir()
		link = filepath.Join(dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("nowhere", link)); err != nil {
			t.Fatal(err)
		}
		src := Source{Path: filepath.Join(dir, "hotmount/config.yaml"), Trust: anyone}
		if _, err := Load(src); err == nil {
			t.Errorf("%s is a dead link, and Load used the defaults", link)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(src); err != nil {
			t.Errorf("without %s: %v", link, err)
		}
	}
	src = files(t, nil)
	src.Trust = nil
	if err := os.Chmod(filepath.Join(filepath.Dir(src.Path), "config.d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(src); err == nil {
		t.Error("a directory that everybody can write to was read")
	}
}

func TestDirectoriesBelowSymlinks(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"link": "real", "up": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "real/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// This test does not call Load, because Load would refuse class directories below /tmp.
	var s disk.Settings
	from := origins{}
	for i, name := range []string{"/link/b", "/real", "/file/x", "/new"} {
		s.Classes = append(s.Classes, disk.Class{Directory: dir + name})
		from[fmt.Sprintf("classes[%d].directory", i)] = place{name: "FILE", line: i + 2}
	}
	err := directories(s, from)
	want := `FILE:2: classes[0].directory: found "DIR/link/b", in which DIR/link is a symbolic link, expected DIR/real/b
FILE:4: classes[2].directory: found "DIR/file/x", in which DIR/file is not a directory, expected a directory`
	if got := strings.ReplaceAll(fmt.Sprint(err), dir, "DIR"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
