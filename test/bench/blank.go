package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	blankSize = 5 << 30
	// secondLook is the time in milliseconds from mkfs to hotmount's second reading of a new filesystem (secondLook in
	// internal/helper/prove.go).
	secondLook = 3000
	// bytesPerSecond is the read speed of the throttled disk.
	bytesPerSecond = 500_000_000
)

// The method `blanks` measures the mount methods with blank disks that are as fast as memory. The disks are so fast
// because the kernel returns zeros for blocks that were never written.
func (in *insideBench) blanks(ctx context.Context) error {
	for r := range in.Turns {
		for _, way := range order(in.Ways, nil, r) {
			if err := in.withPackage(way, func() error { return in.blankTurn(ctx, way) }); err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
		}
	}
	return nil
}

func (in *insideBench) blankTurn(ctx context.Context, way string) error {
	file, err := in.blank("blank.img", blankSize)
	if err != nil {
		return err
	}
	loops, err := in.loops(1)
	if err != nil {
		return err
	}
	if err := in.clear(ctx, nil); err != nil {
		return err
	}
	var took float64
	t, err := in.observe(ctx, way, awaited{events: true, mounts: way != parts}, loops, func() error {
		if err := attachAll(loops, []string{file})(); err != nil || way != parts {
			return err
		}
		var err error
		took, err = in.parts(ctx, loops[0])
		return err
	})
	switch {
	case err != nil:
	case way == parts:
		t.Values["whole"] = took
	case t.Fault == "":
		t.Values["whole"] = lastTime(t.Mounted) - first(t.Added) - secondLook
		t.Values["with the second look"] = lastTime(t.Mounted) - first(t.Added)
	}
	if err == nil {
		err = in.turns.Encode(t)
	}
	return errors.Join(err, in.clear(ctx, loops), os.Remove(file))
}

// The method `parts` runs the steps for a blank disk one after the other, and returns their total time in
// milliseconds. The steps run in a systemd unit, so that they are throttled like hotmount's unit. The first step begins
// after udev's event for the disk.
func (in *insideBench) parts(ctx context.Context, l *loop) (float64, error) {
	n, err := in.numbers(ctx, "systemd-run -q --pipe --wait --collect bash -ec "+quote(fmt.Sprintf(`udevadm settle; s=$(date +%%s%%N)
dd if=%[1]s of=/dev/null bs=1M iflag=direct 2>/dev/null; mkfs.xfs -q -K %[1]s
systemd-mount -q --fsck=no -t xfs %[1]s %[2]sparts; e=$(date +%%s%%N); echo $(( (e - s) / 1000 ))`, l.node(), mountsDir)))
	if err != nil {
		return 0, err
	}
	if len(n) != 1 {
		return 0, fmt.Errorf("the parts printed %v, not a time", n)
	}
	return n[0] / 1000, nil
}

// The method `throttled` measures the mount methods with blank disks that are as fast as a good SATA disk.
func (in *insideBench) throttled(ctx context.Context) error {
	loops, err := in.loops(1)
	if err != nil {
		return err
	}
	lift, err := throttle(loops[0].dev)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot throttle a disk on this machine: %w", err), lift())
	}
	return errors.Join(in.blanks(ctx), lift())
}

// The function `throttle` limits the container's reads from a device. The returned function removes the limit.
func throttle(dev string) (lift func() error, err error) {
	lift = func() error { return nil }
	controllers, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
	if err != nil {
		return lift, err
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if c == "io" {
			return lift, throttleUnified(dev)
		}
	}
	return throttleLegacy(dev)
}

// throttleUnified uses cgroup v2 to limit the reads of systemd's units. The limit ends when the container's control
// groups are removed.
func throttleUnified(dev string) error {
	limit := fmt.Sprintf("%s rbps=%d", dev, bytesPerSecond)
	return errors.Join(
		os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+io"), 0o644),
		os.WriteFile(filepath.Join(cgroups, "system.slice/io.max"), []byte(limit), 0o644))
}

// throttleLegacy uses cgroup v1 to limit the reads of all processes of the container. throttleLegacy moves the
// processes to a new group, because the root group cannot have a limit. The returned function moves the processes back.
func throttleLegacy(dev string) (lift func() error, err error) {
	lift = func() error { return nil }
	root, err := os.MkdirTemp("", "bench-blkio-")
	if err != nil {
		return lift, err
	}
	if err := unix.Mount("cgroup", root, "cgroup", 0, "blkio"); err != nil {
		return lift, errors.Join(fmt.Errorf("there is neither cgroup v2's io nor cgroup v1's blkio: %w", err), os.Remove(root))
	}
	group := filepath.Join(root, "hotmount-bench")
	lift = func() error {
		return errors.Join(moveAll(root), removeGroup(group), unix.Unmount(root, 0), os.Remove(root))
	}
	// The group may already exist, because a killed run does not remove it.
	if err := os.MkdirAll(group, 0o755); err != nil {
		return lift, err
	}
	limit := fmt.Sprintf("%s %d", dev, bytesPerSecond)
	if err := os.WriteFile(filepath.Join(group, "blkio.throttle.read_bps_device"), []byte(limit), 0o644); err != nil {
		return lift, err
	}
	return lift, moveAll(group)
}

// moveAll moves all processes of the container into a group. moveAll goes through the list of processes three times,
// because a process can fork during a pass.
func moveAll(group string) error {
	for range 3 {
		pids, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		for _, p := range pids {
			err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(filepath.Base(p)), 0o644)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// removeGroup removes a group. removeGroup waits a while if the last processes of the group have not ended yet.
func removeGroup(group string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := os.Remove(group)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}
