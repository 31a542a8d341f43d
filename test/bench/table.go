package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Result is everything that a run has measured.
type Result struct {
	Made  string // describes the package, the machine and the time
	Turns []Turn
	Notes []string
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Table is the output of a run.
type Table struct {
	Made   string   `json:"made"`
	Bounds []Bound  `json:"bounds"`
	Rows   []Row    `json:"rows"`
	Notes  []string `json:"notes"`
}

// Row contains the values of one measure for one method.
type Row struct {
	Group  string   `json:"group"`
	Figure string   `json:"figure"`
	Way    string   `json:"way"`
	Unit   string   `json:"unit"`
	Median Interval `json:"median"`
	Least  float64  `json:"least"`
	Most   float64  `json:"most"`
	// Quiet is the number of turns on an idle machine. If Quiet is 0, the row is computed from all turns.
	Quiet int `json:"quiet"`
	Turns int `json:"turns"`
}

// Bound is a measured number with its upper bound.
type Bound struct {
	Figure string `json:"figure"`
	Interval
	Unit string  `json:"unit"` // empty for a ratio
	Most float64 `json:"most"`
	Goal float64 `json:"goal,omitempty"`
	Met  bool    `json:"met"`
}

// The method `values` calls f for each turn of the given mount method in the given figure, and returns the results. If
// any of these turns ran on an idle machine, the results come only from the turns on an idle machine. Otherwise, the
// results come from all turns. values() ignores turns with a fault, and turns for which f returns false.
func (r *Result) values(figure, way string, f func(Turn) (float64, bool)) (values []float64, quiet, turns int) {
	var all []float64
	for _, t := range r.Turns {
		if t.Figure != figure || t.Way != way || t.Fault != "" {
			continue
		}
		v, ok := f(t)
		if !ok {
			continue
		}
		all = append(all, v)
		if t.isQuiet() {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return all, 0, len(all)
	}
	return values, len(values), len(all)
}

// table returns the table of the turns so far.
func (r *Result) table() Table {
	t := Table{Made: r.Made, Notes: slices.Clone(r.Notes)}
	for _, m := range measures {
		for _, way := range r.methodsOf(m.figure) {
			// The table omits measures that a method does not have, such as the CPU time of a frozen daemon.
			if values, quiet, turns := r.values(m.figure, way, m.of); len(values) > 0 && slices.Max(values) > 0 {
				t.Rows = append(t.Rows, Row{m.group, m.title, way, m.unit, estimate(medianOf, values), slices.Min(values), slices.Max(values), quiet, turns})
			}
		}
	}
	for _, b := range bounds {
		var samples [][]float64
		for _, s := range b.samples {
			values, _, _ := r.values(s.figure, s.way, s.of)
			if len(values) == 0 {
				break
			}
			samples = append(samples, values)
		}
		if len(samples) == len(b.samples) {
			value := estimate(b.make, samples...)
			met := value.Is <= b.most && !slices.ContainsFunc(b.samples, func(s sampled) bool { return s.way == hotmount && r.failed(s.figure, s.way) })
			t.Bounds = append(t.Bounds, Bound{b.title, value, b.unit, b.most, b.goal, met})
		}
	}
	faults := map[string]int{}
	for _, turn := range r.Turns {
		if turn.Fault != "" {
			faults[turn.Fault]++
		}
	}
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		t.Notes = append(t.Notes, fmt.Sprintf("turns that do not count: %d, because %s", faults[fault], fault))
	}
	return t
}

// The method `failed` reports whether any measurement (Turn) of the mount method for the figure has a fault.
func (r *Result) failed(figure, way string) bool {
	return slices.ContainsFunc(r.Turns, func(t Turn) bool { return t.Figure == figure && t.Way == way && t.Fault != "" })
}

// methodsOf returns the methods that have at least one turn in the figure, in the order of figureWays. Names that
// figureWays lacks, such as "hotmount, started", come first.
func (r *Result) methodsOf(figure string) []string {
	var all []string
	for _, t := range r.Turns {
		if t.Figure == figure && !slices.Contains(all, t.Way) {
			all = append(all, t.Way)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return slices.Index(figureWays, a) - slices.Index(figureWays, b) })
	return all
}

var figureWays = []string{hotmount, hotmountBase, neighbour, rule, tuned, shellLoop, systemdMount, mountCall, hotPlug, parts}

func (t Table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\n", t.Made)
	fmt.Fprintf(w, "BOUND\tIS\t95 %%\tAT MOST\tGOAL\t\n")
	for _, b := range t.Bounds {
		verdict, goal := "met", ""
		if !b.Met {
			verdict = "MISSED"
		}
		if b.Goal > 0 {
			goal = number(b.Goal)
			if b.Is <= b.Goal {
				verdict += ", goal met"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", b.Figure, unit(number(b.Is), b.Unit), b.span(), unit(number(b.Most), b.Unit), goal, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, group := range t.groups() {
		if err := t.writeGroup(out, group); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\nMedians of the quiet turns, or of all if none was quiet (\"0 of\"). In brackets and under 95 %%: the interval of the percentile bootstrap (%d samples, fixed seed).\n%s", resamples, lines(t.Notes))
	return err
}

func (t Table) groups() []string {
	var all []string
	for _, r := range t.Rows {
		if !slices.Contains(all, r.Group) {
			all = append(all, r.Group)
		}
	}
	return all
}

// writeGroup writes the rows of a group as one table, with a line for each method and a column for each measure.
func (t Table) writeGroup(out io.Writer, group string) error {
	var ways, figures []string
	cells, quiet := map[[2]string]string{}, map[string]string{}
	for _, r := range t.Rows {
		if r.Group != group {
			continue
		}
		if !slices.Contains(ways, r.Way) {
			ways = append(ways, r.Way)
		}
		title := unit(r.Figure, r.Unit)
		if !slices.Contains(figures, title) {
			figures = append(figures, title)
		}
		cells[[2]string{r.Way, title}] = fmt.Sprintf("%s (%s)", number(r.Median.Is), r.Median.span())
		quiet[r.Way] = fmt.Sprintf("%d of %d", r.Quiet, r.Turns)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\tQUIET TURNS\t%s\n", strings.ToUpper(group), strings.Join(figures, "\t"))
	for _, way := range ways {
		fmt.Fprintf(w, "%s\t%s", way, quiet[way])
		for _, f := range figures {
			fmt.Fprintf(w, "\t%s", cells[[2]string{way, f}])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}

func (i Interval) span() string { return number(i.Low) + " to " + number(i.High) }

func unit(n, unit string) string { return strings.TrimSpace(n + " " + unit) }

// The function `number` formats x as a whole number if x is at least 100, or else with three significant digits.
func number(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
