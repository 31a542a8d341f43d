package main

import (
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
}
