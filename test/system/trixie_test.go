//go:build vm && full

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestDebian13: on Debian 13 with its own kernel and systemd a blank disk is
// formatted, mounted, grown, released and taken away; in the full run also found
// again after a reboot.
func TestDebian13(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	if got := m.run(". /etc/os-release; echo $VERSION_ID; uname -r; systemctl --version | head -n 1"); !strings.HasPrefix(got, "13\n6.12.") || !strings.Contains(got, "systemd 257") {
		t.Fatalf("this is %s", got)
	}
	m.kernelReadOnly()
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "THIRTEEN"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/f; sync")
	if full {
		if err := w.Reboot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.wait("the mount after a reboot", "findmnt "+where)
	}
	m.run("systemctl restart hotmount; systemctl is-active hotmount")
	if err := w.Resize(ctx(t), id, 640<<20); err != nil {
		t.Fatal(err)
	}
	m.wait("the filesystem to grow", "[ $(df --output=size -B1M "+where+" | tail -n 1) -gt 500 ]")
	if got := m.run("cat " + where + "/f; systemctl --failed --no-legend; hotmount release " + uuid); !strings.HasPrefix(got, "kept\n") || !strings.Contains(got, "safe to detach") || strings.Contains(got, "failed") {
		t.Errorf("at its end: %s", got)
	}
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e "+where+" ]")
}

// TestTogetherOnDebian13: what one process mounts is its units' with systemd 257 and a mount(8) that uses the
// kernel's newer calls, too.
func TestTogetherOnDebian13(t *testing.T) { together(t, worker.Options{Suite: "trixie"}) }
