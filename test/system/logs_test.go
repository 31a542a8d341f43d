//go:build vm && (long || full)

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// failing names the variable that has TestThatFails fail.
const failing = "HOTMOUNT_TEST_FAILS"

// TestThatFails does so for TestLogsAreKept: with a worker that is there, and one that can
// not be prepared.
func TestThatFails(t *testing.T) {
	how := os.Getenv(failing)
	if how == "" {
		return
	}
	const say = "logger -t test this is in the journal; echo this is on the console >/dev/console"
	m, _ := start(t, worker.Options{})
	m.run(say)
	if how == "yes" {
		start(t, worker.Options{Setup: say + "; echo the setup says no >&2; exit 1"})
	}
}

// TestLogsAreKept: a test that fails keeps serial log, journal and QMP log of each of
// its workers, and says where; one that passes keeps nothing.
func TestLogsAreKept(t *testing.T) {
	parallel(t)
	dir := t.TempDir()
	c := exec.CommandContext(ctx(t), os.Args[0], "-test.run=^TestThatFails$", "-test.v")
	c.Env = append(os.Environ(), failing+"=yes", "HOTMOUNT_TEST_LOGS="+dir)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the setup says no") {
		t.Fatalf("it did not fail as it should: %v:\n%s", err, out)
	}
	var places []string
	for _, found := range regexp.MustCompile(`logs: (\S+)`).FindAllStringSubmatch(string(out), -1) {
		places = append(places, found[1])
	}
	slices.Sort(places)
	if len(places) != 2 || places[0] != filepath.Join(dir, "TestThatFails") {
		t.Fatalf("it says that the logs are in %q:\n%s", places, out)
	}
	for _, place := range places {
		for name, want := range map[string]string{"serial.log": "this is on the console", "qmp.log": "qmp_capabilities", "journal.txt": "this is in the journal"} {
			if text, err := os.ReadFile(filepath.Join(place, name)); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("no %q in the %d bytes of %s/%s (%v)", want, len(text), place, name, err)
			}
		}
	}

	c = exec.CommandContext(ctx(t), os.Args[0], "-test.run=^TestThatFails$", "-test.v")
	c.Env = append(os.Environ(), failing+"=no", "HOTMOUNT_TEST_LOGS="+filepath.Join(dir, "none"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "none")); len(left) > 0 {
		t.Errorf("a test that passes has left %v (%v)", left, err)
	}
}
