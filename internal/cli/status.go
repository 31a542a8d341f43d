package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/unit"

	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/usage"
)

// Status is the content of the output of hotmount status.
type Status struct {
	// Daemon is "running" or "down".
	Daemon string `json:"daemon"`
	// Fault is the value of disk.Settings.Fault.
	Fault string       `json:"configuration_fault,omitempty"`
	Disks []DiskStatus `json:"disks"`
	// Missing lists the filesystems that were mounted in an earlier boot, and that are on none of the attached disks.
	// Missing does not include a filesystem if hotmount noticed the removal of its disk. For users other than root, the
	// list is empty.
	Missing []MissingStatus `json:"missing,omitempty"`
	// MissingUnknown is the reason why the missing filesystems are unknown, or empty if they are known.
	MissingUnknown string `json:"missing_unknown,omitempty"`
	// Elsewhere is a message with a remedy if the records belong to a worker with another machine-id. Elsewhere is
	// empty if the records belong to this worker. For users other than root, Elsewhere is always empty.
	Elsewhere string `json:"elsewhere,omitempty"`
}

// MissingStatus is one missing filesystem.
type MissingStatus struct {
	UUID  string `json:"uuid"`
	Type  string `json:"type"`
	Class string `json:"class,omitempty"`
	// Size, Serial and Slot describe the disk that the filesystem was on. Since is when the filesystem was last
	// mounted.
	Size   uint64    `json:"size"`
	Serial string    `json:"serial,omitempty"`
	Slot   string    `json:"slot,omitempty"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why"`
	Next   string    `json:"next"`
}

