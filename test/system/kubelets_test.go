//go:build vm && (long || full)

package system

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"hotmount/internal/doctor"
	"hotmount/test/worker"
)

// TestDoctorKubelets: every way in which a kubelet can have the class directory
// is told apart, before and after a disk comes that the wrong ones do not see,
// and what the doctor says is what the kernel then does.
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
			// Its own root is no mount of the host's either.
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
			// What the kernel says, in that very namespace.
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
		// Nothing else, neither of others nor of nobody.
		if slices.Sort(all); !slices.Equal(found(r), all) {
			t.Errorf("%s: found %q, want %q\n%s", round, found(r), all, words(r))
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
