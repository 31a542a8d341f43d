//go:build root

package unit

import (
	"os"
	"path/filepath"
	"testing"

	"hotmount/internal/disk"
)

// ownDev gives the test's thread its own /dev with the files that the tests need. ownDev returns a class directory.
func ownDev(t *testing.T) (class string) {
	t.Helper()
	class = filepath.Join(t.TempDir(), "block")
	if err := os.Mkdir(class, 0o755); err != nil {
		t.Fatal(err)
	}
	ownNamespace(t)
	mount(t, "/dev")
	if err := os.MkdirAll("/dev/disk/by-diskseq", 0o755); err != nil {
		t.Fatal(err)
	}
	return class
}

func put(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}

func targetOf(path string) string {
	target, _ := os.Readlink(path)
	return target
}

// TestLinks checks that MakeLink makes a link that leads to its disk through disk.LinkDirectory. A second call of
// MakeLink must succeed. RemoveLink must remove the link, but not the link of another attachment.
func TestLinks(t *testing.T) {
	class := ownDev(t)
	link, via := filepath.Join(class, "virtio-A"), disk.LinkDirectory+"/virtio-A"
	id := disk.ID{Name: "vdb", Seq: 12}
	for range 2 {
		if err := MakeLink(link, id); err != nil {
			t.Fatal(err)
		}
		if targetOf(link) != via || targetOf(via) != "/dev/disk/by-diskseq/12" {
			t.Errorf("%s -> %s -> %s", link, targetOf(link), targetOf(via))
		}
	}
	if err := RemoveLink(link, disk.ID{Seq: 13}); err != nil || targetOf(via) == "" {
		t.Errorf("the link of another attachment was removed: %v", err)
	}
	for range 2 {
		if err := RemoveLink(link, id); err != nil || targetOf(link) != "" || targetOf(via) != "" {
			t.Errorf("the link is still there: %s, %s, %v", targetOf(link), targetOf(via), err)
		}
	}
}

// TestLinkAfterReboot checks that MakeLink replaces a link that remains after a reboot or a crash. RemoveLink must also
// remove an old link whose target in disk.LinkDirectory is missing.
func TestLinkAfterReboot(t *testing.T) {
	class := ownDev(t)
	link, via := filepath.Join(class, "virtio-A"), disk.LinkDirectory+"/virtio-A"
	put(t, via, link)
	id := disk.ID{Seq: 12}
	if err := RemoveLink(link, id); err != nil || targetOf(link) != "" {
		t.Errorf("a dead link stays: %v", err)
	}
	put(t, via, link)
	if err := os.Mkdir(disk.LinkDirectory, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, "/dev/disk/by-diskseq/7", via)
	if err := MakeLink(link, id); err != nil || targetOf(via) != "/dev/disk/by-diskseq/12" {
		t.Errorf("the link leads to %s, %v", targetOf(via), err)
	}
}

// TestDeadLinks checks that RemoveDeadLink removes a link only if hotmount made the link and the link leads nowhere.
func TestDeadLinks(t *testing.T) {
	class := ownDev(t)
	if err := MakeLink(filepath.Join(class, "virtio-A"), disk.ID{Seq: 12}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/dev/disk/by-diskseq/12", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, disk.LinkDirectory+"/virtio-B", filepath.Join(class, "virtio-B"))
	put(t, "/dev/nowhere", filepath.Join(class, "other"))
	if err := os.WriteFile(filepath.Join(class, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"virtio-A": true, "virtio-B": false, "other": true, "file": true} {
		if err := RemoveDeadLink(class, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if exists(t, filepath.Join(class, name)) != stays {
			t.Errorf("%s: stays %v", name, !stays)
		}
	}
}

// TestLinkOverSomething checks that hotmount never replaces an entry that it did not make.
func TestLinkOverSomething(t *testing.T) {
	class := ownDev(t)
	link := filepath.Join(class, "virtio-A")
	put(t, "/etc", link)
	if err := MakeLink(link, disk.ID{Seq: 12}); err == nil || targetOf(link) != "/etc" {
		t.Errorf("made over a link to %s: %v", targetOf(link), err)
	}
	if err := RemoveLink(link, disk.ID{Seq: 12}); err != nil || targetOf(link) != "/etc" {
		t.Errorf("removed: %v", err)
	}
	for _, bad := range []string{"virtio-A", "/virtio-A", class + "/../block/virtio-A"} {
		if err := MakeLink(bad, disk.ID{Seq: 12}); err == nil {
			t.Errorf("%s was accepted as the path of a link", bad)
		}
	}
}
