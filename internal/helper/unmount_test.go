package helper

import (
	"testing"

	"hotmount/internal/disk"
)

// TestParseGone checks that ParseGone finds the mount point and the device number in the instance name of the unit.
func TestParseGone(t *testing.T) {
	const uuid = "aaaaaaaa-0000-4000-8000-000000000001"
	where, dev, err := ParseGone("/mnt/a:b/" + uuid + ":254:16")
	if want := (disk.Dev{Major: 254, Minor: 16}); err != nil || where != "/mnt/a:b/"+uuid || dev != want {
		t.Errorf("%s, %s, %v", where, dev, err)
	}
	for _, bad := range []string{"", "/mnt/disks/" + uuid, "/mnt/disks/" + uuid + ":254", "/mnt/disks/x:254:16", "/mnt/disks/" + uuid + ":254:x", "/:254:16"} {
		if _, _, err := ParseGone(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
