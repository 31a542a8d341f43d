package main

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
)

// Who waits for a mount hears of it once the table has that device there, and of
// no other.
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
	a.shown([]disk.MountPoint{{Path: "/mnt/disks/a", Dev: vdc}, {Path: "/mnt/disks/b", Dev: vdb}})
	if heard(here) {
		t.Error("another device is there")
	}
	table := []disk.MountPoint{{Path: "/mnt/disks/a", Dev: vdb}, {Path: "/mnt/disks/b", Dev: vdc}}
	a.shown(table)
	a.shown(table)
	if !heard(here) || heard(given) {
		t.Errorf("who waits %v, who has given up %v", heard(here), heard(given))
	}
}

// Who waits for a mount goes on as soon as it is there, and asks PID 1 more and more
// seldom whether it has given up.
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
		"can not ask":    {err: broken, asked: []time.Duration{1}},
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
				err := await(ctx, "/mnt/disks/a", arrived, func(_ context.Context, path string) (bool, error) {
					since := time.Since(start)
					asked = append(asked, since/time.Second)
					if path != "/mnt/disks/a" || len(asked) > len(test.asked) {
						t.Fatalf("asked for %s after %d seconds", path, asked)
					}
					switch {
					case name == "can not ask":
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

// A directory that the daemon's sandbox has read-only is told from other trouble.
func TestBarred(t *testing.T) {
	for errno, want := range map[error]bool{unix.EROFS: true, unix.EACCES: false, unix.ENOENT: false} {
		err := barred(&os.PathError{Op: "mkdirat", Path: "/srv/a", Err: errno})
		if got := strings.Contains(err.Error(), "hotmount config apply-sandbox"); got != want || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
