package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hotmount/internal/disk"
	"hotmount/internal/mounts"
)

const (
	dir = "/mnt/disks"
	a   = "/mnt/disks/0b0f1c6e-aaaa-4000-8000-000000000001"
	b   = "/mnt/disks/0b0f1c6e-bbbb-4000-8000-000000000002"
	uid = "6a6e9d0c-1111-4222-8333-444455556666"
	pv  = "/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~local-volume/local-pv-1f2e3d4c"
	pv5 = "/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~local-volume/local-pv-5f2e3d4c"
	id  = "89abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567"
)

// hostTable is the mount table of a worker with two disks. Kubelet has bind-mounted the first disk for a pod.
const hostTable = `27 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw
30 27 254:16 / ` + a + ` rw shared:50 - xfs /dev/vdb rw
31 27 254:32 / ` + b + ` rw shared:51 - xfs /dev/vdc rw
32 27 254:16 / ` + pv + ` rw shared:50 - xfs /dev/vdb rw
`

// container returns the mount table of a kubelet in a container. The class directory and kubelet's root directory are
// separate mounts.
func container(directory, disks, root string) string {
	return "100 90 0:60 / / rw - overlay overlay rw\n" +
		"101 100 254:1 /mnt/disks /mnt/disks rw " + directory + " - ext4 /dev/vda1 rw\n" + disks +
		"105 100 254:1 /var/lib/kubelet /var/lib/kubelet rw " + root + " - ext4 /dev/vda1 rw\n" +
		"106 105 254:16 / " + pv + " rw shared:50 - xfs /dev/vdb rw\n"
}

const both = "102 101 254:16 / " + a + " rw shared:50 - xfs /dev/vdb rw\n103 101 254:32 / " + b + " rw shared:51 - xfs /dev/vdc rw\n"

