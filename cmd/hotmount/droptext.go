package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dropText takes what is mapped of the program's file out of the resident set: to start
// it initialises every package, which touches nearly all of the file, and a daemon that
// waits needs little of it. Nothing is lost: these pages can not be written, stay in the
// page cache, and come back from there as they are used (proc_pid_maps(5); madvise(2),
// MADV_DONTNEED).
func dropText() error {
	fail := func(err error) error { return fmt.Errorf("cannot drop pages of the program: %w", err) }
	// Of a position-independent program the linker has filled in addresses in pages that
	// are read-only afterwards (RELRO): those are not in the file.
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-buildmode", Value: "exe"}) {
		return nil
	}
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fail(err)
	}
	table, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fail(err)
	}
	for line := range strings.Lines(string(table)) {
		var start, end uintptr
		var perms, offset, device, name string
		var inode uint64
		if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %d %s\n", &start, &end, &perms, &offset, &device, &inode, &name); err != nil {
			continue // of no file
		}
		// What can be written has changes in it that are nowhere else.
		if name != file || strings.Contains(perms, "w") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
			return fail(errno)
		}
	}
	return nil
}
