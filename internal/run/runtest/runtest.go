// Package runtest contains a Runner for tests. The Runner starts no process and returns prepared answers.
package runtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"hotmount/internal/run"
)

// Answer is a function that replaces one run of a child process.
type Answer func(run.Command) (run.Result, error)

// Print returns the answer of a child process that writes the given text to stdout and exits with the given code.
func Print(stdout string, code int) Answer {
	return func(run.Command) (run.Result, error) { return run.Result{Stdout: []byte(stdout), ExitCode: code}, nil }
}

// Complain returns the answer of a child process that writes the given text to stderr and exits with the given code.
func Complain(stderr string, code int) Answer {
	return func(run.Command) (run.Result, error) { return run.Result{Stderr: []byte(stderr), ExitCode: code}, nil }
}

// Fail returns an answer with the given error, such as the error for a killed child.
func Fail(err error) Answer {
	return func(c run.Command) (run.Result, error) {
		return run.Result{}, fmt.Errorf("cannot run %s: %w", c, err)
	}
}

// Runner is a run.Runner with a prepared answer for each command line. A command line without an answer fails the test.
type Runner struct {
	t       testing.TB
	mu      sync.Mutex
	answers map[string]Answer
	calls   []string
}

// New returns a Runner without answers.
func New(t testing.TB) *Runner { return &Runner{t: t, answers: map[string]Answer{}} }

// On sets the answer to a command line. The command line has the form that run.Command.String returns. An answer may
// itself call the method On.
func (r *Runner) On(line string, a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[line] = a
}

// Run returns the prepared answer to the command, or fails the test.
func (r *Runner) Run(ctx context.Context, c run.Command) (run.Result, error) {
	r.t.Helper()
	r.mu.Lock()
	line := c.String()
	r.calls = append(r.calls, line)
	answer := r.answers[line]
	r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return run.Result{}, fmt.Errorf("cannot run %s: %w", line, err)
	}
	if c.Timeout <= 0 {
		r.t.Errorf("%s has no time limit", line)
	}
	if answer == nil {
		r.t.Errorf("unexpected command: %s", line)
		return run.Result{}, fmt.Errorf("cannot run %s: the test did not expect it", line)
	}
	return answer(c)
}

// Calls returns all command lines that Run has received so far, in order.
func (r *Runner) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}
