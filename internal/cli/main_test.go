package cli

import (
	"os"
	"testing"
)

// A child that asks filesystems how full they are is this program once more.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "usage" {
		os.Exit(0)
	}
	os.Exit(m.Run())
}
