package test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxFile is the maximum number of lines in a file, and maxFunction is the maximum number of lines in a function.
// maxInLoop is the maximum number of lines in a function of package agent, which contains the daemon's main loop.
const (
	maxFile     = 500
	maxFunction = 80
	maxInLoop   = 60
)

// The map `larger` contains the exceptions to maxFile, maxFunction and maxInLoop. A key is the name of a file or
// function, and the value is its own maximum number of lines. Each entry needs a comment with the reason for the
// exception.
var larger = map[string]int{}

// TestSize checks that no file and no function of the program has too many lines to be read in one go.
func TestSize(t *testing.T) {
	found := map[string]bool{}
	check := func(name string, lines, most int) {
		if may := larger[name]; may > 0 {
			found[name] = true
			most = may
		}
		if lines > most {
			t.Errorf("%s has %d lines, more than %d", name, lines, most)
		}
	}
	for _, top := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, "../")
			check(name, bytes.Count(text, []byte("\n")), maxFile)
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, text, 0)
			if err != nil {
				return err
			}
			most := maxFunction
			if strings.HasPrefix(name, "internal/agent/") {
				most = maxInLoop
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					check(name+" "+f.Name.Name, files.Position(f.End()).Line-files.Position(f.Pos()).Line+1, most)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range larger {
		if !found[name] {
			t.Errorf("%s has an exception, but does not exist", name)
		}
	}
}
