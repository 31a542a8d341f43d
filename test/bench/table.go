package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// Row is one figure of one way to do it.
type Row struct {
	Figure string `json:"figure"`
	Way    string `json:"way"`
	Unit   string `json:"unit"`
	N      int    `json:"n"`
	// Median, and the spread: the least and the most.
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Claim is what must be reached: a figure that is at most a bound.
type Claim struct {
	Claim string  `json:"claim"`
	Is    float64 `json:"is"`
	Most  float64 `json:"most"`
	Unit  string  `json:"unit"` // "x" for a ratio of medians
	OK    bool    `json:"ok"`
}

// Table is the result of a run.
type Table struct {
	Made   string  `json:"made"` // when, of what, where
	Claims []Claim `json:"claims"`
	Rows   []Row   `json:"rows"`
}

func (t *Table) add(figure, way, unit string, values []float64) float64 {
	m := median(values)
	t.Rows = append(t.Rows, Row{figure, way, unit, len(values), m, slices.Min(values), slices.Max(values)})
	return m
}

func (t *Table) claim(text string, is, most float64, unit string) {
	t.Claims = append(t.Claims, Claim{text, is, most, unit, is <= most})
}

// median of at least one value.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func (t *Table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\nMUST REACH\tIS\tAT MOST\t\n", t.Made)
	for _, c := range t.Claims {
		verdict := "ok"
		if !c.OK {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s %s\t%s\n", c.Claim, number(c.Is), c.Unit, number(c.Most), c.Unit, verdict)
	}
	fmt.Fprint(w, "\nFIGURE\tWAY\tMEDIAN\tLEAST\tMOST\tUNIT\tN\n")
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Figure, r.Way, number(r.Median), number(r.Min), number(r.Max), r.Unit, r.N)
	}
	return w.Flush()
}

// number shows three digits.
func number(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
