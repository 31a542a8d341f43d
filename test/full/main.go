// Command full runs every test, for hours, and updates a dated report. The command skips a test that an earlier report
// lists as passed for the same sources, so a stopped run can continue. After a change of one system test, only that
// test and the `make` steps run again. If the report is committed, another machine can continue the run. `make
// test-full` calls this command.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	commit := flag.String("commit", "", "what is tested")
	paths := flag.String("sources", "", "the files and directories, separated by spaces, on which the tests depend")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "the date of the report")
	fuzz := flag.Duration("fuzz", time.Minute, "how long each parser is fuzzed")
	dir := flag.String("dir", "build/full", "where logs are kept")
	reports := flag.String("reports", "test/reports", "where the report goes")
	pattern := flag.String("only", "", "run the steps whose names match `regexp`; of the others, what is known goes into the report")
	flag.Parse()
	only, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintln(os.Stderr, "full:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := full(ctx, *commit, strings.Fields(*paths), *date, *fuzz, *dir, *reports, only); err != nil {
		fmt.Fprintln(os.Stderr, "full:", err)
		os.Exit(1)
	}
}

// The variable `longest` lists the tests of a full test run that take about an hour or more, from the shortest to the
// longest.
var longest = []string{"TestSwap", "TestSoakPulled"}

// The map `parts` maps a long test to the number of steps into which the test is divided. Each step runs the test with
// another random seed. If a test run is stopped, only the steps that were running have to begin again.
var parts = map[string]int{"TestSoakPulled": 5}

// step is one command of the full test run. A step passes if the exit code of its command is 0.
type step struct {
	name    string
	command []string
	// The field `test` is the name of the test that the step runs, or "".
	test string
	// The field `sources` is a digest of the sources on which the step's result depends.
	sources string
}

func full(ctx context.Context, commit string, paths []string, date string, fuzz time.Duration, dir, reports string, only *regexp.Regexp) error {
	steps, err := steps(ctx, fuzz)
	if err != nil {
		return err
	}
	for _, d := range []string{dir, reports} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	sources, err := readSources(ctx, paths)
	if err != nil {
		return err
	}
	for i := range steps {
		steps[i].sources = sources.digest(steps[i])
	}
	report, err := openReport(reports, commit, date, steps)
	if err != nil {
		return err
	}
	var errs []error
	var mu sync.Mutex
	do := func(i int) {
		mu.Lock()
		passed := report.passed(i)
		mu.Unlock()
		if passed || ctx.Err() != nil || !only.MatchString(steps[i].name) {
			return
		}
		fmt.Printf("==> %d of %d: %s: begun; its log is %s\n", i+1, len(steps), steps[i].name, steps[i].log(dir))
		result, err := steps[i].run(ctx, dir)
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("==> %d of %d: %s: %s\n", i+1, len(steps), steps[i].name, result)
		errs = append(errs, err, report.set(i, result))
	}
	// Each `make` step except `make test-unit` runs alone, because the step uses the directory build/ or the whole
	// machine. The other steps run two at a time, because most of them wait for one or two virtual machines.
	var todo []int
	for i, s := range steps {
		if s.command[0] == "make" && s.command[1] != "test-unit" {
			do(i)
		} else {
			todo = append(todo, i)
		}
	}
	// The longest steps begin first, so that the test run does not end with a long step that runs alone.
	rank := func(i int) int { return slices.Index(longest, steps[i].test) }
	slices.SortStableFunc(todo, func(a, b int) int { return rank(b) - rank(a) })
	next := make(chan int)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for _, i := range todo {
		next <- i
	}
	close(next)
	workers.Wait()
	fmt.Println("==> the report, to be committed:", report.path)
	if ctx.Err() != nil {
		errs = append(errs, errors.New("stopped; the same command goes on from here"))
	} else if n := report.missing(); n > 0 {
		errs = append(errs, fmt.Errorf("%d of %d have not passed; logs are in %s", n, len(steps), dir))
	}
	return errors.Join(errs...)
}

