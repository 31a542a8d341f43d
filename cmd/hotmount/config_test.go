package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheckAndShow(t *testing.T) {
	machine(t)
	out, code, err := call(t, "config", "show", "--settle=9s", "--config=/dev/null")
	if code != 1 || out != "" || !strings.Contains(err.Error(), "expected a regular file") {
		t.Error(out, code, err)
	}
	out, code, err = call(t, "config", "check", "--config=/dev/null", "--settle=9")
	if code != 3 || !strings.Contains(out, "--settle: found \"9\", expected a duration") || !strings.Contains(out, "regular file") || err.Error() != "the configuration has 2 faults" {
		t.Error(out, code, err)
	}
	if out, code, err = call(t, "config", "check"); code != 0 || !strings.Contains(out, "default (/mnt/disks)") {
		t.Error(out, code, err)
	}
	if out, code, err = call(t, "config", "show", "--settle=9s"); code != 0 || !strings.Contains(out, "settle: 9s") || !strings.Contains(out, "# --settle\n") {
		t.Error(out, code, err)
	}
	// What only the machine can tell: whether mkfs takes the options, and what the
	// directories are. /lib is a link where /usr is merged.
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "classes:\n- {name: a, directory: /mnt/a, mkfs_options: [\"-i size=17\"], names: [vdb]}\n- {name: b, directory: /lib/b, names: [vdc]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code, err = call(t, "config", "check", "--config="+file)
	for _, want := range []string{`:2: classes[0].mkfs_options: found ["-i size=17"], which mkfs.xfs refuses: `, ":3: classes[1].directory: found \"/lib/b\", of which /lib is a symbolic link"} {
		if code != 3 || !strings.Contains(out, want) {
			t.Errorf("no %q in %s: %d, %v", want, out, code, err)
		}
	}
}

// TestWarningsOfUnused: a class and an exclusion that select no attached disk are no fault, and are told of.
func TestWarningsOfUnused(t *testing.T) {
	machine(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "exclude:\n- {serial: [OLD-*]}\n- {serial: [DATA-1]}\nclasses:\n- {name: a, directory: /mnt/a, names: [vdc]}\n- {name: b, directory: /mnt/b, serial: ['re:x^']}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + ":2: warning: exclude[0] selects no attached disk\n" + file + ":6: warning: classes[1] selects no attached disk\nCompare with what a disk has: hotmount explain DISK\n"
	for _, command := range [][]string{{"config", "check"}, {"plan"}} {
		out, code, err := call(t, append(command, "--config="+file)...)
		if code != 0 || !strings.Contains(out, want) || strings.Count(out, "warning") != 2 {
			t.Errorf("%v: %s: %d, %v", command, out, code, err)
		}
		// The default class is nobody's word.
		if out, code, err = call(t, command...); code != 0 || strings.Contains(out, "warning") {
			t.Errorf("%v of the defaults: %s: %d, %v", command, out, code, err)
		}
	}
}
