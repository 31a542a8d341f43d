package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hotmount/internal/disk"
)

// TestLooksShareAGathering checks that looks share one call of Host.Gather if they are due together. A look that
// becomes due during a call of Host.Gather must wait for the next call. The data of the running call may be older than
// the event that caused the look. A look that hangs must not delay other looks.
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

// TestGatheringsRest checks that the wait before the next call of Host.Gather grows with the number of busy disks.
func TestGatheringsRest(t *testing.T) {
	const took = 100 * time.Millisecond
	for disks, want := range map[int]time.Duration{0: 2 * took / disksPerGathering, disksPerGathering - 2: took, 2*disksPerGathering - 2: 2 * took} {
		var all []*disk.Facts
		for i := range disks {
			f := xfsDisk("vd"+string(rune('a'+i/26))+string(rune('a'+i%26)), uint64(10+i), fmt.Sprintf("dddddddd-0000-4000-8000-%012d", i))
			f.Dev.Minor = uint32(100 + i)
			all = append(all, f)
		}
		m := newMachine(all...)
		m.slow = true // each mount hangs, so its disk stays busy
		with(t, m, func(t *testing.T, a *Agent) {
			settle()
			var begun []time.Time
			m.change(func() {
				m.gate = func(work, _ string) {
					if work == "gather" {
						begun = append(begun, time.Now())
						time.Sleep(took)
					}
				}
			})
			a.Look("vdz") // the looks at vdz and vdy make two more disks busy
			time.Sleep(took / 2)
			a.Look("vdy")
			time.Sleep(time.Second)
			synctest.Wait()
			if len(begun) != 2 || begun[1].Sub(begun[0]) != took+want {
				t.Errorf("with %d busy disks: gatherings at %v, want the second %s after the end of the first", disks, begun, want)
			}
			close(m.hang)
			settle()
		})
	}
}
