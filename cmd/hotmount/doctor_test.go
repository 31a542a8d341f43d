package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/doctor"
)

// TestMain lets the tests run this program again as their child process.
func TestMain(m *testing.M) {
	// The tests must not see the HOTMOUNT_ variables of the user who runs them.
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "HOTMOUNT_") {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "usage":
			// The child hangs on the filesystem /dead, but first answers for all other filesystems.
			for _, p := range os.Args[2:] {
				if p != "/dead" {
					fmt.Printf("{\"At\":%q,\"Size\":%d}\n", p, len(os.Args)-2)
				}
			}
			if slices.Contains(os.Args[2:], "/dead") {
				select {}
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// TestVerdict checks that doctor returns an error with exit code 3 for problems and warnings, but not for notes.
func TestVerdict(t *testing.T) {
	r := &doctor.Report{Findings: []doctor.Finding{{Level: doctor.Problem}, {Level: doctor.Warning}}}
	if err := verdict(r); exitCode(err) != 3 || err.Error() != "found 1 problem and 1 warning" {
		t.Errorf("verdict %v", err)
	}
	r.Findings = []doctor.Finding{{Level: doctor.Note}}
	if err := verdict(r); err != nil {
		t.Errorf("a note counts as an error: %v", err)
	}
	if exitCode(errors.New("x")) != 1 {
		t.Error("another error counts as a finding")
	}
}
