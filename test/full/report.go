package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// report is a Markdown file with a table that has one line for each test step.
type report struct {
	path  string
	head  string
	steps []step
	rows  []string
}

const (
	notRun = "NOT RUN | | "
	rule   = "|---|---|---|---|---|\n"
)

// openReport finds the last report in which a result is still valid for one of the steps, and continues this report. If
// no report contains such a result, openReport begins a new report. openReport also copies the valid results of other
// reports.
func openReport(dir, commit, date string, steps []step) (*report, error) {
	r := &report{steps: steps, path: filepath.Join(dir, fmt.Sprintf("%s-%.12s.md", date, commit))}
	r.head = fmt.Sprintf("# All tests, begun on %s\n\nBegun at commit %s, %s, %d processors. A result is valid as long as the digest of the test's sources is the same.\n\n| test | result | took | ended (UTC) | digest of the sources |\n"+rule,
		date, commit, runtime.Version(), runtime.NumCPU())
	former, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	for range steps {
		r.rows = append(r.rows, notRun)
	}
	for _, path := range former {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, rows, _ := strings.Cut(string(text), rule)
		for line := range strings.Lines(rows) {
			name, result, _ := strings.Cut(strings.Trim(line, "| \n"), " | ")
			i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
			if i >= 0 && strings.HasSuffix(result, " | "+steps[i].sources) {
				r.path, r.head, r.rows[i] = path, head+rule, strings.TrimSuffix(result, " | "+steps[i].sources)
			}
		}
	}
	return r, nil
}

func (r *report) passed(i int) bool { return strings.HasPrefix(r.rows[i], "passed") }

// The method `missing` returns the number of steps that have not passed.
func (r *report) missing() int {
	n := 0
	for i := range r.rows {
		if !r.passed(i) {
			n++
		}
	}
	return n
}

// The method `set` records the result of step i, and writes the report file at once. A stopped run must not lose the
// results of the steps that have ended.
func (r *report) set(i int, result string) error {
	r.rows[i] = result
	var b strings.Builder
	b.WriteString(r.head)
	for i, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.steps[i].name, row, r.steps[i].sources)
	}
	fmt.Fprintf(&b, "\n%d of %d passed.\n", len(r.rows)-r.missing(), len(r.rows))
	return os.WriteFile(r.path, []byte(b.String()), 0o644)
}
