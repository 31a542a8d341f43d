package format

import (
	"os"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// TestTokenOnABlankDisk checks that a token is valid on a blank disk only if the disk was a block volume before.
func TestTokenOnABlankDisk(t *testing.T) {
	f := disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}, Size: 1 << 30}
	o := MakeOptions{Intent: disk.Intent{Identity: f.Identity("boot"), UUID: uuid}, Token: "0a"}
	for _, tt := range []struct {
		given  *disk.Given
		proven disk.Content
		want   string
	}{
		{nil, disk.Content{Kind: disk.Blank, Proven: true}, "the token does not allow hotmount to overwrite this content"},
		{&disk.Given{}, disk.Content{Kind: disk.Blank, Proven: true}, ""},
		{&disk.Given{}, disk.Content{Kind: disk.Blank}, "the token does not allow hotmount to overwrite this content"},
		{nil, disk.Content{Kind: disk.Other, Proven: true}, ""},
	} {
		f.Standing.Given = tt.given
		s := &Session{disk: f, excl: os.Stdin, counted: true, proven: tt.proven}
		if err := s.checkPermitted(o); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("given out %v, %+v: %v", tt.given != nil, tt.proven, err)
		}
	}
}
