package cli

import (
	"os"
	"testing"
)

// TestMain ends this program at once if a test started the program as the child process that measures how full
// filesystems are.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "usage" {
		os.Exit(0)
	}
	os.Exit(m.Run())
}
