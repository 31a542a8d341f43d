//go:build deb

// Package packaging tests the Debian package that the environment variable HOTMOUNT_DEB names. Package packaging also
// tests that security.md agrees with the systemd units. PACKAGES_test in the Makefile lists the Debian packages of the
// tools that the tests run.
package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// deb returns the path of the Debian package under test.
func deb(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HOTMOUNT_DEB")
	if path == "" {
		t.Fatal("HOTMOUNT_DEB names no package: make test-deb")
	}
	return path
}

// The function `run` runs a tool and returns its output. If the tool fails, the test fails.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLintian(t *testing.T) {
	run(t, nil, "lintian", "--pedantic", "--tag-display-limit", "0", "--fail-on", "error,warning,pedantic", "--allow-root", deb(t))
}

// TestContents runs packaging/check on the Debian package of each architecture.
func TestContents(t *testing.T) {
	for path := range strings.SplitSeq(os.Getenv("HOTMOUNT_DEBS"), " ") {
		field := func(name string) string { return run(t, nil, "dpkg-deb", "-f", path, name) }
		t.Log(run(t, nil, filepath.Join(root, "packaging/check"), path, field("Architecture"), field("Version"), os.Getenv("HOTMOUNT_COMMIT"), os.Getenv("HOTMOUNT_DATE")))
	}
}

// TestSize checks that the Debian package is smaller than 4 MB, and occupies less than 14 MB after the installation.
func TestSize(t *testing.T) {
	info, err := os.Stat(deb(t))
	if err != nil {
		t.Fatal(err)
	}
	installed, err := strconv.Atoi(run(t, nil, "dpkg-deb", "-f", deb(t), "Installed-Size"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, installed %d KiB", info.Size(), installed)
	if info.Size() >= 4e6 || installed*1024 >= 14e6 {
		t.Error("it is too large")
	}
}

// TestLinks checks that each relative link of the installed documents leads to an installed file.
func TestLinks(t *testing.T) {
	tree := t.TempDir()
	run(t, nil, "dpkg-deb", "-x", deb(t), tree)
	found := 0
	for _, pattern := range []string{"*.md", "adr/*.md"} {
		files, err := filepath.Glob(filepath.Join(tree, "usr/share/doc/hotmount", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)`).FindAllStringSubmatch(string(text), -1) {
				found++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil && !strings.Contains(m[1], "://") {
					t.Errorf("%s: %v", filepath.Base(file), err)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}

func TestManPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "packaging/man/*"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		c := exec.CommandContext(t.Context(), "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
		c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
		var warnings bytes.Buffer
		c.Stderr = &warnings
		if err := c.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", page, err, &warnings)
		}
		t.Log(run(t, nil, "lexgrog", page))
	}
}

func TestAlerts(t *testing.T) {
	t.Chdir(filepath.Join(root, "packaging/examples/prometheus"))
	run(t, nil, "promtool", "check", "rules", "hotmount-alerts.yaml")
	run(t, nil, "promtool", "test", "rules", "hotmount-alerts.test.yaml")
}

// TestCompletion checks the syntax of the completion scripts for bash, zsh and fish, and completes a command in zsh and
// fish.
func TestCompletion(t *testing.T) {
	tree := t.TempDir()
	run(t, nil, "dpkg-deb", "-x", deb(t), tree)
	share := filepath.Join(tree, "usr/share")
	bash, zsh, fish := share+"/bash-completion/completions/hotmount", share+"/zsh/vendor-completions/_hotmount", share+"/fish/vendor_completions.d/hotmount.fish"
	run(t, nil, "bash", "-n", bash)
	run(t, nil, "zsh", "-n", zsh)
	run(t, nil, "fish", "-n", fish)
	path := []string{"PATH=" + filepath.Join(tree, "usr/bin") + ":" + os.Getenv("PATH")}
	// The stub replaces zsh's completion functions, which need a terminal.
	stub := `compdef() { :; }; _describe() { print -rl -- $completions; }; source ` + zsh + `; words=(hotmount rel); CURRENT=2; _hotmount`
	for shell, offered := range map[string]string{
		"fish": run(t, path, "fish", "--no-config", "-c", "source "+fish+`; complete -C "hotmount rel"`),
		"zsh":  run(t, path, "zsh", "-fc", stub),
	} {
		if !regexp.MustCompile(`^release[:\t][^\n]*$`).MatchString(offered) {
			t.Errorf("%s completes hotmount rel to %q", shell, offered)
		}
	}
}

// exposures maps each service to its highest allowed exposure level (systemd-analyze(1), security).
var exposures = map[string]float64{
	"hotmount.service":          1.6,
	"hotmount-format@.service":  1.5,
	"hotmount-cleanup@.service": 2.5,
	"hotmount-tidy.service":     3.0,
	"hotmount-unmount@.service": 3.8,
	"hotmount-wait@.service":    1.1,
	"hotmount-gone@.service":    1.1,
	"hotmount-users@.service":   1.7,
	"hotmount-options.service":  1.4,
	"hotmount-stage@.service":   1.7,
	"hotmount-grow@.service":    3.5,
	"hotmount-block@.service":   2.9,
	"hotmount-trim.service":     3.4,
	"hotmount-udev.service":     1.2,
}

var (
	overall      = regexp.MustCompile(`Overall exposure level.*: ([0-9.]+) `)
	capabilities = regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`)
)

// TestExposure checks the exposure level and the time limit of each service, and the table in security.md.
func TestExposure(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(root, "systemd/*.service"))
	if err != nil || len(units) != len(exposures) {
		t.Fatalf("%d services, %d exposures, %v", len(units), len(exposures), err)
	}
	table := read(t, "packaging/doc/security.md")
	for _, path := range units {
		unit := filepath.Base(path)
		text := read(t, "systemd/"+unit)
		found := overall.FindStringSubmatch(run(t, nil, "systemd-analyze", "security", "--offline=true", "--no-pager", path))
		if found == nil {
			t.Fatalf("systemd-analyze prints no exposure level of %s", unit)
		}
		if is, err := strconv.ParseFloat(found[1], 64); err != nil || is > exposures[unit] {
			t.Errorf("%s has an exposure level of %s, more than %v (%v)", unit, found[1], exposures[unit], err)
		}
		if !strings.Contains(text, "\nTimeoutStartSec=") {
			t.Errorf("%s has no time limit", unit)
		}
		has := "none"
		if found := capabilities.FindStringSubmatch(text); found == nil {
			t.Errorf("%s keeps all capabilities", unit)
		} else if found[1] != "" {
			has = strings.ReplaceAll(strings.ReplaceAll(found[1], "CAP_", ""), " ", ", ")
		}
		if row := fmt.Sprintf("\n| `%s` | %s | %s |", unit, found[1], has); !strings.Contains(table, row) {
			t.Errorf("security.md does not have the row %q", row)
		}
	}
}
