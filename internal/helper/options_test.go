package helper

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// TestAskMkfs runs the real mkfs.xfs and mkfs.ext4 with the options of the classes. mkfs.xfs and mkfs.ext4 write only
// below the temporary directory, which is empty after the test.
func TestAskMkfs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	origin := func(key string) string { return "origin of " + key }
	class := func(create string, options ...string) disk.Class {
		return disk.Class{Name: "a", Mode: disk.ModeFilesystem, Create: create, MkfsOptions: options}
	}
	good := &disk.Settings{Classes: []disk.Class{class("xfs", "-i size=1024"), class("ext4"), class("ext4", "-m 0", "-J size=64"), class("none", "-i 17"), {Mode: disk.ModeBlock, Create: "ext4", MkfsOptions: []string{"-i 17"}}}}
	if err := AskMkfs(t.Context(), run.Exec{}, good, origin); err != nil {
		t.Error(err)
	}
	for want, c := range map[string]disk.Class{
		`origin of classes[0].mkfs_options: classes[0].mkfs_options: found ["-i size=17"], which mkfs.xfs refuses: `: class("xfs", "-i size=17"),
		`origin of classes[0].mkfs_options: classes[0].mkfs_options: found ["-i 17"], which mkfs.ext4 refuses: `:     class("ext4", "-i 17"),
	} {
		err := AskMkfs(t.Context(), run.Exec{}, &disk.Settings{Classes: []disk.Class{c}}, origin)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); len(left) != 0 || err != nil {
		t.Errorf("%v is left, error %v", left, err)
	}
}

// TestKernelSays checks that kernelSays returns the newest message of the kernel, which is the refusal. Older messages
// are about options that the kernel has accepted. A socket stands for the filesystem context.
func TestKernelSays(t *testing.T) {
	for want, messages := range map[string][]string{
		"invalid argument":               nil,
		"xfs: Unknown parameter 'a'":     {"e xfs: Unknown parameter 'a'\n"},
		"ext4: Bad value for 'commit'":   {"w ext4: 'nobh' is ignored\n", "i ext4: hello\n", "e ext4: Bad value for 'commit'\n"},
		`ext4: Unknown parameter '\x1b'`: {"e ext4: Unknown parameter '\x1b'\n"},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if _, err := unix.Write(pair[0], []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		if got := kernelSays(pair[1], unix.EINVAL); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := errors.Join(unix.Close(pair[0]), unix.Close(pair[1])); err != nil {
			t.Error(err)
		}
	}
}
