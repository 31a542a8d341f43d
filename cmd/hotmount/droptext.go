package main

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// dropText takes what is mapped of the program's file out of the resident set: to start
// it initialises every package, which touches nearly all of the file, and a daemon that
// waits needs little of it. Nothing is lost: these pages can not be written, stay in the
// page cache, and come back from there as they are used (madvise(2), MADV_DONTNEED).
func dropText() error {
	fail := func(err error) error { return fmt.Errorf("cannot drop pages of the program: %w", err) }
	// Of a position-independent program the linker has filled in addresses in pages that
	// are read-only afterwards (RELRO): those are not in the file.
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-buildmode", Value: "exe"}) {
		return nil
	}
	self, err := procfs.Self()
	if err != nil {
		return fail(err)
	}
	file, err := self.Executable()
	if err != nil {
		return fail(err)
	}
	maps, err := self.ProcMaps()
	if err != nil {
		return fail(err)
	}
	for _, m := range maps {
		// What can be written has changes in it that are nowhere else.
		if m.Pathname != file || m.Perms.Write {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, unix.MADV_DONTNEED); errno != 0 {
			return fail(errno)
		}
	}
	return nil
}
