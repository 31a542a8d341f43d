package main

import (
	"io"
	"sync"
	"testing"

	"github.com/prometheus/procfs"

	"hotmount/internal/metrics"
)

// What a start has touched of the program's file is not resident afterwards, and the
// program goes on.
func TestDropText(t *testing.T) {
	before := residentFile(t)
	if err := dropText(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after > before/2 {
		t.Errorf("%d bytes of %d are still resident", after, before)
	}
}

// What is used once the daemon has rested stays when it rests again.
func TestTextIsDroppedOnce(t *testing.T) {
	o := observer{garbage: new(garbage), text: new(sync.Once), metrics: metrics.New("test")}
	defer o.Working()
	o.Resting()
	use := func() {
		c := root()
		c.SetArgs([]string{"help", "run"})
		c.SetOut(io.Discard)
		if err := c.Execute(); err != nil {
			t.Error(err)
		}
	}
	use()
	used := residentFile(t)
	o.Resting()
	if after := residentFile(t); after < used {
		t.Errorf("of %d bytes that were used %d are resident", used, after)
	}
}

// residentFile is how much of this process's memory is of files, in bytes.
func residentFile(t *testing.T) uint64 {
	t.Helper()
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
