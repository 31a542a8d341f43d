package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// Live returns the Source for the running system. This Source starts two programs as child processes: systemctl, and
// hotmount itself. In the child process, hotmount calls Child.
func Live() Source {
	return Source{
		Look: askLook,
		List: func(ctx context.Context, dir string) ([]Answer, error) { return ask(ctx, nil, "look", "--list", dir) },
		Show: show,
	}
}

// show runs systemctl show.
func show(ctx context.Context, unit string, properties []string) (string, error) {
	c := run.Command{Path: "/usr/bin/systemctl", Args: []string{"show", "--property=" + strings.Join(properties, ","), "--", unit}, Timeout: 10 * time.Second}
	got, err := run.Exec{}.Run(ctx, c)
	if err == nil && got.ExitCode != 0 {
		err = fmt.Errorf("%s: %s", c.Path, disk.Visible(strings.TrimSpace(string(got.Stderr))))
	}
	return string(got.Stdout), err
}

// askLook runs Look in a child process. askLook passes the paths in a file, because many paths do not fit on a command
// line.
func askLook(ctx context.Context, pid int, paths []string) ([]Answer, error) {
	fd, err := unix.MemfdCreate("paths", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	given := os.NewFile(uintptr(fd), "paths")
	defer given.Close()
	if _, err := given.WriteAt([]byte(strings.Join(paths, "\x00")), 0); err != nil {
		return nil, err
	}
	return ask(ctx, given, "look", strconv.Itoa(pid))
}

// ask runs a child process of hotmount, and returns the answers of the child. If the last answer of the child is a
// Failure, ask returns the Failure as the error.
func ask(ctx context.Context, stdin *os.File, args ...string) ([]Answer, error) {
	all, err := run.Self[Answer](ctx, stdin, args...)
	if n := len(all); n > 0 && all[n-1].Failure != "" {
		return all[:n-1], errors.New(all[n-1].Failure)
	}
	return all, err
}

// Child runs in a child process of hotmount (Live), and answers one question. If list is true, Child calls List for the
// directory in the parameter `target`. If list is false, Child calls Look for the PID in the parameter `target` and the
// NUL-separated paths in r. If an error occurs, the last answer that Child writes contains the error.
func Child(list bool, target string, r io.Reader, w io.Writer) error {
	err := func() error {
		if list {
			return List(target, w)
		}
		pid, err := strconv.Atoi(target)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return Look(pid, strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 }), w)
	}()
	if err != nil {
		err = errors.Join(err, json.NewEncoder(w).Encode(Answer{Failure: err.Error()}))
	}
	return err
}
