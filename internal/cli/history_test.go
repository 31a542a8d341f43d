package cli

import (
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

func TestPrintHistory(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.FixedZone("", 3600))
	record := disk.Record{
		Name: "vdb", Identity: disk.Identity{Boot: "b", Seq: 12, Serial: "S\x1b[31m", Slot: "pci-5", Size: 5 << 30},
		UUID: "U", By: disk.ByDaemon, Evidence: []string{"wipefs: nothing", "all zero"}, Begun: at, Ended: at.Add(time.Minute),
	}
	failed := disk.Record{Name: "vdc", Identity: disk.Identity{Boot: "b", Seq: 13}, UUID: "V", By: disk.ByOperator, Begun: at, Ended: at, Failure: "no\nspace"}
	open := failed
	open.Ended, open.Failure = time.Time{}, ""
	future := open
	future.Begun, future.Noticed = at.AddDate(1000, 0, 0), at
	var b strings.Builder
	if err := PrintHistory(&b, []disk.Record{record, failed, open, future}); err != nil {
		t.Fatal(err)
	}
	const want = `2026-11-21T07:00:00Z  xfs U on vdb, by the daemon
  disk: serial S\x1b[31m, 5 GiB, slot pci-5, disk sequence number 12 of boot b
  outcome: made 2026-11-21T07:01:00Z
  evidence:
    wipefs: nothing
    all zero
2026-11-21T07:00:00Z  xfs V on vdc, by the operator
  disk: no serial, 0 B, no slot, disk sequence number 13 of boot b
  outcome: failed 2026-11-21T07:00:00Z: no\nspace
  evidence:
2026-11-21T07:00:00Z  xfs V on vdc, by the operator
  disk: no serial, 0 B, no slot, disk sequence number 13 of boot b
  outcome: not recorded: the format still runs, or a crash ended the format
  evidence:
3026-11-21T07:00:00Z (the clock was wrong, as hotmount noticed at 2026-11-21T07:00:00Z)  xfs V on vdc, by the operator
  disk: no serial, 0 B, no slot, disk sequence number 13 of boot b
  outcome: not recorded: the format still runs, or a crash ended the format
  evidence:
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s", got)
	}
}
