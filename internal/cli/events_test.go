package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"hotmount/internal/report"
)

// TestBrokenJournal checks that an entry that is not JSON ends the command, even if journalctl does not end by itself.
func TestBrokenJournal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", "echo x; exec sleep 1000")
	if err := showEvents(ctx, c, nil); err == nil || !strings.Contains(err.Error(), "invalid character") {
		t.Errorf("got %v", err)
	}
}

func TestEventMatches(t *testing.T) {
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	all := EventMatches(nil, nil)
	// Any user may write journal entries with hotmount's identifiers, so `hotmount events` must show only root's
	// entries.
	if all[0] != "_UID=0" || len(all) != 1+len(report.Kinds()) || !slices.Contains(all, "MESSAGE_ID="+string(report.KindGone)) {
		t.Errorf("got %q", all)
	}
	for which, want := range map[string]string{
		"vdb": "HOTMOUNT_DEVICE=/dev/vdb", "/dev/vdz": "HOTMOUNT_DEVICE=/dev/vdz", "default": "HOTMOUNT_CLASS=default", "former-serial": "HOTMOUNT_REASON=former-serial", strings.ToUpper(uuid): "HOTMOUNT_UUID=" + uuid,
	} {
		if got := EventMatches([]string{which}, []string{"default"}); got[len(got)-1] != want || len(got) != len(all)+1 {
			t.Errorf("%s: %q", which, got)
		}
	}
}

// TestEventOf checks entries as journalctl prints them, including an entry with control characters.
func TestEventOf(t *testing.T) {
	const line = `{"__REALTIME_TIMESTAMP":"1700000000000001","MESSAGE_ID":"` + string(report.KindRefused) + `","PRIORITY":"4","HOTMOUNT_DEVICE":"/dev/vdb",` +
		`"HOTMOUNT_DISKSEQ":"12","HOTMOUNT_SERIAL":"S","HOTMOUNT_REASON":"partitions","MESSAGE":[97,27,91,50,74,10,32,32,98],"_PID":7,"HOTMOUNT_UUID":null}`
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatal(err)
	}
	e := eventOf(fields)
	if e.Time.UnixMicro() != 1700000000000001 || e.Kind != "refused" || e.Priority != 4 || e.Device != "/dev/vdb" || e.Seq != 12 || e.Reason != "partitions" || e.UUID != "" {
		t.Errorf("got %+v", e)
	}
	var b bytes.Buffer
	if err := PrintEvent(&b, true)(e); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasPrefix(got, "\x1b[33m") || !strings.HasSuffix(got, "\x1b[0m\n") || strings.Contains(got, "\x1b[2J") || !strings.Contains(got, "  refused    a") {
		t.Errorf("got %q", got)
	}
	b.Reset()
	if err := EncodeEvent(&b)(e); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"diskseq":12`) || !strings.Contains(got, `"kind":"refused"`) {
		t.Errorf("got %s", got)
	}
}
