//go:build vm && (long || full)

package system

import (
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestFormatByToken: a disk that is refused is overwritten by the right token
// alone, and no token outlives a change of the disk or of what is on it.
func TestFormatByToken(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := blank(t, 320<<20)
	scribble(t, image, 20<<20, 1<<20)
	before := digest(t, image)
	name, id := m.attach(w, worker.Disk{File: image})
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
	name, _ = m.attach(w, worker.Disk{File: image})
	// While the daemon has it proven: the token is for the next unit.
	m.wait("the proof", "journalctl -u hotmount-format@$(cat /sys/block/"+name+"/diskseq) | grep 'Starting hotmount-format'")
	if out := m.fails("hotmount format " + name + " --confirm " + token); !strings.Contains(out, "the token does not hold") {
		t.Error(out)
	}
	_, token = m.offer(name)
	// Somebody has it open exclusively.
	m.run("systemd-run --quiet --unit=holder perl -MFcntl -e 'until (sysopen(F, \"/dev/" + name + "\", O_RDONLY|O_EXCL)) { sleep 1 } open(HELD, \">\", \"/run/held\"); sleep 600'")
	// Not by trying to open it: the daemon's own proof of it may still have it.
	m.wait("the holder", "test -e /run/held")
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
}

// TestPartitionsForgotten: the kernel forgets the partitions of a disk that is formatted, or
// it would stay refused. Swap is not formatted. A container has no nodes of partitions, and its
// swap would be the host's.
func TestPartitionsForgotten(t *testing.T) {
	m, w := start(t, worker.Options{})
	parted := blank(t, 640<<20)
	table, _ := m.attach(w, worker.Disk{File: parted})
	m.mounted(table)
	m.run("u=$(findmnt -no TARGET /dev/" + table + "); umount $u; wipefs -qa /dev/" + table + "; printf 'label: gpt\n,200M\n' | sfdisk -q -w always /dev/" + table + "; udevadm settle; hotmount accept " + table)
	m.says("/dev/" + table + " .*refuse: it has partitions: " + table + "1")
	text, token := m.offer(table)
	if !strings.Contains(text, "since it was attached xfs ") {
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
}
