//go:build vm && (long || full)

package system

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestRivals: somebody else begins to write at a random moment of the scan and of the
// settle time, or had begun when hotmount came to the disk. Theirs wins (issue 3), which
// is to say: what they have written is whole, and hotmount has made no filesystem.
// hotmount has the disk open exclusively from before its first read on. Who asks for
// that as well before the first write is told that the disk is busy, and has lost
// nothing: they have written not one byte, hotmount was not disturbed, and its
// filesystem is sound. Who does not ask is never kept from writing.
func TestRivals(t *testing.T) {
	m, w := start(t, worker.Options{})
	// So much later than it should an emulated machine may begin what it is to do.
	const settle, late = 6 * time.Second, 2 * time.Second
	m.run(fmt.Sprintf("printf '[Service]\\nEnvironment=HOTMOUNT_SETTLE=%s HOTMOUNT_FORMAT_LIMIT=256\\n' >/etc/systemd/system/hotmount.service.d/quick.conf; systemctl daemon-reload; systemctl restart hotmount", settle))
	c := chance(t)
	rounds := 1
	if full {
		rounds = 20
	}
	type opponent struct {
		what, name, id, serial, env, check string
		asks                               bool
	}
	won, busy := map[string]int{}, map[string]int{}
	for round := range rounds {
		begin, here := "", rivals
		if round == 0 {
			// In the first round those that ask are there twice. The second ones begin first.
			m.run("systemctl stop hotmount")
			here = slices.Concat(rivals, slices.DeleteFunc(slices.Clone(rivals), func(r rival) bool { return !r.asks }))
		}
		var all []opponent
		for i, r := range here {
			o := opponent{what: r.what, check: r.check, asks: r.asks, serial: fmt.Sprintf("R%d-%d", round, i)}
			o.name, o.id = m.attach(w, worker.Disk{File: blank(t, crashSize+int64(round)<<12), Serial: o.serial})
			uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", c.Uint32(), i)
			if r.what == "pvcreate" {
				uuid = fmt.Sprintf("aaaaaa-bbbb-cccc-dddd-eeee-%04d-%06d", i, round)
			}
			o.env = fmt.Sprintf("d=/dev/%s; at=%d; u=%s", o.name, c.IntN(crashSize-8<<20), uuid)
			all = append(all, o)
			moment := ""
			if i < len(rivals) {
				// From when the disk is open on; before that its unit waits for its turn.
				moment = fmt.Sprintf(`unit=/sys/fs/cgroup/system.slice/system-hotmount*format.slice/hotmount-format@$(cat /sys/block/%s/diskseq).service
opened() { local f; read -r pid <$unit/cgroup.procs && for f in /proc/$pid/fd/*; do [ $f -ef $d ] && return; done; }
until opened; do sleep 0.1; done 2>/dev/null
sleep %.3f`, o.name, time.Duration(c.Int64N(int64(settle-late))).Seconds())
			}
			begin += fmt.Sprintf(`cat >/root/%[1]s <<'X'
%[2]s
%[3]s
%[4]s
echo $? >/root/%[1]s.code
X
rm -f /root/%[1]s.code; nohup bash /root/%[1]s >/root/%[1]s.log 2>&1 </dev/null &
`, o.name, o.env, moment, r.write)
			if round > 0 {
				m.run(begin)
				begin = ""
			}
		}
		if round == 0 {
			m.run(begin + "systemctl start hotmount")
		}
		for _, o := range all {
			m.wait(o.what, "[ -s /root/"+o.name+".code ]")
			m.wait("the end of the work on "+o.name, fmt.Sprintf("journalctl -b -o cat --no-pager -u hotmount | grep -E '^/dev/%s .*%s.*(mounted|refuse: |ignore: )' && ! systemctl is-active hotmount-format@$(cat /sys/block/%[1]s/diskseq) | grep activating", o.name, o.serial))
			said := m.run("cat /root/" + o.name + ".log")
			formats := slices.DeleteFunc(m.history(), func(r disk.Record) bool { return r.Identity.Serial != o.serial })
			if m.run("cat /root/"+o.name+".code") == "0" {
				won[o.what]++
				m.run(o.env + "; udevadm settle; { " + o.check + "; } >&2")
				for _, f := range formats {
					// It is in the history before the last look at the disk.
					if !regexpLine(f.Failure, "somebody writes to it|somebody else uses it|(?i)busy") {
						t.Errorf("%s was first, and yet: %+v", o.what, f)
					}
				}
				continue
			}
			busy[o.what]++
			if !o.asks || !regexpLine(said, `(?i)busy|in use|exclusively`) {
				t.Errorf("%s failed: %s", o.what, said)
			}
			uuid := m.mounted(o.name)
			if len(formats) != 1 || !formats[0].Made() || formats[0].UUID != uuid {
				t.Errorf("%s failed, %s is mounted, and the formats are %+v", o.what, uuid, formats)
			}
			if got := m.run("journalctl -b -o cat --no-pager | grep -E '^/dev/" + o.name + " .*" + o.serial + ".*somebody writes to it' || true"); got != "" {
				t.Errorf("%s failed, and has written before: %s", o.what, got)
			}
			m.run(fmt.Sprintf("umount /dev/%s; xfs_repair -n /dev/%[1]s >&2", o.name))
		}
		for _, o := range all {
			m.run("vgchange -q -an >/dev/null 2>&1 || true")
			m.detach(w, o.id)
		}
	}
	t.Logf("of %d rounds each, these won: %v; these found the disk busy: %v", rounds, won, busy)
	for _, r := range rivals {
		if r.asks && won[r.what] == 0 || !r.asks && won[r.what] != rounds {
			t.Errorf("%s has won %d times in %d rounds", r.what, won[r.what], rounds)
		}
	}
}
