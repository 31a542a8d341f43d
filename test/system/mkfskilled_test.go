//go:build vm

package system

import (
	"slices"
	"strings"
	"testing"
)

// TestMkfsKilled: SIGKILL in place of each of mkfs.xfs's writes, after the last
// one, and again while that is mended, ends in one mounted XFS with the intended
// UUID (issue 3, Shown).
func TestMkfsKilled(t *testing.T) {
	m, w := obedientNode(t)
	writes, super := m.mkfsWrites(w)
	var orders []string
	c := chance(t)
	for _, at := range some(c, writes, super, 1) {
		orders = append(orders, "k"+at)
	}
	// The second run begins by zeroing what the first has made.
	twice := 1
	if full {
		twice = 20
	}
	for range twice {
		orders = append(orders, "k"+writes[c.IntN(len(writes))]+",k"+writes[c.IntN(len(writes))])
	}
	orders = append(orders, "kx")
	begun := 0
	// Two at once are read, each twice and more: of many the last would wait for long.
	for some := range slices.Chunk(orders, 6) {
		victims := m.victims(w, begun, some...)
		begun += len(some)
		for _, v := range victims {
			m.mounted(v.name)
			runs := strings.Count(v.order, ",") + 2
			left := m.left(v, runs-1)
			if left == "finished" {
				runs--
			}
			if (left == "finished") != (v.order == "kx") {
				t.Errorf("%s: what was left is %s", v.order, left)
			}
			t.Logf("%s, %s at first", m.whole(v, runs), left)
		}
		m.forget(w, victims)
	}
}
