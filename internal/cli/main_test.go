package cli

import (
	"os"
	"testing"
)

// TestMain lets the tests run this program again as the child process that asks filesystems how full they are.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "usage" {
		os.Exit(0)
	}
	os.Exit(m.Run())
}
