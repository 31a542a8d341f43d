package smallfile

import (
	"os"
	"path/filepath"
	"testing"
)

// What can not be looked at is not what is not there.
func TestStampOfWhatCanNotBeLookedAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	absent := StampOf(path)
	if absent.Young || !absent.Holds() {
		t.Errorf("of nothing: %+v", absent)
	}
	if err := os.Symlink("f", path); err != nil {
		t.Fatal(err)
	}
	loop := StampOf(path)
	if absent.Holds() || !loop.Young || loop.Holds() {
		t.Errorf("a link to itself is there now: the former stamp holds %v, the new one is %+v", absent.Holds(), loop)
	}
}
