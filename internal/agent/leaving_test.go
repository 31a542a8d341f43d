package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hotmount/internal/disk"
)

// TestReturnWhileAPodHasTheOldMount checks a disk that leaves and returns while a pod still has its own mount of the
// filesystem. The pod's mount must not prevent the unmount on the host, and the message must name the pod. The disk
// that has returned must be mounted when the pod ends, hours later and without an event. The disk must also be mounted
// if the agent restarts before the pod ends.
func TestReturnWhileAPodHasTheOldMount(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.grow = true
	again := func(t *testing.T) {
		t.Helper()
		time.Sleep(3 * time.Hour)
		m.change(func() {
			tries := 0
			for _, line := range m.log {
				if strings.HasPrefix(line, "mount vdc ") {
					tries++
				} else if strings.HasPrefix(line, "problem") {
					t.Error(line)
				}
			}
			if tries < 3*60*60/16 {
				t.Errorf("%d tries in three hours", tries)
			}
			m.log = nil
		})
	}
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log = nil
			delete(m.disks, "vdb")
			m.holders = map[string]string{"vdb": "a pod"}
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			unmount `+where+`
			rmdir `+where+`
			`+where+` of vdb is still used by a pod
			problem: as far as can be seen`)
		m.change(func() {
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
			m.mountErr["vdc"] = disk.ErrHeld
			m.disks["vdc"].Udev.FSSpan = 1 << 30
			m.fillErr = errors.New("cannot grow it")
		})
		a.Look("vdc")
		again(t)
	})
	with(t, m, func(t *testing.T, _ *Agent) {
		again(t)
		m.change(func() { delete(m.mountErr, "vdc"); m.fillErr = nil })
		time.Sleep(20 * time.Second)
		m.expect(t, `
			fill seq 3
			mount vdc seq 3: xfs at `+where+`
			vdc: mounted at `+uuidA+`
			vdc: recovered`)
	})
}

// TestReturnOfADamagedDisk checks a disk that returns damaged. The mount of the disk must be retried after longer and
// longer waits.
func TestReturnOfADamagedDisk(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { delete(m.disks, "vdb"); m.holders = map[string]string{"vdb": "a pod"} })
		a.Look("vdb")
		m.change(func() {
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
			m.mountErr["vdc"] = errors.New("Structure needs cleaning")
		})
		a.Look("vdc")
		time.Sleep(time.Hour)
		m.change(func() {
			if m.again.Count < 10 || m.again.Wait < 15*time.Minute {
				t.Errorf("%+v: %q", m.again, m.log)
			}
			delete(m.mountErr, "vdc")
		})
		time.Sleep(time.Hour)
		m.change(func() {
			if !slices.Contains(m.log, "vdc: mounted at "+uuidA) {
				t.Errorf("%q", m.log)
			}
		})
	})
}

// TestStaleMounts checks a disk that left while no agent was running. The leftover mount of a gone disk must be removed
// at start, even if the disk is already back under another name. A look at all disks must also remove the mounts of
// gone disks.
func TestStaleMounts(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	stale := disk.MountPoint{Dev: disk.Dev{Major: 254, Minor: 16}, Root: "/", Path: where, Type: "xfs"}
	m := newMachine(xfsDisk("vdc", 3, uuidA))
	m.table = []disk.MountPoint{stale}
	m.mountErr[where] = errors.New("in use")
	m.mountErr["lazily "+where] = errors.New("busy")
	m.holders = map[string]string{"old": "a pod"}
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		if !strings.HasSuffix(m.status, "1 gone but still mounted") {
			t.Errorf("status %q", m.status)
		}
		m.expect(t, `
			old: gone
			vdc: mount (filesystem)
			unmount `+where+`
			unmount lazily `+where+`
			old: failed: cannot unmount `+where+`, whose disk old (disk sequence number 0) is gone: busy`)
		m.change(func() { delete(m.mountErr, "lazily "+where) })
		a.LookAtAll() // the agent already removes the mount, and must not begin a second removal
		time.Sleep(time.Second)
		m.expect(t, `
			unmount `+where+`
			unmount lazily `+where+`
			rmdir `+where+`
			mount vdc seq 3: xfs at `+where+`
			vdc: mounted at `+uuidA+`
			ready`)
		// A disk was detached without an event, and its mount remains.
		other := stale
		other.Path, other.Dev.Minor = "/mnt/disks/"+uuidB, 64
		m.change(func() { m.table = append(m.table, other) })
		time.Sleep(testSettings().Rescan)
		m.expect(t, `
			old: gone
			unmount `+other.Path+`
			rmdir `+other.Path+`
			`+other.Path+` of old is still used by a pod
			problem: as far as can be seen`)
		// If the look at all disks finds that a disk is gone, the agent must report the departure once, and not again.
		m.change(func() { delete(m.disks, "vdc"); m.mountErr = nil })
		a.LookAtAll()
		m.expect(t, `
			vdc: gone
			forgot 3
			unmount `+where+`
			rmdir `+where)
	})
}

// TestALivingMountOverAStaleOne checks a working mount that covers the mount of a gone disk. Neither the removal of the
// gone disk's mount nor a release may unmount the working mount.
func TestALivingMountOverAStaleOne(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil; m.covered = map[string]bool{where: true} })
		if err := a.Release(t.Context(), "vdb", 0); err == nil || !strings.Contains(err.Error(), "another is mounted over it") {
			t.Error(err)
		}
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		time.Sleep(time.Hour)
		m.change(func() {
			for _, line := range m.log {
				if strings.HasPrefix(line, "unmount") || strings.HasPrefix(line, "rmdir") {
					t.Error(line)
				}
			}
			m.log, m.covered = nil, nil
		})
		time.Sleep(5 * time.Minute)
		m.expect(t, "unmount "+where+"\nrmdir "+where)
	})
}

// TestReleaseThatWasCutShort checks a disk whose release was interrupted, because the agent was killed. The record says
// that the disk stays unmounted, but the disk is mounted. If the mount ends later without an unmount by hand, the next
// agent must mount the disk again.
func TestReleaseThatWasCutShort(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	f.Standing.Unmounted = disk.ReasonReleased
	m := newMachine(f)
	m.table = []disk.MountPoint{{Dev: f.Dev, Root: "/", Path: "/mnt/disks/" + uuidA, Type: "xfs"}}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb may be mounted
			vdb: keep (mounted)
			ready`)
		m.change(func() {
			m.table = nil
			m.plugged = map[uint64]time.Time{2: time.Now()}
		})
		a.Look("vdb")
		m.expect(t, `
			vdb: bounced
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA)
	})
}

// TestALookDuringARelease checks that a look during a release does not undo the release.
func TestALookDuringARelease(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.log = nil
			m.gate = func(work, _ string) {
				if work == "unmount" {
					<-m.hang
				}
			}
		})
		released := make(chan error)
		go func() { released <- a.Release(t.Context(), "vdb", 0) }()
		settle()
		a.Look("vdb")
		m.expect(t, "vdb stays unmounted: released")
		close(m.hang)
		if err := <-released; err != nil {
			t.Error(err)
		}
		m.expect(t, `
			unmount /mnt/disks/`+uuidA+`
			rmdir /mnt/disks/`+uuidA+`
			vdb: hold (released)`)
	})
}

// TestAnOldLookAfterARelease checks a look that began while the disk was mounted and ends after the release. The look
// must not cause another mount of the released disk, because the operator may detach the disk at any moment.
func TestAnOldLookAfterARelease(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		looking, late := false, make(chan struct{})
		m.change(func() {
			m.log = nil
			m.gate = func(work, _ string) {
				switch work {
				case "unmount":
					<-m.hang
				case "look":
					m.mu.Lock()
					first := !looking
					looking = true
					m.mu.Unlock()
					if first {
						<-late
					}
				}
			}
		})
		released := make(chan error)
		go func() { released <- a.Release(t.Context(), "vdb", 0) }()
		settle()
		a.Look("vdb")
		settle()
		close(m.hang)
		if err := <-released; err != nil {
			t.Error(err)
		}
		settle()
		close(late)
		m.expect(t, `
			vdb stays unmounted: released
			unmount /mnt/disks/`+uuidA+`
			rmdir /mnt/disks/`+uuidA+`
			vdb: hold (released)`)
	})
}

// TestReleaseAfterAReload checks that a release fails if the disk is not mounted where the current settings mount it. A
// reload can take the disk out of its class, or change the directory of the class, before the next look at the disk.
func TestReleaseAfterAReload(t *testing.T) {
	for name, change := range map[string]func(*disk.Class){
		"another selector":  func(c *disk.Class) { c.Names = []string{"sd*"} },
		"another directory": func(c *disk.Class) { c.Directory = "/mnt/other" },
	} {
		m := newMachine(xfsDisk("vdb", 2, uuidA))
		with(t, m, func(t *testing.T, a *Agent) {
			settle()
			m.change(func() { m.hangs, m.log = "vdb", nil })
			s := testSettings()
			change(&s.Classes[0])
			if err := a.Reload(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := a.Release(ctx, "vdb", 2); err == nil || err.Error() != "cannot release vdb: hotmount has not looked at the disk with the new settings yet; try again in a moment" {
				t.Errorf("%s: %v", name, err)
			}
			m.unhang()
			m.change(func() {
				if strings.Contains(strings.Join(m.log, "\n"), "released") {
					t.Errorf("%s: %q", name, m.log)
				}
			})
		})
	}
}

// TestReleasedAndItsDirectoryStays checks a released disk whose mount point cannot be removed. The disk must be held as
// released by the operator, and not as unmounted by hand.
func TestReleasedAndItsDirectoryStays(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.rmdirErr = errors.New("directory not empty")
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log, m.plugged = nil, map[uint64]time.Time{2: booted} })
		if err := a.Release(t.Context(), "vdb", 0); !errors.Is(err, m.rmdirErr) {
			t.Errorf("error %v", err)
		}
		m.expect(t, `
			vdb stays unmounted: released
			unmount /mnt/disks/`+uuidA+`
			rmdir /mnt/disks/`+uuidA+`
			vdb: hold (released)`)
	})
}

// TestPulledTwice checks a disk that returns and is pulled again, while its first mount cannot be removed yet. The
// second departure of the disk must not make the agent forget the old mount of the disk. Once the old mount is removed
// and the disk is back again, the disk must be mounted without a command of the operator.
func TestPulledTwice(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		covered := errors.New("something is mounted over it")
		m.change(func() {
			delete(m.disks, "vdb")
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
			m.mountErr[where], m.mountErr["lazily "+where] = covered, covered
		})
		a.Look("vdb")
		settle()
		a.Look("vdc")
		settle()
		m.change(func() { delete(m.disks, "vdc") })
		a.Look("vdc")
		settle()
		m.change(func() {
			if len(m.table) != 1 || !strings.Contains(m.status, "1 gone but still mounted") {
				t.Errorf("pulled again: %v, %s", m.table, m.status)
			}
			m.disks["vdd"] = xfsDisk("vdd", 4, uuidA)
		})
		a.Look("vdd")
		settle()
		m.change(func() {
			m.log = nil
			delete(m.mountErr, where)
		})
		time.Sleep(time.Hour)
		m.expect(t, `
			unmount `+where+`
			rmdir `+where+`
			mount vdd seq 4: xfs at `+where+`
			vdd: mounted at `+uuidA)
	})
}

// TestUnmountedInWordsAlone checks that only the mount table shows whether a disk is unmounted. A report of success
// from PID 1 is not enough.
func TestUnmountedInWordsAlone(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			delete(m.disks, "vdb")
			m.noEffect = true
		})
		a.Look("vdb")
		settle()
		m.change(func() {
			if !strings.Contains(m.status, "1 gone but still mounted") {
				t.Errorf("the status is %q", m.status)
			}
			m.noEffect = false
		})
		time.Sleep(time.Hour)
		m.change(func() {
			if len(m.table) != 0 || strings.Contains(m.status, "gone") {
				t.Errorf("at last: %v, %q", m.table, m.status)
			}
		})
	})
}

// TestPulledWithoutItsClass checks a disk that is mounted in a directory that the configuration no longer contains.
// When the disk is pulled, the agent must unmount the disk at once.
func TestPulledWithoutItsClass(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		s := testSettings()
		s.Classes[0].Directory = "/mnt/other"
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		settle()
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		settle()
		time.Sleep(time.Second)
		m.change(func() {
			if len(m.table) != 0 {
				t.Errorf("still mounted: %v", m.table)
			}
		})
	})
}

// TestStaleAndGivenUp checks a mount that failed because the mount of a gone disk was at the mount point. The failed
// mount must be retried once the agent has found and removed the old mount.
func TestStaleAndGivenUp(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	dead := disk.MountPoint{Dev: disk.Dev{Major: 254, Minor: 900}, Root: "/", Path: where, Type: "xfs"}
	m := newMachine()
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.mountErr = map[string]error{"vdd": errors.New("something is mounted there")}
			m.disks["vdd"] = xfsDisk("vdd", 4, uuidA)
		})
		a.Look("vdd")
		time.Sleep(time.Hour)
		m.change(func() {
			m.log = nil
			delete(m.mountErr, "vdd")
			m.table = append(m.table, dead)
		})
		time.Sleep(time.Hour)
		m.change(func() {
			if log := strings.Join(m.log, "\n"); !strings.Contains(log, "unmount "+where) || !strings.Contains(log, "vdd: mounted at "+uuidA) {
				t.Errorf("the log is\n%s", log)
			}
		})
	})
}

// TestAHandAfterABounce checks a disk that PID 1 considered unplugged while the disk was in use. The disk stayed
// mounted for longer than PID 1 takes to stop a mount unit. If the mount ends a day later, hotmount must conclude that
// somebody unmounted the disk by hand.
func TestAHandAfterABounce(t *testing.T) {
	for after, want := range map[time.Duration]string{
		24 * time.Hour: `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`,
		// One second later, PID 1 may still be stopping the mount unit, so hotmount must mount the disk again.
		time.Second: `
			vdb: bounced
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			vdb: mounted at ` + uuidA,
	} {
		m := newMachine(xfsDisk("vdb", 2, uuidA))
		with(t, m, func(t *testing.T, a *Agent) {
			time.Sleep(time.Hour)
			m.change(func() {
				m.log = nil
				m.plugged = map[uint64]time.Time{2: time.Now()}
			})
			time.Sleep(time.Second)
			a.Look("vdb")
			settle()
			time.Sleep(after)
			m.change(func() { m.table = nil })
			a.Look("vdb")
			m.expect(t, want)
		})
	}
}

// TestAHandAfterABounceWithoutALook checks a mounted disk that PID 1 considered unplugged for a moment, and that was
// unmounted by hand much later. Between these events the agent does not look at the disk. The periodic check for faults
// must be enough to show that the disk stayed mounted.
func TestAHandAfterABounceWithoutALook(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	synctest.Test(t, func(t *testing.T) {
		s := testSettings()
		s.Rescan = 24 * time.Hour
		a := New(m, m, m, s, 0, monotonic)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(time.Hour)
		m.change(func() {
			m.log = nil
			m.plugged = map[uint64]time.Time{2: time.Now()}
		})
		a.Look("vdb")
		time.Sleep(45 * time.Minute)
		m.change(func() { m.table = nil })
		a.Look("vdb")
		m.expect(t, `
			vdb stays unmounted: unmounted-by-hand
			vdb: hold (unmounted-by-hand)`)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUnmountedByHandAndTheClockWasSet checks that hotmount recognises an unmount by hand even if the system clock was
// changed.
func TestUnmountedByHandAndTheClockWasSet(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		f := xfsDisk("vdb", 2, uuidA)
		m := newMachine(f)
		mounted := time.Date(1999, 1, 2, 0, 0, 0, 0, time.UTC)
		f.Standing.WasMounted, f.Standing.MountedAt = mounted.Add(step), mounted.Sub(booted)
		m.plugged = map[uint64]time.Time{2: mounted.Add(-time.Hour)}
		hand := "\n\t\t\tvdb stays unmounted: unmounted-by-hand\n\t\t\tvdb: hold (unmounted-by-hand)\n\t\t\tready"
		with(t, m, func(t *testing.T, _ *Agent) { m.expect(t, hand) })
		for _, plugged := range []time.Time{mounted.Add(time.Hour), {}} { // PID 1 plugged the device after the mount, or not at all
			f.Standing.Unmounted, m.table = "", nil
			m.plugged[2] = plugged
			with(t, m, func(t *testing.T, _ *Agent) {
				m.expect(t, `
					vdb: bounced
					vdb: mount (filesystem)
					mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
					vdb: mounted at `+uuidA+`
					ready`)
			})
		}
	}
}

// TestLeftoverIsTriedOnce checks a mount point that cannot be removed after its disk has left. The removal must be
// tried only once. The status must not report the remaining mount point as a mount. The remaining mount point must not
// prevent a later mount of the disk at the same path.
func TestLeftoverIsTriedOnce(t *testing.T) {
	where := "/mnt/disks/" + uuidA
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			m.table = nil // another program has unmounted the disk
			m.plugged = map[uint64]time.Time{2: time.Now().Add(-time.Hour)}
		})
		a.Look("vdb")
		settle()
		m.change(func() {
			m.log = nil
			delete(m.disks, "vdb")
			m.rmdirErr = errors.New("it is not empty")
		})
		a.Look("vdb")
		time.Sleep(time.Hour)
		m.change(func() {
			if n := strings.Count(strings.Join(m.log, "\n"), "rmdir"); n != 1 || strings.Contains(m.status, "still mounted") {
				t.Errorf("%d tries, status %q, log %q", n, m.status, m.log)
			}
			m.rmdirErr = nil
			m.disks["vdc"] = xfsDisk("vdc", 3, uuidA)
		})
		a.Look("vdc")
		settle()
		m.change(func() {
			if !slices.Contains(m.log, "vdc: mounted at "+uuidA) {
				t.Errorf("the disk is back: %q (%s)", m.log, where)
			}
		})
	})
}
