//go:build vm

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hotmount/internal/probe"
	"hotmount/test/worker"
)

// writer is a script that starts a service. The service constantly writes to a mounted volume, and fails at the first
// error.
const writer = `cat >/run/systemd/system/writer.service <<'X'
[Service]
ExecStart=/bin/bash -c 'set -e; cd /mnt/disks/%s; while :; do date +%%%%N >new; sync new; mv new old; cat old >/dev/null; sleep 0.05; done'
X
systemctl daemon-reload; systemctl start writer`

// The constant `kubelet` is a script that installs a stand-in for kubelet's service. When the stand-in starts at boot,
// it records which volumes are mounted.
const kubelet = `cat >/etc/systemd/system/kubelet.service <<'X'
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ls /mnt/disks >/root/kubelet-saw; findmnt -rno TARGET | grep /mnt/disks | sort >>/root/kubelet-saw || true'
[Install]
WantedBy=multi-user.target
X
systemctl -q enable kubelet; rm -f /root/kubelet-saw`

// immutable returns a script that makes an immutable mount point, like the mount points that hotmount makes.
func immutable(where string) string {
	return "mkdir " + where + "; touch " + where + "/not-mounted; chattr +i " + where + "/not-mounted " + where
}

// TestMountsOutliveTheAgent checks that mounts stay when the daemon hangs, or is killed, restarted, upgraded or
// removed. The mounts also stay when an upgrade is interrupted. A process that writes to the mounted filesystem never
// sees an error (issue 2, section "Shown", item 5). After a reboot all volumes are mounted before kubelet starts.
func TestMountsOutliveTheAgent(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.run(fmt.Sprintf(writer, uuid))
	mountID := func() string { return m.run("findmnt -no ID /mnt/disks/" + uuid) }
	before := mountID()
	alive := func(what string) {
		t.Helper()
		if got := m.run("systemctl is-active writer; ls -A /mnt/disks"); got != "active\n"+uuid {
			t.Fatalf("after %s: %s", what, got)
		}
		if got := mountID(); got != before {
			t.Fatalf("after %s the mount is another: %s, before %s", what, got, before)
		}
	}
	running := func() {
		t.Helper()
		m.wait("the daemon", "systemctl is-active hotmount && systemctl show -p StatusText hotmount | grep -q '1 mounted'")
	}

	m.run("systemctl kill -s KILL hotmount")
	m.wait("a new daemon", "[ $(systemctl show -p NRestarts --value hotmount) -ge 1 ]")
	running()
	alive("kill -9")
	// systemd's watchdog kills a daemon that hangs. The shipped unit sets the watchdog's timeout to twenty minutes.
	if got := m.run("systemctl show -P WatchdogUSec hotmount"); got != "20min" {
		t.Errorf("the watchdog of the shipped unit: %s", got)
	}
	m.run("mkdir -p /run/systemd/system/hotmount.service.d; printf '[Service]\\nWatchdogSec=6\\n' >/run/systemd/system/hotmount.service.d/w.conf; systemctl daemon-reload; systemctl restart hotmount")
	running()
	// If the daemon did not reset the watchdog in time, systemd would kill the daemon within 13 seconds.
	m.run("id=$(systemctl show -P InvocationID hotmount); sleep 13; [ $(systemctl show -P InvocationID hotmount) = $id ]")
	m.run("systemctl kill -s STOP hotmount")
	m.wait("the watchdog", "journalctl -b --no-pager -o cat -u hotmount | grep -q 'Watchdog timeout' && [ $(systemctl show -p NRestarts --value hotmount) -ge 1 ]")
	running()
	alive("a hang")
	m.run("rm -r /run/systemd/system/hotmount.service.d/w.conf; systemctl daemon-reload; systemctl restart hotmount")
	running()
	alive("a restart")
	stops := len(m.stops())
	m.run("for i in 1 2 3; do systemctl stop hotmount; systemctl start hotmount; done; systemctl stop hotmount")
	times := m.stops()
	if len(times) != stops+4 {
		t.Errorf("the journal has %d stops, and %d from before", len(times), stops)
	}
	// The daemon ends within one second after SIGTERM (issue 2).
	for _, took := range times[stops:] {
		if took > time.Second {
			t.Errorf("from Stopping to Stopped it took %s", took)
		}
	}
	m.run("systemctl start hotmount")
	alive("a stop")

	if err := w.Put(ctx(t), nextDeb(t), "/root/next.deb"); err != nil {
		t.Fatal(err)
	}
	// The test kills dpkg when dpkg reports a package state that precedes "installed". The first report is too early,
	// because dpkg reports a state before it records the state. The shell keeps the pipe open, so that dpkg does not
	// end when grep ends.
	m.run("mkfifo /root/states; exec 4<>/root/states; DEBIAN_FRONTEND=noninteractive dpkg --status-fd 3 -i /root/next.deb >/dev/null 2>&1 3>&4 &" +
		fmt.Sprintf("grep --line-buffered -m %d '^status: hotmount[:a-z0-9]*: ' <&4; kill -KILL $!; ! wait $!", 2+randomSource(t).IntN(4)))
	if got := m.run("dpkg-query -W -f '${Status}' hotmount"); got == "install ok installed" {
		t.Errorf("the upgrade was not cut short")
	} else {
		t.Log(got)
	}
	alive("an upgrade that was cut short")
	m.run("pid=$(systemctl show -p MainPID --value hotmount); DEBIAN_FRONTEND=noninteractive dpkg -i /root/next.deb; [ $(systemctl show -p MainPID --value hotmount) != $pid ]")
	running()
	alive("an upgrade")
	m.run("dpkg -r hotmount")
	alive("removal")
	// hotmount must hold a disk that is attached before the package is installed again.
	old, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	if said := m.run("udevadm settle; dpkg -i /root/next.deb 2>&1"); !strings.Contains(said, "hotmount accept "+old) {
		t.Errorf("the installation says: %s", said)
	}
	running()
	m.waitForLog("/dev/" + old + " .*hold: .*attached before hotmount was installed")
	alive("installation over what was there")
	m.run("systemctl stop writer; systemctl daemon-reexec; " + trigger + "; systemctl restart systemd-udevd")
	running()
	if got := mountID(); got != before {
		t.Errorf("after daemon-reexec, udevadm trigger and a restart of udevd the mount is another")
	}

	all := []string{uuid}
	for range 2 {
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		all = append(all, m.mounted(name))
	}
	slices.Sort(all)
	m.run(kubelet)
	// Before kubelet starts at boot, hotmount removes mount points that a crash has left behind.
	leftover := "/mnt/disks/11111111-2222-4333-8444-555555555555"
	bare := strings.Replace(leftover, "1111", "2222", 1)
	m.run("systemctl stop hotmount; " + immutable(leftover) + "; mkdir " + bare + "; sync; ls -d " + leftover + " " + bare)
	m.checkUntouched(old)
	since := m.run("date +%s.%N")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("kubelet", "systemctl is-active kubelet")
	if got := m.run("cat /root/kubelet-saw"); got != strings.Join(all, "\n")+"\n/mnt/disks/"+strings.Join(all, "\n/mnt/disks/") {
		t.Errorf("when kubelet started it saw %q", got)
	}
	// In the journal, all boots of a container have the same boot ID, so the test selects entries by their time.
	m.wait("the hold in this boot, too", "journalctl --no-pager -o cat --since @"+since+" | grep '^/dev/"+old+" .*hold: .*attached before hotmount was installed'")
	// systemd flushes a container's disks at shutdown. The kernel counts a flush as a write request without sectors, so
	// the test counts sectors and not requests.
	if got := m.run("awk '{print $7+$14}' /sys/block/" + old + "/stat"); got != "0" {
		t.Errorf("%s sectors of %s were written", got, old)
	}
	if _, is := w.(*worker.Worker); is {
		m.checkUntouched(old)
	}
}

