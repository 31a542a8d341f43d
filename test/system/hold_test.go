//go:build vm

package system

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/test/worker"
)

// TestAFilesystemVanishes checks that a disk without a serial is held if its content turns to zeros while the disk is
// attached. The hold names the former filesystem. An accept of another hold does not lift the hold for the vanished
// filesystem.
func TestAFilesystemVanishes(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := made(t, 320<<20)
	name, _ := m.attach(w, worker.Disk{File: image})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("umount /mnt/disks/" + uuid)
	m.waitForLog("/dev/" + name + " .*hold: somebody unmounted the disk by hand")
	for _, size := range []int64{0, 320 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	zeros := digest(t, image)
	m.run("hotmount accept " + name)
	m.waitForLog("/dev/" + name + " .*refuse: hotmount found the disk blank, but udev reports a signature on the disk.*; to make udev read the disk again: udevadm trigger -s block -y " + name)
	m.run("udevadm trigger -s block -y " + name)
	m.waitForLog("/dev/" + name + " .*hold: the disk looks blank now, but held data at some time since it was attached: xfs " + uuid + " .*hotmount accept " + name)
	if digest(t, image) != zeros {
		t.Error("it was written to")
	}
	m.run("hotmount accept " + name)
	if now := m.mounted(name); now == uuid {
		t.Error("the new filesystem has the old UUID")
	}
}

// TestASickFilesystemVanishes checks that `hotmount accept` after a failed mount allows only another attempt to mount.
// If the disk later contains only zeros, this accept does not allow a format.
func TestASickFilesystemVanishes(t *testing.T) {
	m, w := start(t, worker.Options{})
	zeros := digest(t, blank(t, 320<<20))
	image := made(t, 320<<20)
	name, id := m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.detach(w, id)
	writeRandom(t, image, 1024, 512) // overwrites sector 2, the header of the first inodes
	name, _ = m.attach(w, worker.Disk{File: image, Serial: "SICK"})
	m.waitForLog("/dev/" + name + " .*next try in")
	m.run("hotmount accept " + name)
	for _, size := range []int64{0, 320 << 20} {
		if err := os.Truncate(image, size); err != nil {
			t.Fatal(err)
		}
	}
	m.run("udevadm trigger -s block -y " + name)
	m.waitForLog("/dev/" + name + " .*hold: .*" + uuid + ".*hotmount accept " + name)
	if digest(t, image) != zeros {
		t.Error("it was written to")
	}
}

// TestHistoryAndFormerSerial checks that the record of a format contains the disk's identity, the evidence that the
// disk was blank, and the UUID. A blank disk with the serial of the formatted disk is held, even after a reboot. The
// hold names the UUID of the former filesystem. If the operator accepts the disk for another reason, the hold for the
// serial stays.
func TestHistoryAndFormerSerial(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "H1"})
	uuid := m.mounted(name)
	all := m.history()
	if len(all) != 1 {
		t.Fatalf("got %d records, want 1: %+v", len(all), all)
	}
	r := all[0]
	seq := m.run("cat /sys/block/" + name + "/diskseq")
	if r.Name != name || r.UUID != uuid || r.By != disk.ByDaemon || !r.Made() || r.Identity.Serial != "H1" || r.Identity.Size != 320<<20 ||
		fmt.Sprint(r.Identity.Seq) != seq || !strings.HasPrefix(r.Identity.Slot, "pci-") || len(r.Evidence) < 3 {
		t.Errorf("the record is %+v", r)
	}
	text := m.run("hotmount history")
	for _, want := range []string{uuid, "serial H1, 320 MiB, slot pci-", "disk sequence number " + seq, "by the daemon", "outcome: made ", r.Evidence[0]} {
		if !strings.Contains(text, want) {
			t.Errorf("the history does not say %q:\n%s", want, text)
		}
	}
	t.Logf("history:\n%s", text)
	if out, err := m.Run(ctx(t), "su nobody -s /bin/sh -c 'hotmount history'"); err == nil || !strings.Contains(err.Error(), "only root may read the history") {
		t.Errorf("nobody may read the history: %s, %v", out, err)
	}

	m.detach(w, id)
	again, _ := m.attach(w, worker.Disk{File: blank(t, 400<<20), Serial: "H1"})
	held := "/dev/%s .*hold: the disk looks blank, but a disk with the same serial or WWN held data: xfs " + uuid + ".*hotmount accept %s"
	m.waitForLog(fmt.Sprintf(held, again, again))
	m.checkUntouched(again)
	m.run("sync")
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	again = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"H1\" {print $1}'")
	m.waitForLog(fmt.Sprintf(held, again, again))
	m.checkUntouched(again)

	// An accept lifts only the hold that hotmount has already displayed. The disk gets a second hold, because it is
	// attached while the package is installed again.
	m.run("touch /var/lib/hotmount/removed; hotmount state init; systemctl reload hotmount")
	m.waitForLog(fmt.Sprintf("/dev/%s .*hold: .*attached before hotmount was installed: .*hotmount accept %s", again, again))
	m.run("hotmount accept " + again)
	m.wait("the next hold to be shown", "hotmount status | grep -q "+uuid+" && hotmount plan | grep -E '^"+again+" .*hold .*"+uuid+"'")
	if got := m.run("journalctl -b --no-pager -o cat -u hotmount | grep -c 'hold: the disk looks blank, but a disk with the same serial or WWN held data'"); got != "2" {
		t.Errorf("the journal has it %s times, want twice", got)
	}
	m.checkUntouched(again)
	m.lift(again, "former-serial")
	if second := m.mounted(again); second == uuid {
		t.Errorf("both have the UUID %s", uuid)
	}
	if all := m.history(); len(all) != 2 || all[0].UUID != uuid || !all[1].Made() {
		t.Errorf("the history is %+v", all)
	}
}

