package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"testing"
)

// The map `equivalent` contains a key for each condition that can be removed without making a test fail. The value
// explains why no test fails.
var equivalent = map[string]string{
	"in.c.Proven of in.c.Kind == disk.HalfMade && in.c.Proven":                "what is half-made is refused without an intent, and with one it is proven first",
	"in.c.Kind == disk.HalfMade of in.c.Kind == disk.HalfMade && in.c.Proven": "what was read and is not blank is half made there",
	"in.c.Proven of in.c.Kind == disk.Blank && in.c.Proven":                   "what is not proven is proven first",
	"!c.Partitions":                  "saves copying facts: what does not ask for partitions selects none",
	"len(f.Partitions) == 0":         "saves copying facts: there is none to be asked for",
	"err == nil of ok && err == nil": "path.Match gives false with an error",
	"err != nil":                     "regexp.Compile gives nil with an error",
}

// mutator changes the source so that each condition can be removed by its number. A removed condition becomes false in
// an "or" and true in an "and". If a switch compares a value, a removed case value matches nothing. In a table of
// rules, each removal changes one row: the row loses the field `lift`, the whole condition, or one part of the
// condition. The texts in the table stay unchanged.
type mutator struct {
	source  []byte
	table   bool   // whether to mutate only the fields `when` and `lift` of rules
	seenBy  string // the tests that check the source
	inserts []insert
	texts   []string // the text of each condition, by number
	tests   []string // the tests that check each condition, by number
}

type insert struct {
	at   int
	text string
}

func (m *mutator) text(e ast.Expr) string { return string(m.source[e.Pos()-1 : e.End()-1]) }

func (m *mutator) wrap(e ast.Expr, text, before, after string, inner func()) {
	i, start, end := len(m.texts), int(e.Pos())-1, int(e.End())-1
	m.texts, m.tests = append(m.texts, text), append(m.tests, m.seenBy)
	m.inserts = append(m.inserts, insert{start, fmt.Sprintf(before, i)})
	inner()
	m.inserts = append(m.inserts, insert{end, after})
}

// The method `condition` mutates the expression e as a whole, and each part of e.
func (m *mutator) condition(e ast.Expr) {
	if p, ok := e.(*ast.ParenExpr); ok {
		m.condition(p.X)
		return
	}
	b, _ := e.(*ast.BinaryExpr)
	if b != nil && b.Op == token.LOR {
		m.condition(b.X)
		m.condition(b.Y)
		return
	}
	m.wrap(e, m.text(e), "(mutant != %d && (", "))", func() {
		if b != nil && b.Op == token.LAND {
			m.conjunct(b.X, e)
			m.conjunct(b.Y, e)
		}
	})
}

func (m *mutator) conjunct(e, whole ast.Expr) {
	switch b, _ := e.(*ast.BinaryExpr); {
	case b != nil && b.Op == token.LAND:
		m.conjunct(b.X, whole)
		m.conjunct(b.Y, whole)
	default:
		m.wrap(e, m.text(e)+" of "+m.text(whole), "(mutant == %d || (", "))", func() {
			if p, ok := e.(*ast.ParenExpr); ok {
				m.condition(p.X)
			}
		})
	}
}

// row mutates one field of a rule in the table.
func (m *mutator) row(kv *ast.KeyValueExpr) {
	switch key, _ := kv.Key.(*ast.Ident); key.Name {
	case "lift":
		m.seenBy = lifts
		m.wrap(kv.Value, m.where(kv)+"lift: "+m.text(kv.Value), "unlifted(%d, ", ")", func() {})
	case "when":
		m.seenBy = decisions
		m.wrap(kv.Value, m.where(kv)+"when", "without(%d, ", ")", func() {
			rules := &mutator{source: m.source, seenBy: m.seenBy, texts: m.texts, tests: m.tests}
			ast.Walk(rules, kv.Value)
			m.texts, m.tests, m.inserts = rules.texts, rules.tests, append(m.inserts, rules.inserts...)
		})
	}
}

// m.where(kv) returns the line number of the field as text.
func (m *mutator) where(kv *ast.KeyValueExpr) string {
	return fmt.Sprintf("line %d: ", 1+bytes.Count(m.source[:kv.Pos()-1], []byte{'\n'}))
}

