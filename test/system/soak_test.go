//go:build vm

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// soakWriter appends records of 4 KiB to a file, each durable before its number is
// written to the second argument, or counts those that are right from the first one
// on. What is behind them, cut off by a crash, goes.
const soakWriter = `use strict; use IO::Handle;
my ($do, $dir, $ack) = @ARGV;
my ($id) = $dir =~ /([0-9a-f]{8})-/;
sub record { my $n = shift; my $sum = sprintf "%08x", ($n * 2654435761 + hex $id) & 0xffffffff; return sprintf("%015d ", $n) . $sum x 510; }
open(my $log, "+>>:raw", "$dir/log") or die "open: $!";
my $n = 0;
seek($log, 0, 0);
my $got;
while (read($log, $got, 4096) == 4096 and $got eq record($n)) { $n++ }
if ($do eq "count") { print "$n\n"; exit }
truncate($log, $n * 4096) or die "truncate: $!";
for (;; $n++) {
	(syswrite($log, record($n)) // 0) == 4096 or die "write: $!";
	$log->sync or die "sync: $!";
	open(my $a, ">", $ack) or die "ack: $!";
	print $a $n + 1, "\n"; close $a;
	select(undef, undef, undef, 0.1);
}
`

// soakTruth prints what is the case: what is mounted of which disk, which
// directories and units there are, who writes, and what has failed.
const soakTruth = `#!/bin/bash
while read -r _ _ dev _ path _; do
	case $path in /mnt/disks/*) echo "mount ${path#/mnt/disks/} $(cat /sys/dev/block/$dev/serial)" ;; esac
done </proc/self/mountinfo | sort
ls -A /mnt/disks | sed 's/^/directory /'
systemctl list-units --all --plain --no-legend 'mnt-disks-*.mount' | awk '{print "unit", $1, $3, $4}' | sort
systemctl list-units --plain --no-legend --state=active 'writes-*' | awk '{print "writer", $1}' | sort
systemctl list-units --failed --plain --no-legend | awk '{print "failed", $1}'
`

// soaked is the model of one disk.
type soaked struct {
	serial, image, uuid string
	size                int64
	id, name            string // as it is attached; empty if it is not
	away                bool   // kept unmounted: released, or unmounted by hand
	writing             bool
	durable             int // so many records are on it at least
}

func (d *soaked) mounted() bool  { return d.id != "" && !d.away }
func (d *soaked) where() string  { return "/mnt/disks/" + d.uuid }
func (d *soaked) writer() string { return "writes-" + d.uuid }

type soak struct {
	machine
	w     *worker.Worker
	c     *rand.Rand
	disks []*soaked
}

// truth waits until everything is as the model says.
func (s *soak) truth(after string) {
	s.t.Helper()
	var mounts, directories, units, writers []string
	for _, d := range s.disks {
		if d.mounted() {
			mounts = append(mounts, "mount "+d.uuid+" "+d.serial)
			directories = append(directories, "directory "+d.uuid)
			units = append(units, "unit "+unitOf(d.uuid)+" active mounted")
		}
		if d.writing {
			writers = append(writers, "writer "+d.writer()+".service")
		}
	}
	var all []string
	for _, kind := range [][]string{mounts, directories, units, writers} {
		slices.Sort(kind)
		all = append(all, kind...)
	}
	want := strings.Join(all, "\n")
	if _, err := s.Run(ctx(s.t), "for i in $(seq 1 400); do [ \"$(bash /root/truth)\" = "+quote(want)+" ] && exit 0; sleep 0.2; done; exit 1"); err != nil {
		s.t.Fatalf("after %s: %v; it is\n%s\nand should be\n%s\nthe daemon says:\n%s", after, err, s.run("bash /root/truth"), want, s.run("journalctl -b -u hotmount --no-pager -o cat | tail -n 30"))
	}
}

// acknowledged notes what the writers know to be durable.
func (s *soak) acknowledged() {
	s.t.Helper()
	for line := range strings.Lines(s.run("cd /run/acks && grep -H . * || true")) {
		uuid, n, _ := strings.Cut(strings.TrimSpace(line), ":")
		count, err := strconv.Atoi(n)
		if err != nil {
			continue // it is being written
		}
		for _, d := range s.disks {
			if d.uuid == uuid {
				d.durable = max(d.durable, count)
			}
		}
	}
}

// written checks the data of the disk and has the writer go on.
func (s *soak) written(d *soaked) {
	s.t.Helper()
	got, err := strconv.Atoi(s.run("mkdir -p /run/acks; perl /root/writer.pl count " + d.where()))
	if err != nil || got < d.durable {
		s.t.Fatalf("%s has %d records (%v), and %d were durable", d.serial, got, err, d.durable)
	}
	d.durable = got
	s.run(fmt.Sprintf("systemd-run -q --collect --unit=%s perl /root/writer.pl write %s /run/acks/%s", d.writer(), d.where(), d.uuid))
	d.writing = true
	s.takes(d.uuid, d.size-130*mib)
}

func (s *soak) stop(d *soaked) {
	s.t.Helper()
	s.run("systemctl stop " + d.writer())
	s.acknowledged()
	d.writing = false
}

// off and on are the two halves of a boot.
func (s *soak) off() {
	for _, d := range s.disks {
		d.writing = false
		d.away = false
	}
}

func (s *soak) on(after string) {
	s.t.Helper()
	s.truth(after)
	for _, d := range s.disks {
		if d.id == "" {
			continue
		}
		name, err := s.w.BlockDevice(ctx(s.t), d.id)
		if err != nil {
			s.t.Fatal(err)
		}
		d.name = name
		s.written(d)
	}
}

