//go:build vm

package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hotmount/test/worker"
)

// TestPlanWritesNothing checks that `hotmount plan` writes nothing to a disk, and that the daemon then does what the
// plan shows.
func TestPlanWritesNothing(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("udevadm settle")
	full := blank(t, 320<<20)
	if err := os.WriteFile(full, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(full, 320<<20); err != nil {
		t.Fatal(err)
	}
	refused, _ := m.attach(w, worker.Disk{File: full})
	m.run("udevadm settle")
	plan := m.run("hotmount plan -v")
	for _, line := range []string{
		`^` + name + ` +320 MiB +format +the disk is blank$`,
		`^` + name + `: format: evidence:\n    wipefs: nothing\n    blkid: nothing\n    read 320 MiB of 320 MiB, all zero \(full\)$`,
		`^` + refused + ` +320 MiB +refuse +hotmount does not recognise the disk's content; `,
		`^` + refused + `: refuse: evidence:\n(    .*\n)*    .*byte 0\b`,
	} {
		if !regexpLine(plan, line) {
			t.Errorf("%s is not in the plan:\n%s", line, plan)
		}
	}
	if got := m.writes(name) + " " + m.writes(refused); got != "0 0" {
		t.Errorf("%s write requests by a plan", got)
	}
	if out := m.run("su nobody -s /bin/sh -c 'hotmount plan'"); !regexpLine(out, `^`+name+` .*(prove|hold).*`) {
		t.Errorf("nobody's plan:\n%s", out)
	}
	m.run("systemctl start hotmount")
	m.mounted(name)
}

// TestStatus checks that any user sees where each disk is mounted, and which disks are refused, even while the daemon
// is down.
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

	// `hotmount status` reads no disk, because it shows what the daemon has read before. `hotmount status` opens only
	// loop devices, to learn which file or disk is behind each of them. A container's disks are also loop devices.
	if out := m.run(`e=0; strace -f -qq -y -s 400 -e trace=open,openat,openat2,read,pread64,readv,preadv,preadv2,mmap -o /root/trace hotmount status >/dev/null || e=$?; [ $e = 3 ]
		grep -c '^[0-9]* *open[^"]*"[^"]*status.json"' /root/trace; ! grep -E '^[0-9]+ +(open[^"]*"/dev/(vd|dm-)|[pmr][^"]*</dev/(vd|dm-|loop))' /root/trace`); out != "1" {
		t.Errorf("how often status opens status.json, and the disks that it opens or reads: %s", out)
	}
	// Output is coloured on a terminal, unless TERM or NO_COLOR forbids colours. With --watch, `hotmount status`
	// repeats the table until it gets SIGINT. With --watch, the last table determines the exit status.
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

	// With --watch, the table changes when a disk is attached or detached.
	m.run("systemctl start hotmount; systemd-run -q -u watch -p StandardOutput=file:/root/watched hotmount status --watch")
	m.wait("the first table", "grep -q 1.GiB /root/watched")
	live, liveID := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait(live+" to be in the table", "grep -q '^"+live+" ' /root/watched")
	m.detach(w, liveID)
	m.wait(live+" to leave it", "! tac /root/watched | sed '/DISK  *SIZE/q' | grep '^"+live+" '")
	m.run("systemctl stop watch")
}

// TestStatusOfTheDead mounts an unresponsive filesystem over the disk's filesystem. TestStatusOfTheDead checks that
// neither the daemon nor the commands wait for the unresponsive filesystem.
func TestStatusOfTheDead(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	uuid := m.mounted(name)
	// The server of this FUSE filesystem never answers, like an NFS server that is gone.
	m.run("systemctl start hotmount; modprobe fuse; systemd-run -q -u dead bash -c 'exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other dead /mnt/disks/" + uuid + "; exec sleep infinity'")
	m.wait("the dead filesystem", "grep -q ' /mnt/disks/"+uuid+" .* fuse ' /proc/1/mountinfo")
	m.run("if timeout -s KILL 2 stat /mnt/disks/" + uuid + " >/dev/null 2>&1; then exit 1; elif [ $? != 137 ]; then exit 1; fi")
	for _, line := range []string{"status", "plan", "doctor", "__complete events ''", "explain " + name} {
		if out := m.run("if timeout -s KILL 60 hotmount " + line + " >/root/shown 2>&1 </dev/null || [ $? -lt 100 ]; then echo done; else cat /root/shown; fi"); out != "done" {
			t.Errorf("hotmount %s over a dead filesystem: %s", line, out)
		}
	}
	m.run("timeout 60 systemctl restart hotmount && (" + trigger + ") && timeout 60 systemctl reload hotmount")
	// The daemon must report a volume as failing while another mount covers the volume.
	m.wait("the daemon", "systemctl show -P StatusText hotmount | grep -x '0 mounted, 0 held, 0 refused, 1 failing'")
	m.run("systemctl stop dead; umount -l /mnt/disks/" + uuid)
	m.wait("the volume to be uncovered", "systemctl show -P StatusText hotmount | grep -x '1 mounted, 0 held, 0 refused, 0 failing'")
}

