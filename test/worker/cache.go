package worker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// CacheDir returns the directory for images and saved states. The directory is $HOTMOUNT_TEST_CACHE, or by default the
// directory hotmount in the user's cache directory. If the user has no cache directory, CacheDir returns a directory in
// /var/cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("HOTMOUNT_TEST_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("cannot resolve HOTMOUNT_TEST_CACHE: %w", err)
		}
		return abs, nil
	}
	if dir, err := os.UserCacheDir(); err == nil && filepath.IsAbs(dir) {
		own := filepath.Join(dir, "hotmount")
		if err := os.MkdirAll(own, 0o755); err == nil {
			return own, nil
		}
	}
	// HOME is unset or not writable, as in a build under a service manager or in a container.
	return filepath.Join("/var/cache", fmt.Sprintf("hotmount-test-%d", os.Getuid())), nil
}

// The type `cache` is the directory of images and saved states. Each cache entry is built once, and appears only when the
// build is complete.
type cache struct{ dir string }

// entry is a finished cache entry, on which this process holds a shared lock.
type entry struct {
	dir  string
	lock *os.File
}

func openCache() (*cache, error) {
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the cache directory: %w", err)
	}
	// A qcow2 overlay names its base image by path, so the path must stay valid when a symbolic link changes.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve the cache directory: %w", err)
	}
	return &cache{dir: real}, nil
}

// The method `get` returns the named cache entry with a shared lock. The lock lasts until the caller releases the entry.
// The method `get` builds a missing cache entry in a temporary directory, and renames the directory when the build is
// complete.
func (c *cache) get(ctx context.Context, name string, build func(dir string) error) (*entry, error) {
	dir := filepath.Join(c.dir, name)
	for {
		lock, err := c.lock(ctx, name, syscall.LOCK_SH)
		if err != nil {
			return nil, err
		}
		if exists(dir) {
			now := time.Now()
			_ = os.Chtimes(dir, now, now) // removeOld finds the newest entries by their modification time
			return &entry{dir: dir, lock: lock}, nil
		}
		_ = lock.Close()
		if err := c.build(ctx, name, build); err != nil {
			return nil, err
		}
	}
}

func (c *cache) build(ctx context.Context, name string, build func(dir string) error) error {
	dir := filepath.Join(c.dir, name)
	lock, err := c.lock(ctx, name, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	if exists(dir) { // another process was faster
		return nil
	}
	// The lock protects the temporary directory, so a temporary directory that exists now is from a killed build.
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("cannot remove a killed build: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("cannot make %s: %w", tmp, err)
	}
	if err := build(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := syncTree(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, dir); err != nil {
		return errors.Join(fmt.Errorf("cannot finish %s: %w", name, err), os.RemoveAll(tmp))
	}
	return nil
}

// The method `drop` removes an unusable cache entry. If another process uses the cache entry, drop returns errLocked.
func (c *cache) drop(name string) error {
	lock, err := c.tryLock(name, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	return os.RemoveAll(filepath.Join(c.dir, name))
}

// removeOld removes the oldest cache entries whose names begin with prefix, until only the given number (keep) remains.
// Cache entries in use remain, too.
func (c *cache) removeOld(prefix string, keep int) {
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	type aged struct {
		name string
		used time.Time
	}
	var all []aged
	for _, f := range found {
		if !f.IsDir() || !strings.HasPrefix(f.Name(), prefix) || strings.HasSuffix(f.Name(), ".tmp") {
			continue
		}
		if info, err := f.Info(); err == nil {
			all = append(all, aged{f.Name(), info.ModTime()})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].used.After(all[j].used) })
	for i, a := range all {
		if i >= keep {
			_ = c.drop(a.name)
		}
	}
}

func (e *entry) path(name string) string { return filepath.Join(e.dir, name) }

func (e *entry) release() {
	if e != nil && e.lock != nil {
		_ = e.lock.Close()
		e.lock = nil
	}
}

// id returns the random identifier of the build that made the cache entry. A cache entry that is deleted and built
// again has a new identifier, even if its key is the same.
func (e *entry) id() (string, error) {
	b, err := os.ReadFile(e.path("id"))
	if err != nil {
		return "", fmt.Errorf("cannot read a cache entry's id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func writeID(dir string) error {
	return os.WriteFile(filepath.Join(dir, "id"), []byte(randomHex(16)+"\n"), 0o644)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

var errLocked = errors.New("locked by another process")

// The method `lock` opens and locks the named file. If another process holds the lock, the method waits until the lock
// is free or ctx ends. The lock ends when the returned file is closed or the process ends.
func (c *cache) lock(ctx context.Context, name string, how int) (*os.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := c.tryLock(name, how)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot lock %s: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

func (c *cache) tryLock(name string, how int) (*os.File, error) {
	return flock(filepath.Join(c.dir, name+".lock"), how)
}

func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open a lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EWOULDBLOCK {
		_ = f.Close()
		return nil, errLocked
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return f, nil
}

// syncTree makes the files of a build durable. Without syncTree, a crash of this machine could leave incomplete files
// in a finished entry.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("cannot sync: %w", err)
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			return fmt.Errorf("cannot sync: %w", err)
		}
		return nil
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// key returns a hash of the value v as a short name for a cache entry.
func key(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("worker: a cache key that is no JSON: " + err.Error()) // a programming error
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot hash: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("cannot hash %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