// The function `steps` returns the steps of the full test run: some make targets, the tests that need a virtual machine,
// and the fuzz tests. A test with parts has one step for each part.
func steps(ctx context.Context, fuzz time.Duration) ([]step, error) {
	var all []step
	for _, target := range []string{"lint", "test-deb", "test-same", "bench-scan", "demo", "test-container", "test-unit"} {
		all = append(all, step{name: "make " + target, command: []string{"make", target}})
	}
	vm, err := list(ctx, "^Test", "-tags=vm,full", "./test/...")
	if err != nil {
		return nil, err
	}
	without, err := list(ctx, "^Test", "./test/...")
	if err != nil {
		return nil, err
	}
	for _, t := range vm {
		if !contains(without, t) {
			all = append(all, t.steps()...)
		}
	}
	targets, err := list(ctx, "^Fuzz", "./internal/...", "./cmd/...")
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		// Here -fuzztime limits the number of inputs, and the shell's loop limits the time. If -fuzztime is a time, `go
		// test` sometimes reports a failure because the time ends while an input is processed.
		script := fmt.Sprintf("end=$((SECONDS + %d)); while ((SECONDS < end)); do go test '-run=^$' '-fuzz=^%s$' -fuzztime=200000x %s; done", int(fuzz.Seconds()), t.name, t.pkg)
		all = append(all, step{name: filepath.Base(t.pkg) + "." + t.name + " for " + fuzz.String(), command: []string{"bash", "-ec", script}})
	}
	return all, nil
}

type test struct{ pkg, name string }

// The method `steps` returns one step for each part of the test, or one step if the test has no parts.
func (t test) steps() (all []step) {
	command := []string{"go", "test", "-tags=vm,full", "-count=1", "-timeout=0", "-parallel=1", "-v", "-run=^" + t.name + "$", t.pkg}
	n := parts[t.name]
	if n == 0 {
		return []step{{name: t.name, command: command, test: t.name}}
	}
	for part := range n {
		all = append(all, step{name: fmt.Sprintf("%s, part %d of %d", t.name, part+1, n), command: command, test: t.name})
	}
	return all
}

func contains(all []test, t test) bool {
	for _, other := range all {
		if other == t {
			return true
		}
	}
	return false
}

// The function `list` returns the tests whose names match the pattern, in the packages that `go list` finds.
func list(ctx context.Context, pattern string, args ...string) ([]test, error) {
	var all []test
	packages, err := output(ctx, append([]string{"go", "list"}, args...)...)
	if err != nil {
		return nil, err
	}
	var flags []string
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			flags = append(flags, a)
		}
	}
	for pkg := range strings.FieldsSeq(packages) {
		names, err := output(ctx, append(append([]string{"go", "test", "-list=" + pattern}, flags...), pkg)...)
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(names, "\n") {
			if strings.HasPrefix(line, pattern[1:]) {
				all = append(all, test{pkg, line})
			}
		}
	}
	return all, nil
}

func output(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

func (s step) log(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(s.name, " ", "-")+".log")
}

// The method `run` executes the step and returns its result as a row of the report.
func (s step) run(ctx context.Context, dir string) (string, error) {
	log, err := os.Create(s.log(dir))
	if err != nil {
		return "", err
	}
	defer log.Close()
	out := bufio.NewWriter(log)
	begun := time.Now()
	c := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	// When the context ends, SIGTERM goes to the whole process group of the step. If only `go test` received SIGTERM,
	// its test process would continue to run.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.Env = append(os.Environ(), "HOTMOUNT_TEST_FULL=1")
	c.Stdout, c.Stderr = out, out
	result := "passed"
	if err := c.Run(); err != nil {
		result = fmt.Sprintf("FAILED (%v)", err)
	}
	now := time.Now()
	if err := out.Flush(); err != nil {
		return "", err
	}
	text, err := os.ReadFile(log.Name())
	if err != nil {
		return "", err
	}
	// The report contains the test's random seed, but not the log, which remains on this machine.
	if found := seed.Find(text); found != nil {
		result += ", " + string(found)
	}
	return fmt.Sprintf("%s | %s | %s", result, now.Sub(begun).Round(time.Second), now.UTC().Format("2006-01-02 15:04")), nil
}

// The pattern `seed` matches the environment setting that makes a randomised test repeat its random choices.
var seed = regexp.MustCompile("HOTMOUNT_TEST_SEED=[0-9]+")
