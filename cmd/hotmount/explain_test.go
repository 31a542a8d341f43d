package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/cli"
	"hotmount/internal/disk"
)

// TestExplain checks that explain prints the same text on the node and from a dump on another machine.
func TestExplain(t *testing.T) {
	dir := t.TempDir()
	machine(t)
	here, _, err := call(t, "explain", "/dev/vdb")
	if err != nil || !strings.Contains(here, "Class default has the disk.\n  yes  transport: virtio, virtio-scsi: found virtio\n  yes  vendor: 0x*, QEMU: found 0x1af4\n") {
		t.Error(err, here)
	}
	facts, _, err := call(t, "explain", "vdb", "--facts")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"facts.json": facts})
	h := machine(t)
	if err := os.RemoveAll(h.Root); err != nil {
		t.Fatal(err)
	}
	there, _, err := call(t, "explain", "--from", filepath.Join(dir, "facts.json"))
	if err != nil || there != here {
		t.Errorf("from the dump: %v\n%s\nbut it was\n%s", err, there, here)
	}

	// The configuration file that --config names must replace the configuration in the dump.
	write(t, dir, map[string]string{"new.yaml": "classes: [{name: new, directory: /new}]\n"})
	out, _, err := call(t, "explain", "--from", filepath.Join(dir, "facts.json"), "--config", filepath.Join(dir, "new.yaml"))
	if err != nil || !strings.Contains(out, "Class new has the disk.") || strings.Contains(out, "default") {
		t.Error(err, out)
	}

	// The following checks use a dump with other classes.
	var d cli.Dump
	if err := json.Unmarshal([]byte(facts), &d); err != nil {
		t.Fatal(err)
	}
	fast, rest := d.Settings.Classes[0], d.Settings.Classes[0]
	fast.Name, fast.Selectors = "fast", disk.Selectors{Transport: []string{"nvme"}, Serial: []string{"DATA-*"}}
	rest.Name, rest.Selectors = "rest", disk.Selectors{Size: disk.SizeRange{Least: 1 << 30}}
	d.Settings.Classes = []disk.Class{fast, d.Settings.Classes[0], rest}
	d.Settings.Exclude = []disk.Selectors{{Serial: []string{"OLD"}}}
	explained := func() string {
		t.Helper()
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, map[string]string{"other.json": string(text)})
		out, _, err := call(t, "explain", "--from", filepath.Join(dir, "other.json"))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out = explained()
	for _, want := range []string{
		"vdb (disk sequence number 1016): 5 GiB, serial DATA-1",
		"Class fast does not select the disk.\n  NO   transport: nvme: found virtio\n  yes  serial: DATA-*: found DATA-1\n",
		"Class rest would select the disk, but class default comes first.\n  yes  size: 1 GiB (1073741824 bytes)..: found 5 GiB (5368709120 bytes)\n",
		"  NO   udev reports no signature on the disk: ID_FS_TYPE=xfs ",
		"  NO   the disk is proven blank (blank: auto): filesystem xfs",
		"  yes  no other disk has the same serial, or the disk was accepted: serial DATA-1\n",
		"\nDecision: mount: the disk holds xfs 0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f (filesystem)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	d.Settings.Exclude[0].Serial[0] = "DATA-?"
	if out := explained(); !strings.Contains(out, "exclude[0] matches the disk: no class can use the disk.\n  yes  serial: DATA-?: found DATA-1\n") || !strings.Contains(out, "Decision: ignore: the configuration excludes the disk") {
		t.Error(out)
	}
	d.Settings.Exclude[0], d.Facts.MapperName = disk.Selectors{MapperNames: []string{"vg0-*"}}, "vg0-system"
	if out := explained(); !strings.Contains(out, "exclude[0] matches the disk: no class can use the disk.\n  yes  mapper_names: vg0-*: found vg0-system\n") || !strings.Contains(out, "Decision: ignore: the configuration excludes the disk") {
		t.Error(out)
	}
	machine(t)

	// The following checks use the system disk, a dump with hostile bytes, and an invalid dump.
	out, _, err = call(t, "explain", "vda")
	if err != nil || !strings.Contains(out, "no class can use the disk") || !strings.Contains(out, "Class default would select the disk.") || !strings.Contains(out, "Decision: ignore: the disk carries the system") || strings.Contains(out, "Conditions") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = call(t, "explain", "vdc"); err != nil || strings.Contains(out, "\x1b") || !strings.Contains(out, `LVM2_member\x1b[31m`) {
		t.Errorf("%v\n%q", err, out)
	}
	write(t, dir, map[string]string{"bad.json": `{"version": 1, "facts": {}}`})
	for _, args := range [][]string{{"explain", "vdz"}, {"explain", "--from", filepath.Join(dir, "bad.json")}, {"explain"}, {"explain", "vdb", "--from", "x"}} {
		if out, code, err := call(t, args...); code == 0 || out != "" {
			t.Errorf("%q: %d %v %s", args, code, err, out)
		}
	}
}
