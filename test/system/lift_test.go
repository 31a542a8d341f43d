//go:build vm

package system

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/test/worker"
)

// The method `remedy` waits until the daemon holds the disk for the given reason. The method then returns the advice of
// `hotmount status` for the disk.
func (m machine) remedy(name string, reason disk.Reason) string {
	m.t.Helper()
	m.wait(name+" to be held: "+string(reason), fmt.Sprintf(`tr -s ' \n' ' ' </run/hotmount/status.json | grep -E '"disk": "%s",[^{}]*"decision": \{ "action": "hold", "reason": "%s"'`, name, reason))
	return m.next(name)
}

// The method `next` returns the advice that `hotmount status` prints for a disk.
func (m machine) next(name string) string {
	m.t.Helper()
	var all struct {
		Disks []struct{ Disk, Next string }
	}
	if err := json.Unmarshal([]byte(m.run("hotmount status -o json || [ $? = 3 ]")), &all); err != nil {
		m.t.Fatal(err)
	}
	for _, d := range all.Disks {
		if d.Disk == name {
			return d.Next
		}
	}
	m.t.Fatalf("status does not list %s", name)
	return ""
}

// liftBy waits for the hold of a disk. The method then searches the advice in the status for the regular expression in
// the parameter `printed`. The parameter `script` is a function that turns the match into a shell script. liftBy runs
// the shell script, and returns its output.
func (m machine) liftBy(name string, reason disk.Reason, printed string, script func(found []string) string) string {
	m.t.Helper()
	next := m.remedy(name, reason)
	found := regexp.MustCompile(printed).FindStringSubmatch(next)
	if found == nil {
		m.t.Fatalf("%s: status does not print %q: %s", reason, printed, next)
	}
	m.t.Logf("%s: %s", reason, found[1])
	return m.run(script(found))
}

// asPrinted returns the match of the pattern's first group, as the script to run.
func asPrinted(found []string) string { return found[1] }

// lift runs the `hotmount accept` command that the status prints for a held disk, and returns its output.
func (m machine) lift(name string, reason disk.Reason) string {
	m.t.Helper()
	return m.liftBy(name, reason, "(hotmount accept "+name+" "+string(reason)+")(;|$)", asPrinted)
}

// liftedElsewhere maps the reason of a hold to the test that lifts the hold. These holds need a disk with a serial, a
// WWN or a slot, or they need a real boot. The tests need a virtual machine, because a container's loop devices have no
// serial, no WWN and no slot. A container also has the boot ID of its host. Each of the tests calls the method `lift`.
var liftedElsewhere = map[disk.Reason]string{
	disk.ReasonSameSerial:   "TestSerials",
	disk.ReasonSameWWN:      "TestTwoPaths",
	disk.ReasonFormerSerial: "TestHistoryAndFormerSerial",
	disk.ReasonFormerSlot:   "TestZerosWhereAFilesystemWas",
	disk.ReasonOtherBlock:   "TestBlockVolumes",
	disk.ReasonFormerBlock:  "TestBlockVolumes",
	disk.ReasonContent:      "TestBlockVolumes",
}

// The type `held` describes a hold and one command that lifts the hold.
type held struct {
	reason disk.Reason
	// The field `cause` is a function that causes the hold, and returns the kernel name of the held disk.
	cause func() (name string)
	// The field `printed` is a regular expression for the advice in the status. The field `script` is a function that
	// turns the match into a shell script. If the regular expression is empty, the test runs the `hotmount accept` that
	// the status prints.
	printed string
	script  func(found []string) string
	// The field `lifted` is a function that waits until the hold is gone. If the function is nil, the test waits until
	// the disk is mounted.
	lifted func(name string)
}

// TestEachHoldIsLifted checks each hold in the table of rules. The command that hotmount prints with the hold must lift
// the hold. The tests in liftedElsewhere lift the holds that a container cannot cause.
func TestEachHoldIsLifted(t *testing.T) {
	o := obedientOptions()
	o.Files = o.Files[:2] // leaves out the drop-in that raises the format limit
	m, w := startNode(t, o)
	rows := m.holdsOf(w)
	for _, e := range policy.Reasons() {
		if e.Action != disk.Hold || slices.ContainsFunc(rows, func(h held) bool { return h.reason == e.Reason }) {
			continue
		}
		if test := liftedElsewhere[e.Reason]; test == "" {
			t.Errorf("no row causes %s", e.Reason)
		} else if !liftsIn(t, test, e.Reason) {
			t.Errorf("%s does not lift %s", test, e.Reason)
		}
	}
	for _, h := range rows {
		name := h.cause()
		if h.printed == "" {
			m.lift(name, h.reason)
		} else {
			m.liftBy(name, h.reason, h.printed, h.script)
		}
		if h.lifted == nil {
			m.mounted(name)
		} else {
			h.lifted(name)
		}
		m.run("rm -f " + dropIn + "; systemctl reload hotmount")
	}
}

