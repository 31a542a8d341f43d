package doctor

import (
	"fmt"
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Level is the severity of a finding.
type Level string

// The constants are the levels of findings. Problems and warnings need an action of the operator, but notes do not.
const (
	// Problem means that data is or will be in an unexpected place, cannot be stored, or will be lost.
	Problem Level = "problem"
	// Warning means that something does not work or may cause trouble, but data is never lost silently.
	Warning Level = "warning"
	// Note means that something is worth knowing, but needs no action.
	Note Level = "note"
)

// Kind identifies the fault of a finding for programs that read the report.
type Kind string

// The kinds of findings.
const (
	// NotPropagated: new mounts on the host do not propagate to a process.
	NotPropagated Kind = "not-propagated"
	// OtherDirectory: the process has another directory at the path of the class directory.
	OtherDirectory Kind = "other-directory"
	// NoDirectory: the class directory does not exist on the host or in the view of a process.
	NoDirectory Kind = "no-directory"
	// WrongMount: at the path of a disk, the process sees something other than the disk.
	WrongMount Kind = "wrong-mount"
	// NoMount: the process sees nothing at the path of a disk.
	NoMount Kind = "no-mount"
	// ReadOnly: the host or the daemon cannot make mount points.
	ReadOnly Kind = "read-only"
	// NotShared: the host's mount that carries the class directory is not shared.
	NotShared Kind = "host-not-shared"
	// OnSystemDisk: a volume lies on the class directory's own filesystem.
	OnSystemDisk Kind = "volume-on-system-disk"
	// NotItsDisk: a volume is not on the disk from which the volume was made.
	NotItsDisk Kind = "volume-not-on-its-disk"
	// BareDirectory: a container has the directory at which kubelet mounts a volume, but not the volume itself.
	BareDirectory Kind = "bare-pod-directory"
	// NotSharedBack: kubelet's mounts for pods do not propagate to the container runtime.
	NotSharedBack Kind = "not-shared-back"
	// StaleCopy: a mount still exists, although its disk is gone or no longer mounted on the host.
	StaleCopy Kind = "stale-copy"
	// Covered: one mount hides another mount.
	Covered Kind = "covered"
	// DataHidden: a mount hides files.
	DataHidden Kind = "data-hidden"
	// NotAMount: an entry of a class directory is not a mount.
	NotAMount Kind = "not-a-mount"
	// UdevRule: a udev rule runs systemd-mount.
	UdevRule Kind = "udev-rule"
	// Trimmed: fstrim.timer trims the disks.
	Trimmed Kind = "fstrim"
	// NoHelper: a program that a class needs is missing.
	NoHelper Kind = "missing-helper"
	// FailedDisk: the state of a disk is "failed" (disk.Decision.State).
	FailedDisk Kind = "failed-disk"
	// NewDisksHeld: a class holds new disks because of the storage drivers on the node.
	NewDisksHeld Kind = "new-disks-held"
	// LoopDevices: a class selects loop devices.
	LoopDevices Kind = "loop-devices"
	// FaultySettings: the configuration has a fault.
	FaultySettings Kind = "configuration-fault"
	// NoKubelet: no kubelet runs.
	NoKubelet Kind = "no-kubelet"
	// NotSeen: the doctor could not see something.
	NotSeen Kind = "not-seen"
)

// Pod is a pod with a volume. Unknown fields of a Pod are empty.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Container string `json:"container,omitempty"`
	Volume    string `json:"volume,omitempty"`
}

