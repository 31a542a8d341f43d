//go:build vm

package system

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"hotmount/test/worker"
)

// fails runs a script that has to fail and gives what it prints.
func (m machine) fails(script string) string {
	m.t.Helper()
	out := m.run("if out=$(" + script + " 2>&1); then echo \"it succeeded: $out\"; else echo \"refused: $out\"; fi")
	if !strings.HasPrefix(out, "refused: ") {
		m.t.Errorf("%s: %s", script, out)
	}
	return out
}

// writes counts the write and discard requests that the guest has sent.
func (m machine) writes(name string) string {
	m.t.Helper()
	return m.run("awk '{print $5+$12}' /sys/block/" + name + "/stat")
}

var confirmPattern = regexp.MustCompile(`--confirm ([0-9a-f]{32})`)

// offer asks for the token of a disk.
func (m machine) offer(name string) (text, token string) {
	m.t.Helper()
	text = m.run("hotmount format " + name)
	found := confirmPattern.FindStringSubmatch(text)
	if found == nil {
		m.t.Fatalf("no token:\n%s", text)
	}
	return text, found[1]
}

// scribble puts random bytes into the file of a disk; the first is not zero.
func scribble(t *testing.T, image string, at int64, n int) {
	t.Helper()
	c := chance(t)
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

// TestFormatByToken: a disk that is refused is overwritten by the right token
// alone, and no token outlives a change of the disk or of what is on it.
func TestFormatByToken(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := blank(t, 320<<20)
	scribble(t, image, 20<<20, 1<<20)
	before := digest(t, image)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "OLD"})
	m.says("/dev/" + name + " .*refuse: .*old data from byte 20971520.*hotmount format " + name)

	text, token := m.offer(name)
	if !regexpLine(text, `not blank: looks like a recycled volume or a damaged disk, old data from byte 20971520`) {
		t.Errorf("the offer:\n%s", text)
	}
	t.Log(text)
	wrong := strings.Map(func(r rune) rune {
		if r == '0' {
			return '1'
		}
		return '0'
	}, token)
	if out := m.fails("hotmount format " + name + " --confirm " + wrong); !strings.Contains(out, "the token does not hold") {
		t.Error(out)
	}
	m.fails("hotmount format " + name + " --confirm xyz")
	m.fails("su nobody -s /bin/sh -c 'hotmount format " + name + " --confirm " + token + "'")
	if got := m.writes(name); got != "0" || digest(t, image) != before {
		t.Errorf("after wrong tokens: %s write requests", got)
	}

	// One byte, which the samples see.
	m.run("printf x | dd of=/dev/" + name + " bs=1 seek=100000000 conv=notrunc,fsync 2>/dev/null")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token does not hold") {
		t.Error(out)
	}
	_, token = m.offer(name)
	// The same disk, attached anew.
	changed := digest(t, image)
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "OLD"})
	// While the daemon has it proven: the token is for the next unit.
	m.wait("the proof", "journalctl -u hotmount-format@$(cat /sys/block/"+name+"/diskseq) | grep 'Starting hotmount-format'")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token does not hold") {
		t.Error(out)
	}
	_, token = m.offer(name)
	// Somebody has it open exclusively.
	claim := "perl -MFcntl -e 'sysopen(F, \"/dev/" + name + "\", O_RDONLY|O_EXCL) or exit 1; sleep shift'"
	m.run("systemd-run --quiet --unit=holder " + claim + " 600")
	m.wait("the holder", "! "+claim+" 0")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "somebody else uses it") {
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
	if out := m.fails("hotmount format vda"); !strings.Contains(out, "carries the system") {
		t.Error(out)
	}
	swap, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "SWAP"})
	m.mounted(swap)
	m.run("findmnt -no TARGET /dev/" + swap + " | xargs umount; mkswap -f /dev/" + swap + " >/dev/null; swapon /dev/" + swap)
	if out := m.fails("hotmount format " + swap); !strings.Contains(out, "swap") {
		t.Error(out)
	}

}

// TestForeignHalfMade: a filesystem that another node has begun to make is nobody's
// business but the operator's.
func TestForeignHalfMade(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	image := blank(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image})
	m.run("LIBXFS_DEBUG_WRITE_CRASH=ddev=20 mkfs.xfs -q -K /dev/" + name + " || true; sync")
	m.detach(w, id)
	before := digest(t, image)
	name, _ = m.attach(w, worker.Disk{File: image})
	m.run("udevadm settle; udevadm info -q property /dev/" + name + " | grep -x ID_FS_TYPE=xfs; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: mkfs.xfs did not finish on it, and the unfinished filesystem .* is not of this node's making; .*hotmount format " + name)
	// udev calls it XFS, so that a mount was tried: the kernel flushes the disk
	// then, a write request without a sector.
	if got := m.run("awk '{print $7+$14}' /sys/block/" + name + "/stat"); got != "0" {
		t.Errorf("%s sectors were written", got)
	}
	if digest(t, image) != before {
		t.Error("its bytes have changed")
	}
	_, token := m.offer(name)
	m.run("hotmount format " + name + " --confirm " + token)
	m.mounted(name)
}

