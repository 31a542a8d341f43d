package agent

import "testing"

// TestUnselected checks that the departure of a disk is not logged if no class selects the disk and no program uses it.
func TestUnselected(t *testing.T) {
	m := newMachine(blankDisk("sdb", 2))
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			sdb: ignore (unselected)
			ready`)
		a.LookAtAll()
		m.expect(t, ``)
		m.change(func() { delete(m.disks, "sdb") })
		a.Look("sdb")
		m.expect(t, `
			forgot 2`)
		if len(m.told) > 0 {
			t.Errorf("the report still has it: %v", m.told)
		}
	})
}
