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

// Status is the output of hotmount status.
type Status struct {
	// Daemon is "running" or "down".
	Daemon string `json:"daemon"`
	// Fault is disk.Settings.Fault.
	Fault string       `json:"configuration_fault,omitempty"`
	Disks []DiskStatus `json:"disks"`
	// Missing are the filesystems of earlier boots that are on none of the disks, and whose disks were not seen
	// leaving. Only root can read them.
	Missing []MissingStatus `json:"missing,omitempty"`
	// MissingUnknown is the reason why the missing filesystems are unknown, or empty.
	MissingUnknown string `json:"missing_unknown,omitempty"`
	// Elsewhere is that the records belong to a worker with another machine-id, and what ends that. Only root can read it.
	Elsewhere string `json:"elsewhere,omitempty"`
}

// MissingStatus is one missing filesystem.
type MissingStatus struct {
	UUID  string `json:"uuid"`
	Type  string `json:"type"`
	Class string `json:"class,omitempty"`
	// Size, Serial and Slot belong to the disk. Since is when it was last mounted.
	Size   uint64    `json:"size"`
	Serial string    `json:"serial,omitempty"`
	Slot   string    `json:"slot,omitempty"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why"`
	Next   string    `json:"next"`
}

// DiskStatus is one disk.
type DiskStatus struct {
	Disk string `json:"disk"`
	// Name is that of a device-mapper device, such as vg0-disk1 for a logical volume.
	Name string `json:"name,omitempty"`
	// Size is in bytes.
	Size    uint64    `json:"size"`
	Serial  string    `json:"serial,omitempty"`
	Content disk.Kind `json:"content"`
	Type    string    `json:"type,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Class   string    `json:"class,omitempty"`
	// State is a word for the decision and its reason.
	State    string        `json:"state"`
	Decision disk.Decision `json:"decision"`
	// Hold is the kind of hold, empty for a disk that is not held.
	Hold policy.Hold `json:"hold,omitempty"`
	// Since is the time of the mount, of the daemon's decision, or otherwise of the last change that udev saw.
	Since time.Time `json:"since,omitzero"`
	Where string    `json:"where,omitempty"`
	// Used and Capacity are in bytes, for a mounted filesystem that answers.
	Used     uint64 `json:"used,omitempty"`
	Capacity uint64 `json:"capacity,omitempty"`
	Why      string `json:"why"`
	Next     string `json:"next,omitempty"`
	// Tries is how often in a row what is to be done with the disk has failed. Retry is when the daemon tries it again.
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
	// Evidence is what udev found on the disk, and for root what the proof found. It may quote the disk.
	Evidence []string `json:"evidence,omitempty"`
}

// Bad returns the number of disks that are refused, failed or not grown.
func (s *Status) Bad() int {
	bad := 0
	for _, d := range s.Disks {
		if d.State == "refused" || d.State == "failed" || d.Decision.Reason == disk.ReasonNotGrown {
			bad++
		}
	}
	return bad
}

// GetStatus decides as the daemon does, on the same facts. hung is as for usage.Of.
func GetStatus(ctx context.Context, h inventory.Host, s *disk.Settings, hung map[string]int) (*Status, error) {
	disks, sizes, err := usage.Scan(ctx, h.For(s), hung)
	if err != nil {
		return nil, err
	}
	st := &Status{Daemon: daemonState(), Fault: s.Fault, Disks: []DiskStatus{}}
	said, err := h.Store.Published()
	if err != nil {
		return nil, err
	}
	for i := range disks {
		if line := statusOf(&disks[i], s, said, st.Daemon, sizes); line != nil {
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

// statusOf returns the status of one disk, or nil for a disk that is not shown.
func statusOf(f *disk.Facts, s *disk.Settings, said []disk.Line, daemon string, sizes map[string]usage.Space) *DiskStatus {
	c := f.Known()
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
	if l := lineOf(f, said); l != nil {
		line.hear(l, daemon)
	}
	line.Hold = policy.HoldOf(line.Decision)
	if u := sizes[line.Where]; u.Dev == f.Dev {
		// As df(1): what is kept for root is not for pods.
		line.Used, line.Capacity = u.Size-u.Free, u.Size-u.Free+u.Available
	}
	return &line
}

// daemonState returns "running" or "down".
func daemonState() string {
	if DaemonRuns("/") {
		return "running"
	}
	return "down"
}

// DaemonRuns reports whether the daemon's main process exists, below a root path. Unlike the control socket, any user
// can see that (cgroups(7)). A child that hangs on a dead filesystem outlives the daemon and does not count.
func DaemonRuns(root string) bool {
	for _, hierarchy := range []string{"", "systemd", "unified"} {
		b, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", hierarchy, "system.slice/hotmount.service/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(b)) {
			line, err := os.ReadFile(filepath.Join(root, "proc", pid, "cmdline"))
			// With hidepid= (proc(5)) only root sees other users' processes.
			if args := strings.Split(string(line), "\x00"); err != nil || len(args) > 1 && args[1] == "run" {
				return true
			}
		}
	}
	return false
}

// hear adds what only the daemon's published status has: failures. A caller other than root also gets the results of
// the proofs, and what the store remembers.
func (d *DiskStatus) hear(l *disk.Line, daemon string) {
	// Any user can see whether the disk is mounted, but not the filesystem's size and identity.
	told := d.Decision.Mounted() == l.Decision.Mounted() || d.Decision.Mounted() && l.Decision.Reason == disk.ReasonMisplaced
	if os.Geteuid() != 0 && told {
		d.Content, d.Type, d.UUID, d.Class, d.State, d.Decision, d.Why, d.Next = l.Kind, l.Type, l.UUID, l.Decision.Class, l.Decision.State(), l.Decision, l.Why, l.Next
	}
	// Only the daemon remembers the serial of a disk that is gone.
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

// lineOf returns what the daemon has published of the disk, nil for nothing.
func lineOf(f *disk.Facts, said []disk.Line) *disk.Line {
	if i := slices.IndexFunc(said, func(l disk.Line) bool { return l.Disk == f.Name && l.Seq == f.Seq }); i >= 0 {
		return &said[i]
	}
	return nil
}

// failing returns why the daemon fails to do what was decided, and what helps. Both are empty if it does not. status,
// plan and explain show it alike.
func failing(l *disk.Line, d disk.Decision, daemon string) (why, next string) {
	switch {
	case l == nil || l.Failure == "" || l.Decision.Action != d.Action:
		return "", ""
	case daemon == "down":
		return "when the daemon ran: " + l.Failure, "the daemon tries again when it is started: systemctl start hotmount"
	}
	return l.Failing(), l.Remedy
}
