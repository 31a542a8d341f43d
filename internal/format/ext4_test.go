package format

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/run"
	"hotmount/internal/run/runtest"
)

// TestExt4Arguments checks every command line of mkfs.ext4. No command line may contain an option that forces a format
// or discards data.
func TestExt4Arguments(t *testing.T) {
	var got []string
	for _, with := range []disk.MkfsExt4{{Time: 1}, {Time: 1, Owner: "1000:2000", Options: []string{"-m 0", "-E stride=4,stripe_width=8", "-J size=64"}}} {
		for _, e := range []ext4{{dry: true}, {}, {like: true}} {
			e.node, e.uuid, e.program = "/dev/vdb", uuid, with
			got = append(got, strings.Join(e.args(), " "))
		}
	}
	rest := "nodiscard,lazy_itable_init=1,lazy_journal_init=0,hash_seed=" + uuid
	like := strings.Replace(rest, "journal_init=0", "journal_init=1", 1)
	class, extended, node := "-m 0 -J size=64 ", ",root_owner=1000:2000,stride=4,stripe_width=8", " -U "+uuid+" /dev/vdb"
	want := []string{
		"-n -b 4096 -O metadata_csum -E " + rest + node,
		"-b 4096 -O metadata_csum -E " + rest + node,
		"-b 4096 -O metadata_csum -E " + like + node,
		"-n -b 4096 -O metadata_csum " + class + "-E " + rest + extended + node,
		"-b 4096 -O metadata_csum " + class + "-E " + rest + extended + node,
		"-b 4096 -O metadata_csum " + class + "-E " + like + extended + node,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestExt4IsAskedFirst checks that hotmount runs mkfs.xfs -N, which writes nothing, before hotmount makes an ext4
// filesystem. mkfs.xfs refuses a disk with content, and mkfs.ext4 does not. An error of mkfs.xfs or mkfs.ext4 ends the
// format. A class for ext4 cannot give options of mkfs.xfs.
func TestExt4IsAskedFirst(t *testing.T) {
	const (
		ext4Args = "-b 4096 -O metadata_csum -E nodiscard,lazy_itable_init=1,lazy_journal_init=0,hash_seed=" + uuid + " -U " + uuid + " /dev/vdb"
		ext4Make = "/usr/sbin/mkfs.ext4 " + ext4Args
	)
	for name, tc := range map[string]struct {
		xfs, dry, make runtest.Answer
		options        []string
		mode           string
		err            string
		begun, ran     bool
	}{
		"mkfs.xfs refuses":  {xfs: runtest.Complain("appears to contain", 1), err: "appears to contain"},
		"mkfs.ext4 refuses": {dry: runtest.Complain("bad option", 1), err: "bad option"},
		"a mode":            {mode: "1777", err: `"1777" is not a mode`},
		"an option":         {options: []string{"-F 1"}, err: `"-F 1" is not an option that a class may give to mkfs.ext4`},
		"an XFS's option":   {options: []string{"-i size=1024"}, err: "not an option that a class may give to mkfs.ext4"},
		"nothing made":      {make: runtest.Print("", 0), err: "cannot read back what mkfs.ext4 wrote: the disk has no ext4 superblock", begun: true, ran: true},
		"it fails":          {make: runtest.Complain("no", 1), err: "exit code 1: no", begun: true, ran: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ran := false
				// mkfs.ext4 -n must not run on the disk, because mkfs.ext4 sends a flush, which the kernel counts as a
				// write.
				ext4Dry := strings.Replace("/usr/sbin/mkfs.ext4 -n "+ext4Args, "/dev/vdb", w.image+".like", 1)
				for line, answer := range map[string]runtest.Answer{dryLine: tc.xfs, ext4Dry: tc.dry} {
					if answer == nil {
						answer = runtest.Print("", 0)
					}
					w.On(line, answer)
				}
				w.On(makeLine, func(run.Command) (run.Result, error) { t.Error("an XFS is made"); return run.Result{}, nil })
				w.On(ext4Make, func(c run.Command) (run.Result, error) {
					ran = true
					if !slices.Contains(c.Env, "E2FSPROGS_FAKE_TIME=12345") {
						t.Errorf("the environment is %q", c.Env)
					}
					return tc.make(c)
				})
				s, err := open(t.Context(), w.facts, w.deps(), w)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err := s.Prove(t.Context(), "full"); err != nil {
					t.Fatal(err)
				}
				o := w.makeOptions(false)
				o.Intent.Ext4 = &disk.MkfsExt4{Time: 12345, Options: tc.options, Mode: tc.mode}
				if err := s.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v", err)
				}
				if _, err := os.Stat(w.image + ".like"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a file is left: %v", err)
				}
				if ran != tc.ran || (w.times("begin ") == 1) != tc.begun {
					t.Errorf("mkfs.ext4 ran: %v; the story is %q", ran, w.story)
				}
			})
		})
	}
}

