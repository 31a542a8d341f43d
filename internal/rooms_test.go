// Package internal_test checks which packages of the module import which other packages.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The type `room` lists what one package below internal/ may import, and gives the reason for this limit.
type room struct {
	// The field `rooms` lists the packages of this module that the package may import directly.
	rooms []string
	// The field `modules` lists the modules that the package may import, directly or through other modules.
	modules []string
	// The field `not` lists the packages of the standard library that the package must not import directly.
	not    []string
	reason string
}

const (
	sys       = "golang.org/x/sys"
	goUdev    = "github.com/pilebones/go-udev"
	goSystemd = "github.com/coreos/go-systemd/v22"
	godbus    = "github.com/godbus/dbus/v5"
	mountinfo = "github.com/moby/sys/mountinfo"
	cobra     = "github.com/spf13/cobra"
	yaml      = "go.yaml.in/yaml/v3"
)

var viperModules = []string{
	"github.com/spf13/viper", "github.com/go-viper/mapstructure/v2", "go.yaml.in/yaml/v3", "github.com/spf13/pflag", "github.com/spf13/afero",
	"github.com/spf13/cast", "github.com/fsnotify/fsnotify", "github.com/pelletier/go-toml/v2", "github.com/sagikazarmark/locafero",
	"github.com/sourcegraph/conc", "github.com/subosito/gotenv", "golang.org/x/text", sys,
}

var rooms = map[string]room{
	"disk":            {not: []string{"os", "os/exec", "net", "syscall"}, reason: "the values that travel know no operating system"},
	"policy":          {rooms: []string{"disk"}, not: []string{"os", "os/exec", "net", "syscall", "time", "log", "log/slog", "math/rand", "math/rand/v2"}, reason: "the decision is pure, so that it can be tested by the thousand and be the same everywhere"},
	"policy/identity": {rooms: []string{"disk"}, not: []string{"os", "os/exec", "net", "syscall", "log", "log/slog", "math/rand", "math/rand/v2"}, reason: "whether two records mean one disk is pure, as the decision is"},
	"config":          {rooms: []string{"disk"}, modules: viperModules, not: []string{"os/exec"}, reason: "viper stays in one room"},
	"uevent":          {modules: []string{goUdev, sys}, not: []string{"os/exec"}, reason: "an event is a hint: who hears it looks at nothing"},
	"sysfs":           {rooms: []string{"disk"}, modules: []string{sys}, not: []string{"os/exec", "net"}, reason: "facts come from files, not from tools"},
	"mounts":          {rooms: []string{"disk"}, modules: []string{mountinfo, sys}, not: []string{"os/exec", "net"}, reason: "the mount table is read, never changed here"},
	"run":             {modules: []string{sys}, reason: "child processes know nothing of disks"},
	"probe":           {rooms: []string{"disk", "run"}, modules: []string{sys}, not: []string{"os/exec", "net"}, reason: "reading a disk writes nothing, and children go through run"},
	"format":          {rooms: []string{"disk", "probe", "run"}, modules: []string{sys}, not: []string{"os/exec", "net"}, reason: "what writes a filesystem to a disk does not choose which disk"},
	"grow":            {rooms: []string{"disk", "mounts", "probe", "run"}, modules: []string{mountinfo, sys}, not: []string{"os/exec", "net"}, reason: "the tools write, and the disk is chosen elsewhere"},
	"store":           {rooms: []string{"disk", "policy/identity"}, modules: []string{sys}, not: []string{"os/exec", "net"}, reason: "what is remembered is files"},
	"csi":             {rooms: []string{"disk"}, not: []string{"os/exec", "net"}, reason: "a driver is known by the names of files: nobody is asked"},
	"inventory":       {rooms: []string{"csi", "disk", "mounts", "store", "sysfs"}, modules: []string{mountinfo, sys}, not: []string{"os/exec", "net"}, reason: "gathering reads no content and asks nobody"},
	"doctor":          {rooms: []string{"csi", "disk", "mounts", "run"}, modules: []string{mountinfo, sys}, not: []string{"os/exec", "net"}, reason: "the doctor looks and changes nothing; what may hang runs in a child"},
	"unit":            {rooms: []string{"disk"}, modules: []string{goSystemd, godbus, mountinfo, sys}, not: []string{"os/exec"}, reason: "the sole importer of D-Bus: what PID 1 can be asked for is built here alone"},
	"agent":           {rooms: []string{"disk", "policy"}, not: []string{"os", "os/exec", "net", "syscall"}, reason: "the loop is tested without a machine: no system call, no D-Bus, no netlink"},
	"provisioner":     {rooms: []string{"disk"}, modules: []string{"go.yaml.in/yaml/v3"}, not: []string{"os", "os/exec", "net", "syscall"}, reason: "text is compared with settings: nothing is asked of a cluster"},
	"report":          {rooms: []string{"disk", "policy"}, modules: []string{goSystemd, sys}, not: []string{"os/exec"}, reason: "reporting does not reach into the agent"},
	"metrics":         {rooms: []string{"disk"}, not: []string{"os/exec", "net"}, reason: "numbers go into a file: nobody is listened to"},
	"usage":           {rooms: []string{"disk", "inventory", "mounts", "run"}, not: []string{"os/exec", "net"}, reason: "a filesystem that may hang is asked by a child"},
	"helper": {rooms: []string{"control", "disk", "doctor", "format", "grow", "inventory", "mounts", "policy", "probe", "report", "run", "store", "unit", "usage"}, not: []string{"os/exec", "net"},
		reason: "a helper works on one disk, by itself: it knows neither the daemon nor the command line"},
	"daemon": {rooms: []string{"agent", "control", "disk", "inventory", "metrics", "mounts", "policy", "report", "run", "store", "uevent", "unit", "usage"}, modules: []string{goSystemd, sys}, not: []string{"os/exec", "net"},
		reason: "the daemon holds no disk: what opens one is a helper, and PID 1 starts it"},
	"cli": {rooms: []string{"config", "disk", "format", "inventory", "policy", "report", "store", "usage"}, modules: []string{cobra, goSystemd, yaml, sys}, not: []string{"net"},
		reason: "what people read is printed, and nothing is done here"},
	"control": {modules: []string{sys}, not: []string{"os/exec"}, reason: "the socket carries words, it does not know what they mean"},
}

