package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"hotmount/test/worker"
)

// bench is one run of the benchmark.
type bench struct {
	deb, base, commit, dir, root, suite string
	turns, idle                         int
	out                                 io.Writer

	result Result
}

// run measures the figures, and saves the results after each figure. The callback `measure` measures one figure.
func (b *bench) run(ctx context.Context, wanted []figure, measure func(context.Context, figure) error) error {
	var failed []string
	for _, f := range wanted {
		begun := time.Now()
		if err := measure(ctx, f); err != nil {
			if ctx.Err() != nil {
				return err
			}
			// After a failed figure, the run continues with the other figures.
			failed = append(failed, f.name)
			b.result.note("%s is not measured, or not all of it: %v", f.name, err)
			fmt.Fprintf(b.out, "%s is not measured, or not all of it: %v\n", f.name, err)
		}
		fmt.Fprintf(b.out, "measured %s in %s\n", f.name, time.Since(begun).Round(time.Second))
		if err := b.save(); err != nil {
			return err
		}
	}
	if err := b.result.table().write(os.Stdout); err != nil || failed == nil {
		return err
	}
	return fmt.Errorf("cannot measure all figures: %s failed, and bench.txt has the reasons", strings.Join(failed, ", "))
}

// The method `figure` measures one figure, in a separate container. The container has only the loop devices that
// the figure needs, because hotmount looks at every loop device.
func (b *bench) figure(ctx context.Context, f figure) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := worker.StartContainer(ctx, worker.ContainerOptions{
		Options: worker.Options{
			Deb: b.deb, Suite: b.suite, Progress: b.out,
			Files: []worker.File{{Path: dropIn, Data: []byte(dropInText)}},
		},
		Name: "bench", Loops: f.disks + f.blanks, Root: b.root,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := c.Put(ctx, self, program); err != nil {
		return err
	}
	if b.base != "" {
		for way, deb := range map[string]string{hotmount: b.deb, hotmountBase: b.base} {
			if err := c.Put(ctx, deb, packages[way]); err != nil {
				return err
			}
		}
	}
	if b.result.Made == "" {
		if b.result.Made, err = b.made(ctx, c); err != nil {
			return err
		}
	}
	return b.measure(ctx, c, f)
}

// The constant `program` is the path of this program inside the container. Some mount methods need a package of hotmount.
// For each such mount method, the map `packages` contains the path of this package inside the container.
const program = "/root/bench"

var packages = map[string]string{hotmount: "/root/hotmount.deb", hotmountBase: "/root/base.deb", neighbour: "/root/hotmount.deb"}

func (b *bench) made(ctx context.Context, c *worker.Container) (string, error) {
	said, err := c.Run(ctx, `. /etc/os-release; echo "$PRETTY_NAME, $(systemctl --version | head -n 1), Linux $(uname -r), $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"`)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("hotmount %s, %s, in a container: %s, %d processors", b.commit, time.Now().UTC().Format("2006-01-02 15:04 MST"), strings.TrimSpace(said), runtime.NumCPU()), nil
}

// The method `measure` runs all measurements of a figure.
func (b *bench) measure(ctx context.Context, c *worker.Container, f figure) error {
	t := task{
		Figure: f.name, Ways: f.ways, Disks: f.disks, Turns: min(f.turns, b.turns), Idle: b.idle,
		First: c.First(), Dir: c.Disks(), Blanks: f.blanks,
	}
	if b.base != "" {
		t.Ways, t.Packages = withBase(f.ways), packages
	}
	if !f.traced {
		take := func() ([]Turn, error) { return b.runInContainer(ctx, c, t) }
		if f.outside {
			take = func() ([]Turn, error) { return b.boots(ctx, c, f) }
		}
		turns, err := take()
		b.result.Turns = append(b.result.Turns, turns...)
		return err
	}
	tr, err := newTrace()
	if err != nil {
		return fmt.Errorf("the kernel cannot trace here: %w", err)
	}
	turns, err := b.runInContainer(ctx, c, t)
	lines, e := tr.end()
	if err = errors.Join(err, e); err != nil {
		return err
	}
	for i := range turns {
		splitTurn(&turns[i], lines)
	}
	b.result.Turns = append(b.result.Turns, turns...)
	return nil
}

// runInContainer runs this program inside the container. runInContainer returns the completed turns, even if there is
// an error.
func (b *bench) runInContainer(ctx context.Context, c *worker.Container, t task) ([]Turn, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := c.Command(ctx, program, "inside", string(text))
	// When its standard input ends, the program inside the container cleans up and exits.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = b.out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	turns, err := readTurns(stdout)
	return turns, errors.Join(err, cmd.Wait())
}

func readTurns(from io.Reader) ([]Turn, error) {
	var turns []Turn
	for d := json.NewDecoder(from); ; {
		var t Turn
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			return turns, nil
		} else if err != nil {
			_, _ = io.Copy(io.Discard, from) // the program in the container would block if nobody read its output
			return turns, fmt.Errorf("cannot read the turns: %w", err)
		}
		turns = append(turns, t)
	}
}

// redraw writes the table and the plots again, from the turns in a file bench.json.
func (b *bench) redraw(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &b.result); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return b.save()
}

// save writes the table, the turns and the plots of the results so far.
func (b *bench) save() error {
	var text strings.Builder
	table := b.result.table()
	if err := table.write(&text); err != nil {
		return err
	}
	all, err := json.MarshalIndent(struct {
		Table
		Turns []Turn `json:"turns"`
	}{table, b.result.Turns}, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{
		"bench.txt": text.String(), "bench.json": string(all) + "\n",
		"bench-one.svg": b.result.plotOne(), "bench-many.svg": b.result.plotMany(),
	}
	errs := []error{os.MkdirAll(b.dir, 0o755)}
	for name, content := range files {
		errs = append(errs, os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o644))
	}
	return errors.Join(errs...)
}