// liftsIn reports whether the test, or a helper function in the test's file, calls the method `lift` with the reason.
func liftsIn(t *testing.T, test string, reason disk.Reason) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`m\.lift\(\w+, "` + string(reason) + `"\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T) {\n") {
			return slices.ContainsFunc(strings.Split(string(text), "\nfunc "), func(function string) bool {
				return (!strings.HasPrefix(function, "Test") || strings.HasPrefix(function, test+"(")) && call.MatchString(function)
			})
		}
	}
	return false
}

// dropIn is the path of the configuration file that a test adds. TestEachHoldIsLifted removes this file after the test
// of each hold.
const dropIn = "/etc/hotmount/config.d/zz.yaml"

// The method `configured` writes the lines to the file at the path `dropIn`, and reloads the configuration.
func (m machine) configured(lines ...string) {
	m.t.Helper()
	m.run("echo " + quote(strings.Join(lines, "\n")) + " >" + dropIn + "; systemctl reload hotmount")
}

// The constant `known` is the configuration of a class. In this class, hotmount mounts only filesystems that this node
// has made or mounted before. hotmount holds a disk with any other filesystem.
const known = "- {name: default, adopt: known}"

// holdsOf returns the holds to test. The order matters only where a comment says so.
func (m machine) holdsOf(w worker.Node) []held {
	full := func() string { name, _ := m.attach(w, worker.Disk{File: made(m.t, 320<<20)}); return name }
	empty := func() string { name, _ := m.attach(w, worker.Disk{File: blank(m.t, 320<<20)}); return name }
	away := func(attach func() string, script string) string {
		m.run("systemctl stop hotmount")
		name := attach()
		m.run("udevadm settle; " + strings.ReplaceAll(script, "DISK", name) + "; systemctl start hotmount")
		return name
	}
	foreign := func() string { m.configured("classes:", known); return full() }
	cinder := func() string { m.register("cinder.csi.openstack.org"); return full() }
	alone := func(name string) { m.mounted(name); m.unregister() }
	rows := []held{
		{reason: disk.ReasonUsed, cause: func() string {
			name := away(full, "mount /dev/DISK /srv")
			m.waitForLog("/dev/" + name + " .*ignore: the disk is mounted elsewhere")
			m.run("umount /srv")
			return name
		}},
		{reason: disk.ReasonUnseen, cause: func() string {
			m.run("ln -s /root/srv.mount /etc/systemd/system/srv.mount")
			return full()
		}, lifted: func(name string) { m.mounted(name); m.run("rm /etc/systemd/system/srv.mount") }},
		{reason: disk.ReasonCSI, cause: cinder, lifted: alone},
		{reason: disk.ReasonCSI, cause: cinder, printed: "give the disk a class with (.*)$", script: func(found []string) string {
			return "echo " + quote("classes:\n- {name: default, "+found[1]+"}") + " >" + dropIn + "; systemctl reload hotmount"
		}, lifted: alone},
		{reason: disk.ReasonReleased, cause: func() string { name := full(); m.mounted(name); m.run("hotmount release " + name); return name }},
		{reason: disk.ReasonUnmounted, cause: func() string { name := full(); m.run("umount /mnt/disks/" + m.mounted(name)); return name }},
		{reason: disk.ReasonNotAdopted, cause: foreign},
		{reason: disk.ReasonNotAdopted, cause: foreign, printed: "(hotmount format .*)$", script: byToken},
		{reason: disk.ReasonOtherClass, cause: func() string {
			name := full()
			m.run("hotmount release " + name + " # " + m.mounted(name))
			selectors := "  names: [vd*]"
			if c, is := w.(*worker.Container); is {
				selectors = c.Selectors("  ")
			}
			m.configured("classes:", "- {name: default, transport: [nvme]}", "- name: other", "  directory: /mnt/other", selectors)
			m.run("mkdir /mnt/other; hotmount config apply-sandbox; systemctl daemon-reload; systemctl restart hotmount")
			m.lift(name, disk.ReasonReleased)
			return name
		}, lifted: func(name string) {
			m.wait("the volume of its new class", "findmnt -no TARGET /dev/"+name+" | grep ^/mnt/other/")
		}},
		{reason: disk.ReasonSettings, cause: func() string {
			return away(empty, "printf 'settle: 1s\\nformt: true\\n' >"+dropIn)
		}, printed: "^to see each fault: (hotmount config check)$", script: func(found []string) string {
			return "at=$(" + found[1] + " 2>&1 | grep -oE '/[^ :]+:[0-9]+' | head -n 1); sed -i ${at##*:}d ${at%:*}"
		}},
		{reason: disk.ReasonFormatOff, cause: func() string { m.configured("format: false"); return empty() },
			printed: "^to find the file that switches formatting off: (hotmount config show); set format: true there, then: (.*)$", script: func(found []string) string {
				return "at=$(" + found[1] + " | sed -n 's/^format: false *# //p'); sed -i ${at##*:}s/false/true/ ${at%:*}; " + found[2]
			}},
		{reason: disk.ReasonFormatOff, cause: func() string { m.run("touch " + disk.HoldFile + "; systemctl reload hotmount"); return empty() },
			printed: "^to allow formats again: (rm .*; hotmount rescan)$", script: asPrinted},
		// The tests of the earlier holds formatted several disks, so the limit of one format is already reached.
		{reason: disk.ReasonBrake, cause: func() string { m.configured("format_limit: 1", "format_period: 24h"); return empty() }},
		{reason: disk.ReasonBefore, cause: func() string {
			image := made(m.t, 320<<20)
			name, _ := m.attach(w, worker.Disk{File: image})
			uuid := m.mounted(name)
			m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
			m.run("umount /mnt/disks/" + uuid)
			for _, size := range []int64{0, 320 << 20} {
				if err := os.Truncate(image, size); err != nil {
					m.t.Fatal(err)
				}
			}
			m.lift(name, disk.ReasonUnmounted)
			m.waitForLog("/dev/" + name + " .*refuse: hotmount found the disk blank, but udev reports a signature on the disk")
			m.run("udevadm trigger -s block -y " + name)
			return name
		}},
	}
	rows = append(rows, m.unfinishedHolds(w)...)
	second := ""
	return append(rows, held{reason: disk.ReasonPresent, cause: func() string {
		return away(empty, "touch /var/lib/hotmount/removed; hotmount state init")
	}}, held{reason: disk.ReasonNewMachine, cause: func() string { // this hold comes last, because afterwards the journal belongs to the former machine-id
		return away(func() string { second = empty(); return empty() }, changeID+"true")
	}}, held{reason: disk.ReasonNewMachine, cause: func() string { return second }, printed: "as before: (hotmount state keep)$", script: asPrinted})
}

// byToken returns a script that runs the printed `hotmount format`. The script then runs the last line of the output,
// which contains the token.
func byToken(found []string) string { return "$(" + found[1] + " | tail -n 1)" }

// unfinishedHolds returns the holds after formats that were disturbed or did not finish. The disks' serials contain
// orders for the test script that replaces mkfs.xfs. In a container, the names of the disks' files contain the orders.
func (m machine) unfinishedHolds(w worker.Node) []held {
	n := 0
	begun := func(order string) victim { n++; return m.victims(w, n, order)[0] }
	killed := func() {
		m.run("systemctl stop hotmount; systemctl kill -s KILL 'hotmount-format@*'")
		m.wait("the unit's end", "! systemctl is-active 'hotmount-format@*' | grep -E '^(de)?activating' && ! pgrep mkfs.xfs")
	}
	disturbed := func() string {
		v := begun("sx")
		m.stopped(v)
		m.run(fmt.Sprintf("yes theirs | head -c 4096 | dd of=/dev/%[1]s bs=4096 seek=51200 oflag=direct conv=notrunc status=none; pkill -CONT -f 'mkfs.xfs .*/dev/%[1]s$'", v.name))
		return v.name
	}
	overwritten := func() string {
		n++
		v := victim{order: "s0", serial: fmt.Sprintf("%d:s0", n)}
		m.configured("classes:", known)
		v.name, v.id = m.attach(w, m.ordered(w, made(m.t, 320<<20), v.serial))
		m.remedy(v.name, disk.ReasonNotAdopted)
		_, token := m.offer(v.name)
		m.run("systemd-run --quiet hotmount format " + v.name + " --confirm " + token)
		m.stopped(v)
		killed()
		m.run("rm " + dropIn + "; systemctl start hotmount")
		return v.name
	}
	const format = "(hotmount format .*)$"
	return []held{
		{reason: disk.ReasonDisturbed, cause: disturbed},
		{reason: disk.ReasonDisturbed, cause: disturbed, printed: format, script: byToken},
		{reason: disk.ReasonShared, cause: func() string {
			v := begun("s0")
			m.stopped(v)
			killed()
			m.make(v.name, "/usr/local/real/mkfs.xfs -q")
			m.run("systemctl start hotmount")
			return v.name
		}},
		{reason: disk.ReasonOverwrite, cause: overwritten},
		{reason: disk.ReasonOverwrite, cause: overwritten, printed: format, script: byToken},
	}
}
