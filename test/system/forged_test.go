//go:build vm && (long || full)

package system

import (
	"fmt"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestForgedEvents: whatever events say, only the disks themselves count: nothing
// is formatted, mounted or unmounted, and the daemon stays up.
func TestForgedEvents(t *testing.T) {
	m, w := start(t, worker.Options{})
	c := chance(t)
	ours, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "OURS"})
	uuid := m.mounted(ours)
	data := withData(t, crashSize, 200<<20)
	foreign, _ := m.attach(w, worker.Disk{File: data, Serial: "FOREIGN"})
	m.says("^/dev/" + foreign + " .*refuse: ")
	// By its serial: nothing but the decision about this disk keeps it from being formatted.
	held, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "OURS"})
	m.says("^/dev/" + held + " .*hold: ")
	before := digest(t, data)
	state := func() string {
		return m.run("systemctl show -p NRestarts -p MainPID hotmount; findmnt -rno ID,SOURCE,TARGET | grep -E ' /dev/vd' | sort; ls -A /mnt/disks; journalctl -b -o cat --no-pager | grep -c ': formatted'; hotmount history | grep -c made")
	}
	was := state()

	path := func(name string) string {
		p := m.run("readlink -f /sys/block/" + name)
		return strings.TrimPrefix(p, "/sys")
	}
	paths := map[string]string{"vda": path("vda"), ours: path(ours), foreign: path(foreign), held: path(held)}
	var frames []string
	for about, p := range paths {
		for says := range paths {
			seq := m.run("cat /sys/block/" + says + "/diskseq")
			for _, action := range []string{"add", "change", "remove", "move"} {
				for _, content := range []string{"", "|ID_FS_TYPE=xfs|ID_FS_USAGE=filesystem|ID_FS_UUID=" + uuid, "|ID_FS_TYPE=xfs|ID_FS_USAGE=filesystem|ID_FS_UUID=11111111-2222-4333-8444-555555555555"} {
					frames = append(frames, fmt.Sprintf("ACTION=%s|DEVPATH=%s|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=99999|DEVNAME=/dev/%s|DISKSEQ=%s|MAJOR=254|MINOR=0|USEC_INITIALIZED=1%s", action, p, says, seq, content))
				}
			}
		}
		frames = append(frames, "ACTION=add|DEVPATH=/devices/virtual/block/../../../../etc/passwd|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=1|DEVNAME=/dev/../etc/"+about,
			"ACTION=add|DEVPATH=/devices/virtual/block/vdzz|SUBSYSTEM=block|DEVTYPE=disk|SEQNUM=1|DEVNAME=/dev/vdzz|DISKSEQ=18446744073709551615",
			"ACTION=add|DEVPATH="+p+"|SUBSYSTEM=block|DEVTYPE=disk|DISKSEQ=-1|SEQNUM=1", "ACTION=|DEVPATH=|SUBSYSTEM=block|DEVTYPE=disk", "|=|==|SUBSYSTEM=block", "ACTION=add=|DEVPATH=a=b=c|ID_SERIAL==x")
	}
	var lines []string
	for _, how := range []string{"whole", "kernel", "cut", "lies", "huge", "noise"} {
		for _, frame := range frames {
			if full || c.IntN(4) == 0 {
				lines = append(lines, how+"|"+frame)
			}
		}
	}
	c.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if err := m.Write(ctx(t), "/root/forge.pl", []byte(forge), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(ctx(t), "/root/frames", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := m.run("perl /root/forge.pl </root/frames 2>&1 | sort | uniq -c | head"); got != "" {
		t.Errorf("not all of %d frames were sent: %s", len(lines), got)
	}
	// They have been heard, and what they asked for would have been done by now.
	m.says("an event (could not be read|was too long)")
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '1 mounted, 1 held, 1 refused, 0 failing'")
	m.run("systemctl reload hotmount")
	m.wait("quiet", "systemctl show -p StatusText --value hotmount | grep -qx '1 mounted, 1 held, 1 refused, 0 failing'")
	if now := state(); now != was {
		t.Errorf("after %d forged events:\n%s\nbefore:\n%s", len(lines), now, was)
	}
	m.untouched(foreign)
	m.untouched(held)
	if digest(t, data) != before {
		t.Error("the disk with data was written to")
	}
	// And a true event is still heard.
	name, _ := m.attach(w, worker.Disk{File: blank(t, crashSize), Serial: "NEW"})
	m.mounted(name)
}
