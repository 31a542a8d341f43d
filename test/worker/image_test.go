package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRecipeName(t *testing.T) {
	r := imageRecipe("bookworm")
	if r.name() != imageRecipe("bookworm").name() {
		t.Error("the same recipe has two names")
	}
	seen := map[string]bool{r.name(): true}
	for what, change := range map[string]func(*recipe){
		"suite":     func(r *recipe) { r.Suite = "trixie" },
		"arch":      func(r *recipe) { r.Arch += "-else" },
		"packages":  func(r *recipe) { r.Packages = append([]string{"hello"}, r.Packages...) },
		"unwanted":  func(r *recipe) { r.Unwanted = r.Unwanted[1:] },
		"essential": func(r *recipe) { r.Essential += "\n" },
		"customize": func(r *recipe) { r.Customize += "\n" },
		"version":   func(r *recipe) { r.Version++ },
		"size":      func(r *recipe) { r.RootSize++ },
		"start":     func(r *recipe) { r.RootStart++ },
	} {
		changed := r
		change(&changed)
		if seen[changed.name()] {
			t.Errorf("another %s does not make another name", what)
		}
		seen[changed.name()] = true
	}
}

func TestMasterBootRecord(t *testing.T) {
	mbr := masterBootRecord(1<<20, 3<<30)
	if len(mbr) != 512 || mbr[510] != 0x55 || mbr[511] != 0xaa || mbr[446+4] != 0x83 {
		t.Errorf("not a partition table: %x", mbr[446:])
	}
	if got := mbr[446+8 : 446+16]; string(got) != "\x00\x08\x00\x00\x00\x00\x60\x00" {
		t.Errorf("the partition is at %x", got)
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv("HOTMOUNT_TEST_CACHE", "/somewhere")
	if dir, err := CacheDir(); err != nil || dir != "/somewhere" {
		t.Errorf("got %s, %v", dir, err)
	}
	t.Setenv("HOTMOUNT_TEST_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "")
	home := t.TempDir()
	t.Setenv("HOME", home)
	if dir, err := CacheDir(); err != nil || dir != filepath.Join(home, ".cache/hotmount") {
		t.Errorf("got %s, %v", dir, err)
	}
	for _, odd := range []string{"", "/dev/null", "relative"} {
		t.Setenv("HOME", odd)
		if dir, err := CacheDir(); err != nil || !strings.HasPrefix(dir, "/var/cache/hotmount-test-") {
			t.Errorf("with HOME=%q got %s, %v", odd, dir, err)
		}
	}
}

func TestCacheBuildsOnce(t *testing.T) {
	c := testCache(t)
	var built atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			e, err := c.get(t.Context(), "x", func(dir string) error {
				built.Add(1)
				return writeID(dir)
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer e.release()
			if _, err := e.id(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if built.Load() != 1 {
		t.Errorf("was built %d times", built.Load())
	}
}

func TestCacheForgetsAFailedBuild(t *testing.T) {
	c := testCache(t)
	why := errors.New("why")
	write(t, filepath.Join(c.dir, "x.tmp/left"), "by a killed build")
	_, err := c.get(t.Context(), "x", func(dir string) error {
		if exists(filepath.Join(dir, "left")) {
			t.Error("the build finds the files of a killed build")
		}
		write(t, filepath.Join(dir, "half"), "")
		return why
	})
	if !errors.Is(err, why) || exists(filepath.Join(c.dir, "x.tmp")) || exists(filepath.Join(c.dir, "x")) {
		t.Errorf("got %v", err)
	}
}

func TestCachePrunesWhatIsNotInUse(t *testing.T) {
	c := testCache(t)
	var entries []*entry
	for i, name := range []string{"s-old", "s-used", "s-new", "other"} {
		e, err := c.get(t.Context(), name, writeID)
		if err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(e.dir, when, when); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	for _, i := range []int{0, 2, 3} {
		entries[i].release()
	}
	c.removeOld("s-", 1)
	for name, want := range map[string]bool{"s-old": false, "s-used": true, "s-new": true, "other": true} {
		if got := exists(filepath.Join(c.dir, name)); got != want {
			t.Errorf("after pruning, %s is there: %v", name, got)
		}
	}
	entries[1].release()
}

func TestLockEndsWithTheContext(t *testing.T) {
	c := testCache(t)
	lock, err := c.lock(t.Context(), "x", lockExclusive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.lock(ctx, "x", lockExclusive); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestShellQuote(t *testing.T) {
	const odd = `it's "odd" $HOME` + "\n`"
	if out, err := command(t.Context(), nil, "sh", "-c", "printf %s "+shellQuote(odd)); err != nil || out != odd {
		t.Errorf("got %q, %v", out, err)
	}
}

func testCache(t *testing.T) *cache {
	t.Helper()
	t.Setenv("HOTMOUNT_TEST_CACHE", t.TempDir())
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
