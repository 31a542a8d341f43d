//go:build vm && full

package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMachine checks, on one worker, everything that the interface Machine promises.
func TestMachine(t *testing.T) {
	ctx := limited(t)
	w := startWorker(t, Options{Dir: t.TempDir()})

	disk := filepath.Join(t.TempDir(), "blank.raw")
	if err := NewDisk(disk, 1<<30); err != nil {
		t.Fatal(err)
	}
	timed(t, "attach", func() error { _, err := w.Attach(ctx, Disk{ID: "data", File: disk, Serial: "a=b c"}); return err })
	var name string
	timed(t, "seen by the kernel", func() (err error) { name, err = w.BlockDevice(ctx, "data"); return err })
	if name != "vdb" {
		t.Errorf("the disk is %q, not vdb", name)
	}
	wantDisk := func() {
		t.Helper()
		got := run(t, w, "lsblk -dnbo NAME,SIZE,SERIAL /dev/vdb; udevadm settle; cat /sys/block/vdb/serial")
		if fields := strings.Fields(got); strings.Join(fields, " ") != "vdb 1073741824 a=b c a=b c" {
			t.Errorf("the worker sees %q", got)
		}
	}
	run(t, w, "udevadm settle")
	wantDisk()

	timed(t, "resize", func() error { return w.Resize(ctx, "data", 2<<30) })
	waitFor(t, w, "[ $(blockdev --getsize64 /dev/vdb) = 2147483648 ]")
	timed(t, "detach", func() error { return w.Detach(ctx, "data") })
	waitFor(t, w, "[ ! -e /dev/vdb ]")

	if err := os.Truncate(disk, 1<<30); err != nil {
		t.Fatal(err)
	}
	timed(t, "attach again", func() error { _, err := w.Attach(ctx, Disk{ID: "data", File: disk, Serial: "a=b c"}); return err })
	waitFor(t, w, "[ -e /dev/vdb ]")
	run(t, w, "mkfs.xfs -q /dev/vdb; echo kept >/root/kept; sync")

	before := bootID(t, w)
	timed(t, "reboot", func() error { return w.Reboot(ctx) })
	timed(t, "the rest of the boot", func() error { _, err := w.WaitBooted(ctx); return err })
	wantDisk()

	run(t, w, "journalctl --sync; sync")
	timed(t, "power cut", func() error { return w.PowerCut(ctx) })
	if _, err := w.Run(ctx, "true"); err == nil {
		t.Error("a worker that is off runs a script")
	}
	timed(t, "power on", func() error { return w.PowerOn(ctx) })
	if state, err := w.WaitBooted(ctx); err != nil || state != "running" {
		t.Errorf("after the power cut the worker is %s, %v", state, err)
	}
	wantDisk()
	if got := run(t, w, "cat /root/kept; blkid -o value -s TYPE /dev/vdb"); got != "kept\nxfs\n" {
		t.Errorf("after the power cut there is %q", got)
	}
	if after := bootID(t, w); after == before {
		t.Error("the boot is still the same")
	}
	if boots := run(t, w, "journalctl -q --list-boots | grep -c ^"); strings.TrimSpace(boots) != "3" {
		t.Errorf("the journal knows %s boots, not 3", boots)
	}
	timed(t, "shutdown", func() error { return w.Shutdown(ctx) })
	timed(t, "power on", func() error { return w.PowerOn(ctx) })
	wantDisk()
}

