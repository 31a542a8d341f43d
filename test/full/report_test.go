package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport checks that a full test run skips the steps that have passed for the same sources, even at another commit.
// A step must run again if it has failed, or has passed only for other sources.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	steps := []step{{name: "make lint", sources: "feed"}, {name: "TestA", sources: "aaaa"}, {name: "config.FuzzLoad for 1m0s", sources: "feed"}, {name: "report.FuzzLoad for 1m0s", sources: "feed"}}
	r, err := openReport(dir, "0123456789abcdef", "2026-01-02", steps)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range []string{"passed | 2s | 2026-01-02 03:04", "FAILED (exit status 1) | 9s | 2026-01-02 03:05", "passed | 1m0s | 2026-01-02 03:06"} {
		if err := r.set(i, result); err != nil {
			t.Fatal(err)
		}
	}
	later, err := openReport(dir, "fedcba9876543210", "2026-01-03", append(steps, step{name: "TestB", sources: "bbbb"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := later.set(4, "passed | 1s | 2026-01-03 00:00"); err != nil {
		t.Fatal(err)
	}
	if later.missing() != 2 || later.passed(1) || !later.passed(2) || later.passed(3) {
		t.Errorf("known: %q", later.rows)
	}
	if later.path != filepath.Join(dir, "2026-01-02-0123456789ab.md") {
		t.Errorf("goes on in %s", later.path)
	}
	text, err := os.ReadFile(later.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Begun at commit 0123456789abcdef,", "| TestA | FAILED (exit status 1) | 9s | 2026-01-02 03:05 | aaaa |", "| report.FuzzLoad for 1m0s | NOT RUN |", "| TestB | passed | 1s | 2026-01-03 00:00 | bbbb |", "3 of 5 passed."} {
		if !strings.Contains(string(text), want) {
			t.Errorf("not in the report: %s\n%s", want, text)
		}
	}
	// The sources of one step have changed.
	steps[0].sources = "f00d"
	changed, err := openReport(dir, "fedcba9876543210", "2026-01-03", steps)
	if err != nil {
		t.Fatal(err)
	}
	if changed.passed(0) || !changed.passed(2) || changed.path != later.path {
		t.Errorf("after a change of one step: %q in %s", changed.rows, changed.path)
	}
	// The sources of all steps have changed.
	for i := range steps {
		steps[i].sources = "f00d"
	}
	other, err := openReport(dir, "fedcba9876543210", "2026-01-03", steps)
	if err != nil {
		t.Fatal(err)
	}
	if other.missing() != len(steps) || other.path == later.path {
		t.Errorf("other sources: %q in %s", other.rows, other.path)
	}
}

// TestParts checks that a test with parts has a step for each part, and that the report distinguishes the parts.
func TestParts(t *testing.T) {
	steps := append(test{"hotmount/test/system", "TestSoakPulled"}.steps(), test{"hotmount/test/system", "TestSwap"}.steps()...)
	if len(steps) != 6 || steps[1].name != "TestSoakPulled, part 2 of 5" || steps[5].name != "TestSwap" {
		t.Errorf("steps: %v", steps)
	}
	for i := range steps {
		steps[i].sources = "feed"
	}
	dir := t.TempDir()
	r, err := openReport(dir, "0123456789abcdef", "2026-01-02", steps)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.set(1, "passed | 2s | 2026-01-02 03:04"); err != nil {
		t.Fatal(err)
	}
	if later, err := openReport(dir, "0123456789abcdef", "2026-01-02", steps); err != nil || later.missing() != 5 || !later.passed(1) {
		t.Errorf("known: %q, %v", later.rows, err)
	}
}

// TestRun checks that the result of a step shows how the step ended and which random seed it used.
func TestRun(t *testing.T) {
	for script, want := range map[string]string{
		"echo all well":                             "passed | ",
		"echo '  seed: HOTMOUNT_TEST_SEED=42'":      "passed, HOTMOUNT_TEST_SEED=42 | ",
		"echo 'seed: HOTMOUNT_TEST_SEED=7'; exit 3": "FAILED (exit status 3), HOTMOUNT_TEST_SEED=7 | ",
	} {
		s := step{name: "TestA", command: []string{"bash", "-c", script}}
		if got, err := s.run(t.Context(), t.TempDir()); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, %v, want %q", script, got, err, want)
		}
	}
}
