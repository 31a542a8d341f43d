//go:build vm

package system

import (
	"regexp"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// These constants are the upper limits of the daemon's costs for the attachment of one disk with a filesystem. Each
// constant is a count, so it does not depend on the machine's speed.
const (
	mostLooks       = 3
	mostDBusCalls   = 1
	mostConnections = 1
)

// startsNothing restarts the daemon, and checks that the daemon runs no other program when it starts.
func (m machine) startsNothing() {
	m.t.Helper()
	m.wait("systemd to have no jobs", `[ -z "$(systemctl list-jobs --no-legend; systemctl list-units --no-legend --state activating,deactivating)" ]`)
	m.traceStart()
	programs := m.run("grep -c execve /run/hotmount/trace; grep execve /run/hotmount/trace | grep -v '\"/usr/bin/hotmount\"' || true")
	m.run("rm /run/systemd/system/hotmount.service.d/traced.conf; systemctl daemon-reload; systemctl restart hotmount")
	if programs != "1" {
		m.t.Errorf("how often the daemon's start runs a program, and the other programs: %s", programs)
	}
}

// traceStart restarts the daemon, and traces it with strace from its first system call on. The unit's sandbox forbids
// strace, so a drop-in switches a part of the sandbox off.
func (m machine) traceStart() {
	m.t.Helper()
	m.run(`mkdir -p /run/systemd/system/hotmount.service.d; cat >/run/systemd/system/hotmount.service.d/traced.conf <<-X
			[Service]
			ExecStart=
			ExecStart=/usr/bin/strace -f -qq -e trace=execve,openat -o /run/hotmount/trace /usr/bin/hotmount run
			NotifyAccess=all
			SystemCallFilter=
			CapabilityBoundingSet=~
		X
		systemctl daemon-reload; systemctl restart hotmount; systemctl show -P StatusText hotmount >/dev/null`)
}

// The method `programs` starts a trace of the programs that PID 1, udevd and their children run. The returned function
// ends the trace, and returns how often each program that handles disks, such as mount or blkid, ran.
func (m machine) programs() (ran func() string) {
	m.t.Helper()
	m.run(`rm -f /root/programs; udev=$(systemctl show -P MainPID systemd-udevd)
		strace -f -qq -e trace=execve -e signal=none -o /root/programs -p 1 -p $udev </dev/null >/dev/null 2>/root/said &
		for i in $(seq 100); do [ $(grep -c '^TracerPid:.*[1-9]' /proc/1/status /proc/$udev/status | grep -c :1) = 2 ] && exit 0; sleep 0.1; done; cat /root/said >&2; exit 1`)
	return func() string {
		m.t.Helper()
		return m.run(`udevadm settle; pkill -INT -x strace; while pgrep -x strace >/dev/null; do sleep 0.1; done
			sed -n 's/.*execve("\([^"]*\)".* = 0$/\1/p; s/.*execve("\([^"]*\)".*<unfinished.*/\1/p' /root/programs | sed 's/.*\///' |
				{ grep -xE 'u?mount|hotmount|mkfs.*|xfs_.*|blkid|wipefs|fsck.*|systemd-(mount|fsck)' || true; } | sort | uniq -c`)
	}
}

// TestCounts checks that one attachment costs a bounded number of looks and of calls to PID 1. At a disk's second
// attachment, mount(8) is the only program that handles the disk. A network device that is added and removed causes no
// work. When the daemon starts, it runs no program, and looks at each mounted disk once.
func TestCounts(t *testing.T) {
	exclusive(t) // the daemon also receives events of other containers' disks
	m, w := startNode(t, worker.Options{})
	image := made(t, gib)
	// The first attachment of a disk has one-time costs, so the test counts only later attachments.
	name, id := m.attach(w, worker.Disk{File: image})
	m.mounted(name)
	m.wait("the status", "systemctl show -P StatusText hotmount | grep -q '^1 mounted.*failing$'")
	m.detach(w, id)
	m.wait("the end of the first mount", `[ -z "$(ls -A /mnt/disks)" ]`)

	// The closure waits until the daemon has used no CPU time for one second. By then the daemon has finished the work
	// of earlier steps.
	quiet := func() {
		m.run(`now() { head -n 1 /sys/fs/cgroup/system.slice/hotmount.service/cpu.stat; }
			udevadm settle; for i in $(seq 60); do a=$(now); sleep 1; [ "$a" != "$(now)" ] || exit 0; done; exit 1`)
	}
	trace := func() {
		quiet()
		m.run(`rm -f /root/trace; pid=$(systemctl show -P MainPID hotmount)
			strace -f -qq -s 400 -e signal=none -o /root/trace -p $pid </dev/null >/dev/null 2>/root/said &
			for i in $(seq 100); do grep -q '^TracerPid:.*[1-9]' /proc/$pid/status && exit 0; sleep 0.1; done; cat /root/said >&2; exit 1`)
	}
	traced := func() []string {
		return strings.Split(m.run("pkill -INT -x strace; while pgrep -x strace >/dev/null; do sleep 0.1; done; cat /root/trace"), "\n")
	}
	count := func(lines []string, pattern string) int {
		n, re := 0, regexp.MustCompile(pattern)
		for _, l := range lines {
			if re.MatchString(l) {
				n++
			}
		}
		return n
	}

	const heard = `recvmsg(\(| resumed>).*libudev`
	trace()
	name, _ = m.attach(w, worker.Disk{File: image})
	m.mounted(name)
	m.wait("the status", "systemctl show -P StatusText hotmount | grep -q '^1 mounted.*failing$'")
	m.run("udevadm settle")
	lines := traced()
	looks := count(lines, `openat\(.*`+lookAt(name))
	threads := count(lines, `CLONE_THREAD`)
	dbus := count(lines, `(write|sendmsg|sendto)\(.*org\.freedesktop\.`) // calls to any D-Bus interface
	connections := count(lines, `connect\(.*/run/systemd/private`)
	children := count(lines, `(execve|fork|clone3?)\(`) - threads
	t.Logf("%d looks, %d D-Bus calls, %d connections, %d child processes", looks, dbus, connections, children)
	if looks == 0 || dbus == 0 || connections == 0 || count(lines, heard) == 0 {
		t.Errorf("the trace lacks udev's event, the look or the call of PID 1: %d D-Bus calls:\n%s", dbus, strings.Join(lines, "\n"))
	}
	if looks > mostLooks || dbus > mostDBusCalls || connections > mostConnections || children > 0 {
		t.Errorf("an attach costs too much: %d looks (at most %d), %d D-Bus calls (%d), %d connections to PID 1 (%d), %d child processes (0):\n%s",
			looks, mostLooks, dbus, mostDBusCalls, connections, mostConnections, children, strings.Join(lines, "\n"))
	}

	trace()
	m.run("for i in $(seq 20); do ip link add d$i type veth; ip link del d$i; done; udevadm settle")
	if lines := traced(); count(lines, heard) > 0 {
		t.Errorf("network devices wake the daemon:\n%s", strings.Join(lines, "\n"))
	}

	m.startsNothing()

	m.traceStart()
	quiet()
	if looks := m.run("grep -cF '" + lookAt(name) + "' /run/hotmount/trace"); looks != "1" {
		t.Errorf("a start looks %s times at a disk that is mounted: %s", looks, m.run("grep -n -B3 -A3 -F '"+lookAt(name)+"' /run/hotmount/trace"))
	}

	m.run("rm /run/systemd/system/hotmount.service.d/traced.conf; systemctl daemon-reload; systemctl restart hotmount")
	quiet()
	another := made(t, gib)
	for i := range 2 {
		ran := m.programs()
		name2, id2 := m.attach(w, worker.Disk{File: another})
		m.mounted(name2)
		programs := ran()
		if i > 0 && strings.Join(strings.Fields(programs), " ") != "1 mount" { // the first attachment runs more programs
			t.Errorf("the programs that an attach runs: %s", programs)
		}
		m.detach(w, id2)
		m.wait("the end of the mount and its cleanup", `[ $(ls /mnt/disks | wc -l) = 1 ] &&
			[ $(systemctl list-units --all --plain --no-legend 'mnt-disks-*.mount' | wc -l) = 1 ] &&
			[ -z "$(systemctl list-jobs --no-legend; systemctl list-units --no-legend --state activating,active,deactivating 'hotmount-cleanup@*')" ]`)
	}
}

// TestRests checks that an idle daemon wakes up at most 60 times in ten minutes, even while network devices are added
// and removed. The test counts one wake-up for each second in which a thread of the daemon runs.
func TestRests(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	m.mounted(name)
	// The daemon becomes idle a minute after its last action. A mount by another program wakes the daemon. The test
	// passes if one of three spans of 130 seconds has at most 13 wake-ups. While the shell counts wake-ups, it starts
	// no process, so that the count itself disturbs the machine as little as possible.
	m.run(`pid=$(systemctl show -P MainPID hotmount)
		switches() {
			n=0
			for status in /proc/$pid/task/*/status; do
				while read -r name value; do case $name in *voluntary_ctxt_switches:) n=$((n + value)) ;; esac; done <$status
			done
			[ "$n" -gt 0 ]
		}
		exec 8<> <(:)
		sleep 75
		for i in 1 2 3; do
			for d in $(seq 20); do ip link add d$d type dummy; ip link del d$d; done
			woken=0; switches
			for second in $(seq 130); do
				before=$n; read -rt 1 -u 8 || [ $? -gt 128 ]; switches
				[ "$n" = "$before" ] || woken=$((woken + 1))
			done
			[ "$pid" = $(systemctl show -P MainPID hotmount) ] || exit 1
			[ $woken -gt 13 ] || exit 0
			echo "woken: in $woken of 130 seconds" >&2
		done
		exit 1`)
}
