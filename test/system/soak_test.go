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

// place is where a disk is.
type place int

const (
	out place = iota
	mounted
	away // attached, and kept unmounted
	// anywhere is where a step is possible that leaves the disk where it is; after
	// a boot those that were away are mounted.
	anywhere
	boot
)

// aStep is what may be done to a disk at one place, or to the machine (of the disk
// only the number counts then), and leads to another.
type aStep struct {
	name     string
	weight   int
	from, to place
	do       func(s *soak, d *soaked)
}

// move is a step with the disk of that number.
type move struct {
	*aStep
	disk int
}

func (m move) apply(places []place) []place {
	places = slices.Clone(places)
	switch m.to {
	case anywhere:
	case boot:
		for i := range places {
			if places[i] == away {
				places[i] = mounted
			}
		}
	default:
		places[m.disk] = m.to
	}
	return places
}

// possible are the moves that are, each as often as it weighs.
func possible(steps []*aStep, places []place) []move {
	var may []move
	for _, step := range steps {
		for disk, at := range places {
			if step.from == at || step.from == anywhere {
				may = append(may, slices.Repeat([]move{{step, disk}}, step.weight)...)
			}
		}
	}
	return may
}

// plan gives at least so many moves of disks that are not attached, at random: first
// each step once, with what has to be done between, then any. Those named are
// left out.
func plan(c *rand.Rand, disks, least int, but ...string) []move {
	var moves []move
	var steps []*aStep
	for i := range soakSteps {
		if step := &soakSteps[i]; !slices.Contains(but, step.name) {
			steps = append(steps, step)
		}
	}
	todo := slices.Clone(steps)
	for places := make([]place, disks); len(todo) > 0 || len(moves) < least; {
		may := possible(todo, places)
		if len(may) == 0 {
			may = slices.DeleteFunc(possible(steps, places), func(m move) bool { return slices.Equal(m.apply(places), places) })
			if next := slices.DeleteFunc(slices.Clone(may), func(m move) bool { return len(possible(todo, m.apply(places))) == 0 }); len(next) > 0 {
				may = next
			}
		}
		m := may[c.IntN(len(may))]
		moves, places = append(moves, m), m.apply(places)
		todo = slices.DeleteFunc(todo, func(step *aStep) bool { return step == m.aStep })
	}
	return moves
}

func script(text string) func(*soak, *soaked) {
	return func(s *soak, _ *soaked) { s.run(text) }
}

var soakSteps = []aStep{
	{"attach", 6, out, mounted, func(s *soak, d *soaked) {
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		s.truth("attach")
		s.written(d)
	}},
	{"pull", 2, mounted, out, func(s *soak, d *soaked) {
		s.acknowledged()
		s.detach(s.w, d.id)
		d.id, d.writing = "", false
	}},
	{"pull and attach again at once", 2, mounted, mounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.detach(s.w, d.id)
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		d.writing = false
		s.truth("the return")
		s.written(d)
	}},
	{"release and detach", 2, mounted, out, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("hotmount release " + d.name)
		d.away = true
		s.truth("release")
		s.detach(s.w, d.id)
		d.id, d.away = "", false
	}},
	{"grow", 2, mounted, mounted, func(s *soak, d *soaked) {
		d.size += 64 * mib
		s.resize(s.w, d.id, d.size)
		s.takes(d.uuid, d.size-130*mib)
	}},
	{"grow while it is away", 1, out, out, func(s *soak, d *soaked) {
		d.size += 64 * mib
		if err := os.Truncate(d.image, d.size); err != nil {
			s.t.Fatal(err)
		}
	}},
	{"umount", 2, mounted, away, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("umount " + d.where())
		d.away = true
	}},
	{"accept", 3, away, mounted, func(s *soak, d *soaked) {
		// What the daemon has not seen yet nobody can accept.
		s.wait("the hand to be seen", "hotmount plan | grep -q '^"+d.name+" .*hold '")
		s.run("hotmount accept " + d.name)
		d.away = false
		s.truth("accept")
		s.written(d)
	}},
	{"detach what is unmounted", 1, away, out, func(s *soak, d *soaked) {
		s.detach(s.w, d.id)
		d.id, d.away = "", false
	}},
	{"kill -9", 2, anywhere, anywhere, script("before=$(systemctl show -P MainPID hotmount); systemctl kill -s KILL hotmount; for i in $(seq 300); do pid=$(systemctl show -P MainPID hotmount); [ $pid != 0 ] && [ $pid != $before ] && exit 0; sleep 0.1; done; exit 1")},
	{"restart", 2, anywhere, anywhere, script("systemctl restart hotmount")},
	{"attach while it is down", 2, out, mounted, func(s *soak, d *soaked) {
		s.run("systemctl stop hotmount")
		d.name, d.id = s.attach(s.w, worker.Disk{File: d.image, Serial: d.serial})
		s.run("systemctl start hotmount")
		s.truth("the start")
		s.written(d)
	}},
	{"pull while it is down", 2, mounted, out, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("systemctl stop hotmount")
		s.detach(s.w, d.id)
		d.id = ""
		s.truth("the end of the disk without a daemon")
		s.run("systemctl start hotmount")
	}},
	{"udevadm trigger", 1, anywhere, anywhere, script("udevadm trigger -s block; udevadm settle")},
	{"restart udevd, journald and dbus", 1, anywhere, anywhere, script("systemctl restart systemd-udevd systemd-journald; systemctl restart dbus")},
	{"daemon-reload and daemon-reexec", 1, anywhere, anywhere, script("systemctl daemon-reload; systemctl daemon-reexec")},
	{"reboot", 1, anywhere, boot, func(s *soak, _ *soaked) {
		s.acknowledged()
		s.off()
		if err := s.w.Reboot(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.on("a reboot")
	}},
	{"power cut", 1, anywhere, boot, func(s *soak, _ *soaked) {
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

// TestSoakPlan: whatever the seed, the plan can be gone through, and has each step in it.
func TestSoakPlan(t *testing.T) {
	for seed := range uint64(100) {
		places, done := make([]place, 3), map[string]bool{}
		moves := plan(rand.New(rand.NewPCG(seed, 0)), 3, 0)
		for _, m := range moves {
			if m.from != anywhere && m.from != places[m.disk] {
				t.Fatalf("seed %d: %s with a disk that is at %d", seed, m.name, places[m.disk])
			}
			places, done[m.name] = m.apply(places), true
		}
		if len(done) != len(soakSteps) || len(moves) > 30 {
			t.Errorf("seed %d: %d moves, and only %v", seed, len(moves), done)
		}
	}
}

// TestSoak: steps in random order on disks that are written to, each kind of them at
// least once; after each the mounts, directories, units and writers are as a small
// model says, and at each return of a disk all that was durable on it is there
// (issue 4).
func TestSoak(t *testing.T) {
	m, w := start(t, worker.Options{})
	s := &soak{machine: m, w: w}
	// A boot is by far the longest step. The power cut is the harder one, and other
	// short tests reboot.
	steps, disks, but := 0, 3, []string{"reboot"}
	if full {
		steps, disks, but = 500, 10, nil
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
	moves := plan(chance(t), disks, steps, but...)
	for n, move := range moves {
		d := s.disks[move.disk]
		t.Logf("step %d of %d: %s, %s", n+1, len(moves), move.name, d.serial)
		move.do(s, d)
		s.truth(move.name)
	}
}