func tree(t *testing.T, text string) []mounts.Mount {
	t.Helper()
	table, err := mounts.ParseTree(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// walk resolves a path as the kernel does, from mount to mount. If one of two mounts at a path covers the other, walk
// ends on the upper mount.
func walk(table []mounts.Mount, p string) Sight {
	at := &table[0]
	for {
		var next *mounts.Mount
		for i := range table {
			m := &table[i]
			if m.Parent != at.ID || m.ID == at.ID || !disk.IsBelow(p, m.Path) || !disk.IsBelow(m.Path, at.Path) {
				continue
			}
			if next == nil || len(m.Path) < len(next.Path) {
				next = m
			}
		}
		if next == nil {
			return Sight{MountID: at.ID, Path: p}
		}
		at = next
	}
}

// view returns a view of a process. The parameter `absent` contains the paths that do not exist in the view.
func view(t *testing.T, namespace, text string, absent []string, processes ...Process) View {
	t.Helper()
	v := View{Namespace: namespace, Root: "/", Mounts: tree(t, text), Processes: processes, Bases: map[string]string{dir: dir}, Sights: map[string]Sight{}}
	for i := range v.Processes {
		v.Processes[i].Roots, _ = rootDirectories(&v.Processes[i], v.Mounts)
	}
	for _, p := range append(v.mountsIn(dir), dir, a, b, defaultRoot) {
		v.Sights[p] = walk(v.Mounts, p)
	}
	for _, p := range absent {
		v.Sights[p] = Sight{Absent: true}
	}
	return v
}

func node(t *testing.T) *Snapshot {
	return &Snapshot{
		Host:    view(t, "mnt:[1]", hostTable, nil, Process{PID: 1, Name: "systemd"}, Process{PID: 7, Name: "containerd", Role: Runtime}),
		Classes: []disk.Class{{Name: "default", Directory: dir, Accept: []string{"xfs", "ext4"}, Create: "xfs"}},
		Disks:   []disk.Dev{{Major: 254, Minor: 16}, {Major: 254, Minor: 32}},
		Pods:    map[string]PodName{uid: {"prod", "db-0"}}, Containers: map[string]string{id: "postgres"},
	}
}

var kubelet = Process{PID: 800, Name: "kubelet", Exe: "/usr/bin/kubelet", Role: Kubelet}

// The function `found` returns the level, the kind, and the process or pod of each finding.
func found(r *Report) []string {
	all := []string{}
	for _, f := range r.Findings {
		s := fmt.Sprintf("%s %s", f.Level, f.Kind)
		switch {
		case f.Pod != nil:
			s += fmt.Sprintf(" pod=%s/%s container=%s volume=%s", f.Pod.Namespace, f.Pod.Name, f.Pod.Container, f.Pod.Volume)
		case len(f.Processes) > 0:
			s += fmt.Sprintf(" %d", f.Processes[0].PID)
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func TestExamine(t *testing.T) {
	inNamespace := func(table string, absent ...string) func(*testing.T, *Snapshot) {
		return func(t *testing.T, s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[2]", table, absent, kubelet))
		}
	}
	on := func(change func(*Snapshot)) func(*testing.T, *Snapshot) {
		return func(t *testing.T, s *Snapshot) { s.Host.Processes = append(s.Host.Processes, kubelet); change(s) }
	}
	// The function `pod` adds the view of a container with one mount.
	pod := func(mount string) func(*testing.T, *Snapshot) {
		return func(t *testing.T, s *Snapshot) {
			s.Host.Processes = append(s.Host.Processes, kubelet)
			s.Views = append(s.Views, view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 "+mount+"\n", nil, Process{PID: 900, Name: "postgres", Pod: uid, Container: id}))
		}
	}
	// The function `bound` adds kubelet's mount for a pod, and other mounts of the host.
	bound := func(mount, more string) func(*testing.T, *Snapshot) {
		return on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+more+"60 27 "+mount+" rw shared:1 - ext4 none rw\n", nil, Process{PID: 1}, kubelet)
		})
	}
	// The function `named` adds the mount of a pod's volume. The volume has the name nameOfA, which the provisioner
	// makes for the first disk. The function also sets the names of the node and the StorageClass.
	nameOfA := disk.VolumeName(path.Base(a), "worker-1", "fast")
	named := func(mount, below string) func(*testing.T, *Snapshot) {
		return on(func(s *Snapshot) {
			bound(mount+"/var/lib/kubelet/pods/"+uid+"/"+fmt.Sprintf(below, nameOfA), "")(t, s)
			s.Node, s.Classes[0].StorageClass = "worker-1", "fast"
		})
	}
	const (
		volume5 = " pod=prod/db-0 container= volume=local-pv-5f2e3d4c"
		good    = "shared:1"
		trapped = " pod=prod/db-0 container=postgres volume="
	)
	for _, tt := range []struct {
		name string
		put  func(*testing.T, *Snapshot)
		want []string
	}{
		{"kubelet on the host", on(func(*Snapshot) {}), nil},
		{"rbind, rshared", inNamespace(container(good, both, good)), nil},
		{"rbind, rslave", inNamespace(container("master:1", both, good)), nil},
		{"rslave, then shared with its own", inNamespace(container("shared:90 master:1", both, good)), nil},
		{"rbind, rprivate", inNamespace(container("", both, good)), []string{"problem not-propagated 800"}},
		{"shared with others than the host", inNamespace(container("shared:77", both, good)), []string{"problem not-propagated 800"}},
		{"slave of others than the host", inNamespace(container("master:77", both, good)), []string{"problem not-propagated 800"}},
		{"bind, rslave", inNamespace(container("master:1", "", good)), []string{"problem wrong-mount 800"}},
		{"bind, rprivate", inNamespace(container("", "", good)), []string{"problem not-propagated 800", "problem wrong-mount 800"}},
		{"one disk is another", inNamespace(container("master:1", strings.Replace(both, "254:32", "254:48", 1), good)), []string{"problem wrong-mount 800"}},
		{"one disk is a part of it", inNamespace(container("master:1", strings.Replace(both, "254:32 /", "254:32 /sub", 1), good)), []string{"problem wrong-mount 800"}},
		{"one disk is absent", inNamespace(container("master:1", both, good), b), []string{"warning no-mount 800"}},
		{"stacked in the kubelet's: the same twice", inNamespace(container("master:1", both+"104 103 254:32 / "+b+" rw shared:51 - xfs /dev/vdc rw\n", good)), nil},
		{"stacked in the kubelet's: tmpfs", inNamespace(container("master:1", both+"104 103 0:80 / "+b+" rw - tmpfs none rw\n", good)), []string{"problem wrong-mount 800"}},
		{"the directory is absent", inNamespace(container("master:1", both, good), dir), []string{"warning no-directory 800"}},
		{"the directory is the container's own", inNamespace(strings.Replace(container("master:1", both, good), "254:1 /mnt/disks", "254:1 /var/disks", 1)), []string{"problem other-directory 800"}},
		{"the parent is mounted", inNamespace(strings.Replace(container("master:1", both, good), "254:1 /mnt/disks /mnt/disks", "254:1 /mnt /mnt", 1)), nil},
		{"over hops", func(t *testing.T, s *Snapshot) {
			inNamespace(container("master:9", both, good))(t, s)
			s.Views = append(s.Views,
				view(t, "mnt:[4]", "300 290 254:1 / / rw shared:9 master:8 - ext4 /dev/vda1 rw\n", nil, Process{PID: 901}),
				view(t, "mnt:[5]", "400 390 254:1 / / rw shared:8 master:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 902}))
		}, nil},
		{"over hops that end elsewhere", func(t *testing.T, s *Snapshot) {
			inNamespace(container("master:9", both, good))(t, s)
			s.Views = append(s.Views, view(t, "mnt:[4]", "300 290 254:1 / / rw shared:9 master:8 - ext4 /dev/vda1 rw\n", nil, Process{PID: 901}))
		}, []string{"problem not-propagated 800"}},
		{"over a hop that no process sees", inNamespace(container("master:9 propagate_from:1", both, good)), nil},
		{"over a hop, and then one that no process sees", func(t *testing.T, s *Snapshot) {
			inNamespace(container("master:9", both, good))(t, s)
			s.Views = append(s.Views, view(t, "mnt:[4]", "300 290 254:1 / / rw shared:9 master:8 propagate_from:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 901}))
		}, nil},
		{"peers in a circle", func(t *testing.T, s *Snapshot) {
			inNamespace(container("master:9", both, good))(t, s)
			s.Views = append(s.Views, view(t, "mnt:[4]", "300 290 254:1 / / rw shared:9 master:9 - ext4 /dev/vda1 rw\n", nil, Process{PID: 901}))
		}, []string{"problem not-propagated 800"}},
		{"the host's mount is not shared", func(t *testing.T, s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "shared:1 ", "", 1), nil, Process{PID: 1}, kubelet)
		}, []string{"warning host-not-shared"}},

		{"kubelet's root is not shared back", inNamespace(container(good, both, "")), []string{"problem not-shared-back 800"}},
		{"kubelet's root is a slave", inNamespace(container(good, both, "master:1")), []string{"problem not-shared-back 800"}},
		{"kubelet's root is shared with itself alone", inNamespace(container(good, both, "shared:78")), []string{"problem not-shared-back 800"}},
		{"the runtime has another directory at kubelet's root", func(t *testing.T, s *Snapshot) {
			inNamespace(container(good, both, good))(t, s)
			s.Host = view(t, "mnt:[1]", hostTable+"60 27 254:3 / /var/lib/kubelet rw shared:1 - ext4 /dev/vda3 rw\n", nil, Process{PID: 1}, Process{PID: 7, Role: Runtime})
		}, []string{"problem not-shared-back 800"}},
		{"the runtime is a slave of kubelet's", func(t *testing.T, s *Snapshot) {
			inNamespace(container(good, both, "shared:78"))(t, s)
			s.Host.Processes = s.Host.Processes[:1]
			s.Views = append(s.Views, view(t, "mnt:[6]", strings.Replace(hostTable, "shared:1 ", "master:1 ", 1)+"60 27 254:1 /var/lib/kubelet /var/lib/kubelet rw master:78 - ext4 /dev/vda1 rw\n", nil, Process{PID: 70, Role: Runtime}))
		}, nil},
		{"the runtime is kubelet's child", func(t *testing.T, s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[2]", container(good, both, ""), nil, kubelet, Process{PID: 801, Role: Runtime}))
		}, nil},
		{"a volume did not arrive", func(t *testing.T, s *Snapshot) {
			inNamespace(container(good, both, good))(t, s)
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, pv, "/elsewhere", 1), nil, Process{PID: 1})
		}, []string{"problem not-shared-back 800"}},
		{"the container has the bare directory", pod("254:1 " + pv + " /data rw - ext4 /dev/vda1 rw"), []string{"problem bare-pod-directory" + trapped + "local-pv-1f2e3d4c"}},
		{"the container has a part of the bare directory", pod("254:3 /pods/" + uid + "/volumes/kubernetes.io~local-volume/x/sub//deleted /data rw - ext4 /dev/vda3 rw"), []string{"problem bare-pod-directory" + trapped + "x"}},
		{"another volume of the pod", pod("254:1 /var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/x /data rw - ext4 /dev/vda1 rw"), nil},

		{"the container has the disk", pod("254:16 / /data rw - xfs /dev/vdb rw"), nil},
		{"the container has a part of the disk", pod("254:16 /sub /data rw - xfs /dev/vdb rw"), nil},
		{"the container has the class directory", pod("254:1 /mnt/disks /disks rw - ext4 /dev/vda1 rw"), nil},
		{"the container has the class directory, which was made anew", pod("254:1 /mnt/disks//deleted /disks rw - ext4 /dev/vda1 rw"), nil},
		{"the container has a like-named directory", pod("254:1 /mnt/disks-old/x /data rw - ext4 /dev/vda1 rw"), nil},
		{"the container has the system disk", pod("254:1 " + a + " /data rw - ext4 /dev/vda1 rw"), []string{"problem volume-on-system-disk" + trapped}},
		{"a part of it, removed", pod("254:1 " + a + "/sub//deleted /data rw - ext4 /dev/vda1 rw"), []string{"problem volume-on-system-disk" + trapped}},
		{"kubelet's bind is of the system disk", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 27 254:1 "+a+" "+strings.Replace(pv, "1f2e", "9f9e", 1)+" rw shared:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 1}, kubelet)
		}), []string{"problem volume-on-system-disk pod=prod/db-0 container= volume=local-pv-9f9e3d4c"}},
		{"kubelet's bind and the container's are one finding", func(t *testing.T, s *Snapshot) {
			pod("254:1 "+a+"/sub /data rw - ext4 /dev/vda1 rw")(t, s)
			s.Host = view(t, "mnt:[1]", hostTable+"40 27 254:1 "+a+" "+strings.Replace(pv, "1f2e", "9f9e", 1)+" rw shared:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 1}, kubelet)
			// In a service's own namespace, the same directory of the system disk is mounted at another path.
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 254:1 / / rw - ext4 /dev/vda1 rw\n501 500 254:1 "+a+" /x rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 903, Name: "udevd"}))
		}, []string{"problem volume-on-system-disk" + trapped + "local-pv-9f9e3d4c"}},
		{"a service's own mount of the system disk", func(t *testing.T, s *Snapshot) {
			on(func(*Snapshot) {})(t, s)
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 254:1 / / rw - ext4 /dev/vda1 rw\n501 500 254:1 "+a+" "+a+" rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 903, Name: "postgres"}))
		}, []string{"problem volume-on-system-disk 903"}},
		{"the class directory was moved to another filesystem", func(t *testing.T, s *Snapshot) {
			pod("254:1 "+a+" /data rw - ext4 /dev/vda1 rw")(t, s)
			host := strings.ReplaceAll(hostTable+"29 27 254:3 / /mnt/disks rw shared:2 - ext4 /dev/vda3 rw\n", "30 27", "30 29")
			s.Host = view(t, "mnt:[1]", strings.ReplaceAll(host, "31 27", "31 29"), nil, Process{PID: 1}, kubelet)
		}, []string{"problem volume-on-system-disk" + trapped}},

		{"a volume is on a container's own filesystem", inNamespace(container(good, both, good) + "110 105 0:60 " + b + " " + pv + "x rw shared:1 - overlay overlay rw\n"),
			[]string{"problem not-shared-back 800", "problem volume-not-on-its-disk pod=prod/db-0 container= volume=local-pv-1f2e3d4cx"}},
		{"a volume is in a directory of another filesystem", bound("254:3 /x "+pv5, "50 27 254:3 / /srv rw - ext4 /dev/vda3 rw\n"), []string{"warning volume-not-on-its-disk" + volume5}},
		{"a volume of another provisioner is a mount point elsewhere", bound("254:3 /x "+pv5, "50 27 254:3 /x /other/x rw - ext4 /dev/vda3 rw\n"), nil},
		{"a volume that somebody has made is in a directory", bound("254:3 /x "+strings.Replace(pv, "local-pv-1f2e3d4c", "mine", 1), "50 27 254:3 / /srv rw - ext4 /dev/vda3 rw\n"), nil},
		{"a part of another kind of volume", bound("0:81 /x /var/lib/kubelet/pods/"+uid+"/volume-subpaths/memory/main/0", "50 27 0:81 / /srv rw - tmpfs none rw\n"), nil},
		{"a part of a volume of which the disk is not known", bound("254:3 /x/sub /var/lib/kubelet/pods/"+uid+"/volume-subpaths/local-pv-5f2e3d4c/main/0", "50 27 254:3 / /srv rw - ext4 /dev/vda3 rw\n"), nil},
		{"a volume is on what is mounted elsewhere by the disk's name", on(func(s *Snapshot) {
			named("254:48 / ", "volumes/kubernetes.io~local-volume/%s")(t, s)
			s.Host.Mounts = append(s.Host.Mounts, tree(t, "61 27 254:48 / /srv/"+path.Base(a)+" rw - xfs /dev/vdd rw\n")...)
		}), []string{"problem volume-not-on-its-disk pod=prod/db-0 container= volume=" + nameOfA}},
		{"a volume is in another directory of the filesystem", on(func(s *Snapshot) {
			nameOfX := disk.VolumeName("x", "worker-1", "fast")
			bound("254:3 /other/x /var/lib/kubelet/pods/"+uid+"/volumes/kubernetes.io~local-volume/"+nameOfX, "50 27 254:3 /disks/x /mnt/disks/x rw shared:1 - ext4 /dev/vda3 rw\n")(t, s)
			s.Node, s.Classes[0].StorageClass = "worker-1", "fast"
		}), []string{"problem volume-not-on-its-disk pod=prod/db-0 container= volume=" + disk.VolumeName("x", "worker-1", "fast")}},
		{"a volume is on the disk of its name", named("254:16 / ", "volumes/kubernetes.io~local-volume/%s"), nil},
		{"a volume is on the disk of another name", named("254:32 / ", "volumes/kubernetes.io~local-volume/%s"), []string{"problem volume-not-on-its-disk pod=prod/db-0 container= volume=" + nameOfA}},
		{"a part of a volume is on the disk of its name", named("254:16 /sub ", "volume-subpaths/%s/main/0"), nil},
		{"a part of a volume is on the disk of another name", named("254:32 /sub ", "volume-subpaths/%s/main/0"), []string{"problem volume-not-on-its-disk pod=prod/db-0 container=main volume=" + nameOfA}},
		{"the class directory is a filesystem's root", func(t *testing.T, s *Snapshot) {
			host := strings.ReplaceAll(hostTable+"29 27 0:44 / /mnt/disks rw shared:2 - tmpfs none rw\n", "30 27", "30 29")
			s.Host = view(t, "mnt:[1]", strings.ReplaceAll(host, "31 27", "31 29"), nil, Process{PID: 1}, kubelet)
			s.Views = append(s.Views, view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 0:44 /"+path.Base(a)+" /data rw - tmpfs none rw\n202 200 0:44 / /all rw - tmpfs none rw\n", nil, Process{PID: 900, Pod: uid, Container: id}))
		}, []string{"problem volume-on-system-disk" + trapped}},

		{"stacked on the host: another disk", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 30 254:48 / "+a+" rw shared:1 - xfs /dev/vdd rw\n", nil, Process{PID: 1}, kubelet)
		}), []string{"problem covered"}},
		{"stacked on the host: the same disk", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 30 254:16 / "+a+" rw shared:1 - xfs /dev/vdb rw\n", nil, Process{PID: 1}, kubelet)
		}), []string{"warning covered"}},
		{"stacked on the host: a part of the same disk", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 30 254:16 /part "+a+" rw shared:1 - xfs /dev/vdb rw\n", nil, Process{PID: 1}, kubelet)
		}), []string{"problem covered"}},
		{"something is mounted over the class directory", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 27 0:48 / /mnt rw shared:1 - tmpfs none rw\n", nil, Process{PID: 1}, kubelet)
		}), []string{"problem covered", "problem covered"}},
		{"what is mounted over it has no such directory", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 27 0:48 / /mnt rw shared:1 - tmpfs none rw\n", []string{dir, a, b}, Process{PID: 1}, kubelet)
		}), []string{"problem covered"}},
		{"a copy of a disk that is not mounted any more", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /data rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
			s.Disks = append(s.Disks, disk.Dev{Major: 254, Minor: 48})
		}), []string{"warning stale-copy 903"}},
		{"a disk that hotmount has for a moment", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 254:1 / / rw - ext4 /dev/vda1 rw\n501 500 254:48 / /run/hotmount-stage/13 rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
			s.Disks = append(s.Disks, disk.Dev{Major: 254, Minor: 48})
		}), nil},
		{"a foreign disk in a container", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /data rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
		}), nil},
		{"a copy of a disk that is gone", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /data rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
			s.Gone = map[disk.Dev]bool{{Major: 254, Minor: 48}: true}
		}), []string{"warning stale-copy 903"}},
		{"a copy of a disk that is gone, and those who follow it", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"40 30 254:48 / /srv/x rw shared:77 - xfs /dev/vdd rw\n", nil, Process{PID: 1}, kubelet)
			s.Views = append(s.Views, view(t, "mnt:[8]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /srv/x rw shared:77 - xfs /dev/vdd rw\n", nil, Process{PID: 905}))
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /srv/x rw master:77 - xfs /dev/vdd rw\n", nil, Process{PID: 904}))
			s.Views = append(s.Views, view(t, "mnt:[10]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /data rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
			s.Gone = map[disk.Dev]bool{{Major: 254, Minor: 48}: true}
		}), []string{"warning stale-copy 903"}},
		{"a pod has the disk, the class directory has not", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "30 27 254:16 / "+a, "30 27 0:99 / /proc", 1), nil, Process{PID: 1}, kubelet)
		}), []string{"warning stale-copy pod=prod/db-0 container= volume=local-pv-1f2e3d4c"}},
		{"the same, of a disk that no class selects", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "30 27 254:16 / "+a, "30 27 0:99 / /proc", 1), nil, Process{PID: 1}, kubelet)
			s.Disks = nil
		}), []string{"warning stale-copy pod=prod/db-0 container= volume=local-pv-1f2e3d4c"}},
		{"a copy of a disk that is gone, and a private mount of the host", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", hostTable+"41 27 0:48 / /srv rw - tmpfs none rw\n", nil, Process{PID: 1}, kubelet)
			s.Views = append(s.Views, view(t, "mnt:[9]", "500 490 0:61 / / rw - overlay none rw\n501 500 254:48 / /data rw - xfs /dev/vdd rw\n", nil, Process{PID: 903}))
			s.Gone = map[disk.Dev]bool{{Major: 254, Minor: 48}: true}
		}), []string{"warning stale-copy 903"}},

		{"the class directory is below one called pods", on(func(s *Snapshot) {
			const dir = "/srv/pods/fast"
			text := strings.ReplaceAll(hostTable, "/mnt/disks", dir)
			s.Host = view(t, "mnt:[1]", text, nil, Process{PID: 1}, kubelet)
			s.Classes[0].Directory, s.Host.Bases[dir] = dir, dir
			for _, p := range append(s.Host.mountsIn(dir), dir) {
				s.Host.Sights[p] = walk(s.Host.Mounts, p)
			}
		}), nil},

		{"a provisioner has it elsewhere", on(func(s *Snapshot) {
			v := view(t, "mnt:[8]", strings.ReplaceAll(container("master:1", both, ""), " /mnt/disks", " /disks"), nil, Process{PID: 850, Role: Provisioner})
			v.Mounts[1].Root = dir
			v.Bases[dir] = "/disks"
			for _, p := range []string{dir, a, b} {
				v.Sights["/disks"+strings.TrimPrefix(p, dir)] = walk(v.Mounts, "/disks"+strings.TrimPrefix(p, dir))
			}
			s.Views = append(s.Views, v)
		}), nil},
		{"a provisioner without propagation", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[8]", container("", both, ""), nil, Process{PID: 850, Role: Provisioner}))
		}), []string{"problem not-propagated 850"}},
		{"no provisioner has the directory", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[8]", container("", both, ""), []string{dir}, Process{PID: 850, Role: Provisioner}))
		}), []string{"warning no-directory"}},
		{"what a provisioner has cannot be seen", on(func(s *Snapshot) {
			v := view(t, "mnt:[8]", container("", both, ""), nil, Process{PID: 850, Role: Provisioner})
			v.Sights[dir] = Sight{Failure: "no answer"}
			s.Views = append(s.Views, v)
		}), []string{"warning not-seen 850"}},
		{"the daemon may not write", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[7]", strings.Replace(strings.ReplaceAll(hostTable, "shared", "master"), "/ / rw", "/ / ro", 1), nil, Process{PID: 650, Role: Agent}))
		}), []string{"problem read-only 650"}},
		{"the kernel has made the root filesystem read-only", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "/dev/vda1 rw", "/dev/vda1 ro,errors=remount-ro", 1), nil, Process{PID: 1}, kubelet)
			s.Views = append(s.Views, view(t, "mnt:[7]", strings.Replace(strings.ReplaceAll(hostTable, "shared", "master"), "/dev/vda1 rw", "/dev/vda1 ro", 1), nil, Process{PID: 650, Role: Agent}))
		}), []string{"problem read-only"}},
		{"the host's mount is read-only", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "/ / rw", "/ / ro", 1), nil, Process{PID: 1}, kubelet)
		}), []string{"problem read-only"}},
		{"a disk is read-only", on(func(s *Snapshot) {
			s.Host = view(t, "mnt:[1]", strings.Replace(hostTable, "/dev/vdb rw", "/dev/vdb ro", 1), nil, Process{PID: 1}, kubelet)
		}), nil},
		{"the daemon does not see", on(func(s *Snapshot) {
			s.Views = append(s.Views, view(t, "mnt:[7]", strings.ReplaceAll(hostTable, "shared:1", ""), nil, Process{PID: 650, Role: Agent}))
		}), []string{"problem not-propagated 650"}},

		{"entries", on(func(s *Snapshot) {
			s.Entries = map[string][]Entry{dir: {
				{Name: path.Base(a), Kind: "directory"}, {Name: path.Base(b), Kind: "directory", First: "lost"},
				{Name: "link", Kind: "symlink", Target: "/dev/vde"}, {Name: "odd", Kind: "symlink", Target: "/etc"}, {Name: "pipe", Kind: "fifo"},
				{Name: "data", Kind: "directory", First: "f"}, {Name: "empty", Kind: "directory"}, {Name: "file", Kind: "file"}, {Name: "dead", Kind: "directory", Failure: "input/output error"},
			}}
		}), []string{"problem data-hidden", "problem not-a-mount", "problem not-a-mount", "warning not-a-mount", "warning not-a-mount", "warning not-a-mount", "warning not-seen"}},
		{"what does not depend on mounts", on(func(s *Snapshot) {
			s.Found.Add(Finding{}, Note, NewDisksHeld, nil, "class default")
			s.Found.Add(Finding{}, Problem, FailedDisk, []string{"hotmount release vdb"}, "/dev/vdb has failed")
		}), []string{"note new-disks-held", "problem failed-disk"}},
		{"loop devices", on(func(s *Snapshot) { s.Classes[0].BackingFile = []string{"*"} }), []string{"warning loop-devices"}},
		{"loop devices without a kubelet", func(_ *testing.T, s *Snapshot) { s.Classes[0].BackingFile = []string{"*"} }, []string{"note no-kubelet"}},
		{"no kubelet", func(*testing.T, *Snapshot) {}, []string{"note no-kubelet"}},
		{"no class directory", func(t *testing.T, s *Snapshot) {
			s.Host = view(t, "mnt:[1]", "27 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n", []string{dir}, Process{PID: 1})
		}, []string{"note no-directory"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := node(t)
			tt.put(t, s)
			r := Examine(s)
			want := tt.want
			if want == nil {
				want = []string{}
			}
			for _, f := range r.Findings {
				if left := placeholder.FindString(strings.Join(f.Do, "")); left != "" || f.Do != nil && f.Do[0] == "" {
					t.Errorf("%s: the advice lacks a value (%s): %q", f.Kind, left, f.Do)
				}
			}
			if diff := cmp.Diff(want, found(r)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
				for _, f := range r.Findings {
					t.Log(f.What)
				}
			}
		})
	}
}

