package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the tests run the test program as their child process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "look" {
		if Child(false, os.Args[2], os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestLookMany calls askLook with more paths than fit on a command line. The maximum size of a command line is a
// quarter of the stack limit, but at least 128 KiB (execve(2)).
func TestLookMany(t *testing.T) {
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 256 << 10, Max: stack.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_STACK, &stack); err != nil {
			t.Error(err)
		}
	})
	paths := []string{"/", "/no\nsuch"}
	for i := range 3 {
		paths = append(paths, fmt.Sprintf("/%d/", i)+strings.Repeat("x", 100<<10))
	}
	all, err := askLook(t.Context(), os.Getpid(), paths)
	if err != nil || len(all) != len(paths)+1 {
		t.Fatalf("%d answers, %v", len(all), err)
	}
	got := map[string]*Sight{}
	for _, a := range all {
		got[a.At] = a.Sight
	}
	if got["/"] == nil || got["/"].MountID == 0 || got["/no\nsuch"] == nil || !got["/no\nsuch"].Absent || got[paths[2]] == nil || got[paths[2]].Failure == "" {
		t.Errorf("got %+v, %+v, %+v", got["/"], got["/no\nsuch"], got[paths[2]])
	}
}

// TestAsk checks that ask returns the error that the child reports, not the exit status of the child.
func TestAsk(t *testing.T) {
	for asked, want := range map[string]string{"0": "open /proc/0: no such file or directory", "x": "strconv.Atoi"} {
		if all, err := ask(t.Context(), nil, "look", asked); len(all) != 0 || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %+v, %v", asked, all, err)
		}
	}
}
