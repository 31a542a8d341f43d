//go:build vm

package system

import (
	"strings"
	"testing"
	"unicode/utf8"

	"hotmount/test/worker"
)

// TestStatus: anybody sees which disk is mounted where and which is refused, also
// while the daemon is down.
func TestStatus(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib), Serial: "GOOD"})
	uuid := m.mounted(name)
	out := m.run("hotmount status && echo 0 || echo $?")
	if !strings.HasSuffix(out, "\n0") || !regexpLine(out, `^vdb +1 GiB +GOOD +xfs +default +mounted +[0-9]+[sm] +[0-9]+% +/mnt/disks/`+uuid[:8]+`…$`) {
		t.Errorf("got %s", out)
	}
	m.run("systemctl stop hotmount")
	bad, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "BAD"})
	m.run("printf 'label: gpt\\n,\\n' | sfdisk -q /dev/" + bad + "; udevadm settle; systemctl start hotmount")
	for _, daemon := range []string{"running", "down"} {
		if daemon == "down" {
			m.run("systemctl stop hotmount")
		}
		for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
			out := m.run(who + "hotmount status && echo 0 || echo $?")
			if !strings.HasSuffix(out, "\n3") || !regexpLine(out, `^vdc .* refused `) || !strings.Contains(out, "what helps: ") || !regexpLine(out, `^vdb .* mounted `) {
				t.Errorf("%q, daemon %s: got %s", who, daemon, out)
			}
			if strings.Contains(out, "the daemon does not run") != (daemon == "down") {
				t.Errorf("%q, daemon %s: got %s", who, daemon, out)
			}
			for line := range strings.Lines(out) {
				if utf8.RuneCountInString(line) > 101 {
					t.Errorf("too wide: %s", line)
				}
			}
		}
	}
	if out := m.run("hotmount status || true"); !strings.Contains(out, "  found: ") {
		t.Errorf("no evidence:\n%s", out)
	}
	if out := m.run("hotmount status -o json | grep -q '\"uuid\": \"" + uuid + "\"' && hotmount status -o yaml | grep '^daemon:'"); out != `daemon: "down"` {
		t.Errorf("json and yaml: %s", out)
	}
	t.Log(m.run("hotmount status || true; hotmount status -o wide || true"))
}
