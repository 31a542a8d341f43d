package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/run"
)

// attempt is what the journal contains about one attempt to mount.
type attempt struct {
	// The field `mount` contains the messages of mount(8), or of a process that could not execute mount(8). The field
	// `mount` also contains the message of PID 1 if PID 1 ended mount(8) after the timeout. The field `kernel` contains
	// the kernel's messages. Both fields are in the order of the journal.
	mount, kernel []string
	// result is the result of the mount unit's job (the field JOB_RESULT, job_emit_done_message in systemd's
	// src/core/job.c), empty if unknown.
	result string
	// unread is the reason why the journal could not be read, or nil.
	unread error
}

// mostLines is the largest number of lines from mount(8) in a message, and also the largest number of lines from the
// kernel. mostEntries is the largest number of journal entries that are read.
const (
	mostLines   = 10
	mostEntries = "500"
)

// readAttempt reads the journal about one attempt to mount. The parameter `since` is the time at which the attempt began,
// by CLOCK_MONOTONIC.
func readAttempt(ctx context.Context, r run.Runner, h inventory.Host, f *disk.Facts, class *disk.Class, mountUnit string, since time.Duration) (a attempt) {
	// On a busy node, journald may not have written the latest entries yet. Without journalctl --sync, the message
	// would lack the cause of the failure at first. The cause would appear later, and the agent would report a new
	// failure. If journalctl --sync fails, the entries that journald has already written are still read.
	_, _ = r.Run(ctx, run.Command{Path: "/usr/bin/journalctl", Timeout: 10 * time.Second, Args: []string{"--sync"}})
	res, err := r.Run(ctx, run.Command{Path: "/usr/bin/journalctl", Timeout: 10 * time.Second, Args: []string{
		// The option --since is not used. With --since, the option -n of Debian 12's journalctl selects the first
		// entries, and not the last entries.
		"-b", "-q", "-o", "json", "--no-pager", "-n", mostEntries,
		"_TRANSPORT=kernel", "+", "_SYSTEMD_UNIT=" + mountUnit, "+", "_PID=1", "UNIT=" + mountUnit, "+",
		// A child of PID 1 that cannot execute mount(8) may end before journald sees to which unit it belongs.
		"_UID=0", "SYSLOG_IDENTIFIER=(mount)", "UNIT=" + mountUnit,
	}})
	if err == nil && res.ExitCode != 0 && len(res.Stderr) > 0 {
		err = fmt.Errorf("journalctl ended with exit code %d: %s", res.ExitCode, disk.Visible(string(res.Stderr)))
	}
	if err != nil {
		a.unread = err
		return a
	}
	// The kernel does not reuse the name of a disk while the disk is attached. After the disk is detached, the lines of
	// the journal may be about another disk with that name.
	if now, err := h.Look(f.Name); err != nil || now.Seq != f.Seq {
		a.unread = cmp.Or(err, disk.ErrGone)
		return a
	}
	for in := json.NewDecoder(bytes.NewReader(res.Stdout)); ; {
		var e report.Entry
		if in.Decode(&e) != nil {
			return a
		}
		// readAttempt uses the timestamp that journald has set. The kernel's own timestamp
		// (_SOURCE_MONOTONIC_TIMESTAMP) comes from another clock: printk(9) uses local_clock().
		micros, err := strconv.ParseInt(e.Text("__MONOTONIC_TIMESTAMP"), 10, 64)
		if err == nil && time.Duration(micros)*time.Microsecond >= since {
			a.add(e, f, class)
		}
	}
}

// add adds an entry of the journal to the attempt, unless the entry is about something else.
func (a *attempt) add(e report.Entry, f *disk.Facts, class *disk.Class) {
	line := disk.Visible(strings.TrimSpace(e.Text("MESSAGE")))
	switch {
	case e.Text("_TRANSPORT") == "kernel":
		if len(a.kernel) < mostLines && (strings.Contains(line, "("+f.Name+"): ") || strings.HasPrefix(line, f.Node()+": ") || aboutOptions(line, class)) {
			a.kernel = append(a.kernel, line)
		}
	case e.Text("_PID") == "1":
		if result := e.Text("JOB_RESULT"); result != "" {
			a.result = result
		}
		if !strings.Contains(line, "timed out") {
			return
		}
		fallthrough
	case !strings.HasPrefix(line, "dmesg(1) may have more information"):
		// A message of mount(8) begins with the mount point. The name of the mount unit in hotmount's message already
		// shows the mount point.
		if _, words, ok := strings.Cut(strings.TrimPrefix(line, "mount: "), ": "); ok && len(a.mount) < mostLines {
			a.mount = append(a.mount, words)
		}
	}
}

// aboutOptions reports whether a line of the kernel that names no disk is about a mount option of the class. A line of
// the filesystem that quotes no word counts as such a line if the class has mount options.
func aboutOptions(line string, class *disk.Class) bool {
	kind, words, ok := strings.Cut(line, ": ")
	if !ok || !strings.EqualFold(kind, disk.XFS) && !strings.EqualFold(strings.TrimSuffix(kind, "-fs"), disk.Ext4) {
		return false
	}
	_, named, quoted := strings.Cut(words, "'")
	named, _, _ = strings.Cut(named, "'")
	for _, option := range class.MountOptions(strings.ToLower(strings.TrimSuffix(kind, "-fs"))) {
		if name, _, _ := strings.Cut(option, "="); !quoted || name == named {
			return true
		}
	}
	return false
}

