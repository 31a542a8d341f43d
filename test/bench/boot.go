package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hotmount/test/worker"
)

// rulesAtBoot is the directory of the udev rules that exist when the container boots.
const rulesAtBoot = "/etc/udev/rules.d/"

// The method `boots` measures the mount methods in turns, round by round. In each turn, the whole container boots. Each
// disk has an XFS filesystem. A turn measures the time from PID 1's start to the last mount. If hotmount mounts the
// disks, the turn also measures the time from PID 1's start to the daemon's READY=1.
func (b *bench) boots(ctx context.Context, c *worker.Container, f figure) ([]Turn, error) {
	// The running daemon would format and mount the new disks.
	if _, err := c.Run(ctx, "systemctl stop hotmount"); err != nil {
		return nil, err
	}
	for i := range f.disks {
		file := filepath.Join(c.HostDisks(), fmt.Sprintf("b%d.img", i))
		if err := worker.NewDisk(file, diskSize); err != nil {
			return nil, err
		}
		if _, err := c.Attach(ctx, worker.Disk{File: file}); err != nil {
			return nil, err
		}
	}
	const prepare = `set -e; udevadm settle
for d in /dev/loop*[0-9]; do [ ! -e /sys/block/${d#/dev/}/loop/backing_file ] || mkfs.xfs -q -f $d; done; udevadm settle; rm -rf /var/lib/hotmount/*; systemctl start hotmount`
	if _, err := c.Run(ctx, prepare); err != nil {
		return nil, err
	}
	var turns []Turn
	for n := range min(f.turns, b.turns) {
		for i := range f.ways {
			t, err := b.boot(ctx, c, f, f.ways[(n+i)%len(f.ways)])
			if err != nil {
				return turns, err
			}
			fmt.Fprintln(b.out, t.line())
			turns = append(turns, t)
		}
	}
	return turns, nil
}

// The method `boot` takes one turn: the container boots with one mount method switched on.
func (b *bench) boot(ctx context.Context, c *worker.Container, f figure, way string) (Turn, error) {
	script := "set -e; rm -f " + rulesAtBoot + "*; systemctl -q enable hotmount hotmount-tidy"
	if way != hotmount {
		rule := strings.ReplaceAll(setUp(way, ""), rules, rulesAtBoot+"99-bench.rules")
		rule = strings.Replace(rule, `ATTR{loop/backing_file}=="/*"`, `KERNEL=="loop*"`, 1)
		script = "set -e; systemctl -q disable hotmount hotmount-tidy; ln -sf /dev/null " + rulesAtBoot + filepath.Base(masked) + "; " + rule
	}
	if _, err := c.Run(ctx, script); err != nil {
		return Turn{}, err
	}
	if err := c.Shutdown(ctx); err != nil {
		return Turn{}, err
	}
	t := Turn{Figure: f.name, Way: way, Disks: f.disks, Values: map[string]float64{}}
	var err error
	host := insideBench{patience: patience}
	if t.Idle, err = host.waitQuiet(ctx); err != nil {
		return Turn{}, err
	}
	if t.Load, err = load(); err != nil {
		return Turn{}, err
	}
	if err := c.PowerOn(ctx); err != nil {
		return Turn{}, err
	}
	if err := b.times(ctx, c, &t); err != nil {
		return Turn{}, fmt.Errorf("%s: %w", way, err)
	}
	return t, nil
}

// The method `times` waits up to a minute until all disks are mounted. PID 1 reports when it started, and when the
// mounts and the daemon became active. times() stores the differences in t.
func (b *bench) times(ctx context.Context, c *worker.Container, t *Turn) error {
	const read = `systemctl is-system-running --wait >/dev/null
systemctl show -P UserspaceTimestampMonotonic
systemctl show -P ActiveEnterTimestampMonotonic hotmount
systemctl show -P ActiveEnterTimestampMonotonic $(systemctl list-units --no-legend --plain --state=mounted 'mnt-disks-*.mount' | cut -d ' ' -f 1) | grep .`
	for deadline := time.Now().Add(time.Minute); ; {
		said, err := c.Run(ctx, read)
		var at []float64
		for _, word := range strings.Fields(said) {
			us, e := strconv.ParseFloat(word, 64)
			err = errors.Join(err, e)
			at = append(at, us/1000)
		}
		if len(at) == t.Disks+2 {
			if t.Way == hotmount {
				t.Values["boot to READY"] = at[1] - at[0]
			}
			t.Values["boot to last mount"] = slices.Max(at[2:]) - at[0]
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not all of %d disks were mounted in time: %q: %w", t.Disks, said, err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
