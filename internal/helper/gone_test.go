package helper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
)

// The type `asked` records the commands that a real PID 1 would get.
type asked []string

func (a *asked) unmount(_ context.Context, path string, dev disk.Dev) error {
	*a = append(*a, "unmount "+path+" "+dev.String())
	return nil
}

// TestGone checks that Gone unmounts the leftover mounts of a detached disk if no daemon unmounts them. If a daemon
// starts, Gone leaves the mounts to the daemon until the daemon ends.
func TestGone(t *testing.T) {
	const uuid = "aaaaaaaa-0000-4000-8000-000000000001"
	const where = "/mnt/disks/" + uuid
	const root = "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"
	id := disk.ID{Name: "vde", Seq: 7, Dev: disk.Dev{Major: 254, Minor: 64}}
	for name, tt := range map[string]struct {
		// Each element of the field `daemon` reports whether a daemon answers one query. If the last element is true, the
		// daemon has unmounted the disk.
		daemon []bool
		idle   bool
		// held reports whether a process still has its own mount of the filesystem.
		held  bool
		want  asked
		after time.Duration
	}{
		"no daemon":               {[]bool{false, false}, false, false, asked{"unmount " + where + " 254:64"}, 2 * time.Second},
		"a daemon":                {[]bool{true, true, true}, false, false, nil, 6 * time.Second},
		"one that starts":         {[]bool{false, true, true}, false, false, nil, 6 * time.Second},
		"one that ends":           {[]bool{true, true, false}, false, false, asked{"unmount " + where + " 254:64"}, 6 * time.Second},
		"unmounted by PID 1":      {[]bool{false}, true, true, asked{"unmount " + where + " 254:64"}, 0},
		"unmounted, and unheld":   {[]bool{false}, true, false, nil, 0},
		"unmounted, and a daemon": {[]bool{true}, true, true, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := nodetest.New(t)
			if _, err := h.Store.Init(nil); err != nil {
				t.Fatal(err)
			}
			if err := h.Store.SaveDirectories(&disk.Settings{Classes: []disk.Class{{Directory: "/mnt/disks"}}}); err != nil {
				t.Fatal(err)
			}
			if err := h.Store.Remember([]disk.Sighting{{Identity: disk.Identity{Boot: nodetest.BootID, Seq: 7}, UUID: uuid, Type: disk.XFS, Directory: "/mnt/disks"}}); err != nil {
				t.Fatal(err)
			}
			table := func(text string) { nodetest.Write(t, h.Root, map[string]string{"proc/1/mountinfo": text}) }
			if !tt.idle {
				// The mount table also contains the mount of another detached disk. Gone must not unmount this disk.
				table(root + "40 27 254:64 / " + where + " rw - xfs /dev/vde rw\n41 27 254:80 / /mnt/disks/bbbbbbbb-0000-4000-8000-000000000002 rw - xfs /dev/vdf rw\n")
			}
			if tt.held {
				nodetest.Write(t, h.Root, map[string]string{"sys/fs/xfs/vde/": ""})
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var got asked
				begin, n := time.Now(), 0
				err := handleGone(ctx, h, got.unmount, id, func() bool {
					n++
					if n > len(tt.daemon) {
						t.Fatal("it goes on and on")
					}
					if tt.daemon[n-1] && n == len(tt.daemon) {
						table(root)
					}
					return tt.daemon[n-1]
				})
				if diff := cmp.Diff(tt.want, got); err != nil || diff != "" || n != len(tt.daemon) || time.Since(begin) != tt.after {
					t.Errorf("after %s, asked for the daemon %d times: %v (-want +got):\n%s", time.Since(begin), n, err, diff)
				}
			})
		})
	}
}

func TestParseID(t *testing.T) {
	for s, want := range map[string]disk.ID{
		"vdb:7::254:16":        {Name: "vdb", Seq: 7, Dev: disk.Dev{Major: 254, Minor: 16}},
		"nvme0n1p2:12:2:259:3": {Name: "nvme0n1p2", Seq: disk.PartitionSeq(12, 2), Dev: disk.Dev{Major: 259, Minor: 3}},
	} {
		if got, err := ParseID(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "vdb", "vdb:7:", "vdb:7::254", ":7::254:16", "a/b:7::254:16", "vdb:::254:16", "vdb:x::254:16", "vdb:7:x:254:16", "vdb:7::254:16:1"} {
		if got, err := ParseID(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}
