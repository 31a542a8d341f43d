// Package test contains the tests that do not belong to one package. This file tests the checks that `make` runs before
// a build.
package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestGoVersion checks that `make` reports a go command that is missing or too old. If the go command in PATH is too
// old, `make` must use a recent go command in Go's default installation directory.
func TestGoVersion(t *testing.T) {
	// The test reads the Makefile and passes the text to `make` on standard input, so that the cache of `go test`
	// depends on the Makefile.
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	// PATH contains a directory with links to the tools that `make` needs. PATH does not contain /usr/bin, because a go
	// command may be installed there.
	tools := t.TempDir()
	for _, tool := range []string{"date", "dpkg", "git", "head", "sed", "sort", "stat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, tool)); err != nil {
			t.Fatal(err)
		}
	}
	// golang returns a directory with a fake go command of the given version, or an empty directory if the version is
	// "".
	golang := func(version string) string {
		dir := t.TempDir()
		if version == "" {
			return dir
		}
		script := "#!/bin/sh\n[ \"$GOTOOLCHAIN $*\" = 'local env GOVERSION' ] && echo '" + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, test := range []struct{ path, installed, want string }{
		{"go1.19.8", "", "and PATH/go is 1.19.8: https://go.dev/doc/install"},
		{"go1.25.9", "go1.3", "and INSTALLED/go is 1.3: https://go.dev/doc/install"},
		{"", "", "and there is no go here: https://go.dev/doc/install"},
		{"go1.26", "", ""},
		{"go1.26rc1", "", ""},
		{"go1.26.2 X:nodwarf5", "", ""},
		{"go1.100.1", "go1.19", ""},
		{"go1.19.8", "go1.26.8", ""},
		{"", "go1.27", ""},
	} {
		path, installed := golang(test.path), golang(test.installed)
		c := exec.Command("make", "--no-print-directory", "-f", "-", "check-go", "GO_INSTALLED="+installed)
		c.Dir, c.Stdin, c.Env = "..", bytes.NewReader(makefile), []string{"PATH=" + path + ":" + tools}
		var said strings.Builder
		c.Stderr = &said
		err := c.Run()
		first, _, _ := strings.Cut(strings.NewReplacer(path, "PATH", installed, "INSTALLED").Replace(said.String()), "\n")
		want, status := "", 0
		if test.want != "" {
			want, status = "hotmount is built with Go 1.26 or later, "+test.want, 2
		}
		if c.ProcessState.ExitCode() != status || first != want {
			t.Errorf("go %q in PATH, %q installed: %v\n%s", test.path, test.installed, err, &said)
		}
	}
}

// TestMissingPackages checks that packaging/need names the missing Debian packages to a user who is not root.
// packaging/need must install nothing.
func TestMissingPackages(t *testing.T) {
	script, err := os.ReadFile("../packaging/need")
	if err != nil {
		t.Fatal(err)
	}
	for packages, want := range map[string]string{
		"bash hotmount-no-such dash hotmount-neither": "these Debian packages are missing: apt-get install hotmount-no-such hotmount-neither\n",
		"bash dash": "",
	} {
		c := exec.Command("bash", append([]string{"-s"}, strings.Fields(packages)...)...)
		c.Dir, c.Stdin = "/", bytes.NewReader(script)
		if os.Getuid() == 0 {
			const nobody = 65534
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		out, err := c.CombinedOutput()
		if (err != nil) != (want != "") || string(out) != want {
			t.Errorf("%s: %v:\n%s", packages, err, out)
		}
	}
}

// TestSources checks that SOURCES in the Makefile lists everything that packaging/build copies, except README.md and
// CHANGELOG.md. A result of `make test-full` is valid as long as the digest of SOURCES stays the same.
func TestSources(t *testing.T) {
	words := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		return strings.Fields(string(found[1]))
	}
	sources := words("../Makefile", `(?m)^SOURCES := (.*)$`)
	for _, packed := range words("../packaging/build", `(?m)^cp -R (.*) "\$stage"/$`) {
		top, _, _ := strings.Cut(packed, "/")
		if !slices.Contains(append(sources, "README.md", "CHANGELOG.md"), top) {
			t.Errorf("%s is packed, but not among the Makefile's SOURCES", packed)
		}
	}
}
