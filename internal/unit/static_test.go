package unit

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
)

func TestStatic(t *testing.T) {
	u := MountUnit{
		ID: disk.ID{Name: "vdb", Seq: 9}, Path: "/mnt/100%/0b0f1c6e-0000-4000-8000-000000000001", Type: "xfs",
		Options: []string{"noatime"}, Description: "xfs of 5 % more", Timeout: time.Minute,
	}
	got, err := u.Static()
	if err != nil {
		t.Fatal(err)
	}
	want := `[Unit]
Description=xfs of 5 %% more
Before=` + Kubelets + `

[Mount]
What=/dev/disk/by-uuid/0b0f1c6e-0000-4000-8000-000000000001
Where=/mnt/100%%/0b0f1c6e-0000-4000-8000-000000000001
Type=xfs
Options=noatime,nofail
TimeoutSec=60

[Install]
WantedBy=multi-user.target
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []func(*MountUnit){
		func(u *MountUnit) { u.Path = "/mnt/disks/../x" },
		func(u *MountUnit) { u.Description = "a\nExecStart=b" },
		func(u *MountUnit) { u.Options = []string{"a,b"} },
		func(u *MountUnit) { u.Type = "vfat" },
	} {
		u := u
		if bad(&u); u.check() == nil {
			t.Errorf("%+v was accepted", u)
		} else if text, err := u.Static(); err == nil {
			t.Errorf("%+v is written as\n%s", u, text)
		}
	}
}

// TestBefore checks that each service that must run before pods is ordered before every kubelet service.
func TestBefore(t *testing.T) {
	for service, before := range map[string]string{"hotmount": Kubelets, "hotmount-block@": Kubelets, "hotmount-tidy": "hotmount.service " + Kubelets} {
		text, err := os.ReadFile("../../systemd/" + service + ".service")
		if err != nil || !strings.Contains(string(text), "\nBefore="+before+"\n") {
			t.Errorf("%s.service has another Before= (%v)", service, err)
		}
	}
}

// TestAfter checks the order of the services that make directories and mounts below /mnt/disks. The services must start
// after the mounts on /mnt and /mnt/disks, because a later mount would cover the volumes.
func TestAfter(t *testing.T) {
	for _, service := range []string{"hotmount", "hotmount-tidy"} {
		text, err := os.ReadFile("../../systemd/" + service + ".service")
		if err != nil {
			t.Fatal(err)
		}
		var after []string
		for line := range strings.Lines(string(text)) {
			if names, ok := strings.CutPrefix(line, "After="); ok {
				after = append(after, strings.Fields(names)...)
			}
		}
		for _, name := range []string{"local-fs.target", "mnt.mount", "mnt-disks.mount"} {
			if !slices.Contains(after, name) {
				t.Errorf("%s.service is not ordered after %s", service, name)
			}
		}
	}
}