// TestLibvirt attaches, resizes and detaches a disk with virsh, as administrators do.
func TestLibvirt(t *testing.T) {
	ctx := limited(t)
	var l *Libvirt
	timed(t, "start", func() (err error) {
		l, err = StartLibvirt(ctx, Options{Progress: t.Output()})
		return err
	})
	stopAtEnd(t, l)
	virsh := func(args ...string) {
		t.Helper()
		timed(t, "virsh "+args[0], func() error { _, err := l.Virsh(ctx, args...); return err })
	}
	disk := filepath.Join(t.TempDir(), "blank.raw")
	if err := NewDisk(disk, 1<<30); err != nil {
		t.Fatal(err)
	}
	virsh("attach-disk", l.Domain(), disk, "vdc", "--persistent")
	waitFor(t, l, "[ -e /sys/block/vdb ]")
	if got := run(t, l, "lsblk -dnbo NAME,SIZE,SERIAL /dev/vdb"); strings.Join(strings.Fields(got), " ") != "vdb 1073741824" {
		t.Errorf("the worker sees %q", got)
	}
	virsh("blockresize", l.Domain(), "vdc", "2G")
	waitFor(t, l, "[ $(blockdev --getsize64 /dev/vdb) = 2147483648 ]")
	before := bootID(t, l)
	timed(t, "reboot", func() error { return l.Reboot(ctx) })
	if bootID(t, l) == before {
		t.Error("the boot is still the same")
	}
	waitFor(t, l, "[ -e /dev/vdb ]")
	virsh("detach-disk", l.Domain(), "vdc", "--persistent")
	waitFor(t, l, "[ ! -e /sys/block/vdb ]")
	virsh("attach-disk", l.Domain(), disk, "vdc", "--persistent", "--serial", "a-b c")
	waitFor(t, l, "[ -e /sys/block/vdb ]")
	if got := run(t, l, "cat /sys/block/vdb/serial"); got != `a-b\ c` { // libvirt 9 escapes a space with a backslash
		t.Errorf("the serial is %q", got)
	}
	timed(t, "power cut", func() error { return l.PowerCut(ctx) })
	timed(t, "power on", func() error { return l.PowerOn(ctx) })
	waitFor(t, l, "[ -e /dev/vdb ]")
	logs := t.TempDir()
	if err := l.SaveLogs(ctx, logs); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"serial.log", "qmp.log", "journal.txt", "libvirtd.log", "worker.log"} {
		if info, err := os.Stat(filepath.Join(logs, name)); err != nil || info.Size() == 0 && name != "libvirtd.log" {
			t.Errorf("log %s: %v", name, err)
		}
	}
}

// TestInstalled checks that a restored worker and a booted worker have the package, the files and the results of the
// setup script. Two workers must be able to make the same installation at the same time.
func TestInstalled(t *testing.T) {
	o := Options{
		Deb:   buildDeb(t),
		Files: []File{{Path: "/etc/hello.conf", Data: []byte("first\n")}},
		Setup: "systemctl is-active hello.service >/root/active; cat /run/found >/root/found",
	}
	check := func(m Machine) {
		if got := run(t, m, "cat /root/active /root/found"); got != "active\nfirst\n" {
			t.Errorf("the worker has %q", got)
		}
	}
	t.Run("parallel", func(t *testing.T) {
		for range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				check(startWorker(t, o))
			})
		}
	})
	t.Run("restored", func(t *testing.T) {
		w := startWorker(t, o)
		check(w)
		run(t, w, "systemctl is-active hello.service")
		w2 := startWorker(t, o)
		if a, b := run(t, w, "cat /proc/sys/kernel/random/uuid"), run(t, w2, "cat /proc/sys/kernel/random/uuid"); a == b {
			t.Error("two restored workers draw the same random numbers")
		}
	})
	t.Run("booted", func(t *testing.T) {
		o := o
		o.KernelArgs = []string{"hotmount.format=no"}
		w := startWorker(t, o)
		check(w)
		run(t, w, "grep -q hotmount.format=no /proc/cmdline; systemctl is-system-running --wait")
	})
	t.Run("libvirt", func(t *testing.T) {
		var l *Libvirt
		timed(t, "start", func() (err error) { l, err = StartLibvirt(limited(t), o); return err })
		stopAtEnd(t, l)
		check(l)
	})
}

