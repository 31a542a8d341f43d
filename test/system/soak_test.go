//go:build vm

package system

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// soakWriter appends records of 4 KiB to a file. soakWriter makes each record durable before it reports the record's
// number in the file that the last argument names. At its start, soakWriter truncates the file after the last correct
// record, because a crash may have cut a record off. If the first argument is "count", soakWriter only prints how many
// correct records are at the beginning of each directory's file.
const soakWriter = `use strict; use IO::Handle;
my ($do, @dirs) = @ARGV;
my $id;
sub record { my $n = shift; my $sum = sprintf "%08x", ($n * 2654435761 + hex $id) & 0xffffffff; return sprintf("%015d ", $n) . $sum x 510; }
sub right { my $log = shift; my ($n, $got) = 0; $n++ while sysread($log, $got, 4096) == 4096 and $got eq record($n); return $n; }
if ($do eq "count") {
	for my $dir (@dirs) {
		($id) = $dir =~ /([0-9a-f]{8})-/;
		my $n = 0;
		if (open(my $log, "<:raw", "$dir/log")) { $n = right($log) }
		print "$dir $n\n";
	}
	exit;
}
my ($dir, $ack) = @dirs;
($id) = $dir =~ /([0-9a-f]{8})-/;
open(my $log, "+>>:raw", "$dir/log") or die "open: $!";
sysseek($log, 0, 0);
my $n = right($log);
truncate($log, $n * 4096) or die "truncate: $!";
for (;; $n++) {
	(syswrite($log, record($n)) // 0) == 4096 or die "write: $!";
	$log->sync or die "sync: $!";
	open(my $a, ">", $ack) or die "ack: $!";
	print $a $n + 1, "\n"; close $a;
	select(undef, undef, undef, 0.5);
}
`

// soakTruth prints the actual state: the mounts by disk, the directories, the units, the writers and the failed units.
const soakTruth = `#!/bin/bash
while read -r _ _ dev _ path _; do
	disk=/sys/dev/block/$dev
	if [[ -e $disk/loop ]]; then serial=$(basename "$(<$disk/loop/backing_file)" .raw); else serial=$(cat $disk/serial 2>/dev/null); fi
	case $path in /mnt/disks/*) echo "mount ${path#/mnt/disks/} $serial" ;; esac
done </proc/self/mountinfo | sort
ls -A /mnt/disks | sed 's/^/directory /'
systemctl list-units --all --plain --no-legend >/run/units
awk '/^mnt-disks-.*\.mount / {print "unit", $1, $3, $4}' /run/units | sort
awk '/^writes-/ && $3 == "active" {print "writer", $1}' /run/units | sort
awk '$3 == "failed" {print "failed", $1}' /run/units
`

// soakSettled is a script that waits until soakTruth prints the given state. With the argument "rest", soakTruth must
// still print this state when the daemon has no work left. With the argument "pass", soakTruth must also print this
// state after a reload, at which the daemon looks at each disk again.
const soakSettled = `#!/bin/bash
comes() { for i in {1..400}; do "$@" && return; sleep 0.2; done; return 1; }
right() { [[ $(bash /root/truth) = "$want" ]]; }
quiet() { local s=$(systemctl show -P ActiveState -P StatusText hotmount); [[ $'\n'$s$'\n' = *$'\nactive\n'* && $s != *'working on'* ]]; }
idle() { quiet && sleep 0.7 && quiet; } # work is told after half a second, and in a reload at once
read_settings() { [[ $(stat -c %i /run/hotmount/settings.json) != "$inode" ]]; }
reload() { local inode=$(stat -c %i /run/hotmount/settings.json); systemctl reload hotmount && comes read_settings; }
stays() {
	comes $2 || { echo "the daemon does not come to rest" >&2; exit 1; }
	right || { echo "it was what it should be until the daemon $1" >&2; exit 1; }
}
want=$1
comes right || { echo "it does not become what it should be" >&2; exit 1; }
case $2 in
rest) stays "came to rest" idle ;;
pass) stays "came to rest" idle; reload || exit; stays "looked again" quiet ;;
esac
`

// soaked is the model of one disk. In a container the disk's serial is the name of its file.
type soaked struct {
	serial, image, uuid string
	size                int64
	id, name            string // empty while the disk is detached
	away                bool   // attached but not mounted, because the disk was released or unmounted by hand
	writing             bool
	durable             int    // the disk has at least this number of records
	mounting            string // systemd's invocation ID of the mount unit, or ""
}

