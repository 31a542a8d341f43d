//go:build vm && full

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hotmount/test/worker"
)

// TestTryOnDebian12: what make try and make bench run works on a Debian whose PID 1 is systemd.
func TestTryOnDebian12(t *testing.T) { tryOn(t, worker.Options{Memory: 2048}) }

// TestTryOnDebian13: so it does with a newer kernel and systemd.
func TestTryOnDebian13(t *testing.T) { tryOn(t, worker.Options{Suite: "trixie", Memory: 2048}) }

// tryOn runs try to its end, again after a killed run, and one turn of bench. They leave nothing behind. The worker's
// own hotmount and the container's do not touch each other's disks.
func tryOn(t *testing.T, o worker.Options) {
	m, w := start(t, o)
	m.putTry()
	// The modules are the host's to load: try names them, and loads none.
	loaded := m.run("cut -d ' ' -f 1 /proc/modules")
	if _, err := m.Run(ctx(t), tryCommand); err == nil || !strings.Contains(err.Error(), "modprobe -a overlay xfs") {
		t.Errorf("without modules: %v", err)
	}
	if got := m.run("cut -d ' ' -f 1 /proc/modules"); got != loaded {
		t.Errorf("of modules there were %q, after try %q", loaded, got)
	}
	m.run("modprobe -a overlay xfs loop; truncate -s 400M /srv/decoy.img; losetup /dev/loop0 /srv/decoy.img")
	own, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.mounted(own)
	const written = "awk '{print $5, $6, $7, $12, $14}' /sys/block/loop0/stat"
	before, decoy := m.run(tryLeaves), m.run(written)

	m.tried(own)
	m.run(tryCommand + ` >/root/killed.log 2>&1 & pid=$!
for i in $(seq 1500); do ! grep -q 'attach lvm.img' /root/killed.log || break; sleep 0.2; done
kill -9 $pid; [ -d /run/hotmount-container/try ] || { cat /root/killed.log >&2; exit 1; }`)
	m.tried(own)
	if after := m.run(tryLeaves); after != before {
		t.Errorf("before try there was\n%s\nafter it is\n%s", before, after)
	}
	m.benched()
	if after := m.run(tryLeaves); after != before {
		t.Errorf("before bench there was\n%s\nafter it is\n%s", before, after)
	}
	if got := m.run(written); got != decoy {
		t.Errorf("the host's loop device was written: %s, before %s", got, decoy)
	}
	if got := m.run("journalctl -b -o cat -u 'hotmount*' | grep -E 'loop[1-9]' || true"); got != "" {
		t.Errorf("the worker's hotmount has seen the container's disks:\n%s", got)
	}
}

// putTry puts try and bench, as make builds them, and the container's userland on the worker.
func (m machine) putTry() {
	m.t.Helper()
	dir := m.t.TempDir()
	if err := worker.NewContainerRoot(ctx(m.t), worker.DefaultSuite, filepath.Join(dir, "root.tar.gz"), os.Stderr); err != nil {
		m.t.Fatal(err)
	}
	for _, program := range []string{"try", "bench"} {
		build := exec.CommandContext(ctx(m.t), "go", "build", "-trimpath", "-o", filepath.Join(dir, program), "hotmount/test/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			m.t.Fatalf("%v: %s", err, said)
		}
	}
	for local, remote := range map[string]string{
		filepath.Join(dir, "root.tar.gz"): "root.tar.gz", filepath.Join(dir, "try"): "try", filepath.Join(dir, "bench"): "bench", deb(m.t): "hotmount.deb",
	} {
		if err := m.Put(ctx(m.t), local, "/root/"+remote); err != nil {
			m.t.Fatal(err)
		}
	}
}

const (
	tryCommand   = "/root/try -deb /root/hotmount.deb -root /root/root.tar.gz </dev/null"
	benchCommand = "/root/bench -deb /root/hotmount.deb -root /root/root.tar.gz -only one -turns 1 -dir /root/results </dev/null"
	// tryLeaves prints all that a container has on its host, and the host's files that are newer than its start.
	tryLeaves = `find /etc /opt /root /srv /usr -xdev -newer /root/try -type f ! -path '/root/.cache/*' ! -path '/root/results/*' ! -path /root/killed.log
ls /sys/block; losetup -a; findmnt -rno TARGET,SOURCE | sort; find /run/hotmount-container -mindepth 1 ! -name '*.lock' 2>/dev/null || true
find /sys/fs/cgroup -name 'hotmount-try*' -o -name 'hotmount-bench*'
systemctl list-units --all --no-legend 'hotmount-try*' 'hotmount-bench*'; systemctl --failed --no-legend; pgrep -a sleep || true`
)

// tried runs try to its end. Its output has what a user is to see.
func (m machine) tried(own string) {
	m.t.Helper()
	out := m.run("time " + tryCommand + " 2>&1")
	m.t.Log(out)
	for _, words := range []string{"try# attach lvm.img", "/mnt/disks/", "precious", "formatted: xfs", "active (running)", "All of this took"} {
		if !strings.Contains(out, words) {
			m.t.Errorf("try does not print %q", words)
		}
	}
	if !regexp.MustCompile(`(?m)^` + own + ` .*ignore +no class selects it$`).MatchString(out) {
		m.t.Errorf("the container does not ignore the worker's disk %s", own)
	}
}

// benched takes one turn of each way that mounts one disk.
func (m machine) benched() {
	m.t.Helper()
	m.t.Log(m.run("time " + benchCommand + " 2>&1"))
	table := m.run("cat /root/results/bench.txt")
	m.t.Log(table)
	for _, words := range []string{"hotmount", "rule tuned", "systemd-mount", "mount(2)"} {
		if !strings.Contains(table, words) || strings.Contains(table, "not measured") {
			m.t.Errorf("the bench has measured no %s", words)
		}
	}
}