// aStep is what may be done to a disk, or to the machine (of d only the number
// counts then).
type aStep struct {
	name   string
	weight int
	can    func(d *soaked) bool
	do     func(s *soak, d *soaked)
}

func isMounted(d *soaked) bool { return d.mounted() }
func always(*soaked) bool      { return true }

func script(text string) func(*soak, *soaked) {
	return func(s *soak, _ *soaked) { s.run(text) }
}

var soakSteps = []aStep{
	{"attach", 6, func(d *soaked) bool { return d.id == "" }, func(s *soak, d *soaked) {
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		s.truth("attach")
		s.written(d)
	}},
	{"pull", 2, isMounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.detach(s.w, d.id)
		d.id, d.writing = "", false
	}},
	{"pull and attach again at once", 2, isMounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.detach(s.w, d.id)
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		d.writing = false
		s.truth("the return")
		s.written(d)
	}},
	{"release and detach", 2, isMounted, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("hotmount release " + d.name)
		d.away = true
		s.truth("release")
		s.detach(s.w, d.id)
		d.id, d.away = "", false
	}},
	{"grow", 2, isMounted, func(s *soak, d *soaked) {
		d.size += 64 * mib
		s.resize(s.w, d.id, d.size)
		s.takes(d.uuid, d.size-130*mib)
	}},
	{"grow while it is away", 1, func(d *soaked) bool { return d.id == "" }, func(s *soak, d *soaked) {
		d.size += 64 * mib
		if err := os.Truncate(d.image, d.size); err != nil {
			s.t.Fatal(err)
		}
	}},
	{"umount", 2, isMounted, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("umount " + d.where())
		d.away = true
	}},
	{"accept", 3, func(d *soaked) bool { return d.id != "" && d.away }, func(s *soak, d *soaked) {
		// What the daemon has not seen yet nobody can accept.
		s.wait("the hand to be seen", "hotmount plan | grep -q '^"+d.name+" .*hold '")
		s.run("hotmount accept " + d.name)
		d.away = false
		s.truth("accept")
		s.written(d)
	}},
	{"detach what is unmounted", 1, func(d *soaked) bool { return d.id != "" && d.away }, func(s *soak, d *soaked) {
		s.detach(s.w, d.id)
		d.id, d.away = "", false
	}},
	{"kill -9", 2, always, script("before=$(systemctl show -P MainPID hotmount); systemctl kill -s KILL hotmount; for i in $(seq 300); do pid=$(systemctl show -P MainPID hotmount); [ $pid != 0 ] && [ $pid != $before ] && exit 0; sleep 0.1; done; exit 1")},
	{"restart", 2, always, script("systemctl restart hotmount")},
	{"attach while it is down", 2, func(d *soaked) bool { return d.id == "" }, func(s *soak, d *soaked) {
		s.run("systemctl stop hotmount")
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		s.run("systemctl start hotmount")
		s.truth("the start")
		s.written(d)
	}},
	{"pull while it is down", 2, isMounted, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("systemctl stop hotmount")
		s.detach(s.w, d.id)
		d.id = ""
		s.truth("the end of the disk without a daemon")
		s.run("systemctl start hotmount")
	}},
	{"udevadm trigger", 1, always, script("udevadm trigger -s block; udevadm settle")},
	{"restart udevd, journald and dbus", 1, always, script("systemctl restart systemd-udevd systemd-journald; systemctl restart dbus")},
	{"daemon-reload and daemon-reexec", 1, always, script("systemctl daemon-reload; systemctl daemon-reexec")},
	{"reboot", 1, always, func(s *soak, _ *soaked) {
		s.acknowledged()
		s.off()
		if err := s.w.Reboot(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.on("a reboot")
	}},
	{"power cut", 1, always, func(s *soak, _ *soaked) {
		s.acknowledged()
		s.off()
		if err := s.w.PowerCut(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		if err := s.w.PowerOn(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.on("a power cut")
	}},
}

// TestSoak: random steps on disks that are written to; after each the mounts,
// directories, units and writers are as a small model says, and at each return of a
// disk all that was durable on it is there (issue 4).
func TestSoak(t *testing.T) {
	m, w := start(t, worker.Options{})
	s := &soak{machine: m, w: w, c: chance(t)}
	steps, disks := 16, 3
	if full {
		steps, disks = 500, 10
	}
	for path, text := range map[string]string{"/root/writer.pl": soakWriter, "/root/truth": soakTruth} {
		if err := m.Write(ctx(t), path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.run("sync") // a power cut would take them
	for i := range disks {
		d := &soaked{serial: fmt.Sprint("SOAK-", i), image: made(t, 320*mib), size: 320 * mib}
		out, err := exec.CommandContext(ctx(t), "blkid", "-p", "-o", "value", "-s", "UUID", d.image).Output()
		if err != nil {
			t.Fatal(err)
		}
		d.uuid = strings.TrimSpace(string(out))
		s.disks = append(s.disks, d)
	}
	for n := range steps {
		d := s.disks[s.c.IntN(len(s.disks))]
		var may []*aStep
		for i := range soakSteps {
			if step := &soakSteps[i]; step.can(d) {
				for range step.weight {
					may = append(may, step)
				}
			}
		}
		step := may[s.c.IntN(len(may))]
		t.Logf("step %d: %s, %s", n+1, step.name, d.serial)
		step.do(s, d)
		s.truth(step.name)
	}
}
