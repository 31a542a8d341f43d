package worker

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFirstWords checks that firstWords returns the kernel's output only until the kernel starts its first process.
func TestFirstWords(t *testing.T) {
	const kernel, more, begun = "[    0.000000] Linux version 6.1\n", "[    1.1] IP idents\n", "[    3.9] Run /init as init process\nLoading\n"
	log := filepath.Join(t.TempDir(), "serial.log")
	g := &guest{serial: log, serialFrom: 4}
	if got := g.firstWords(); got != "" {
		t.Errorf("without a log: %q", got)
	}
	for text, want := range map[string]string{
		"":                              "",
		"SeaBIOS\n":                     "",
		kernel:                          "] Linux version 6.1\n",
		kernel + more:                   "] Linux version 6.1\n" + more,
		kernel + more + begun:           "",
		kernel + begun + kernel + more:  "] Linux version 6.1\n" + more,
		kernel + begun + kernel + begun: "",
	} {
		if err := os.WriteFile(log, []byte("old\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := g.firstWords(); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
