package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestConfigCheckAndShow(t *testing.T) {
	machine(t)
	out, code, err := call(t, "config", "show", "--settle=9s", "--config=/dev/null")
	if code != 1 || out != "" || !strings.Contains(err.Error(), "expected a regular file") {
		t.Error(out, code, err)
	}
	out, code, err = call(t, "config", "check", "--config=/dev/null", "--settle=9")
	if code != 3 || !strings.Contains(out, "--settle: found \"9\", expected a duration") || !strings.Contains(out, "regular file") || err.Error() != "the configuration has 2 faults" {
		t.Error(out, code, err)
	}
	if out, code, err = call(t, "config", "check"); code != 0 || !strings.Contains(out, "default (/mnt/disks)") {
		t.Error(out, code, err)
	}
	if out, code, err = call(t, "config", "show", "--settle=9s"); code != 0 || !strings.Contains(out, "settle: 9s") || !strings.Contains(out, "# --settle\n") {
		t.Error(out, code, err)
	}
	// The command `config check` must also run the node's mkfs, and look for symbolic links in the paths of class
	// directories. /lib is a symbolic link on a system with merged /usr.
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "classes:\n- {name: a, directory: /mnt/a, mkfs_options: [\"-i size=17\"], names: [vdb]}\n- {name: b, directory: /lib/b, names: [vdc]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code, err = call(t, "config", "check", "--config="+file)
	for _, want := range []string{`:2: classes[0].mkfs_options: found ["-i size=17"], which mkfs.xfs refuses: `, ":3: classes[1].directory: found \"/lib/b\", in which /lib is a symbolic link"} {
		if code != 3 || !strings.Contains(out, want) {
			t.Errorf("no %q in %s: %d, %v", want, out, code, err)
		}
	}
}

// TestWarningOfMissingDirectory checks that `config check` warns about a class directory that does not exist.
func TestWarningOfMissingDirectory(t *testing.T) {
	machine(t)
	file, missing := filepath.Join(t.TempDir(), "config.yaml"), "/mnt/slwo"
	if err := os.WriteFile(file, []byte("classes:\n- {name: slow, directory: "+missing+", names: [vdb]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code, err := call(t, "config", "check", "--config="+file)
	if want := file + ":2: warning: classes[0].directory: " + missing + " does not exist; to make it: mkdir -p " + missing + "\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("no %q in %s: %d, %v", want, out, code, err)
	}
}

// TestWarningsOfUnused checks that a class or an exclusion without attached disks causes a warning and no fault.
func TestWarningsOfUnused(t *testing.T) {
	machine(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "exclude:\n- {serial: [OLD-*]}\n- {serial: [DATA-1]}\nclasses:\n- {name: a, directory: /srv, names: [vdc]}\n- {name: b, directory: /opt, serial: ['re:x^']}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := file + ":2: warning: exclude[0] selects no attached disk\n" + file + ":6: warning: classes[1] selects no attached disk\nTo compare with the attributes of a disk: hotmount explain DISK\n"
	for _, command := range [][]string{{"config", "check"}, {"plan"}} {
		out, code, err := call(t, append(command, "--config="+file)...)
		if code != 0 || !strings.Contains(out, want) || strings.Count(out, "warning") != 2 {
			t.Errorf("%v: %s: %d, %v", command, out, code, err)
		}
		// The default class is not in the configuration, so it causes no warning.
		if out, code, err = call(t, command...); code != 0 || strings.Contains(out, "warning") {
			t.Errorf("%v of the defaults: %s: %d, %v", command, out, code, err)
		}
	}
}

// TestNewDisksHeld checks that `config check`, `plan` and `state init` warn about classes that hold new disks. hotmount
// holds a new disk if a storage driver on the node can attach or use such disks.
func TestNewDisksHeld(t *testing.T) {
	h := machine(t)
	registry := filepath.Join(h.Root, "var/lib/kubelet/plugins_registry")
	if err := os.MkdirAll(registry, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mknod(filepath.Join(registry, "cinder.csi.openstack.org-reg.sock"), syscall.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	attach(t, h.Root, "vdd", 48, "4d8ac1b2-9f6e-4a3c-8")
	const line = "class default holds each new disk until you run hotmount accept DISK may-be-a-csi-volume: a storage driver seen on this node (cinder.csi.openstack.org) can attach or use such disks; "
	const held = "a storage driver seen on this node (cinder.csi.openstack.org) may have attached this disk or may use it, so hotmount does not open the disk; " +
		"if the disk is the node's own: hotmount accept vdd may-be-a-csi-volume; if the driver was removed, list the driver in csi_ignore (hotmount.yaml(5)); to use the disk without hotmount accept, give the disk a class with serial: ['4d8ac1b2-9f6e-4a3c-8']\n"
	for command, want := range map[string][]string{
		"config check": {"warning: " + line}, "plan": {"warning: " + line, held}, "state init": {"\n" + line, "/dev/vdd (5 GiB) is held: " + held},
	} {
		out, code, err := call(t, strings.Fields(command)...)
		for _, w := range want {
			if code != 0 || err != nil || !strings.Contains(out, w) {
				t.Errorf("%s: no %q in %s: %d, %v", command, w, out, code, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("csi_ignore: [cinder.csi.openstack.org]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code, err := call(t, "plan", "--config="+file); code != 0 || err != nil || strings.Contains(out, "storage driver") {
		t.Errorf("ignored: %s: %d, %v", out, code, err)
	}
}