// The variable `commands` lists what the package main may import.
var commands = room{
	rooms: []string{"cli", "config", "control", "daemon", "disk", "doctor", "helper", "inventory", "provisioner", "report", "run", "store", "usage"}, not: []string{"os/exec", "net", "syscall"},
	reason: "a command has flags, a call and what is printed: no disk is touched from here",
}

// dbusRooms are the only packages that may use D-Bus, directly or through the packages that they import. The packages
// helper and daemon may use D-Bus only through the package unit. The package report uses the packages journal and
// daemon of go-systemd, which do not use D-Bus.
var dbusRooms = []string{"unit", "helper", "daemon"}

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
	Module     *struct{ Path string }
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps,Module"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestRooms(t *testing.T) {
	// go test uses a cached result as long as all files that the test itself opened are unchanged. The test opens the
	// directories itself, because go list opens files in another process.
	for _, dir := range []string{".", "../cmd"} {
		if err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	modules := map[string]string{}
	reach := map[string][]string{}
	for _, p := range list(t, "-deps", "hotmount/...") {
		reach[p.ImportPath] = append(p.Deps, p.ImportPath)
		if p.Module != nil {
			modules[p.ImportPath] = p.Module.Path
		}
	}
	for _, p := range list(t, "hotmount/cmd/...", "hotmount/internal/...") {
		if name, ok := strings.CutPrefix(p.ImportPath, "hotmount/cmd/"); ok {
			commands.check(t, name, p.Imports)
		}
		for _, i := range p.Imports {
			if p.ImportPath != "hotmount/internal/unit" && !strings.HasPrefix(i, "hotmount/") && slices.ContainsFunc(reach[i], func(d string) bool { return strings.HasPrefix(d, godbus) }) {
				t.Errorf("%s reaches D-Bus by %s: %s", p.ImportPath, i, rooms["unit"].reason)
			}
		}
	}
	for _, p := range list(t, "hotmount/internal/...") {
		name := strings.TrimPrefix(p.ImportPath, "hotmount/internal/")
		if strings.HasSuffix(name, "test") || name == p.ImportPath {
			continue // the package contains only fakes for tests
		}
		r, known := rooms[name]
		if !known {
			t.Errorf("%s is no room: add it, with what it may import and why", name)
			continue
		}
		r.check(t, name, p.Imports)
		for _, d := range p.Deps {
			if m := modules[d]; m != "" && m != "hotmount" && !slices.Contains(r.modules, m) && !reachedThrough(r, m) {
				t.Errorf("%s reaches the module %s by %s: %s", name, m, d, r.reason)
			}
			if strings.HasPrefix(d, godbus) && !slices.Contains(dbusRooms, name) {
				t.Errorf("%s reaches D-Bus: %s", name, r.reason)
			}
		}
	}
}

// The method `check` reports each import that the room does not allow.
func (r room) check(t *testing.T, name string, imports []string) {
	t.Helper()
	for _, i := range imports {
		if ours, ok := strings.CutPrefix(i, "hotmount/internal/"); ok && !slices.Contains(r.rooms, ours) {
			t.Errorf("%s imports %s: %s", name, ours, r.reason)
		}
		if slices.Contains(r.not, i) {
			t.Errorf("%s imports %s: %s", name, i, r.reason)
		}
	}
}

// reachedThrough reports whether a package may reach a module through the packages that it may import.
func reachedThrough(r room, m string) bool {
	for _, name := range r.rooms {
		if slices.Contains(rooms[name].modules, m) || reachedThrough(rooms[name], m) {
			return true
		}
	}
	return false
}
