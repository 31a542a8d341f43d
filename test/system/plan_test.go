//go:build vm

package system

import (
	"os"
	"testing"

	"hotmount/test/worker"
)

// TestPlanWritesNothing: the plan says what the daemon then does.
func TestPlanWritesNothing(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("udevadm settle")
	full := blank(t, 320<<20)
	if err := os.WriteFile(full, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(full, 320<<20); err != nil {
		t.Fatal(err)
	}
	refused, _ := m.attach(w, worker.Disk{File: full})
	m.run("udevadm settle")
	plan := m.run("hotmount plan -v")
	for _, line := range []string{
		`^` + name + ` +320 MiB +format +it is blank$`,
		`^` + name + `: format: evidence:\n    wipefs: nothing\n    blkid: nothing\n    read 320 MiB of 320 MiB, all zero \(full\)$`,
		`^` + refused + ` +320 MiB +refuse +what is on it is not known; `,
		`^` + refused + `: refuse: evidence:\n(    .*\n)*    .*byte 0\b`,
	} {
		if !regexpLine(plan, line) {
			t.Errorf("%s is not in the plan:\n%s", line, plan)
		}
	}
	if got := m.writes(name) + " " + m.writes(refused); got != "0 0" {
		t.Errorf("%s write requests by a plan", got)
	}
	if out := m.run("su nobody -s /bin/sh -c 'hotmount plan'"); !regexpLine(out, `^`+name+` .*(prove|hold).*`) {
		t.Errorf("nobody's plan:\n%s", out)
	}
	m.run("systemctl start hotmount")
	m.mounted(name)
}
