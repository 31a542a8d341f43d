//go:build vm && full

package system

import (
	"os/exec"
	"testing"

	"hotmount/test/worker"
)

// TestCopyOfAHalfMade: the power goes while a disk is overwritten by the operator's
// word, and a copy of it is attached to get at what it held. The copy is not
// overwritten as well, nor is the disk itself before the operator says so again.
func TestCopyOfAHalfMade(t *testing.T) {
	m, w := obedientWorker(t)
	image := blank(t, crashSize)
	scribble(t, image, 20<<20, 1<<20)
	v := victim{order: "sp30", serial: "0:sp30"}
	v.name, v.id = m.attach(w, worker.Disk{File: image, Serial: v.serial})
	m.says("/dev/" + v.name + " .*refuse: .*old data from byte 20971520")
	_, token := m.offer(v.name)
	m.run("systemd-run --quiet hotmount format " + v.name + " --confirm " + token)
	m.stopped(v)
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), v.id); err != nil {
		t.Fatal(err)
	}
	other := image + ".copy"
	if out, err := exec.CommandContext(ctx(t), "cp", "--sparse=always", image, other).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	before := digest(t, other)
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name, id := m.attach(w, worker.Disk{File: other, Serial: "RESCUE"})
	m.says("/dev/" + name + " .*refuse: mkfs.xfs did not finish on it; this node began .* on a disk of 300 MiB .serial 0:sp30, .*of which this may be a copy")
	if got := m.run("awk '{print $7+$14}' /sys/block/" + name + "/stat"); got != "0" || digest(t, other) != before {
		t.Errorf("%s sectors of the copy were written", got)
	}
	m.detach(w, id)
	name, _ = m.attach(w, worker.Disk{File: image, Serial: v.serial})
	m.says("/dev/" + name + " .*refuse: an operator began to format it and that did not finish; what is left on it is not known.*hotmount format " + name)
	_, token = m.offer(name)
	m.run("hotmount format " + name + " --confirm " + token)
	m.mounted(name)
}
