package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/store"
)

// The type `recorded` is a machine with a real store of records.
type recorded struct {
	*machine
	store store.Store
	known *store.Expectations
	// The field `takes` is the duration of a write of a record. If the field `full` is true, every write of a record
	// fails.
	takes time.Duration
	full  bool
}

const thisBoot = "11111111-0000-4000-8000-000000000001"

func record(t *testing.T, m *machine) *recorded {
	t.Helper()
	s := store.Store{State: t.TempDir(), Runtime: t.TempDir()}
	if _, err := s.Init(nil); err != nil {
		t.Fatal(err)
	}
	return &recorded{machine: m, store: s, known: new(store.Expectations)}
}

func (r *recorded) Gather(*disk.Settings) func(name string) (disk.Facts, error) {
	memory := r.store.Load(thisBoot, r.known)
	return func(name string) (disk.Facts, error) {
		f, err := r.look(name)
		if err == nil {
			f.Standing = memory.Standing(&f)
		}
		r.pass("look", name)
		return f, err
	}
}

func (r *recorded) Expect(s disk.Sighting, name string) (err error) {
	s.Identity.Boot = thisBoot
	if s.Left {
		r.mu.Lock()
		s.Newest, err = r.newest(name)
		r.mu.Unlock()
	}
	r.known.Expect(s)
	return err
}

func (r *recorded) Remember(expected bool, noted []disk.Sighting) error {
	var err error
	if expected {
		err = r.remember()
	}
	if len(noted) > 0 {
		err = errors.Join(err, r.note(noted))
	}
	return err
}

func (r *recorded) remember() error {
	if time.Sleep(r.takes); r.full {
		return errors.New("no space left on device")
	}
	all := r.known.Expected()
	err := r.store.Remember(all)
	if err == nil {
		r.known.Recorded(all)
	}
	return err
}

func (r *recorded) RecordHold(f *disk.Facts, reason disk.Reason, how string) error {
	switch reason {
	case "", disk.ReasonReleased, disk.ReasonUnmounted, disk.ReasonUsed:
		return r.machine.RecordHold(f, reason, how)
	}
	if r.full {
		return errors.New("no space left on device")
	}
	return r.store.RecordHold(f, thisBoot, reason)
}

// TestACopyIsNotMountedWhenTheOriginalIsPulled checks that a copy that was attached together with the original is not
// mounted when the original is pulled. The serials, the order of the looks, and the time that the write of a record
// takes must not matter. Even if hotmount cannot write any record, the copy must not be mounted.
func TestACopyIsNotMountedWhenTheOriginalIsPulled(t *testing.T) {
	for _, serial := range []string{"S", "OTHER", ""} {
		for name, tt := range map[string]struct {
			looks []string
			// If the field `before` is true, the agent also looks at the copy while the original is still attached.
			before, full bool
			takes        time.Duration
			// If the field `during` is true, the look at the copy overlaps the look that notices the departure of the
			// original.
			during bool
		}{
			"the copy first":                      {looks: []string{"vdc", "vdb"}},
			"the original first":                  {looks: []string{"vdb", "vdc"}},
			"the original first, slowly recorded": {looks: []string{"vdb", "vdc"}, takes: time.Minute},
			"at once":                             {looks: []string{"vdb", "vdc"}, during: true},
			"no room":                             {looks: []string{"vdb", "vdc"}, before: true, full: true},
			"no room, the copy first":             {looks: []string{"vdc", "vdb"}, full: true},
			"no room, the original first":         {looks: []string{"vdb", "vdc"}, full: true},
			"no room, at once":                    {looks: []string{"vdb", "vdc"}, during: true, full: true},
		} {
			t.Run(strings.Join([]string{name, "serial", serial}, " "), func(t *testing.T) {
				original, same := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
				original.Serial, original.Slot, same.Serial, same.Slot = "S", "pci-5", serial, "pci-6"
				if serial == "" {
					original.Serial = ""
				}
				m := newMachine(original)
				r := record(t, m)
				r.full = tt.full
				withHost(t, m, r, func(t *testing.T, a *Agent) {
					settle()
					if len(m.table) != 1 {
						t.Fatalf("the original is not mounted: %v", m.table)
					}
					m.change(func() { m.disks["vdc"], r.takes = same, tt.takes })
					if tt.before {
						a.Look("vdc")
						settle()
					}
					// When a disk is gone, PID 1 unmounts the disk's filesystem if nothing uses it.
					m.change(func() { delete(m.disks, "vdb"); m.table = nil })
					if tt.during {
						// The look at the copy reads the records before the agent has noticed that the original is
						// gone.
						m.gate = func(work, name string) {
							if work == "look" && name == "vdc" {
								time.Sleep(time.Second)
							}
						}
						a.Look("vdc")
						time.Sleep(time.Millisecond)
						a.Look("vdb")
						time.Sleep(time.Minute)
					} else {
						for _, name := range tt.looks {
							a.Look(name)
							time.Sleep(50 * time.Millisecond)
						}
					}
					settle()
					time.Sleep(tt.takes)
					if len(m.table) != 0 || m.status != "0 mounted, 0 held, 1 refused, 0 failing" {
						t.Errorf("the copy is mounted in place of the original: %v, %s", m.table, m.status)
					}
					if told, ok := m.told["vdc"]; !ok || len(told.SameUUID) > 0 {
						t.Errorf("told %v, and last when these were known beside it: %v", ok, told.SameUUID)
					}
				})
			})
		}
	}
}

