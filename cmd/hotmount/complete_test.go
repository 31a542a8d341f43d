package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/policy"
)

// TestComplete checks that completion offers the words that fit the command.
func TestComplete(t *testing.T) {
	machine(t)
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	var reasons string
	for _, e := range policy.Reasons() {
		reasons += " " + string(e.Reason)
	}
	for call, want := range map[string]string{
		"events ":                "vdb vdc " + uuid + " default" + reasons,
		"wait ":                  uuid,
		"format ":                "vdc",
		"accept ":                "vdb vdc",
		"release ":               "",
		"forget ":                "",
		"accept vdc ":            "",
		"status -o ":             "text wide json yaml",
		"run --log-format ":      "auto text json",
		"history ":               "",
		"provisioner check ":     "FILES",
		"plan --config ":         "FILES",
		"completion ":            "bash fish powershell zsh",
		"events --lines=5 vdb o": "",
	} {
		var b bytes.Buffer
		c := root()
		c.SetOut(&b)
		c.SetErr(new(bytes.Buffer))
		c.SetArgs(append([]string{"__complete"}, strings.Split(call, " ")...))
		if err := c.Execute(); err != nil {
			t.Fatal(err)
		}
		var words []string
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		for _, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
			if strings.Contains(line, "\x1b") {
				t.Errorf("%s: %q", call, line)
			}
		}
		// The last line of cobra's output (completions.go) is :4 for no file names, :8 for files with certain endings,
		// and :0 for all files.
		if last := lines[len(lines)-1]; last == ":0" || last == ":8" {
			words = []string{"FILES"}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q, want %q", call, got, want)
		}
	}
}

// TestCompleteRelease checks that completion offers only what hotmount release accepts. Completion must not offer a
// disk whose link belongs to another disk. For example, for a partition of a block volume, hotmount also shows the link
// of the whole disk.
func TestCompleteRelease(t *testing.T) {
	h := machine(t)
	settings := config.Default()
	attach(t, h.Root, "vdd", 48, "LEFT-1", "E:ID_FS_USAGE=filesystem", "E:ID_FS_TYPE=xfs", "E:ID_FS_UUID_ENC=0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e60")
	attach(t, h.Root, "sdx", 64, "NO-CLASS-1")
	for name, link := range map[string]string{"vdb": "", "vdc": "virtio-ANOTHER", "sdx": ""} {
		f, err := host().For(&settings).ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if link == "" {
			link = f.LinkName()
		}
		write(t, h.Store.Runtime, map[string]string{fmt.Sprintf("links/%d", f.Seq): "/mnt/raw/" + link})
		write(t, h.Root, map[string]string{"mnt/raw/" + link: "-> " + disk.LinkDirectory + "/" + link, disk.LinkDirectory + "/" + link: "-> " + f.BySeq()})
	}
	left, err := host().For(&settings).ByName("vdd")
	if err == nil {
		err = h.Store.KeepUnmounted(left, disk.ReasonReleased)
	}
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"release": "sdx vdb vdd", "accept": "vdd", "explain": "vdd"} {
		out, _, err := call(t, "__complete", line, "")
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for l := range strings.Lines(out) {
			if word, _, ok := strings.Cut(l, "\t"); ok {
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestManual checks that hotmount(8) has each command for users in its synopsis, and explains each of these commands.
// TestManual also checks that hotmount-units(7) explains each unit.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../packaging/man/hotmount.8")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), `\-`, "-")
	explained := regexp.MustCompile(`(?m)^\.(?:B|BI|BR) "?([a-z][a-z -]*[a-z])"?`).FindAllStringSubmatch(text, -1)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if below.Hidden || below.Name() == "help" || below.Name() == "completion" {
				continue
			}
			if below.HasSubCommands() {
				walk(below)
				continue
			}
			path := below.CommandPath()
			// In the synopsis, commands with a common parent share one line, such as config {check | show}.
			if !strings.Contains(text, ".B "+path+"\n") && !(strings.Contains(text, ".B "+c.CommandPath()+"\n") && strings.Contains(text, below.Name())) {
				t.Errorf("no %q in the synopsis", path)
			}
			words := strings.TrimPrefix(path, "hotmount ")
			if !slices.ContainsFunc(explained, func(m []string) bool { return m[1] == words }) {
				t.Errorf("%q is not explained", path)
			}
		}
	}
	walk(root())
	units, err := filepath.Glob("../../systemd/hotmount*.service")
	if err != nil || len(units) == 0 {
		t.Fatal(err)
	}
	page, err = os.ReadFile("../../packaging/man/hotmount-units.7")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(string(page), `\-`, "-")
	for _, u := range units {
		if name := strings.TrimSuffix(filepath.Base(u), ".service"); !strings.Contains(text, name) {
			t.Errorf("the unit %s is not in hotmount-units(7)", name)
		}
	}
}

// TestManualPages checks that each page of a command has the command's synopsis, and that hotmount(8) refers to the
// page. TestManualPages also checks that each reference to a manual page of hotmount leads to an existing page.
func TestManualPages(t *testing.T) {
	const pages = "../../packaging/man/"
	files, err := filepath.Glob(pages + "hotmount-*.8")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), `\-`, "-")
	}
	overview := read(pages + "hotmount.8")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".8")
		command := strings.Replace(name, "-", " ", 1)
		_, synopsis, _ := strings.Cut(overview, ".B "+command+"\n")
		synopsis, _, _ = strings.Cut(synopsis, "\n.br\n")
		if page := read(file); synopsis == "" || !strings.Contains(page, ".SH SYNOPSIS\n.B "+command+"\n"+synopsis+"\n.SH ") {
			t.Errorf("%s does not have the synopsis of hotmount(8):\n%s", file, synopsis)
		}
		if !strings.Contains(overview, `\fB`+name+`\fR(8)`) || !strings.Contains(overview, ".BR "+name+" (8)") {
			t.Errorf("hotmount(8) does not refer to %s(8)", name)
		}
	}
	reference := regexp.MustCompile(`\b(hotmount[a-z.-]*)(?:\\fR| )?\(([578])\)`)
	all, err := filepath.Glob(pages + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(all, "../../packaging/catalog/hotmount.catalog", "../../README.md") {
		for _, m := range reference.FindAllStringSubmatch(read(file), -1) {
			if _, err := os.Stat(pages + m[1] + "." + m[2]); err != nil {
				t.Errorf("%s refers to %s(%s): %v", file, m[1], m[2], err)
			}
		}
	}
}
