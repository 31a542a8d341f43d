package test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// deadCheck matches a negated command if a semicolon or another line follows the command. If such a negated command
// fails, bash -e continues with the script, so the negated command checks nothing.
var deadCheck = regexp.MustCompile(`(^|[;\n]\s*)! ([^;\n|]|\|[^|;\n])*(;|\n\S)`)

// TestScripts checks that no script of the system tests contains a command that deadCheck matches. A script would
// continue after the failure of such a command, and could pass.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("system/*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	for _, name := range files {
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			expression, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			script := scriptOf(expression)
			if found := deadCheck.FindString(script); found != "" {
				t.Errorf("%s: the failure of this command does not fail the script: %s", positions.Position(n.Pos()), found)
			}
			return script == ""
		})
	}
}

// scriptOf returns the text of a string literal or of a concatenation, with VALUE for each part that is not a literal.
// For any other expression, scriptOf returns "".
func scriptOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := scriptOf(e.X), scriptOf(e.Y); left+right != "" {
			return cmp.Or(left, "VALUE") + cmp.Or(right, "VALUE")
		}
	}
	return ""
}
