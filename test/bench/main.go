// Command bench measures hotmount against the udev rule that it replaces, in one
// worker, the ways to do it taking turns: this machine is noisy, so only what was
// measured in turns is compared. It is called by make bench, and writes a table as
// text and as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hotmount/test/worker"
)

func main() {
	deb := flag.String("deb", "", "the package to measure")
	commit := flag.String("commit", "unknown", "what it was built of")
	dir := flag.String("dir", "build", "where bench.txt and bench.json go")
	only := flag.String("only", "", "figures to measure, with commas; all by default")
	rounds := flag.Int("rounds", 9, "turns of each way, for one disk")
	minutes := flag.Int("idle", 10, "minutes to idle")
	suite := flag.String("suite", worker.DefaultSuite, "the Debian release of the worker")
	fixed := flag.Bool("fixed", false, "without address space randomization in the worker")
	events := flag.Int("events", 10_000, "events of the storm")
	flag.Parse()
	if flag.NArg() > 0 {
		if err := inWorker(flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b := bench{rounds: *rounds, events: *events, idle: time.Duration(*minutes) * time.Minute, suite: *suite, fixed: *fixed, out: os.Stderr}
	if err := b.run(ctx, *deb, *commit, *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func inWorker(args []string) error {
	switch {
	case args[0] == "peak" && len(args) == 2:
		return peak(args[1], os.Stdout)
	case args[0] == "probe" && len(args) == 4:
		disks, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return probe(args[1], disks, args[3], os.Stdout)
	}
	return errors.New("usage: bench probe READY DISKS HOW, or bench peak ENOUGH")
}

type bench struct {
	rounds, events int
	idle           time.Duration
	suite          string
	fixed          bool
	out            io.Writer

	w     *worker.Worker
	dir   string
	table Table

	// direct has disks read past the host's page cache, which is slow to fill, limit with
	// so many bytes a second at most, 0 for as many as they can.
	direct bool
	limit  int
}

// figure is one part of the run.
type figure struct {
	name    string
	measure func(*bench, context.Context) error
	// cpus and memory (MiB) of its worker, 0 for 2 and 1024.
	cpus, memory int
}

var figures = []figure{
	{name: "one", measure: (*bench).one},
	{name: "twenty", measure: (*bench).twenty},
	{name: "blank", measure: (*bench).blank},
	{name: "restart", measure: (*bench).restart},
	{name: "memory", measure: (*bench).memory},
	{name: "storm", measure: (*bench).storm},
	{name: "idle", measure: (*bench).idling},
	{name: "boot", measure: (*bench).boot},
	// For its disks' interrupt vectors (function).
	{name: "hundreds", measure: (*bench).hundreds, cpus: 4, memory: 2048},
}

func (b *bench) run(ctx context.Context, deb, commit, dir, only string) (err error) {
	if deb == "" {
		return errors.New("-deb does not name a package: run make bench")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.table.Made = fmt.Sprintf("hotmount %s, %s, Debian %s under QEMU's emulation (2 processors, 1 GiB)", commit, time.Now().UTC().Format("2006-01-02 15:04 MST"), b.suite)
	if b.fixed {
		b.table.Made += ", without address space randomization"
	}
	for _, f := range figures {
		if only != "" && !slices.Contains(strings.Split(only, ","), f.name) {
			continue
		}
		begun := time.Now()
		if err := b.figure(ctx, f, deb, self); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		fmt.Fprintf(b.out, "measured %s in %s\n", f.name, time.Since(begun).Round(time.Second))
		// What there is is kept, whatever comes of the next.
		if err := b.save(dir); err != nil {
			return err
		}
	}
	return b.table.write(os.Stdout)
}

// dropIn is what the daemon is measured with.
const dropIn = "/etc/systemd/system/hotmount.service.d/bench.conf"

// sysctls has each process have its code where the last one had it. QEMU translates what is elsewhere
// anew, which no processor does, so that starting processes is slower than on one.
const sysctls = "/etc/sysctl.d/bench.conf"

// translations is the most that QEMU takes on x86-64 (MAX_CODE_GEN_BUFFER_SIZE in its tcg/i386/tcg-target.h).
const translations = 2048

// figure measures one figure in a worker of its own.
func (b *bench) figure(ctx context.Context, f figure, deb, self string) (err error) {
	if b.dir, err = os.MkdirTemp("", "hotmount-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	// A frozen daemon can not feed the watchdog.
	files := []worker.File{{Path: dropIn, Data: []byte("[Service]\nWatchdogSec=0\nEnvironment=HOTMOUNT_SETTLE=0s\n")}}
	setUp := "true"
	if b.fixed {
		files = append(files, worker.File{Path: sysctls, Data: []byte("kernel.randomize_va_space = 0\n")})
		setUp = "sysctl -q -p " + sysctls
	}
	if b.w, err = worker.Start(ctx, worker.Options{
		Suite: b.suite, Deb: deb, Progress: b.out, CPUs: f.cpus, Memory: f.memory, Translations: translations, Files: files,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.w.Stop()) }()
	if err := b.w.Put(ctx, self, "/root/bench"); err != nil {
		return err
	}
	if _, err := b.w.Run(ctx, setUp); err != nil {
		return err
	}
	return f.measure(b, ctx)
}

func (b *bench) save(dir string) error {
	text, err := os.Create(filepath.Join(dir, "bench.txt"))
	if err != nil {
		return err
	}
	if err := errors.Join(b.table.write(text), text.Close()); err != nil {
		return err
	}
	j, err := json.MarshalIndent(b.table, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.json"), append(j, '\n'), 0o644)
}

// rule is what hotmount replaces; tuned, the best that can be made of it.
const (
	rule  = `ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_FS_TYPE}=="xfs", RUN+="/usr/bin/systemd-mount --no-block --collect $devnode /mnt/disks/$env{ID_FS_UUID}"`
	tuned = `ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_FS_TYPE}=="xfs", RUN+="/usr/bin/systemd-mount --no-block --collect --fsck=no -t xfs $devnode /mnt/disks/$env{ID_FS_UUID}"`
	loop  = `while :; do
	for d in /dev/vd[b-z]; do
		[ -b "$d" ] || continue
		findmnt -n "$d" >/dev/null && continue
		uuid=$(blkid -o value -s UUID "$d") || { mkfs.xfs -q "$d" && uuid=$(blkid -o value -s UUID "$d"); }
		systemd-mount -q --collect "$d" "/mnt/disks/$uuid"
	done
	sleep 1
done`
)

// way is one of those that are compared: how the worker is made to work so, what the
// probe has to do, and what is done at last, when the daemon has nothing more to do.
type way struct{ name, setUp, how, last string }

var (
	// It hears now what happened while it was frozen.
	byHotmount = way{"hotmount", thaw, "wait", ""}
	byRule     = way{"rule", asRule(rule), "wait", ""}
	byTuned    = way{"rule, tuned", asRule(tuned), "wait", ""}
	byLoop     = way{"shell loop", "systemd-run -q --collect --unit=bench-loop bash -c " + quote(loop), "wait", ""}
	byMount    = way{"mount(2)", "", "mount", ""}
	byHotPlug  = way{"hot-plug alone", "", "hear", ""}
	// byFormat is the floor of a blank disk.
	byFormat = way{"mkfs.xfs -K, mount(2)", "", "format", ""}
)

// ways are those for a disk that has a filesystem.
var ways = []way{byHotmount, byRule, byTuned, byLoop, byMount, byHotPlug, {newDisk, thaw, "wait", "\nrm -f /var/lib/hotmount/full/*"}}

// newDisk is hotmount with a disk that it has not mounted before: that udev's event then comes
// later, after a process that reads how much of it its XFS takes (90-hotmount.rules), is so for the first
// time only.
const newDisk = "hotmount, new disk"

const thaw = "rm " + masked + "; udevadm control --reload; systemctl start hotmount; systemctl thaw hotmount"

func asRule(r string) string {
	return "echo " + quote(r) + " >/run/udev/rules.d/99-bench.rules; udevadm control --reload"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// masked switches hotmount's own rules of udev off, which no other way has.
const masked = "/run/udev/rules.d/90-hotmount.rules"

// clear ends every way, and unmounts what it has mounted. The daemon is frozen, not
// stopped: on a node it has run for long, and nothing it does is done for the first
// time.
const clear = `! systemctl -q is-active bench-loop || systemctl stop bench-loop
systemctl freeze hotmount
mkdir -p /run/udev/rules.d; rm -f /run/udev/rules.d/99-bench.rules; ln -sf /dev/null ` + masked + `; udevadm control --reload
left() { awk '$2 ~ "^/mnt/disks/" {print $2}' /proc/self/mounts; }
for i in $(seq 50); do
	m=$(left)
	[ -n "$m" ] || break
	umount $m || sleep 0.2
done
m=$(left); [ -z "$m" ]
udevadm settle; systemctl reset-failed`

// waited has udevd as it is on a node on which nothing has happened for a while: it reads its
// rules again with the first event after a reload, and ends its idle workers after 3 seconds
// (event_queue_start and on_post in systemd's src/udev/udevd.c).
const waited = `
udevadm trigger --action=change --settle /sys/class/mem/null; sleep 4`

// images makes disks with an XFS each, but for the blank ones of size 0.
func (b *bench) images(ctx context.Context, name string, n int, size int64, xfs bool) ([]string, error) {
	var all []string
	for i := range n {
		path := filepath.Join(b.dir, fmt.Sprintf("%s%d.raw", name, i))
		if err := worker.NewDisk(path, size); err != nil {
			return nil, err
		}
		if xfs {
			if said, err := exec.CommandContext(ctx, "mkfs.xfs", "-q", path).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("cannot make an XFS: %w: %s", err, said)
			}
		}
		all = append(all, path)
	}
	return all, nil
}

// plug attaches the disks back to back and gives what the probe saw of it.
func (b *bench) plug(ctx context.Context, how string, images []string) (seen Seen, ids []string, err error) {
	seen, err = b.observe(ctx, how, len(images), func() error {
		for _, image := range images {
			a, err := b.w.Attach(ctx, worker.Disk{File: image, Direct: b.direct})
			if err != nil {
				return err
			}
			ids = append(ids, a.ID)
			if b.limit == 0 {
				continue
			}
			if _, err := b.w.QMP(ctx, "block_set_io_throttle", map[string]any{"id": a.ID + "/virtio-backend", "bps": 0, "bps_rd": b.limit, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}); err != nil {
				return err
			}
		}
		return nil
	})
	return seen, ids, err
}

// observe has the probe watch that many disks being attached.
func (b *bench) observe(ctx context.Context, how string, disks int, attach func() error) (seen Seen, err error) {
	if _, err := b.w.Run(ctx, fmt.Sprintf(`cd /root; rm -f ready seen said; touch seen said
(flock 9; exec ./bench probe ready %d %s >seen 2>said) 9>lock </dev/null >/dev/null 2>&1 &
for i in $(seq 100); do [ ! -e ready ] || exit 0; sleep 0.1; done; cat said >&2; exit 1`, disks, how)); err != nil {
		return seen, err
	}
	type answer struct {
		said string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		// Waits without asking again and again, which would count.
		said, err := b.w.Run(ctx, "cd /root; flock lock cat seen; cat said >&2; [ -s seen ]")
		done <- answer{said, err}
	}()
	// So that the connection is made, and does not count.
	select {
	case <-time.After(time.Second):
	case a := <-done:
		return seen, fmt.Errorf("the probe has ended: %s: %w", a.said, a.err)
	}
	if err := attach(); err != nil {
		return seen, err
	}
	a := <-done
	if a.err != nil {
		return seen, a.err
	}
	return seen, json.Unmarshal([]byte(a.said), &seen)
}

func first(times map[string]float64) float64 { return slices.Min(slices.Collect(maps.Values(times))) }
func last(times map[string]float64) float64  { return slices.Max(slices.Collect(maps.Values(times))) }

func (b *bench) unplug(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := b.w.DetachSurprise(ctx, id); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := b.w.WaitDetached(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// turn has one way mount the images, and clears up. The one that counts comes after one that does
// not: code that QEMU has to translate again is slow once.
func (b *bench) turn(ctx context.Context, w way, images []string, during func(Seen) error) (Seen, error) {
	if _, err := b.w.Run(ctx, clear+"\n"+w.setUp+waited+w.last); err != nil {
		return Seen{}, err
	}
	seen, ids, err := b.plug(ctx, w.how, images)
	if err == nil && during != nil {
		err = during(seen)
	}
	if err != nil {
		return seen, fmt.Errorf("%s: %w", w.name, err)
	}
	if _, err := b.w.Run(ctx, clear); err != nil {
		return seen, err
	}
	return seen, b.unplug(ctx, ids)
}
