package doctor

import (
	"slices"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Level is how bad a finding is.
type Level string

// The levels. Problems and warnings ask for action, notes do not.
const (
	// Problem: data is or will be in an unexpected place, or cannot be kept.
	Problem Level = "problem"
	// Warning: something does not work, or may get in the way, but no data is lost
	// unnoticed.
	Warning Level = "warning"
	// Note: worth knowing.
	Note Level = "note"
)

// Kind is what was found, for programs.
type Kind string

// The kinds of findings.
const (
	// NotPropagated: what is mounted from now on does not arrive.
	NotPropagated Kind = "not-propagated"
	// OtherDirectory: at the class directory's path lies another one.
	OtherDirectory Kind = "other-directory"
	// NoDirectory: the class directory is not there.
	NoDirectory Kind = "no-directory"
	// WrongMount: at the path of a disk lies something else.
	WrongMount Kind = "wrong-mount"
	// NoMount: at the path of a disk lies nothing.
	NoMount Kind = "no-mount"
	// ReadOnly: the daemon cannot make mount points.
	ReadOnly Kind = "read-only"
	// NotShared: the host's own mount of the class directory is not shared.
	NotShared Kind = "host-not-shared"
	// OnSystemDisk: a volume lies on the class directory's own filesystem.
	OnSystemDisk Kind = "volume-on-system-disk"
	// NotItsDisk: a volume is not on the disk it is made of.
	NotItsDisk Kind = "volume-not-on-its-disk"
	// BareDirectory: a container has a pod's directory instead of the volume.
	BareDirectory Kind = "bare-pod-directory"
	// NotSharedBack: what kubelet mounts for pods does not arrive at the runtime.
	NotSharedBack Kind = "not-shared-back"
	// StaleCopy: a mount that the host no longer has is still held.
	StaleCopy Kind = "stale-copy"
	// Covered: one mount lies over another.
	Covered Kind = "covered"
	// DataHidden: there are files under a mount.
	DataHidden Kind = "data-hidden"
	// NotAMount: something in a class directory is no mount.
	NotAMount Kind = "not-a-mount"
	// UdevRule: a udev rule mounts as well.
	UdevRule Kind = "udev-rule"
	// Trimmed: fstrim.timer trims the disks.
	Trimmed Kind = "fstrim"
	// NoHelper: a program is missing.
	NoHelper Kind = "missing-helper"
	// LoopDevices: a class has loop devices.
	LoopDevices Kind = "loop-devices"
	// NoKubelet: no kubelet runs.
	NoKubelet Kind = "no-kubelet"
	// Blind: something could not be seen.
	Blind Kind = "not-seen"
)

// Pod is a pod with a volume, as far as it is known.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Container string `json:"container,omitempty"`
	Volume    string `json:"volume,omitempty"`
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Level Level `json:"level"`
	Kind  Kind  `json:"kind"`
	// Class is the name of the class it is about, Paths are the places.
	Class string   `json:"class,omitempty"`
	Paths []string `json:"paths,omitempty"`
	// Processes are those it is about, at most 10.
	Processes []Process `json:"processes,omitempty"`
	Pod       *Pod      `json:"pod,omitempty"`
	// Data is where the data really is on the host, also if something is mounted
	// over it; Reach a path by which root can read it now.
	Data  string `json:"data,omitempty"`
	Reach string `json:"reach,omitempty"`
	// What is the finding in words, Do what to do about it, one step a line.
	What string   `json:"what"`
	Do   []string `json:"do,omitempty"`
}

// same reports whether two looks have found the same. Counts in the words may have
// changed.
func (f *Finding) same(o *Finding) bool {
	if f.Kind != o.Kind || f.Class != o.Class {
		return false
	}
	if len(f.Paths) == 0 || len(o.Paths) == 0 {
		return f.What == o.What
	}
	return slices.ContainsFunc(f.Paths, func(p string) bool { return slices.Contains(o.Paths, p) })
}

// What a process sees at a path, compared with what the host has there.
const (
	seesSame      = "same"
	seesOther     = "other"
	seesAbsent    = "absent"
	seesUnknown   = "unknown"
	seesDirectory = "directory" // that of the class directory's own filesystem
)

// Seen is what one process sees of one class directory.
type Seen struct {
	Process   Process `json:"process"`
	Namespace string  `json:"namespace"`
	Class     string  `json:"class"`
	// Directory is the path at which it has the class directory.
	Directory string `json:"directory"`
	// Sees is "same", "other", "absent" or "unknown", as against the host;
	// Arrives, whether what the host mounts from now on will be seen.
	Sees    string      `json:"sees"`
	Arrives bool        `json:"arrives"`
	Mounts  []SeenMount `json:"mounts,omitempty"`
}

// SeenMount is what one process sees at the path of one disk.
type SeenMount struct {
	Path string `json:"path"`
	// Sees is "same", "absent", "unknown", "directory" (that of the class
	// directory's own filesystem) or "other".
	Sees string   `json:"sees"`
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	// Host is what PID 1 has in the class directories, Seen what the others see
	// of it.
	Host     []HostDirectory `json:"host"`
	Seen     []Seen          `json:"seen"`
	Findings []Finding       `json:"findings"`
}

// HostDirectory is a class directory as PID 1 has it.
type HostDirectory struct {
	Class     string `json:"class"`
	Directory string `json:"directory"`
	// Dev and Root are the filesystem and the directory in it.
	Dev  disk.Dev `json:"dev"`
	Root string   `json:"root,omitempty"`
	// Shared is the peer group of the mount that carries it, 0 for none.
	Shared int            `json:"shared"`
	Mounts []mounts.Mount `json:"mounts"`
}

// Count returns how many findings are of a level.
func (r *Report) Count(l Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// Confirmed examines a snapshot, and a second one if anything is wrong: mounts come and
// go while their tables are read.
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

// confirm keeps what both reports have found: a mount that was being made while the tables
// were read is no finding.
func (r *Report) confirm(again *Report) {
	before := r.Findings
	*r = *again
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		return !slices.ContainsFunc(before, func(o Finding) bool { return f.same(&o) })
	})
}
