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

// The children that the tests ask are this program once more.
func TestMain(m *testing.M) {
	// The settings of whoever runs the tests are not to be theirs.
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
			// A dead filesystem does not keep the others from answering.
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

// TestVerdict: problems and warnings are an error with an exit code of its own.
func TestVerdict(t *testing.T) {
	r := &doctor.Report{Findings: []doctor.Finding{{Level: doctor.Problem}, {Level: doctor.Warning}}}
	if err := verdict(r); exitCode(err) != 3 || err.Error() != "found 1 problem and 1 warning" {
		t.Errorf("verdict %v", err)
	}
	r.Findings = []doctor.Finding{{Level: doctor.Note}}
	if err := verdict(r); err != nil {
		t.Errorf("a note is an error: %v", err)
	}
	if exitCode(errors.New("x")) != 1 {
		t.Error("another error is a finding")
	}
}
