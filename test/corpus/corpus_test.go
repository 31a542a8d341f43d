package corpus

import (
	"slices"
	"testing"
)

// TestManifest: the corpus has what issue 3 asks for.
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
	for i := range damages {
		for j, o := range damages[i].of {
			if slices.ContainsFunc(damages[i].of[:j], func(other outcome) bool { return other.format == o.format }) {
				t.Errorf("%s, %s: named twice", o.format, damages[i].name)
			}
		}
	}
	t.Logf("%d formats, %d damages, %d kinds: %v", len(formats), len(damages), len(names), classes)
}
