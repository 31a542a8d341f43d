//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestRests: a daemon that has nothing to do does nothing. While network devices come and go, none of its threads
// runs for longer than Go's runtime lets an idle program sleep, which is a minute
// (cmd/hotmount/sysmon.go).
func TestRests(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	m.mounted(name)
	// It rests a minute after it has done something. Others on the system may mount something, which is for
	// it to hear, in one of the spans.
	m.run(`pid=$(systemctl show -P MainPID hotmount)
		switches() { cat /proc/$pid/task/*/status | awk '/ctxt_switches/ {n += $2} END {print n}'; }
		sleep 75
		for i in 1 2 3 4; do
			before=$(switches); for d in $(seq 20); do ip link add d$d type veth; ip link del d$d; done; sleep 65; after=$(switches)
			[ "$before" -ge 0 ] && [ "$after" -ge "$before" ] && [ "$pid" = $(systemctl show -P MainPID hotmount) ] || exit 1
			[ "$after" -gt "$before" ] || exit 0
			echo "woken: $((after - before)) context switches" >&2
		done
		exit 1`)
}