// causes are the causes of a failed mount. Each cause is recognised by the words of the kernel or of mount(8), and the
// most certain cause comes first. The words of the kernel are those of Linux 5.10 to 6.18.
//
// The text of a cause names the commands to check the filesystem and to format the disk only if the cause shows damage.
// The field ofNode marks a fault of the node or of the configuration. Formatting the disk cannot remove such a fault.
var causes = []struct {
	words, meaning string
	ofNode         bool
}{
	// The kernel prints "Can't open blockdev" in setup_bdev_super, or in older kernels in get_tree_bdev (fs/super.c). A
	// hotmount-format@ unit of an earlier daemon may still have the disk open, for example.
	{`Can't open blockdev`, "the kernel did not read the disk, so this is not a sign of damage; to see which process has the disk open: fuser -v NODE", true},
	{`unknown filesystem type`, "this kernel cannot mount TYPE, because the module is missing or cannot be loaded; the disk is not the cause; to see the cause: modprobe TYPE", true},
	{`Unknown parameter|Bad value for '|Unrecognized mount option|quota feature not enabled|quota support not available|invalid log(bufs|bufsize|iosize)|logbuf size must be`,
		"the disk is not damaged; correct the options of class CLASS; then: hotmount config check && systemctl reload hotmount", true},
	{`unknown (read-only compatible|incompatible)( log)? features|unsupported optional features|not supported by kernel|Only pagesize`,
		"the filesystem is newer than this kernel, and is not damaged; boot a newer kernel, such as the kernel that mounted the filesystem last", false},
	// xfs_readsb (fs/xfs/xfs_mount.c) and ext4_load_super (fs/ext4/super.c) print the messages about sectors and block
	// sizes.
	{`device supports [0-9]+ byte sectors|bad block size`, "the filesystem was made for smaller sectors than this disk has, and is not damaged; attach the disk with sectors of 512 bytes", false},
	{`external log|external journal|journal device`, "the filesystem has its log on another device, and is not damaged; hotmount mounts only a filesystem that is on one disk", false},
	{`[Cc]orrupt|Structure needs cleaning|[Cc]hecksum|CRC error|Bad message|xfs_repair|bad geometry|run e2fsck`, "check the filesystem with: CHECK; or, if its data is not needed: hotmount format NAME", false},
	{`I/O error|Input/output error`, "the disk has read or write errors, and the filesystem may still be good; to see the errors: journalctl -k -b -g NAME", false},
}

// mountError returns an error that contains the messages of the attempt, the meaning of these messages for the disk,
// and a remedy, if any. The error wraps a *disk.NodeError for a fault of the node or of the configuration.
func (a *attempt) mountError(f *disk.Facts, class *disk.Class, fstype string) error {
	kernel, mount := strings.Join(a.kernel, " / "), strings.Join(a.mount, " / ")
	meaning := "nothing reports damage; to check the options of class CLASS: hotmount config check"
	// A job that did not run to its end shows nothing about the filesystem.
	ofNode := a.result != "" && a.result != "failed"
	for _, c := range causes {
		if regexp.MustCompile(c.words).MatchString(mount + "\n" + kernel) {
			meaning, ofNode = c.meaning, c.ofNode
			break
		}
	}
	var messages []string
	// mount(8) has the same text for every EINVAL, so the text is left out if the kernel has given the cause.
	if mount != "" && (kernel == "" || !strings.HasPrefix(mount, "wrong fs type")) {
		messages = append(messages, "mount(8) says: "+strings.TrimSuffix(mount, "."))
	}
	if kernel != "" {
		messages = append(messages, "the kernel says: "+strings.TrimSuffix(kernel, "."))
	}
	if a.result != "" && a.result != "failed" {
		messages = append(messages, fmt.Sprintf("systemd ended the job with %q", a.result))
	}
	in := strings.NewReplacer("CLASS", class.Name, "NODE", f.Node(), "NAME", f.Name, "TYPE", fstype, "CHECK", policy.Check(f, fstype))
	err := errors.New(strings.Join(append(messages, in.Replace(meaning)), "; "))
	if ofNode {
		return disk.OfNode(err)
	}
	return err
}

// The method `failure` returns an error that explains a failed mount. The parameter `holders` names the processes that used
// the filesystem when its disk was last detached.
func (a *attempt) failure(f *disk.Facts, class *disk.Class, fstype, mountUnit, holders string) error {
	// The kernel writes "Filesystem has duplicate UUID %pU - can't mount" (xfs_uuid_mount in fs/xfs/xfs_mount.c). A
	// duplicate UUID is not a sign of a fault of the disk.
	if strings.Contains(strings.Join(a.kernel, "\n"), "duplicate UUID") {
		if holders != "" {
			holders = "; when the disk was detached, the filesystem was used by: " + holders
		}
		return fmt.Errorf("cannot mount %s: %w%s; hotmount mounts the disk when the earlier mount has ended; to see what uses the earlier mount: hotmount doctor", f.ID, disk.ErrHeld, holders)
	}
	if a.unread != nil {
		return fmt.Errorf("cannot mount %s: the job of %s failed, and its messages could not be read: %w; to see why: systemctl status '%[2]s'", f.ID, mountUnit, a.unread)
	}
	if (a.result == "" || a.result == "failed") && len(a.mount)+len(a.kernel) == 0 {
		return fmt.Errorf("cannot mount %s: the job of %s failed, mount(8) printed nothing, and nothing reports damage; to see why: systemctl status '%[2]s'", f.ID, mountUnit)
	}
	return fmt.Errorf("cannot mount %s: %w; for the whole log: journalctl -b -u '%s'", f.ID, a.mountError(f, class, fstype), mountUnit)
}
