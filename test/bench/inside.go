package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// task is the request to the bench program inside the container. The task is passed as JSON on the command line.
type task struct {
	Figure string   `json:"figure"`
	Ways   []string `json:"ways"`
	Disks  int      `json:"disks"`
	Blanks int      `json:"blanks"`
	Turns  int      `json:"turns"`
	// First is the number of the container's first loop device. Dir is the directory of the files for the loop devices.
	First int    `json:"first"`
	Dir   string `json:"dir"`
	// Idle is how long the figure "idle" is measured, in seconds.
	Idle int `json:"idle"`
	// Packages maps a mount method to the path of the Debian package that is installed for the method.
	Packages map[string]string `json:"packages"`
}

// insideBench measures a figure inside the container.
type insideBench struct {
	task
	turns *json.Encoder
	out   io.Writer
	// The field `patience` is the time that the current figure may still wait for an idle machine.
	patience time.Duration
	// The field `installed` is the mount method whose package is installed.
	installed string
}

// The constant `patience` limits how long the turns of one figure, all together, wait for an idle machine. For the turns
// of the figure "boot", only the constant `gate` limits the wait.
const patience = 90 * time.Second

func runInside(ctx context.Context, text string, host io.Reader, turns, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	// The goroutine below runs until the process ends.
	go func() {
		_, _ = io.Copy(io.Discard, host) // returns when the host closes the input or ends
		cancel()
	}()
	in := insideBench{turns: json.NewEncoder(turns), out: out, patience: patience, installed: hotmount}
	if err := json.Unmarshal([]byte(text), &in.task); err != nil {
		return fmt.Errorf("cannot read the task %q: %w", text, err)
	}
	measure := map[string]func(context.Context) error{
		"one": in.rounds, "twenty": in.rounds, "hundreds": in.rounds, "split": in.rounds,
		"blank": in.blanks, "throttled": in.throttled, "ready": in.ready, "memory": in.memory, "idle": in.idle,
	}[in.Figure]
	if measure == nil {
		return fmt.Errorf("there is no figure %q", in.Figure)
	}
	return errors.Join(measure(ctx), in.withPackage(hotmount, in.resume))
}

// withPackage installs the package of the method and calls f, even if the installation fails.
func (in *insideBench) withPackage(way string, f func() error) error {
	return errors.Join(in.install(way), f())
}

// resume restores the state that the container had after the installation.
func (in *insideBench) resume() error {
	ctx := context.Background() // the restoration must also run if the caller's context has ended
	return errors.Join(in.clear(ctx, nil), in.script(ctx, setUp(hotmount, in.Dir)))
}

func (in *insideBench) script(ctx context.Context, text string) error {
	_, err := in.output(ctx, text)
	return err
}

func (in *insideBench) output(ctx context.Context, text string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	var said strings.Builder
	cmd.Stderr = &said
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %q: %w: %s%s", text, err, stdout, said.String())
	}
	return string(stdout), nil
}

// The method `numbers` runs a script and returns the numbers that the script prints.
func (in *insideBench) numbers(ctx context.Context, text string) ([]float64, error) {
	said, err := in.output(ctx, text)
	if err != nil {
		return nil, err
	}
	var all []float64
	for _, word := range strings.Fields(said) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, fmt.Errorf("%q printed %q: %w", text, said, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// The method `install` installs the package of a mount method, if the mount method has a package that is not yet
// installed.
func (in *insideBench) install(way string) error {
	deb := in.Packages[way]
	if deb == "" || way == in.installed {
		return nil
	}
	in.installed = way
	return in.script(context.Background(), "systemctl thaw hotmount 2>/dev/null; rm -f "+masked+`
said=$(DEBIAN_FRONTEND=noninteractive dpkg -i --force-confold,downgrade `+quote(deb)+` 2>&1) || { echo "$said" >&2; exit 1; }
systemctl daemon-reload; systemctl restart hotmount`)
}

// The method `clear` stops all programs and rules that mount disks, removes their mounts, and detaches the disks.
func (in *insideBench) clear(ctx context.Context, loops []*loop) error {
	if err := in.script(ctx, stopMethods); err != nil {
		return err
	}
	if err := unmountAll(); err != nil {
		return err
	}
	// `hotmount cleanup` removes hotmount's mount points and the leftovers of a simulated power cut.
	if err := in.script(ctx, idleAgain+"\nhotmount cleanup --all"); err != nil {
		return err
	}
	if err := detach(loops); err != nil {
		return err
	}
	// systemd-mount does not remove its mount points.
	left, err := filepath.Glob(mountsDir + "*")
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot clear up: %w", err)
		}
	}
	return in.script(ctx, idleAgain)
}

// unmountAll unmounts all disks. unmountAll retries busy mounts for a while.
func unmountAll() error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		points, err := mountPoints()
		if err != nil || len(points) == 0 {
			return err
		}
		for _, p := range points {
			if e := unix.Unmount(p, unix.UMOUNT_NOFOLLOW); e != nil && err == nil {
				err = fmt.Errorf("cannot unmount %s: %w", p, e)
			}
		}
		if err != nil && time.Now().After(deadline) {
			return err
		}
	}
}

func mountPoints() ([]string, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range mounts {
		if strings.HasPrefix(m.MountPoint, mountsDir) {
			all = append(all, m.MountPoint)
		}
	}
	return all, nil
}

// endWorkers ends udevd's idle workers, as udevd itself does after three seconds (on_post in systemd's
// src/udev/udevd.c). Without idle workers, udevd is in the same state as on a node without recent events.
func (in *insideBench) endWorkers(ctx context.Context) error {
	main, err := in.numbers(ctx, "systemctl show -P MainPID systemd-udevd")
	if err != nil || len(main) != 1 {
		return fmt.Errorf("cannot find udevd: %w", err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		all, err := procfs.AllProcs()
		if err != nil {
			return err
		}
		n := 0
		for _, p := range all {
			if stat, err := p.Stat(); err == nil && stat.PPID == int(main[0]) {
				n++
				_ = unix.Kill(p.PID, unix.SIGTERM) // the worker may have ended
			}
		}
		if n == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("udevd still has %d workers", n)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
