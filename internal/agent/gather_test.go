package agent

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestLooksShareAGathering: looks that are due together share a gathering. One that is due after it began waits for the
// next, for what was read before may be older than the look. A look that hangs holds up no other.
func TestLooksShareAGathering(t *testing.T) {
	m := newMachine(xfsDisk("vdb", 2, uuidA), xfsDisk("vdc", 3, uuidB), xfsDisk("vdd", 4, uuidC))
	with(t, m, func(t *testing.T, a *Agent) {
		settle()
		begun, end := make(chan bool, 4), make(chan bool)
		m.change(func() {
			m.gathers, m.lookedBy = 0, nil
			m.gate = func(work, _ string) {
				if work == "gather" {
					begun <- true
					<-end
				}
			}
		})
		a.Look("vdb")
		<-begun
		a.Look("vdc")
		a.Look("vdd")
		synctest.Wait()
		if len(begun) > 0 || len(m.lookedBy) > 0 {
			t.Errorf("%d gatherings besides, looks %q", len(begun), m.lookedBy)
		}
		m.change(func() { m.hangs = "vdc" })
		end <- true
		<-begun
		end <- true
		settle()
		a.Look("vdb")
		<-begun
		end <- true
		settle()
		slices.Sort(m.lookedBy)
		if want := []string{"vdb by 1", "vdb by 3", "vdd by 2"}; !slices.Equal(m.lookedBy, want) {
			t.Errorf("looks: %q, want %q", m.lookedBy, want)
		}
	})
}
