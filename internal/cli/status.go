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

// Status is what hotmount status prints.
type Status struct {
	// Daemon is "running" or "down".
	Daemon string       `json:"daemon"`
	Disks  []DiskStatus `json:"disks"`
	// Missing are the filesystems of earlier boots whose disks nobody saw leaving, and
	// that are on none of the disks. Only root can know them.
	Missing []MissingStatus `json:"missing,omitempty"`
	// MissingUnknown is why it is not known what is missing, empty if it is.
	MissingUnknown string `json:"missing_unknown,omitempty"`
}

// MissingStatus is one filesystem that is missing.
type MissingStatus struct {
	UUID  string `json:"uuid"`
	Type  string `json:"type"`
	Class string `json:"class,omitempty"`
	// Size, Serial and Slot are those of the disk, Since when it was last mounted.
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
	// Size in bytes.
	Size    uint64    `json:"size"`
	Serial  string    `json:"serial,omitempty"`
	Content disk.Kind `json:"content"`
	Type    string    `json:"type,omitempty"`
	UUID    string    `json:"uuid,omitempty"`
	Class   string    `json:"class,omitempty"`
	// State is a word for the decision and its reason.
	State    string        `json:"state"`
	Decision disk.Decision `json:"decision"`
	// Hold is the kind of a hold, empty where the disk is not held.
	Hold policy.Hold `json:"hold,omitempty"`
	// Since is when it was mounted, when the daemon has decided so, or else when udev
	// last saw it change.
	Since time.Time `json:"since,omitzero"`
	Where string    `json:"where,omitempty"`
	// Used and Capacity in bytes, of a mounted filesystem that answers.
	Used     uint64 `json:"used,omitempty"`
	Capacity uint64 `json:"capacity,omitempty"`
	Why      string `json:"why"`
	Next     string `json:"next,omitempty"`
	// Evidence is what was found on the disk, by udev or, for root to see, by the
	// proof; it may quote the disk.
	Evidence []string `json:"evidence,omitempty"`
}

// Bad returns how many disks are refused or failed.
func (s *Status) Bad() int {
	bad := 0
	for _, d := range s.Disks {
		if d.State == "refused" || d.State == "failed" {
			bad++
		}
	}
	return bad
}

// GetStatus decides as the daemon does, on the same facts. Hung is as for usage.Of.
func GetStatus(ctx context.Context, h inventory.Host, s *disk.Settings, hung map[string]int) (*Status, error) {
	disks, sizes, err := usage.Scan(ctx, h.For(s), hung)
	if err != nil {
		return nil, err
	}
	st := &Status{Daemon: "down", Disks: []DiskStatus{}}
	if DaemonRuns("/") {
		st.Daemon = "running"
	}
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
		for _, m := range missing {
			why, next := inventory.Absence(&m)
			st.Missing = append(st.Missing, MissingStatus{UUID: m.UUID, Type: m.Type, Class: m.Class, Size: m.Identity.Size, Serial: m.Identity.Serial, Slot: m.Identity.Slot, Since: m.Mounted, Why: why, Next: next})
		}
	}
	return st, nil
}

// statusOf returns what is to be said of one disk, or nil for nothing.
func statusOf(f *disk.Facts, s *disk.Settings, said []disk.Line, daemon string, sizes map[string]usage.Space) *DiskStatus {
	c := f.Known()
	d := policy.Decide(f, &c, s)
	if d.Action == disk.Ignore && (f.Size == 0 || d.Reason == disk.ReasonNoClass) {
		return nil
	}
	line := DiskStatus{Disk: f.Name, Size: f.Size, Serial: f.Serial, Content: c.Kind, Type: c.Type, UUID: c.UUID, Class: d.Class, State: d.State(), Decision: d}
	if d.GivenOut() {
		line.Where = f.Standing.Link
	}
	seen := "/run/udev/data/b" + f.Dev.String()
	if len(f.Mounts) > 0 {
		line.Where = f.Mounts[0].Path
	}
	if d.Mounted() {
		for _, class := range s.Classes {
			if class.Name == d.Class {
				line.Where = class.MountPoint(d.UUID)
			}
		}
		seen = "/run/systemd/transient/" + unit.UnitNamePathEscape(line.Where) + ".mount"
	}
	if info, err := os.Lstat(seen); err == nil {
		line.Since = info.ModTime()
	}
	line.Evidence, c.Evidence = c.Evidence, nil
	line.Why, line.Next = policy.Words(f, &c, s, d)
	if i := slices.IndexFunc(said, func(l disk.Line) bool { return l.Disk == f.Name && l.Seq == f.Seq }); i >= 0 {
		line.hear(&said[i], daemon)
	}
	line.Hold = policy.HoldOf(line.Decision)
	if u := sizes[line.Where]; u.Dev == f.Dev {
		line.Used, line.Capacity = u.Used, u.Capacity
	}
	return &line
}

// DaemonRuns reports whether the daemon's main process is there, below a root path.
// Anybody may see it, unlike the control socket (cgroups(7)). A child of it that
// hangs on a dead filesystem outlives it.
func DaemonRuns(root string) bool {
	for _, hierarchy := range []string{"", "systemd", "unified"} {
		b, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", hierarchy, "system.slice/hotmount.service/cgroup.procs"))
		if err != nil {
			continue
		}
		for _, pid := range strings.Fields(string(b)) {
			line, err := os.ReadFile(filepath.Join(root, "proc", pid, "cmdline"))
			// With hidepid= (proc(5)) others than root see no process but their own.
			if args := strings.Split(string(line), "\x00"); err != nil || len(args) > 1 && args[1] == "run" {
				return true
			}
		}
	}
	return false
}

// hear takes from the daemon's published status what cannot be seen on the disk itself: what
// failed. A caller other than root also learns what the proofs have found and what is remembered.
func (d *DiskStatus) hear(l *disk.Line, daemon string) {
	// Whether it is mounted anybody can see; how much of the disk it takes, and which filesystem it is, not.
	told := d.Decision.Mounted() == l.Decision.Mounted() || d.Decision.Mounted() && l.Decision.Reason == disk.ReasonMisplaced
	if os.Geteuid() != 0 && told {
		d.Content, d.Type, d.UUID, d.Class, d.State, d.Decision, d.Why, d.Next = l.Kind, l.Type, l.UUID, l.Decision.Class, l.Decision.State(), l.Decision, l.Why, l.Next
	}
	if l.Decision == d.Decision && !l.Since.IsZero() && (d.State != "mounted" || d.Since.IsZero()) {
		d.Since = l.Since
	}
	switch {
	case l.Failure == "" || l.Decision.Action != d.Decision.Action:
	case daemon == "down":
		d.State, d.Why, d.Next = "failed", "when the daemon ran: "+l.Failure, "it is tried again when the daemon is started: systemctl start hotmount"
	default:
		d.State, d.Why, d.Next = "failed", l.Failure, l.Remedy
	}
}