// TestVolumeFinding checks the texts of a finding: where the data is, how to read the data, and what to do.
func TestVolumeFinding(t *testing.T) {
	s := node(t)
	s.Host.Processes = append(s.Host.Processes, kubelet)
	s.Views = append(s.Views, view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:1 "+a+"//deleted /da\\040ta rw - ext4 /dev/vda1 rw\n", nil,
		Process{PID: 900, Name: "postgres", Pod: uid, Container: id}))
	f := Examine(s).Findings[0]
	if f.Data != "" || f.Reach != "/proc/900/root/da ta" {
		t.Errorf("data %q, reach %q", f.Data, f.Reach)
	}
	if want := "pod prod/db-0 (" + uid + "), container postgres: the data is on the system disk, in " + a + " of ext4 /dev/vda1 (254:1); that directory was removed, and the data is lost when the last process that uses the directory ends"; f.What != want {
		t.Errorf("got  %s\nwant %s", f.What, want)
	}
	if want := []string{"mkdir -p /root/rescued && mkdir /root/rescued/" + uid + "-" + path.Base(a) + " && cp -a '/proc/900/root/da ta'/. /root/rescued/" + uid + "-" + path.Base(a) + "/", "# when the copy is complete and kubelet sees the right disks: kubectl -n prod delete pod db-0"}; !slices.Equal(f.Do, want) {
		t.Errorf("do %q", f.Do)
	}
}

