package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"hotmount/internal/cli"
	"hotmount/internal/config"
	"hotmount/internal/disk"
)

// TestStatusVerdict checks that status has exit code 3 if a disk needs attention.
func TestStatusVerdict(t *testing.T) {
	for state, want := range map[string]int{"refused": 3, "failed": 3, "ignored": 0, "held": 0} {
		if got := exitCode(statusVerdict(&cli.Status{Disks: []cli.DiskStatus{{State: state}}})); got != want {
			t.Errorf("%s: exit code %d", state, got)
		}
	}
	for reason, want := range map[disk.Reason]int{disk.ReasonNotGrown: 3, disk.ReasonMounted: 0} {
		if got := exitCode(statusVerdict(&cli.Status{Disks: []cli.DiskStatus{{State: "mounted", Decision: disk.Decision{Reason: reason}}}})); got != want {
			t.Errorf("%s: exit code %d", reason, got)
		}
	}
}

// TestOtherSettings checks that plan and status compare their settings with the daemon's settings only while the daemon
// runs.
func TestOtherSettings(t *testing.T) {
	h := machine(t)
	theirs := config.Default()
	theirs.Settle = 77 * time.Second
	if err := h.Store.SaveSettings(&theirs); err != nil {
		t.Fatal(err)
	}
	for _, runs := range []bool{false, true} {
		if runs {
			write(t, h.Root, map[string]string{"sys/fs/cgroup/system.slice/hotmount.service/cgroup.procs": "8\n", "proc/8/cmdline": "/usr/bin/hotmount\x00run\x00"})
		}
		for _, command := range []string{"plan", "status"} {
			if out, _, _ := call(t, command); strings.Contains(out, "The daemon uses other values for: settle\n") != runs {
				t.Errorf("%s, and the daemon runs: %v\n%s", command, runs, out)
			}
		}
	}
}

// TestUsable checks that the function `usable` returns settings even if the configuration is faulty. If the command
// line has configuration flags, a faulty configuration must still be an error.
func TestUsable(t *testing.T) {
	h := machine(t)
	t.Setenv("HOTMOUNT_SETTLE", "no time")
	ask := func(args ...string) (string, *disk.Settings, error) {
		var said bytes.Buffer
		c := &cobra.Command{}
		c.SetErr(&said)
		config.AddFlags(c.Flags())
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		s, err := usable(c)
		return said.String(), s, err
	}
	said, s, err := ask()
	if err != nil || s.Settle != config.Default().Settle || !strings.Contains(said, "no time") || !strings.Contains(said, "the defaults") {
		t.Errorf("no daemon: %q, %+v, %v", said, s, err)
	}
	theirs := config.Default()
	theirs.Settle = 77 * time.Second
	if err := h.Store.SaveSettings(&theirs); err != nil {
		t.Fatal(err)
	}
	if said, s, err = ask(); err != nil || s.Settle != theirs.Settle || !strings.Contains(said, "the daemon used last") {
		t.Errorf("the daemon's: %q, %+v, %v", said, s, err)
	}
	if _, _, err = ask("--workers", "3"); err == nil {
		t.Error("flags were ignored without an error")
	}
}