func (d *soaked) mounted() bool  { return d.id != "" && !d.away }
func (d *soaked) where() string  { return "/mnt/disks/" + d.uuid }
func (d *soaked) writer() string { return "writes-" + d.uuid }

type soak struct {
	machine
	w      worker.Node
	vm     *worker.Worker // the worker, if it is a virtual machine; nil for a container
	disks  []*soaked
	chance *rand.Rand
	errors []string // patterns of the errors that the daemon may log in this step
	// serials is the number of serials used so far for the disks of a virtual machine.
	serials int
}

// waitForModel waits until the node's state matches the model, and checks that no mount was replaced.
func (s *soak) waitForModel(after string) {
	s.t.Helper()
	s.compare(after, "")
}

// The method `settled` makes the same checks as waitForModel. The method also waits until the daemon has no work left,
// and checks that the state is still the same. In the full test, only about every third call makes the daemon look at
// each disk again. Looking at all disks takes as long as a step.
func (s *soak) settled(after string) {
	s.t.Helper()
	how := "pass"
	if full && s.chance.IntN(3) > 0 {
		how = "rest"
	}
	s.compare(after, how)
}

func (s *soak) compare(after, how string) {
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
	out, err := s.Run(ctx(s.t), "bash /root/settled "+quote(want)+" "+how+" && systemctl show -p Id -p InvocationID 'mnt-disks-*.mount'")
	if err != nil {
		s.t.Fatalf("after %s: %v; it is\n%s\nand should be\n%s\nthe daemon says:\n%s", after, err, s.run("bash /root/truth"), want, s.run("journalctl -b -u hotmount --no-pager -o cat | tail -n 30"))
	}
	for _, d := range s.disks {
		if !d.mounted() {
			d.mounting = ""
			continue
		}
		_, rest, _ := strings.Cut(out, "Id="+unitOf(d.uuid)+"\nInvocationID=")
		now, _, _ := strings.Cut(rest, "\n")
		if now == "" || d.mounting != "" && d.mounting != now {
			s.t.Fatalf("after %s: %s was mounted by %q, and is by %q: nobody asked for that:\n%s", after, d.serial, d.mounting, now, s.run("journalctl -b --no-pager -o cat -u "+quote(unitOf(d.uuid))+" | tail -n 30"))
		}
		d.mounting = now
	}
}

// allowError permits log lines of the daemon with an error about the disk that matches the pattern. The log line must
// also say that the daemon will try again.
func (s *soak) allowError(d *soaked, pattern string) {
	who := `\(serial ` + d.serial + `, `
	if s.vm == nil {
		who = "^/dev/" + d.name + " "
	}
	s.errors = append(s.errors, who+`.*`+pattern+`.*; next try in `)
}

// checkErrors checks the errors that hotmount has logged in this boot since the previous call. Each error must be in
// the list of permitted errors. The method then clears the list of permitted errors for the next step.
func (s *soak) checkErrors(after string) {
	s.t.Helper()
	const mark = "the soak has looked"
	cursor := "/run/cursor"
	if s.vm == nil {
		cursor = "/root/cursor" // the journal counts all boots of a container as one boot, so the cursor must outlast a reboot
	}
	may := strings.Join(append(s.errors, "^"+mark+"$"), "|")
	// If no line matches, journalctl writes no cursor and fails (systemd 252).
	if got := s.run("logger -p user.err -t soak " + quote(mark) + " && journalctl --sync && journalctl -b -p err -o cat --no-pager -q --cursor-file=" + cursor + " _COMM=hotmount + SYSLOG_IDENTIFIER=soak >/run/said || exit; grep -vE -- " + quote(may) + " /run/said || true"); got != "" {
		s.t.Fatalf("after %s: errors of hotmount:\n%s", after, got)
	}
	s.errors = nil
}

// runMeanwhile runs the script at a random moment, at most one second after the disk is attached, detached or resized.
// hotmount may fail because of the script, and must then try again.
func (s *soak) runMeanwhile(d *soaked, script string) {
	s.t.Helper()
	if script != "" {
		s.allowError(d, "")
		s.run(s.later(script))
	}
}

func (s *soak) later(script string) string {
	return fmt.Sprintf("sleep 0.%03d; %s", s.chance.IntN(1000), script)
}

