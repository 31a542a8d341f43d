package helper

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/nodetest"
	"hotmount/internal/policy"
	"hotmount/internal/store"
)

// TestConfirmTwice checks that only one process at a time can wait for the result of a confirmed format.
func TestConfirmTwice(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	f, err := h.For(&settings).ByName("vdc")
	if err != nil {
		t.Fatal(err)
	}
	end, err := h.Store.Confirming(f.Seq)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	first := strings.Repeat("0a", 16)
	withdraw, err := h.Store.Confirm(f.Seq, first)
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	if err := Confirm(t.Context(), h, io.Discard, "vdc", strings.Repeat("0b", 16), ""); !errors.Is(err, store.ErrConfirming) {
		t.Errorf("error %v", err)
	}
	if token, err := h.Store.TakeToken(f.Seq); token != first || err != nil {
		t.Errorf("the first's is %q, %v", token, err)
	}
}

// TestFormatWithoutAToken checks that an unreadable token confirms nothing. If the token is unreadable, hotmount
// neither reads the disk nor saves an answer.
func TestFormatWithoutAToken(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	f, err := h.For(&settings).ByName("vdc")
	if err != nil {
		t.Fatal(err)
	}
	withdraw, err := h.Store.Confirm(f.Seq, strings.Repeat("0a", 16))
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	nodetest.Write(t, h.Store.Runtime, map[string]string{fmt.Sprintf("confirmed/%d", f.Seq): "{"})
	if err := Format(t.Context(), h, f.Seq); err == nil || !strings.Contains(err.Error(), "cannot read and remove the token of hotmount format") || strings.Contains(err.Error(), "open") {
		t.Errorf("error %v", err)
	}
	if answer, err := h.Store.TakeAnswer(f.Seq); !errors.Is(err, store.ErrNoAnswer) {
		t.Errorf("it is answered: %+v, %v", answer, err)
	}
}

// TestLearnFailure checks that learnFailure ignores a failed mount from an earlier attachment of the disk. learnFailure
// must return an error for a failure of the node, because a format cannot repair the node.
func TestLearnFailure(t *testing.T) {
	h := nodetest.New(t)
	mount := disk.Decision{Action: disk.Mount, Type: "tmpfs"} // every kernel has this filesystem type
	for name, tt := range map[string]struct {
		line       disk.Line
		want, says string
	}{
		"failed":                   {disk.Line{Disk: "vdb", Seq: 7, Decision: mount, Failure: "no way"}, "no way", ""},
		"the node fails":           {disk.Line{Disk: "vdb", Seq: 7, Decision: mount, Failure: "no way", OfNode: true}, "", "cannot format vdb: the mount fails because of the node, so a format would not help: no way; nothing is written"},
		"mounts":                   {disk.Line{Disk: "vdb", Seq: 7, Decision: mount}, "", ""},
		"an earlier disk":          {disk.Line{Disk: "vdb", Seq: 6, Decision: mount, Failure: "no way"}, "", ""},
		"another disk":             {disk.Line{Disk: "vdc", Seq: 7, Decision: mount, Failure: "no way"}, "", ""},
		"a proof that has failed":  {disk.Line{Disk: "vdb", Seq: 7, Decision: disk.Decision{Action: disk.Prove}, Failure: "no way"}, "", ""},
		"mounted, and cannot grow": {disk.Line{Disk: "vdb", Seq: 7, Decision: disk.Decision{Action: disk.Keep}, Failure: "no way"}, "", ""},
	} {
		if err := h.Store.Publish([]disk.Line{tt.line}); err != nil {
			t.Fatal(err)
		}
		f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}}
		err := learnFailure(h, f, &disk.Class{})
		if (err == nil) != (tt.says == "") || err != nil && err.Error() != tt.says || f.Standing.MountFailure != tt.want {
			t.Errorf("%s: %q, %v", name, f.Standing.MountFailure, err)
		}
	}
}

// TestUnmet checks that a token is bound to the conditions that it overrides. The text to which the token is bound must
// change if one more condition is not met, or if a condition names another filesystem.
func TestUnmet(t *testing.T) {
	s := config.Default()
	f := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 7}, Size: 1 << 30, Transport: "virtio", Vendor: "0x1af4", Udev: disk.Udev{Initialized: true}}
	c := &disk.Content{Kind: disk.Unknown, Proven: true}
	if got := unmetConditions(f, c, &s); len(got) != 0 {
		t.Errorf("nothing holds it: %+v", got)
	}
	f.Standing.Unmounted = disk.ReasonUnmounted
	f.Standing.Before = &disk.Sighting{UUID: "0b0f1c6e-aaaa-4000-8000-000000000001", Type: "ext4"}
	got := unmetConditions(f, c, &s)
	if len(got) != 2 || got[0].Wanted != "nobody has unmounted the disk by hand" || !strings.HasPrefix(got[1].Found, "ext4 0b0f1c6e-aaaa-4000-8000-000000000001") {
		t.Errorf("got %+v", got)
	}
	before := tokenText("boot", got)
	f.Standing.Before = &disk.Sighting{UUID: "0b0f1c6e-aaaa-4000-8000-000000000002", Type: "ext4"}
	if tokenText("boot", unmetConditions(f, c, &s)) == before {
		t.Error("the token stays the same when another filesystem is missing")
	}
	f.Standing.Before.UUID = "0b0f1c6e-aaaa-4000-8000-000000000001"
	if tokenText("boot", unmetConditions(f, c, &s)) != before {
		t.Error("the token changes by itself")
	}
	brake := []policy.Condition{{Wanted: "w", Found: "1 now"}}
	if again := []policy.Condition{{Wanted: "w", Found: "2 now"}}; tokenText("boot", brake) != tokenText("boot", again) {
		t.Error("a changing count ends the token")
	}
	f.Standing.Used = &disk.Use{How: "mounted at /srv"}
	if tokenText("boot", unmetConditions(f, c, &s)) == before || tokenText("other", got) == before {
		t.Error("the token stays the same")
	}
}
