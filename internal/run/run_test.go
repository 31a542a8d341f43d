package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain also runs in the child that TestSelf starts.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "child-") {
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Println(`{"at":"/first"}`)
	switch os.Args[1] {
	case "child-errs":
		fmt.Println("x")
		fallthrough
	case "child-hangs":
		time.Sleep(time.Hour) // until the parent kills this process
	case "child-fails":
		os.Exit(1)
	case "child-babbles":
		fmt.Println(strings.Repeat("x", 2<<20))
	}
	os.Exit(0)
}

func sh(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Timeout: 30 * time.Second}
}

func TestExit(t *testing.T) {
	got, err := Exec{}.Run(t.Context(), sh("echo out; echo err >&2; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Result{Stdout: []byte("out\n"), Stderr: []byte("err\n"), ExitCode: 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSurroundings(t *testing.T) {
	t.Setenv("HOTMOUNT_SECRET", "1")
	// Without CloseRange, a child would inherit a descriptor that unix.Open has opened. A child never inherits a
	// descriptor that package os has opened.
	fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got, err := Exec{}.Run(t.Context(), sh("/usr/bin/env | sort; /bin/pwd; readlink /proc/self/fd/0; readlink /proc/$$/fd/* | grep zero"))
	if err != nil {
		t.Fatal(err)
	}
	// The shell (dash) itself sets PWD.
	want := "LC_ALL=C.UTF-8\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/\n/\n/dev/null\n"
	if diff := cmp.Diff(want, string(got.Stdout)); diff != "" {
		t.Error(diff)
	}
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		c    Command
		want string
		is   error
	}{
		"relative":  {Command{Path: "sh", Timeout: time.Second}, "cannot run sh: the path is not absolute", nil},
		"no limit":  {Command{Path: "/bin/sh"}, "cannot run /bin/sh: no time limit", nil},
		"missing":   {Command{Path: "/nowhere/x", Timeout: time.Second}, "/nowhere/x", os.ErrNotExist},
		"signal":    {sh("kill -9 $$"), "signal: killed", nil},
		"stdout":    {sh("exec cat /dev/zero"), "more than 1048576 bytes", ErrOutput},
		"stderr":    {sh("head -c 1048577 /dev/zero >&2"), "more than 1048576 bytes", ErrOutput},
		"left over": {sh("sleep 1000 & exit 0"), "the command left a process behind", nil},
		"timeout":   {Command{Path: "/bin/sleep", Args: []string{"1000"}, Timeout: 50 * time.Millisecond}, "did not end in time (50ms)", ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Exec{}.Run(t.Context(), tc.c)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v is not %v", err, tc.is)
			}
		})
	}
}

func TestOutputUpToTheLimit(t *testing.T) {
	got, err := Exec{}.Run(t.Context(), sh("head -c 1048576 /dev/zero"))
	if err != nil || len(got.Stdout) != Limit {
		t.Errorf("%d bytes, error %v", len(got.Stdout), err)
	}
}

// TestCancelKillsTheGroup checks that the end of the context ends the whole process group, including the processes that
// the child has started.
func TestCancelKillsTheGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(pidFile, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := Exec{}.Run(ctx, sh("sleep 1000 & echo $! >"+pidFile+"; wait"))
		done <- err
	}()
	text, err := os.ReadFile(pidFile) // opening the FIFO waits until the child opens it for writing
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	mustEnd(t, pid)
}

// TestChildDiesWithUs checks that a child ends when the process that called Run ends or is killed.
func TestChildDiesWithUs(t *testing.T) {
	if fifo := os.Getenv("RUN_TEST_FIFO"); fifo != "" {
		_, err := Exec{}.Run(t.Context(), sh("echo $$ >"+fifo+"; exec sleep 1000"))
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	us := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithUs$")
	us.Env = []string{"RUN_TEST_FIFO=" + fifo}
	if err := us.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !runs(pid) {
		t.Error("the child does not run")
	}
	if err := us.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := us.Wait(); err == nil {
		t.Error("it was not killed")
	}
	mustEnd(t, pid)
}

func mustEnd(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runs(pid); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// The function `runs` reports whether the process is running. A killed process does not run, even if its parent has not
// reaped the process yet (proc_pid_stat(5)).
func runs(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
