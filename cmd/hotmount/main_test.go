package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/control"
	"hotmount/internal/inventory"
	"hotmount/internal/nodetest"
)

// write and attach are short names for the functions Write and Attach of package nodetest.
var write, attach = nodetest.Write, nodetest.Attach

// The function `machine` makes a test node that has no daemon. The commands use this node until the test ends. The test
// node has a system disk, a filesystem, and a disk that is refused.
func machine(t *testing.T) inventory.Host {
	t.Helper()
	h := nodetest.New(t)
	formerHost, formerSocket := host, socket
	host, socket = func() inventory.Host { return h }, filepath.Join(filepath.Dir(h.Root), "socket")
	t.Cleanup(func() { host, socket = formerHost, formerSocket })
	return h
}

// The function `call` runs a command line, and returns its output, its exit code and its error.
func call(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var b strings.Builder
	c := root()
	c.SetArgs(args)
	c.SetOut(&b)
	c.SetErr(&b)
	err = c.ExecuteContext(t.Context())
	return b.String(), exitCode(err), err
}

func TestExitCode(t *testing.T) {
	for want, err := range map[int]error{
		0: nil, 1: errors.New("x"), 2: fmt.Errorf("x: %w", usageError{errors.New("y")}), 3: fmt.Errorf("x: %w", foundError{errors.New("y")}),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// TestWrongCalls checks that a wrong call has exit code 2, names the error, and prints nothing on standard
// output.
func TestWrongCalls(t *testing.T) {
	machine(t)
	for _, test := range []struct{ args, want string }{
		{"bogus", `unknown command "bogus" for "hotmount"; see hotmount --help`},
		{"plna", "did you mean plan?"},
		{"--bogus", "--bogus"},
		{"state bogus", `unknown command "bogus" for "hotmount state"; see hotmount state --help`},
		{"state ini", "did you mean init?"},
		{"state init x", "hotmount state init --help"},
		{"state keep x", "hotmount state keep --help"},
		{"state reset x", "hotmount state reset --help"},
		{"accept", "hotmount accept --help"},
		{"accept vdb vdc", `"vdc" is not a reason`},
		{"accept vdb released x", "hotmount accept --help"},
		{"accept --all", "--all"},
		{"release", "hotmount release --help"},
		{"forget", "hotmount forget --help"},
		{"format", "hotmount format --help"},
		{"format vdb --confirm", "--confirm"},
		{"plan x", "hotmount plan --help"},
		{"plan --bogus", "--bogus"},
		{"plan --settle", "--settle"},
		{"run x", "hotmount run --help"},
		{"version x", "hotmount version --help"},
		{"history x", "hotmount history --help"},
		{"history -o yaml", `"yaml": use text or json`},
		{"doctor -o yaml", `"yaml": use text or json`},
		{"status -o xml", `"xml": use text`},
		{"cleanup", "either a path or --all"},
		{"cleanup --all /mnt/disks/x", "either a path or --all"},
		{"cleanup a b", "hotmount cleanup --help"},
		{"format-disk", "hotmount format-disk --help"},
		{"format-disk vdb", `"vdb"`},
		{"format-disk 18446744073709551616", "18446744073709551616"},
		{"unmount-gone", "hotmount unmount-gone --help"},
		{"unmount-gone /mnt/disks/x:254:16", "expected a mount point of hotmount"},
		{"unmount-gone /mnt/disks/aaaaaaaa-0000-4000-8000-000000000001", "device number"},
	} {
		out, code, err := call(t, strings.Fields(test.args)...)
		if code != 2 || err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
			t.Errorf("%s: code %d, error %v, output %q; want %q", test.args, code, err, out, test.want)
		}
	}
}

func TestRightCalls(t *testing.T) {
	machine(t)
	for args, want := range map[string]string{
		"": "hotmount [command]", "--help": "hotmount [command]", "state": "hotmount state [command]", "plan --help": "hotmount plan [flags]",
		"version": "hotmount unknown (commit unknown, unknown, go", "completion bash": "hotmount",
	} {
		if out, code, err := call(t, strings.Fields(args)...); code != 0 || err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, error %v, output %q; want %q", args, code, err, out, want)
		}
	}
	// The help does not list the commands that only units run.
	out, _, _ := call(t, "--help")
	for _, hidden := range []string{"format-disk", "cleanup", "unmount-gone"} {
		if strings.Contains(out, hidden) {
			t.Errorf("help lists %s: %s", hidden, out)
		}
	}
}

func TestAccept(t *testing.T) {
	machine(t)
	if out, code, err := call(t, "accept", "vdc"); code != 1 || !errors.Is(err, control.ErrDown) || out != "" {
		t.Errorf("without a daemon: code %d, %v, %q", code, err, out)
	}
}

