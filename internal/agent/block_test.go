package agent

import (
	"context"
	"strings"
	"testing"

	"hotmount/internal/disk"
)

func (m *machine) GiveOut(_ context.Context, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("give out seq %d", seq)
	for _, f := range m.disks {
		if f.Seq == seq && !m.noEffect {
			f.Standing.Link = "/mnt/disks/" + f.LinkName()
		}
	}
	return nil
}

func (m *machine) TakeBack(_ context.Context, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("take back seq %d", seq)
	for _, f := range m.disks {
		if f.Seq == seq && !m.noEffect {
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

// TestBlock: a disk is given out, stays so, is given out again when the link was
// taken away, is taken back at the operator's word, and when it goes.
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
		if err := a.Release(t.Context(), "vdb"); err != nil {
			t.Error(err)
		}
		m.expect(t, `
			vdb stays unmounted: released
			take back seq 2
			vdb: hold (released)`)
		if _, err := a.Accept(t.Context(), "vdb"); err != nil {
			t.Error(err)
		}
		m.change(func() { m.disks["vdb"].Standing.Unmounted = "" })
		m.expect(t, `
			accepted vdb
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

// TestBlockSerialTwice: of two disks with a serial neither is given out, whichever
// is seen first, until one is gone.
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

// TestBlockWithoutEffect: that the unit says so makes no link.
func TestBlockWithoutEffect(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"))
	m.mode, m.noEffect = disk.ModeBlock, true
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: link (block-mode)
			give out seq 2
			vdb: failed: the unit is started, but the link is not in its place; see journalctl -u hotmount-block@2`)
	})
}

// TestTakenBackWithoutEffect: nobody is told that a link is gone which is there.
func TestTakenBackWithoutEffect(t *testing.T) {
	m := newMachine(rawDisk("vdb", 2, "A"))
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		m.change(func() { m.noEffect = true })
		if err := a.Release(t.Context(), "vdb"); err == nil || !strings.Contains(err.Error(), "it is still there") {
			t.Errorf("got %v", err)
		}
	})
}
