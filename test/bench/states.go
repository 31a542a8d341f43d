package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// unitTimes returns the time when a unit's process started and the time when the unit became active, as CLOCK_MONOTONIC
// in milliseconds.
func (in *insideBench) unitTimes(ctx context.Context, unit string) (start, active float64, err error) {
	n, err := in.numbers(ctx, "systemctl show -P InactiveExitTimestampMonotonic "+unit+"; systemctl show -P ActiveEnterTimestampMonotonic "+unit)
	if err != nil {
		return 0, 0, err
	}
	if len(n) != 2 {
		return 0, 0, fmt.Errorf("systemctl printed %v of %s, not two times", n, unit)
	}
	return n[0] / 1000, n[1] / 1000, nil
}

// imitateEvery is the number of rounds from one imitated boot to the next. No bound uses the imitated boot.
const imitateEvery = 3

// The method `ready` measures the daemon's starts and the udev rules, each with disks that are already attached.
func (in *insideBench) ready(ctx context.Context) error {
	files, err := in.disks(ctx, in.Disks)
	if err != nil {
		return err
	}
	loops, err := in.loops(in.Disks)
	if err != nil {
		return err
	}
	for round := range in.Turns {
		for _, way := range order(in.Ways, seldom[in.Figure], round) {
			err := in.withPackage(way, func() error {
				if way == rule || way == tuned {
					return in.triggered(ctx, way, loops, files)
				}
				err := in.started(ctx, way, loops, files)
				if err == nil && round%imitateEvery == 0 {
					err = in.booted(ctx, way, loops, files)
				}
				return err
			})
			if err = errors.Join(err, in.clear(ctx, loops)); err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
		}
	}
	return nil
}

// attachPresent attaches the disks while no method runs, and creates the mount points that a power cut would leave.
func (in *insideBench) attachPresent(ctx context.Context, loops []*loop, files []string) error {
	if err := in.script(ctx, stopped+stopMethods); err != nil {
		return err
	}
	if err := in.clear(ctx, loops); err != nil {
		return err
	}
	if err := attachAll(loops, files)(); err != nil {
		return err
	}
	for i := range loops {
		if err := leaveMountPoint(filepath.Join(mountsDir, in.uuid(i))); err != nil {
			return err
		}
	}
	return in.script(ctx, idleAgain+"\nrm -f "+masked+"; udevadm control --reload")
}

// The method `triggered` triggers the udev rule for disks that are already attached, so that the rule mounts the disks.
func (in *insideBench) triggered(ctx context.Context, way string, loops []*loop, files []string) error {
	if err := in.attachPresent(ctx, loops, files); err != nil {
		return err
	}
	// The bench program removes the mount points first, because a udev rule makes its own mount points.
	if err := in.script(ctx, "hotmount cleanup --all; ln -sf /dev/null "+masked); err != nil {
		return err
	}
	trigger := "udevadm trigger --action=change"
	for _, l := range loops {
		trigger += " /sys/block/" + l.name
	}
	t, err := in.observe(ctx, way, awaited{true, true}, loops, func() error { return in.script(ctx, trigger) })
	if err != nil {
		return err
	}
	return in.turns.Encode(t)
}

// The method `started` measures two starts of the daemon: with unmounted disks, and with all disks mounted.
func (in *insideBench) started(ctx context.Context, way string, loops []*loop, files []string) error {
	if err := in.attachPresent(ctx, loops, files); err != nil {
		return err
	}
	t, err := in.starts(ctx, way, loops)
	if err != nil {
		return err
	}
	start, active, err := in.unitTimes(ctx, "hotmount")
	if err != nil {
		return err
	}
	t.Values["start to last mount"], t.Values["start to READY"] = lastTime(t.Mounted)-start, active-start
	if err := in.turns.Encode(t); err != nil {
		return err
	}
	return in.restarted(ctx, way)
}

func (in *insideBench) starts(ctx context.Context, way string, loops []*loop) (Turn, error) {
	// The turn gets a name that is not the name of a method, because setUp would otherwise start the daemon too early.
	return in.observe(ctx, way+", started", awaited{mounts: true}, loops, func() error { return in.script(ctx, "systemctl start hotmount") })
}

// The method `restarted` measures a start of the daemon while all disks are mounted.
func (in *insideBench) restarted(ctx context.Context, way string) error {
	t := Turn{Figure: in.Figure, Way: way + ", restarted", Disks: in.Disks, Values: map[string]float64{}}
	var err error
	if err = pause(ctx, rest); err != nil {
		return err
	}
	if t.Idle, err = in.waitQuiet(ctx); err != nil {
		return err
	}
	m, err := newMeter()
	if err != nil {
		return err
	}
	if err := in.script(ctx, "systemctl restart hotmount"); err != nil {
		return err
	}
	start, active, err := in.unitTimes(ctx, "hotmount")
	if err != nil {
		return err
	}
	if err := m.read(&t, 0); err != nil {
		return err
	}
	t.Values["start to READY"] = active - start
	fmt.Fprintln(in.out, t.line())
	return in.turns.Encode(t)
}

// The method `booted` imitates a boot after a power cut, and measures the start of the daemon. In this imitation,
// /run/hotmount is missing, and hotmount-tidy runs before the daemon.
func (in *insideBench) booted(ctx context.Context, way string, loops []*loop, files []string) error {
	if err := in.attachPresent(ctx, loops, files); err != nil {
		return err
	}
	if err := in.script(ctx, "systemctl stop hotmount-tidy; rm -rf /run/hotmount"); err != nil {
		return err
	}
	t, err := in.starts(ctx, way, loops)
	if err != nil {
		return err
	}
	tidy, _, err := in.unitTimes(ctx, "hotmount-tidy")
	if err != nil {
		return err
	}
	_, active, err := in.unitTimes(ctx, "hotmount")
	if err != nil {
		return err
	}
	t.Way = way + ", as at boot (from hotmount-tidy on)"
	t.Values["start to READY"], t.Values["start to last mount"] = active-tidy, lastTime(t.Mounted)-tidy
	return in.turns.Encode(t)
}

// leaveMountPoint makes a mount point with a marker file, like a mount point after a power cut
// (packaging/doc/adr/0004).
func leaveMountPoint(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	marker := filepath.Join(dir, "not-mounted")
	if err := os.WriteFile(marker, nil, 0o444); err != nil {
		return err
	}
	return errors.Join(immutable(marker), immutable(dir))
}

// The function `immutable` sets the immutable flag of a file. The function does nothing on a filesystem without the
// immutable flag.
func immutable(path string) error {
	const flag = 0x10 // FS_IMMUTABLE_FL in linux/fs.h
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag)
	if err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot mark %s immutable: %w", path, err)
	}
	return nil
}

// allMounted attaches disks and waits until the installed daemon has mounted them.
func (in *insideBench) allMounted(ctx context.Context, loops []*loop, files []string) error {
	if err := in.clear(ctx, loops); err != nil {
		return err
	}
	// The script restores the watchdog and the settle time of the package.
	if err := in.script(ctx, "rm -f "+dropIn+"; systemctl daemon-reload; "+setUp(hotmount, in.Dir)+"; systemctl restart hotmount"); err != nil {
		return err
	}
	if err := attachAll(loops, files)(); err != nil {
		return err
	}
	return in.waitMounted(ctx, len(loops))
}

func (in *insideBench) waitMounted(ctx context.Context, n int) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		points, err := mountPoints()
		if err != nil || len(points) >= n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d disks were mounted in time", len(points), n)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
