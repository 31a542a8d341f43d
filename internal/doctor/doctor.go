// Package doctor finds out which process sees which mount. It checks whether every kubelet, provisioner and pod has the
// disk where the host has it, or writes to the system disk instead. It changes nothing.
//
// Take gathers a Snapshot. Examine, a pure function, judges it. It judges each class directory, each mount of each
// view, and the rest of the system. advice.txt holds the remedy for each finding.
package doctor

import (
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Role is the part that a process plays for the disks.
type Role string

// The roles. The doctor looks only at the mounts of a process without a role.
const (
	// Kubelet binds volumes into the directories of pods.
	Kubelet Role = "kubelet"
	// Provisioner makes volumes of the mounts that it finds.
	Provisioner Role = "provisioner"
	// Runtime (containerd, dockerd, CRI-O) mounts the directories of pods into containers.
	Runtime Role = "runtime"
	// Agent is hotmount's daemon.
	Agent Role = "hotmount"
)

// Process is one process. Its name and executable are foreign bytes.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Exe is the path of the executable within the process's own root. It is empty if it cannot be read.
	Exe  string `json:"exe,omitempty"`
	Role Role   `json:"role,omitempty"`
	// Pod is the UID of the pod and Container the runtime's id of the container. Both come from the control group.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Service is the service that the process belongs to, for kubelets and runtimes.
	Service Service `json:"-"`
	// Args is the command line, for kubelets and the daemon only. Roots are the root directories of a kubelet.
	Args  []string `json:"-"`
	Roots []string `json:"-"`
}

// View is the file system as processes with one mount namespace and one root directory see it.
type View struct {
	// Namespace is the link /proc/PID/ns/mnt, Root the link /proc/PID/root.
	Namespace string
	Root      string
	Processes []Process
	Mounts    []mounts.Mount
	// Bases maps each class directory to its place in this view. A provisioner may have it elsewhere.
	Bases map[string]string
	// Sights maps a path to what the view's first process finds there.
	Sights map[string]Sight
	// unseen is why the doctor cannot look at the view, nil if it can.
	unseen error
}

// Sight is what a process finds at a path, resolved inside its own root.
type Sight struct {
	// MountID is the mount on which the path ends. Path is the path without symlinks.
	MountID int    `json:"mount_id,omitempty"`
	Path    string `json:"path,omitempty"`
	// Absent reports whether nothing is there. Failure is the reason why that is not known.
	Absent  bool   `json:"absent,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Entry is an entry of a class directory itself, beneath any mount over it.
type Entry struct {
	// Name is the entry's name, in foreign bytes.
	Name string `json:"name"`
	// Kind is "directory", "file", "symlink", "fifo", "socket" or "device".
	Kind string `json:"kind"`
	// First is the name of something in the directory. It is empty if the directory is.
	First string `json:"first,omitempty"`
	// Target is the target of a symlink.
	Target string `json:"target,omitempty"`
	// Failure is the reason why the doctor cannot look at the entry.
	Failure string `json:"failure,omitempty"`
}

// PodName is the Kubernetes name of a pod.
type PodName struct{ Namespace, Name string }

// Snapshot is what Examine judges.
type Snapshot struct {
	// Host is the view of PID 1. Views are all others.
	Host    View
	Views   []View
	Classes []disk.Class
	// Node is the Kubernetes name of the node. It is empty if unknown.
	Node string
	// Disks are the disks that a class selects.
	Disks []disk.Dev
	// Gone holds the block devices that are mounted somewhere but no longer in sysfs.
	Gone map[disk.Dev]bool
	// Entries maps each class directory to its own entries.
	Entries map[string][]Entry
	// Pods maps UIDs to pods. Containers maps ids to container names.
	Pods       map[string]PodName
	Containers map[string]string
	// Found are the findings that do not depend on mounts.
	Found Findings
	// roots are the root directories of all kubelets.
	roots []string
}
