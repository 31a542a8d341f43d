package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// process makes the files and links in /proc that Users reads for a process.
func process(t *testing.T, root, pid string, files, links map[string]string) {
	t.Helper()
	dir := filepath.Join(root, "proc", pid)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUsers(t *testing.T) {
	const (
		where = "/mnt/disks/5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
		pod   = "0e3b1b0a-1111-2222-3333-444444444444"
		host  = "24 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n" +
			"90 24 254:16 / " + where + " rw shared:55 - xfs /dev/vdb rw\n"
	)
	inHost := map[string]string{"ns/mnt": "mnt:[1]"}
	tests := []struct {
		name  string
		table string
		put   func(root string)
		want  []User
	}{
		{"nobody", host, func(string) {}, nil},
		{"a pod's bind mount by the kubelet", host + "91 24 254:16 / /var/lib/kubelet/pods/" + pod + "/volumes/kubernetes.io~local-volume/local-pv-1 rw shared:55 - xfs /dev/vdb rw\n", func(string) {},
			[]User{{Pod: pod, How: "mounted at /var/lib/kubelet/pods/" + pod + "/volumes/kubernetes.io~local-volume/local-pv-1"}}},
		{"an open file", host, func(root string) {
			process(t, root, "77", map[string]string{"comm": "postgres\n", "fdinfo/3": "pos:\t0\nflags:\t02\nmnt_id:\t90\n", "fdinfo/4": "mnt_id:\t90\n", "fdinfo/1": "mnt_id:\t24\n"}, inHost)
		}, []User{{PID: 77, Command: "postgres", How: "has a file open"}}},
		{"a file of another filesystem", host, func(root string) {
			process(t, root, "77", map[string]string{"comm": "sh\n", "fdinfo/3": "mnt_id:\t24\n", "maps": "7f00-7f01 r--p 0 fe:01 123 /bin/sh\n"}, inHost)
		}, nil},
		{"a mapped file", host, func(root string) {
			process(t, root, "78", map[string]string{"comm": "db\n", "maps": "7f00-7f01 r--p 0 fe:01 123 /bin/sh\n7f01-7f02 rw-s 0 fe:10 131 /data\n"}, inHost)
		}, []User{{PID: 78, Command: "db", How: "has a file mapped"}}},
		{"a copy that follows the host", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "provisioner\n", "mountinfo": "180 170 254:1 / / rw shared:9 master:1 - ext4 /dev/vda1 rw\n190 180 254:16 / " + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, nil},
		{"a private copy on what follows the host", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "provisioner\n", "mountinfo": "180 170 254:1 /mnt/disks /disks rw master:1 - ext4 /dev/vda1 rw\n190 180 254:16 / " + strings.TrimPrefix(where, "/mnt") + " rw - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, nil},
		{"a copy that follows one that follows the host", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "kubelet\n", "mountinfo": "180 170 254:1 / / rw shared:9 master:1 - ext4 /dev/vda1 rw\n190 180 254:16 / " + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
			process(t, root, "81", map[string]string{"comm": "app\n", "mountinfo": "280 270 254:1 / /host rw master:9 - ext4 /dev/vda1 rw\n290 280 254:16 / /host" + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[3]"})
			process(t, root, "82", map[string]string{"comm": "app\n", "mountinfo": "380 370 254:1 / /host rw master:8 propagate_from:1 - ext4 /dev/vda1 rw\n390 380 254:16 / /host" + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[4]"})
		}, nil},
		// docker -v UUID:/data:rslave, BindPaths= of systemd and a volume with HostToContainer each make a slave copy
		// of a mount.
		{"a copy that is a slave, on what is the container's own", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "app\n", "mountinfo": "180 170 0:40 / / rw - overlay overlay rw\n190 180 254:16 / " + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, []User{{PID: 80, Command: "app", How: "mounted at " + where + " in its mount namespace"}}},
		{"a copy at another place of what follows the host", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "app\n", "mountinfo": "180 170 254:1 / / rw shared:9 master:1 - ext4 /dev/vda1 rw\n190 180 254:16 / /srv rw shared:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, []User{{PID: 80, Command: "app", How: "mounted at /srv in its mount namespace"}}},
		{"a copy on what the process does not see", host, func(root string) {
			process(t, root, "80", map[string]string{"comm": "app\n", "mountinfo": "190 180 254:16 / " + where + " rw master:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, []User{{PID: 80, Command: "app", How: "mounted at " + where + " in its mount namespace"}}},
		{"nothing follows a host that shares nothing", strings.Replace(host, "shared:1 ", "", 1), func(root string) {
			process(t, root, "80", map[string]string{"comm": "app\n", "mountinfo": "180 170 254:1 / / rw - ext4 /dev/vda1 rw\n190 180 254:16 / " + where + " rw shared:55 - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[2]"})
		}, []User{{PID: 80, Command: "app", How: "mounted at " + where + " in its mount namespace"}}},
		{"a copy of a container's own", host, func(root string) {
			process(t, root, "81", map[string]string{"comm": "app\n", "cgroup": "0::/kubepods.slice/kubepods-pod0e3b1b0a_1111_2222_3333_444444444444.slice/x\n", "mountinfo": "200 180 254:16 / /data rw - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[3]"})
			process(t, root, "82", map[string]string{"comm": "app\n", "mountinfo": "200 180 254:16 / /data rw - xfs /dev/vdb rw\n", "fdinfo/9": "mnt_id:\t200\n"}, map[string]string{"ns/mnt": "mnt:[3]"})
		}, []User{{PID: 81, Command: "app", Pod: pod, How: "mounted at /data in its mount namespace"}, {PID: 82, Command: "app", How: "has a file open"}}},
		{"a static pod, which is no pod that can be deleted", host, func(root string) {
			process(t, root, "81", map[string]string{"comm": "app\n", "cgroup": "0::/kubepods/pod0123456789abcdef0123456789abcdef/x\n", "fdinfo/3": "mnt_id:\t90\n"}, inHost)
		}, []User{{PID: 81, Command: "app", How: "has a file open"}}},
		{"hostile names", host, func(root string) {
			process(t, root, "83", map[string]string{"comm": "a\x1b[2J\n", "mountinfo": "200 180 254:16 / /a\\033b rw - xfs /dev/vdb rw\n"}, map[string]string{"ns/mnt": "mnt:[3]"})
		}, []User{{PID: 83, Command: "a\x1b[2J", How: `mounted at /a\x1bb in its mount namespace`}}},
		{"one that has ended", host, func(root string) { process(t, root, "84", map[string]string{"comm": "x"}, nil) }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			process(t, root, "1", map[string]string{"mountinfo": tt.table, "comm": "systemd\n"}, inHost)
			tt.put(root)
			got, err := Users(root, disk.Dev{Major: 254, Minor: 16}, where)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUsersByAMountOffTheTree checks that Users finds a process even if the mount that it uses is no longer in any
// mount table.
func TestUsersByAMountOffTheTree(t *testing.T) {
	root := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	dev := disk.Dev{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev)}
	namespace := map[string]string{"ns/mnt": "mnt:[1]"}
	process(t, root, "1", map[string]string{"mountinfo": "24 1 254:1 / / rw - ext4 /dev/vda1 rw\n", "comm": "systemd\n"}, namespace)
	process(t, root, "77", map[string]string{"comm": "db\n", "fdinfo/3": "mnt_id:\t99\n"}, map[string]string{"ns/mnt": "mnt:[1]", "fd/3": root})
	process(t, root, "78", map[string]string{"comm": "sh\n", "fdinfo/3": "mnt_id:\t98\n"}, map[string]string{"ns/mnt": "mnt:[1]", "fd/3": "/proc/self", "cwd": root})
	got, err := Users(root, dev, "")
	want := []User{{PID: 77, Command: "db", How: "has a file open"}, {PID: 78, Command: "sh", How: "has its working directory there"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
