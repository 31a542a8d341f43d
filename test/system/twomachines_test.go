//go:build vm && (long || full)

package system

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestTwoMachines: two machines, both with hotmount, share a disk: there is one
// filesystem at most, and the machine that did not make it does not mount it.
func TestTwoMachines(t *testing.T) {
	one, w1 := start(t, worker.Options{})
	two, w2 := start(t, worker.Options{})
	machines, workers := []machine{one, two}, []*worker.Worker{w1, w2}
	c := chance(t)
	rounds := 2
	if full {
		rounds = 20
	}
	mounted := 0
	// Both may give up in each round; at least once one of them must not.
	for round := 0; round < rounds || mounted == 0 && round < 20; round++ {
		shared := worker.Disk{File: blank(t, crashSize+int64(round)<<12), Serial: fmt.Sprint("SHARED", round), Shared: true}
		var ids, names [2]string
		skew := time.Duration(c.Int64N(int64(1500 * time.Millisecond)))
		var both sync.WaitGroup
		for i, w := range workers {
			a, err := w.Attach(ctx(t), shared)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = a.ID
			if i == 0 {
				time.Sleep(skew) // the random moment
			}
		}
		for i, m := range machines {
			both.Go(func() {
				var err error
				if names[i], err = workers[i].BlockDevice(ctx(t), ids[i]); err == nil {
					_, err = m.Run(ctx(t), fmt.Sprintf("for i in $(seq 600); do ! journalctl -b -o cat --no-pager -u hotmount | grep -qE '^/dev/%s .*SHARED%d.*(mounted xfs|hold: |refuse: |ended .failed.)' || exit 0; sleep 0.2; done; exit 1", names[i], round))
				}
				if err != nil {
					t.Errorf("machine %d, %s: %v", i, names[i], err)
				}
			})
		}
		both.Wait()
		made := 0
		var by []int
		for i, m := range machines {
			t.Logf("skew %s, machine %d: %s", skew, i, m.run("journalctl -b -o cat --no-pager -u hotmount | grep -E '^/dev/"+names[i]+" .*SHARED' | tail -n 3 | cut -c1-400"))
			// What it has heard of udev by now changes nothing.
			m.run("udevadm settle; i=$(stat -c %i /run/hotmount/settings.json); systemctl reload hotmount; for n in $(seq 300); do [ $(stat -c %i /run/hotmount/settings.json) = $i ] || exit 0; sleep 0.1; done; exit 1")
			m.wait("quiet", "systemctl is-active hotmount && ! systemctl show -p StatusText --value hotmount | grep 'working on'")
			where := m.run("findmnt -no TARGET /dev/" + names[i] + " || true")
			ours := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.Serial != shared.Serial || !r.Made() })
			made += len(ours)
			if where != "" {
				by = append(by, i)
				if len(ours) != 1 || where != "/mnt/disks/"+ours[0].UUID {
					t.Errorf("machine %d has mounted %s, and has made %+v", i, where, ours)
				}
			}
		}
		if made > 1 || len(by) > 1 {
			t.Errorf("%d filesystems were made of it, and %d machines have mounted it", made, len(by))
		}
		for _, i := range by {
			mounted++
			// The filesystem is one machine's from its first byte to its last.
			machines[i].run(fmt.Sprintf("echo x >$(findmnt -no TARGET /dev/%s)/f; umount /dev/%[1]s; xfs_repair -n /dev/%[1]s 2>&1 || { echo 'the filesystem is damaged' >&2; exit 1; }", names[i]))
		}
		one.detach(w1, ids[0])
		two.detach(w2, ids[1])
	}
	if mounted == 0 {
		t.Error("no machine has mounted it in any round")
	}
}
