// Command bench compares hotmount with other methods to mount a new disk. bench boots a container (test/worker), where
// bench measures the methods in turns. bench writes a table, all turns as JSON, and two plots. `make bench` runs this
// command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// Inside the container, the bench program also runs the measurements.
	if len(args) == 2 && args[0] == "inside" {
		return runInside(ctx, args[1], os.Stdin, os.Stdout, os.Stderr)
	}
	var b bench
	var only, plots string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&b.deb, "deb", "", "the `package` to measure")
	flags.StringVar(&b.base, "base", "", "another `package`, which takes turns with it")
	flags.StringVar(&b.commit, "commit", "unknown", "the commit that the package was built from")
	flags.StringVar(&b.dir, "dir", "build", "the `directory` for bench.txt, bench.json and the plots")
	flags.StringVar(&b.root, "root", "", "the container's userland, a `directory or tar` archive; made if there is none")
	flags.StringVar(&b.suite, "suite", "", "the container's Debian release")
	flags.StringVar(&only, "only", "", "the `figures` to measure, with commas; all but idle by default")
	flags.IntVar(&b.turns, "turns", 30, "turns of each method at most")
	flags.StringVar(&plots, "plots", "", "measure nothing, and write the table and plots of this bench.json `file` again")
	flags.IntVar(&b.idle, "idle", 600, "`seconds` to idle, for the figure idle")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if plots != "" {
		return b.redraw(plots)
	}
	if b.deb == "" || flags.NArg() > 0 || b.turns < 1 || b.idle < 1 {
		return errors.New("usage: bench -deb PACKAGE [-base PACKAGE] [-only FIGURES] [-turns N]; make bench does that")
	}
	wanted, err := chosen(only)
	if err != nil {
		return err
	}
	b.out = os.Stderr
	return b.run(ctx, wanted, b.figure)
}

// chosen returns the named figures in the order in which they are measured.
func chosen(only string) ([]figure, error) {
	var all []figure
	named := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		named[name] = true
	}
	for _, f := range figures {
		if named[f.name] || only == "" && !f.apart {
			all = append(all, f)
		}
		delete(named, f.name)
	}
	delete(named, "")
	for name := range named {
		return nil, fmt.Errorf("cannot measure %q: there is no such figure", name)
	}
	return all, nil
}
