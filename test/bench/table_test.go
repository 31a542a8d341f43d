package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var table Table
	if m := table.add("one disk", "rule", "ms", []float64{9, 1, 2}); m != 2 {
		t.Errorf("the median of three is %v", m)
	}
	if m := table.add("one disk", "floor", "ms", []float64{1, 2, 400, 4}); m != 3 {
		t.Errorf("the median of four is %v", m)
	}
	table.claim("under", 0.4, 0.45, "x")
	table.claim("over", 0.5, 0.45, "x")
	table.ratio("in turns", []float64{1, 3, 2}, []float64{4, 4, 10}, 0.45)
	var text strings.Builder
	if err := table.write(&text); err != nil {
		t.Fatal(err)
	}
	want := `

MUST REACH  IS     ROUNDS       AT MOST  
under       0.4 x               0.45 x   ok
over        0.5 x               0.45 x   MISSED
in turns    0.5 x  0.2 to 0.75  0.45 x   MISSED

FIGURE    WAY    MEDIAN  LEAST  MOST  UNIT  N
one disk  rule   2       1      9     ms    3
one disk  floor  3       1      400   ms    4
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