// The method `pull` pulls the disk. In a container, the method can pull only an unmounted disk.
func (s *soak) pull(d *soaked, meanwhile string) {
	s.t.Helper()
	if s.vm == nil {
		if !d.away || meanwhile != "" {
			s.t.Fatal("a mounted disk cannot be pulled from a container")
		}
		s.detach(s.w, d.id)
	} else {
		if err := s.vm.DetachSurprise(ctx(s.t), d.id); err != nil {
			s.t.Fatal(err)
		}
		s.runMeanwhile(d, meanwhile)
		if err := s.vm.WaitDetached(ctx(s.t), d.id); err != nil {
			s.t.Fatal(err)
		}
	}
	d.id, d.writing, d.away, d.mounting = "", false, false, ""
}

// plug attaches the disk.
func (s *soak) plug(d *soaked, meanwhile string) {
	s.t.Helper()
	disk := worker.Disk{File: d.image}
	if s.vm != nil {
		disk.Serial = d.serial
	}
	a, err := s.w.Attach(ctx(s.t), disk)
	if err != nil {
		s.t.Fatal(err)
	}
	d.id = a.ID
	if s.vm == nil {
		s.called(d)
	}
	s.runMeanwhile(d, meanwhile)
	s.called(d)
}

// The method `called` waits until the disk has a kernel name, and stores the name.
func (s *soak) called(d *soaked) {
	s.t.Helper()
	var err error
	if d.name, err = s.w.BlockDevice(ctx(s.t), d.id); err != nil {
		s.t.Fatal(err)
	}
}

// newDisk returns the model of a disk that hotmount has not seen before.
func (s *soak) newDisk(image string) *soaked {
	d := &soaked{serial: strings.TrimSuffix(filepath.Base(image), ".raw"), image: image, size: 320 * mib}
	if s.vm != nil {
		s.serials++
		d.serial = fmt.Sprint("SOAK-", s.serials)
	}
	return d
}

// The method `blank` replaces the detached disk by a new blank disk with a new serial. Without a new serial, hotmount
// could hold the blank disk, because its serial or its slot could be that of a former disk.
func (s *soak) blank(d *soaked) {
	s.t.Helper()
	if err := os.Remove(d.image); err != nil {
		s.t.Fatal(err)
	}
	*d = *s.newDisk(blank(s.t, 320*mib))
}

// The method `formatted` checks that a blank disk is formatted once, as XFS.
func (s *soak) formatted(d *soaked) {
	s.t.Helper()
	d.uuid = s.mounted(d.name)
	if got := s.run("findmnt -no FSTYPE " + d.where()); got != disk.XFS {
		s.t.Fatalf("%s is %s", d.serial, got)
	}
	serial := d.serial
	if s.vm == nil {
		serial = ""
	}
	all := slices.DeleteFunc(s.history(), func(r disk.Record) bool { return (serial == "" || r.Identity.Serial != serial) && r.UUID != d.uuid })
	if len(all) != 1 || !all[0].Made() || all[0].UUID != d.uuid || all[0].Identity.Serial != serial || all[0].By != disk.ByDaemon {
		s.t.Fatalf("the formats of %s, which is mounted as %s: %+v", d.serial, d.uuid, all)
	}
}

// keepOpen starts a unit that keeps a file of the disk open. If the parameter `unshare` is empty, the unit uses the
// host's mount. Otherwise the parameter is a command that runs the unit's process in a mount namespace of its own, as
// in a container. While the unit runs, hotmount may log errors about the unmount, and must retry the unmount.
func (s *soak) keepOpen(d *soaked, unshare string) {
	s.t.Helper()
	s.allowError(d, "cannot unmount ")
	s.run("systemd-run -q --collect --unit=holder " + unshare + " sh -c 'exec 3<" + d.where() + "/log; exec sleep infinity'")
	s.wait("the holder", "grep -qx sleep /proc/$(systemctl show -P MainPID holder)/comm")
}

// The method `acknowledged` stores the number of durable records that each writer has reported.
func (s *soak) acknowledged() {
	s.t.Helper()
	for line := range strings.Lines(s.run("mkdir -p /run/acks; cd /run/acks; grep -H . * || true")) {
		uuid, n, _ := strings.Cut(strings.TrimSpace(line), ":")
		count, err := strconv.Atoi(n)
		if err != nil {
			continue // the number is incomplete, because the writer is just writing the file
		}
		for _, d := range s.disks {
			if d.uuid == uuid {
				d.durable = max(d.durable, count)
			}
		}
	}
}