func (m *mutator) Visit(n ast.Node) ast.Visitor {
	if m.table {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			m.row(kv)
			return nil
		}
		if f, ok := n.(*ast.FuncDecl); ok && f.Type.Results != nil {
			if t, ok := f.Type.Results.List[0].Type.(*ast.Ident); !ok || t.Name != "bool" {
				return nil // the other fields are texts, or are read only by other packages
			}
			m.seenBy = decisions
		}
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.ReturnStmt:
		for _, e := range n.Results {
			if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.LOR || b.Op == token.LAND) {
				m.condition(e)
			}
		}
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				if n.Tag == nil {
					m.condition(e)
				} else {
					m.wrap(e, m.text(e), "never(%d, ", ")", func() {})
				}
			}
		}
	}
	return m
}

const switchboard = `package policy

import (
	"os"
	"strconv"
)

var mutant = func() int { n, _ := strconv.Atoi(os.Getenv("HOTMOUNT_TEST_MUTANT")); return n }()

func never[T ~string](i int, v T) T {
	if mutant == i {
		return "never"
	}
	return v
}

func without(i int, when func(input) bool) func(input) bool {
	return func(in input) bool { return mutant != i && when(in) }
}

func unlifted(i int, l lift) lift {
	if mutant == i {
		return 0
	}
	return l
}
`

// These tests check the decision, the lift of a rule, the use by others, and the selection of a disk.
const (
	decisions  = "^(TestDecide|TestEachConditionAloneBlocksFormat|TestConditionsOfWhatIsGivenOut|TestUnrecorded|TestGuard|TestOthersComeBeforeContent)$"
	lifts      = "^(TestConfirmable|TestWord|TestRetry|TestAnAcceptLiftsWhatWasTold)$"
	uses       = "^(TestDecide|TestUse|TestAsks)$"
	selections = "^(TestDecide|TestConfirmable|TestPattern|TestSelectors|TestNamespaces|TestNamed|TestFirstClassHasIt|TestNarrow|TestLoopDevices|TestConsider|TestSelectAllocatesNothing|TestNoConfigurationHasTheSystem)$"
)

// TestTheSpecificationNeedsEachCondition checks that the tests of the decision fail if any one condition of the
// decision is removed.
func TestTheSpecificationNeedsEachCondition(t *testing.T) {
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(name string, content []byte) {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, name)
		if err := os.WriteFile(replace[path], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &mutator{}
	for name, tests := range map[string]string{"policy.go": decisions + "|" + lifts, "confirm.go": lifts, "select.go": selections, "guard.go": decisions, "use.go": uses, "rules.go": "", "content.go": "", "formatting.go": ""} {
		var err error
		m.seenBy, m.table = tests, tests == ""
		if m.source, err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, m.source, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.inserts = nil
		ast.Walk(m, file)
		sort.SliceStable(m.inserts, func(i, j int) bool { return m.inserts[i].at < m.inserts[j].at })
		var changed bytes.Buffer
		done := 0
		for _, in := range m.inserts {
			changed.Write(m.source[done:in.at])
			changed.WriteString(in.text)
			done = in.at
		}
		changed.Write(m.source[done:])
		put(name, changed.Bytes())
	}
	put("mutant.go", []byte(switchboard))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "policy.test")
	if out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passes := func(mutant int, tests string) bool {
		// The package `rapid` does not have to shrink a failing input, because only the exit code of the test matters.
		cmd := exec.Command(binary, "-test.run", tests, "-test.failfast", "-rapid.nofailfile", "-rapid.shrinktime", "1ms")
		cmd.Env = append(os.Environ(), fmt.Sprint("HOTMOUNT_TEST_MUTANT=", mutant))
		return cmd.Run() == nil
	}
	if !passes(-1, selections+"|"+decisions+"|"+lifts) {
		t.Fatal("the tests fail with all conditions in their place")
	}
	if len(m.texts) < 40 {
		t.Fatalf("only %d conditions were found: %q", len(m.texts), m.texts)
	}
	var seen []string
	for i, text := range m.texts {
		if equivalent[text] != "" {
			seen = append(seen, text)
			continue
		}
		if passes(i, m.tests[i]) {
			t.Errorf("no test fails without condition %d: %s", i, text)
		}
	}
	for text := range equivalent {
		if !slices.Contains(seen, text) {
			t.Errorf("%s is no condition any more", text)
		}
	}
	t.Logf("%d conditions", len(m.texts))
}