// TestAttachedWhileDown attaches disks while the daemon or the machine is down. hotmount must handle these disks like
// disks that are attached later.
func TestAttachedWhileDown(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	one, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("systemctl start hotmount")
	first := m.mounted(one)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Attach(ctx(t), worker.Disk{File: blank(t, 320<<20)}); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("both mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 2 ]")
	if got := m.run("findmnt -no TARGET /mnt/disks/" + first); got != "/mnt/disks/"+first {
		t.Errorf("the first disk is mounted at %q", got)
	}
}

// TestPowerCut checks that the same filesystem is mounted again after a power cut, and that no unused mount point
// remains.
func TestPowerCut(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "CUT"})
	uuid := m.mounted(name)
	gone, goneID := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "GONE"})
	m.mounted(gone)
	m.run(fmt.Sprintf("echo kept >/mnt/disks/%s/f; sync", uuid))
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), goneID); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	if got := m.run(fmt.Sprintf("cat /mnt/disks/%s/f; ls -A /mnt/disks", uuid)); got != "kept\n"+uuid {
		t.Errorf("got %q (disk %s)", got, id)
	}
}

// TestConfiguration checks that a fault in the configuration is explained, and changes nothing for a running daemon. A
// reload applies the whole configuration or nothing of it.
func TestConfiguration(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.run("printf 'formt: true\\nsettle: 5\\n' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	m.waitForLog("cannot reload.*config.yaml:1.*formt.*format.*config.yaml:2.*settle")
	if got := m.run("systemctl is-active hotmount; findmnt -no TARGET /dev/" + name); got != "active\n/mnt/disks/"+uuid {
		t.Errorf("after a faulty reload: %s", got)
	}
	out, err := m.Run(ctx(t), "hotmount plan 2>&1; exit $?")
	if err == nil || !strings.Contains(err.Error(), "formt") {
		t.Errorf("hotmount plan with a faulty configuration: %q, %v", out, err)
	}
	m.run("echo 'format: false' >/etc/hotmount/config.yaml; systemctl reload hotmount")
	held, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + held + " .*hold: hotmount formats no disk: format: false in the configuration")
	m.run("rm /etc/hotmount/config.yaml; systemctl reload hotmount")
	m.mounted(held)
}

// The function `numbers` returns the numbers in a text. Each word of the text must be a number.
func numbers(t *testing.T, text string) (all []float64) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// lookAt returns a text that a trace of the daemon contains once for each look at the disk. A count of reads of udev's
// database would be too high, because a look at another disk also reads the database entries of loop devices.
func lookAt(name string) string { return "/block/" + name + "/queue/iostats\"" }

