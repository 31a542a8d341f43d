//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"
	"unicode/utf8"

	"hotmount/test/worker"
)

// TestStatus: anybody sees which disk is mounted where and which is refused, also
// while the daemon is down.
func TestStatus(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	uuid := m.mounted(name)
	out := m.run("hotmount status && echo 0 || echo $?")
	if !strings.HasSuffix(out, "\n0") || !regexpLine(out, `^`+name+` +1 GiB +- +xfs +default +mounted +[0-9]+[sm] +[0-9]+% +/mnt/disks/`+uuid[:8]+`…$`) {
		t.Errorf("got %s", out)
	}
	m.run("systemctl stop hotmount")
	bad, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("printf 'label: gpt\\n,\\n' | sfdisk -q /dev/" + bad + "; udevadm settle; systemctl start hotmount")
	for _, daemon := range []string{"running", "down"} {
		if daemon == "down" {
			m.run("systemctl stop hotmount")
		}
		for _, who := range []string{"", "setpriv --reuid 65534 --regid 65534 --clear-groups "} {
			out := m.run(who + "hotmount status && echo 0 || echo $?")
			if !strings.HasSuffix(out, "\n3") || !regexpLine(out, `^`+bad+` .* refused `) || !strings.Contains(out, "what helps: ") || !regexpLine(out, `^`+name+` .* mounted `) {
				t.Errorf("%q, daemon %s: got %s", who, daemon, out)
			}
			if strings.Contains(out, "the daemon does not run") != (daemon == "down") {
				t.Errorf("%q, daemon %s: got %s", who, daemon, out)
			}
			for line := range strings.Lines(out) {
				if utf8.RuneCountInString(line) > 101 {
					t.Errorf("too wide: %s", line)
				}
			}
		}
	}
	if out := m.run("hotmount status || true"); !strings.Contains(out, "  found: ") {
		t.Errorf("no evidence:\n%s", out)
	}
	if out := m.run("hotmount status -o json | grep -q '\"uuid\": \"" + uuid + "\"' && hotmount status -o yaml | grep '^daemon:'"); out != `daemon: "down"` {
		t.Errorf("json and yaml: %s", out)
	}
	t.Log(m.run("hotmount status || true; hotmount status -o wide || true"))

	// What is shown was read before: no disk is opened, but for loop devices, which tell what is behind them.
	if out := m.run("strace -f -qq -s 400 -e trace=open,openat -o /root/trace hotmount status >/dev/null || true; grep -c 'status.json' /root/trace; ! grep '\"/dev/[vd][dm]' /root/trace"); out != "1" {
		t.Errorf("status opens, after how often status.json: %s", out)
	}
	// Colour is for terminals and for who wants it. --watch goes on until it is ended,
	// and ends with what it has shown.
	for line, want := range map[string]string{
		`TERM=xterm script -qec "hotmount status" /dev/null`:                                                                    "coloured 3",
		`TERM=xterm NO_COLOR=1 script -qec "hotmount status" /dev/null`:                                                         "plain 3",
		`TERM=dumb script -qec "hotmount status" /dev/null`:                                                                     "plain 3",
		`TERM=xterm hotmount status 2>&1`:                                                                                       "plain 3",
		`NO_COLOR=1 TERM=xterm script -qec "timeout --foreground --preserve-status -s INT 7 hotmount status --watch" /dev/null`: "plain again 3",
	} {
		out := m.run("(" + line + ` && echo " 0" || echo " $?") </dev/null >/root/shown; grep -qP '\x1b\[31m' /root/shown && echo coloured || echo plain; [ "$(grep -c '^.*DISK  *SIZE' /root/shown)" -lt 2 ] || echo again; tail -n 1 /root/shown`)
		if got := strings.Join(strings.Fields(out), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}

	// It is live.
	m.run("systemctl start hotmount; systemd-run -q -u watch -p StandardOutput=file:/root/watched hotmount status --watch")
	m.wait("the first table", "grep -q 1.GiB /root/watched")
	live, liveID := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait(live+" to be in the table", "grep -q '^"+live+" ' /root/watched")
	m.detach(w, liveID)
	m.wait(live+" to leave it", "! tac /root/watched | sed '/DISK  *SIZE/q' | grep '^"+live+" '")
	m.run("systemctl stop watch")
}

// TestStatusOfTheDead: a filesystem that never answers, over the disk's, holds up neither the daemon nor
// who asks it.
func TestStatusOfTheDead(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	uuid := m.mounted(name)
	// A FUSE whose server is silent.
	// That of an NFS server that is gone can not be ended either.
	m.run("systemctl start hotmount; modprobe fuse; systemd-run -q -u dead bash -c 'exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other dead /mnt/disks/" + uuid + "; exec sleep infinity'")
	m.wait("the dead filesystem", "grep -q ' /mnt/disks/"+uuid+" .* fuse ' /proc/1/mountinfo")
	m.run("if timeout -s KILL 2 stat /mnt/disks/" + uuid + " >/dev/null 2>&1; then exit 1; elif [ $? != 137 ]; then exit 1; fi")
	for _, line := range []string{"status", "plan", "doctor", "__complete events ''", "explain " + name} {
		if out := m.run("if timeout -s KILL 60 hotmount " + line + " >/root/shown 2>&1 </dev/null || [ $? -lt 100 ]; then echo done; else cat /root/shown; fi"); out != "done" {
			t.Errorf("hotmount %s over a dead filesystem: %s", line, out)
		}
	}
	m.run("timeout 60 systemctl restart hotmount && (" + trigger + ") && timeout 60 systemctl reload hotmount")
	m.wait("the daemon", "systemctl show -P StatusText hotmount | grep -q '^1 mounted.*failing$'")
	m.run("systemctl stop dead; umount -l /mnt/disks/" + uuid)
}
