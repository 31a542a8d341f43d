//go:build vm

package system

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// fails runs a script that has to fail and gives what it prints.
func (m machine) fails(script string) string {
	m.t.Helper()
	out := m.run("if out=$(" + script + " 2>&1); then echo \"it succeeded: $out\"; else echo \"refused: $out\"; fi")
	if !strings.HasPrefix(out, "refused: ") {
		m.t.Errorf("%s: %s", script, out)
	}
	return out
}

// writes counts the write and discard requests that the guest has sent.
func (m machine) writes(name string) string {
	m.t.Helper()
	return m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat")
}

var confirmPattern = regexp.MustCompile(`--confirm ([0-9a-f]{32})`)

// offer asks for the token of a disk.
func (m machine) offer(name string) (text, token string) {
	m.t.Helper()
	text = m.run("hotmount format " + name)
	found := confirmPattern.FindStringSubmatch(text)
	if found == nil {
		m.t.Fatalf("no token:\n%s", text)
	}
	return text, found[1]
}

// scribble puts random bytes into the file of a disk; the first is not zero.
func scribble(t *testing.T, image string, at int64, n int) {
	t.Helper()
	c := chance(t)
	b := []byte{1}
	for len(b) < n {
		b = append(b, byte(c.Uint32()))
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// throttle bounds how fast the worker reads and writes a disk, in bytes a second;
// 0 for no bound. The id is QEMU's: a virtio disk's reads and writes are of a part
// of it.
func throttle(t *testing.T, w *worker.Worker, id string, read, write int) {
	t.Helper()
	args := map[string]any{"id": id, "bps": 0, "bps_rd": read, "bps_wr": write, "iops": 0, "iops_rd": 0, "iops_wr": 0}
	if _, err := w.QMP(ctx(t), "block_set_io_throttle", args); err != nil {
		t.Fatal(err)
	}
}
