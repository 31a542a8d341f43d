package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"hotmount/internal/disk"
)

// TestEachReasonHasItsRow checks that each reason has a rule. If several rules have the same reason, exactly one of
// these rules must have the texts and the other fields about the reason. Each hold must have one of the five kinds of
// holds.
func TestEachReasonHasItsRow(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../disk/reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[disk.Reason]int{}
	for _, e := range Reasons() {
		rows[e.Reason]++
		if e.Token && e.Reason == disk.ReasonNoCreate {
			t.Errorf("a token for a class that makes no filesystems: %+v", e)
		}
		kinds := []Hold{HoldPresent, HoldData, HoldIdentity, HoldUser, HoldOperator}
		if slices.Contains(kinds, e.Hold) != (e.Action == disk.Hold) {
			t.Errorf("%s (%s) is of kind %q", e.Reason, e.Action, e.Hold)
		}
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			found++
			if reason, err := strconv.Unquote(l.Value); err != nil || rows[disk.Reason(reason)] != 1 {
				t.Errorf("%d rows have the words of %s", rows[disk.Reason(reason)], l.Value)
			}
		}
		return true
	})
	if found != len(rows) {
		t.Errorf("%d reasons are there, %d have a row", found, len(rows))
	}
	for i := range rules {
		if r := &rules[i]; r.means == "" && (r.why != nil || r.remedy != nil || r.kind != "" || r.recorded != nil || r.peers != nil || r.priority != 0 || r.givesUp || rows[r.reason] == 0) {
			t.Errorf("row %d, %s, has what belongs to the row with the words", i, r.reason)
		}
	}
}
