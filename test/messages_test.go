package test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "TestMessages writes testdata/messages.txt")

// TestMessages checks that testdata/messages.txt contains all messages that hotmount shows to people. A reviewer can
// then read all messages in one file. TestWords reads testdata/messages.txt, too.
func TestMessages(t *testing.T) {
	const golden = "testdata/messages.txt"
	got := allMessages(t)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the program says: go test ./test -run TestMessages -update, then read the difference", golden)
	}
	if n := strings.Count(got, "\n"); n < 700 {
		t.Errorf("only %d lines of messages were found", n)
	}
}

// allMessages returns the messages of all source files as one text, with the name of each file before its messages.
func allMessages(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("# All messages of two words or more that a person reads. Those of the rules are templates, with examples under\n" +
		"# internal/policy/testdata/messages.txt.\n\n")
	add := func(name string, messages []string) {
		if len(messages) > 0 {
			out.WriteString("# " + name + "\n" + strings.Join(messages, "\n") + "\n\n")
		}
	}
	for _, top := range []string{"../cmd", "../internal"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
				return err
			}
			messages, err := literals(path)
			add(strings.TrimPrefix(path, "../"), messages)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"internal/doctor/advice.txt", "internal/policy/testdata/messages.txt", "packaging/catalog/hotmount.catalog"} {
		add(name, read(t, name, regexp.MustCompile(`(?m)^.*\S.*$`)))
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		name := "packaging/debian/" + script
		add(name, read(t, name, regexp.MustCompile(`(?m)(?:echo|printf|list) "[^"]+"`)))
	}
	for _, name := range []string{"packaging/debian/control", "packaging/debian/NEWS"} {
		paragraphs := read(t, name, regexp.MustCompile(`(?m)^Description: .*|^  ?[^ .-].*(?:\n  ?[^ .-].*)*`))
		for i := range paragraphs {
			paragraphs[i] = strings.Join(strings.Fields(paragraphs[i]), " ")
		}
		add(name, paragraphs)
	}
	units, err := filepath.Glob("../systemd/*.[st][ei]*[er]")
	if err != nil || len(units) < 10 {
		t.Fatalf("%d units: %v", len(units), err)
	}
	for _, unit := range units {
		name := strings.TrimPrefix(unit, "../")
		add(name, read(t, name, regexp.MustCompile(`(?m)^Description=.*`)))
	}
	return out.String()
}

func read(t *testing.T, name string, what *regexp.Regexp) []string {
	t.Helper()
	b, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return what.FindAllString(string(b), -1)
}

// The function `literals` returns the string literals of three or more words in a Go file. String literals joined by +
// count as one literal.
func literals(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	var all []string
	var look func(ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field: // a struct tag is not a message
			return false
		case *ast.BinaryExpr, *ast.BasicLit:
			text, rest := textOf(n)
			for paragraph := range strings.SplitSeq(text, "\n\n") {
				if paragraph = strings.Join(strings.Fields(paragraph), " "); twoWords.MatchString(paragraph) {
					all = append(all, paragraph)
				}
			}
			for _, n := range rest {
				ast.Inspect(n, look)
			}
			return false
		}
		return true
	}
	ast.Inspect(file, look)
	return slices.Compact(all), err
}

var twoWords = regexp.MustCompile(`[A-Za-z]{2,}.*\s.*[A-Za-z]{2,}`)

// textOf returns the text of string literals that are joined by +, with "…" for each operand that is not a literal.
// textOf also returns the expressions in which the caller must look for more literals.
func textOf(n ast.Node) (text string, rest []ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			text, _ = strconv.Unquote(n.Value)
		}
		return text, nil
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return "", []ast.Node{n.X, n.Y}
		}
		left, restLeft := textOf(n.X)
		right, restRight := textOf(n.Y)
		return left + right, append(restLeft, restRight...)
	}
	return "…", []ast.Node{n}
}