// DiskStatus is the status of one disk.
type DiskStatus struct {
	Disk string `json:"disk"`
	// Name is the name of a device-mapper device, such as vg0-disk1 for a logical volume, or empty for other disks.
	Name string `json:"name,omitempty"`
	// Size is the size of the disk in bytes.
	Size    uint64    `json:"size"`
	Serial  string    `json:"serial,omitempty"`
	Content disk.Kind `json:"content"`
	Type    string    `json:"type,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Class   string    `json:"class,omitempty"`
	// State is one word for the decision and its reason.
	State    string        `json:"state"`
	Decision disk.Decision `json:"decision"`
	// Hold is the kind of hold, or empty for a disk that is not held.
	Hold policy.Hold `json:"hold,omitempty"`
	// Since is the time of the mount or of the daemon's decision. If neither time is known, Since is the time of the
	// last change that udev saw.
	Since time.Time `json:"since,omitzero"`
	Where string    `json:"where,omitempty"`
	// Used and Capacity are the usage and the size of the mounted filesystem in bytes. Used and Capacity are 0 if no
	// filesystem is mounted or the filesystem does not answer.
	Used     uint64 `json:"used,omitempty"`
	Capacity uint64 `json:"capacity,omitempty"`
	Why      string `json:"why"`
	Next     string `json:"next,omitempty"`
	// Tries is the number of consecutive failures of the action on the disk. Retry is the time when the daemon tries
	// the failed action again.
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
	// Evidence is what udev found on the disk. For root, Evidence also contains what hotmount found when it read the
	// disk. Evidence may quote bytes from the disk.
	Evidence []string `json:"evidence,omitempty"`
}

// Bad returns the number of disks that are refused, that failed, or whose filesystem could not be grown.
func (s *Status) Bad() int {
	bad := 0
	for _, d := range s.Disks {
		if d.State == "refused" || d.State == "failed" || d.Decision.Reason == disk.ReasonNotGrown {
			bad++
		}
	}
	return bad
}

// GetStatus returns the status of the disks. GetStatus makes the same decisions as the daemon, from the same facts. The
// parameter `hung` contains the paths of the dead filesystems (usage.Of).
func GetStatus(ctx context.Context, h inventory.Host, s *disk.Settings, hung usage.Hung) (*Status, error) {
	disks, sizes, err := usage.Scan(ctx, h.For(s), hung)
	if err != nil {
		return nil, err
	}
	st := &Status{Daemon: daemonState(h), Fault: s.Fault, Disks: []DiskStatus{}}
	published, err := h.Store.Published()
	if err != nil {
		return nil, err
	}
	for i := range disks {
		if line := statusOf(&disks[i], s, published, st.Daemon, sizes); line != nil {
			st.Disks = append(st.Disks, *line)
		}
	}
	if os.Geteuid() == 0 {
		missing, err := h.Missing(disks)
		if err != nil {
			st.MissingUnknown = err.Error()
		}
		if what, next := h.Elsewhere(); what != "" {
			st.Elsewhere = what + "; " + next
		}
		for _, m := range missing {
			why, next := inventory.Absence(&m)
			st.Missing = append(st.Missing, MissingStatus{UUID: m.UUID, Type: m.Type, Class: m.Class, Size: m.Identity.Size, Serial: m.Identity.Serial, Slot: m.Identity.Slot, Since: m.Mounted, Why: why, Next: next})
		}
	}
	return st, nil
}

// statusOf returns the status of one disk. statusOf returns nil for a disk that hotmount status does not show.
func statusOf(f *disk.Facts, s *disk.Settings, published []disk.Line, daemon string, sizes map[string]usage.Space) *DiskStatus {
	c := f.KnownContent()
	d := policy.Decide(f, &c, s)
	if d.Action == disk.Ignore && (f.Size == 0 || d.Reason == disk.ReasonNoClass) {
		return nil
	}
	line := DiskStatus{Disk: f.Name, Name: f.MapperName, Size: f.Size, Serial: f.Serial, Content: c.Kind, Type: c.Type, UUID: c.UUID, Class: d.Class, State: d.State(), Decision: d}
	if d.GivenOut() {
		line.Where = f.Standing.Link
	}
	seen := "/run/udev/data/b" + f.Dev.String()
	if len(f.Mounts) > 0 {
		line.Where = f.Mounts[0].Path
	}
	if d.Mounted() {
		if class := s.Class(d.Class); class != nil {
			line.Where = class.MountPoint(d.UUID)
		}
		seen = "/run/systemd/transient/" + unit.UnitNamePathEscape(line.Where) + ".mount"
	}
	if info, err := os.Lstat(seen); err == nil {
		line.Since = info.ModTime()
	}
	line.Evidence, c.Evidence = c.Evidence, nil
	line.Why, line.Next = policy.Words(f, &c, s, d)
	if l := lineOf(f, published); l != nil {
		line.addPublished(l, daemon)
	}
	line.Hold = policy.HoldOf(line.Decision)
	if u := sizes[line.Where]; u.Dev == f.Dev {
		// Used and Capacity agree with df(1), and do not count space that is reserved for root.
		line.Used, line.Capacity = u.Size-u.Free, u.Size-u.Free+u.Available
	}
	return &line
}

// daemonState returns "running" if the daemon runs, otherwise "down".
func daemonState(h inventory.Host) string {
	if DaemonRuns(h.Root) {
		return "running"
	}
	return "down"
}

// DaemonRuns reports whether the main process of the daemon exists. The parameter `root` is the directory that contains
// proc and sys, or empty for the live system. Every user can see the daemon's process (cgroups(7)), but only root can use the control socket. A child
// that hangs on a dead filesystem outlives the daemon and does not count as the daemon.
func DaemonRuns(root string) bool {
	for _, hierarchy := range []string{"", "systemd", "unified"} {
		b, err := os.ReadFile(filepath.Join("/", root, "sys/fs/cgroup", hierarchy, "system.slice/hotmount.service/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(b)) {
			line, err := os.ReadFile(filepath.Join("/", root, "proc", pid, "cmdline"))
			// If /proc is mounted with hidepid= (proc(5)), users other than root cannot read the daemon's command line.
			// DaemonRuns treats a process with an unreadable command line as the daemon.
			if args := strings.Split(string(line), "\x00"); err != nil || len(args) > 1 && args[1] == "run" {
				return true
			}
		}
	}
	return false
}

// addPublished adds the failure that the daemon has published for the disk. For a caller other than root, addPublished
// also adds the daemon's decision and what the daemon has read from the disk.
func (d *DiskStatus) addPublished(l *disk.Line, daemon string) {
	// Users other than root can see whether a disk is mounted, but not the size and the identity of the filesystem.
	// hotmount status shows these users the daemon's decision, if that decision and the command's own decision agree on
	// whether the disk is mounted. hotmount status also shows the daemon's decision if the daemon has found the disk
	// mounted where another filesystem belongs (ReasonMisplaced).
	agrees := d.Decision.Mounted() == l.Decision.Mounted() || d.Decision.Mounted() && l.Decision.Reason == disk.ReasonMisplaced
	if os.Geteuid() != 0 && agrees {
		d.Content, d.Type, d.UUID, d.Class, d.State, d.Decision, d.Why, d.Next = l.Kind, l.Type, l.UUID, l.Decision.Class, l.Decision.State(), l.Decision, l.Why, l.Next
	}
	// Only the daemon knows the serial of a disk that is gone.
	if l.Decision == d.Decision && d.Decision.Reason == disk.ReasonLost {
		d.Why = l.Why
	}
	if l.Decision == d.Decision && !l.Since.IsZero() && (d.State != "mounted" || d.Since.IsZero()) {
		d.Since = l.Since
	}
	if why, next := failing(l, d.Decision, daemon); why != "" {
		d.State, d.Why, d.Next, d.Tries, d.Retry = "failed", why, next, l.Tries, l.Retry
	}
}

// lineOf returns the line that the daemon has published about the disk, or nil if there is no line.
func lineOf(f *disk.Facts, published []disk.Line) *disk.Line {
	if i := slices.IndexFunc(published, func(l disk.Line) bool { return l.Disk == f.Name && l.Seq == f.Seq }); i >= 0 {
		return &published[i]
	}
	return nil
}

// failing returns the reason why the daemon could not carry out the decision, and the remedy. Without a failure, the
// reason and the remedy are empty. The commands status, plan and explain print the reason and the remedy.
func failing(l *disk.Line, d disk.Decision, daemon string) (why, next string) {
	switch {
	case l == nil || l.Failure == "" || l.Decision.Action != d.Action:
		return "", ""
	case daemon == "down":
		return l.Failure, "the daemon tries again when it is started: systemctl start hotmount"
	}
	return l.Failing(), l.Remedy
}
