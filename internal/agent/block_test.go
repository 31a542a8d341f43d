package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

func (m *machine) giveOut(seq uint64) error {
	m.pass("give", fmt.Sprint(seq))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("give out seq %d", seq)
	for _, f := range m.disks {
		if f.Seq == seq && !m.noEffect {
			f.Standing.Link = "/mnt/disks/" + f.LinkName()
			f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size, Slot: f.Slot, Link: f.Standing.Link, Class: "default"}
		}
	}
	return nil
}

func (m *machine) Stop(_ context.Context, p disk.Program, id disk.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p != disk.ProgramBlock {
		return fmt.Errorf("the agent stops %s", p)
	}
	m.say("take back seq %d", id.Seq)
	for _, f := range m.disks {
		if f.Seq == id.Seq && !m.noEffect {
			f.Standing.Link = ""
		}
	}
	return nil
}

func rawDisk(name string, seq uint64, serial string) *disk.Facts {
	f := blankDisk(name, seq)
	f.Serial, f.Transport = serial, "virtio"
	return f
}

// TestBlock checks that a disk is given out as a block volume, and stays given out. A disk whose link was removed must
// be given out again. A release or a detachment of the disk must remove the link.
func TestBlock(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: keep (given-out)
			ready`)
		if m.status != "0 mounted, 0 held, 0 refused, 0 failing, 1 given out" {
			t.Errorf("status %q", m.status)
		}
		a.LookAtAll()
		m.expect(t, ``)
		m.change(func() { m.disks["vdb"].Standing.Link = "" })
		a.Look("vdb")
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: keep (given-out)`)
		// The unit of a block volume reports only a disk sequence number. A report with an unknown sequence number must
		// be ignored.
		m.change(func() { m.disks["vdb"].Standing.Link = "" })
		if err := a.LookAt(t.Context(), 3); err != nil {
			t.Error(err)
		}
		m.expect(t, ``)
		if err := a.LookAt(t.Context(), 2); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: keep (given-out)`)
		if err := a.Release(t.Context(), "vdb", 0); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			vdb stays unmounted: released
			take back seq 2
			vdb: hold (released)`)
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		m.change(func() { m.disks["vdb"].Standing.Unmounted = "" })
		m.expect(t, `
			another try of vdb
			vdb: link (block-mode)
			give out seq 2
			vdb: keep (given-out)`)
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			take back seq 2`)
	})
}

// TestAPulledBlockVolumeIsNotTwice checks that a block volume is given out again when its disk comes back under another
// name. The agent looks at the disk's new name before the agent notices that the old name is gone.
func TestAPulledBlockVolumeIsNotTwice(t *testing.T) {
	vdb := rawDisk("vdb", 2, "A")
	m := newMachine(vdb)
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() {
			vdc := rawDisk("vdc", 3, "A")
			vdc.Standing.Given = vdb.Standing.Given
			m.log, m.disks = nil, map[string]*disk.Facts{"vdc": vdc}
		})
		a.Look("vdc")
		settle()
		// The old link and the new link have the same name. The removal of the old link and the creation of the new
		// link may happen in any order.
		given, kept := slices.Index(m.log, "give out seq 3"), slices.Index(m.log, "vdc: keep (given-out)")
		if log := strings.Join(m.log, "\n"); strings.Contains(log, "stays held") || given < 0 || kept < given {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestGivenOutByAFormerClass checks a block volume whose disk, after a reload, belongs to a class that mounts disks, or
// to no class. The operator must be able to end the block volume with a release. A release of a device that is built on
// the disk must fail.
func TestGivenOutByAFormerClass(t *testing.T) {
	givenOutByAFormerClass(t, "vd[a-z]", `
			vdb stays unmounted: released
			take back seq 2
			vdb: hold (released)`)
	// The pattern vdz does not match the disk, so the disk belongs to no class.
	givenOutByAFormerClass(t, "vdz", `
			vdb stays unmounted: released
			take back seq 2
			vdb: ignore (unselected)`)
}

func givenOutByAFormerClass(t *testing.T, names, want string) {
	t.Helper()
	vdb, on := rawDisk("vdb", 2, "A"), rawDisk("vdc", 3, "B")
	link := "/mnt/raw/" + vdb.LinkName()
	vdb.Standing.Link, on.Standing.Link = link, link
	m := newMachine(vdb, on)
	with(t, m, func(t *testing.T, a *Agent) {
		s := testSettings()
		s.Classes[0].Selectors = disk.Selectors{Names: []string{names}}
		if err := a.Reload(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		settle()
		m.change(func() { m.log = nil })
		if err := a.Release(t.Context(), "vdc", 0); err == nil {
			t.Error("what lies on it was released")
		}
		if err := a.Release(t.Context(), "vdb", 0); err != nil {
			t.Error(err)
		}
		m.expect(t, want)
	})
}

// TestBlockOfAnother checks a second disk with the serial of a disk that was given out. When the first disk is
// detached, hotmount must not give the second disk the first disk's link, even after a reboot. A disk that returns in
// the slot of the first disk must be held too, because two disks with this serial are on record. After an accept, the
// second disk must get the first disk's link.
func TestBlockOfAnother(t *testing.T) {
	first := rawDisk("vdb", 2, "A")
	first.Slot = "pci-1"
	m := newMachine(first)
	m.mode = disk.ModeBlock
	var given *disk.Given
	second := func(seq uint64) *disk.Facts {
		f := rawDisk("vdc", seq, "A")
		f.Slot, f.Standing.Given = "pci-2", given
		return f
	}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: keep (given-out)
			ready`)
		m.change(func() { given = m.disks["vdb"].Standing.Given; m.disks["vdc"] = second(3) })
		a.Look("vdc")
		m.expect(t, `
			vdc stays held: serial-twice
			vdc: refuse (serial-twice)`)
		if _, err := a.Accept(t.Context(), "vdc", 0, ""); err == nil {
			t.Error("accepted while the first is there")
		}
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		settle()
		if log := strings.Join(m.log, "\n"); strings.Contains(log, "give out") || !strings.Contains(log, "vdc: hold (name-of-another-block-volume)") {
			t.Errorf("log:\n%s", log)
		}
	})
	// After the reboot only the second disk is attached.
	m = newMachine(second(4))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdc: hold (name-of-another-block-volume)
			ready`)
		again := rawDisk("vdb", 5, "A")
		again.Slot, again.Standing.Given = "pci-1", given
		m.change(func() { m.disks = map[string]*disk.Facts{"vdb": again} })
		a.LookAtAll()
		settle()
		if m.status != "0 mounted, 1 held, 0 refused, 0 failing" {
			t.Errorf("one in the slot of the first: %s", m.status)
		}
	})
	m = newMachine(second(6))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.log = nil
		answer, err := a.Accept(t.Context(), "vdc", 0, "")
		if err != nil || !strings.Contains(answer, "hotmount gives out the disk as a block volume") {
			t.Errorf("%q, %v", answer, err)
		}
		m.expect(t, `
			accepted vdc (name-of-another-block-volume)
			vdc: link (block-mode)
			give out seq 6
			vdc: keep (given-out)`)
	})
}

// TestBlockSerialTwice checks that neither of two disks with the same serial is given out while both are attached. The
// order of the looks does not matter.
func TestBlockSerialTwice(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"), rawDisk("vdc", 3, "A"))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		if log := strings.Join(m.log, "\n"); strings.Contains(log, "give out") || !strings.Contains(log, "vdc: refuse (serial-twice)") {
			t.Errorf("log:\n%s", log)
		}
		m.log = nil
		m.change(func() { delete(m.disks, "vdb") })
		a.Look("vdb")
		m.expect(t, `
			vdb: gone
			forgot 2
			vdc: link (block-mode)
			give out seq 3
			vdc: keep (given-out)`)
	})
}

// TestBlockWithoutEffect checks a unit that reports success, but has not made the link of the block volume. hotmount
// must not report the disk as given out.
func TestBlockWithoutEffect(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"))
	m.mode, m.noEffect = disk.ModeBlock, true
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: failed: the unit has started, but the disk's link does not exist; see journalctl -u hotmount-block@2`)
	})
}