// TestPresentDisksAreHeld checks that a first installation holds the blank disks that are already attached, and reports
// the holds. After an accept, hotmount formats the held blank disk.
func TestPresentDisksAreHeld(t *testing.T) {
	parallel(t)
	m, w := startAs(t, worker.Options{})
	held, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OLD1"})
	full, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "OLD2"})
	noSerial := blank(t, 320<<20)
	bare, _ := m.attach(w, worker.Disk{File: noSerial})
	m.make(full, "mkfs.xfs -q")
	if err := w.Install(ctx(t), deb(t)); err != nil {
		t.Fatal(err)
	}
	m.mounted(full)
	m.waitForLog("/dev/" + held + " .*hold: .*attached before hotmount was installed: .*hotmount accept " + held)
	later, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "NEW"})
	m.mounted(later)

	// The hold persists across restarts of the daemon and of the machine. A disk without a serial also stays held, even
	// if its size changes while the machine is off.
	slot := m.run("udevadm info -q property --property ID_PATH --value /dev/" + bare)
	m.run("systemctl restart hotmount")
	m.wait("the holds of the new daemon", "systemctl show -P StatusText hotmount | grep -q '^2 mounted, 2 held, '")
	m.checkUntouched(held)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(noSerial, 400<<20); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the daemon", "systemctl is-active hotmount")
	bare = m.run("readlink -f /dev/disk/by-path/" + slot + " | xargs basename")
	m.waitForLog("/dev/" + bare + " .*400 MiB.*hold: .*attached before hotmount was installed")
	m.checkUntouched(bare)
	held = m.run("lsblk -dno NAME,SERIAL | awk '$2 == \"OLD1\" {print $1}'")
	m.waitForLog("/dev/" + held + " .*hold: .*attached before hotmount was installed")
	if got := m.run("awk '{print $5+$12}' /sys/block/" + held + "/stat"); got != "0" {
		t.Errorf("%s write requests reached the disk that is held", got)
	}
	if plan := m.run("hotmount plan"); !regexpLine(plan, `^`+held+` .*hold `) {
		t.Errorf("the plan does not hold %s:\n%s", held, plan)
	}
	if out, err := m.Run(ctx(t), "su nobody -s /bin/sh -c 'hotmount accept "+held+"'"); err == nil {
		t.Errorf("nobody may accept: %s", out)
	}
	m.run("hotmount accept /dev/" + held)
	m.mounted(held)
}

