package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/internal/policy"
)

func doctorCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find pods and kubelets that do not have the disk where the host has it",
		Long: "Compare what the host, every kubelet, every provisioner and every pod has mounted, and say where data is not on\n" +
			"the disk it should be on, and what to change. Nothing is changed. For root.",
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("cannot print as %q: give text or json", disk.Visible(output))}
			}
			if os.Geteuid() != 0 {
				return errors.New("cannot see other processes' mounts: run it as root")
			}
			s, err := usable(c)
			if err != nil {
				return err
			}
			r, err := examine(c.Context(), s)
			if err != nil {
				return err
			}
			if err := printReport(c.OutOrStdout(), r, output); err != nil {
				return err
			}
			return verdict(r)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	complete(c, "output", "text", "json")
	config.AddFlags(c.Flags())
	return c
}

// foundError says that something is not as it should be.
type foundError struct{ error }

func verdict(r *doctor.Report) error {
	count := map[doctor.Level]int{}
	for _, f := range r.Findings {
		count[f.Level]++
	}
	if count[doctor.Problem]+count[doctor.Warning] == 0 {
		return nil
	}
	return foundError{fmt.Errorf("found %s and %s", counted(count[doctor.Problem], "problem"), counted(count[doctor.Warning], "warning"))}
}

// examine looks a second time if there is anything to find: mounts come and go
// while their tables are read.
func examine(ctx context.Context, s *disk.Settings) (*doctor.Report, error) {
	once := func() (*doctor.Report, error) {
		disks, err := hostFor(s).Scan()
		if err != nil {
			return nil, err
		}
		var ours []disk.Dev
		for i := range disks {
			if disks[i].System == "" && policy.Select(&disks[i], s) != nil {
				ours = append(ours, disks[i].Dev)
			}
		}
		var classes []doctor.Class
		for i := range s.Classes {
			c := &s.Classes[i]
			classes = append(classes, doctor.Class{Name: c.Name, Directory: c.Directory, Types: c.Accept, Create: c.Create, StorageClass: c.StorageClass, LoopDevices: c.LoopDevices()})
		}
		source := doctor.Source{
			Look: askAt,
			List: func(ctx context.Context, dir string) ([]doctor.Answer, error) {
				return lookAnswers(ctx, nil, "look", "--list", dir)
			},
		}
		snapshot, err := source.Take(ctx, classes, ours)
		if err != nil {
			return nil, err
		}
		if snapshot.Node, err = nodeName(s.Node); err != nil {
			return nil, err // volumes would not be known by their names
		}
		return doctor.Examine(snapshot), nil
	}
	r, err := once()
	if err != nil || verdict(r) == nil {
		return r, err
	}
	again, err := once()
	if err != nil {
		return nil, err
	}
	r.Confirm(again)
	return r, nil
}

// askAt asks a child what a process has at each path. They go by a file: they may
// be more than fits on a command line.
func askAt(ctx context.Context, pid int, paths []string) ([]doctor.Answer, error) {
	fd, err := unix.MemfdCreate("paths", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	given := os.NewFile(uintptr(fd), "paths")
	defer given.Close()
	if _, err := given.WriteAt([]byte(strings.Join(paths, "\x00")), 0); err != nil {
		return nil, err
	}
	return lookAnswers(ctx, given, "look", strconv.Itoa(pid))
}

// silent says that a child, of that process id, has not ended in time.
type silent struct{ pid int }

func (silent) Error() string { return fmt.Sprintf("no answer within %s", lookTimeout) }

// lookTimeout is how long a look at another process's files may take. What hangs
// on a dead filesystem does so for ever.
const lookTimeout = 5 * time.Second

// answers runs this program once more, with a standard input or nil, and gives
// what it answers until it ends, or until the time is over. A child that hangs in the kernel is not waited for.
func answers[T any](ctx context.Context, stdin *os.File, args ...string) ([]T, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := exec.Command("/proc/self/exe", args...)
	c.Dir, c.Env, c.Stdout = "/", []string{"LC_ALL=C.UTF-8"}, in
	if stdin != nil {
		c.Stdin = stdin
	}
	err = c.Start()
	in.Close()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lookTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := out.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	defer stop()
	var all []T
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a T
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return all, err
		}
		all = append(all, a)
	}
	if err := lines.Err(); err != nil {
		_ = c.Process.Kill()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = silent{c.Process.Pid}
		}
		return all, errors.Join(err, c.Process.Release())
	}
	return all, c.Wait()
}

