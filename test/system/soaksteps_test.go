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
	"strings"
	"testing"

	"hotmount/test/worker"
)

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
// each of the steps once, with what has to be done between, then any.
func plan(c *rand.Rand, steps []aStep, disks, least int) []move {
	var moves []move
	var all []*aStep
	for i := range steps {
		all = append(all, &steps[i])
	}
	todo := slices.Clone(all)
	for places := make([]place, disks); len(todo) > 0 || len(moves) < least; {
		may := possible(todo, places)
		if len(may) == 0 {
			may = slices.DeleteFunc(possible(all, places), func(m move) bool { return slices.Equal(m.apply(places), places) })
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

// upset is what must not matter, whatever goes on.
type upset struct{ name, script string }

var upsets = []upset{
	{"a restart of udevd", "systemctl restart systemd-udevd"},
	{"restarts of journald and dbus", "systemctl restart systemd-journald; systemctl restart dbus"},
	{"daemon-reload", "systemctl daemon-reload"},
	{"daemon-reexec", "systemctl daemon-reexec"},
	{"kill -9", "before=$(systemctl show -P MainPID hotmount); systemctl kill -s KILL hotmount; for i in $(seq 300); do pid=$(systemctl show -P MainPID hotmount); [ $pid != 0 ] && [ $pid != $before ] && exit 0; sleep 0.1; done; exit 1"},
	{"a restart", "systemctl restart hotmount"},
}

// formatSeconds is how long it takes in an emulated worker until a blank disk of
// 320 MiB is mounted, the settle time of the tests included. It is upset at any moment
// of that.
const formatSeconds = 7

// act is a step during which something else happens: a script, nothing if it is empty.
type act struct {
	name     string
	weight   int
	from, to place
	do       func(s *soak, d *soaked, meanwhile string)
}

var acts = []act{
	{"attach", 6, out, mounted, func(s *soak, d *soaked, meanwhile string) {
		s.plug(d, meanwhile)
		s.truth("attach")
		s.written(d)
	}},
	{"attach blank", 1, out, mounted, func(s *soak, d *soaked, meanwhile string) {
		s.blank(d)
		if meanwhile != "" {
			meanwhile = fmt.Sprintf("sleep %d; %s", s.chance.IntN(formatSeconds), meanwhile)
		}
		s.plug(d, meanwhile)
		s.formatted(d)
		s.truth("attach blank")
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
			// It is asked for again until it is said to be done.
			s.may(d, "")
			s.run("(" + s.later(meanwhile) + ") & " + release + " || true; wait $!")
			s.wait("the release", release)
		}
		d.away = true
		s.truth("release")
		s.pull(d, "")
	}},
	{"grow", 2, mounted, mounted, func(s *soak, d *soaked, meanwhile string) {
		d.size += 64 * mib
		s.resize(s.w, d.id, d.size)
		s.meanwhile(d, meanwhile)
		s.takes(d.uuid, d.size-130*mib)
	}},
}

// during is the act with the upset in the midst of it.
func during(a act, u upset) aStep {
	return aStep{a.name + " during " + u.name, 1, a.from, a.to, func(s *soak, d *soaked) { a.do(s, d, u.script) }}
}

// soakSteps are all there are.
func soakSteps() []aStep {
	steps := slices.Clone(soakSingle)
	for _, a := range acts {
		steps = append(steps, aStep{a.name, a.weight, a.from, a.to, func(s *soak, d *soaked) { a.do(s, d, "") }})
		for _, u := range upsets {
			steps = append(steps, during(a, u))
		}
	}
	for _, u := range upsets {
		steps = append(steps, aStep{u.name, 1, anywhere, anywhere, script(u.script)})
	}
	return steps
}

// pulling are the steps that pull a mounted disk or cut the power, as the act pull does. A container can do neither.
var pulling = []string{
	"pull and attach again at once", "pull and attach again while a pod has it", "pull while it is down",
	"pull while it is down and somebody has it", "a twin, and the first goes", "power cut",
}

// soakPulled are these and what they need, acts during one of the upsets at random. To pull a disk while no
// daemon runs is left to the full test: in the step that is done somebody has it as well.
func soakPulled(c *rand.Rand) []aStep {
	steps := slices.DeleteFunc(slices.Clone(soakSingle), func(s aStep) bool {
		return !slices.Contains(pulling, s.name) || s.name == "pull while it is down"
	})
	for _, a := range acts {
		if a.name == "attach" || a.name == "pull" {
			steps = append(steps, during(a, upsets[c.IntN(len(upsets))]))
		}
	}
	return steps
}

// soakStill are all others: each act and each upset, with one another at random.
func soakStill(c *rand.Rand) []aStep {
	steps := slices.DeleteFunc(slices.Clone(soakSingle), func(s aStep) bool { return slices.Contains(pulling, s.name) })
	still := slices.DeleteFunc(slices.Clone(acts), func(a act) bool { return a.name == "pull" })
	for i, u := range c.Perm(len(upsets)) {
		steps = append(steps, during(still[i%len(still)], upsets[u]))
	}
	return steps
}

var soakSingle = []aStep{
	{"pull and attach again at once", 2, mounted, mounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.pull(d, "")
		s.plug(d, "")
		s.truth("the return")
		s.written(d)
	}},
	{"pull and attach again while a pod has it", 1, mounted, mounted, func(s *soak, d *soaked) {
		s.acknowledged()
		s.holds(d, "unshare --mount --propagation private")
		s.pull(d, "")
		s.truth("the pull")
		s.may(d, "still has this filesystem mounted")
		s.plug(d, "")
		s.wait("it to be held", "hotmount status | grep '^"+d.name+" .* failed '")
		s.run("systemctl stop holder")
		s.truth("the end of the pod")
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
		s.truth("accept")
		s.written(d)
	}},
	{"detach what is unmounted", 1, away, out, func(s *soak, d *soaked) { s.pull(d, "") }},
	{"attach while it is down", 2, out, mounted, func(s *soak, d *soaked) {
		s.run("systemctl stop hotmount")
		s.plug(d, "")
		s.run("systemctl start hotmount")
		s.truth("the start")
		s.written(d)
	}},
	{"pull while it is down", 2, mounted, out, func(s *soak, d *soaked) {
		s.stop(d)
		s.run("systemctl stop hotmount")
		s.pull(d, "")
		s.truth("the end of the disk without a daemon")
		s.run("systemctl start hotmount")
	}},
	{"pull while it is down and somebody has it", 1, mounted, out, func(s *soak, d *soaked) {
		s.acknowledged()
		s.holds(d, "")
		s.run("systemctl stop hotmount")
		s.pull(d, "")
		s.run("systemctl start hotmount")
		s.truth("the start")
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
			s.run(trigger) // not the disks of others
		}
	}},
	{"reboot", 1, anywhere, boot, func(s *soak, _ *soaked) {
		s.off()
		if err := s.w.Reboot(ctx(s.t)); err != nil {
			s.t.Fatal(err)
		}
		s.on("a reboot")
	}},
	{"power cut", 1, anywhere, boot, func(s *soak, _ *soaked) {
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

// TestSoakPlan: whatever the seed, all plans can be gone through; each step is in the full one, each act and each
// upset in one of the short ones. The one for a container pulls nothing.
func TestSoakPlan(t *testing.T) {
	for seed := range uint64(100) {
		check := func(c *rand.Rand, steps []aStep, disks, most int) map[string]bool {
			places, done := make([]place, disks), map[string]bool{}
			moves := plan(c, steps, disks, 0)
			for _, m := range moves {
				if m.from != anywhere && m.from != places[m.disk] {
					t.Fatalf("seed %d: %s with a disk that is at %d", seed, m.name, places[m.disk])
				}
				places, done[m.name] = m.apply(places), true
			}
			if len(moves) > most {
				t.Errorf("seed %d: %d moves", seed, len(moves))
			}
			for _, s := range steps {
				if !done[s.name] {
					t.Errorf("seed %d: %s is not done", seed, s.name)
				}
			}
			return done
		}
		c := rand.New(rand.NewPCG(seed, 0))
		check(c, soakSteps(), 10, 100)
		still, pulled := check(c, soakStill(c), 3, 40), check(c, soakPulled(c), 3, 15)
		for name := range still {
			if name == "pull" || strings.HasPrefix(name, "pull during") || slices.Contains(pulling, name) {
				t.Errorf("seed %d: %s is for a container", seed, name)
			}
		}
		for _, step := range soakSingle {
			if !still[step.name] && !pulled[step.name] && step.name != "pull while it is down" {
				t.Errorf("seed %d: %s is in neither short plan", seed, step.name)
			}
		}
		names := strings.Join(slices.Sorted(maps.Keys(still)), "\n") + "\n" + strings.Join(slices.Sorted(maps.Keys(pulled)), "\n") + "\n"
		for _, a := range acts {
			if !strings.Contains(names, a.name+" during ") {
				t.Errorf("seed %d: no %s in the short plans:\n%s", seed, a.name, names)
			}
		}
		for _, u := range upsets {
			if !strings.Contains(names, " during "+u.name+"\n") {
				t.Errorf("seed %d: no %s in the short plans:\n%s", seed, u.name, names)
			}
		}
	}
}
