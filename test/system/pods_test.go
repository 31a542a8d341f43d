//go:build vm && (long || full)

package system

import (
	"fmt"
	"slices"
	"testing"

	"hotmount/internal/doctor"
	"hotmount/test/worker"
)

// TestDoctorManyPods: of many pods those that are trapped are found, and nothing
// else.
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
	// The first two get the directory below the mount, before the others come.
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
		t.Errorf("without the trapped ones: exit code %s\n%s", code, words(r))
	}
	// The fastest of three, in seconds of the clock and of a processor, against
	// reading every mount table there is: under emulation only the ratio means
	// anything.
	var wall, cpu, tables float64
	out := m.run(`TIMEFORMAT='%R %U %S'
		best() { for i in 1 2 3; do { time "$@" >/dev/null 2>&1; } 2>&1; done | awk '{c=$2+$3; if (NR==1 || c<min) min=c; if (NR==1 || $1<wall) wall=$1} END {print wall, min}'; }
		tables() { cat /proc/[0-9]*/mountinfo; }
		best hotmount doctor; best tables | cut -d ' ' -f 2`)
	if _, err := fmt.Sscan(out, &wall, &cpu, &tables); err != nil || cpu > 15*tables {
		t.Errorf("one look takes %v s of a processor, all mount tables %v s (%v)", cpu, tables, err)
	}
	t.Logf("one look: %v s, %v s of a processor; all mount tables: %v s", wall, cpu, tables)
	// What it costs: a few files of each process, whatever it has mounted.
	var calls, processes int
	out = m.run("strace -f -qq -e trace=openat,readlinkat -o /root/trace hotmount doctor >/dev/null; grep -c '\"/proc/' /root/trace; ls -d /proc/[0-9]* | wc -l")
	if _, err := fmt.Sscan(out, &calls, &processes); err != nil || calls > 10*processes {
		t.Errorf("%d files are opened and links read for %d processes (%v)", calls, processes, err)
	}
	t.Logf("%d files opened and links read, %d processes", calls, processes)
}
