package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// report is a Markdown file with a table that has one line for each test step.
type report struct {
	path  string
	head  string
	steps []step
	rows  []string
}

const notRun = "NOT RUN | | "

// openReport reads the existing report for the same sources, or begins a new report if none exists.
func openReport(dir, commit, tree, date string, steps []step) (*report, error) {
	r := &report{steps: steps, path: filepath.Join(dir, fmt.Sprintf("%s-%.12s.md", date, commit))}
	r.head = fmt.Sprintf("# All tests, begun on %s\n\nCommit %s, sources %s (what make test-full digests), %s, %d processors.\n\n| test | result | took | ended (UTC) |\n|---|---|---|---|\n",
		date, commit, tree, runtime.Version(), runtime.NumCPU())
	former, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, path := range former {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, rows, ok := strings.Cut(string(text), "|---|---|---|---|\n")
		if !ok || !strings.Contains(head, "sources "+tree+" ") {
			continue
		}
		r.path, r.head = path, head+"|---|---|---|---|\n"
		for line := range strings.Lines(rows) {
			if name, result, ok := strings.Cut(strings.Trim(line, "| \n"), " | "); ok {
				known[name] = result
			}
		}
	}
	for _, s := range steps {
		row, ok := known[s.name]
		if !ok {
			row = notRun
		}
		r.rows = append(r.rows, row)
	}
	return r, nil
}

func (r *report) passed(i int) bool { return strings.HasPrefix(r.rows[i], "passed") }

// missing returns the number of steps that have not passed.
func (r *report) missing() int {
	n := 0
	for i := range r.rows {
		if !r.passed(i) {
			n++
		}
	}
	return n
}

// set records the result of step i, and writes the report file at once. A stopped run must not lose the results of
// hours.
func (r *report) set(i int, result string) error {
	r.rows[i] = result
	var b strings.Builder
	b.WriteString(r.head)
	for i, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.steps[i].name, row)
	}
	fmt.Fprintf(&b, "\n%d of %d passed.\n", len(r.rows)-r.missing(), len(r.rows))
	return os.WriteFile(r.path, []byte(b.String()), 0o644)
}
