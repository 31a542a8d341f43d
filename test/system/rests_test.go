//go:build vm && (long || full)

package system

import (
	"testing"

	"hotmount/test/worker"
)

// TestRests: an idle daemon wakes up at most 60 times in ten minutes, also while network devices come and go. A wake-up
// is a second in which one of its threads runs.
func TestRests(t *testing.T) {
	m, w := start(t, worker.Options{})
	name, _ := m.attach(w, worker.Disk{File: made(t, gib)})
	m.mounted(name)
	// It rests a minute after it has done something. Others on the system may mount something, which it has to
	// hear, in one of the spans of 130 seconds. The shell that looks starts no process, so that udev has no event.
	m.run(`pid=$(systemctl show -P MainPID hotmount)
		switches() {
			n=0
			for status in /proc/$pid/task/*/status; do
				while read -r name value; do case $name in *voluntary_ctxt_switches:) n=$((n + value)) ;; esac; done <$status
			done
			[ "$n" -gt 0 ]
		}
		exec 8<> <(:)
		sleep 75
		for i in 1 2 3; do
			for d in $(seq 20); do ip link add d$d type dummy; ip link del d$d; done
			woken=0; switches
			for second in $(seq 130); do
				before=$n; read -rt 1 -u 8 || [ $? -gt 128 ]; switches
				[ "$n" = "$before" ] || woken=$((woken + 1))
			done
			[ "$pid" = $(systemctl show -P MainPID hotmount) ] || exit 1
			[ $woken -gt 13 ] || exit 0
			echo "woken: in $woken of 130 seconds" >&2
		done
		exit 1`)
}
