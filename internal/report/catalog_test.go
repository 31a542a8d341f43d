package report

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
)

// TestCatalog checks that the journal's catalog explains each kind of event, and nothing else.
func TestCatalog(t *testing.T) {
	text, err := os.ReadFile("../../packaging/catalog/hotmount.catalog")
	if err != nil {
		t.Fatal(err)
	}
	entries := map[Kind]string{}
	for i, e := range regexp.MustCompile(`(?m)^-- `).Split(string(text), -1) {
		if id, body, ok := strings.Cut(e, "\n"); ok && i > 0 {
			entries[Kind(id)] = body
		}
	}
	if len(entries) != len(Kinds()) {
		t.Errorf("%d entries for %d kinds", len(entries), len(Kinds()))
	}
	words := map[string]bool{}
	for kind, word := range Kinds() {
		words[word] = true
		head, body, _ := strings.Cut(entries[kind], "\n\n")
		page := "hotmount"
		if kind == KindDecided || kind == KindHeld || kind == KindRefused || kind == KindAmiss {
			page = "hotmount-explain"
		}
		if !regexp.MustCompile(`\ASubject: .+\nDefined-By: hotmount\nDocumentation: man:`+page+`\(8\)\z`).MatchString(head) || len(body) < 100 {
			t.Errorf("%s (%s) is not explained: %q", word, kind, entries[kind])
		}
		// An explanation in the catalog must not name a type of filesystem, because entries of one kind can have
		// different types.
		if regexp.MustCompile(`(?i)xfs|ext4`).MatchString(entries[kind]) {
			t.Errorf("%s names a type of filesystem", word)
		}
		// An explanation in the catalog must not claim that hotmount has written nothing, because the claim is not true
		// for every entry.
		if strings.Contains(entries[kind], "has written nothing") {
			t.Errorf("%s claims that nothing was written", word)
		}
		// The catalog must use only fields that all entries of a kind contain, because journalctl prints the names of
		// missing fields.
		for _, field := range regexp.MustCompile(`@([A-Z_]+)@`).FindAllStringSubmatch(entries[kind], -1) {
			if kind == KindRescan || kind == KindNotice || kind == KindProblem || !strings.HasPrefix(field[1], "HOTMOUNT_") {
				t.Errorf("%s has no field %s", word, field[1])
			}
		}
	}
	if len(words) != len(Kinds()) {
		t.Error("two kinds have the same word")
	}
}

func TestKindOfDecision(t *testing.T) {
	in := newInbox(t)
	a := in.log()
	for action, want := range map[disk.Action]Kind{disk.Refuse: KindRefused, disk.Hold: KindHeld, disk.Mount: KindDecided, disk.Ignore: KindDecided} {
		a.Report(decisionEvent(facts("S"), &disk.Content{}, settings(), disk.Decision{Action: action, Reason: disk.ReasonOther, Class: "default"}))
		if got := in.next(t).one(t)["MESSAGE_ID"]; got != string(want) {
			t.Errorf("%s: %s, want %s", action, got, want)
		}
	}
	for reason, want := range map[disk.Reason]Kind{disk.ReasonFault: KindAmiss, disk.ReasonShrunk: KindAmiss, disk.ReasonMounted: KindDecided} {
		f := facts("S")
		f.Fault, f.Geometry = "the kernel has shut the filesystem down", &disk.Geometry{Size: 2 * f.Size, Block: 4096}
		a.Report(decisionEvent(f, &disk.Content{}, settings(), disk.Decision{Action: disk.Keep, Reason: reason, Class: "default", UUID: uuid, Type: "xfs"}))
		if e := in.next(t).one(t); e["MESSAGE_ID"] != string(want) || (e["PRIORITY"] == "3") != (want == KindAmiss) {
			t.Errorf("%s: %s at priority %s, want %s", reason, e["MESSAGE_ID"], e["PRIORITY"], want)
		}
	}
}

// TestJSON checks that each line is one JSON object, whatever the name of the disk is.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	l := &Log{text: &b, json: true}
	l.Event(KindGone, journal.PriNotice, facts("a\nb\"\x1b"), disk.Decision{UUID: uuid}, "/mnt/disks/"+uuid, "one\n  two\u202e")
	l.Event(KindProblem, journal.PriErr, nil, disk.Decision{}, "", "three")
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), b.String())
	}
	if strings.Contains(lines[0], "\u202e") {
		t.Errorf("direction override is not escaped: %q", lines[0])
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"kind": "gone", "message": "one\n  two\u202e", "message_id": string(KindGone), "priority": "5", "device": "/dev/vdb", "diskseq": "12",
		"serial": disk.Visible("a\nb\"\x1b"), "uuid": uuid,
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	if got["time"] == "" {
		t.Error("no time")
	}
}

func TestNewAs(t *testing.T) {
	for _, format := range Formats {
		if _, err := NewAs(format); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewAs("xml\x1b"); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
}
