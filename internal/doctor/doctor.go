// Package doctor finds out which process sees which mount. Package doctor checks whether every kubelet, provisioner
// and pod has the host's disk at each path, or writes to the system disk instead. Package doctor changes nothing.
//
// Take gathers a Snapshot, and finds the faults that do not depend on mounts. Examine is a pure function that judges
// each class directory and each mount of each view. advice.txt contains the remedies for the findings.
package doctor

import (
	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

// Role is what a process does with the disks.
type Role string

// The constants are the roles of processes. For a process without a role, the doctor examines only the mount table.
const (
	// Kubelet bind-mounts volumes into the directories of pods.
	Kubelet Role = "kubelet"
	// Provisioner makes a PersistentVolume from each mount that it finds.
	Provisioner Role = "provisioner"
	// Runtime (containerd, dockerd, CRI-O) mounts the directories of pods into containers.
	Runtime Role = "runtime"
	// Agent is hotmount's daemon.
	Agent Role = "hotmount"
)

// Process is one process of the node. The name and the executable of a Process come from the process, so they can
// contain arbitrary bytes.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Exe is the path of the executable within the process's root directory, empty if the path cannot be read.
	Exe  string `json:"exe,omitempty"`
	Role Role   `json:"role,omitempty"`
	// Pod is the UID of the pod. Container is the id that the runtime gives the container. Pod and Container are read
	// from the path of the control group. A value that this path does not contain is empty.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Service is the systemd service of the process. Only a kubelet or runtime gets Causes and Resets.
	Service Service `json:"-"`
	// Args is the command line of a kubelet or of the daemon. Roots are the root directories of a kubelet.
	Args  []string `json:"-"`
	Roots []string `json:"-"`
}

// View is the file tree of all processes with the same mount namespace and the same root directory.
type View struct {
	// Namespace is the target of the link /proc/PID/ns/mnt. Root is the target of the link /proc/PID/root.
	Namespace string
	Root      string
	Processes []Process
	Mounts    []mounts.Mount
	// Bases maps each class directory to its path in the view. In a provisioner's view, the path may differ from the
	// host's path.
	Bases map[string]string
	// Sights maps a path to what the view's first process finds at the path.
	Sights map[string]Sight
	// unseen is the reason why the doctor cannot look at the view, or nil if it can.
	unseen error
}

// Sight is what a process finds at a path, resolved inside the process's root directory.
type Sight struct {
	// MountID is the id of the mount on which the path ends. Path is the resolved path, without symlinks.
	MountID int    `json:"mount_id,omitempty"`
	Path    string `json:"path,omitempty"`
	// Absent is true if the path does not exist. Failure is the reason why the doctor does not know what is at the
	// path.
	Absent  bool   `json:"absent,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Entry is an entry of a class directory. If something is mounted on the entry, Entry describes the entry that the
// mount hides.
type Entry struct {
	// Name is the name of the entry, which can contain arbitrary bytes.
	Name string `json:"name"`
	// Kind is "directory", "file", "symlink", "fifo", "socket" or "device".
	Kind string `json:"kind"`
	// First is the name of one file in the entry, if the entry is a directory. First is never hotmount's marker file,
	// and is empty if the directory has no other file.
	First string `json:"first,omitempty"`
	// Target is the target of the entry, if the entry is a symlink.
	Target string `json:"target,omitempty"`
	// Failure is the reason why the doctor cannot look at the entry.
	Failure string `json:"failure,omitempty"`
}

// PodName is the Kubernetes name of a pod.
type PodName struct{ Namespace, Name string }

// Snapshot contains the facts that Examine judges.
type Snapshot struct {
	// Host is the view of PID 1. Views are all views except the host's.
	Host    View
	Views   []View
	Classes []disk.Class
	// Node is the Kubernetes name of the node, empty if unknown.
	Node string
	// Disks are the device numbers of the disks that a class selects.
	Disks []disk.Dev
	// Gone reports for each mounted block device whether the device has disappeared from sysfs.
	Gone map[disk.Dev]bool
	// Entries maps each class directory to its entries.
	Entries map[string][]Entry
	// Pods maps the UIDs of pods to their names. Containers maps the ids of containers to their names.
	Pods       map[string]PodName
	Containers map[string]string
	// Found contains the findings that the doctor makes while it collects the other facts.
	Found Findings
	// roots are the root directories of all kubelets.
	roots []string
}
