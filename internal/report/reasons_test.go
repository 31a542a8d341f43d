package report

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

var update = flag.Bool("update", false, "write what is generated from the table of rules")

// TestReasons checks that the tables of reasons in the manual page and the journal's catalog match package policy. With
// the flag -update, TestReasons writes the tables.
func TestReasons(t *testing.T) {
	all := policy.Reasons()
	for file, tables := range map[string]map[string]string{
		"../../packaging/man/hotmount-explain.8": {"reasons": manual(all)},
		"../../packaging/catalog/hotmount.catalog": {
			"held":    catalog(all, func(e policy.Entry) bool { return e.Action == disk.Hold }),
			"refused": catalog(all, func(e policy.Entry) bool { return e.Action == disk.Refuse || e.Reason == disk.ReasonShrunk }),
			"amiss":   catalog(all, func(e policy.Entry) bool { return disk.Decision{Action: disk.Keep, Reason: e.Reason}.RisksData() }),
		},
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for name, table := range tables {
			text = put(t, file, text, name, table)
		}
		switch {
		case text == string(b):
		case *update:
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s differs from the rules: go test ./internal/report -run TestReasons -update", file)
		}
	}
}

// The function `put` replaces the table with the given name in a text. In the text, the table is between two comments
// that contain the name of the table.
func put(t *testing.T, file, text, name, table string) string {
	t.Helper()
	head, rest, begins := strings.Cut(text, "generated from internal/policy: "+name+"\n")
	i := strings.Index(rest, "end of "+name+"\n")
	if !begins || i < 0 {
		t.Fatalf("%s has no place for %s", file, name)
	}
	line := strings.LastIndexByte(rest[:i], '\n') + 1
	return head + "generated from internal/policy: " + name + "\n" + table + rest[line:]
}

// sections are the parts of the table in the manual page.
var sections = []struct {
	title string
	of    func(policy.Entry) bool
}{
	{"Held: pre\\-existing", held(policy.HoldPresent)},
	{"Held: previous data", held(policy.HoldData)},
	{"Held: unclear identity", held(policy.HoldIdentity)},
	{"Held: another user", held(policy.HoldUser)},
	{"Held: operator", held(policy.HoldOperator)},
	{"Refused", func(e policy.Entry) bool { return e.Action == disk.Refuse }},
	{"Ignored", func(e policy.Entry) bool { return e.Action == disk.Ignore }},
	{"Used, or about to be", func(e policy.Entry) bool {
		return e.Action != disk.Hold && e.Action != disk.Refuse && e.Action != disk.Ignore
	}},
}

func held(kind policy.Hold) func(policy.Entry) bool {
	return func(e policy.Entry) bool { return e.Action == disk.Hold && e.Hold == kind }
}

func manual(all []policy.Entry) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, ".SS %s\n", s.title)
		for _, e := range all {
			if s.of(e) {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n%s", roff(string(e.Reason)), roff(sentence(e.Means)), lifted(e))
			}
		}
	}
	return b.String()
}

// The function `lifted` returns how the operator can lift the hold or refusal, as text of the manual page.
func lifted(e policy.Entry) string {
	const accept, token = "To use the disk, run\n.BR \"hotmount accept\" .\n", "To overwrite the disk, run\n.B hotmount format\nwith its token.\n"
	s := ""
	switch {
	case e.Accept && e.Token:
		s = accept + token
	case e.Accept:
		s = accept
	case e.Token:
		s = token
	case e.Retry:
		s = ".B hotmount accept\nmakes hotmount try again.\n"
	}
	if e.Records {
		s += "This reason remains after its cause is gone.\n"
	}
	return s
}

func roff(s string) string { return strings.ReplaceAll(s, "-", `\-`) }

func sentence(s string) string {
	if !strings.HasPrefix(s, "hotmount ") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return s + "."
}

// catalog returns a list of reasons as text, in lines of at most 80 columns.
func catalog(all []policy.Entry, of func(policy.Entry) bool) string {
	var b strings.Builder
	for _, e := range all {
		if !of(e) {
			continue
		}
		line := string(e.Reason) + ":"
		for word := range strings.FieldsSeq(e.Means) {
			if len(line)+1+len(word) > 80 {
				b.WriteString(line + "\n")
				line = "   "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
