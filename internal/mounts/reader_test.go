package mounts

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReader: what is read after other tables is what is read first, whichever lines are
// known, twice there, or gone; one that can not be read leaves nothing behind.
func TestReader(t *testing.T) {
	var known oneTable
	lines := slices.Collect(strings.Lines(debian))
	other := strings.ReplaceAll(lines[2], "shared:50", "shared:51")
	for _, text := range []string{
		"", debian, debian, lines[0] + lines[1], debian, lines[0] + lines[1] + other, other + lines[2] + other + lines[1], debian + "x\n", debian + other,
		"x\n" + other, strings.TrimSuffix(debian, "\n"), strings.Repeat(other, 20), debian, "",
	} {
		want, wantErr := ParseTree(strings.NewReader(text))
		got, err := known.parse(iotest.OneByteReader(strings.NewReader(text)))
		if (err != nil) != (wantErr != nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %v, error %v", text, got, err)
		}
	}
	failed := errors.New("failed")
	if _, err := known.parse(io.MultiReader(strings.NewReader(lines[0]), iotest.ErrReader(failed))); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if got, err := known.parse(strings.NewReader(debian)); err != nil || len(got) != len(lines) {
		t.Errorf("after that: %v, error %v", got, err)
	}
}

// TestReaderForgets: what is known is no more than twice the table.
func TestReaderForgets(t *testing.T) {
	var known oneTable
	for i := range 100 {
		text := strings.ReplaceAll(debian, "/mnt", "/"+strings.Repeat("m", i+1))
		if got, err := known.parse(strings.NewReader(text)); err != nil || len(got) != len(table) {
			t.Fatal(got, err)
		}
		if len(known.known) > 2*len(table)+2 {
			t.Fatalf("%d lines are known of a table of %d", len(known.known), len(table))
		}
	}
}

// BenchmarkReader is the table of a node with two hundred pods, which has not changed.
func BenchmarkReader(b *testing.B) {
	var text strings.Builder
	for i := range 200 {
		text.WriteString(strings.ReplaceAll(debian, "rw", fmt.Sprintf("rw,pod=%d", i)))
	}
	for name, r := range map[string]*oneTable{"known": {}, "anew": nil} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if r == nil {
					_, err = ParseTree(strings.NewReader(text.String()))
				} else {
					_, err = r.parse(strings.NewReader(text.String()))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