// TestStateInit checks that disks that were attached at installation are held, and disks that came later are not. A
// later `state init` must record new disks only after the package was removed and installed again.
func TestStateInit(t *testing.T) {
	h := machine(t)
	attach(t, h.Root, "vdd", 48, "OLD")
	present := func() string {
		t.Helper()
		all, err := h.Scan()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range all {
			if s := &all[i].Standing; s.Present != nil {
				names = append(names, all[i].Name)
			} else if s.Formatting != "" {
				names = append(names, "off")
			}
		}
		return strings.Join(names, " ")
	}
	if got := present(); got != "off off off off" {
		t.Errorf("before: %s", got)
	}
	out, code, err := call(t, "state", "init")
	const want = "/dev/vdd (5 GiB) is held: the disk was attached before hotmount was installed, and may be blank; to let hotmount use the disk: hotmount accept vdd attached-before-installation\n"
	if code != 0 || err != nil || out != want {
		t.Errorf("code %d, %v, %q", code, err, out)
	}
	if got := present(); got != "vda vdb vdc vdd" {
		t.Errorf("present: %s", got)
	}

	attach(t, h.Root, "vde", 64, "NEW")
	if out, code, err := call(t, "state", "init"); code != 0 || err != nil || out != "" {
		t.Errorf("a second time: code %d, %v, %q", code, err, out)
	}
	if got := present(); got != "vda vdb vdc vdd" {
		t.Errorf("present after the second call: %s", got)
	}

	// The package's prerm script creates the file "removed" in the state directory.
	if err := os.WriteFile(filepath.Join(h.Store.State, "removed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := h.Scan()
	if err != nil {
		t.Fatal(err)
	}
	attach(t, h.Root, "vdf", 80, "RAW")
	for i := range all {
		if all[i].Name == "vde" {
			raw := all[i]
			raw.Name, raw.Serial = "vdf", "RAW"
			if err := h.Store.GiveOut(&raw, "boot", "raw", "/mnt/raw/virtio-RAW"); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, code, err = call(t, "state", "init")
	if strings.Contains(out, "vdf") {
		t.Errorf("a disk that is given out as a block volume is listed as held: %q", out)
	}
	if code != 0 || err != nil || !strings.Contains(out, "/dev/vde ") || !strings.Contains(out, "/dev/vdd ") || strings.Contains(out, "restart") {
		t.Errorf("installed again: code %d, %v, %q", code, err, out)
	}
	if got := present(); got != "vda vdb vdc vdd vde vdf" {
		t.Errorf("present after the second installation: %s", got)
	}
}

// TestStateInitSettings checks that `state init` lists the disks that are held under the daemon's settings. `state
// init` must record all disks, even with a faulty configuration.
func TestStateInitSettings(t *testing.T) {
	for name, put := range map[string]func(inventory.Host) error{
		"the daemon's": func(h inventory.Host) error {
			theirs := config.Default()
			theirs.Classes[0].Names = []string{"vde"}
			return h.Store.SaveSettings(&theirs)
		},
		"a fault": func(inventory.Host) error {
			t.Setenv("HOTMOUNT_SETTLE", "no time")
			return nil
		},
	} {
		h := machine(t)
		attach(t, h.Root, "vdd", 48, "OLD")
		attach(t, h.Root, "vde", 64, "OTHER")
		if err := put(h); err != nil {
			t.Fatal(err)
		}
		out, code, err := call(t, "state", "init")
		if code != 0 || err != nil || strings.Contains(out, "/dev/vdd ") == (name == "the daemon's") || !strings.Contains(out, "/dev/vde ") {
			t.Errorf("%s: code %d, %v, %q", name, code, err, out)
		}
		all, err := h.Scan()
		for i := range all {
			if all[i].Standing.Present == nil {
				t.Errorf("%s: %s is not recorded", name, all[i].Name)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// TestRunning checks that the commands `wait` and `export-units` use the daemon's settings, even if the configuration
// has a fault. Before the daemon has run, the commands use the last good settings. Flags take precedence over both.
func TestRunning(t *testing.T) {
	h := machine(t)
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	write(t, h.Root, map[string]string{"proc/1/mountinfo": "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n28 27 254:16 / /mnt/far/" + uuid + " rw shared:2 - xfs /dev/vdb rw\n"})
	t.Setenv("HOTMOUNT_SETTLE", "no time")
	dir := t.TempDir()
	wait, export := []string{"wait", uuid, "--timeout=1m"}, []string{"export-units", dir}
	for _, args := range [][]string{wait, export} {
		if out, code, err := call(t, args...); code != 1 || !strings.Contains(fmt.Sprint(err), "no time") {
			t.Errorf("%v without a daemon: %q, %d, %v", args, out, code, err)
		}
	}
	theirs := config.Default()
	theirs.Classes[0].Directory = "/mnt/far"
	// The commands may run before the daemon, which starts with its last good settings.
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.KeepSettings(config.File(&theirs)); err != nil {
		t.Fatal(err)
	}
	if out, _, err := call(t, "wait", uuid, "--timeout=1ms"); os.Geteuid() == 0 && !strings.Contains(fmt.Sprint(err), "cannot wait until") {
		t.Errorf("before the daemon: %q, %v", out, err)
	}
	if err := h.Store.SaveSettings(&theirs); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{wait, export} {
		if out, code, err := call(t, append(args, "--workers=3")...); code != 1 || !strings.Contains(fmt.Sprint(err), "no time") {
			t.Errorf("%v with a flag: %q, %d, %v", args, out, code, err)
		}
	}
	if out, _, err := call(t, "wait", uuid, "--timeout=1ms"); !strings.Contains(fmt.Sprint(err), "cannot wait until") {
		t.Errorf("%q, %v", out, err)
	}
	if out, code, err := call(t, export...); code != 0 || err != nil || !strings.Contains(out, "1 unit written") {
		t.Errorf("%q, %d, %v", out, code, err)
	}
}

// TestStateInitUnseen checks that `state init` fails and records nothing if hotmount cannot list the disks. If the
// record listed no disks, hotmount would later treat the disks that were attached at installation as new.
func TestStateInitUnseen(t *testing.T) {
	for _, missing := range []string{"sys", "proc"} {
		h := machine(t)
		if err := os.RemoveAll(filepath.Join(h.Root, missing)); err != nil {
			t.Fatal(err)
		}
		if out, code, err := call(t, "state", "init"); code != 1 || err == nil || out != "" {
			t.Errorf("without /%s: code %d, %v, %q", missing, code, err, out)
		}
		if _, err := os.Lstat(h.Store.State); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without /%s: a state directory was made: %v", missing, err)
		}
	}
}
