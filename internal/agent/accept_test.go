package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

// TestAnotherTryLiftsNothing checks that an accept of a failed mount only retries the mount. An accept of a failed
// mount does not allow hotmount to format the disk if its filesystem disappears later.
func TestAnotherTryLiftsNothing(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Standing.FormerSerial = &disk.Sighting{UUID: uuidA}
	m := newMachine(vdb)
	m.mountErr["vdb"] = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		m.change(func() { m.log = nil; m.mountErr = map[string]error{} })
		if _, err := a.Accept(t.Context(), "vdb", 2, ""); err != nil {
			t.Fatal(err)
		}
		m.expect(t, `
			another try of vdb
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered`)
		m.change(func() { vdb.Udev.FSUsage, vdb.Udev.FSType, vdb.Udev.FSUUID, m.table = "", "", "", nil })
		a.Look("vdb")
		settle()
		if log := strings.Join(m.log, "\n"); !strings.HasSuffix(log, "vdb: hold (former-serial)") || strings.Contains(log, "format") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestEachHoldIsToldBeforeItIsLifted checks that an accept lifts only the hold that the operator has seen. After the
// accept, the next hold of the disk must be reported, and needs its own accept.
func TestEachHoldIsToldBeforeItIsLifted(t *testing.T) {
	vdb := blankDisk("vdb", 2)
	vdb.Standing.Present, vdb.Standing.FormerSerial = &disk.Identity{}, &disk.Sighting{UUID: uuidA}
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: hold (attached-before-installation)
			ready`)
		for i, want := range []string{`
			accepted vdb (attached-before-installation)
			vdb: hold (former-serial)`, `
			accepted vdb (former-serial)
			vdb: prove (nothing-known-on-it)
			format seq 2
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/` + uuidB[:34] + `62
			vdb: mounted at ` + uuidB[:34] + `62`} {
			answer, err := a.Accept(t.Context(), "vdb", 0, "")
			held := []string{"attached before hotmount was installed", uuidA}[i]
			if err != nil || !strings.Contains(answer, held) || !strings.Contains(answer, "and no other hold remains") {
				t.Errorf("%q, %v", answer, err)
			}
			m.expect(t, want)
		}
	})
}

// TestAcceptOfAnotherReason checks that an accept with a reason lifts only the hold with that reason.
func TestAcceptOfAnotherReason(t *testing.T) {
	vdb := blankDisk("vdb", 2)
	vdb.Standing.Present = &disk.Identity{}
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.log = nil })
		_, err := a.Accept(t.Context(), "vdb", 0, disk.ReasonUsed)
		if err == nil || !strings.Contains(err.Error(), "the reason is no longer used-elsewhere, but attached-before-installation (hold: no known content was found on the disk") {
			t.Errorf("error %v", err)
		}
		m.expect(t, ``)
		if _, err := a.Accept(t.Context(), "vdb", 0, disk.ReasonPresent); err != nil {
			t.Error(err)
		}
	})
}

// TestAnotherDiskHasTheName checks that an accept and a release of a disk fail if the disk's former kernel name now
// belongs to another disk.
func TestAnotherDiskHasTheName(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 3, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() { m.log = nil })
		_, err := a.Accept(t.Context(), "vdb", 2, "")
		for _, err := range []error{err, a.Release(t.Context(), "vdb", 2)} {
			if err == nil || !strings.Contains(err.Error(), "another disk has this name now") {
				t.Errorf("error %v", err)
			}
		}
		m.expect(t, ``)
	})
}

// TestAcceptOfADiskThatWasNeverSeen checks that an accept causes a new look at a disk if the first look failed.
func TestAcceptOfADiskThatWasNeverSeen(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.lookErr = errors.New("no")
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(time.Hour)
		m.change(func() { m.log, m.lookErr = nil, nil })
		if answer, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil || !strings.Contains(answer, "looks at the disk again") {
			t.Errorf("%q, %v", answer, err)
		}
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			vdb: recovered`)
	})
}

// TestAcceptBeforeTheFirstLook checks that an accept fails until the first look at the disk has ended. If the accept
// succeeded, the operator would believe that it also covers a hold that the first look finds.
func TestAcceptBeforeTheFirstLook(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	m.hangs = "vdb"
	with(t, m, func(t *testing.T, a *Agent) {
		answer, err := a.Accept(t.Context(), "vdb", 0, "")
		if answer != "" || err == nil || !strings.Contains(err.Error(), "cannot accept vdb: hotmount has not looked at the disk yet") {
			t.Errorf("%q, %v", answer, err)
		}
		m.change(func() { m.hangs = "" })
		close(m.hang)
		m.expect(t, `
			vdb: mount (filesystem)
			mount vdb seq 2: xfs at /mnt/disks/`+uuidA+`
			vdb: mounted at `+uuidA+`
			ready`)
	})
}

// TestAcceptAfterAReload checks that the error of an accept names the reason under the current settings. A reload can
// take the disk out of its class before the next look at the disk.
func TestAcceptAfterAReload(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.hangs = "vdb" })
		s := testSettings()
		s.Classes[0].Names = []string{"sd*"}
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err == nil || !strings.Contains(err.Error(), "ignore") {
			t.Errorf("error %v", err)
		}
	})
}

// TestReloadTakesTheRescan checks that a reload also changes the time between two looks at all disks (Rescan).
func TestReloadTakesTheRescan(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Rescan = 10 * time.Second
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		settle()
		m.change(func() { m.looks = 0 })
		time.Sleep(time.Minute)
		settle()
		if m.looks != 6 {
			t.Errorf("%d looks in a minute", m.looks)
		}
	})
}

// TestGoneDuringARelease checks a disk that is detached while the operator releases it. If a disk is detached during
// its release, hotmount must retry the removal of the disk's mount.
func TestGoneDuringARelease(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA))
	at := "/mnt/disks/" + uuidA
	with(t, m, func(t *testing.T, a *Agent) {
		m.change(func() {
			first := true
			m.gate = func(work, _ string) {
				m.mu.Lock()
				wait := first && work == "unmount"
				first = first && !wait
				m.mu.Unlock()
				if wait {
					<-m.hang
				}
			}
		})
		released := make(chan error, 1)
		go func() { released <- a.Release(t.Context(), "vdb", 2) }()
		settle()
		m.change(func() {
			delete(m.disks, "vdb")
			m.mountErr[at], m.mountErr["lazily "+at] = errors.New("no"), errors.New("no")
		})
		a.Look("vdb")
		m.change(func() { m.log = nil })
		close(m.hang)
		if err := <-released; err == nil {
			t.Error("released")
		}
		m.expect(t, `
			unmount `+at+`
			vdb may be mounted`)
		m.change(func() { m.mountErr = map[string]error{} })
		time.Sleep(time.Hour)
		m.expect(t, `
			unmount `+at+`
			rmdir `+at)
	})
}

// TestAcceptedWhileInUse checks an accept while another program uses the disk. The answer must not promise that
// hotmount formats the disk.
func TestAcceptedWhileInUse(t *testing.T) {
	f := xfsDisk("vdb", 2, uuidA)
	f.Standing.Unmounted, f.Holders = disk.ReasonReleased, []string{"dm-0"}
	with(t, newMachine(f), func(t *testing.T, a *Agent) {
		settle()
		if got, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil || !strings.HasSuffix(got, " is accepted, but hotmount still does not use the disk: the disk is in use by dm-0") {
			t.Errorf("%q, %v", got, err)
		}
	})
}
