package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"hotmount/internal/disk"
)

// The function `anyone` trusts every file, so that the tests can run without root privileges.
func anyone(fs.FileInfo) error { return nil }

// source returns a Source whose flag --config names a file with the given content. The Source also has the given
// environment and command-line arguments.
func source(t *testing.T, content string, environ []string, args ...string) Source {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{Environ: environ, Flags: flags(t, append(args, "--config="+file)...), Trust: anyone}
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// message returns the error with the path of the file replaced by FILE.
func message(src Source, err error) string {
	if err == nil {
		return ""
	}
	file, _, _ := src.path()
	return strings.ReplaceAll(err.Error(), file, "FILE")
}

func TestDefaultIsValid(t *testing.T) {
	if err := valid(Default()); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	with := func(change func(*disk.Settings)) disk.Settings {
		s := Default()
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name, file string
		environ    []string
		args       []string
		want       disk.Settings
	}{
		{name: "empty", want: Default()},
		{name: "comments", file: "# nothing\n", want: Default()},
		{name: "document without content", file: "---\n", want: Default()},
		{name: "document with an end", file: "format: false\n...\n", want: with(func(s *disk.Settings) { s.Format = false })},
		{name: "no keys", file: "{}", want: Default()},
		{name: "JSON", file: `{"settle": "1s", "workers": 2}`, want: with(func(s *disk.Settings) { s.Settle, s.Workers = time.Second, 2 })},
		{
			name: "every scalar",
			file: "format: false\nformat_present: true\nformat_limit: 256\nformat_period: 24h\nsettle: 0s\nscan_rate: 100MiB\nready_timeout: 10m\nrescan: 10s\nworkers: 64\nnode: n-1.example\ntrim: false\n",
			want: disk.Settings{FormatPresent: true, FormatLimit: 256, FormatPeriod: 24 * time.Hour, ScanRate: 100 << 20, ReadyTimeout: 10 * time.Minute, Rescan: 10 * time.Second, Workers: 64, Node: "n-1.example", CSIIgnore: []string{}, Classes: Default().Classes},
		},
		{
			name: "classes",
			file: `
classes:
  - name: fast
    directory: /var/lib/disks/fast
    create: ext4
    root_owner: "1000:2000"
    root_mode: "2770"
  - name: slow-1
    names: ["sd?"]
    directory: /var/lib/disks/slow
    mode: block
    create: none
    accept: [ext4]
    options: []
    blank: sampled
    minimum_size: 1KB
    grow: false
    trim: false
    storage_class: slow
`,
			want: with(func(s *disk.Settings) {
				fast := s.Classes[0]
				fast.Name, fast.Directory = "fast", "/var/lib/disks/fast"
				fast.Create, fast.RootOwner, fast.RootMode = "ext4", "1000:2000", "2770"
				s.Classes = []disk.Class{fast, {
					Name: "slow-1", Selectors: disk.Selectors{Names: []string{"sd?"}}, Directory: "/var/lib/disks/slow", Mode: disk.ModeBlock, Neighbours: disk.NeighboursHold, Create: "none",
					MkfsOptions: []string{}, RootOwner: "0:0", RootMode: "0755", Accept: []string{"ext4"}, Adopt: "any", Options: []string{}, Blank: "sampled", MinimumSize: 1000, Provision: true, StorageClass: "slow",
				}}
			}),
		},
		{name: "drivers to ignore", file: "csi_ignore: [csi.example.com, old]\n", want: with(func(s *disk.Settings) { s.CSIIgnore = []string{"csi.example.com", "old"} })},
		{name: "neighbours to ignore", file: "classes:\n- {name: default, directory: /mnt/disks, neighbours: ignore}\n", want: with(func(s *disk.Settings) { s.Classes[0].Neighbours = "ignore" })},
		{
			name: "the environment wins over the file",
			file: "settle: 1s\nworkers: 2\n", environ: []string{"PATH=/bin", "HOTMOUNT_SETTLE=2s", "HOTMOUNT_FORMAT=false", "HOTMOUNT_TEST_X=1"},
			want: with(func(s *disk.Settings) { s.Settle, s.Workers, s.Format = 2*time.Second, 2, false }),
		},
		{
			name: "flags win over both",
			file: "settle: 1s\nworkers: 2\nrescan: 20s\n", environ: []string{"HOTMOUNT_SETTLE=2s", "HOTMOUNT_WORKERS=3", "HOTMOUNT_FORMAT=true"},
			args: []string{"--settle=3s", "--format=false", "--format-present"},
			want: with(func(s *disk.Settings) {
				s.Settle, s.Workers, s.Rescan, s.Format, s.FormatPresent = 3*time.Second, 3, 20*time.Second, false, true
			}),
		},
		{
			name: "a value that is the default wins too",
			file: "settle: 1s\nformat: false\nformat_present: true\n", environ: []string{"HOTMOUNT_SETTLE=5s", "HOTMOUNT_FORMAT=true"},
			args: []string{"--format-present=false"},
			want: Default(),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := source(t, tt.file, tt.environ, tt.args...)
			got, err := Load(src)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if err := valid(got); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSources checks that each source can set each scalar key, and overrides the sources before it.
func TestSources(t *testing.T) {
	three := map[string][3]string{
		"format":         {"false", "true", "false"},
		"format_present": {"true", "false", "true"},
		"format_limit":   {"1", "2", "3"},
		"format_period":  {"1m", "2m", "3m"},
		"settle":         {"1s", "2s", "3s"},
		"scan_rate":      {"4MiB", "none", "1GB"},
		"ready_timeout":  {"1s", "2s", "3s"},
		"rescan":         {"11s", "12s", "13s"},
		"workers":        {"1", "2", "3"},
		"node":           {"a", "b", "c"},
		"trim":           {"false", "true", "false"},
	}
	for _, s := range scalars {
		values := three[s.name]
		var src Source
		for i, value := range values {
			switch i {
			case 0:
				src = source(t, s.name+": "+value, nil)
			case 1:
				src.Environ = []string{"HOTMOUNT_" + strings.ToUpper(s.name) + "=" + value}
			case 2:
				if err := src.Flags.Set(strings.ReplaceAll(s.name, "_", "-"), value); err != nil {
					t.Fatal(err)
				}
			}
			want, ok := s.parse(value)
			if !ok {
				t.Fatalf("%s: no value to test with", s.name)
			}
			settings, err := Load(src)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{
				"format": settings.Format, "format_present": settings.FormatPresent, "format_limit": settings.FormatLimit, "format_period": settings.FormatPeriod, "settle": settings.Settle,
				"scan_rate":     settings.ScanRate,
				"ready_timeout": settings.ReadyTimeout, "rescan": settings.Rescan, "workers": settings.Workers, "node": settings.Node, "trim": settings.Trim,
			}[s.name]
			if got != want {
				t.Errorf("%s from source %d: got %v, want %v", s.name, i, got, want)
			}
		}
	}
}

const (
	durationWords = `expected a duration with a unit from 0s to 10m, such as 30s or 1m30s`
	rootWords     = `classes, exclude, csi_ignore, format, format_present, format_limit, format_period, settle, scan_rate, ready_timeout, rescan, workers, node, trim`
	sizeWords     = `expected a whole number with one of the units KiB, MiB, GiB, TiB, KB, MB, GB, TB, such as 300MiB`
	rateWords     = `expected none, or a whole number with one of the units KiB, MiB, GiB, TiB, KB, MB, GB, TB, such as 300MiB, at least 4MiB per second`
	hidden        = `expected a directory that the daemon can see: ProtectHome= and PrivateTmp= of the daemon's unit hide /home, /root, /tmp and /var/tmp`
	outside       = `expected a directory outside of /proc, /sys, /dev, /run, /etc, /usr, /boot, /var/lib/hotmount`
	pathWords     = `expected an absolute path such as /mnt/disks, of letters, digits, '.', '_' and '-', without an extra slash or a directory that is named '.' or '..'`
	nameWords     = `expected a name of 1 to 63 lower-case letters, digits and hyphens that does not begin with a hyphen`
	patternWords  = `expected a pattern of kernel names such as vd[a-z], of at most 128 characters without slashes and spaces`
	optionWords   = `expected one mount option of at most 256 visible characters without ',', '\', '%' and '"'`
)

func TestFaultsOfFile(t *testing.T) {
	class := func(line string) string { return "classes:\n- name: a\n  directory: /a\n  " + line + "\n" }
	for _, tt := range []struct{ file, want string }{
		// The following cases are about the root of the document.
		{"5", `FILE:1: found the number 5, expected keys with values`},
		{"- format", `FILE:1: found a list, expected keys with values`},
		{"~", `FILE:1: found nothing, expected keys with values`},
		{"format", `FILE:1: found "format", expected keys with values`},
		{"format: true\n---\nformat: true\n", `FILE:2: found a second document, expected one`},
		{"---\n---\n", `FILE:2: found a second document, expected one`},

		// The following cases are about keys.
		{"\nsetle: 5s", `FILE:2: setle: unknown key, did you mean "settle"?`},
		{"Format: true", `FILE:1: Format: unknown key, did you mean "format"?`},
		{"FORMAT: true", `FILE:1: FORMAT: unknown key, did you mean "format"?`},
		{"format-present: true", `FILE:1: format-present: unknown key, did you mean "format_present"?`},
		{"colour: red", `FILE:1: colour: unknown key, expected one of ` + rootWords},
		{"\"a\\e[1m\\u202e\": 1", `FILE:1: a\x1b[1m\u202e: unknown key, expected one of ` + rootWords},
		{"1: x", `FILE:1: 1: unknown key, expected one of ` + rootWords},
		{"? [a]\n: x", `FILE:1: found a list as a key, expected one of ` + rootWords},
		{"settle: 5s\nworkers: 4\nsettle: 5s", `FILE:3: settle: found this key a second time, expected it once (first in line 1)`},
		{"classes:\n- name: a\n  directory: /a\n- name: b\n  directory: /b\n  settle: 5s", `FILE:6: classes[1].settle: unknown key, expected one of name, names, mapper_names, backing_file, transport, serial, wwn, model, vendor, by_path, size, rotational, removable, local, logical_sector, partitions, directory, mode, neighbours, create, mkfs_options, root_owner, root_mode, accept, adopt, options, blank, minimum_size, grow, trim, provision, storage_class`},
		{class("blanc: full"), `FILE:4: classes[0].blanc: unknown key, did you mean "blank"?`},
		{class("name: b"), `FILE:4: classes[0].name: found this key a second time, expected it once (first in line 2)`},

		// The following cases use other features of YAML.
		{"settle: &a 5s\nrescan: *a", "FILE:1: settle: found the anchor &a, expected only the value\nFILE:2: rescan: found the alias *a, expected the value itself"},
		{"&a settle: 5s", "FILE:1: settle: found the anchor &a, expected only the value"},
		{"&a {}", "FILE:1: found the anchor &a, expected only the value"},
		{"--- &a\n", "FILE:1: found the anchor &a, expected only the value"},
		{"<<: {format: true}", `FILE:1: <<: found a merge key, expected every key to be written out`},
		{"classes:\n- &a {name: a, directory: /a}\n- <<: *a\n  name: b\n  directory: /b", "FILE:2: classes[0]: found the anchor &a, expected only the value\nFILE:3: classes[1].<<: found a merge key, expected every key to be written out"},
		{"workers: !!int \"4\"", `FILE:1: workers: found the tag !!int, expected only the value`},
		{"settle: !mine 5s", `FILE:1: settle: found the tag !mine, expected only the value`},
		{"!!binary Zm9ybWF0: true", `FILE:1: Zm9ybWF0: found the tag !!binary, expected only the value`},
		{"!!null", `FILE:1: found the tag !!null, expected only the value`},
		{"rescan: 5s\nsettle: *a", `FILE: expected YAML: unknown anchor 'a' referenced`},
		{"# " + strings.Repeat("ö", 40) + "\nsettle: 5s\nrescan: *a", `FILE: expected YAML: unknown anchor 'a' referenced`},
		{"# *a\nnode: \"*a\"\nsettle: '*a'\nexclude: [*a]", `FILE: expected YAML: unknown anchor 'a' referenced`},
		{"format: true\nsettle: [5s\nworkers: 4\n", `FILE:1: expected YAML: did not find expected ',' or ']', in this line or below`},
		{"\nsettle: 5s\n  workers: 4\n", `FILE:3: expected YAML: mapping values are not allowed in this context, in this line or below`},
		{"\nsettle: 5s\n- workers\n", `FILE:1: expected YAML: did not find expected key, in this line or below`},
		{"\nclasses:\n  - a\n  b: c\n", `FILE:2: expected YAML: did not find expected '-' indicator, in this line or below`},
		{"\nclasses: {a: b\n", `FILE:1: expected YAML: did not find expected ',' or '}', in this line or below`},
		{"\nsettle: !a!b 5s\n", `FILE:1: expected YAML: found undefined tag handle, in this line or below`},
		{"\nsettle: ]\n", `FILE:1: expected YAML: did not find expected node content, in this line or below`},
		{"settle: 5s\n%\nworkers", `FILE:2: expected YAML: could not find expected directive name, in this line or below`},
		{"\nsettle: '5s\n", `FILE:2: expected YAML: found unexpected end of stream, in this line or below`},
		{"settle:\t5s\n\tworkers: 4", `FILE:2: expected YAML: found a tab character that violates indentation, in this line or below`},
		{"\x00", `FILE: expected YAML: control characters are not allowed`},
		{"settle: 5s\n# \ufffd\u0085\nnode: \x1b[1mx\n", `FILE: expected YAML: control characters are not allowed`},
		{"settle: 5s\n\nnode: \xff", `FILE: expected YAML: invalid leading UTF-8 octet`},

		{"]", `FILE: expected YAML: did not find expected node content`},
		{strings.Repeat("x: 1\n", 150), func() string {
			var b strings.Builder
			for i := range 100 {
				fmt.Fprintf(&b, "FILE:%d: x: unknown key, expected one of %s\n", i+1, rootWords)
			}
			return b.String() + "FILE: 50 more faults"
		}()},

		// The following cases are about types.
		{"format: yes", `FILE:1: format: found "yes", expected true or false`},
		{"format: True", `FILE:1: format: found True, expected true or false`},
		{"format: 1", `FILE:1: format: found the number 1, expected true or false`},
		{`format: "true"`, `FILE:1: format: found "true", expected true or false`},
		{"format:", `FILE:1: format: found nothing, expected true or false`},
		{"format_present: [true]", `FILE:1: format_present: found a list, expected true or false`},
		{"settle: 5", `FILE:1: settle: found the number 5, ` + durationWords},
		{"settle: 5.5", `FILE:1: settle: found the number 5.5, ` + durationWords},
		{"settle: 0", `FILE:1: settle: found the number 0, ` + durationWords},
		{`settle: "0"`, `FILE:1: settle: found "0", ` + durationWords},
		{"settle: 5 s", `FILE:1: settle: found "5 s", ` + durationWords},
		{"settle: -1s", `FILE:1: settle: found "-1s", ` + durationWords},
		{"settle: 601s", `FILE:1: settle: found "601s", ` + durationWords},
		{"settle: 2001-01-01", `FILE:1: settle: found 2001-01-01, ` + durationWords},
		{"scan_rate: 5", `FILE:1: scan_rate: found the number 5, ` + rateWords},
		{"scan_rate: 3MiB", `FILE:1: scan_rate: found "3MiB", ` + rateWords},
		{"scan_rate: 0MiB", `FILE:1: scan_rate: found "0MiB", ` + rateWords},
		{"ready_timeout: 11m", `FILE:1: ready_timeout: found "11m", ` + durationWords},
		{"rescan: 9s", `FILE:1: rescan: found "9s", expected a duration with a unit of at least 10s, such as 30s or 1m30s`},
		{"rescan: 99999999h", `FILE:1: rescan: found "99999999h", expected a duration with a unit of at least 10s, such as 30s or 1m30s`},
		{"workers: 0", `FILE:1: workers: found the number 0, expected a whole number from 1 to 64`},
		{"workers: 65", `FILE:1: workers: found the number 65, expected a whole number from 1 to 64`},
		{"workers: 4.0", `FILE:1: workers: found the number 4.0, expected a whole number from 1 to 64`},
		{"workers: 0x4", `FILE:1: workers: found the number 0x4, expected a whole number from 1 to 64`},
		{`workers: +010`, `FILE:1: workers: found the number +010, expected a whole number from 1 to 64`},
		{`workers: 017`, `FILE:1: workers: found the number 017, expected a whole number from 1 to 64`},
		{`workers: "4"`, `FILE:1: workers: found "4", expected a whole number from 1 to 64`},
		{"workers: {a: 1}", `FILE:1: workers: found keys with values, expected a whole number from 1 to 64`},

		// The following cases are about classes.
		{"classes:", `FILE:1: classes: found nothing, expected a list, each entry a class with name and directory`},
		{"classes: []", `FILE:1: classes: found an empty list, expected at least 1 entry, each a class with name and directory`},
		{"classes: {name: a}", `FILE:1: classes: found keys with values, expected a list, each entry a class with name and directory`},
		{"classes: [a]", `FILE:1: classes[0]: found "a", expected keys with values`},
		{"classes:\n- blank: full", "FILE:2: classes[0]: found no name, expected one\nFILE:2: classes[0]: found no directory, expected one"},
		{"classes: [" + strings.Repeat("{},", 65) + "]", `FILE:1: classes: found a list of 65 entries, expected at most 64`},
		{"classes:\n- {name: a, directory: /a}\n- {name: a, directory: /b}", `FILE:3: classes[1].name: found "a", which is already the name of classes[0] (line 2), expected a name that is not used yet`},
		{"classes:\n- {name: a, directory: /a}\n- {name: b, directory: /a}", `FILE:3: classes[1].directory: found "/a", expected a directory that is not inside, and does not contain, the directory of classes[0] (line 2) ("/a")`},
		{"classes:\n- {name: a, directory: /a}\n- {name: b, directory: /a/b}", `FILE:3: classes[1].directory: found "/a/b", expected a directory that is not inside, and does not contain, the directory of classes[0] (line 2) ("/a")`},
		{"classes:\n- {name: a, directory: /a/b}\n- {name: b, directory: /a}", `FILE:3: classes[1].directory: found "/a", expected a directory that is not inside, and does not contain, the directory of classes[0] (line 2) ("/a/b")`},
		{"classes:\n- {name: a, directory: /a}\n- {name: b, directory: /ab}\n- {name: B, directory: x}\n- {name: C, directory: y}", strings.Join([]string{
			`FILE:4: classes[2].name: found "B", ` + nameWords,
			`FILE:4: classes[2].directory: found "x", ` + pathWords,
			`FILE:5: classes[3].name: found "C", ` + nameWords,
			`FILE:5: classes[3].directory: found "y", ` + pathWords,
		}, "\n")},

		{"classes: [{name: 1, directory: /a}]", `FILE:1: classes[0].name: found the number 1, ` + nameWords},
		{"classes: [{name: '', directory: /a}]", `FILE:1: classes[0].name: found "", ` + nameWords},
		{"classes: [{name: -a, directory: /a}]", `FILE:1: classes[0].name: found "-a", ` + nameWords},
		{"classes: [{name: Fast, directory: /a}]", `FILE:1: classes[0].name: found "Fast", ` + nameWords},
		{"classes: [{name: a/b, directory: /a}]", `FILE:1: classes[0].name: found "a/b", ` + nameWords},
		{"classes: [{name: " + strings.Repeat("a", 64) + ", directory: /a}]", `FILE:1: classes[0].name: found "` + strings.Repeat("a", 64) + `", ` + nameWords},

		{"classes: [{name: a, directory: a}]", `FILE:1: classes[0].directory: found "a", ` + pathWords},
		{"classes: [{name: a, directory: /a/}]", `FILE:1: classes[0].directory: found "/a/", ` + pathWords},
		{"classes: [{name: a, directory: //a}]", `FILE:1: classes[0].directory: found "//a", ` + pathWords},
		{"classes: [{name: a, directory: /a/../b}]", `FILE:1: classes[0].directory: found "/a/../b", ` + pathWords},
		{"classes: [{name: a, directory: /a%h}]", `FILE:1: classes[0].directory: found "/a%h", ` + pathWords},
		{"classes: [{name: a, directory: /a b}]", `FILE:1: classes[0].directory: found "/a b", ` + pathWords},
		{"classes: [{name: a, directory: /}]", `FILE:1: classes[0].directory: found "/", expected a separate directory, not the root directory`},
		{"classes: [{name: a, directory: /proc}]", `FILE:1: classes[0].directory: found "/proc", ` + outside},
		{"classes: [{name: a, directory: /sys/a}]", `FILE:1: classes[0].directory: found "/sys/a", ` + outside},
		{"classes: [{name: a, directory: /dev/a}]", `FILE:1: classes[0].directory: found "/dev/a", ` + outside},
		{"classes: [{name: a, directory: /run/a}]", `FILE:1: classes[0].directory: found "/run/a", ` + outside},
		{"classes: [{name: a, directory: /etc/a}]", `FILE:1: classes[0].directory: found "/etc/a", ` + outside},
		{"classes: [{name: a, directory: /usr/a}]", `FILE:1: classes[0].directory: found "/usr/a", ` + outside},
		{"classes: [{name: a, directory: /boot/a}]", `FILE:1: classes[0].directory: found "/boot/a", ` + outside},
		{"classes: [{name: a, directory: /var/lib/hotmount/disks}]", `FILE:1: classes[0].directory: found "/var/lib/hotmount/disks", ` + outside},
		{"classes: [{name: a, directory: /home}]", `FILE:1: classes[0].directory: found "/home", ` + hidden},
		{"classes: [{name: a, directory: /root/a}]", `FILE:1: classes[0].directory: found "/root/a", ` + hidden},
		{"classes: [{name: a, directory: /tmp/a}]", `FILE:1: classes[0].directory: found "/tmp/a", ` + hidden},
		{"classes: [{name: a, directory: /var/tmp}]", `FILE:1: classes[0].directory: found "/var/tmp", ` + hidden},
		{"classes: [{name: a, directory: /run/user/0}]", `FILE:1: classes[0].directory: found "/run/user/0", ` + outside},
		{"classes: [{name: a, directory: /" + strings.Repeat("a", 190) + "}]", `FILE:1: classes[0].directory: found "/` + strings.Repeat("a", 190) + `", expected a path that is short enough for the name of a mount unit: at most 190 characters, where a '-' counts as 4`},
		{"classes: [{name: a, directory: /" + strings.Repeat("-", 48) + "}]", `FILE:1: classes[0].directory: found "/` + strings.Repeat("-", 48) + `", expected a path that is short enough for the name of a mount unit: at most 190 characters, where a '-' counts as 4`},

		{class("names: vd[a-z]"), `FILE:4: classes[0].names: found "vd[a-z]", expected a list, each entry a pattern of kernel names such as vd[a-z], of at most 128 characters without slashes and spaces`},
		{class("names: []"), `FILE:4: classes[0].names: found an empty list, expected at least 1 entry, each a pattern of kernel names such as vd[a-z], of at most 128 characters without slashes and spaces`},
		{class("names: ['']"), `FILE:4: classes[0].names[0]: found "", ` + patternWords},
		{class("names: ['/dev/vdb']"), `FILE:4: classes[0].names[0]: found "/dev/vdb", ` + patternWords},
		{class("names: ['vd b']"), `FILE:4: classes[0].names[0]: found "vd b", ` + patternWords},
		{class("names: ['" + strings.Repeat("v", 129) + "']"), `FILE:4: classes[0].names[0]: found "` + strings.Repeat("v", 129) + `", ` + patternWords},
		{class("names: [vdb, 'vd[a']"), `FILE:4: classes[0].names[1]: found "vd[a", ` + patternWords + `; a bracket is not closed, or nothing follows a backslash`},
		{class("names: [vdb, vdb]"), `FILE:4: classes[0].names[1]: found "vdb" a second time, expected once`},
		{class("names: [[vdb]]"), `FILE:4: classes[0].names[0]: found a list, ` + patternWords},
		{class("names: &a [vdb]"), `FILE:4: classes[0].names: found the anchor &a, expected only the value`},

		{class("create: btrfs"), `FILE:4: classes[0].create: found "btrfs", expected xfs, ext4 or none`},
		{class("create: ext4\n  accept: [xfs]"), `FILE:5: classes[0].accept: found no ext4, expected ext4 in the list, because the class creates this type`},
		{class("create: ext4\n  minimum_size: 100MiB"), `FILE:5: classes[0].minimum_size: found "100MiB", expected at least 300MiB: mkfs.xfs needs that`},
		{class("create: ext4\n  mkfs_options: [\"-i size=512\"]"), `FILE:5: classes[0].mkfs_options[0]: found "-i size=512", expected ` + expectedMkfsExt4},
		{class("create: ext4\n  mkfs_options: [\"-F\"]"), `FILE:5: classes[0].mkfs_options[0]: found "-F", expected ` + expectedMkfsExt4},
		{class("mkfs_options: [\"-m 0\"]"), `FILE:4: classes[0].mkfs_options[0]: found "-m 0", expected ` + expectedMkfs},
		{class("partitions: true"), `FILE:4: classes[0].partitions: found no selector except partitions, expected another selector, such as names: [vd[b-z][1-9]]`},
		{class("partitions: true\n  names: [vdb1]\n  mode: block"), `FILE:6: classes[0].mode: found "block", expected filesystem: a partition cannot be a block volume`},
		{class("create: ~"), `FILE:4: classes[0].create: found nothing, expected xfs, ext4 or none`},
		{class("accept: [xfs, btrfs]"), `FILE:4: classes[0].accept[1]: found "btrfs", expected xfs or ext4`},
		{class("adopt: all"), `FILE:4: classes[0].adopt: found "all", expected any or known`},
		{class("adopt: [known]"), `FILE:4: classes[0].adopt: found a list, expected any or known`},
		{class("accept: []"), `FILE:4: classes[0].accept: found an empty list, expected at least 1 entry, each xfs or ext4`},
		{class("accept: [ext4]"), `FILE:4: classes[0].accept: found no xfs, expected xfs in the list, because the class creates this type`},
		{class("blank: none"), `FILE:4: classes[0].blank: found "none", expected auto, full, sampled or unsigned`},

		{class("grow: yes"), `FILE:4: classes[0].grow: found "yes", expected true or false`},
		{class("storage_class: Fast"), `FILE:4: classes[0].storage_class: found "Fast", expected the name of a Kubernetes object: at most 253 lower-case letters, digits, '-' and '.', or "" for none`},
		{"node: 5", `FILE:1: node: found the number 5, expected the name of a Kubernetes object: at most 253 lower-case letters, digits, '-' and '.', or "" for none`},
		{class("minimum_size: 300"), `FILE:4: classes[0].minimum_size: found the number 300, ` + sizeWords},
		{class("minimum_size: 300M"), `FILE:4: classes[0].minimum_size: found "300M", ` + sizeWords},
		{class("minimum_size: 300 MiB"), `FILE:4: classes[0].minimum_size: found "300 MiB", ` + sizeWords},
		{class("minimum_size: MiB"), `FILE:4: classes[0].minimum_size: found "MiB", ` + sizeWords},
		{class("minimum_size: 1.5GiB"), `FILE:4: classes[0].minimum_size: found "1.5GiB", ` + sizeWords},
		{class("minimum_size: -1GiB"), `FILE:4: classes[0].minimum_size: found "-1GiB", ` + sizeWords},
		{class("minimum_size: 8388608TiB"), `FILE:4: classes[0].minimum_size: found "8388608TiB", ` + sizeWords},
		{class("minimum_size: 99999999999999999999GB"), `FILE:4: classes[0].minimum_size: found "99999999999999999999GB", ` + sizeWords},
		{class("minimum_size: 299MiB"), `FILE:4: classes[0].minimum_size: found "299MiB", expected at least 300MiB: mkfs.xfs needs that`},
		{class("minimum_size: 300MB"), `FILE:4: classes[0].minimum_size: found "300MB", expected at least 300MiB: mkfs.xfs needs that`},

		{class("options: noatime"), `FILE:4: classes[0].options: found "noatime", expected a list, each entry one mount option of at most 256 visible characters without ',', '\', '%' and '"'`},
		{class("options: ['']"), `FILE:4: classes[0].options[0]: found "", ` + optionWords},
		{class("options: ['nodev,user']"), `FILE:4: classes[0].options[0]: found "nodev,user", ` + optionWords},
		{class("options: ['a b']"), `FILE:4: classes[0].options[0]: found "a b", ` + optionWords},
		{class("options: ['a%b']"), `FILE:4: classes[0].options[0]: found "a%b", ` + optionWords},
		{class("options: ['a\\b']"), `FILE:4: classes[0].options[0]: found "a\\b", ` + optionWords},
		{class("options: ['a\"b']"), `FILE:4: classes[0].options[0]: found "a"b", ` + optionWords},
		{class("options: [\"a\\x07\"]"), `FILE:4: classes[0].options[0]: found "a\a", ` + optionWords},
		{class("options: [" + strings.Repeat("o", 257) + "]"), `FILE:4: classes[0].options[0]: found "` + strings.Repeat("o", 256) + `…", ` + optionWords},
		{class("options: [é]"), `FILE:4: classes[0].options[0]: found "é", ` + optionWords},
		{class("options: [nodev, nofail]"), `FILE:4: classes[0].options[1]: found "nofail", expected a list without nofail: hotmount adds the option itself`},
		{class("options: [ro, ro]"), `FILE:4: classes[0].options[1]: found "ro" a second time, expected once`},

		// Load must report all errors, in the order of their lines.
		{"worker: 4\nclasses:\n- name: A\n  directory: /usr\nsettle: 5\nformat: no\n", strings.Join([]string{
			`FILE:1: worker: unknown key, did you mean "workers"?`,
			`FILE:3: classes[0].name: found "A", ` + nameWords,
			`FILE:4: classes[0].directory: found "/usr", ` + outside,
			`FILE:5: settle: found the number 5, ` + durationWords,
			`FILE:6: format: found "no", expected true or false`,
		}, "\n")},
	} {
		src := source(t, tt.file, nil)
		s, err := Load(src)
		if got := message(src, err); got != tt.want {
			t.Errorf("%q\ngot  %s\nwant %s", tt.file, got, tt.want)
		}
		if diff := cmp.Diff(disk.Settings{}, s); diff != "" {
			t.Errorf("%q: got settings and an error: %s", tt.file, diff)
		}
	}
}

func TestOptions(t *testing.T) {
	const (
		forSystemd  = "an option of the filesystem, not an option for systemd or mount(8)"
		forOthers   = "no option that lets users other than root mount and unmount"
		when        = "an option without effect on the time of the mount: hotmount decides when to mount"
		act         = "no option that makes mount(8) do something other than mount the disk"
		propagation = "an option that does not set propagation: the mount of the class directory sets the propagation"
		helper      = "no option that makes a helper unmount the disk"
		device      = "no option that adds another device"
		twin        = "no option that allows two filesystems with one UUID"
	)
	for want, options := range map[string]string{
		"":          "defaults noatime nodev nosuid noexec ro discard relatime lazytime suid dev exec inode64 logbufs=8 data=ordered commit=5 prjquota nouser context=system_u:object_r:x:s0",
		forSystemd:  "x-systemd.automount x-systemd.requires=x.service x-mount.mkdir x-mount.subdir=x X-mount.owner=1 X-anything x-initrd.mount",
		forOthers:   "user users owner group user=joe",
		when:        "auto noauto _netdev",
		act:         "remount bind rbind move loop loop=/dev/loop0 offset=512 sizelimit=1 encryption=aes",
		propagation: "shared rshared slave rslave private rprivate unbindable runbindable",
		helper:      "helper=x uhelper=udisks2",
		device:      "logdev=/dev/vdc rtdev=/dev/vdc journal_dev=0x801 journal_path=/dev/vdc verity.hashdevice=/dev/vdc",
		twin:        "nouuid",
	} {
		for option := range strings.FieldsSeq(options) {
			if got := wrongOption(option, ""); got != want {
				t.Errorf("%s: %q, want %q", option, got, want)
			}
		}
	}
}

func TestFaultsOfEnvironmentAndFlags(t *testing.T) {
	for _, tt := range []struct {
		environ, args []string
		want          string
	}{
		{environ: []string{"HOTMOUNT_SETTEL=5s"}, want: `HOTMOUNT_SETTEL: unknown variable, did you mean "HOTMOUNT_SETTLE"?`},
		{environ: []string{"HOTMOUNT_CLASSES=x"}, want: `HOTMOUNT_CLASSES: unknown variable, expected one of HOTMOUNT_CONFIG, HOTMOUNT_FORMAT, HOTMOUNT_FORMAT_PRESENT, HOTMOUNT_FORMAT_LIMIT, HOTMOUNT_FORMAT_PERIOD, HOTMOUNT_SETTLE, HOTMOUNT_SCAN_RATE, HOTMOUNT_READY_TIMEOUT, HOTMOUNT_RESCAN, HOTMOUNT_WORKERS, HOTMOUNT_NODE, HOTMOUNT_TRIM`},
		{environ: []string{"HOTMOUNT_\x1b=x"}, want: `HOTMOUNT_\x1b: unknown variable, expected one of HOTMOUNT_CONFIG, HOTMOUNT_FORMAT, HOTMOUNT_FORMAT_PRESENT, HOTMOUNT_FORMAT_LIMIT, HOTMOUNT_FORMAT_PERIOD, HOTMOUNT_SETTLE, HOTMOUNT_SCAN_RATE, HOTMOUNT_READY_TIMEOUT, HOTMOUNT_RESCAN, HOTMOUNT_WORKERS, HOTMOUNT_NODE, HOTMOUNT_TRIM`},
		{environ: []string{"HOTMOUNT_SETTLE=5"}, want: `HOTMOUNT_SETTLE: found "5", ` + durationWords},
		{environ: []string{"HOTMOUNT_SETTLE="}, want: `HOTMOUNT_SETTLE: found "", ` + durationWords},
		{environ: []string{"HOTMOUNT_FORMAT=1"}, want: `HOTMOUNT_FORMAT: found "1", expected true or false`},
		{environ: []string{"HOTMOUNT_WORKERS=four"}, want: `HOTMOUNT_WORKERS: found "four", expected a whole number from 1 to 64`},
		{args: []string{"--settle=5"}, want: `--settle: found "5", ` + durationWords},
		{args: []string{"--format=no"}, want: `--format: found "no", expected true or false`},
		{args: []string{"--workers=65"}, want: `--workers: found "65", expected a whole number from 1 to 64`},
		{
			environ: []string{"HOTMOUNT_X=1", "HOTMOUNT_FORMAT=\n"}, args: []string{"--workers=0", "--rescan=1s"},
			want: strings.Join([]string{
				`FILE:1: settle: found the number 1, ` + durationWords,
				`HOTMOUNT_FORMAT: found "\n", expected true or false`,
				`HOTMOUNT_X: unknown variable, expected one of HOTMOUNT_CONFIG, HOTMOUNT_FORMAT, HOTMOUNT_FORMAT_PRESENT, HOTMOUNT_FORMAT_LIMIT, HOTMOUNT_FORMAT_PERIOD, HOTMOUNT_SETTLE, HOTMOUNT_SCAN_RATE, HOTMOUNT_READY_TIMEOUT, HOTMOUNT_RESCAN, HOTMOUNT_WORKERS, HOTMOUNT_NODE, HOTMOUNT_TRIM`,
				`--rescan: found "1s", expected a duration with a unit of at least 10s, such as 30s or 1m30s`,
				`--workers: found "0", expected a whole number from 1 to 64`,
			}, "\n"),
		},
	} {
		file := ""
		if strings.HasPrefix(tt.want, "FILE") {
			file = "settle: 1"
		}
		src := source(t, file, tt.environ, tt.args...)
		_, err := Load(src)
		if got := message(src, err); got != tt.want {
			t.Errorf("%q %q\ngot  %s\nwant %s", tt.environ, tt.args, got, tt.want)
		}
	}
}

func TestWhichFile(t *testing.T) {
	if file, _, named := new(Source).path(); file != "/etc/hotmount/config.yaml" || named {
		t.Errorf("default file %s, named: %v", file, named)
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	one, two, three := file("one", "workers: 1"), file("two", "workers: 2"), file("three", "workers: 3")
	missing := filepath.Join(dir, "missing")
	nowhere := filepath.Join(dir, "nowhere")
	if err := os.Symlink(missing, nowhere); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	big := file("big", "#"+strings.Repeat("x", maxFile))
	for _, tt := range []struct {
		name, path string
		environ    []string
		args       []string
		workers    int
		want       string
	}{
		{name: "default", path: one, workers: 1},
		{name: "variable", path: one, environ: []string{"HOTMOUNT_CONFIG=" + two}, workers: 2},
		{name: "flag", path: one, environ: []string{"HOTMOUNT_CONFIG=" + two}, args: []string{"--config", three}, workers: 3},
		{name: "no default", path: missing, workers: 16},
		{name: "size at the limit", path: file("limit", "workers: 5\n#"+strings.Repeat("x", maxFile-12)), workers: 5},
		{name: "missing by variable", path: one, environ: []string{"HOTMOUNT_CONFIG=" + missing}, want: "cannot read the configuration file DIR/missing: no such file or directory"},
		{name: "missing by flag", path: one, args: []string{"--config", missing}, want: "cannot read the configuration file DIR/missing: no such file or directory"},
		{name: "empty variable", path: one, environ: []string{"HOTMOUNT_CONFIG="}, want: `HOTMOUNT_CONFIG: found "", expected the path of a file`},
		{name: "empty flag", path: one, args: []string{"--config="}, want: `--config: found "", expected the path of a file`},
		{name: "symlink to nowhere", path: nowhere, want: "cannot read the configuration file DIR/nowhere: no such file or directory"},
		{name: "directory", path: dir, want: "cannot read the configuration file DIR: expected a regular file, found mode drwx------"},
		{name: "FIFO", path: fifo, want: "cannot read the configuration file DIR/fifo: expected a regular file, found mode prw-------"},
		{name: "below a file", path: one + "/x", want: "cannot read the configuration file DIR/one/x: not a directory"},
		{name: "too large", path: big, want: "cannot read the configuration file DIR/big: larger than 1 MiB"},
		{name: "control characters", args: []string{"--config", dir + "/\x1b"}, want: `cannot read the configuration file DIR/\x1b: no such file or directory`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s, err := Load(Source{Path: tt.path, Environ: tt.environ, Flags: flags(t, tt.args...), Trust: anyone})
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if got != tt.want || s.Workers != tt.workers {
				t.Errorf("%d workers, error %q; want %d, %q", s.Workers, got, tt.workers, tt.want)
			}
			if strings.HasPrefix(tt.name, "missing") && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not fs.ErrNotExist", err)
			}
		})
	}
}

// info describes a file with the given owner and mode.
type info struct {
	fs.FileInfo
	mode fs.FileMode
	sys  any
}

func (i info) Mode() fs.FileMode { return i.mode }
func (i info) Sys() any          { return i.sys }

func TestRootAlone(t *testing.T) {
	for _, tt := range []struct {
		info info
		want string
	}{
		{info{mode: 0o644, sys: &syscall.Stat_t{}}, ""},
		{info{mode: 0o400, sys: &syscall.Stat_t{Gid: 5}}, ""},
		{info{mode: 0o664, sys: &syscall.Stat_t{}}, "the file's mode is 0664, expected a file that only root can write (0644)"},
		{info{mode: 0o602, sys: &syscall.Stat_t{}}, "the file's mode is 0602, expected a file that only root can write (0644)"},
		{info{mode: 0o600, sys: &syscall.Stat_t{Uid: 1000}}, "the file belongs to user 1000, expected root"},
		{info{mode: 0o600}, "cannot find out who owns the file, expected root"},
	} {
		got := ""
		if err := rootAlone(tt.info); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("mode %o, %v: %q, want %q", tt.info.mode, tt.info.sys, got, tt.want)
		}
	}
}

// TestTrustByDefault checks that a Source whose Trust is nil checks the owner and the mode of files.
func TestTrustByDefault(t *testing.T) {
	src := source(t, "workers: 1", nil)
	src.Trust = nil
	file, _, _ := src.path()
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(src); err == nil {
		t.Errorf("accepted a file that anybody can write to: %+v", s)
	}
	src.Trust = func(fs.FileInfo) error { return fs.ErrPermission }
	if _, err := Load(src); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want the error of the check", err)
	}
	// Load must refuse a file in a directory of mode 0775, because other users can remove the file. Load must accept a
	// file in a sticky directory, because other users cannot remove the file.
	dir := t.TempDir()
	src = Source{Path: filepath.Join(dir, "config.yaml"), Trust: func(info fs.FileInfo) error {
		if info.IsDir() && info.Mode().Perm()&0o022 != 0 {
			return fs.ErrPermission
		}
		return nil
	}}
	for _, tt := range []struct {
		mode fs.FileMode
		want error
	}{{0o755, nil}, {0o775, fs.ErrPermission}, {0o777 | fs.ModeSticky, nil}} {
		if err := os.Chmod(dir, tt.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(src); !errors.Is(err, tt.want) {
			t.Errorf("in a directory of mode %s: %v", tt.mode, err)
		}
	}
	// The owner of a sticky directory can remove the file.
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	src.Trust = nil
	if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("in a sticky directory of a user: %v", err)
	}
}

func TestAddFlags(t *testing.T) {
	const want = `      --config file              configuration file (default "/etc/hotmount/config.yaml")
      --format                   format blank disks (default true)
      --format-limit int         how many disks hotmount formats within format_period; more disks need an accept by the operator (default 64)
      --format-period duration   the period for format_limit (default 10m)
      --format-present           format blank disks that were attached before hotmount was installed
      --node name                the node's name in the cluster (default the host's name)
      --ready-timeout duration   the longest time that disks may delay the readiness of the daemon at its start (default 30s)
      --rescan duration          how often hotmount looks at every disk, even without an event (default 1h)
      --scan-rate size           the maximum that hotmount reads from a disk per second to prove the disk blank (default none)
      --settle duration          how long a disk must be without writes before it is formatted (default 5s)
      --trim                     return the free space of filesystems to the storage (default true)
      --workers int              how many disks hotmount looks at in parallel (default 16)
`
	if diff := cmp.Diff(want, flags(t).FlagUsages()); diff != "" {
		t.Error(diff)
	}
}

// TestWithoutFlags checks that a source works without flags, and with flags that do not belong to hotmount.
func TestWithoutFlags(t *testing.T) {
	src := Source{Path: filepath.Join(t.TempDir(), "none"), Trust: anyone}
	for _, f := range []*pflag.FlagSet{nil, pflag.NewFlagSet("other", pflag.ContinueOnError)} {
		src.Flags = f
		got, err := Load(src)
		if diff := cmp.Diff(Default(), got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

// TestKeysAreTheSettings checks that each field of the settings has a key, and that each key has a field. A file
// cannot set the key "fault".
func TestKeysAreTheSettings(t *testing.T) {
	if _, err := Load(source(t, "fault: x", []string{"HOTMOUNT_FAULT=x"})); err == nil || !strings.Contains(err.Error(), "fault: unknown key") || !strings.Contains(err.Error(), "HOTMOUNT_FAULT: unknown variable") {
		t.Errorf("a file that sets the fault: %v", err)
	}
	for of, want := range map[any][]string{
		reflect.TypeFor[disk.Settings]():  append([]string{"classes", "exclude", "csi_ignore", "fault"}, names(scalars)...),
		reflect.TypeFor[disk.Class]():     names(classKeys),
		reflect.TypeFor[disk.Selectors](): names(selectorKeys),
	} {
		var got []string
		for _, f := range reflect.VisibleFields(of.(reflect.Type)) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
				got = append(got, key)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: %s", of, diff)
		}
	}
}

// TestDefaultIsFresh checks that each call of Default returns its own lists.
func TestDefaultIsFresh(t *testing.T) {
	s := Default()
	s.Classes[0].Options[0] = "suid"
	if Default().Classes[0].Options[0] != "noatime" {
		t.Error("two calls of Default share their lists")
	}
}

// The regular expression `commented` matches a line of the shipped file that is commented out: a key, or a comment
// within the list of classes. The expression does not match an explanation, in which a space and a capital letter
// follow the "#".
var commented = regexp.MustCompile(`(?m)^#((?:  +(?:# .*|(?:- )?[a-z_]+:.*))|[a-z_]+:.*)$`)

// TestManualPage checks that hotmount.yaml(5) gives the default of each key, in the form "key: value".
func TestManualPage(t *testing.T) {
	page, err := os.ReadFile("../../packaging/man/hotmount.yaml.5")
	if err != nil {
		t.Fatal(err)
	}
	root, class := "", "classes:\n- name: default\n  directory: /mnt/disks\n"
	got := map[string]int{}
	argument := regexp.MustCompile(`"((?:[^"]|"")*)"|(\S+)`) // an argument of a roff(7) macro, where "" within quotes is one quote
	for _, line := range regexp.MustCompile(`(?m)^\.BR ([a-z_]+ ": .+)$`).FindAllStringSubmatch(string(page), -1) {
		text := ""
		for _, a := range argument.FindAllStringSubmatch(line[1], -1) {
			text += strings.ReplaceAll(a[1], `""`, `"`) + a[2]
		}
		for _, pair := range regexp.MustCompile(`([a-z_]+): (\[.*\]|[^,]+)`).FindAllStringSubmatch(text, -1) {
			if slices.Contains(names(selectorKeys), pair[1]) {
				continue // a selector has no default, and the page gives an example
			}
			got[pair[1]]++
			// The page explains trim for the whole configuration first, and then for a class.
			if slices.Contains(names(actKeys), pair[1]) && (got[pair[1]] > 1 || !slices.Contains(names(scalars), pair[1])) {
				class += "  " + pair[0] + "\n"
			} else {
				root += pair[0] + "\n"
			}
		}
	}
	settings, err := Load(source(t, root+class, nil))
	if diff := cmp.Diff(Default(), settings); diff != "" || err != nil {
		t.Errorf("the defaults in hotmount.yaml(5) are not those of the code: %v %s", err, diff)
	}
	for _, key := range append(names(scalars), names(actKeys)...) {
		if got[key] == 0 && key != "directory" {
			t.Errorf("the page has no default of %s", key)
		}
	}
}

func TestShippedFile(t *testing.T) {
	shipped, err := os.ReadFile("../../packaging/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	uncommented := commented.ReplaceAllString(string(shipped), "$1")
	for name, content := range map[string]string{"shipped": string(shipped), "uncommented": uncommented} {
		got, err := Load(source(t, content, nil))
		if diff := cmp.Diff(Default(), got); diff != "" || err != nil {
			t.Errorf("packaging/config.yaml, %s, has other defaults than the code: %v %s", name, err, diff)
		}
	}

	for line := range strings.Lines(string(shipped)) {
		if line != "\n" && line[0] != '#' {
			t.Errorf("not commented out: %s", line)
		}
	}
	// The shipped file must explain each selector, because selectors have no defaults that the file could show.
	for _, key := range names(selectorKeys) {
		if !strings.Contains(string(shipped), "\n#    #   "+key+": ") {
			t.Errorf("the selector %s is not explained in the shipped file", key)
		}
	}
	keys := append([]string{"name", "transport", "vendor", "exclude", "csi_ignore"}, names(actKeys)...)
	for _, s := range scalars {
		keys = append(keys, s.name)
	}
	keys = append(keys, "classes")
	for _, key := range keys {
		// A key such as trim must occur twice: once for a class and once for the whole configuration.
		want := 0
		for _, k := range keys {
			if k == key {
				want++
			}
		}
		if n := len(regexp.MustCompile(`(?m)^[- ]*`+key+`:`).FindAllString(uncommented, -1)); n != want {
			t.Errorf("the key %s occurs %d times in the shipped file, want %d", key, n, want)
		}
	}
}

// FuzzLoad checks two things for any input: Load does not panic, and the settings that it returns break no rule.
func FuzzLoad(f *testing.F) {
	shipped, err := os.ReadFile("../../packaging/config.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(commented.ReplaceAll(shipped, []byte("$1")), "", "")
	f.Add(shipped, "HOTMOUNT_SETTLE=1s", "2s")
	f.Add([]byte("classes:\n- {name: a, directory: /a, options: [ro]}\n- name: b\n  directory: /b\n  accept: [xfs]\n  create: none\n  minimum_size: 0KB\n"), "HOTMOUNT_WORKERS=64", "0s")
	f.Add([]byte("a: &a [*a]\n<<: *a\n? - b\n: !!set {c}\n# d\n---\n%TAG"), "HOTMOUNT_", "1")
	f.Add([]byte("workers: 1\nsettle: 1ns\nrescan: 1e3h\nready_timeout: .5m"), "HOTMOUNT_FORMAT", "-1s")
	f.Add([]byte("classes:\n# x\n- # y\n  name: a\n# z\n"), "", "5s")
	f.Add([]byte("exclude: [{names: [vdb, '[z-a]', 're:^vd'], serial: ['[\\\\-\\]]', '0123456789012345678901'], wwn: [0x5]}]"), "", "5s")
	f.Add([]byte("\xff\xfef\x00:\x00 \x001\x00"), "=", "")
	file := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, content []byte, variable, settle string) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(Source{
			Environ: []string{variable},
			Flags:   flags(t, "--config="+file, "--settle="+settle),
			Trust:   anyone,
		})
		if err == nil {
			if err := valid(s); err != nil {
				t.Error(err)
			}
			return
		}
		if diff := cmp.Diff(disk.Settings{}, s); diff != "" {
			t.Errorf("got settings and an error: %s", diff)
		}
		raw := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if what := err.Error(); strings.ContainsFunc(what, raw) || !utf8.ValidString(what) {
			t.Errorf("unescaped bytes in the error %q", what)
		}
	})
}

var (
	validName   = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	validOption = regexp.MustCompile(`^[!-~]+$`)
	validPath   = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)
	ownerOption = regexp.MustCompile(`^([xX]-.*|(user|users|owner|group|auto|noauto|_netdev|nofail|remount|r?bind|move|loop|r?shared|r?slave|r?private|r?unbindable|u?helper|nouuid)(=.*)?)$`)
	systemPath  = regexp.MustCompile(`^/(proc|sys|dev|run|etc|usr|boot)(/|$)`)
)

// valid returns an error that names the broken rule, if the settings break a rule. The function `valid` does not call the
// code that FuzzLoad checks.
func valid(s disk.Settings) error {
	switch {
	case s.FormatLimit < 1 || s.FormatLimit > 256:
		return errors.New("format_limit")
	case s.FormatPeriod < time.Minute || s.FormatPeriod > 24*time.Hour:
		return errors.New("format_period")
	case s.Settle < 0 || s.Settle > 10*time.Minute:
		return errors.New("settle")
	case s.ReadyTimeout < 0 || s.ReadyTimeout > 10*time.Minute:
		return errors.New("ready_timeout")
	case s.Rescan < 10*time.Second:
		return errors.New("rescan")
	case s.Workers < 1 || s.Workers > 64:
		return errors.New("workers")
	case len(s.Classes) == 0:
		return errors.New("no classes")
	}
	for i, c := range s.Classes {
		wrong := func(what string) error { return errors.New(c.Name + ": " + what) }
		switch {
		case !validName.MatchString(c.Name):
			return wrong("name")
		case !validPath.MatchString(c.Directory) || path.Clean(c.Directory) != c.Directory || systemPath.MatchString(c.Directory) || len(c.Directory) > 190:
			return wrong("directory " + c.Directory)
		case c.Create != "xfs" && c.Create != "ext4" && c.Create != "none":
			return wrong("create")
		case c.Create != "none" && (c.MinimumSize < 300*1024*1024 || !slices.Contains(c.Accept, c.Create)):
			return wrong("create: " + c.Create)
		case c.MinimumSize > 1<<63-1:
			return wrong("minimum_size")
		case !slices.Contains([]string{"auto", "full", "sampled", "unsigned"}, c.Blank):
			return wrong("blank")
		case c.Selectors.IsZero() || len(c.Accept) == 0 || c.Options == nil:
			return wrong("an empty list")
		}
		for _, n := range c.Names {
			if _, err := path.Match(n, "vda"); err != nil || n == "" || strings.Contains(n, "/") {
				return wrong("names " + n)
			}
		}
		for _, a := range c.Accept {
			if a != "xfs" && a != "ext4" {
				return wrong("accept " + a)
			}
		}
		for _, o := range c.Options {
			if !validOption.MatchString(o) || strings.ContainsAny(o, `,\%"`) || ownerOption.MatchString(o) {
				return wrong("options " + o)
			}
		}
		for _, other := range s.Classes[:i] {
			if other.Name == c.Name || strings.HasPrefix(c.Directory+"/", other.Directory+"/") || strings.HasPrefix(other.Directory+"/", c.Directory+"/") {
				return wrong("meets " + other.Name)
			}
		}
	}
	return nil
}
