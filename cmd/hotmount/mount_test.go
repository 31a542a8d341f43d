package main

import (
	"errors"
	"os"
	"strings"
	"testing"

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

// A directory that the daemon's sandbox has read-only is told from other trouble.
func TestBarred(t *testing.T) {
	for errno, want := range map[error]bool{unix.EROFS: true, unix.EACCES: false, unix.ENOENT: false} {
		err := barred(&os.PathError{Op: "mkdirat", Path: "/srv/a", Err: errno})
		if got := strings.Contains(err.Error(), "hotmount config apply-sandbox"); got != want || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
