package main

import (
	"fmt"
	"strings"
)

// The constants are the names of the mount methods.
const (
	hotmount     = "hotmount"
	hotmountBase = "hotmount (base)"
	// The mount method `neighbour` is hotmount on a node with a virtual machine monitor. hotmount has no record of the
	// disk. In this case, hotmount checks which processes have the disk open.
	neighbour    = "hotmount, looking for open files"
	rule         = "rule"
	tuned        = "rule tuned"
	shellLoop    = "shell loop"
	systemdMount = "systemd-mount"
	mountCall    = "mount(2)"
	hotPlug      = "hot-plug only"
	// The constant `parts` is the mount method that runs the steps for a blank disk one after the other.
	parts = "dd, mkfs.xfs -K, systemd-mount"
)

const (
	mountsDir = "/mnt/disks/"
	rules     = "/run/udev/rules.d/99-bench.rules"
	masked    = "/run/udev/rules.d/90-hotmount.rules"
	// The constant `monitor` is a directory whose existence shows hotmount that a virtual machine monitor may have disks
	// open.
	monitor = "/run/libvirt"
)

// setUp returns the script that switches a method on, for disks whose files are in dir. setUp returns "" for a method
// that this program implements.
func setUp(way, dir string) string {
	const tool = "/usr/bin/systemd-mount --no-block --collect "
	match := fmt.Sprintf(`ACTION=="add|change", SUBSYSTEM=="block", ATTR{loop/backing_file}=="%s/*", ENV{ID_FS_TYPE}=="xfs", ENV{ID_FS_UUID_ENC}=="?*", RUN+="%s`, dir, tool)
	const where = `$devnode ` + mountsDir + `$env{ID_FS_UUID_ENC}"`
	switch way {
	case hotmount, hotmountBase:
		return "rm -f " + masked + "; udevadm control --reload; systemctl start hotmount; systemctl thaw hotmount"
	case neighbour:
		return setUp(hotmount, dir) + "; systemctl stop hotmount; rm -f /var/lib/hotmount/filesystems.json; mkdir -p " + monitor + "; systemctl start hotmount"
	case rule:
		return asRule(match + where)
	case tuned:
		return asRule(match + "--fsck=no -t xfs -o noatime " + where)
	case shellLoop:
		// The shell loop is in a file, because systemd would expand variables in a command line.
		return "echo " + quote(strings.ReplaceAll(looping, "DIR", dir)) + " >/run/bench-loop; systemd-run -q --collect --unit=bench-loop bash /run/bench-loop"
	}
	return ""
}

func asRule(text string) string {
	return "echo " + quote(text) + " >" + rules + "; udevadm control --reload"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// The script `looping` waits up to a second before its first pass, because a disk may be attached at any moment between
// two passes.
const looping = `sleep $(printf 0.%03d $((RANDOM % 1000)))
while :; do
	for d in /dev/loop[0-9]*; do
		grep -q "^DIR/" "/sys/block/${d#/dev/}/loop/backing_file" 2>/dev/null || continue
		findmnt -n "$d" >/dev/null && continue
		uuid=$(blkid -o value -s UUID "$d") || { mkfs.xfs -q "$d" && uuid=$(blkid -o value -s UUID "$d"); }
		systemd-mount -q --collect "$d" "` + mountsDir + `$uuid"
	done
	sleep 1
done`

// stopMethods is the script that ends all methods. stopMethods freezes the daemon instead of stopping it, because the
// daemon of a real node has run for a long time. stopMethods also masks hotmount's udev rules, so that they do not act
// during the turns of other methods.
const stopMethods = `! systemctl -q is-active bench-loop || systemctl stop bench-loop
! systemctl -q is-active hotmount || systemctl freeze hotmount
mkdir -p /run/udev/rules.d; rm -rf ` + monitor + `; rm -f ` + rules + `; ln -sf /dev/null ` + masked + `; udevadm control --reload`

// The constant `stopped` is the script that stops the daemon, even if stopMethods has frozen the daemon.
const stopped = "systemctl thaw hotmount 2>/dev/null; systemctl stop hotmount\n"

// idleAgain is the script that waits until udev has no queued events, and PID 1 has no mounts of disks and no jobs.
// After many unmounts, PID 1 can notice the last unmounts late.
const idleAgain = `udevadm settle
busy() { systemctl list-units --no-legend --state=activating,active,deactivating 'mnt-disks-*.mount'; systemctl list-jobs --no-legend; }
for i in $(seq 600); do [ -n "$(busy)" ] || break; sleep 0.1; done
[ -z "$(busy)" ] || { busy >&2; exit 1; }`

// rulesRead is the script that makes udevd read its rules. udevd reads its rules at the first event after a reload
// (event_queue_start in systemd's src/udev/udevd.c).
const rulesRead = "udevadm trigger --action=change --settle /sys/class/mem/null; systemctl reset-failed"
