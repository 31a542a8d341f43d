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

// TestReader checks that an earlier mount table does not change the mounts that Reader returns for the next table. In
// the next mount table, known lines may occur once, several times or not at all. After an unreadable mount table,
// Reader must return the mounts of the next mount table.
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
	if known.last != nil {
		t.Errorf("lines are left after the error: %v", known.last)
	}
	if got, err := known.parse(strings.NewReader(debian)); err != nil || len(got) != len(lines) {
		t.Errorf("after that: %v, error %v", got, err)
	}
}

// TestLongTable checks that Reader reads a long mount table to its end.
func TestLongTable(t *testing.T) {
	const last = "99 1 0:9 / /srv/last rw - tmpfs none rw\n"
	root := files(t, map[string]string{"proc/1/mountinfo": strings.Repeat(debian, 1<<20/len(debian)) + last})
	tree, err := new(Reader).Tree(root)
	if err != nil || tree[len(tree)-1].Path != "/srv/last" {
		t.Errorf("%d mounts, error %v", len(tree), err)
	}
}

// TestReaderKeepsLines checks that Reader does not parse a known line again, and does not keep a line that is gone.
func TestReaderKeepsLines(t *testing.T) {
	var known oneTable
	lines := slices.Collect(strings.Lines(debian))
	if _, err := known.parse(strings.NewReader(debian)); err != nil {
		t.Fatal(err)
	}
	for i := range known.last {
		known.last[i].Type = "kept"
	}
	other := strings.ReplaceAll(lines[0], "shared:", "shared:1")
	got, err := known.parse(strings.NewReader(other + lines[1] + other + lines[3]))
	if err != nil {
		t.Fatal(err)
	}
	for i, kept := range []bool{false, true, false, true} {
		if (got[i].Type == "kept") != kept {
			t.Errorf("line %d: kept: got %v, want %v", i, got[i].Type == "kept", kept)
		}
	}
	if got, err = known.parse(strings.NewReader(debian)); err != nil || got[0].Type == "kept" || got[1].Type != "kept" || got[2].Type == "kept" {
		t.Errorf("then: %v, error %v", got, err)
	}
}

// TestTreeIsReadOnce checks that Reader reads a mount table again only if the kernel reports a change. The kernel
// reports no changes of a plain file. The functions Tree and Propagates must leave no file open.
func TestTreeIsReadOnce(t *testing.T) {
	same := func(r *Reader, root string) bool {
		if _, err := r.Tree(root); err != nil {
			t.Fatal(err)
		}
		first, err := r.Tree(root)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.Tree(root)
		if err != nil {
			t.Fatal(err)
		}
		return &first[0] == &again[0]
	}
	// Other processes may mount something during the test.
	once := false
	for range 100 {
		once = once || same(new(Reader), "")
	}
	if !once {
		t.Error("the kernel's table was always read twice")
	}
	root := files(t, map[string]string{"proc/1/mountinfo": debian})
	if same(new(Reader), root) {
		t.Error("a file was not read again")
	}
	// ForceReread and Propagates must each cause one new read of the mount table, and no further reads.
	for name, read := range map[string]func(r *Reader) error{
		"doubted":    func(r *Reader) error { r.ForceReread(); _, err := r.Tree(""); return err },
		"Propagates": func(r *Reader) error { return r.Propagates("", "/") },
	} {
		anew := false
		for range 100 {
			var r Reader
			if !same(&r, "") {
				continue
			}
			before := r.Last()
			if err := read(&r); err != nil {
				t.Fatal(name, err)
			}
			anew = anew || &r.Last()[0] != &before[0] && same(&r, "")
		}
		if !anew {
			t.Errorf("%s: the table was not read again, or at every call since", name)
		}
	}
	var r Reader
	if _, err := r.Tree(""); err != nil || r.host.file != nil {
		t.Errorf("after one call: open is %v, error %v", r.host.file != nil, err)
	}
	if _, err := r.Tree(""); err != nil || r.host.file == nil {
		t.Errorf("after two calls: open is %v, error %v", r.host.file != nil, err)
	}
}

// BenchmarkReader reads the unchanged table of a node with two hundred pods.
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