// The constant `failing` is the name of the environment variable that makes TestThatFails start its workers.
const failing = "HOTMOUNT_TEST_FAILS"

// TestThatFails fails if TestLogsAreKept has set the environment variable HOTMOUNT_TEST_FAILS to "yes". The first of
// TestThatFails's two workers then starts, and the setup of the other worker fails.
func TestThatFails(t *testing.T) {
	how := os.Getenv(failing)
	if how == "" {
		return
	}
	const say = "logger -t test this is in the journal; echo this is on the console >/dev/console"
	m, _ := start(t, worker.Options{})
	m.run(say)
	if how == "yes" {
		start(t, worker.Options{Setup: say + "; echo the setup says no >&2; exit 1"})
	}
}

// TestLogsAreKept checks that a failing test keeps the serial log, the journal and the QMP log of each worker. The
// failing test prints the directory of each worker's logs. A passing test keeps no logs.
func TestLogsAreKept(t *testing.T) {
	parallel(t)
	dir := t.TempDir()
	c := exec.CommandContext(ctx(t), os.Args[0], "-test.run=^TestThatFails$", "-test.v")
	c.Env = append(os.Environ(), failing+"=yes", "HOTMOUNT_TEST_LOGS="+dir)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the setup says no") {
		t.Fatalf("it did not fail as it should: %v:\n%s", err, out)
	}
	var places []string
	for _, found := range regexp.MustCompile(`logs: (\S+)`).FindAllStringSubmatch(string(out), -1) {
		places = append(places, found[1])
	}
	slices.Sort(places)
	if len(places) != 2 || places[0] != filepath.Join(dir, "TestThatFails") {
		t.Fatalf("it says that the logs are in %q:\n%s", places, out)
	}
	for _, place := range places {
		for name, want := range map[string]string{"serial.log": "this is on the console", "qmp.log": "qmp_capabilities", "journal.txt": "this is in the journal"} {
			if text, err := os.ReadFile(filepath.Join(place, name)); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("no %q in the %d bytes of %s/%s (%v)", want, len(text), place, name, err)
			}
		}
	}

	c = exec.CommandContext(ctx(t), os.Args[0], "-test.run=^TestThatFails$", "-test.v")
	c.Env = append(os.Environ(), failing+"=no", "HOTMOUNT_TEST_LOGS="+filepath.Join(dir, "none"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "none")); len(left) > 0 {
		t.Errorf("a test that passes has left %v (%v)", left, err)
	}
}