// TestTakenBackWithoutEffect checks that a release returns an error if the link of the block volume still exists
// afterwards.
func TestTakenBackWithoutEffect(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.noEffect = true })
		if err := a.Release(t.Context(), "vdb", 0); err == nil || !strings.Contains(err.Error(), "the link is still there") {
			t.Errorf("got %v", err)
		}
	})
}

// TestOfOneSerialInLine checks a disk that waits to be given out, and that has the same serial as a block volume. The
// wait began before the agent first looked at the block volume. If the block volume's disk leaves during the wait, the
// waiting disk must not be given out in its place.
func TestOfOneSerialInLine(t *testing.T) {
	vdb, vdc := rawDisk("vdb", 2, "A"), rawDisk("vdc", 3, "A")
	vdb.Slot, vdc.Slot = "pci-5", "pci-6"
	vdb.Standing.Link = "/mnt/disks/" + vdb.LinkName()
	for _, f := range []*disk.Facts{vdb, vdc} {
		f.Standing.Given = &disk.Given{Serial: "A", Size: f.Size, Slot: "pci-5", Seq: 2, ThisBoot: true, Link: vdb.Standing.Link, Class: "default"}
	}
	m := newMachine(vdb, vdc)
	m.mode = disk.ModeBlock
	for i := range mountsPerWorker * testSettings().Workers {
		name := fmt.Sprintf("vd%c", 'd'+i)
		m.disks[name] = rawDisk(name, uint64(10+i), fmt.Sprint("Z", i))
	}
	slow := time.Minute
	m.gate = func(work, name string) {
		m.mu.Lock()
		d := time.Duration(0)
		switch {
		case work == "give":
			d = 5 * time.Minute
		case work == "look" && name == "vdb":
			d, slow = slow, 0
		case work == "look" && name == "vdc":
			d = time.Second
		}
		m.mu.Unlock()
		time.Sleep(d)
	}
	with(t, m, func(t *testing.T, a *Agent) {
		time.Sleep(105 * time.Second)
		m.change(func() {
			if got := strings.Join(m.log, "\n"); !strings.Contains(got, "vdc: link (block-mode)") || !strings.Contains(got, "vdb: keep (given-out)") {
				t.Errorf("it did not wait in line: %s", got)
			}
			delete(m.disks, "vdb")
		})
		a.Look("vdb")
		time.Sleep(20 * time.Minute)
		m.change(func() {
			if got := strings.Join(m.log, "\n"); strings.Contains(got, "give out seq 3") {
				t.Errorf("given out: %s", got)
			}
		})
	})
}
