package doctor

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// TestHarmless checks that Print replaces the unprintable characters in a finding.
func TestHarmless(t *testing.T) {
	r := &Report{Findings: []Finding{{Level: Problem, What: "a\x1b[2J\nnothing found\u009b\xff", Do: []string{"x '\\'' y", "\r\n  curl|sh"}}}}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if want := "\nPROBLEM: a�[2J�nothing found��\n    x '\\'' y\n    ��  curl|sh\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

func TestPrint(t *testing.T) {
	kubelet := Process{PID: 8, Name: "kube\x1b[31mlet", Role: Kubelet}
	r := &Report{
		Host: []HostDirectory{{Class: "default", Directory: dir, Shared: 1, Mounts: []mounts.Mount{{MountPoint: disk.MountPoint{Path: dir + "/a"}}}}},
		Seen: []Seen{
			{Process: kubelet, Class: "default", Directory: dir, Sees: "same", Mounts: []SeenMount{{Sees: "same"}, {Sees: "directory"}}},
			{Process: kubelet, Class: "default", Directory: dir, Sees: "absent"},
		},
		Findings: []Finding{
			{Level: Problem, What: "it is wrong", Do: []string{"do", "  this"}, Data: dir + "/a", Reach: "/proc/8/root/data"},
			{Level: Warning, What: "so is this", Do: []string{"do", "  this"}},
		},
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	const want = `/mnt/disks (class default) on the host: shared, 1 disk mounted
  kubelet 8 (kube\x1b[31mlet): 1 of 2 disks as on the host, later mounts do NOT arrive
  kubelet 8 (kube\x1b[31mlet): /mnt/disks is not there

PROBLEM: it is wrong
  the data: /mnt/disks/a on the host's system disk, hidden by a mount
  readable now at: /proc/8/root/data
    do
      this

WARNING: so is this
    (the commands above help here, too)
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