// TestFormatByToken checks that a refused disk is overwritten only with the right token. A token is no longer valid
// when the disk is attached again or its content changes.
func TestFormatByToken(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 320<<20)
	writeRandom(t, image, 20<<20, 1<<20)
	before := digest(t, image)
	name, id := m.attach(w, worker.Disk{File: image})
	m.waitForLog("/dev/" + name + " .*refuse: .*found old data at byte 20971520.*hotmount format " + name)

	text, token := m.offer(name)
	if !regexpLine(text, `not blank: found old data at byte 20971520, as on a recycled volume or a damaged disk`) {
		t.Errorf("the offer:\n%s", text)
	}
	t.Log(text)
	wrong := strings.Map(func(r rune) rune {
		if r == '0' {
			return '1'
		}
		return '0'
	}, token)
	if out := m.fails("hotmount format " + name + " --confirm " + wrong); !strings.Contains(out, "the token is not valid") {
		t.Error(out)
	}
	m.fails("hotmount format " + name + " --confirm xyz")
	m.fails("su nobody -s /bin/sh -c 'hotmount format " + name + " --confirm " + token + "'")
	if got := m.writes(name); got != "0" || digest(t, image) != before {
		t.Errorf("after wrong tokens: %s write requests", got)
	}

	// The token for a disk of this size depends on every byte of the disk. The kernel counts no write on the storage.
	writeRandom(t, image, 100000000, 1)
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token is not valid") {
		t.Error(out)
	}
	if got := m.writes(name); got != "0" {
		t.Errorf("%s write requests by a write on the storage", got)
	}
	// The token also depends on the kernel's count of writes. The second dd writes what the disk already contains.
	_, token = m.offer(name)
	m.run("dd if=/dev/" + name + " of=/root/block bs=4k skip=24414 count=1 iflag=direct status=none; dd if=/root/block of=/dev/" + name + " bs=4k seek=24414 conv=notrunc,fsync status=none")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token is not valid") {
		t.Error(out)
	}
	_, token = m.offer(name)
	// The same disk is attached again.
	changed := digest(t, image)
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image})
	// The formatting unit that the daemon has started is now reading the disk. PID 1 must start the formatting unit of
	// `hotmount format` only after the daemon's unit has ended, so `hotmount format` must wait.
	m.wait("the proof", "journalctl -u hotmount-format@$(cat /sys/block/"+name+"/diskseq) | grep 'Starting hotmount-format'")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token is not valid") {
		t.Error(out)
	}
	_, token = m.offer(name)
	// A process opens the disk exclusively (O_EXCL).
	m.run("systemd-run --quiet --unit=holder perl -MFcntl -e 'until (sysopen(F, \"/dev/" + name + "\", O_RDONLY|O_EXCL)) { sleep 1 } open(HELD, \">\", \"/run/held\"); sleep 600'")
	// /run/held shows that the process has opened the disk. A failed attempt to open the disk would prove nothing,
	// because the daemon's own proof may still have the disk open.
	m.wait("the holder", "test -e /run/held")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the disk is in use") {
		t.Error(out)
	}
	m.run("systemctl stop holder")
	if digest(t, image) != changed {
		t.Error("a token that did not hold has changed the disk")
	}

	t.Log(m.run("hotmount format " + name + " --confirm " + token))
	m.mounted(name)
	if out := m.run("hotmount history"); !regexpLine(out, `operator`) {
		t.Errorf("the history:\n%s", out)
	}
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "mounted") {
		t.Error(out)
	}
	if out := m.fails("hotmount format " + name); !strings.Contains(out, "mounted") {
		t.Error(out)
	}
}

// TestPartitionsForgotten checks that the kernel forgets a disk's partitions when hotmount formats the whole disk. If
// the kernel did not forget the partitions, the disk would stay refused. hotmount does not format a disk that is in use
// as swap. While a virtual machine monitor has a partition open, no message of hotmount advises the user to overwrite
// the disk. The test needs a virtual machine, because a container has no device nodes of partitions and shares the
// host's swap.
func TestPartitionsForgotten(t *testing.T) {
	m, w := start(t, worker.Options{})
	parted := blank(t, 640<<20)
	table, _ := m.attach(w, worker.Disk{File: parted})
	m.mounted(table)
	m.run("u=$(findmnt -no TARGET /dev/" + table + "); umount $u; wipefs -qa /dev/" + table + "; printf 'label: gpt\n,200M\n' | sfdisk -q -w always /dev/" + table + "; udevadm settle; hotmount accept " + table)
	m.waitForLog("/dev/" + table + " .*refuse: the disk has partitions: " + table + "1")
	text, token := m.offer(table)
	if !strings.Contains(text, "no filesystem was seen on the disk since it was attached, or the disk was accepted: xfs ") {
		t.Errorf("the offer:\n%s", text)
	}
	t.Log(m.run("hotmount format " + table + " --confirm " + token))
	m.mounted(table)

	swap, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.mounted(swap)
	m.run("findmnt -no TARGET /dev/" + swap + " | xargs umount; mkswap -f /dev/" + swap + " >/dev/null; swapon /dev/" + swap)
	if out := m.fails("hotmount format " + swap); !strings.Contains(out, "swap") {
		t.Error(out)
	}

	image := blank(t, 640<<20)
	if out, err := exec.CommandContext(ctx(t), "bash", "-c", "printf 'label: gpt\n,200M\n' | sfdisk -q "+image).CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	m.run("mkdir -p /etc/libvirt/qemu; systemctl stop hotmount")
	guest, _ := m.attach(w, worker.Disk{File: image})
	m.run("udevadm settle")
	m.opens("guest", "qemu-system-x86", guest+"1", "O_RDWR")
	m.run("systemctl start hotmount")
	m.waitForLog("^/dev/" + guest + usedHold + "opened by the virtual machine monitor qemu-system-x86")
	if got := m.run("journalctl -b -q -o cat --no-pager | grep -c 'hotmount format " + guest + "' || [ $? = 1 ]"); got != "0" {
		t.Errorf("a format is advised %s times", got)
	}
	m.run("systemctl stop guest; hotmount accept " + guest)
	m.waitForLog("^/dev/" + guest + " .*refuse: the disk has partitions: " + guest + "1.*hotmount format " + guest)
}

