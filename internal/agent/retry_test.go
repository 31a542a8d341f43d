package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

// The function `many` returns n disks: vdb, vdc and so on. Each disk has its own XFS filesystem.
func many(n int) []*disk.Facts {
	var disks []*disk.Facts
	for i := range n {
		disks = append(disks, xfsDisk("vd"+string(rune('b'+i)), uint64(2+i), fmt.Sprintf("%s%02x", uuidA[:34], i)))
	}
	return disks
}

// TestRetriesKeepADistanceThatGrows checks that each retry waits twice as long as the retry before, and at most an
// hour. Each wait is shortened by up to a quarter at random, so that twenty disks are not all retried at once.
func TestRetriesKeepADistanceThatGrows(t *testing.T) {
	m := newMachine(many(20)...)
	tries := map[string][]time.Time{}
	m.gate = func(work, name string) {
		if work == "mount" {
			m.mu.Lock()
			defer m.mu.Unlock()
			tries[name] = append(tries[name], time.Now())
		}
	}
	for name := range m.disks {
		m.mountErr[name] = errors.New("no")
	}
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(6 * time.Hour)
		settle()
		seconds := map[time.Duration]bool{}
		for name, at := range tries {
			if len(at) < longest+4 || len(at) > longest+8 {
				t.Fatalf("%s: %d tries", name, len(at))
			}
			for i := range len(at) - 1 {
				gap, most := at[i+1].Sub(at[i]).Round(time.Millisecond), min(time.Second<<i, time.Hour)
				if gap < most*3/4 || gap > most {
					t.Errorf("%s: %s from try %d to the next, want up to a quarter less than %s", name, gap, i, most)
				}
			}
			seconds[at[1].Sub(at[0]).Round(time.Millisecond)] = true
		}
		if len(tries) != 20 || len(seconds) < 2 {
			t.Errorf("%d disks were tried, the second time after %v", len(tries), seconds)
		}
	})
}

// TestANodesFaultIsTriedForEver checks that a mount is retried every two minutes after a fault of the node. The agent
// must log the failure only once. If a fault of the disk follows, the mount must be retried after longer and longer
// waits.
func TestANodesFaultIsTriedForEver(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	broken := fmt.Errorf("cannot: %w", disk.OfNode(errors.New("systemd is silent")))
	m.mountErr["vdb"] = broken
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(5 * time.Hour)
		settle()
		log := strings.Join(m.log, "\n")
		if n := strings.Count(log, "mount vdb"); n < 5*60/3 || n > 5*60 {
			t.Errorf("%d tries in 5 hours", n)
		}
		if n := strings.Count(log, "vdb: failed"); n != 1 {
			t.Errorf("the failure is logged %d times", n)
		}
		m.change(func() { m.log, m.mountErr["vdb"] = nil, errors.New("it is damaged") })
		time.Sleep(5 * time.Hour)
		settle()
		if n := strings.Count(strings.Join(m.log, "\n"), "mount vdb"); n < 7 || n > 11 {
			t.Errorf("%d tries of a damaged disk in 5 hours", n)
		}
	})
	for _, fault := range []func(m *machine, err error){
		func(m *machine, err error) { m.mountErr["vdb"] = err },
		func(m *machine, _ error) { m.lookErr = errors.New("no") },
	} {
		m := newMachine(xfsDisk("vdb", 2, uuidA))
		fault(m, broken)
		with(t, m, func(t *testing.T, _ *Agent) {
			time.Sleep(61 * time.Minute)
			m.change(func() { m.mountErr, m.lookErr = map[string]error{}, nil })
			time.Sleep(130 * time.Second)
			settle()
			if m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
				t.Errorf("once it answers: %s", m.status)
			}
		})
	}
}

// TestFailureIsOfNode checks which failures are reported as faults of the node. After a fault of the node, hotmount
// must not offer a format token.
func TestFailureIsOfNode(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		ofNode bool
	}{
		"the node":   {fmt.Errorf("cannot: %w", disk.OfNode(errors.New("no space"))), true},
		"its users":  {fmt.Errorf("cannot: %w", disk.ErrHeld), true},
		"the disk":   {errors.New("it is damaged"), false},
		"no failure": {nil, false},
	} {
		m := newMachine(xfsDisk("vdb", 2, uuidA))
		m.mountErr["vdb"] = tt.err
		with(t, m, func(t *testing.T, _ *Agent) {
			settle()
			if m.again.OfNode != tt.ofNode || m.again.Count == 0 && tt.err != nil {
				t.Errorf("%s: %+v", name, m.again)
			}
		})
	}
}

// TestRescanTriesAgain checks that a rescan by the operator retries a failed mount at once. If the operator has not
// requested a look at all disks, the look must not retry the mount.
func TestRescanTriesAgain(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		settle()
		m.change(func() { m.mountErr, m.log = map[string]error{}, nil })
		a.LookAtAll()
		settle()
		if len(m.table) > 0 || m.status != "0 mounted, 0 held, 0 refused, 1 failing" {
			t.Errorf("without the operator: %s, %+v", m.status, m.table)
		}
		if err := a.Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle()
		if m.status != "1 mounted, 0 held, 0 refused, 0 failing" {
			t.Errorf("after a rescan: %s", m.status)
		}
	})
}

// TestEventsDuringALook checks that events during a look cause exactly one more look, however many events there are. If
// the disk changes during the first look, the second look must find the change.
func TestEventsDuringALook(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.ReadOnly = true
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, "vdb: refuse (read-only)\nready")
		m.change(func() { m.looks, m.gate = 0, func(string, string) { <-m.hang } })
		a.Look("vdb")
		m.change(func() { vdb.ReadOnly, vdb.Partitions = false, []string{"vdb1"} })
		for range hintsAtOnce - 1 {
			a.Look("vdb")
			settle()
		}
		close(m.hang)
		m.expect(t, "vdb: refuse (partitions)")
		if m.looks != 2 {
			t.Errorf("%d looks", m.looks)
		}
	})
}

