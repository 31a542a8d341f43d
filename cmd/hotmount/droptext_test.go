package main

import (
	"testing"

	"github.com/prometheus/procfs"
)

// What a start has touched of the program's file is not resident afterwards, and the
// program goes on.
func TestDropText(t *testing.T) {
	resident := func() uint64 {
		self, err := procfs.Self()
		if err != nil {
			t.Fatal(err)
		}
		s, err := self.NewStatus()
		if err != nil {
			t.Fatal(err)
		}
		return s.RssFile
	}
	before := resident()
	if err := dropText(); err != nil {
		t.Fatal(err)
	}
	if after := resident(); after > before/2 {
		t.Errorf("%d bytes of %d are still resident", after, before)
	}
}
