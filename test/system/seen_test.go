//go:build vm && (long || full)

package system

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestSeen: journal, catalog, events, completion, status and metrics as a user
// meets them (issue 6).
func TestSeen(t *testing.T) {
	m, w := start(t, worker.Options{})
	if err := worker.Need(ctx(t), os.Stderr, []string{"bash-completion", "man-db"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Put(ctx(t), "/usr/share/bash-completion/bash_completion", "/root/bash_completion"); err != nil {
		t.Fatal(err)
	}
	const nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups "
	metrics := "/var/lib/prometheus/node-exporter/hotmount.prom"
	if out := m.run("journalctl -b -u hotmount -p warning -o cat | grep -i metrics || echo none"); out != "none" {
		t.Errorf("without the directory of the metrics: %s", out)
	}
	// A configuration with a class of another directory for one serial is what
	// others test; here the disks are in the default class.
	m.run("mkdir -p /var/lib/prometheus/node-exporter; systemctl restart hotmount; systemd-run -q -u live -p StandardOutput=file:/root/live hotmount events -n 0; systemd-run -q -u livejson -p StandardOutput=file:/root/live.json hotmount events -n 0 -o json vdc")
	name, id := m.attach(w, worker.Disk{File: blank(t, gib), Serial: "GOOD"})
	uuid := m.mounted(name)
	m.wait("the mount in the journal", "journalctl -u '"+unitOf(uuid)+"' MESSAGE_ID=a9f0438d20a54cb2b5788042a7b0bdad --no-pager -q | grep -q .")
	m.wait("the metrics", "grep -q '^hotmount_filesystem_size_bytes' "+metrics)
	if out := m.run("cat " + metrics); !strings.Contains(out, `hotmount_attach_to_mounted_seconds_count{formatted="true"} 1`) || !strings.Contains(out, `hotmount_formats_total{class="default"} 1`) ||
		!strings.Contains(out, `hotmount_mounts_total{class="default"} 1`) || !regexpLine(out, `^hotmount_filesystem_size_bytes{class="default",device="/dev/vdb",uuid="`+uuid+`"} 1\.0[0-9]*e\+09$`) ||
		!regexpLine(out, `^hotmount_filesystem_free_inodes{class="default",device="/dev/vdb",uuid="`+uuid+`"} [0-9.e+]{3,}$`) {
		t.Errorf("the metrics of a mounted disk:\n%s", out)
	}

	// Bytes that nobody knows: what the proof has found is root's to read.
	unknown := blank(t, gib)
	f, err := os.OpenFile(unknown, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("data of somebody"), 700<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m.attach(w, worker.Disk{File: unknown, Serial: "ODD=1"})
	m.wait("the refusal", "journalctl -b MESSAGE_ID=f6069dd09fe94626a9bcd1a791130da9 -q --no-pager | grep -q vdc")

	for _, daemon := range []string{"running", "down"} {
		if daemon == "down" {
			m.run("systemctl stop hotmount")
		}
		for _, who := range []string{"", nobody} {
			out := m.run(who + "hotmount status && echo 0 || echo $?")
			if !strings.HasSuffix(out, "\n3") || !regexpLine(out, `^vdc .* refused `) || !strings.Contains(out, "what helps: ") || !regexpLine(out, `^vdb .* mounted `) {
				t.Errorf("%q, daemon %s: %s", who, daemon, out)
			}
		}
		t.Log(m.run(nobody + "hotmount status || true"))
	}
	if out := m.run("stat -c '%a %U' /run/hotmount/status.json; ! grep -q somebody /run/hotmount/status.json && echo clean"); out != "644 root\nclean" {
		t.Errorf("what anybody may read: %s", out)
	}

	// A refusal is said once, however often the disk is looked at, and the daemon started.
	m.run("systemctl start hotmount; journalctl --rotate; sleep 0.1")
	before := m.run("journalctl -b MESSAGE_ID=f6069dd09fe94626a9bcd1a791130da9 -q --no-pager -o cat | wc -l")
	m.run("for i in 1 2 3; do udevadm trigger -s block; udevadm settle; systemctl reload hotmount; done; systemctl restart hotmount")
	m.wait("the status", "systemctl show -P StatusText hotmount | grep -q '1 refused'")
	if after := m.run("journalctl -b MESSAGE_ID=f6069dd09fe94626a9bcd1a791130da9 -q --no-pager -o cat | wc -l"); before != "1" || after != before {
		t.Errorf("%s refusals, then %s", before, after)
	}

	for pid, want := range map[string][]string{
		"live":      {"  seen  ", "  proven  ", "  formatted  ", "  mounted  ", "  refused  "},
		"live.json": {`"kind":"refused"`, `"device":"/dev/vdc"`, `"serial":"ODD=1"`, `"reason":"unknown-content"`},
	} {
		out := m.run("cat /root/" + pid)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("hotmount events (%s) does not say %q:\n%s", pid, w, out)
			}
		}
		if pid == "live.json" && strings.Contains(out, "/dev/vdb") {
			t.Errorf("events of another disk: %s", out)
		}
	}
	m.run("systemctl stop live livejson")
	t.Log(m.run("tail -n 3 /root/live"))

	// What a bash with completion loaded offers.
	offers := func(line string) string {
		return m.run(`cat >/root/complete.sh <<'X'
. /root/bash_completion
. /usr/share/bash-completion/completions/hotmount
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=63 COMP_KEY=9
IFS=' ' read -ra COMP_WORDS <<<"$1"
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
compopt() { :; }
$(complete -p hotmount | sed 's/.*-F \([^ ]*\).*/\1/') >/dev/null 2>&1
printf '%s\n' "${COMPREPLY[@]}"
X
bash /root/complete.sh ` + quote(line))
	}
	for line, want := range map[string]string{"hotmount events ": "vdc", "hotmount format ": "vdc", "hotmount events def": "default", "hotmount rel": "release", "hotmount wait " + uuid[:4]: uuid} {
		if out := offers(line); !strings.Contains(out, want) {
			t.Errorf("%q offers %q", line, out)
		}
	}

	m.detach(w, id)
	m.wait("the end in the journal", "journalctl -u '"+unitOf(uuid)+"' MESSAGE_ID=ba183a4a7423409c92799d952cdf0ad5 --no-pager -q | grep -q .")
	story := m.run("journalctl -x -b --no-pager -o short -u '" + unitOf(uuid) + "'")
	at := 0
	for _, want := range []string{
		"/dev/vdb (serial GOOD, 1 GiB): seen", "is blank", "meta-data=", "formatted: xfs " + uuid, "mounted xfs " + uuid + " at /mnt/disks/" + uuid, ": gone; it was mounted at",
	} {
		i := strings.Index(story[at:], want)
		if i < 0 {
			t.Errorf("the story does not say %q after what came before", want)
			continue
		}
		at += i
	}
	for _, want := range []string{"Subject: /dev/vdb is mounted", "Subject: /dev/vdb was formatted: " + uuid, "Subject: /dev/vdb is gone", "Defined-By: hotmount"} {
		if !strings.Contains(story, want) {
			t.Errorf("the catalog does not say %q", want)
		}
	}
	t.Log(story)
	fields := m.run("journalctl -b -o export MESSAGE_ID=a9f0438d20a54cb2b5788042a7b0bdad --no-pager | grep -aE '^(HOTMOUNT|OBJECT)_' | sort -u")
	for _, want := range []string{"HOTMOUNT_CLASS=default", "HOTMOUNT_DECISION=keep", "HOTMOUNT_DEVICE=/dev/vdb", "HOTMOUNT_DISKSEQ=", "HOTMOUNT_REASON=mounted", "HOTMOUNT_SERIAL=GOOD", "HOTMOUNT_UUID=" + uuid, "OBJECT_SYSTEMD_UNIT=" + unitOf(uuid)} {
		if !strings.Contains(fields, want) {
			t.Errorf("no field %s in\n%s", want, fields)
		}
	}

	m.wait("the metrics", "grep -q '^hotmount_mounts_total{class=\"default\"} 1' "+metrics+" || grep -q '^hotmount_disks' "+metrics)
	out := m.run("stat -c %a " + metrics + "; cat " + metrics + "; ls -A /var/lib/prometheus/node-exporter")
	for _, want := range []string{"644\n", `hotmount_disks{class="default",reason="unknown-content",state="refused"} 1`, "hotmount_last_rescan_timestamp_seconds 1", "hotmount_watchdog_timestamp_seconds", "\nhotmount.prom"} {
		if !strings.Contains(out, want) {
			t.Errorf("the metrics do not say %s:\n%s", want, out)
		}
	}
	// The pages as they are installed, by the man-db of this machine.
	for _, page := range []string{"man8/hotmount.8", "man5/hotmount.yaml.5"} {
		local := filepath.Join(t.TempDir(), filepath.Base(page)+".gz")
		if err := w.Get(ctx(t), "/usr/share/man/"+page+".gz", local); err != nil {
			t.Fatal(err)
		}
		for _, tool := range [][]string{{"lexgrog", local}, {"man", "--warnings", "-E", "UTF-8", "-l", local}} {
			c := exec.CommandContext(ctx(t), tool[0], tool[1:]...)
			c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80")
			var said bytes.Buffer
			c.Stderr = &said
			if out, err := c.Output(); err != nil || said.Len() > 0 || !strings.Contains(string(out), "hotmount") {
				t.Errorf("%v: %v: %s", tool, err, said.String())
			}
		}
	}
	t.Log(m.run("p=$(systemctl show -p MainPID --value hotmount); grep -E '^(VmRSS|RssAnon|RssFile)' /proc/$p/status; systemctl show -p MemoryCurrent hotmount"))
}
