//go:build vm && (long || full)

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestHistoryAndFormerSerial: a format is recorded with disk, evidence and UUID;
// a blank disk that comes with the serial of one that is gone is held, naming
// that UUID, also after a reboot, until that is accepted, and nothing else.
func TestHistoryAndFormerSerial(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "H1"})
	uuid := m.mounted(name)
	all := m.history()
	if len(all) != 1 {
		t.Fatalf("got %d records, want 1: %+v", len(all), all)
	}
	r := all[0]
	seq := m.run("cat /sys/block/" + name + "/diskseq")
	if r.Name != name || r.UUID != uuid || r.By != disk.ByDaemon || !r.Made() || r.Identity.Serial != "H1" || r.Identity.Size != 320<<20 ||
		fmt.Sprint(r.Identity.Seq) != seq || !strings.HasPrefix(r.Identity.Slot, "pci-") || len(r.Evidence) < 3 {
		t.Errorf("the record is %+v", r)
	}
	text := m.run("hotmount history")
	for _, want := range []string{uuid, "serial H1, 320 MiB, slot pci-", "disk sequence number " + seq, "by the daemon", "outcome: made ", r.Evidence[0]} {
		if !strings.Contains(text, want) {
			t.Errorf("the history does not say %q:\n%s", want, text)
		}
	}
	t.Logf("history:\n%s", text)
	if out, err := m.Run(ctx(t), "su nobody -s /bin/sh -c 'hotmount history'"); err == nil || !strings.Contains(err.Error(), "for root alone") {
		t.Errorf("nobody may read the history: %s, %v", out, err)
	}

	m.detach(w, id)
	again, _ := m.attach(w, worker.Disk{File: blank(t, 400<<20), Serial: "H1"})
	held := "/dev/%s .*hold: it looks blank, but data lay on a disk with its serial: xfs " + uuid + ".*hotmount accept %s"
	m.says(fmt.Sprintf(held, again, again))
	m.untouched(again)
	m.run("sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	again = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"H1\" {print $1}'")
	m.says(fmt.Sprintf(held, again, again))
	m.untouched(again)

	// The word for one hold does not lift another, which was not told when it was given: it
	// is one of those that were there when the package was installed once more.
	m.run("touch /var/lib/hotmount/removed; hotmount state init; systemctl reload hotmount")
	m.says(fmt.Sprintf("/dev/%s .*hold: .*attached before hotmount was installed: .*hotmount accept %s", again, again))
	m.run("hotmount accept " + again)
	m.wait("the next hold to be told", "hotmount status | grep -q "+uuid+" && hotmount plan | grep -E '^"+again+" .*hold .*"+uuid+"'")
	if got := m.run("journalctl -b --no-pager -o cat -u hotmount | grep -c 'hold: it looks blank, but data lay on a disk with its serial'"); got != "2" {
		t.Errorf("it was told %s times, want twice", got)
	}
	m.untouched(again)
	m.run("hotmount accept " + again)
	if second := m.mounted(again); second == uuid {
		t.Errorf("both have the UUID %s", uuid)
	}
	if all := m.history(); len(all) != 2 || all[0].UUID != uuid || !all[1].Made() {
		t.Errorf("the history is %+v", all)
	}
}
