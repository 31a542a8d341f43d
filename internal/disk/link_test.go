package disk

import (
	"strings"
	"testing"
)

// TestLinkName checks that each serial has a name of its own, and that no name leads out of the directory.
func TestLinkName(t *testing.T) {
	seen := map[string]string{}
	for serial, want := range map[string]string{
		"DATA-1": "virtio-DATA-1", "": "", "a/b": "virtio-a%2fb", "a%2fb": "virtio-a%252fb", "..": "virtio-..", "\x00\n": "virtio-%00%0a",
		"é": "virtio-%c3%a9", "a=b": "virtio-a=b", strings.Repeat("x", 200): "", strings.Repeat("x", 193): "virtio-" + strings.Repeat("x", 193),
	} {
		f := Facts{Serial: serial, Transport: "virtio"}
		got := f.LinkName()
		if got != want {
			t.Errorf("%q: %q, want %q", serial, got, want)
		}
		if other, twice := seen[got]; twice && got != "" {
			t.Errorf("%q and %q are both %q", serial, other, got)
		}
		seen[got] = serial
	}
	for _, transport := range []string{"scsi", VirtioSCSI} {
		if got := (&Facts{Serial: "S", Transport: transport}).LinkName(); got != "scsi-S" {
			t.Errorf("%s: %q", transport, got)
		}
	}
	if got := (&Facts{Serial: "S"}).LinkName(); got != "disk-S" {
		t.Errorf("without a transport: %q", got)
	}
}