// TestBrake checks format_limit, the number of disks that hotmount may format within one format_period. After the limit
// is reached, hotmount holds each further blank disk until an accept. After a restart, the daemon still holds the blank
// disks. If two disks are proven blank at the same time and the limit allows one format, only one disk is formatted.
func TestBrake(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("printf 'format_limit: 1\\nformat_period: 24h\\n' >/etc/hotmount/config.yaml; systemctl stop hotmount")
	for range 3 {
		m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	}
	// After its start, the daemon finds all three disks at once. The formatting units read at most two disks at a time,
	// so the proof of the third disk comes later.
	m.run("systemctl start hotmount")
	both := "systemctl show -p StatusText --value hotmount | grep -q '^1 mounted, 2 held, 0 refused, 0 failing'"
	m.wait("a mount and two holds", both)
	m.waitForLog("hold: the limit of formats .format_limit. was already reached when hotmount found the disk: at most 1 formats within 24h0m0s.*hotmount accept")
	held := strings.Fields(m.run("hotmount plan | awk '/ hold / {print $1}'"))
	if len(held) != 2 {
		t.Fatalf("the plan holds %q", held)
	}
	m.run("echo 'format_limit: 64' >/etc/hotmount/config.yaml; systemctl restart hotmount")
	m.wait("the holds to last", both)
	for _, name := range held {
		m.checkUntouched(name)
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
	if n := len(m.history()); n != 3 {
		t.Errorf("the history has %d records, want 3", n)
	}
	t.Log(m.run("journalctl -b -o cat --no-pager -u 'hotmount-format@*' | grep 'too many' || true"))
}

// TestStateDirectoryThatCannotBeWritten checks that no disk is formatted while the state directory is full, read-only
// or empty. Formatting begins again after `hotmount state init`. Disks with a filesystem are still mounted.
func TestStateDirectoryThatCannotBeWritten(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("systemctl stop hotmount; mkdir /root/state; cp -a /var/lib/hotmount/. /root/state; rm -r /root/state/reserve; mount -t tmpfs -o size=256k,mode=0700 tmpfs /var/lib/hotmount; cp -a /root/state/. /var/lib/hotmount")
	for _, tt := range []struct{ what, break_, mend, says string }{
		{"full", "dd if=/dev/zero of=/var/lib/hotmount/fill bs=4k 2>/dev/null || true", "rm /var/lib/hotmount/fill", "no space left"},
		{"read-only", "mount -o remount,ro /var/lib/hotmount", "mount -o remount,rw /var/lib/hotmount", "read-only file system"},
	} {
		m.run("systemctl stop hotmount; " + tt.break_ + "; systemctl start hotmount")
		full := blank(t, 320<<20)
		whole, id := m.attach(w, worker.Disk{File: full})
		m.run("systemctl stop hotmount; mkfs.xfs -q -f /dev/" + whole)
		m.detach(w, id)
		m.run("systemctl start hotmount")
		whole, _ = m.attach(w, worker.Disk{File: full})
		m.mounted(whole)
		name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: the state directory could not be written at .*" + tt.says + ".*; make sure that the state directory can be written, then: hotmount state init")
		m.checkUntouched(name)
		if out, err := m.Run(ctx(t), "hotmount state init"); err == nil {
			t.Errorf("%s: state init succeeds: %s", tt.what, out)
		}
		m.run(tt.mend + "; systemctl restart hotmount; sleep 3")
		m.wait("the hold to last", "systemctl show -p StatusText --value hotmount | grep -q ' 1 held'")
		m.checkUntouched(name)
		m.run("hotmount state init")
		m.mounted(name)
	}

	m.run("systemctl stop hotmount; umount /var/lib/hotmount; rm -rf /var/lib/hotmount/*; systemctl start hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: the state directory is not initialised; hotmount state init")
	m.checkUntouched(name)
	m.run("hotmount state init")
	m.waitForLog("/dev/" + name + " .*hold: .*attached before hotmount was installed: .*hotmount accept " + name)
	m.run("hotmount accept " + name)
	m.mounted(name)
}

// TestRemediesOfTheRecords checks that hotmount formats no disk if a file of records cannot be read or has an unknown
// version. The printed command lists the versions of hotmount that were installed, or moves the unreadable file away.
func TestRemediesOfTheRecords(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const file = "/var/lib/hotmount/filesystems.json"
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.wait("the record", "grep -q "+uuid+" "+file)
	held := func(why string) (name, remedy string) {
		t.Helper()
		name, _ = m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		m.waitForLog("^/dev/" + name + " .*hold: hotmount formats no disk: " + why + "; ")
		m.checkUntouched(name)
		return name, m.run("journalctl -b -o cat --no-pager | grep '^/dev/" + name + " .*hold: hotmount formats no disk' | grep -oE '(zgrep|mv) .*$' | sed 's/;.*//'")
	}
	m.run("sed -i 's/\"version\": 1,/\"version\": 9,/' /var/lib/hotmount/state.json; hotmount rescan")
	name, remedy := held("cannot use /var/lib/hotmount/state.json: the file has version 9, but this hotmount knows version 1; install the version that wrote the file")
	if here, was := m.run("dpkg-query -W -f '${Version}' hotmount"), m.run(remedy); !strings.Contains(was, here) {
		t.Errorf("%s prints %q, without %s", remedy, was, here)
	}
	m.run("sed -i 's/\"version\": 9,/\"version\": 1,/' /var/lib/hotmount/state.json; hotmount rescan")
	m.mounted(name)

	for _, broken := range []struct{ file, after string }{
		{file, "hotmount rescan"},
		{"/var/lib/hotmount/state.json", "hotmount state init"},
	} {
		m.run("echo '{' >" + broken.file + "; hotmount rescan")
		name, remedy = held("cannot read " + broken.file + ": .*")
		if want := "mv " + broken.file + " " + broken.file + ".bad && " + broken.after; remedy != want {
			t.Errorf("printed is %q", remedy)
		}
		m.run(remedy)
		if broken.file == file {
			m.mounted(name)
		}
	}
	m.waitForLog("^/dev/" + name + " .*hold: .*attached before hotmount was installed: .*hotmount accept " + name)
	m.run("hotmount accept " + name)
	m.mounted(name)
}

// TestSwitchesStopFormatting checks that the configuration, the hold file and the kernel command line can each stop all
// formatting.
func TestSwitchesStopFormatting(t *testing.T) {
	m, w := start(t, worker.Options{})
	for _, tt := range []struct{ on, off, says string }{
		{"echo 'format: false' >/etc/hotmount/config.yaml; systemctl reload hotmount", "rm /etc/hotmount/config.yaml", "format: false in the configuration"},
		{"touch /etc/hotmount/hold", "rm /etc/hotmount/hold", "/etc/hotmount/hold exists"},
	} {
		// The test forbids formatting while hotmount reads the disk. Before hotmount runs mkfs, it checks a second time
		// whether a switch stops formatting.
		name, id := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		throttle(t, w, id+"/virtio-backend", 20<<20, 0)
		m.wait("the proof", "systemctl is-active hotmount-format@$(cat /sys/block/"+name+"/diskseq) | grep activating")
		m.run(tt.on)
		throttle(t, w, id+"/virtio-backend", 0, 0)
		m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: " + tt.says)
		if out, err := m.Run(ctx(t), "hotmount accept "+name); err == nil {
			t.Errorf("accept succeeds despite the switch: %s", out)
		}
		m.checkUntouched(name)
		m.run(tt.off + "; systemctl reload hotmount")
		m.mounted(name)
	}
	// A process holds a lock on the disk, as udev does, until hotmount has proven the disk blank. After the process
	// unlocks the disk, hotmount checks a second time whether a switch stops formatting.
	for _, tt := range []struct{ on, off, says string }{
		{"touch /etc/hotmount/hold", "rm /etc/hotmount/hold", "/etc/hotmount/hold exists"},
		{"echo 'format: false' >/etc/hotmount/config.yaml; systemctl reload hotmount", "rm /etc/hotmount/config.yaml", "format: false in the configuration"},
	} {
		late, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
		m.run("systemd-run -q --unit=lock flock -s /dev/" + late + " sleep infinity")
		m.wait("the end of the proof", "journalctl -b -o cat -u hotmount-format@$(cat /sys/block/"+late+"/diskseq) | grep -q ' is blank$'")
		m.run(tt.on + "; systemctl stop lock")
		m.waitForLog("/dev/" + late + " .*hotmount formats no disk: " + tt.says)
		m.checkUntouched(late)
		m.run(tt.off + "; systemctl reload hotmount")
		m.mounted(late)
	}

	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.SetKernelArgs("hotmount.format=no")
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("four mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 4 ]")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20), Serial: "K"})
	m.waitForLog("/dev/" + name + " .*hold: hotmount formats no disk: hotmount.format=no is on the kernel command line")
	m.checkUntouched(name)
	if err := w.Shutdown(ctx(t)); err != nil {
		t.Fatal(err)
	}
	w.SetKernelArgs()
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("five mounts", "[ $(findmnt -rno TARGET | grep -c ^/mnt/disks/) = 5 ]")
}

