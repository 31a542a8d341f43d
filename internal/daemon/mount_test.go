package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
	"hotmount/internal/nodetest"
	"hotmount/internal/unit"
)

// TestArrivals checks a goroutine that waits for a device at a path. The goroutine must wake once the mount table shows
// this mount. A mount of another device or at another path does not wake the goroutine.
func TestArrivals(t *testing.T) {
	var a arrivals
	vdb, vdc := disk.Dev{Major: 254, Minor: 16}, disk.Dev{Major: 254, Minor: 32}
	here, forget := a.expect("/mnt/disks/a", vdb)
	defer forget()
	given, giveUp := a.expect("/mnt/disks/b", vdc)
	giveUp()
	heard := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	at := func(path string, dev disk.Dev) mounts.Mount {
		return mounts.Mount{MountPoint: disk.MountPoint{Path: path, Dev: dev}}
	}
	a.compareTable([]mounts.Mount{at("/mnt/disks/a", vdc), at("/mnt/disks/b", vdb)})
	if heard(here) {
		t.Error("another device is there")
	}
	table := []mounts.Mount{at("/mnt/disks/a", vdb), at("/mnt/disks/b", vdc)}
	a.compareTable(table)
	a.compareTable(table)
	if !heard(here) || heard(given) {
		t.Errorf("who waits %v, who has given up %v", heard(here), heard(given))
	}
}

// TestAwait checks that the wait ends as soon as the mount exists. While the mount does not exist, await asks PID 1 at
// growing intervals whether the mount has failed.
func TestAwait(t *testing.T) {
	broken, stop := errors.New("wrong fs type"), errors.New("SIGTERM")
	for name, test := range map[string]struct {
		arrives, ends, stops time.Duration
		err                  error
		asked                []time.Duration
	}{
		"arrives":        {arrives: 5 * time.Second, asked: []time.Duration{1, 3}},
		"has ended well": {ends: 50 * time.Second, asked: []time.Duration{1, 3, 7, 15, 31, 47, 63}},
		"has failed":     {ends: 2 * time.Second, err: broken, asked: []time.Duration{1, 3}},
		"cannot ask":     {err: broken, asked: []time.Duration{1}},
		"is stopped":     {stops: 2 * time.Second, err: stop, asked: []time.Duration{1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				arrived := make(chan struct{})
				if test.arrives > 0 {
					time.AfterFunc(test.arrives, func() { close(arrived) })
				}
				if test.stops > 0 {
					time.AfterFunc(test.stops, func() { cancel(stop) })
				}
				start := time.Now()
				var asked []time.Duration
				err := await(ctx, "/mnt/disks/a", arrived, func(_ context.Context, path string, sure bool) (bool, error) {
					since := time.Since(start)
					asked = append(asked, since/time.Second)
					if sure != (since >= 15*time.Second) {
						t.Errorf("after %s PID 1 is asked: %v", since, sure)
					}
					if path != "/mnt/disks/a" || len(asked) > len(test.asked) {
						t.Fatalf("asked for %s after %d seconds", path, asked)
					}
					switch {
					case name == "cannot ask":
						return false, test.err
					case test.ends > 0 && since >= test.ends:
						return true, test.err
					}
					return false, nil
				})
				if !errors.Is(err, test.err) || !slices.Equal(asked, test.asked) {
					t.Errorf("%v, asked after %d seconds", err, asked)
				}
				if took := time.Since(start); took != max(test.arrives, test.stops, asked[len(asked)-1]*time.Second) {
					t.Errorf("went on after %s", took)
				}
			})
		})
	}
}

// TestUntilUnmounted checks that the daemon repeats its request to PID 1 if PID 1 has not yet seen the mount. The
// number of requests is limited.
func TestUntilUnmounted(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		seen, stops time.Duration
		stop, table error
		tries       int
		err         error
	}{
		"seen":          {tries: 1},
		"seen later":    {seen: 1500 * time.Millisecond, tries: 3},
		"stays":         {seen: time.Hour, tries: seenTries},
		"is busy":       {stop: broken, tries: 1, err: broken},
		"no table":      {table: broken, tries: 1, err: broken},
		"the end comes": {seen: time.Hour, stops: 1500 * time.Millisecond, tries: 2, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stops > 0 {
					time.AfterFunc(tt.stops, cancel)
				}
				start, tries, there := time.Now(), 0, true
				err := untilUnmounted(ctx, func() error {
					tries++
					there = time.Since(start) < tt.seen
					return tt.stop
				}, func() (bool, error) { return there, tt.table })
				if tries != tt.tries || !errors.Is(err, tt.err) {
					t.Errorf("asked %d times, error %v", tries, err)
				}
			})
		})
	}
}

// TestRemedied checks that an error about a missing or read-only directory, or about a full filesystem, names a remedy.
func TestRemedied(t *testing.T) {
	const readOnly = ": the disk is untouched; hotmount mounts the disk when it can write to the directory; for the cause and the remedy: hotmount doctor"
	const full = ": the disk is untouched, and hotmount mounts it when there is room for a directory; to see what is full: df -h /srv; df -i /srv"
	const missing = ": the disk is untouched, and is mounted once its class directory exists; to make the directory: mkdir -p /srv"
	for errno, want := range map[error]string{unix.EROFS: readOnly, unix.ENOSPC: full, unix.EACCES: "", unix.ENOENT: missing} {
		err := withRemedy(&os.PathError{Op: "mkdirat", Path: "/srv/a", Err: errno}, "/srv")
		if err.Error() != "mkdirat /srv/a: "+errno.Error()+want || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestMountOutOfSight checks that hotmount makes no mount point in a directory if the daemon cannot see the host's
// mounts there. The path may already be a mount point on the host.
func TestMountOutOfSight(t *testing.T) {
	h, dir := nodetest.New(t), t.TempDir()
	nodetest.Write(t, h.Root, map[string]string{"proc/self/mountinfo": "127 99 254:0 / / rw - ext4 /dev/vda rw\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no request reaches PID 1
	u := units{Manager: new(unit.Manager), host: h}
	_, err := u.requestMount(ctx, &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 1016}}, &disk.Class{Directory: dir}, "aaaaaaaa-0000-4000-8000-000000000001", disk.XFS)
	if err == nil || !strings.Contains(err.Error(), "cannot see what is mounted below "+dir) {
		t.Error(err)
	}
	if of := (*disk.NodeError)(nil); !errors.As(err, &of) {
		t.Error("it is not the disk's fault")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("made %v, %v", left, err)
	}
}