// The method `fails` runs a script that must fail, and returns the script's output.
func (m machine) fails(script string) string {
	m.t.Helper()
	out := m.run("if out=$(" + script + " 2>&1); then echo \"it succeeded: $out\"; else echo \"refused: $out\"; fi")
	if !strings.HasPrefix(out, "refused: ") {
		m.t.Errorf("%s: %s", script, out)
	}
	return out
}

// The method returns the number of write and discard requests that the kernel has completed for the disk.
func (m machine) writes(name string) string {
	m.t.Helper()
	return m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat")
}

var confirmPattern = regexp.MustCompile(`--confirm ([0-9a-f]{32})`)

// The method `offer` returns the text that `hotmount format` prints for a disk, and the token in the text.
func (m machine) offer(name string) (text, token string) {
	m.t.Helper()
	text = m.run("hotmount format " + name)
	found := confirmPattern.FindStringSubmatch(text)
	if found == nil {
		m.t.Fatalf("no token:\n%s", text)
	}
	return text, found[1]
}

// writeRandom writes n random bytes to the file of a disk, starting at the given byte offset. The first byte that
// writeRandom writes is never zero.
func writeRandom(t *testing.T, image string, at int64, n int) {
	t.Helper()
	c := randomSource(t)
	b := []byte{1}
	for len(b) < n {
		b = append(b, byte(c.Uint32()))
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// throttle limits the worker's reads and writes of a disk, in bytes a second. 0 means no limit. The argument `id` names
// the QEMU device. For a virtio disk, the argument names the device's part that does the I/O, and ends in
// /virtio-backend.
func throttle(t *testing.T, w *worker.Worker, id string, read, write int) {
	t.Helper()
	args := map[string]any{"id": id, "bps": 0, "bps_rd": read, "bps_wr": write, "iops": 0, "iops_rd": 0, "iops_wr": 0}
	if _, err := w.QMP(ctx(t), "block_set_io_throttle", args); err != nil {
		t.Fatal(err)
	}
}

// TestWait checks a service that needs a volume. The service must wait until the volume is mounted, also at boot.
func TestWait(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.run("hotmount wait " + uuid)
	m.detach(w, id)
	m.wait("the mount to go", "! findmnt /mnt/disks/"+uuid)
	if _, err := m.Run(ctx(t), "hotmount wait --timeout 1s "+uuid); err == nil || !strings.Contains(err.Error(), "cannot wait until "+uuid+" is mounted") {
		t.Errorf("waiting for a disk that is not there: %v", err)
	}
	m.run(fmt.Sprintf("systemd-run -q --no-block --unit=needs -p Requires=hotmount-wait@%[1]s.service -p After=hotmount-wait@%[1]s.service touch /mnt/disks/%[1]s/started", uuid))
	m.wait("the wait", "systemctl show -p ActiveState --value hotmount-wait@"+uuid+" | grep -q activating")
	m.attach(w, worker.Disk{File: image})
	m.wait("the service", "[ -e /mnt/disks/"+uuid+"/started ]")
	m.run(fmt.Sprintf(`cat >/etc/systemd/system/needs.service <<'X'
[Unit]
Requires=hotmount-wait@%[1]s.service
After=hotmount-wait@%[1]s.service
[Service]
Type=oneshot
ExecStart=/bin/touch /mnt/disks/%[1]s/booted
[Install]
WantedBy=multi-user.target
X
systemctl -q enable needs`, uuid))
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the service after the reboot", "[ -e /mnt/disks/"+uuid+"/booted ]")
}