// buildDeb makes a Debian package with a service, and with a postinst script that copies a file.
func buildDeb(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	write(t, filepath.Join(tree, "DEBIAN/control"), "Package: hello-vm\nVersion: 1\nArchitecture: all\n"+
		"Maintainer: nobody <nobody@example.invalid>\nDepends: xfsprogs, util-linux\nDescription: a test\n")
	write(t, filepath.Join(tree, "DEBIAN/postinst"), "#!/bin/sh\nset -e\ncp /etc/hello.conf /run/found\n"+
		"systemctl daemon-reload\nsystemctl enable --now hello.service\n")
	if err := os.Chmod(filepath.Join(tree, "DEBIAN/postinst"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "lib/systemd/system/hello.service"),
		"[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	deb := filepath.Join(dir, "hello.deb")
	if _, err := command(limited(t), nil, "dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, deb); err != nil {
		t.Fatal(err)
	}
	return deb
}

// TestDisks attaches disks of all kinds.
func TestDisks(t *testing.T) {
	ctx := limited(t)
	w := startWorker(t, Options{})
	dir := t.TempDir()
	file := func(name string, size int64) string {
		path := filepath.Join(dir, name)
		if err := NewDisk(path, size); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cow := filepath.Join(dir, "cow.qcow2")
	if _, err := command(ctx, nil, "qemu-img", "create", "-q", "-f", "qcow2", cow, "1G"); err != nil {
		t.Fatal(err)
	}
	broken := []map[string]any{{"event": "none", "iotype": "read", "errno": 5, "sector": 2048, "once": false}}
	tests := []struct {
		disk  Disk
		check string // a script in which $d is the disk's name
	}{
		{Disk{ID: "qcow2", File: cow, Format: "qcow2"}, "[ $(blockdev --getsize64 /dev/$d) = 1073741824 ]"},
		{Disk{ID: "read-only", File: file("ro", 1<<30), ReadOnly: true}, "[ $(blockdev --getro /dev/$d) = 1 ]"},
		{Disk{ID: "sectors", File: file("4k", 1<<30), LogicalBlockSize: 4096}, "[ $(blockdev --getss /dev/$d) = 4096 ]"},
		{Disk{ID: "odd", File: file("odd", 1<<30), Serial: "ü\n\x01\"'\\%=, x"}, `[ "$(cat /sys/block/$d/serial)" = "$(printf 'ü\n\1"'"'"'\\%%=, x')" ]`},
		{Disk{ID: "broken", File: file("broken", 1<<30), Blkdebug: map[string]any{"inject-error": broken}},
			"dd if=/dev/$d of=/dev/null bs=512 count=1 iflag=direct; ! dd if=/dev/$d of=/dev/null bs=512 count=1 skip=2048 iflag=direct"},
		{Disk{ID: "scsi", File: file("scsi", 1<<30), Serial: "s=1", Bus: BusSCSI}, "case $d in sd*) ;; *) exit 1 ;; esac; lsblk -ndo SERIAL /dev/$d | grep -q s=1"},
		{Disk{ID: "nvme", File: file("nvme", 1<<30), Serial: "n1", Bus: BusNVMe}, "case $d in nvme*) ;; *) exit 1 ;; esac; grep -q n1 /sys/block/$d/device/serial"},
	}
	check := func() {
		for _, test := range tests {
			name, err := w.BlockDevice(ctx, test.disk.ID)
			if err != nil {
				t.Fatal(err)
			}
			run(t, w, "udevadm settle; d="+name+"; "+test.check)
		}
	}
	for _, test := range tests {
		if _, err := w.Attach(ctx, test.disk); err != nil {
			t.Fatal(err)
		}
	}
	check()
	if err := w.PowerCut(ctx); err != nil {
		t.Fatal(err)
	}
	timed(t, "power on", func() error { return w.PowerOn(ctx) })
	check()
	for _, test := range tests {
		timed(t, "detach "+test.disk.ID, func() error { return w.Detach(ctx, test.disk.ID) })
	}
	run(t, w, "udevadm settle; ! ls -d /sys/block/vdb /sys/block/sd* /sys/block/nvme*")

	const many = 28
	timed(t, "attach 28 disks", func() error {
		for i := range many {
			if _, err := w.Attach(ctx, Disk{File: file(fmt.Sprint("many", i), 1<<30)}); err != nil {
				return err
			}
		}
		return nil
	})
	timed(t, "all 28 seen", func() error {
		_, err := w.Run(ctx, "until [ $(ls -d /sys/block/vd? /sys/block/vd?? 2>/dev/null | wc -l) = 29 ]; do sleep 0.2; done")
		return err
	})
	timed(t, "detach 28 disks", func() error {
		for _, a := range w.Attached() {
			if err := w.DetachSurprise(ctx, a.ID); err != nil {
				return err
			}
		}
		for _, a := range w.Attached() {
			if err := w.WaitDetached(ctx, a.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if left := w.Attached(); len(left) != 0 {
		t.Errorf("%d disks are left", len(left))
	}
}

// TestSCSISystem checks a worker whose system disk is sda.
func TestSCSISystem(t *testing.T) {
	w := startWorker(t, Options{SystemBus: BusSCSI})
	if got := run(t, w, "findmnt -no SOURCE /"); got != "/dev/sda1\n" {
		t.Errorf("/ is on %s", got)
	}
}

// TestKilled checks that a worker ends when the process that started the worker is killed.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("WORKER_TO_BE_KILLED"); dir != "" { // this is the process that TestKilled kills
		ctx := context.Background()
		var err error
		if os.Getenv("WORKER_KIND") == "libvirt" {
			_, err = StartLibvirt(ctx, Options{Dir: dir})
		} else {
			_, err = Start(ctx, Options{Dir: dir})
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "started"), "")
		select {}
	}
	for _, kind := range []string{"worker", "libvirt"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), "WORKER_TO_BE_KILLED="+dir, "WORKER_KIND="+kind, "TMPDIR="+dir)
			p, err := startProcess("a test", cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer p.kill()
			waitUntil(t, "start", func() bool {
				if !p.running() {
					t.Fatalf("the process has ended: %v", p.err)
				}
				return exists(filepath.Join(dir, "started"))
			})
			if n := qemus(t, dir); n != 1 {
				t.Fatalf("%d QEMUs run", n)
			}
			p.kill()
			waitUntil(t, "end", func() bool { return qemus(t, dir) == 0 })
		})
	}
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s after two minutes", what)
		}
	}
}