// TestRescue checks that no two findings propose the same directory for a copy, even if the names of pods and volumes
// are similar.
func TestRescue(t *testing.T) {
	s := node(t)
	// Two pods with similar names each have two mounts of the system disk.
	for i, pod := range []string{uid, strings.Replace(uid, "6a6e", "7a7e", 1)} {
		s.Views = append(s.Views, view(t, fmt.Sprintf("mnt:[%d]", 30+i), "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:1 "+a+"/x /data rw - ext4 /dev/vda1 rw\n202 200 254:1 "+b+"/x /wal rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 900 + i, Pod: pod}))
	}
	s.Entries = map[string][]Entry{dir: {{Name: path.Base(a), Kind: "directory", First: "x"}, {Name: path.Base(b), Kind: "directory", First: "x"}}}
	seen := map[string]bool{}
	for _, f := range Examine(s).Findings {
		line := strings.Join(f.Do, "\n")
		_, rest, found := strings.Cut(line, "mkdir -p /root/rescued && mkdir ")
		to, _, _ := strings.Cut(rest, " ")
		switch {
		case f.Kind != OnSystemDisk && f.Kind != DataHidden:
		case !found || !strings.HasPrefix(to, "/root/rescued/") || seen[to] || !strings.Contains(rest, "/. "+to+"/"):
			t.Errorf("%s: %s", f.Kind, line)
		default:
			seen[to] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d copies", len(seen))
	}
	e := examiner{rescued: map[string]bool{}}
	for _, tt := range [][2]string{{"a/../b$(x)", "a_.._b__x_"}, {"a/../b$(x)", "a_.._b__x_.2"}, {strings.Repeat("é", 300), strings.Repeat("_", 200)}} {
		if to := e.copyDirectory(tt[0]); to != "/root/rescued/"+tt[1] {
			t.Errorf("%q: %s", tt[0], to)
		}
	}
}

// TestWhereTheDataIs checks the host path of the data, and the path at which root can read the data now.
func TestWhereTheDataIs(t *testing.T) {
	s := node(t)
	s.Views = append(s.Views, view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:1 "+a+"/sub /data rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 900, Pod: uid}))
	if f := Examine(s).Findings[0]; f.Data != a+"/sub" || f.Reach != "/proc/900/root/data" {
		t.Errorf("data %q, reach %q", f.Data, f.Reach)
	}
	s = node(t)
	s.Host = view(t, "mnt:[1]", hostTable+"40 27 254:1 "+b+" "+pv+"x rw shared:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 1})
	if f := Examine(s).Findings[0]; f.Data != b || f.Reach != pv+"x" {
		t.Errorf("data %q, reach %q", f.Data, f.Reach)
	}
}

// TestReachesTheData checks that a finding names the container's mount, and not kubelet's mount. Data that was removed
// on the host is still readable through the container's mount.
func TestReachesTheData(t *testing.T) {
	s := node(t)
	s.Host = view(t, "mnt:[1]", hostTable+"40 27 254:1 "+a+" "+pv+"x rw shared:1 - ext4 /dev/vda1 rw\n", nil, Process{PID: 1})
	s.Views = append(s.Views,
		view(t, "mnt:[2]", "500 490 254:1 / / rw - ext4 /dev/vda1 rw\n501 500 254:1 "+a+" "+pv+"x rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 700, Name: "udevd"}),
		view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:1 "+a+"/sub /data rw - ext4 /dev/vda1 rw\n", nil, Process{PID: 900, Pod: uid, Container: id}))
	f := Examine(s).Findings
	if len(f) != 2 || f[0].Reach != "/proc/900/root/data" || len(f[0].Processes) != 2 || f[0].Processes[0].PID != 900 || f[0].Pod.Container != "postgres" {
		t.Errorf("got %+v", f)
	}
}

// TestSeen checks what the kubelet sees at each path.
func TestSeen(t *testing.T) {
	s := node(t)
	// The kubelet does not see the first disk. At the path of the second disk, the kubelet sees a directory of
	// another filesystem.
	s.Views = append(s.Views, view(t, "mnt:[2]", container("master:1", "103 101 254:3 "+b+" "+b+" rw - ext4 /dev/vda3 rw\n", "shared:1"), nil, kubelet))
	got := Examine(s).Seen[0].Mounts
	want := []SeenMount{
		{Path: a, Sees: "directory", Dev: disk.Dev{Major: 254, Minor: 1}, Root: a},
		{Path: b, Sees: "other", Dev: disk.Dev{Major: 254, Minor: 3}, Root: b},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHostileNames checks that a name from a pod is escaped for the terminal and quoted for the shell.
func TestHostileNames(t *testing.T) {
	s := node(t)
	evil := `x\033[31m$(reboot)'\012y`
	name := "x\x1b[31m$(reboot)'\ny"
	s.Pods[uid] = PodName{name, name}
	s.Views = append(s.Views, view(t, "mnt:[3]", "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:1 "+a+"/"+evil+" /"+evil+" rw - "+"ext4 "+evil+" rw\n", nil,
		Process{PID: 900, Name: name, Pod: uid, Container: id}))
	s.Containers[id] = name
	s.Entries = map[string][]Entry{dir: {{Name: name, Kind: "directory", First: name}, {Name: name, Kind: "file"}}}
	for _, f := range Examine(s).Findings {
		for _, line := range append(f.Do, f.What) {
			if strings.ContainsAny(line, "\x1b\n") {
				t.Errorf("%s: %q", f.Kind, line)
			}
		}
		for _, line := range f.Do {
			if i := strings.Index(line, "$(reboot)"); i >= 0 && strings.Count(line[:i], "'")%2 == 0 {
				t.Errorf("%s: not quoted: %s", f.Kind, line)
			}
		}
	}
}

// TestCovered checks that the command in the advice unmounts the hiding mount, and leaves the hidden disk mounted.
func TestCovered(t *testing.T) {
	for mount, want := range map[string]string{
		"40 30 254:48 / " + a + " rw - xfs /dev/vdd rw\n": "umount " + a + " ",
		"40 27 0:48 / /mnt rw - tmpfs none rw\n":          "umount /mnt ",
		"40 27 0:48 / /mnt/disks rw - tmpfs none rw\n":    "umount /mnt/disks ",
	} {
		s := node(t)
		s.Host = view(t, "mnt:[1]", hostTable+mount, nil, Process{PID: 1}, kubelet)
		f := Examine(s).Findings
		if i := slices.IndexFunc(f, func(f Finding) bool { return f.Kind == Covered }); i < 0 || !strings.HasPrefix(f[i].Do[1], want) {
			t.Errorf("%s: %+v", mount, f)
		}
	}
}

func TestConfirm(t *testing.T) {
	first := &Report{Findings: []Finding{{Kind: WrongMount, Paths: []string{a, b}, What: "2"}, {Kind: NotSeen, What: "x"}, {Kind: StaleCopy, Paths: []string{a}}, {Kind: Covered, Paths: []string{a}}}}
	again := &Report{Seen: []Seen{{}}, Findings: []Finding{{Kind: WrongMount, Paths: []string{b}, What: "1"}, {Kind: NotSeen, What: "y"}, {Kind: NoMount, Paths: []string{a}}, {Kind: Covered, Paths: []string{b}}}}
	first.confirm(again)
	if len(first.Findings) != 1 || first.Findings[0].What != "1" || len(first.Seen) != 1 {
		t.Errorf("got %+v", first)
	}
}