// TestStorm checks that hotmount keeps the mounts in a storm of 500 events for each disk, and still notices an attach
// and a detach. After the last event, the daemon must look at each disk at least once more. Even if udevd forgets some
// events, hotmount must notice each attach and each detach.
func TestStorm(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	var names []string
	for range 3 {
		name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
		m.mounted(name)
		names = append(names, name)
	}
	before := m.run("findmnt -rno ID,TARGET | grep /mnt/disks | sort")
	goes, goesID := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	gone := m.mounted(goes)
	m.wait("quiet", "systemctl show -P StatusText hotmount | grep -qx '4 mounted, 0 held, 0 refused, 0 failing'")
	stormed := slices.Clone(names)
	if _, is := w.(*worker.Worker); is {
		stormed = append(stormed, "vda") // a container has no system disk
	}
	const events = 500 // number of events for each disk
	// udevd handles no event until the test has attached one disk and detached another disk during the storm.
	m.run(`udevadm settle; udevadm control --stop-exec-queue; pid=$(systemctl show -P MainPID hotmount)
		strace -f -qq -ttt -s 400 -e trace=openat -e signal=none -o /root/trace -p $pid </dev/null >/dev/null 2>/root/said &
		for i in $(seq 100); do grep -q '^TracerPid:.*[1-9]' /proc/$pid/status && break; sleep 0.1; done
		setsid bash -c 'changes() { for d in ` + strings.Join(stormed, " ") + `; do echo change >/sys/block/$d/uevent; done; }
			date +%s.%N; for i in $(seq ` + fmt.Sprint(events-1) + `); do changes; done
			date +%s.%N; changes; udevadm settle --timeout=500; date +%s.%N; touch /root/over' </dev/null >/root/times 2>&1 &`)
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.detach(w, goesID)
	m.run("[ ! -e /root/over ]; udevadm control --start-exec-queue")
	m.waitMinutes(9, "the end of the storm", "[ -e /root/over ]")
	came := m.mounted(name)
	m.wait("mount and directory to go", "! findmnt /mnt/disks/"+gone+" && [ ! -e /mnt/disks/"+gone+" ]")
	times := numbers(t, m.run("cat /root/times"))
	for _, name := range names {
		looks := "grep -F '" + lookAt(name) + "' /root/trace | awk '{print $2}'"
		m.wait("the look after the last event", fmt.Sprintf("%s | awk '{last = $1} END {exit !(last > %f)}'", looks, times[1]))
		all := numbers(t, m.run(looks))
		// The daemon looks at a disk eight times without delay, then six times at growing intervals, and then once
		// every five seconds.
		if most := 14 + (times[2]-times[0])/5; float64(len(all)) > most {
			t.Errorf("%d looks at %s, which had %d events in %.0f seconds", len(all), name, events, times[2]-times[0])
		} else {
			t.Logf("%d looks at %s, which had %d events in %.0f seconds", len(all), name, events, times[2]-times[0])
		}
		// After udevd has handled all events, the daemon still receives events, and looks at a disk every five seconds.
		// The test allows two more looks. If the storm was short, the daemon may look at each disk without delay until
		// the eighth look.
		end, last := slices.IndexFunc(all, func(at float64) bool { return at > times[2] }), all[len(all)-1]
		if end < 0 {
			continue
		}
		if after, most := len(all)-end, float64(2+max(0, 8-end))+(last-times[2])/5; float64(after) > most {
			t.Errorf("%d looks at %s in the %.1f seconds after the storm", after, name, last-times[2])
		} else {
			t.Logf("%d looks at %s in the %.1f seconds after the storm", after, name, last-times[2])
		}
	}
	m.run("pkill -INT -x strace; while pgrep -x strace >/dev/null; do sleep 0.1; done")
	if after := m.run("findmnt -rno ID,TARGET | grep /mnt/disks | grep -v " + came + " | sort"); after != before {
		t.Errorf("the mounts were\n%s\nand are\n%s", before, after)
	}
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '4 mounted, 0 held, 0 refused, 0 failing'")
	expected := "cat"
	if _, is := w.(*worker.Container); is {
		// In a container, the detach begins with an umount by hand. The daemon may notice the umount before the detach.
		expected = `sed '\|/dev/` + goes + ` .*: hold: somebody unmounted the disk by hand|d'`
	}
	if got := m.run("journalctl -b -u hotmount -p warning -q --no-pager | " + expected + "; systemctl show -p NRestarts --value hotmount"); got != "0" {
		t.Errorf("got %s", got)
	}

	// The closure calls the given function, and makes udevd forget the events that this call causes. At a restart,
	// udevd forgets the events in its queue.
	forgets := func(what func()) {
		t.Helper()
		m.run("udevadm settle; udevadm control --stop-exec-queue")
		what()
		m.wait("the queue", "[ -e /run/udev/queue ]")
		m.run("systemctl restart systemd-udevd")
	}
	image := made(t, 320<<20)
	forgets(func() { name, id = m.attach(w, worker.Disk{File: image}) })
	uuid := m.mounted(name)
	forgets(func() { m.detach(w, id) })
	m.wait("mount and directory to go", "! findmnt /mnt/disks/"+uuid+" && [ ! -e /mnt/disks/"+uuid+" ]")
	// udevd has lost the event of the detach, and mistakes the next disk with the same device number for the detached
	// disk.
	forgets(func() { name, id = m.attach(w, worker.Disk{File: image}) })
	m.mounted(name)
	m.wait("its release", "hotmount release "+name) // the daemon sees a new mount only after a moment
	forgets(func() {
		m.detach(w, id)
		name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20)})
	})
	m.mounted(name)
}