// Finding is one fault of the node.
type Finding struct {
	Level Level `json:"level"`
	Kind  Kind  `json:"kind"`
	// Class is the name of the class with the fault. Paths are the paths at which the fault exists.
	Class string   `json:"class,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Processes are the processes with the fault, at most 10.
	Processes []Process `json:"processes,omitempty"`
	Pod       *Pod      `json:"pod,omitempty"`
	// Data is the host path of the data, even if a mount hides the data. Reach is a path at which root can read the
	// data now.
	Data  string `json:"data,omitempty"`
	Reach string `json:"reach,omitempty"`
	// The field What describes the finding in words. The field Do contains the lines of the remedy.
	What string   `json:"what"`
	Do   []string `json:"do,omitempty"`
}

// Findings is a list of findings in the order of their discovery.
type Findings []Finding

// Add adds a finding. The last parameters are a format string and its arguments (fmt.Sprintf). The caller must escape
// all arguments that other programs can choose, such as the names of processes.
func (all *Findings) Add(f Finding, level Level, kind Kind, do []string, what string, args ...any) {
	f.Level, f.Kind, f.Do, f.What = level, kind, do, fmt.Sprintf(what, args...)
	f.Processes = f.Processes[:min(len(f.Processes), 10)]
	*all = append(*all, f)
}

// isSameFault reports whether two findings from two examinations are the same fault. Two findings of the same fault may
// have different numbers in their texts.
func (f *Finding) isSameFault(o *Finding) bool {
	if f.Kind != o.Kind || f.Class != o.Class {
		return false
	}
	if len(f.Paths) == 0 || len(o.Paths) == 0 {
		return f.What == o.What
	}
	return slices.ContainsFunc(f.Paths, func(p string) bool { return slices.Contains(o.Paths, p) })
}

// The constants are the results of comparing a path of a process with the same path on the host.
const (
	seesSame      = "same"
	seesOther     = "other"
	seesAbsent    = "absent"
	seesUnknown   = "unknown"
	seesDirectory = "directory" // a directory on the class directory's own filesystem
)

// Seen is what one process sees of one class directory.
type Seen struct {
	Process   Process `json:"process"`
	Namespace string  `json:"namespace"`
	Class     string  `json:"class"`
	// Directory is the path at which the process sees the class directory.
	Directory string `json:"directory"`
	// Sees is the result of a comparison with the host's directory: "same", "other", "absent" or "unknown". Arrives
	// reports whether new mounts on the host propagate to the process.
	Sees    string      `json:"sees"`
	Arrives bool        `json:"arrives"`
	Mounts  []SeenMount `json:"mounts,omitempty"`
}

// SeenMount is what one process sees at the path of one disk.
type SeenMount struct {
	Path string `json:"path"`
	// Sees is the result of a comparison with the host's mount: "same", "other", "absent", "unknown" or "directory". The
	// value "directory" means a directory on the class directory's own filesystem.
	Sees string   `json:"sees"`
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	// Host is what PID 1 sees in the class directories. Seen is what processes other than PID 1 see of the class
	// directories.
	Host     []HostDirectory `json:"host"`
	Seen     []Seen          `json:"seen"`
	Findings Findings        `json:"findings"`
}

// HostDirectory is a class directory as PID 1 sees it.
type HostDirectory struct {
	Class     string `json:"class"`
	Directory string `json:"directory"`
	// Dev is the device of the filesystem that carries the directory. Root is the path of the directory within the
	// filesystem Dev.
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
	// Shared is the peer group of the mount that carries the directory, or 0 if the mount is not shared.
	Shared int            `json:"shared"`
	Mounts []mounts.Mount `json:"mounts"`
}

// Count returns the number of findings of a level.
func (r *Report) Count(l Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Confirmed examines a snapshot. If the report contains a problem or a warning, Confirmed examines a second snapshot,
// because mounts can change while the doctor reads the mount tables.
func Confirmed(take func() (*Snapshot, error)) (*Report, error) {
	s, err := take()
	if err != nil {
		return nil, err
	}
	r := Examine(s)
	if r.Count(Problem)+r.Count(Warning) == 0 {
		return r, nil
	}
	if s, err = take(); err != nil {
		return nil, err
	}
	r.confirm(Examine(s))
	return r, nil
}

// confirm keeps only the findings that occur in both reports. A fault in only one of the two reports may come from a
// mount in progress.
func (r *Report) confirm(again *Report) {
	before := r.Findings
	*r = *again
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		return !slices.ContainsFunc(before, func(o Finding) bool { return f.isSameFault(&o) })
	})
}