// qemus returns the number of QEMU processes whose command line contains the directory dir.
func qemus(t *testing.T, dir string) (n int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		b, _ := os.ReadFile(f) // the process may have ended
		if strings.Contains(string(b), emulator) && strings.Contains(string(b), dir) {
			n++
		}
	}
	return n
}

// TestScripts checks the output, the failure and the input of scripts.
func TestScripts(t *testing.T) {
	w := startWorker(t, Options{})
	out, err := w.Run(limited(t), "echo out; echo err >&2; cat; false; echo not reached")
	if out != "out\n" || ExitCode(err) != 1 || !strings.Contains(err.Error(), "err") {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := w.Run(limited(t), "exit 255"); ExitCode(err) != 255 {
		t.Errorf("exit 255 gives %v", err)
	}
	long := strings.Repeat("# a comment\n", 20000) + "echo end"
	if out := run(t, w, long); out != "end\n" {
		t.Errorf("a long script gives %q", out)
	}
	if now := run(t, w, "date +%s"); now < run(t, w, "date -d '1 minute ago' +%s") || !nearNow(t, now) {
		t.Errorf("the worker's clock says %s", now)
	}
	local, back := filepath.Join(t.TempDir(), "x"), filepath.Join(t.TempDir(), "y")
	if err := os.WriteFile(local, []byte("it's\x00binary"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := w.Put(limited(t), local, "/root/a dir/it's"); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(limited(t), "/root/a dir/it's", back); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(back); err != nil || string(b) != "it's\x00binary" {
		t.Errorf("came back as %q, %v", b, err)
	}
	if mode := run(t, w, `stat -c %a "/root/a dir/it's"`); mode != "750\n" {
		t.Errorf("has mode %s", mode)
	}
	timed(t, "ten scripts", func() error {
		for range 10 {
			if _, err := w.Run(limited(t), "true"); err != nil {
				return err
			}
		}
		return nil
	})
}

func nearNow(t *testing.T, seconds string) bool {
	t.Helper()
	got, err := time.ParseDuration(strings.TrimSpace(seconds) + "s")
	if err != nil {
		t.Fatal(err)
	}
	return (time.Duration(time.Now().Unix())*time.Second - got).Abs() < 20*time.Second
}

// The function `limited` returns a context that ends two minutes before the time limit of `go test`. At the time limit,
// `go test` panics, and a panic saves no logs and ends no worker.
func limited(t *testing.T) context.Context {
	last, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), last.Add(-2*time.Minute))
	t.Cleanup(cancel)
	return ctx
}

func startWorker(t *testing.T, o Options) *Worker {
	t.Helper()
	o.Progress = t.Output()
	var w *Worker
	timed(t, "start", func() (err error) { w, err = Start(limited(t), o); return err })
	stopAtEnd(t, w)
	return w
}

func stopAtEnd(t *testing.T, m Machine) {
	t.Cleanup(func() {
		if t.Failed() {
			dir, err := LogDir(t.Name())
			if err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				err = m.SaveLogs(ctx, dir)
			}
			t.Logf("logs: %s (%v)", dir, err)
		}
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func timed(t *testing.T, what string, do func() error) {
	t.Helper()
	start := time.Now()
	if err := do(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%-22s %6.2f s", what, time.Since(start).Seconds())
}

func run(t *testing.T, m Machine, script string) string {
	t.Helper()
	out, err := m.Run(limited(t), script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func waitFor(t *testing.T, m Machine, condition string) {
	t.Helper()
	run(t, m, "for i in {1..300}; do if "+condition+"; then exit 0; fi; sleep 0.1; done; exit 1")
}

func bootID(t *testing.T, m Machine) string {
	t.Helper()
	id, err := m.BootID(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	return id
}