// The method `accept` accepts a disk that was unmounted by hand. Before the accept, the method waits until the daemon
// has noticed the unmount.
func (s *soak) accept(d *soaked) {
	s.t.Helper()
	s.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+d.name+" .*hold '")
	s.run("hotmount accept " + d.name)
	d.away = false
}

// checkData checks the data of the given disks that are mounted, even during writes. In a virtual machine checkData
// first drops the page cache, so that the data is read from the disks.
func (s *soak) checkData(disks ...*soaked) {
	s.t.Helper()
	s.acknowledged()
	disks = slices.DeleteFunc(slices.Clone(disks), func(d *soaked) bool { return !d.mounted() })
	count := "[ ! -w /proc/sys/vm/drop_caches ] || echo 3 >/proc/sys/vm/drop_caches; perl /root/writer.pl count"
	for _, d := range disks {
		count += " " + d.where()
	}
	counted := strings.Split(s.run(count), "\n")
	for i, d := range disks {
		var got int
		if _, err := fmt.Sscanf(counted[i], d.where()+" %d", &got); err != nil || got < d.durable {
			s.t.Fatalf("%s has %d records (%v), and %d were durable", d.serial, got, err, d.durable)
		}
	}
}

// The method `written` checks the data of the disk and restarts the writer.
func (s *soak) written(d *soaked) {
	s.t.Helper()
	s.checkData(d)
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

// shutDown prepares the model for a reboot or a power cut, and startUp checks the model and restarts the writers
// afterwards.
func (s *soak) shutDown() {
	s.t.Helper()
	s.checkErrors("the step before")
	s.acknowledged()
	for _, d := range s.disks {
		d.writing, d.away, d.mounting = false, false, ""
	}
}

func (s *soak) startUp(after string) {
	s.t.Helper()
	s.waitForModel(after)
	for _, d := range s.disks {
		if d.id == "" {
			continue
		}
		s.called(d)
		s.written(d)
	}
}

// TestSoak runs the steps of soakStill on disks with writers, in a random order and each at least once. After each step
// the mounts, directories, units and writers must match a small model. No mount may have been replaced. Each mounted
// disk must still contain all its durable data (issue 4). hotmount may log only errors that the step causes. A blank
// disk must be formatted exactly once.
func TestSoak(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	s := &soak{machine: m, w: w, chance: randomSource(t)}
	s.vm, _ = w.(*worker.Worker)
	s.soak(soakStill(s.chance), 500)
}

// TestSoakPulled runs the steps of soakPulled, with the checks of TestSoak. The full test runs all steps, and `make
// test-full` runs TestSoakPulled five times.
func TestSoakPulled(t *testing.T) {
	m, w := start(t, worker.Options{})
	s := &soak{machine: m, w: w, vm: w, chance: randomSource(t)}
	steps := soakPulled(s.chance)
	if full {
		steps = soakSteps()
	}
	s.soak(steps, 100)
}

// soak runs the steps. The full test runs at least the given number of random steps.
func (s *soak) soak(steps []aStep, least int) {
	t, m, disks := s.t, s.machine, 10
	if !full {
		least, disks = 0, 3
	}
	for path, text := range map[string]string{"/root/writer.pl": soakWriter, "/root/truth": soakTruth, "/root/settled": soakSettled} {
		if err := m.Write(ctx(t), path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.run("sync") // without sync, a power cut would lose the files just made
	for range disks {
		d := s.newDisk(made(t, 320*mib))
		out, err := exec.CommandContext(ctx(t), "blkid", "-p", "-o", "value", "-s", "UUID", d.image).Output()
		if err != nil {
			t.Fatal(err)
		}
		d.uuid = strings.TrimSpace(string(out))
		s.disks = append(s.disks, d)
	}
	moves := plan(s.chance, steps, disks, least)
	for n, move := range moves {
		d := s.disks[move.disk]
		t.Logf("step %d of %d: %s, %s", n+1, len(moves), move.name, d.serial)
		began := time.Now()
		move.do(s, d)
		s.settled(move.name)
		s.checkErrors(move.name)
		s.checkData(s.disks...)
		t.Logf("step %d took %s", n+1, time.Since(began).Round(100*time.Millisecond))
	}
	for _, d := range s.disks {
		if d.id == "" {
			s.plug(d, "")
		} else if d.away {
			s.accept(d)
		}
	}
	s.waitForModel("the last attachments")
	s.checkData(s.disks...)
	s.checkErrors("the last attachments")
}

// The type `place` is the state of a disk: detached (out), mounted, or attached but not mounted (away).
type place int

const (
	out place = iota
	mounted
	away // attached but kept unmounted
	// With "from: anywhere" a step is possible in each state of a disk. With "to: anywhere" a step does not change the
	// state. After a step with "to: boot", such as a reboot, all attached disks are mounted.
	anywhere
	boot
)

// aStep is a step with one disk, or a step of the whole machine. A step of the whole machine, such as a reboot, affects
// no disk in particular.
type aStep struct {
	name     string
	weight   int
	from, to place
	do       func(s *soak, d *soaked)
}

// move is a step with the index of its disk.
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

// possibleMoves returns the possible moves. Each move occurs as many times as the weight of its step.
func possibleMoves(steps []*aStep, places []place) []move {
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

// plan returns at least the given number of random moves. At first no disk is attached. Each step occurs at least once,
// with the moves that make it possible. When all steps have occurred, random moves of all steps follow.
func plan(c *rand.Rand, steps []aStep, disks, least int) []move {
	var moves []move
	var all []*aStep
	for i := range steps {
		all = append(all, &steps[i])
	}
	todo := slices.Clone(all)
	for places := make([]place, disks); len(todo) > 0 || len(moves) < least; {
		may := possibleMoves(todo, places)
		if len(may) == 0 {
			may = possibleMoves(all, places)
			if len(todo) > 0 {
				// A move that changes no disk's state makes no further step possible.
				may = slices.DeleteFunc(may, func(m move) bool { return slices.Equal(m.apply(places), places) })
			}
			if next := slices.DeleteFunc(slices.Clone(may), func(m move) bool { return len(possibleMoves(todo, m.apply(places))) == 0 }); len(next) > 0 {
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

// disturbance is a script, such as a restart of udevd, that must have no lasting effect, whenever it runs.
type disturbance struct{ name, script string }

var disturbances = []disturbance{
	{"a restart of udevd", "systemctl restart systemd-udevd"},
	{"restarts of journald and dbus", "systemctl restart systemd-journald; systemctl restart dbus"},
	{"daemon-reload", "systemctl daemon-reload"},
	{"daemon-reexec", "systemctl daemon-reexec"},
	{"kill -9", "before=$(systemctl show -P MainPID hotmount); systemctl kill -s KILL hotmount; for i in $(seq 300); do pid=$(systemctl show -P MainPID hotmount); [ $pid != 0 ] && [ $pid != $before ] && exit 0; sleep 0.1; done; exit 1"},
	{"a restart", "systemctl restart hotmount"},
}

// formatSeconds is the time until a blank disk of 320 MiB is mounted in an emulated worker, with the settle time of the
// tests. The disturbance happens at a random moment within formatSeconds.
const formatSeconds = 7

// act is a step during which a disturbance can happen. The function in the last field carries out the step. The last
// parameter of the function is a script to run during the step. An empty script means no disturbance.
type act struct {
	name     string
	weight   int
	from, to place
	do       func(s *soak, d *soaked, meanwhile string)
}

var acts = []act{
	{"attach", 6, out, mounted, func(s *soak, d *soaked, meanwhile string) {
		s.plug(d, meanwhile)
		s.waitForModel("attach")
		s.written(d)
	}},
	{"attach blank", 1, out, mounted, func(s *soak, d *soaked, meanwhile string) {
		s.blank(d)
		if meanwhile != "" {
			meanwhile = fmt.Sprintf("sleep %d; %s", s.chance.IntN(formatSeconds), meanwhile)
		}
		s.plug(d, meanwhile)
		s.formatted(d)
		s.waitForModel("attach blank")
		s.written(d)
	}},
	{"pull", 2, mounted, out, func(s *soak, d *soaked, meanwhile string) {
		s.acknowledged()
		s.pull(d, meanwhile)
	}},
	{"release and detach", 2, mounted, out, func(s *soak, d *soaked, meanwhile string) {
		s.stop(d)
		release := "hotmount release " + d.name
		if meanwhile == "" {
			s.run(release)
		} else {
			// The test repeats `hotmount release` until it succeeds.
			s.allowError(d, "")
			s.run("(" + s.later(meanwhile) + ") & " + release + " || true; wait $!")
			s.wait("the release", release)
		}
		d.away = true
		s.waitForModel("release")
		s.pull(d, "")
	}},
	{"grow", 2, mounted, mounted, func(s *soak, d *soaked, meanwhile string) {
		d.size += 64 * mib
		s.resize(s.w, d.id, d.size)
		s.runMeanwhile(d, meanwhile)
		s.takes(d.uuid, d.size-130*mib)
	}},
}

// stepDuring returns the step that does the act and starts the disturbance in the middle of the act.
func stepDuring(a act, u disturbance) aStep {
	return aStep{a.name + " during " + u.name, 1, a.from, a.to, func(s *soak, d *soaked) { a.do(s, d, u.script) }}
}

// soakSteps returns all steps, with each combination of an act and a disturbance.
func soakSteps() []aStep {
	steps := slices.Clone(soakSingle)
	for _, a := range acts {
		steps = append(steps, aStep{a.name, a.weight, a.from, a.to, func(s *soak, d *soaked) { a.do(s, d, "") }})
		for _, u := range disturbances {
			steps = append(steps, stepDuring(a, u))
		}
	}
	for _, u := range disturbances {
		steps = append(steps, aStep{u.name, 1, anywhere, anywhere, script(u.script)})
	}
	return steps
}

// The list `pulling` contains the names of the steps that pull a mounted disk or cut the power. The act "pull", which
// is not in the list, also pulls a mounted disk. In a container a mounted disk cannot be pulled, and the power cannot
// be cut.
var pulling = []string{
	"pull and attach again at once", "pull and attach again while a pod has it", "pull while it is down",
	"pull while it is down and somebody has it", "a twin, and the first goes", "power cut",
}

// soakPulled returns the steps in the list `pulling`, and the acts "attach" and "pull". Each of the two acts happens
// during a random disturbance. Two steps pull a disk while the daemon is stopped. Of these two, soakPulled returns only
// the step in which a process keeps a file of the disk open. The full test runs both steps.
func soakPulled(c *rand.Rand) []aStep {
	steps := slices.DeleteFunc(slices.Clone(soakSingle), func(s aStep) bool {
		return !slices.Contains(pulling, s.name) || s.name == "pull while it is down"
	})
	for _, a := range acts {
		if a.name == "attach" || a.name == "pull" {
			steps = append(steps, stepDuring(a, disturbances[c.IntN(len(disturbances))]))
		}
	}
	return steps
}

// soakStill returns the steps of soakSingle that do not pull a mounted disk or cut the power. For each disturbance,
// soakStill also returns a step in which the disturbance happens during a randomly chosen act. Each act except the pull
// has at least one such step.
func soakStill(c *rand.Rand) []aStep {
	steps := slices.DeleteFunc(slices.Clone(soakSingle), func(s aStep) bool { return slices.Contains(pulling, s.name) })
	still := slices.DeleteFunc(slices.Clone(acts), func(a act) bool { return a.name == "pull" })
	for i, u := range c.Perm(len(disturbances)) {
		steps = append(steps, stepDuring(still[i%len(still)], disturbances[u]))
	}
	return steps
}

var soakSingle = []aStep{
	{"pull and attach again at once", 2, mounted, mounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.pull(d, "")
		s.plug(d, "")
		s.waitForModel("the return")
		s.written(d)
	}},
	{"pull and attach again while a pod has it", 1, mounted, mounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.keepOpen(d, "unshare --mount --propagation private")
		s.pull(d, "")
		s.waitForModel("the pull")
		s.allowError(d, "still has the filesystem mounted")
		s.plug(d, "")
		s.wait("it to fail", "hotmount status | grep '^"+d.name+" .* failed '")
		s.run("systemctl stop holder")
		s.waitForModel("the end of the pod")
		s.written(d)
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
		s.accept(d)
		s.waitForModel("accept")
		s.written(d)
	}},
	{"detach what is unmounted", 1, away, out, func(s *soak, d *soaked) { s.pull(d, "") }},
	{"attach while it is down", 2, out, mounted, func(s *soak, d *soaked) {
		s.run("systemctl stop hotmount")
		s.plug(d, "")
		s.run("systemctl start hotmount")
		s.waitForModel("the start")
		s.written(d)
	}},
	{"pull while it is down", 2, mounted, out, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("systemctl stop hotmount")
		s.pull(d, "")
		s.waitForModel("the end of the disk without a daemon")
		s.run("systemctl start hotmount")
	}},
	{"pull while it is down and somebody has it", 1, mounted, out, func(s *soak, d *soaked) {
		s.acknowledged()
		s.keepOpen(d, "")
		s.run("systemctl stop hotmount")
		s.pull(d, "")
		s.run("systemctl start hotmount")
		s.waitForModel("the start")
		s.run("systemctl stop holder")
	}},
	{"a twin, and the first goes", 1, mounted, out, func(s *soak, d *soaked) {
		copied := filepath.Join(s.t.TempDir(), "twin.raw")
		if out, err := exec.CommandContext(ctx(s.t), "cp", "--sparse=always", d.image, copied).CombinedOutput(); err != nil {
			s.t.Fatalf("cp: %v: %s", err, out)
		}
		name, id := s.attach(s.w, worker.Disk{File: copied, Serial: "TWIN-OF-" + d.serial})
		refused := "hotmount status | grep '^" + name + " .* refused '"
		s.wait("the twin to be refused", refused)
		s.settled("the coming of a twin")
		s.acknowledged()
		s.pull(d, "")
		s.settled("the end of its first")
		s.run(refused)
		s.detach(s.w, id)
		if err := os.Remove(copied); err != nil {
			s.t.Fatal(err)
		}
	}},
	{"udevadm trigger", 1, anywhere, anywhere, func(s *soak, _ *soaked) {
		if s.vm != nil {
			s.run("udevadm trigger -s block; udevadm settle")
		} else {
			s.run(trigger) // a plain udevadm trigger would also trigger the host's disks
		}
	}},
	{"reboot", 1, anywhere, boot, func(s *soak, _ *soaked) {
		s.shutDown()
		if err := s.w.Reboot(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.startUp("a reboot")
	}},
	{"power cut", 1, anywhere, boot, func(s *soak, _ *soaked) {
		s.shutDown()
		if err := s.w.PowerCut(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		if err := s.w.PowerOn(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.startUp("a power cut")
	}},
}

// TestSoakPlan checks that the plan for each seed can be carried out. The full plan contains each step. A long plan
// repeats each step. Together, the two short plans contain every act and every disturbance. The plan for a container
// contains no step that pulls a mounted disk.
func TestSoakPlan(t *testing.T) {
	for seed := range uint64(100) {
		check := func(c *rand.Rand, steps []aStep, disks, least, most int) map[string]int {
			places, done := make([]place, disks), map[string]int{}
			moves := plan(c, steps, disks, least)
			for _, m := range moves {
				if m.from != anywhere && m.from != places[m.disk] {
					t.Fatalf("seed %d: %s with a disk that is at %d", seed, m.name, places[m.disk])
				}
				places = m.apply(places)
				done[m.name]++
			}
			if len(moves) > most {
				t.Errorf("seed %d: %d moves", seed, len(moves))
			}
			for _, s := range steps {
				if done[s.name] == 0 || least > 0 && done[s.name] == 1 {
					t.Errorf("seed %d: %s occurs %d times in %d moves", seed, s.name, done[s.name], len(moves))
				}
			}
			return done
		}
		c := rand.New(rand.NewPCG(seed, 0))
		check(c, soakSteps(), 10, 0, 100)
		if seed < 5 { // long plans take longer
			check(c, soakSteps(), 10, 3000, 3000)
		}
		still, pulled := check(c, soakStill(c), 3, 0, 40), check(c, soakPulled(c), 3, 0, 15)
		for name := range still {
			if name == "pull" || strings.HasPrefix(name, "pull during") || slices.Contains(pulling, name) {
				t.Errorf("seed %d: %s is for a container", seed, name)
			}
		}
		for _, step := range soakSingle {
			if still[step.name]+pulled[step.name] == 0 && step.name != "pull while it is down" {
				t.Errorf("seed %d: %s is in neither short plan", seed, step.name)
			}
		}
		names := strings.Join(slices.Sorted(maps.Keys(still)), "\n") + "\n" + strings.Join(slices.Sorted(maps.Keys(pulled)), "\n") + "\n"
		for _, a := range acts {
			if !strings.Contains(names, a.name+" during ") {
				t.Errorf("seed %d: no %s in the short plans:\n%s", seed, a.name, names)
			}
		}
		for _, u := range disturbances {
			if !strings.Contains(names, " during "+u.name+"\n") {
				t.Errorf("seed %d: no %s in the short plans:\n%s", seed, u.name, names)
			}
		}
	}
}
