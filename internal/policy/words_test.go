package policy

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

var update = flag.Bool("update", false, "write testdata/messages.txt")

// TestMessages checks that testdata/messages.txt contains the texts of all rules, for reviewers. With -update,
// TestMessages writes the file.
func TestMessages(t *testing.T) {
	var b strings.Builder
	seen := map[disk.Reason]bool{}
	for _, c := range conditions {
		f, content, s := blankDisk(), proven(disk.Blank), settings()
		c.put(f, content, s)
		f.Slot, f.Standing.Formats = "pci-0000:05:00.0", append(f.Standing.Formats, time.Hour)
		d := Decide(f, content, s)
		why, next := Words(f, content, s, d)
		fmt.Fprintf(&b, "%s (%s): %s\n  %s\n", d.Reason, d.Action, c.name, why)
		if next != "" {
			fmt.Fprintf(&b, "  %s\n", next)
		}
		seen[d.Reason] = true
	}
	for _, e := range Reasons() {
		if !seen[e.Reason] && e.Reason != disk.ReasonBlank {
			t.Errorf("%s is not shown", e.Reason)
		}
	}
	const file = "testdata/messages.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != b.String() {
		t.Errorf("%s is not what the rules say: go test ./internal/policy -run TestMessages -update (%v)", file, err)
	}
}
