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
	// Spread has the least and the most of the ratios of single rounds, where the ways took turns.
	Spread []float64 `json:"spread,omitempty"`
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
	t.Claims = append(t.Claims, Claim{Claim: text, Is: is, Most: most, Unit: unit, OK: is <= most})
}

// ratio claims that of the medians, of ways that took turns: the values of one round are at the same place.
func (t *Table) ratio(text string, ours, theirs []float64, most float64) {
	t.claim(text, median(ours)/median(theirs), most, "x")
	rounds := make([]float64, min(len(ours), len(theirs)))
	for i := range rounds {
		rounds[i] = ours[i] / theirs[i]
	}
	t.Claims[len(t.Claims)-1].Spread = []float64{slices.Min(rounds), slices.Max(rounds)}
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
	fmt.Fprintf(w, "%s\n\nMUST REACH\tIS\tROUNDS\tAT MOST\t\n", t.Made)
	for _, c := range t.Claims {
		verdict := "ok"
		if !c.OK {
			verdict = "MISSED"
		}
		spread := ""
		if len(c.Spread) == 2 {
			spread = number(c.Spread[0]) + " to " + number(c.Spread[1])
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s %s\t%s\n", c.Claim, number(c.Is), c.Unit, spread, number(c.Most), c.Unit, verdict)
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
