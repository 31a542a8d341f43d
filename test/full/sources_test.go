package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSources checks which steps must run again after a change of one file.
func TestSources(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		git("add", name)
	}
	steps := []step{
		{name: "make lint", command: []string{"make", "lint"}},
		{name: "TestA", command: []string{"go"}, test: "TestA"},
		{name: "TestB", command: []string{"go"}, test: "TestB"},
		{name: "config.FuzzLoad", command: []string{"bash"}},
	}
	digests := func() (all []string) {
		t.Helper()
		s, err := readSources(t.Context(), []string{"internal", "packaging", "test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			all = append(all, s.digest(step))
		}
		return all
	}
	const tests = "package system\n\nimport \"testing\"\n\n// TestA is a test.\nfunc TestA(t *testing.T) {\n\thelp(t)\n}\n\nfunc help(t *testing.T) {}\n\nfunc TestB(t *testing.T) {}\n"
	git("init", "-q")
	write("internal/agent/agent.go", "//go:build linux\n\npackage agent\n\n// A is a number.\nconst A = 1\n")
	write("internal/agent/agent_test.go", "package agent\n")
	write("packaging/doc/page.md", "text")
	write("test/system/a_test.go", tests)
	write("test/unit", "#!/bin/sh\n")
	write(`packaging/by\x2dname`, "")

	for _, c := range []struct {
		name, file, text string
		again            string
	}{
		{"a document", "packaging/doc/page.md", "other text", ""},
		{"a comment", "internal/agent/agent.go", "//go:build linux\n\npackage agent\n\n// A is a constant.\n//\n// It is 1.\nconst A = 1\n", ""},
		{"a comment in a test", "test/system/a_test.go", strings.Replace(tests, "is a test", "is a good test", 1), ""},
		{"a file whose name git quotes", `packaging/by\x2dname`, "other text", "make lint TestA TestB config.FuzzLoad"},
		{"code", "internal/agent/agent.go", "//go:build linux\n\npackage agent\n\n// A is a number.\nconst A = 2\n", "make lint TestA TestB config.FuzzLoad"},
		{"code below an empty comment", "internal/agent/agent.go", "//go:build linux\n\npackage agent\n\n//\nconst A = 2\n", "make lint TestA TestB config.FuzzLoad"},
		{"a build constraint", "internal/agent/agent.go", "//go:build !linux\n\npackage agent\n\n// A is a number.\nconst A = 1\n", "make lint TestA TestB config.FuzzLoad"},
		{"a unit test", "internal/agent/agent_test.go", "package agent\n\nfunc TestA(t *testing.T) {}\n", "make lint TestA TestB config.FuzzLoad"},
		{"one test", "test/system/a_test.go", strings.Replace(tests, "help(t)", "help(nil)", 1), "make lint TestA"},
		{"one test and its import", "test/system/a_test.go", strings.NewReplacer("help(t)", "os.Getuid()", "import ", "import \"os\"\nimport ").Replace(tests), "make lint TestA"},
		{"a function that tests use", "test/system/a_test.go", strings.Replace(tests, "(t *testing.T) {}", "(t *testing.T) { t.Helper() }", 1), "make lint TestA TestB config.FuzzLoad"},
		{"a new file", "test/system/b_test.go", "package system\n", "make lint TestA TestB config.FuzzLoad"},
	} {
		former, err := os.ReadFile(c.file)
		before := digests()
		write(c.file, c.text)
		var again []string
		for i, d := range digests() {
			if d != before[i] {
				again = append(again, steps[i].name)
			}
		}
		if got := strings.Join(again, " "); got != c.again {
			t.Errorf("%s: %q run again, want %q", c.name, got, c.again)
		}
		if err != nil {
			git("rm", "-qf", c.file)
		} else {
			write(c.file, string(former))
		}
	}
	before := digests()
	if err := os.Chmod("test/unit", 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "test/unit")
	if after := digests(); after[0] == before[0] || after[1] == before[1] {
		t.Error("a script that cannot be executed any more changes no digest")
	}
}
