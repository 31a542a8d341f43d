//go:build root

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/store"
	"hotmount/internal/unit"
)

func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// fillUp fills a filesystem. fillUp also makes directories, because directories use the blocks that ext4 reserves for
// the metadata of files.
const fillUp = "mkdir fill; for i in 1 2; do cat /dev/zero >>fill/f 2>/dev/null || [ $? = 1 ]; sync; done; while mkdir fill/$i 2>/dev/null; do i=$((i+1)); done"

// TestFullRoot checks a filesystem that is full even for root. On such a filesystem, hotmount must still make mount
// points and write records. For this purpose, hotmount uses the space of its reserve. Formatting must stay off until
// the check of the state directory succeeds.
func TestFullRoot(t *testing.T) {
	for name, tt := range map[string]struct{ mkfs, fill string }{
		"ext4":                 {"mkfs.ext4 -q -F", fillUp},
		"xfs":                  {"mkfs.xfs -q -f", fillUp},
		"ext4 out of inodes":   {"mkfs.ext4 -q -F -N 512", "mkdir fill; for i in $(seq 1000); do { true >fill/$i; } 2>/dev/null || break; done; [ $i -lt 1000 ]"},
		"ext4, nearly no room": {"mkfs.ext4 -q -F", fillUp + "; truncate -s -8k fill/f"},
	} {
		t.Run(name, func(t *testing.T) {
			image, root := filepath.Join(t.TempDir(), "image"), t.TempDir()
			sh(t, "truncate -s 320M "+image+"; "+tt.mkfs+" "+image+"; mount -o loop "+image+" "+root)
			class, s := filepath.Join(root, "disks"), store.Store{State: filepath.Join(root, "lib"), Runtime: t.TempDir()}
			t.Cleanup(func() { sh(t, "chattr -R -i "+class+"; umount "+root) })
			if _, err := s.Init(nil); err != nil {
				t.Fatal(err)
			}
			s.Recover()
			// With the next record the history becomes so large that its newest half is written to a new file.
			history, line := filepath.Join(s.State, "history.jsonl"), `{"version":1,"begin":{"evidence":["`+strings.Repeat("x", 2000)+`"]}}`+"\n"
			if err := os.WriteFile(history, []byte(strings.Repeat(line, 3<<20/len(line))+strings.Repeat("{\"version\":1}\n", 3<<20%len(line)/14)), 0o600); err != nil {
				t.Fatal(err)
			}
			sh(t, "mkdir "+class+"; cd "+root+"; "+tt.fill+"; sync")
			uuid := func(i int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i) }
			for i := 0; ; i++ { // mount points that fit without the reserve
				if err := unit.MakeMountPoint(class, uuid(i)); errors.Is(err, unix.ENOSPC) {
					break
				} else if err != nil || i > 20 {
					t.Fatalf("without the reserve %d mount points are made (%v)", i, err)
				}
			}
			if names, err := filepath.Glob(class + "/.*"); err != nil || len(names) > 0 {
				t.Errorf("left behind: %v, %v", names, err)
			}
			// The check of the state directory does not use the reserve.
			if err := s.Check(); !errors.Is(err, unix.ENOSPC) || s.Load("b", nil).Lost.Error() != disk.StateFull {
				t.Errorf("while it is full: %v, %v", err, s.Load("b", nil).Lost)
			}
			if err := s.EndFormat(uuid(0), errors.New("mkfs: no")); err != nil {
				t.Errorf("the history: %v", err)
			}
			if info, err := os.Stat(history); err != nil || info.Size() > 2<<20 {
				t.Errorf("the history is not shorter: %v, %v", info, err)
			}
			var points int
			for ; points < 24; points++ {
				err := s.WithReserve(func() error { return unit.MakeMountPoint(class, uuid(100+points)) })
				if err == nil {
					err = s.Remember([]disk.Sighting{{UUID: uuid(100 + points), Type: disk.XFS, Identity: disk.Identity{Seq: uint64(points)}}})
				}
				if err != nil {
					t.Fatalf("after %d mount points: %v", points, err)
				}
			}
			for i := range points {
				if err := s.WithReserve(func() error { return unit.RemoveMountPoint(class, uuid(100+i)) }); err != nil {
					t.Errorf("removed %d: %v", i, err)
				}
			}
			if seen, err := s.Sightings(); err != nil || len(seen) != points {
				t.Errorf("%d filesystems are recorded: %v", len(seen), err)
			}
			sh(t, "rm -r "+root+"/fill; sync")
			s.Recover()
			if lost := s.Load("b", nil).Lost; lost != nil {
				t.Errorf("with room again: %v", lost)
			}
			if files, err := os.ReadDir(filepath.Join(s.State, "reserve")); err != nil || len(files) != 64 {
				t.Errorf("%d files of the reserve: %v", len(files), err)
			}
		})
	}
}