// throttle bounds how fast the worker reads and writes a disk, in bytes a second;
// 0 for no bound. The id is QEMU's: a virtio disk's reads and writes are of a part
// of it.
func throttle(t *testing.T, w *worker.Worker, id string, read, write int) {
	t.Helper()
	args := map[string]any{"id": id, "bps": 0, "bps_rd": read, "bps_wr": write, "iops": 0, "iops_rd": 0, "iops_wr": 0}
	if _, err := w.QMP(ctx(t), "block_set_io_throttle", args); err != nil {
		t.Fatal(err)
	}
}

// TestSlowProof: a proof that takes long says how far it is, outlives the daemon,
// is waited for by the next one, keeps no other disk waiting, and ends with its
// disk.
func TestSlowProof(t *testing.T) {
	m, w := start(t, worker.Options{})
	// It asks for more time than this as long as it gets on.
	m.run("mkdir /etc/systemd/system/hotmount-format@.service.d; printf '[Service]\\nTimeoutStartSec=20s\\n' >/etc/systemd/system/hotmount-format@.service.d/short.conf; systemctl daemon-reload; systemctl stop hotmount")
	slow, slowID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "SLOW"})
	throttle(t, w, slowID+"/virtio-backend", 10<<20, 0)
	m.run("systemctl start --no-block hotmount")
	seq := m.run("cat /sys/block/" + slow + "/diskseq")
	unit := "hotmount-format@" + seq
	m.wait("the unit's status", "systemctl status "+unit+" | grep -E 'Status: .*"+slow+": proving that it is blank: [0-9]+ % of 2 GiB, .*/s'")
	m.says("/dev/" + slow + " .*proving that it is blank: [0-9]+ % of 2 GiB")
	m.wait("the daemon's status", "systemctl status hotmount | grep -E 'Status: .*proving blank, and formatting if so: "+slow+"'")
	t.Log(m.run("systemctl status " + unit + " | grep Status; systemctl status hotmount | grep Status; journalctl -o cat --no-pager -b | grep 'proving that'"))
	invocation := m.run("systemctl show -P InvocationID " + unit)
	// Who asks by hand waits for a place like everybody else.
	m.run("systemd-run --quiet --unit=place flock /run/hotmount/scan.1 sleep infinity; timeout 10 hotmount plan 2>&1 | grep -x 'waiting until other disks have been read'; systemctl stop place")

	m.run("systemctl kill -s KILL hotmount")
	m.wait("the next daemon", "systemctl is-active hotmount && systemctl status hotmount | grep -E 'Status: .*proving blank.*"+slow+"'")
	other, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "QUICK"})
	m.mounted(other)
	if got := m.run("systemctl show -P InvocationID -P ActiveState " + unit); got != invocation+"\nactivating" && got != "activating\n"+invocation {
		t.Errorf("the unit was %s and is %s", invocation, got)
	}
	m.wait("a second word of it, after 35 seconds", "test $(journalctl -b -o cat --no-pager | grep -c '^/dev/"+slow+" .*proving that it is blank: ') -ge 2")
	throttle(t, w, slowID+"/virtio-backend", 0, 0)
	m.mounted(slow)
	if out, err := m.Run(ctx(t), "journalctl -b --no-pager -o cat -u "+unit+" | grep -i 'timed out'"); err == nil {
		t.Errorf("it was not given more time: %s", out)
	}
	if got := m.run("journalctl -b --no-pager -o cat -u " + unit + " | grep -c 'formatted: xfs'"); got != "1" {
		t.Errorf("formatted %s times", got)
	}

	gone, goneID := m.attach(w, worker.Disk{File: blank(t, 2<<30), Serial: "GONE"})
	throttle(t, w, goneID+"/virtio-backend", 10<<20, 0)
	unit = "hotmount-format@" + m.run("cat /sys/block/"+gone+"/diskseq")
	m.wait("the proof", "systemctl is-active "+unit+" | grep activating")
	begun := time.Now()
	m.detach(w, goneID)
	m.wait("the end of the unit", "! systemctl is-active "+unit+" | grep -E 'activating|deactivating'")
	took := time.Since(begun)
	t.Logf("from the detaching to the end of the unit: %s", took)
	if took > 30*time.Second { // emulated; the proof would take minutes
		t.Errorf("the unit went on for %s after its disk was gone", took)
	}
	t.Log(m.run("journalctl -b --no-pager -o cat -u " + unit + " | tail -n 4"))
}

// TestWritesThatAreNotCounted: without the kernel's count of writes nothing is
// formatted.
func TestWritesThatAreNotCounted(t *testing.T) {
	m, w := start(t, worker.Options{})
	m.run("systemctl stop hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.run("echo 0 >/sys/block/" + name + "/queue/iostats; systemctl start hotmount")
	m.says("/dev/" + name + " .*refuse: the kernel does not count the writes to it .*echo 1 >/sys/block/" + name + "/queue/iostats")
	m.run("echo 1 >/sys/block/" + name + "/queue/iostats; systemctl reload hotmount")
	m.mounted(name)
}