// TestBounds checks that there are at most as many looks at once as there are workers. At most four mounts per worker,
// and two growths in all, may run at once. The remaining disks must wait for their turn.
func TestBounds(t *testing.T) {
	workers := testSettings().Workers
	for work, want := range map[string]int{"look": workers, "mount": 4 * workers, "grow": 2} {
		t.Run(work, func(t *testing.T) {
			m := newMachine(many(20)...)
			m.grow = true
			m.gate = func(w, _ string) {
				if w != work {
					return
				}
				m.mu.Lock()
				m.running++
				m.most = max(m.most, m.running)
				m.mu.Unlock()
				<-m.hang
				m.mu.Lock()
				defer m.mu.Unlock()
				m.running--
			}
			with(t, m, func(t *testing.T, _ *Agent) {
				settle()
				if m.running != want {
					t.Errorf("%d at once, want %d", m.running, want)
				}
				close(m.hang)
				settle()
				if m.most != want || m.status != "20 mounted, 0 held, 0 refused, 0 failing" {
					t.Errorf("at most %d at once, want %d; status %q", m.most, want, m.status)
				}
			})
		})
	}
}

// TestADiskWithoutAnEvent checks that the periodic look at all disks finds a change that no event reported.
func TestADiskWithoutAnEvent(t *testing.T) {
	m := newMachine()
	with(t, m, func(t *testing.T, _ *Agent) {
		m.change(func() { m.disks["vdb"] = xfsDisk("vdb", 2, uuidA) })
		m.expect(t, "ready")
		time.Sleep(testSettings().Rescan)
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA)
		// The periodic look at all disks looks once at each disk.
		m.change(func() { m.looks = 0 })
		time.Sleep(testSettings().Rescan)
		settle()
		if m.looks != 1 {
			t.Errorf("%d looks", m.looks)
		}
	})
}

// TestStatusOfEachKind checks that the status counts mounted, held and refused disks, and names the disks that are
// being proven.
func TestStatusOfEachKind(t *testing.T) {
	disks := []*disk.Facts{xfsDisk("vdb", 2, uuidA), blankDisk("vdc", 3), xfsDisk("vdd", 4, uuidB), blankDisk("vde", 5), blankDisk("vdf", 6)}
	disks[1].Standing.Formatting = "the hold file exists"
	disks[2].ReadOnly = true
	m := newMachine(disks...)
	m.slow = true
	m.table = []disk.MountPoint{{Dev: disks[0].Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, _ *Agent) {
		time.Sleep(statusEvery)
		settle()
		const want = "1 mounted, 1 held, 1 refused, 0 failing; proving that these disks are blank: vde, vdf"
		if m.status != want {
			t.Errorf("%q", m.status)
		}
	})
}

// TestReloadEndsWithReady checks that READY is sent after each reload, because the service manager waits for READY
// (sd_notify(3)). A reload during the start must not send READY before the agent is ready.
func TestReloadEndsWithReady(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.hangs = "vdb"
	with(t, m, func(t *testing.T, a *Agent) {
		reload := func(want string) {
			t.Helper()
			if err := a.Reload(t.Context(), testSettings()); err != nil {
				t.Error(err)
			}
			m.expect(t, want)
		}
		reload("reloading")
		time.Sleep(testSettings().ReadyTimeout)
		m.expect(t, "ready")
		reload("reloading\nready")
	})
}

// TestADiskThatFailsHasItsTime checks that a failing disk delays READY until the disk is mounted or ReadyTimeout is
// over. Before READY, the agent must not report a filesystem as missing.
func TestADiskThatFailsHasItsTime(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.mountErr["vdb"] = errors.New("no")
	m.notices = []string{"a filesystem is missing"}
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: failed: no`)
		time.Sleep(time.Second)
		m.expect(t, `
			format seq 2
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA)
		told := func() (told bool) {
			settle()
			m.change(func() { told = strings.Contains(strings.Join(m.log, "\n"), "ready\nnotice: a filesystem is missing") })
			return told
		}
		time.Sleep(testSettings().ReadyTimeout - 2*time.Second)
		if told() {
			t.Error("ready before its time")
		}
		time.Sleep(time.Second)
		if !told() {
			t.Error("not ready")
		}
	})
}

// TestGoneBeforeItIsMounted checks that the report about a gone disk names no mount point if the disk was never
// mounted.
func TestGoneBeforeItIsMounted(t *testing.T) {
	for _, fails := range []bool{true, false} {
		m := newMachine(xfsDisk("vdb", 2, uuidA))
		if fails {
			m.mountErr["vdb"] = errors.New("no")
		}
		with(t, m, func(t *testing.T, a *Agent) {
			settle()
			m.change(func() { delete(m.disks, "vdb") })
			a.Look("vdb")
			settle()
			if (m.lastGone == "") != fails {
				t.Errorf("fails %v: %q", fails, m.lastGone)
			}
		})
	}
}

// TestAFailedLookIsNoFailedMount checks that after a failed look the filesystem is mounted without being read first,
// because the failure shows nothing about the filesystem.
func TestAFailedLookIsNoFailedMount(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.lookErr = errors.New("no")
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, "vdb: failed: no")
		m.change(func() { m.lookErr = nil })
		time.Sleep(retryFirst)
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered
			ready`)
	})
}
