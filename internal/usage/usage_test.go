package usage

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// TestMain also runs in the child that the tests start, because the child is the test program itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "usage":
			// The child answers for all other filesystems before it hangs for /dead.
			for _, p := range os.Args[2:] {
				if p != "/dead" {
					fmt.Printf("{\"At\":%q,\"Size\":%d}\n", p, len(os.Args)-2)
				}
			}
			if slices.Contains(os.Args[2:], "/dead") {
				time.Sleep(time.Hour)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// TestOf checks that a dead filesystem does not delay the answers of other filesystems. While the process of an earlier
// call still hangs on a path, the function Of must skip the path.
func TestOf(t *testing.T) {
	hung := Hung{}
	asks := func(paths []string, answers int, asked uint64) {
		t.Helper()
		// In this test, the child returns the number of its paths as the size of each filesystem. The number shows
		// whether the function Of has skipped a path.
		if got := Of(t.Context(), paths, hung); got["/a"].Size != asked || len(got) != answers {
			t.Errorf("%+v, want %d answers of a child that was asked for %d", got, answers, asked)
		}
	}
	asks([]string{"/a", "/dead", "/b"}, 2, 3)
	if len(hung) != 1 || hung["/dead"] == nil {
		t.Errorf("hung: %v", hung)
	}
	stuck := make(chan struct{})
	hung["/b"] = stuck
	asks([]string{"/a", "/b"}, 1, 1)
	close(stuck)
	asks([]string{"/a", "/b"}, 2, 2)
}

// TestAt checks that the function `measure` returns how full a filesystem is, and on which device the filesystem is.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := measure(dir)
	if dev := info.Sys().(*syscall.Stat_t).Dev; u.At != dir || u.Size == 0 || u.Size < u.Free || u.Free < u.Available || (u.Dev != disk.Dev{Major: unix.Major(dev), Minor: unix.Minor(dev)}) {
		t.Errorf("got %+v", u)
	}
	if u := measure(dir + "/no"); u.Size != 0 {
		t.Errorf("of nothing: %+v", u)
	}
}
