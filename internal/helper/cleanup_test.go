package helper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
)

// TestCleanup checks that a mount point is removed only in a mount namespace that shows the host's mounts. In a mount
// namespace that does not show a mount of the host, rmdir(2) would remove the mount point of that mount. CleanupAll
// also works if the configuration has a fault.
func TestCleanup(t *testing.T) {
	const uuid = "aaaaaaaa-0000-4000-8000-000000000001"
	const ours = "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n" // the mount table that PID 1 has in package nodetest
	const another = "127 99 254:0 / / rw - ext4 /dev/vda rw\n"
	for name, tt := range map[string]struct {
		table   string
		all     bool
		removed bool
	}{
		"one": {ours, false, true}, "all": {ours, true, true},
		"one, out of sight": {another, false, false}, "all, out of sight": {another, true, false},
	} {
		h, dir := nodetest.New(t), t.TempDir()
		nodetest.Write(t, h.Root, map[string]string{"proc/self/mountinfo": tt.table})
		nodetest.Write(t, dir, map[string]string{uuid + "/": ""})
		if _, err := h.Store.Init(nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Store.SaveDirectories(&disk.Settings{Classes: []disk.Class{{Directory: dir}}}); err != nil {
			t.Fatal(err)
		}
		var err error
		if tt.all {
			err = CleanupAll(h, func() (*disk.Settings, error) { return nil, errors.New("a fault") })
		} else {
			err = RemoveMountPoint(h, dir, uuid)
		}
		if out := err != nil && strings.Contains(err.Error(), "cannot see what is mounted below "+dir); out == tt.removed || !tt.all && tt.removed && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, uuid)); os.IsNotExist(err) != tt.removed {
			t.Errorf("%s: the mount point: %v", name, err)
		}
	}
}