// TestExt4RecoveryOfTheSameOnly checks that hotmount repeats the format of a half-made ext4 filesystem only with the
// type and parameters of the first format.
func TestExt4RecoveryOfTheSameOnly(t *testing.T) {
	begun := &disk.MkfsExt4{Time: 1, Options: []string{"-m 0"}}
	for name, with := range map[string]*disk.MkfsExt4{
		"an XFS": nil, "another time": {Time: 2, Options: begun.Options}, "other options": {Time: 1}, "another owner": {Time: 1, Options: begun.Options, Owner: "1:1"},
	} {
		s := &Session{disk: disk.Facts{Standing: disk.Standing{Intent: &disk.Intent{UUID: uuid, Ext4: begun}}}, excl: os.Stdin, counted: true}
		s.proven = disk.Content{Kind: disk.HalfMade, Type: disk.Ext4, UUID: uuid, Proven: true}
		o := MakeOptions{RecoverHalfMade: true, Intent: disk.Intent{UUID: uuid, Ext4: begun}}
		if err := s.checkPermitted(o); err != nil {
			t.Errorf("the same: %v", err)
		}
		o.Intent.Ext4 = with
		if err := s.checkPermitted(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
		s.disk.Standing.IntentDoubt, o.Intent.Ext4 = true, begun
		if err := s.checkPermitted(o); err == nil {
			t.Error("a filesystem that may belong to another disk is accepted")
		}
	}
}

// TestFinishOfWhatWasWrittenTo checks that hotmount does not complete an ext4 filesystem if another process has written
// to the disk.
func TestFinishOfWhatWasWrittenTo(t *testing.T) {
	w := newWorld(t)
	w.facts.Standing.Intent = &disk.Intent{UUID: uuid, Ext4: &disk.MkfsExt4{Mode: "0750"}}
	s, err := open(t.Context(), w.facts, w.deps(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.proven = disk.Content{Kind: disk.Filesystem, Type: disk.Ext4, UUID: uuid, Proven: true}
	s.writes = w.writes
	w.writes++
	if err := s.Finish(t.Context()); !errors.Is(err, ErrWritten) || len(w.story) > 0 {
		t.Errorf("%v; the story is %q", err, w.story)
	}
}

// TestFinishKeepsTheCount checks that Writes still returns the count of the proof if Finish has nothing to write. The
// count must not include a write of another process, because such a write makes the proof invalid.
func TestFinishKeepsTheCount(t *testing.T) {
	w := newWorld(t)
	w.facts.Standing.Intent = &disk.Intent{UUID: uuid, Ext4: &disk.MkfsExt4{}}
	deps := w.deps()
	deps.Writes = func() (uint64, uint64, error) {
		w.writes++
		return w.writes - 1, 0, nil
	}
	s, err := open(t.Context(), w.facts, deps, w)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.proven = disk.Content{Kind: disk.Filesystem, Type: disk.Ext4, UUID: uuid, Proven: true}
	s.writes = w.writes
	before := w.writes
	if err := s.Finish(t.Context()); err != nil || s.Writes() != before || w.writes == before {
		t.Errorf("%d writes, want %d; error %v", s.Writes(), before, err)
	}
}
