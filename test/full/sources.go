package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// systemTests is the package whose tests are independent of each other. After a change of one of these tests, only the
// steps of that test must run again, apart from the `make` steps.
const systemTests = "test/system"

// The type `sources` contains the sources that decide whether a result is still valid. Documents, and comments in Go
// files, are left out.
type sources struct {
	// The field `shared` contains all sources except the tests of package systemTests.
	shared []byte
	// The field `tests` maps the name of each test of package systemTests to the test's function.
	tests map[string][]byte
}

// readSources reads the committed files below the given paths. The paths are relative to the working directory.
func readSources(ctx context.Context, paths []string) (*sources, error) {
	list, err := output(ctx, append([]string{"git", "ls-files", "-z", "--stage", "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	s := &sources{tests: map[string][]byte{}}
	for entry := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		// The entry contains mode, object and stage before the tab. The mode shows whether a script can be executed.
		stage, name, _ := strings.Cut(entry, "\t")
		mode, _, _ := strings.Cut(stage, " ")
		if documents.MatchString(name) {
			continue
		}
		text, err := readSource(name)
		if err != nil {
			return nil, err
		}
		if filepath.Dir(name) == systemTests && strings.HasSuffix(name, "_test.go") {
			if text, err = s.cutTests(name, text); err != nil {
				return nil, err
			}
		}
		if filepath.Ext(name) == ".go" {
			text = comment.ReplaceAll(text, nil)
		}
		s.shared = append(append(append(s.shared, "== "+mode+" "+name+"\n"...), text...), '\n')
	}
	return s, nil
}

// The pattern `documents` matches the names of the files that cannot change the result of a test.
var documents = regexp.MustCompile(`^(test/reports|packaging/man|packaging/doc)/|(^|/)README\.md$`)

// The pattern `comment` matches lines that contain only a comment. Directives such as //go:build are not comments.
var comment = regexp.MustCompile(`(?m)^[ \t]*//([ \t].*)?\n`)

// readSource returns the content of a file, or the target of a symbolic link.
func readSource(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		text, readErr := os.ReadFile(name)
		return text, readErr
	}
	target, err := os.Readlink(name)
	return []byte(target), err
}

// cutTests moves the tests from text into s.tests, and returns the rest. The imports are removed, because each test
// would otherwise depend on what the other tests import.
func (s *sources) cutTests(name string, text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, 0)
	if err != nil {
		return nil, err
	}
	rest := slices.Clone(text)
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	for _, d := range slices.Backward(file.Decls) {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			s.tests[f.Name.Name] = comment.ReplaceAll(text[offset(f.Pos()):offset(f.End())], nil)
			rest = slices.Delete(rest, offset(f.Pos()), offset(f.End()))
		}
	}
	imports := file.Name.End()
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			imports = g.End()
		}
	}
	rest = slices.Delete(rest, offset(file.Name.End()), offset(imports))
	return rest, nil
}

// digest returns a digest of the sources on which the step depends. A `make` step depends on all sources. A test of
// package systemTests does not depend on the other tests of the package.
func (s *sources) digest(of step) string {
	h := sha256.New()
	h.Write(s.shared)
	names := []string{of.test}
	if of.command[0] == "make" {
		names = nil
		for name := range s.tests {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	for _, name := range names {
		h.Write(s.tests[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
