package corpus

import (
	"slices"
	"testing"
)

// TestManifest checks that the corpus contains all kinds of images that issue 3 requires.
func TestManifest(t *testing.T) {
	names, classes := map[string]bool{}, map[Class]int{}
	for _, k := range Kinds() {
		if names[k.Name] {
			t.Errorf("two kinds are called %q", k.Name)
		}
		names[k.Name] = true
		classes[k.Class]++
	}
	if len(names) < 60 {
		t.Errorf("%d kinds, want 60 or more", len(names))
	}
	for _, c := range []Class{Filesystem, Swap, Raid, Table, Volumes, Crypto, Cache, File, Bytes, Large} {
		if classes[c] < 3 {
			t.Errorf("%d kinds of the class %s", classes[c], c)
		}
	}
	for _, want := range []string{
		"VeraCrypt, plain dm-crypt: random everywhere", "VeraCrypt, formatted quickly: random at both ends", "a raw database of pages", "a database in the middle",
		"data from 1 MiB on", "data in the middle", "data at the end",
		"xfs, first MiB zero", "ext4, first MiB zero", "xfs, one bit of the superblock flipped",
		"xfs, only backups left", "ext4, only backups left", "GPT, only backups left",
	} {
		if !names[want] {
			t.Errorf("there is no %q", want)
		}
	}
	for i := range damages {
		if len(damages[i].of) < 3 {
			t.Errorf("%s damages only %d formats", damages[i].name, len(damages[i].of))
		}
		for j, o := range damages[i].of {
			if slices.ContainsFunc(damages[i].of[:j], func(other outcome) bool { return other.format == o.format }) {
				t.Errorf("%s, %s: named twice", o.format, damages[i].name)
			}
		}
	}
	t.Logf("%d formats, %d damages, %d kinds: %v", len(formats), len(damages), len(names), classes)
}
