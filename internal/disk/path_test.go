package disk

import "testing"

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		path, dir, rest string
		ok              bool
	}{
		{"/a", "/a", "", true},
		{"/a/b/c", "/a", "b/c", true},
		{"/ab", "/a", "", false},
		{"/a", "/a/b", "", false},
		{"/", "/", "", true},
		{"/a/b", "/", "a/b", true},
		{"a", "/", "", false},
	} {
		rest, ok := Below(tt.path, tt.dir)
		if ok != tt.ok || ok && rest != tt.rest || IsBelow(tt.path, tt.dir) != tt.ok {
			t.Errorf("%s below %s: %q, %v", tt.path, tt.dir, rest, ok)
		}
	}
}