// stops returns how long each stop of hotmount.service took: the time between PID 1's entries Stopping and Stopped
// (systemd's sd-messages.h).
func (m machine) stops() []time.Duration {
	m.t.Helper()
	const stopping, stopped = "de5b426a63be47a7b6ac3eaac82e2f6f", "9d1aaa27d60140bd96365438aad20286"
	var all []time.Duration
	var since int64
	dec := json.NewDecoder(strings.NewReader(m.run("journalctl -b -o json --no-pager _PID=1 UNIT=hotmount.service MESSAGE_ID=" + stopping + " MESSAGE_ID=" + stopped)))
	for dec.More() {
		var e struct {
			ID string `json:"MESSAGE_ID"`
			At string `json:"__MONOTONIC_TIMESTAMP"`
		}
		if err := dec.Decode(&e); err != nil {
			m.t.Fatal(err)
		}
		at, err := strconv.ParseInt(e.At, 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		if e.ID == stopping {
			since = at
		} else if since != 0 {
			all, since = append(all, time.Duration(at-since)*time.Microsecond), 0
		}
	}
	return all
}

// TestReinstalled checks that a new system mounts the old system's disks at the same paths. The disks are attached
// before hotmount is installed, so hotmount formats none of them, not even the blank disk. The filesystems need no log
// recovery, although a pod was still writing when the machine was shut down. If a disk is no longer attached, hotmount
// lists the disk's filesystem as missing.
func TestReinstalled(t *testing.T) {
	one, two := made(t, 320<<20), made(t, 320<<20)
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	first := m.mounted(name)
	name, gone := m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	second := m.mounted(name)
	slot := m.run("udevadm info -q property --property ID_PATH --value /dev/" + name)
	m.run("echo one >/mnt/disks/" + first + "/f; echo two >/mnt/disks/" + second + "/f")
	// The test sets up a pod in the same way as kubelet and a container runtime. The volume is bind-mounted for the
	// pod, whose process is in a scope below kubepods.slice. No dependency orders the pod's scope before or after
	// mounts. The pod's process sees the bind mount in a mount namespace of its own. The pod's process writes until it
	// ends, three seconds after SIGTERM.
	bind := "/var/lib/kubelet/pods/0e3b1b0a-1111-2222-3333-444444444444/volumes/kubernetes.io~local-volume/pv"
	m.run("mkdir -p " + bind + "; mount --bind /mnt/disks/" + first + " " + bind +
		"; setsid systemd-run --quiet --scope --unit=cri-containerd-pod --slice=kubepods-besteffort-pod0e3b1b0a_1111_2222_3333_444444444444.slice unshare --mount --propagation private" +
		" bash -c 'exec 3>" + bind + "/open; trap \"sleep 3; echo end; exit\" TERM; while :; do date; sync " + bind + "/open; sleep 0.1; done >&3' </dev/null >/dev/null 2>&1 &")
	m.wait("the pod", "[ -s "+bind+"/open ] && systemctl show -P ControlGroup cri-containerd-pod.scope | grep ^/kubepods.slice/")
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	serial, err := w.Serial()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(serial) {
		if strings.Contains(line, "Failed unmounting") || strings.Contains(line, "timed out") {
			t.Errorf("the shutdown: %s", line)
		}
	}
	if err := w.Detach(ctx(t), gone); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+first)
	if got := m.run("tail -n 1 /mnt/disks/" + first + "/open; journalctl -b -1 -o cat --no-pager _PID=1 | grep -ciE 'Failed unmounting|timed out' || true; journalctl -b -1 -o cat --no-pager _PID=1 | grep -c '^Unmounted .*" + first + "' || true"); got != "end\n0\n1" {
		t.Errorf("the shutdown: %s", got)
	}
	m.waitForLog("missing: xfs " + second + ", on a disk of 320 MiB .*serial TWO.*" + slot + ".*attached by virsh attach-disk without --persistent.*hotmount forget " + second)
	if got := m.run("hotmount status | grep -A 9 '^missing: xfs " + second + "'; hotmount status -o json | grep '\"serial\": \"TWO\"'; hotmount forget " + second + "; hotmount status | grep missing: || true"); !strings.Contains(strings.Join(strings.Fields(got), " "), "hotmount forget "+second) || !strings.HasSuffix(got, "is no longer listed as missing") {
		t.Errorf("the missing filesystem in the status, and after forget: %s", got)
	}
	if got := m.run("journalctl -b -k -o cat --no-pager | grep -c 'Starting recovery' || true"); got != "0" {
		t.Errorf("%s filesystems needed recovery", got)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}

	m, w = startAs(t, worker.Options{})
	m.attach(w, worker.Disk{File: one, Serial: "ONE"})
	m.attach(w, worker.Disk{File: two, Serial: "TWO"})
	empty := blank(t, 320<<20)
	held, _ := m.attach(w, worker.Disk{File: empty, Serial: "BLANK"})
	before := digest(t, empty)
	m.run("udevadm settle")
	if err := w.Install(ctx(t), deb(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("both mounts", "findmnt /mnt/disks/"+first+" && findmnt /mnt/disks/"+second)
	m.waitForLog("/dev/" + held + " .*hold: .*attached before hotmount was installed")
	if got := m.run("cat /mnt/disks/" + first + "/f /mnt/disks/" + second + "/f; hotmount history | grep -c xfs || true; ls /mnt/disks | wc -l"); got != "one\ntwo\n0\n2" {
		t.Errorf("on the new system: %s", got)
	}
	m.checkUntouched(held)
	if digest(t, empty) != before {
		t.Error("the blank disk was written to")
	}
}

// TestSystemDisk checks that nothing is written to the system disk while disks are formatted, mounted, refused,
// released and detached (issue 2, section "Shown", item 7). No byte of the system disk changes. The system's own writes
// go to memory.
func TestSystemDisk(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run(`modprobe overlay
		for d in var mnt; do mkdir -p /run/over/$d/upper /run/over/$d/work; mount -t overlay overlay -o lowerdir=/$d,upperdir=/run/over/$d/upper,workdir=/run/over/$d/work /$d; done
		systemctl restart systemd-journald hotmount; sync; echo u >/proc/sysrq-trigger`)
	m.wait("the root to be read-only", "findmnt -no FS-OPTIONS / | grep -w ^ro && ! touch /root/x")
	const state = "awk '{print $5+$12}' /sys/block/vda/stat; dd if=/dev/vda bs=4M iflag=direct status=none | sha256sum"
	before := m.run("blockdev --flushbufs /dev/vda; " + state)

	made, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "MADE"})
	uuid := m.mounted(made)
	m.run("echo data >/mnt/disks/" + uuid + "/f")
	other, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OTHER"})
	m.mounted(other)
	m.run("hotmount release " + other + " && printf 'label: gpt\\n,\\n' | sfdisk -q --wipe always /dev/" + other + " && hotmount accept " + other)
	m.waitForLog("/dev/" + other + " .*refuse: ")
	m.run("hotmount plan; hotmount doctor >/dev/null || [ $? -lt 100 ]; systemctl restart hotmount; udevadm trigger -s block; udevadm settle; systemctl start hotmount-trim")
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e /mnt/disks/"+uuid+" ]")
	if after := m.run("blockdev --flushbufs /dev/vda; " + state); after != before {
		t.Errorf("the system disk, its writes and its digest: before %s, after %s", before, after)
	}
}

