// Package doctor finds out who sees which mount: whether every kubelet, every provisioner
// and every pod has the disk where the host has it, or writes to the system disk instead.
// It changes nothing. Take gathers a Snapshot; Examine, a pure function, judges it: each
// class directory, each mount of each view, then the rest of the system. What a person can
// do about a finding is in advice.txt.
package doctor

import (
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Role is what a process does with the disks.
type Role string

// The roles. Of a process without one only the mounts are looked at.
const (
	// Kubelet binds volumes into the directories of pods.
	Kubelet Role = "kubelet"
	// Provisioner makes volumes of what it finds mounted.
	Provisioner Role = "provisioner"
	// Runtime (containerd, dockerd, CRI-O) mounts the directories of pods into
	// containers.
	Runtime Role = "runtime"
	// Agent is hotmount's daemon.
	Agent Role = "hotmount"
)

// Process is one process. Its name and executable are foreign bytes.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Exe is the path of the executable within the process's own root; empty if
	// it cannot be read.
	Exe  string `json:"exe,omitempty"`
	Role Role   `json:"role,omitempty"`
	// Pod and Container are read from the control group: the UID of the pod, and
	// the id that the runtime has given to the container.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Args is the command line, of kubelets and the daemon alone; Roots are the
	// root directories of a kubelet.
	Args  []string `json:"-"`
	Roots []string `json:"-"`
}

// View is how the file system looks to processes with one mount namespace and
// one root directory.
type View struct {
	// Namespace is the link /proc/PID/ns/mnt, Root the link /proc/PID/root.
	Namespace string
	Root      string
	Processes []Process
	Mounts    []mounts.Mount
	// Bases are the places of the class directories in this view, by class
	// directory: a provisioner may have them elsewhere.
	Bases map[string]string
	// Sights are what the view's first process finds at a path, by path.
	Sights map[string]Sight
	// blind says why it could not be looked at.
	blind string
}

// Sight is what a process finds at a path, resolved inside its own root.
type Sight struct {
	// MountID is the mount on which the path ends, Path the path without
	// symlinks.
	MountID int    `json:"mount_id,omitempty"`
	Path    string `json:"path,omitempty"`
	// Absent is whether nothing is there; Failure says why that is not known.
	Absent  bool   `json:"absent,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Entry is what lies in a class directory itself, whatever is mounted over it.
type Entry struct {
	// Name as in the directory, foreign bytes.
	Name string `json:"name"`
	// Kind is "directory", "file", "symlink", "fifo", "socket" or "device".
	Kind string `json:"kind"`
	// First is the name of something in the directory, empty if it is empty.
	First string `json:"first,omitempty"`
	// Target is where the symlink points to.
	Target string `json:"target,omitempty"`
	// Failure says why it could not be looked at.
	Failure string `json:"failure,omitempty"`
}

// PodName is what Kubernetes calls a pod.
type PodName struct{ Namespace, Name string }

// Snapshot is what Examine judges.
type Snapshot struct {
	// Host is the view of PID 1, Views are all others.
	Host    View
	Views   []View
	Classes []disk.Class
	// Node is what Kubernetes calls the node, empty if that is not known.
	Node string
	// Disks are those that a class selects.
	Disks []disk.Dev
	// Gone are the block devices that are mounted somewhere but no longer in sysfs.
	Gone map[disk.Dev]bool
	// Entries are those of the class directories themselves, by class directory.
	Entries map[string][]Entry
	// Rules are the places of udev rules that run systemd-mount, such as
	// "/etc/udev/rules.d/99-disks.rules:3".
	Rules []string
	// Trim is whether fstrim.timer is on, FstabEmpty whether fstab(5) names nothing.
	Trim       bool
	FstabEmpty bool
	// Programs has whether each program that a class needs is there, by name.
	Programs map[string]bool
	// Pods are the names of pods by UID, Containers those of containers by id.
	Pods       map[string]PodName
	Containers map[string]string
	// Pinned are mount namespaces that no process is in, kept by a file.
	Pinned []string
	// Unlikely are processes that are named like a kubelet but do not have its rights.
	Unlikely []Process
	// Blind says what could not be seen, one reason each.
	Blind []string
}