// TestBackUnderAnotherName checks that a pulled disk that returns under another name is not treated as a copy. The new
// name appeared after the old name had gone, so both names belong to one disk.
func TestBackUnderAnotherName(t *testing.T) {
	for _, full := range []bool{false, true} {
		was, is := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
		was.Serial, was.Slot, is.Serial, is.Slot = "S", "pci-5", "S", "pci-6"
		m := newMachine(was)
		r := record(t, m)
		r.full = full
		withHost(t, m, r, func(t *testing.T, a *Agent) {
			m.change(func() {
				delete(m.disks, "vdb")
				m.table, m.disks["vdc"], m.later = nil, is, []string{"vdc"}
			})
			a.Look("vdc")
			a.Look("vdb")
			settle()
			if len(m.table) != 1 || m.table[0].Dev != is.Dev {
				t.Errorf("nothing can be recorded %v: it is not mounted again: %v, %s", full, m.table, m.status)
			}
		})
	}
}

// TestACopyThatWaitsInLine checks a copy, with the original's serial, that waits for its mount. The mount of the copy
// was decided before the agent looked at the original. If the original leaves during the wait, the copy must not be
// mounted. The copy must not be mounted even if the original is read-only and was last mounted in an earlier boot. A
// copy with another serial must not be mounted even if the original was never recorded.
func TestACopyThatWaitsInLine(t *testing.T) {
	for boot, mounted := range map[string]bool{thisBoot: true, "22222222-0000-4000-8000-000000000001": false, "": false} {
		original, same := xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidA)
		original.Serial, original.Slot, same.Serial, same.Slot = "S", "pci-5", "S", "pci-6"
		if boot == "" {
			same.Serial = "T"
		}
		original.ReadOnly = !mounted
		m := newMachine(original, same)
		for i := range mountsPerWorker * testSettings().Workers {
			name := fmt.Sprintf("vd%c", 'd'+i)
			m.disks[name] = xfsDisk(name, uint64(10+i), fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		}
		if mounted {
			m.table = []disk.MountPoint{{Path: "/mnt/disks/" + uuidA, Root: "/", Type: "xfs", Dev: original.Dev}}
		}
		r := record(t, m)
		if boot != "" {
			if err := r.store.Remember([]disk.Sighting{{Identity: original.Identity(boot), UUID: uuidA, Type: "xfs", Class: "default", Directory: "/mnt/disks", Mounted: time.Now()}}); err != nil {
				t.Fatal(err)
			}
		}
		slow, mounts := time.Minute, 0
		m.gate = func(work, name string) {
			m.mu.Lock()
			d := time.Duration(0)
			switch {
			case work == "mount":
				mounts, d = mounts+1, 5*time.Minute
			case work == "look" && name == "vdb":
				d, slow = slow, 0
			case work == "look" && name == "vdc":
				d = time.Second
			}
			m.mu.Unlock()
			time.Sleep(d)
		}
		withHost(t, m, r, func(t *testing.T, a *Agent) {
			time.Sleep(45 * time.Second) // ready_timeout is over, and the original has not appeared
			m.change(func() {
				if got := strings.Join(m.log, "\n"); !strings.Contains(got, "vdc: mount (filesystem)") || mounts != mountsPerWorker*testSettings().Workers {
					t.Errorf("the copy does not wait behind the others (%d): %s", mounts, got)
				}
			})
			time.Sleep(time.Minute)
			m.change(func() {
				if got := strings.Join(m.log, "\n"); !strings.Contains(got, "vdb: keep (mounted)") && !strings.Contains(got, "vdb: refuse (read-only)") {
					t.Errorf("the original is not seen: %s", got)
				}
				delete(m.disks, "vdb")
				m.table = nil
			})
			a.Look("vdb")
			time.Sleep(10 * time.Minute)
			m.change(func() {
				if got := strings.Join(m.log, "\n"); strings.Contains(got, "mount vdc ") || !strings.Contains(got, "vdc: refuse (twin)") {
					t.Errorf("mounted %v: the copy is mounted in place of the original: %s", mounted, got)
				}
			})
		})
	}
}

// TestInLineWhenOneLeaves checks that a disk that waits for its mount gets another look when another disk leaves. Only
// a new look can show whether the disk that left was the original of the waiting disk.
func TestInLineWhenOneLeaves(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB))
	m.table = []disk.MountPoint{{Path: "/mnt/disks/" + uuidA, Root: "/", Type: "xfs", Dev: m.disks["vdb"].Dev}}
	for i := range mountsPerWorker * testSettings().Workers {
		name := fmt.Sprintf("vd%c", 'd'+i)
		m.disks[name] = xfsDisk(name, uint64(10+i), fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	looks, before := 0, 0
	m.gate = func(work, name string) {
		if work == "mount" && name > "vdc" {
			time.Sleep(5 * time.Minute)
		}
		if work == "mount" && name == "vdc" {
			m.mu.Lock()
			before = looks
			m.mu.Unlock()
		}
		if work == "look" && name == "vdc" {
			m.mu.Lock()
			looks++
			m.mu.Unlock()
			time.Sleep(time.Second)
		}
	}
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Minute)
		m.change(func() {
			if looks != 1 {
				t.Errorf("%d looks at one in line", looks)
			}
			delete(m.disks, "vdb")
			m.table = nil
		})
		a.Look("vdb")
		time.Sleep(10 * time.Minute)
		m.change(func() {
			if before != 2 || len(m.table) != 1+mountsPerWorker*testSettings().Workers {
				t.Errorf("%d looks before it was mounted, %d mounted", before, len(m.table))
			}
		})
	})
}