// lookAnswers takes out of the answers why there are no more.
func lookAnswers(ctx context.Context, stdin *os.File, args ...string) ([]doctor.Answer, error) {
	all, err := answers[doctor.Answer](ctx, stdin, args...)
	if n := len(all); n > 0 && all[n-1].Failure != "" {
		return all[:n-1], errors.New(all[n-1].Failure)
	}
	return all, err
}

func lookCommand() *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:    "look {PID <PATHS | --list DIRECTORY}",
		Short:  "Say what a process has at each path of the standard input (NUL between them), or what lies under the mounts in a directory",
		Hidden: true, // for doctor, as a process of its own that may hang
		Args:   args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, given []string) error {
			w := c.OutOrStdout()
			var err error
			if list {
				err = doctor.List(given[0], w)
			} else {
				var pid int
				if pid, err = strconv.Atoi(given[0]); err != nil {
					return usageError{err}
				}
				var text []byte
				if text, err = io.ReadAll(c.InOrStdin()); err == nil {
					paths := strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
					err = doctor.Look(pid, paths, w)
				}
			}
			if err != nil {
				err = errors.Join(err, json.NewEncoder(w).Encode(doctor.Answer{Failure: err.Error()}))
			}
			return err
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list what lies in a directory under the mounts")
	return c
}

func printReport(w io.Writer, r *doctor.Report, output string) error {
	if output == "json" {
		return printJSON(w, r)
	}
	var b strings.Builder
	for _, h := range r.Host {
		shared := "not shared"
		if h.Shared != 0 {
			shared = "shared"
		}
		fmt.Fprintf(&b, "%s (class %s) on the host: %s, %s mounted\n", h.Directory, h.Class, shared, counted(len(h.Mounts), "disk"))
		for _, s := range r.Seen {
			if s.Class == h.Class {
				fmt.Fprintf(&b, "  %s %d (%s): %s\n", s.Process.Role, s.Process.PID, disk.Visible(s.Process.Name), seen(&s))
			}
		}
	}
	told := map[string]bool{}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n%s: %s\n", strings.ToUpper(string(f.Level)), harmless(f.What))
		if f.Data != "" {
			where := "on the host's system disk"
			if f.Kind == doctor.NotItsDisk {
				where = "on the host"
			}
			for _, h := range r.Host {
				for _, m := range h.Mounts {
					if f.Kind != doctor.NotItsDisk && (f.Data == m.Path || strings.HasPrefix(f.Data, m.Path+"/")) {
						where += ", under what is mounted there"
					}
				}
			}
			fmt.Fprintf(&b, "  the data: %s %s\n", disk.Visible(f.Data), where)
		}
		if f.Reach != "" {
			fmt.Fprintf(&b, "  to be read now at: %s\n", disk.Visible(f.Reach))
		}
		var do []string
		for _, line := range f.Do {
			do = append(do, harmless(line))
		}
		if lines := strings.Join(do, "\n    "); told[lines] {
			b.WriteString("    (the lines above help here, too)\n")
		} else if lines != "" {
			told[lines] = true
			fmt.Fprintf(&b, "    %s\n", lines)
		}
	}
	if len(r.Findings) == 0 {
		b.WriteString("\nnothing found\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// harmless takes out what a terminal would obey. What is foreign has been made
// visible where it was put into words; this is for what was forgotten there.
func harmless(line string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, line)
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// seen says in words what one process sees of a class directory.
func seen(s *doctor.Seen) string {
	switch s.Sees {
	case "absent":
		return disk.Visible(s.Directory) + " is not there"
	case "other":
		return disk.Visible(s.Directory) + " is another directory"
	case "unknown":
		return disk.Visible(s.Directory) + " can not be seen"
	}
	right := 0
	for _, m := range s.Mounts {
		if m.Sees == "same" {
			right++
		}
	}
	later := "later mounts arrive"
	if !s.Arrives {
		later = "later mounts do NOT arrive"
	}
	return fmt.Sprintf("%d of %s right, %s", right, counted(len(s.Mounts), "disk"), later)
}
