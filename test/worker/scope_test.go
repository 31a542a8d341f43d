//go:build root

package worker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scopeName is the environment variable that enables TestScopeInside.
const scopeName = "HOTMOUNT_TEST_SCOPE"

// TestScopeInside makes a cgroup on a machine whose PID 1 is systemd. TestScope runs TestScopeInside in a container.
// Without the environment variable scopeName, TestScopeInside does nothing.
func TestScopeInside(t *testing.T) {
	if os.Getenv(scopeName) == "" {
		return
	}
	g, err := newControlGroup(t.Context(), "hotmount-nested", func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(g.dir) != "hotmount-nested.scope" || g.holder == nil {
		t.Errorf("the cgroup is %s", g.dir)
	}
	all, err1 := os.ReadFile(filepath.Join(g.dir, "cgroup.controllers"))
	inside, err2 := os.ReadFile(filepath.Join(g.insideDir(), "cgroup.controllers"))
	if err1 != nil || err2 != nil || string(all) != string(inside) {
		t.Errorf("of the controllers %q the container has %q, %v %v", all, inside, err1, err2)
	}
	if err := allowDevices(g.dir, []device{{false, 1, 3}}); err != nil {
		t.Error(err)
	}
	if delegate, err := command(t.Context(), nil, "systemctl", "show", "-P", "Delegate", "hotmount-nested.scope"); err != nil || delegate != "yes\n" {
		t.Errorf("the scope is delegated: %q, %v", delegate, err)
	}
	if err := g.recreate(); err != nil {
		t.Error(err)
	}
	if err := g.remove(); err != nil {
		t.Error(err)
	}
	if exists(g.dir) {
		t.Errorf("%s is left", g.dir)
	}
}

// TestScope checks that newControlGroup makes a delegated scope on a machine whose PID 1 is systemd.
func TestScope(t *testing.T) {
	c := startContainer(t, ContainerOptions{})
	if err := c.Put(t.Context(), os.Args[0], "/root/worker.test"); err != nil {
		t.Fatal(err)
	}
	out := runIn(t, c, scopeName+"=1 /root/worker.test -test.v -test.run ^TestScopeInside$; systemctl list-units --all 'hotmount-nested*'; systemctl is-system-running")
	if !strings.Contains(out, "--- PASS: TestScopeInside") || strings.Contains(out, "nested.scope") {
		t.Error(out)
	}
}

// TestIsRemoved checks the kernel's errors for a cgroup that is removed before its file is opened, and for a cgroup that
// is removed while its file is open.
func TestIsRemoved(t *testing.T) {
	g, err := newControlGroup(t.Context(), "hotmount-removed", func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(g.insideDir(), "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err, g.remove())
	}
	defer func() { _ = file.Close() }()
	_, err = file.WriteString("x")
	if err == nil || isRemoved(err) {
		t.Errorf("of a cgroup that exists: %v", err)
	}
	if err := g.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("x"); err == nil || !isRemoved(err) {
		t.Errorf("removed while the file is open: %v", err)
	}
	if _, err := os.ReadFile(file.Name()); !isRemoved(err) {
		t.Errorf("removed before the file is opened: %v", err)
	}
}

// TestAnswers checks that answers() returns false for a container's boot script. The boot script begins in the host's
// root directory, which contains the private socket of the host's systemd. If answers() returned true for the boot
// script, a script for the container would change the host.
func TestAnswers(t *testing.T) {
	host := exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs x /run; mkdir /run/systemd; : >/run/systemd/private; echo there; read end")
	stdin, err1 := host.StdinPipe()
	stdout, err2 := host.StdoutPipe()
	if err := errors.Join(err1, err2, host.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(stdin.Close(), host.Wait()) }()
	if said := bufio.NewScanner(stdout); !said.Scan() || said.Text() != "there" {
		t.Fatal("no socket is made")
	}
	if !exists(fmt.Sprintf("/proc/%d/root/run/systemd/private", host.Process.Pid)) || answers(host.Process.Pid) {
		t.Error("a shell is taken for systemd")
	}
}