// TestSystemDiskElsewhere checks that hotmount uses vda like any other virtio disk if the system is on a SCSI disk.
func TestSystemDiskElsewhere(t *testing.T) {
	m, w := start(t, worker.Options{SystemBus: worker.BusSCSI})
	// The package makes systemd load the virtio driver before hotmount starts, even if no virtio disk is attached. The
	// worker's initramfs has already loaded the driver, so the test unloads the driver first.
	m.run("modprobe -r virtio_blk; [ ! -e /sys/module/virtio_blk ]; systemctl restart systemd-modules-load; [ -e /sys/module/virtio_blk ]; systemctl show -p After --value hotmount | grep -qw systemd-modules-load.service")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	if name != "vda" {
		t.Fatalf("the disk is %s, not vda", name)
	}
	m.mounted("vda")
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^sda .*ignore .*carries the system`) {
		t.Errorf("the plan does not ignore sda:\n%s", plan)
	}
}

// TestDebian13DiskOnDebian12 checks that a disk formatted on Debian 13 can be mounted and repaired on Debian 12.
// TestDebian13DiskOnDebian12 also checks that hotmount recognises all writes of Debian 13's mkfs.xfs.
func TestDebian13DiskOnDebian12(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	t.Log(m.run("mkfs.xfs -V; xfs_info /dev/" + name))
	m.run("echo hello >/mnt/disks/" + uuid + "/file; sync")
	m.detach(w, id)

	m.run("systemctl stop hotmount")
	for _, options := range []string{"-c options=/usr/share/xfsprogs/mkfs/lts_6.1.conf", ""} {
		const own = "0a0b0c0d-1111-4222-8333-abcdefabcdef"
		image := blank(t, 320<<20)
		name, id := m.attach(w, worker.Disk{File: image})
		m.run("mkfs.xfs -q -K -m uuid=" + own + " " + options + " /dev/" + name + "; sync")
		m.detach(w, id)
		f, err := os.Open(image)
		if err != nil {
			t.Fatal(err)
		}
		found, err := probe.Scan(t.Context(), probe.Source{Reader: f, Size: 320 << 20, Own: probe.Own{UUID: own}}, probe.Full)
		if err = errors.Join(err, f.Close()); err != nil || found.Own == 0 || len(found.Bytes) > 0 {
			t.Errorf("%s: %+v, error %v", options, found, err)
		}
	}

	m, w = start(t, worker.Options{})
	name, _ = m.attach(w, worker.Disk{File: image})
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted as %s, made as %s", got, uuid)
	}
	if got := m.run("cat /mnt/disks/" + uuid + "/file"); got != "hello" {
		t.Errorf("the file holds %q", got)
	}
	m.run("systemctl stop hotmount; umount /mnt/disks/" + uuid)
	t.Log(m.run("xfs_repair -V && xfs_repair -n /dev/" + name + " 2>&1 && xfs_repair /dev/" + name + " 2>&1"))
}

// TestFeaturesOnDebian13 checks a class that sets one feature of XFS. hotmount must still turn off the features that
// are not in mkfs.xfs's defaults for Linux 6.1. Debian 13's mkfs.xfs turns on some of these features by default.
func TestFeaturesOnDebian13(t *testing.T) {
	m, w := startNode(t, worker.Options{Suite: "trixie"})
	m.run(`printf '%s\n' classes: '- name: default' '  directory: /mnt/disks' '  mkfs_options: ["-m reflink=0"]' >/etc/hotmount/config.d/50-mkfs.yaml; hotmount config check; systemctl reload hotmount`)
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	info := m.run("xfs_info /mnt/disks/" + m.mounted(name))
	for _, want := range []string{"reflink=0", "rmapbt=0", "nrext64=0", "exchange=0", "metadir=0", "parent=0"} {
		if !strings.Contains(info, want) {
			t.Errorf("no %s in\n%s", want, info)
		}
	}
	if got := m.run("truncate -s 320M /root/x; mkfs.xfs -m reflink=0 /root/x"); !strings.Contains(got, "rmapbt=1") {
		t.Errorf("by default mkfs.xfs turns nothing on:\n%s", got)
	}
}

// TestDebian13 checks Debian 13 with its own kernel and systemd: a blank disk is formatted, mounted, grown, released
// and detached. The full test also checks that the disk is found again after a reboot.
func TestDebian13(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	if got := m.run(". /etc/os-release; echo $VERSION_ID; uname -r; systemctl --version | head -n 1"); !strings.HasPrefix(got, "13\n6.12.") || !strings.Contains(got, "systemd 257") {
		t.Fatalf("this is %s", got)
	}
	m.kernelReadOnly()
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "THIRTEEN"})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/f; sync")
	if full {
		if err := w.Reboot(ctx(t)); err != nil {
			t.Fatal(err)
		}
		m.wait("the mount after a reboot", "findmnt "+where)
	}
	m.run("systemctl restart hotmount; systemctl is-active hotmount")
	if err := w.Resize(ctx(t), id, 640<<20); err != nil {
		t.Fatal(err)
	}
	m.wait("the filesystem to grow", "[ $(df --output=size -B1M "+where+" | tail -n 1) -gt 500 ]")
	if got := m.run("cat " + where + "/f; systemctl --failed --no-legend; hotmount release " + uuid); !strings.HasPrefix(got, "kept\n") || !strings.Contains(got, "safe to detach") || strings.Contains(got, "failed") {
		t.Errorf("at its end: %s", got)
	}
	m.detach(w, id)
	m.wait("the directory to go", "[ ! -e "+where+" ]")
}

// TestTogetherOnDebian13 runs TestTogether with systemd 257 and a mount(8) that uses the kernel's new mount API.
func TestTogetherOnDebian13(t *testing.T) { attachTogether(t, worker.Options{Suite: "trixie"}) }

// TestBlockLinksStay checks that the link of a block volume survives systemctl isolate. When the link's unit ends,
// hotmount makes the link again at once. The unit ends after a kill or a stop, or when systemd wrongly considers the
// disk unplugged. A released disk remains released.
func TestBlockLinksStay(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("mkdir -p /var/lib/disks/block && cat >/etc/hotmount/config.yaml <<'X'\n" + fmt.Sprintf(blockConfig, "block") + "X\nsystemctl reload hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "RAW-1"})
	const link = raw + "RAW-1"
	m.wait("the link", "[ -b "+link+" ]")
	unit := "hotmount-block@" + m.run("cat /sys/block/"+name+"/diskseq")
	invocation := func() string { return m.run("systemctl show -P InvocationID " + unit) }
	before := invocation() + m.run("stat -c %i "+link)
	m.run("systemctl isolate multi-user.target")
	if after := invocation() + m.run("stat -c %i "+link); after != before {
		t.Errorf("isolate has ended the unit: it was %s and is %s", before, after)
	}
	rule := "/run/udev/rules.d/99-away.rules"
	for what, end := range map[string]string{
		"killed": "systemctl kill -s KILL " + unit, "ended": "systemctl kill -s TERM " + unit, "stopped": "systemctl stop --no-block " + unit,
		"taken for unplugged": `mkdir -p /run/udev/rules.d; echo 'KERNEL=="` + name + `", ENV{SYSTEMD_READY}="0"' >` + rule + `; udevadm control --reload; udevadm trigger --settle /dev/` + name +
			"; rm " + rule + "; udevadm control --reload; udevadm trigger --settle /dev/" + name,
	} {
		was := invocation()
		m.run(end)
		m.wait("the link of a unit that was "+what, fmt.Sprintf("[ -b %s ] && now=$(systemctl show -P InvocationID %s) && [ -n \"$now\" ] && [ $now != %s ]", link, unit, was))
	}
	m.run("hotmount release " + name + "; ! [ -L " + link + " ]")
	// The reload makes the daemon look at each disk. After these looks, the link must still be missing.
	m.run("i=$(stat -c %i /run/hotmount/settings.json); systemctl reload hotmount; for n in $(seq 300); do [ $(stat -c %i /run/hotmount/settings.json) = $i ] || exit 0; sleep 0.1; done; exit 1")
	m.wait("quiet", "systemctl is-active hotmount && ! systemctl show -p StatusText --value hotmount | grep 'working on'")
	m.wait("the release to be known", "hotmount plan | grep -E '^"+name+" .*hold .*somebody ran hotmount release for the disk'")
	m.run("! [ -L " + link + " ]")
}

// TestSoftReboot checks a soft reboot, which ends all mounts and keeps the kernel's boot ID. hotmount must not treat
// the end of the mounts as an unmount by hand. hotmount must mount the volumes again without a command by the operator.
func TestSoftReboot(t *testing.T) {
	m, w := start(t, worker.Options{Suite: "trixie"})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	where := "/mnt/disks/" + m.mounted(name)
	boot, mount := m.run("cat /proc/sys/kernel/random/boot_id"), m.run("findmnt -no ID "+where)
	// The soft reboot may end the connection before systemctl answers, so the test ignores the error.
	_, _ = m.Run(ctx(t), "systemctl soft-reboot")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for c, out := ctx(t), ""; out != "1\nactive\n"; out, _ = m.Run(c, "systemctl show -P SoftRebootsCount; systemctl is-active hotmount") {
		select {
		case <-c.Done():
			t.Fatal("the worker does not come back")
		case <-tick.C:
		}
	}
	m.wait("the mount", "findmnt "+where)
	if got := m.run("cat /proc/sys/kernel/random/boot_id"); got != boot {
		t.Errorf("the boot id is %s, it was %s", got, boot)
	}
	if got := m.run("findmnt -no ID " + where); got == mount {
		t.Errorf("the mount %s was never ended", got)
	}
	if got := m.run("hotmount status"); !strings.Contains(got, "mounted") || strings.Contains(got, "held") {
		t.Errorf("%s", got)
	}
}

// TestCoveredByAMount checks that hotmount reports a volume as failed while another mount hides the volume. At boot,
// hotmount starts only after a slow mount on /mnt, and makes the class directory /mnt/disks in the mounted filesystem.
// If the slow mount fails, hotmount still starts, and reports the failed mount in the journal. systemd mounts nothing
// below the failed mount until the administrator repairs the mount or removes it from fstab.
func TestCoveredByAMount(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	is := func(state string) {
		t.Helper()
		m.wait("it to be "+state, "(hotmount status || [ $? = 3 ]) | grep -E '^"+name+" .* "+state+" '")
	}
	m.run("mount -t tmpfs none /mnt")
	is("failed")
	m.waitForLog("/dev/" + name + " .*keep: the disk is mounted, and another mount covers it: .*: /mnt; .*: umount /mnt")
	if said := m.fails("hotmount release " + name); !strings.Contains(said, "umount /mnt; then: hotmount release "+name) {
		t.Errorf("release of a covered volume: %s", said)
	}
	late, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.waitForLog("cannot make the mount point /mnt/disks/.*; next try in")
	m.run("umount /mnt")
	is("mounted")
	m.mounted(late)

	// cloud-init adds mounts to fstab with the options nofail and x-systemd.requires=.
	m.run(`printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 5\n' >/etc/systemd/system/slow.service
echo 'none /mnt tmpfs nofail,x-systemd.requires=slow.service,x-systemd.after=slow.service 0 0' >>/etc/fstab`)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	m.run("findmnt -t tmpfs /mnt")
	is("mounted")
	m.run("sed -i 's/tmpfs nofail/tmpfs nonsense,nofail/' /etc/fstab")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.waitForLog("cannot mount loop.*: systemd requires mnt.mount for this mount, but mnt.mount is not mounted; the disk is not the cause; .*; next try in")
	m.wait("hotmount to be ready", "systemctl is-active hotmount && systemctl is-failed mnt.mount && ! findmnt /mnt")
	m.run("sed -i '/^none .mnt /d' /etc/fstab; systemctl daemon-reload; systemctl reload hotmount")
	m.wait("the mount", "findmnt /mnt/disks/"+uuid)
	is("mounted")
}

// TestFaultyConfigurationAtBoot checks that volumes are mounted at a restart and at boot despite a faulty
// configuration, such as a file with a wrong mode. Until the fault is corrected, no disk is formatted and no new disk
// is mounted. Once the configuration is corrected, the daemon uses it without a reload. If the configuration has a
// fault and the file of the last good settings is missing or unusable, the daemon does not start.
func TestFaultyConfigurationAtBoot(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const gauge = "/var/lib/prometheus/node-exporter/hotmount.prom"
	m.run("mkdir -p /var/lib/prometheus/node-exporter; systemctl restart hotmount")
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.wait("the volume to be on record", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("touch /etc/hotmount/config.yaml; chmod 664 /etc/hotmount/config.yaml; systemctl restart hotmount")
	m.waitForLog("cannot use the configuration: .*the file's mode is 0664.*last good settings.*hotmount config check")

	zeros, other := blank(t, 320<<20), made(t, 320<<20)
	before := [2]string{digest(t, zeros), digest(t, other)}
	empty, emptyID := m.attach(w, worker.Disk{File: zeros})
	foreign, foreignID := m.attach(w, worker.Disk{File: other})
	faulty := func() {
		t.Helper()
		for _, held := range []string{empty, foreign} {
			m.waitForLog("/dev/" + held + " .*hold: hotmount uses only disks that are already in its records, because the configuration has a fault: .*0664.*hotmount config check")
			if out, err := m.Run(ctx(t), "hotmount accept "+held); err == nil {
				t.Errorf("%s is accepted: %s", held, out)
			}
			m.checkStatus(held + " is held .operator.: hotmount uses only disks that are already in its records, because the configuration has a fault")
		}
		m.checkStatus("^hotmount runs on its last good settings, because the configuration has a fault: .*0664.*hotmount config check DISK SIZE")
		m.run("hotmount status -o json | grep '\"configuration_fault\": \".*0664'")
		m.wait("the line for systemctl status", "systemctl show -p StatusText --value hotmount | grep '^1 mounted, 2 held, .*the configuration has a fault'")
		m.run("(hotmount doctor || [ $? = 3 ]) | grep -A 2 '^WARNING: the configuration has a fault'")
		m.wait("the metric", "grep -x 'hotmount_configuration_fault 1' "+gauge)
		if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
			t.Errorf("the volume has %q", got)
		}
		if after := [2]string{digest(t, zeros), digest(t, other)}; after != before {
			t.Error("a disk that is held was written to")
		}
	}
	faulty()
	if err := w.(interface{ Reboot(context.Context) error }).Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for of, to := range map[string]*string{id: &name, emptyID: &empty, foreignID: &foreign} {
		var err error
		if *to, err = w.BlockDevice(ctx(t), of); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted as %s", got)
	}
	faulty()

	m.run("chmod 644 /etc/hotmount/config.yaml")
	m.mounted(empty)
	m.mounted(foreign)
	m.wait("the metric", "grep -x 'hotmount_configuration_fault 0' "+gauge)
	m.run("! hotmount status | grep 'has a fault'")
	m.wait("the line for systemctl status", "systemctl show -p StatusText --value hotmount | grep '^3 mounted, 0 held, 0 refused, 0 failing$'")

	// The test first gives the file of the last good settings an unknown version, and later deletes the file.
	m.run("chmod 664 /etc/hotmount/config.yaml; sed -i '1s/version 1/version 9/' /var/lib/hotmount/settings.yaml; systemctl restart --no-block hotmount")
	m.waitForLog("the file's mode is 0664")
	m.waitForLog("cannot use the last good settings instead: .*has version .9., but this hotmount knows version 1")
	// The second restart after the removal shows that the daemon has failed without the file.
	restarts := m.run("rm /var/lib/hotmount/settings.yaml; systemctl show -P NRestarts hotmount")
	m.wait("the daemon to fail", "[ $(systemctl show -P NRestarts hotmount) -ge $(("+restarts+" + 2)) ]")
	m.run("chmod 644 /etc/hotmount/config.yaml")
	m.wait("the daemon to start", "systemctl is-active hotmount && [ -e /var/lib/hotmount/settings.yaml ]")
}

// TestMountCannotRun checks that hotmount retries a mount while the node cannot mount anything. Once mount(8) works
// again, hotmount mounts the disk by itself. Until the mount succeeds, `hotmount status`, `hotmount plan` and
// `hotmount explain` show the number of attempts. The journal must not say that hotmount formats the disk, because
// hotmount knows that the disk holds XFS.
func TestMountCannotRun(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("chmod -x /usr/bin/mount")
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait("the fourth try", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: .*failed [4-9] times so far'")
	for _, command := range []string{"(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' '", "hotmount plan | grep '^" + name + " '", "hotmount explain " + name} {
		m.wait("the tries in "+command, command+" | grep -E 'failed ([4-9]|[0-9][0-9]) times so far, next try at [0-9:]+ UTC'")
	}
	m.run("! journalctl -b -o cat --no-pager | grep -E 'found. hotmount reads the disk|hotmount makes xfs'")
	count := func(lines string) int {
		t.Helper()
		n, err := strconv.Atoi(m.run("journalctl -b -o cat --no-pager _COMM=hotmount | grep -c '" + lines + "'"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// After four mount attempts that failed with the same error, the journal contains one line about the failure. At
	// most two other journal lines are about the disk, and each of them reports a decision.
	if failures, lines := count("^/dev/"+name+" .*next try in"), count("/dev/"+name); failures != 1 || lines > 3 {
		t.Errorf("%d failures in %d lines, after four equal tries", failures, lines)
	}
	// PID 1 does not log the removal of a mount point. If a removal fails, the journal still contains the error.
	m.run("! journalctl -b -o cat --no-pager _PID=1 | grep -E '^(Starting|Finished) hotmount-cleanup@|^hotmount-cleanup@.*Deactivated'")
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	m.run(`mkdir -p /mnt/disks/` + uuid + `/theirs; systemctl start "$(systemd-escape -p --template hotmount-cleanup@.service /mnt/disks/` + uuid + `)" || [ $? = 1 ]; rm -r /mnt/disks/` + uuid)
	m.waitForLog("^hotmount: cannot remove the mount point /mnt/disks/" + uuid + ": the directory is not empty")
	m.waitForLog("^hotmount-cleanup@.*: Failed with result 'exit-code'")
	m.run("chmod +x /usr/bin/mount")
	m.mounted(name)
	m.wait("it to be no failure any more", "hotmount status | grep '^"+name+" .* mounted '")
}

// TestClockOfTheFuture checks a format whose record has the year 2099, as if the clock had been wrong. If a recorded
// time is in the future, it delays other formats by at most format_period. hotmount notices the wrong time, and adds
// one notice to the history. A restart does not add another notice.
func TestClockOfTheFuture(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const history = "/var/lib/hotmount/history.jsonl"
	m.run(`systemctl stop hotmount; printf 'format_limit: 1\nformat_period: 1m\n' >/etc/hotmount/config.yaml
		echo '{"version":1,"begin":{"name":"vdz","identity":{},"uuid":"0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f","by":"daemon","evidence":[],"begun":"2099-01-02T03:04:05Z"}}' >>` + history + `
		systemctl start hotmount`)
	m.waitForLog("the history has 1 format with a time in the future")
	noticed := "grep -o '\"noticed\":\"[^\"]*' " + history + " | cut -d '\"' -f 4"
	m.waitMinutes(2, "the minute to pass", `[ $(date +%s) -gt $(($(date -d "$(`+noticed+`)" +%s) + 60)) ]`)
	m.run("systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.mounted(name)
	if got := m.run(noticed + " | wc -l; hotmount history | grep -c 2099"); got != "1\n1" {
		t.Errorf("noticed, and in the history: %s", got)
	}
}