// TestSeen checks what users see: the journal and its catalog, the metrics, the shell completion, `hotmount status` and
// `hotmount events` (issue 6).
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
	// The disk GOOD is in the default class, so its volume is below /mnt/disks.
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

	// The disk contains bytes that no tool recognises. The status file must not show the bytes, because every user can
	// read the status file.
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

	// A refusal is logged once, even if the daemon looks at the disk several times or is restarted.
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

	// The closure returns bash's completions of the line.
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
		"/dev/vdb (serial GOOD, 1 GiB): found; hotmount reads the disk", "is blank", "meta-data=", "formatted: xfs " + uuid, "mounted xfs " + uuid + " at /mnt/disks/" + uuid, ": gone; the disk was mounted at",
	} {
		i := strings.Index(story[at:], want)
		if i < 0 {
			t.Errorf("the unit's journal lacks %q, or has it out of order", want)
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

	m.wait("the metrics without the detached disk", "grep '^hotmount_disks.*state=\"refused\"} 1$' "+metrics+" && ! grep "+uuid+" "+metrics)
	out := m.run("stat -c %a " + metrics + "; cat " + metrics + "; ls -A /var/lib/prometheus/node-exporter")
	for _, want := range []string{"644\n", `hotmount_disks{class="default",reason="unknown-content",state="refused"} 1`, "hotmount_last_rescan_timestamp_seconds 1", "hotmount_watchdog_timestamp_seconds", "\nhotmount.prom"} {
		if !strings.Contains(out, want) {
			t.Errorf("the metrics do not say %s:\n%s", want, out)
		}
	}
	// The test takes the installed manual pages, and formats them with the man-db of the test machine.
	pages, err := filepath.Glob("../../packaging/man/*")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		name := filepath.Base(page) + ".gz"
		local := filepath.Join(t.TempDir(), name)
		if err := w.Get(ctx(t), "/usr/share/man/man"+strings.TrimPrefix(filepath.Ext(page), ".")+"/"+name, local); err != nil {
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

// TestNextInASlot cuts the power while a disk without a serial is formatted, and then attaches other disks to the
// disk's slot. A volume that hotmount has recorded is mounted as before. A blank disk gets a UUID of its own. The disk
// of the unfinished format is attached to another slot. hotmount finishes this format with the UUID that it recorded
// before the power cut.
func TestNextInASlot(t *testing.T) {
	m, w := obedientWorker(t)
	slot := func(name string) string { return m.run("readlink -f /sys/block/" + name + " | cut -d/ -f5") }
	leave := func(name, id string) {
		t.Helper()
		m.run("udevadm settle")
		m.detach(w, id)
		m.wait(name+" to go", "[ ! -e /sys/block/"+name+" ] && ! findmnt -n /dev/"+name)
	}
	volume, half := blank(t, crashSize), blank(t, crashSize)
	name, id := m.attach(w, worker.Disk{File: volume})
	known, here := m.mounted(name), slot(name)
	m.run("echo data >/mnt/disks/" + known + "/f")
	leave(name, id)
	v := victim{order: "sp30", serial: "0:sp30"}
	m.run("echo " + v.serial + " >/var/lib/orders/serial")
	v.name, v.id = m.attach(w, worker.Disk{File: half})
	m.stopped(v)
	intended := strings.TrimSuffix(m.run("rm /var/lib/orders/serial; sync /var/lib/orders; ls /var/lib/hotmount/intents"), ".json")
	if got := slot(v.name); got != here || !uuidPattern.MatchString(intended) {
		t.Fatalf("the disk for %q is in slot %s, not %s", intended, got, here)
	}
	if err := w.PowerCut(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.Detach(ctx(t), v.id); err != nil {
		t.Fatal(err)
	}
	if err := w.PowerOn(ctx(t)); err != nil {
		t.Fatal(err)
	}
	name, id = m.attach(w, worker.Disk{File: volume})
	if uuid, at := m.mounted(name), slot(name); uuid != known || at != here {
		t.Errorf("the volume in slot %s, want %s, is mounted as %s, not %s", at, here, uuid, known)
	}
	if got := m.run("cat /mnt/disks/" + known + "/f"); got != "data" {
		t.Errorf("it holds %q", got)
	}
	leave(name, id)
	name, _ = m.attach(w, worker.Disk{File: blank(t, crashSize)})
	if uuid, at := m.mounted(name), slot(name); uuid == intended || at != here {
		t.Errorf("the blank disk in slot %s, want %s, is mounted as %s", at, here, uuid)
	}
	name, _ = m.attach(w, worker.Disk{File: half})
	if uuid, at := m.mounted(name), slot(name); uuid != intended || at == here {
		t.Errorf("the half made disk in slot %s is mounted as %s, not %s", at, uuid, intended)
	}
	if got := m.run("ls /var/lib/hotmount/intents; journalctl -b --no-pager -o cat >/run/said; grep -E '(refuse|hold): ' /run/said || true"); got != "" {
		t.Errorf("at the end: %s", got)
	}
}

// TestBackAtOnceInAnotherSlot detaches a disk and attaches it to another slot before the daemon sees either event. The
// kernel's sequence numbers show that the disk was detached before it was attached to the other slot. hotmount
// therefore mounts the disk again. If a copy with the same serial is attached before the first disk is detached,
// hotmount treats the copy as another disk.
func TestBackAtOnceInAnotherSlot(t *testing.T) {
	m, w := start(t, worker.Options{})
	image := blank(t, 320<<20)
	if out, err := exec.CommandContext(ctx(t), "mkfs.xfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	slot := func(name string) string { return m.run("readlink -f /sys/block/" + name + " | cut -d/ -f5") }
	_, first := m.attach(w, worker.Disk{File: blank(t, 300<<20), Serial: "FIRST"})
	name, id := m.attach(w, worker.Disk{File: image, Serial: "MOVED"})
	uuid, was := m.mounted(name), slot(name)
	where := "/mnt/disks/" + uuid
	m.run("echo kept >" + where + "/f; sync " + where + "/f")
	m.detach(w, first)

	m.run("udevadm settle; systemctl kill -s STOP hotmount")
	m.detach(w, id)
	back, id := m.attach(w, worker.Disk{File: image, Serial: "MOVED"})
	if at := slot(back); at == was {
		t.Fatalf("it is in slot %s again", at)
	}
	m.run("udevadm settle; systemctl kill -s CONT hotmount")
	if got := m.mounted(back); got != uuid {
		t.Errorf("it came back as %s, it was %s", got, uuid)
	}
	if got := m.run("cat " + where + "/f"); got != "kept" {
		t.Errorf("it holds %q", got)
	}

	// The test attaches a copy with the same serial, and then detaches the disk. The daemon is stopped at this time, so
	// it never sees the disk and the copy attached together.
	snapshot := filepath.Join(t.TempDir(), "copy.raw")
	m.run("sync")
	if out, err := exec.CommandContext(ctx(t), "cp", "--sparse=always", image, snapshot).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	m.run("systemctl kill -s STOP hotmount")
	twin, _ := m.attach(w, worker.Disk{File: snapshot, Serial: "MOVED"})
	m.detach(w, id)
	m.run("udevadm settle; systemctl kill -s CONT hotmount")
	m.waitForLog("/dev/" + twin + " .*refuse: the filesystem " + uuid + " was last mounted from another disk, which was detached while this one was attached")
	m.wait("mount and directory to go", "[ ! -e "+where+" ]")
}

// TestUnmountedByHand checks that a volume stays unmounted after an unmount by hand, until an accept or a reboot. If a
// device unit is inactive for a moment, systemd unmounts the disk. hotmount must not mistake systemd's unmount for an
// unmount by hand.
func TestUnmountedByHand(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	where := "/mnt/disks/" + uuid
	for _, hand := range []string{"umount " + where, "systemctl stop " + quote(unitOf(uuid))} {
		m.run(hand)
		m.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted the disk by hand'")
		m.run(trigger + "; systemctl restart hotmount")
		m.wait("the directory to go", "[ ! -e "+where+" ]")
		if got := m.run("findmnt -n /dev/" + name + " || true"); got != "" {
			t.Errorf("after %s it was mounted again: %s", hand, got)
		}
		m.run("hotmount accept " + name)
		m.mounted(name)
	}
	// hotmount notices the unmount even if the clock is set at the same time. A container uses the host's clock, so the
	// test sets the clock only in a virtual machine.
	clock := ""
	if _, is := w.(*worker.Worker); is {
		clock = "date -s '+1 hour' >/dev/null; "
	}
	m.run("systemctl stop hotmount; umount " + where + "; " + clock + "systemctl start hotmount")
	m.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted the disk by hand'")

	m.run("hotmount accept " + name)
	m.mounted(name)
	// An interrupted `hotmount release` can leave a file in /run/hotmount/unmounted although the volume is still
	// mounted. The test makes this file.
	left := "/run/hotmount/unmounted/" + m.run("cat /sys/block/"+name+"/diskseq")
	m.run("printf released >" + left + "; systemctl restart hotmount")
	m.wait("the release to be forgotten", "[ ! -e "+left+" ]")
	// The volume is held, although a pod's mount of the volume remains.
	const pod = "/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/local-pv-1"
	m.run("mkdir -p " + pod + "; mount --bind " + where + " " + pod + "; umount " + where)
	m.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted the disk by hand'")
	m.run("systemctl restart hotmount; " + trigger)
	if got := m.run("findmnt -rno TARGET /dev/" + name); got != pod {
		t.Errorf("beneath a pod it is mounted at %s", got)
	}
	m.run("hotmount accept " + name)
	m.wait("the mount", "findmnt "+where)
	rule := "/run/udev/rules.d/99-away.rules"
	for i, down := range []bool{false, true} {
		if down {
			m.run("systemctl stop hotmount")
		}
		m.run(`mkdir -p /run/udev/rules.d; echo 'KERNEL=="` + name + `", ENV{SYSTEMD_READY}="0"' >` + rule + `; udevadm control --reload; udevadm trigger --settle /dev/` + name)
		m.wait("systemd to unmount it", "! findmnt "+where)
		m.run("rm " + rule + "; udevadm control --reload; udevadm trigger --settle /dev/" + name + "; systemctl start hotmount")
		m.wait("the mount", "findmnt "+where)
		m.wait("the journal to explain it", fmt.Sprintf("[ $(journalctl -b -o cat --no-pager -u hotmount | grep -c '/dev/%s .*systemd unmounted the disk for a soft reboot, or because systemd considered the disk unplugged') = %d ]", name, i+1))
	}

	m.run("umount " + where + " " + pod)
	m.wait("the unmount by hand to be noticed", "hotmount plan | grep -q '^"+name+" .*hold .*somebody unmounted the disk by hand'")
	stopped, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	third := m.mounted(stopped)
	m.run("systemctl stop " + quote(unitOf(third)))
	m.wait("the stop by hand to be noticed", "hotmount plan | grep -q '^"+stopped+" .*hold .*somebody unmounted the disk by hand'")
	// A released disk is also mounted again after the reboot.
	released, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	second := "/mnt/disks/" + m.mounted(released)
	m.run("hotmount release " + released)
	if err := w.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	m.wait("the mounts after a reboot", "findmnt "+where+" && findmnt "+second+" && findmnt /mnt/disks/"+third)
}

// putBytes writes bytes into a disk's file at the given offset in bytes.
func putBytes(t *testing.T, image string, at int64, b string) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(b), at); err != nil {
		t.Fatal(err)
	}
}

// madeExt4 makes a disk file with an empty ext4 filesystem without checksums.
func madeExt4(t *testing.T, size int64) string {
	t.Helper()
	path := blank(t, size)
	if out, err := exec.CommandContext(ctx(t), "mkfs.ext4", "-q", "-F", "-O", "^metadata_csum", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	return path
}

// TestFileAsADisk checks a file, such as an image, that was attached as a raw disk. The refusal names the file's format
// rather than the disk's small size or old data. A printed command can destroy the file only with a valid token.
func TestFileAsADisk(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const convert = "detach the disk, convert the image on the host: qemu-img convert -f %s -O raw FILE NEWFILE; then attach NEWFILE"
	for _, f := range []struct {
		bytes       string
		at, size    int64
		holds, next string
	}{
		{"QFI\xfb\x00\x00\x00\x03", 0, 192 << 10, "a disk image of the format qcow2", "detach the disk, and on the host attach the image with its format: virsh attach-disk DOMAIN FILE TARGET --subdriver qcow2"},
		{"QFI\xfb\x00\x00\x00\x03", 0, 320 << 20, "a disk image of the format qcow2", "detach the disk, and on the host attach the image with its format: virsh attach-disk DOMAIN FILE TARGET --subdriver qcow2"},
		{"KDMV\x01\x00\x00\x00", 0, 64 << 10, "a disk image of the format vmdk", fmt.Sprintf(convert, "vmdk")},
		{"conectix\x00\x00\x00\x02", 320 << 20, 320<<20 + 512, "a disk image of the format vhd", fmt.Sprintf(convert, "vpc")},
		{"\x1f\x8b\x08\x00\x00\x00\x00\x00", 0, 1 << 20, "a file of the format gzip", "detach the disk, unpack the file on the host: gzip -dc <FILE >NEWFILE; then attach NEWFILE"},
		{"age-encryption.org/v1\n", 0, 320 << 20, "a file encrypted with age", "detach the disk, decrypt the file on the host, and attach the decrypted content"},
	} {
		image := blank(t, f.size)
		putBytes(t, image, f.at, f.bytes)
		before := digest(t, image)
		name, id := m.attach(w, worker.Disk{File: image})
		next := f.next + "$"
		if f.size >= 300<<20 {
			next = f.next + "; if nothing on the disk is needed: hotmount format " + name + "$"
		}
		m.waitForLog("^/dev/" + name + " .*refuse: the disk holds what looks like " + f.holds + " .*not blank: looks like a file of the format .*; " + next)
		m.checkStatus(name + " is refused: the disk holds what looks like " + f.holds + ".* what helps: " + f.next)
		if got := m.run("hotmount plan | grep '^" + name + " '"); !strings.Contains(got, f.holds) || !strings.Contains(got, f.next) {
			t.Errorf("the plan: %s", got)
		}
		if digest(t, image) != before {
			t.Errorf("%s: it was written to", f.holds)
		}
		m.detach(w, id)
	}
	// An empty disk that is too small is still refused for its size. Before the refusal, the journal does not announce
	// a format of the disk.
	name, _ := m.attach(w, worker.Disk{File: blank(t, 1<<20)})
	m.waitForLog("^/dev/" + name + " .*: found; hotmount reads the disk$")
	m.waitForLog("^/dev/" + name + " .*refuse: the disk is too small for its class: 1 MiB, minimum_size: 300 MiB; .*attach a larger disk")
}

// TestRemediesForFiles runs the commands that hotmount prints for images and compressed files. The test uses real
// files. Each printed command converts or unpacks a file, and hotmount mounts a disk that is made from the result.
func TestRemediesForFiles(t *testing.T) {
	if err := worker.Need(ctx(t), os.Stderr, []string{"qemu-utils", "gzip", "xz-utils", "zstd", "bzip2", "lz4"}); err != nil {
		t.Fatal(err)
	}
	m, w := startNode(t, worker.Options{})
	onHost := func(command, from, to string) {
		t.Helper()
		command = strings.NewReplacer("NEWFILE", to, "FILE", from).Replace(command)
		if out, err := exec.CommandContext(ctx(t), "bash", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	files := []struct{ format, pack, image, file, before, name, id string }{
		{format: "vmdk", pack: "qemu-img convert -f raw -O vmdk FILE NEWFILE"},
		{format: "vdi", pack: "qemu-img convert -f raw -O vdi FILE NEWFILE"},
		{format: "vhd", pack: "qemu-img convert -f raw -O vpc FILE NEWFILE"},
		{format: "vhdx", pack: "qemu-img convert -f raw -O vhdx FILE NEWFILE"},
		{format: "gzip", pack: "gzip -c <FILE >NEWFILE"},
		{format: "xz", pack: "xz -0 -c <FILE >NEWFILE"},
		{format: "zstd", pack: "zstd -q -c <FILE >NEWFILE"},
		{format: "bzip2", pack: "bzip2 -c <FILE >NEWFILE"},
		{format: "lz4", pack: "lz4 -q -c <FILE >NEWFILE"},
	}
	for i := range files {
		f := &files[i]
		f.image, f.file = made(t, 320<<20), blank(t, 0)
		// The bzip2 file of an empty filesystem is smaller than 4 KiB, and too small for a disk.
		onHost("head -c 64K /dev/urandom | dd of=FILE bs=64K seek=3200 iflag=fullblock conv=notrunc status=none", f.image, "")
		onHost(f.pack, f.image, f.file)
		f.before = digest(t, f.file)
		f.name, f.id = m.attach(w, worker.Disk{File: f.file})
	}
	for i := range files {
		f := &files[i]
		m.waitForLog("^/dev/" + f.name + " .*refuse: the disk holds what looks like a .*of the format " + f.format + " ")
		remedy := m.run("journalctl -b -o cat --no-pager | grep '^/dev/" + f.name + " .*refuse: the disk holds' | grep -oE '(qemu-img convert|" + f.format + " -dc) [^;]*NEWFILE'")
		m.detach(w, f.id)
		if digest(t, f.file) != f.before {
			t.Errorf("%s: it was written to", f.format)
		}
		unpacked := blank(t, 0)
		onHost(remedy, f.file, unpacked)
		onHost("cmp -n $(stat -c %s FILE) FILE NEWFILE", f.image, unpacked) // the size of a VHD is rounded up
		f.name, f.id = m.attach(w, worker.Disk{File: unpacked})
		onHost("rm FILE NEWFILE", f.file, f.image)
	}
	for _, f := range files {
		m.mounted(f.name)
	}
}

// TestOneWishOneCommand checks a disk that was unmounted by hand and wiped. One token is enough to format the disk. The
// output of `hotmount format` lists the holds that the token overrides. If a new hold appears after the token was
// printed, the token is invalid. A hold that protects another owner's data needs a separate accept. An accept with the
// reason of another hold lifts nothing.
func TestOneWishOneCommand(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: madeExt4(t, 320<<20)})
	uuid := m.mounted(name)
	m.wait("the filesystem to be remembered", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("umount /mnt/disks/" + uuid)
	m.waitForLog("/dev/" + name + " .*hold: somebody unmounted the disk by hand; .*hotmount accept " + name + " unmounted-by-hand")
	m.run("wipefs -qa /dev/" + name + "; udevadm settle")
	if out := m.fails("hotmount accept " + name + " released"); !strings.Contains(out, "the reason is no longer released, but unmounted-by-hand") {
		t.Error(out)
	}
	m.run("touch /run/volume; mount --bind /dev/" + name + " /run/volume")
	m.checkStatus(name + " is ignored: the disk's device file is bind-mounted, as kubelet does for a pod or a virtual machine: /run/volume")
	m.run("umount /run/volume")
	text, token := m.offer(name)
	t.Log(text)
	const vanished = "no filesystem was seen on the disk since it was attached, or the disk was accepted: ext4 "
	if !strings.Contains(text, "the token overrides them:\n") || !strings.Contains(text, "  nobody has unmounted the disk by hand\n") || !strings.Contains(text, vanished+uuid) {
		t.Errorf("the offer:\n%s", text)
	}
	// After hotmount has printed the token, the test adds a mount unit that hotmount cannot read. The mount unit may
	// name the disk, so hotmount holds the disk.
	m.run("ln -s /root/srv.mount /etc/systemd/system/srv.mount; hotmount rescan")
	// The token does not lift a hold that protects another owner's data. Such a hold needs a separate accept.
	for _, command := range []string{"hotmount format " + name + " --confirm " + token, "hotmount format " + name} {
		if out := m.fails(command); !strings.Contains(out, "if nothing in /etc/systemd/system/srv.mount names this disk: hotmount accept "+name+" claims-unseen") {
			t.Error(out)
		}
	}
	m.run("hotmount accept " + name + " claims-unseen")
	_, token = m.offer(name)
	t.Log(m.run("hotmount format " + name + " --confirm " + token))
	if now := m.mounted(name); now == uuid {
		t.Error("the new filesystem has the old UUID")
	}
}

// TestUnmountable checks a disk whose filesystem can never be mounted. As long as the mount fails, no message may
// announce a format of the disk. The output of `hotmount format` names the data that will be lost. `hotmount format`
// with the token from this output formats the disk.
func TestUnmountable(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	image := madeExt4(t, 320<<20)
	putBytes(t, image, 1024+0x60+2, "\x08") // sets a bit of s_feature_incompat that no kernel knows
	before := digest(t, image)
	name, _ := m.attach(w, worker.Disk{File: image})
	m.waitForLog("/dev/" + name + " .*next try in")
	m.wait("a second try", "hotmount status -o json | grep '\"tries\": [2-9]'")
	if out := m.run("journalctl -b --no-pager -o cat | grep -E 'hotmount makes|proven blank' || [ $? = 1 ]"); out != "" {
		t.Errorf("a format is promised:\n%s", out)
	}
	m.checkNoRepair(name)
	text, token := m.offer(name)
	t.Log(text)
	if !strings.Contains(text, " holds a filesystem (ext4)") || !strings.Contains(text, "\nThe disk could not be mounted: ") || digest(t, image) != before {
		t.Errorf("the offer:\n%s", text)
	}
	t.Log(m.run("hotmount format " + name + " --confirm " + token))
	m.mounted(name)
	if out := m.fails("hotmount format " + name); !strings.Contains(out, "mounted") {
		t.Error(out)
	}
}
