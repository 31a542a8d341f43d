package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestComplete: the shells are offered what fits the command.
func TestComplete(t *testing.T) {
	machine(t)
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	for call, want := range map[string]string{
		"events ":                "vdb vdc " + uuid + " default",
		"wait ":                  uuid,
		"format ":                "vdc",
		"accept ":                "vdb vdc",
		"release ":               "",
		"forget ":                "",
		"accept vdc ":            "",
		"status -o ":             "text wide json yaml",
		"run --log-format ":      "auto text json",
		"history ":               "",
		"provisioner check ":     "FILES",
		"plan --config ":         "FILES",
		"completion ":            "bash fish powershell zsh",
		"events --lines=5 vdb o": "",
	} {
		var b bytes.Buffer
		c := root()
		c.SetOut(&b)
		c.SetErr(new(bytes.Buffer))
		c.SetArgs(append([]string{"__complete"}, strings.Split(call, " ")...))
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		var words []string
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		for _, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
			if strings.Contains(line, "\x1b") {
				t.Errorf("%s: %q", call, line)
			}
		}
		// The directive (cobra, completions.go): 4 is no files, 8 is files that
		// end like those, 0 any.
		if last := lines[len(lines)-1]; last == ":0" || last == ":8" {
			words = []string{"FILES"}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q, want %q", call, got, want)
		}
	}
}
