package agent

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
)

// phaseChanges collects the changes of phases in all tests of this package.
var phaseChanges = struct {
	sync.Mutex
	seen map[string]bool
}{seen: map[string]bool{}}

func notePhaseChange(from, to phase) {
	names := map[phase]string{idle: "idle", looking: "looking", waiting: "waiting", acting: "acting", backingOff: "backing off"}
	phaseChanges.Lock()
	defer phaseChanges.Unlock()
	phaseChanges.seen[names[from]+" to "+names[to]] = true
}

// TestMain runs all tests. Then it compares the changes of phases that the tests have caused with the table in the
// package's comment. Each change must be in the table, and each change in the table must have happened.
func TestMain(m *testing.M) {
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == ""
	if code == 0 && whole {
		if err := comparePhases(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func comparePhases() error {
	source, err := os.ReadFile("agent.go")
	if err != nil {
		return err
	}
	const phase = `(idle|backing off|looking|waiting|acting)`
	table := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t`+phase+` .* {2,}`+phase+`.*$`).FindAllStringSubmatch(string(source), -1) {
		table[row[1]+" to "+row[2]] = true
	}
	phaseChanges.Lock()
	defer phaseChanges.Unlock()
	// In the table, a new disk has the phase (unknown). In the code, the state of a new disk starts in the phase idle.
	for change := range phaseChanges.seen {
		if !table[change] {
			return fmt.Errorf("the phase of a disk changed from %s, and the table in the comment of package agent has no such row", change)
		}
	}
	for change := range table {
		if !phaseChanges.seen[change] {
			return fmt.Errorf("the comment of package agent lists the change from %s, and no test has caused it", change)
		}
	}
	return nil
}
