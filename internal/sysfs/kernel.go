package sysfs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"hotmount/internal/disk"
)

// BootID returns the kernel's id of the present boot, a UUID (random(4)).
func (f FS) BootID() (string, error) {
	text, err := os.ReadFile(f.path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("cannot read the boot id: %w", err)
	}
	id := strings.TrimSuffix(string(text), "\n")
	if !disk.ValidUUID(id) {
		return "", fmt.Errorf("cannot read the boot id: %q is not a UUID", disk.Visible(id))
	}
	return id, nil
}

// KernelFormatOff reports whether hotmount.format= on the kernel command line (/proc/cmdline) forbids formatting. Any
// value except yes, true, on or 1 forbids formatting. A misspelt value forbids formatting, too, because administrators
// use hotmount.format= to turn formatting off.
func (f FS) KernelFormatOff() (bool, error) {
	text, err := os.ReadFile(f.path("proc/cmdline"))
	if err != nil {
		return false, fmt.Errorf("cannot read the kernel command line: %w", err)
	}
	for _, word := range strings.Fields(strings.ReplaceAll(string(text), `"`, "")) {
		value, found := strings.CutPrefix(word, "hotmount.format=")
		if found && !slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(value)) {
			return true, nil
		}
	}
	return false, nil
}
