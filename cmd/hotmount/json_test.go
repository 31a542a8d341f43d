package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"hotmount/internal/cli"
	"hotmount/internal/doctor"
)

// TestJSONOnATerminal checks that JSON output contains no control sequences for a terminal. encoding/json does not
// escape U+009B, which starts a control sequence, and does not escape direction overrides.
func TestJSONOnATerminal(t *testing.T) {
	const hostile = "\u009b31m\u202e\x7f\U000e0001"
	h := machine(t)
	attach(t, h.Root, "vdd", 48, hostile)
	write(t, h.Store.State, map[string]string{"history.jsonl": `{"version":1,"begin":{"name":"` + hostile + `","identity":{},"uuid":"0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f","by":"daemon","begun":"2026-11-21T08:00:00Z"}}` + "\n"})
	for _, args := range [][]string{{"explain", "vdd", "--facts"}, {"history", "-o", "json"}, {"status", "-o", "json"}, {"status", "-o", "yaml"}} {
		out, _, err := call(t, args...)
		clean(t, strings.Join(args, " ")+fmt.Sprint(" ", err), out)
	}
	var b strings.Builder
	if err := cli.PrintJSON(&b, &doctor.Report{Findings: []doctor.Finding{{What: hostile}}}); err != nil {
		t.Error(err)
	}
	clean(t, "doctor", b.String())
	b.Reset()
	if err := cli.EncodeEvent(&b)(cli.Event{Serial: hostile}); err != nil {
		t.Error(err)
	}
	clean(t, "events", b.String())
}

// The function `clean` checks that the hostile bytes in a text are escaped, and that all characters are printable.
func clean(t *testing.T, what, text string) {
	t.Helper()
	if !strings.Contains(text, `\u009b31m\u202e\u007f\udb40\udc01`) && !strings.Contains(text, `\x9B31m\U0000202e\x7F\U000E0001`) {
		t.Errorf("%s: it is not there: %s", what, text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("%s: %q", what, text)
	}
}
