//go:build vm

package system

import (
	"context"
	"strconv"
	"testing"

	"hotmount/test/worker"
)

// TestFaultyConfigurationAtBoot checks that volumes are mounted at a restart and at boot despite a faulty
// configuration, such as a file with a wrong mode. Until the fault is corrected, no disk is formatted and no new disk
// is mounted. The daemon uses a corrected configuration by itself. Without last good settings the daemon does not
// start.
func TestFaultyConfigurationAtBoot(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const gauge = "/var/lib/prometheus/node-exporter/hotmount.prom"
	m.run("mkdir -p /var/lib/prometheus/node-exporter; systemctl restart hotmount")
	name, id := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	uuid := m.mounted(name)
	m.run("echo kept >/mnt/disks/" + uuid + "/f; sync")
	m.wait("the volume to be on record", "grep -q "+uuid+" /var/lib/hotmount/filesystems.json")
	m.run("touch /etc/hotmount/config.yaml; chmod 664 /etc/hotmount/config.yaml; systemctl restart hotmount")
	m.says("cannot use the configuration: .*the file's mode is 0664.*last good settings.*hotmount config check")

	zeros, other := blank(t, 320<<20), made(t, 320<<20)
	before := [2]string{digest(t, zeros), digest(t, other)}
	empty, emptyID := m.attach(w, worker.Disk{File: zeros})
	foreign, foreignID := m.attach(w, worker.Disk{File: other})
	faulty := func() {
		t.Helper()
		for _, held := range []string{empty, foreign} {
			m.says("/dev/" + held + " .*hold: the configuration has a fault: until it is corrected, hotmount uses only disks on record: .*0664.*hotmount config check")
			if out, err := m.Run(ctx(t), "hotmount accept "+held); err == nil {
				t.Errorf("%s is accepted: %s", held, out)
			}
			m.told(held + " is held .operator.: the configuration has a fault")
		}
		m.told("^hotmount runs on its last good settings, because the configuration has a fault: .*0664.*hotmount config check DISK SIZE")
		m.run("hotmount status -o json | grep '\"configuration_fault\": \".*0664'")
		m.wait("the line for systemctl status", "systemctl show -p StatusText --value hotmount | grep '^1 mounted, 2 held, .*the configuration has a fault'")
		m.run("(hotmount doctor || [ $? = 3 ]) | grep -A 2 '^WARNING: the configuration has a fault'")
		m.wait("the metric", "grep -x 'hotmount_configuration_fault 1' "+gauge)
		if got := m.run("cat /mnt/disks/" + uuid + "/f"); got != "kept" {
			t.Errorf("the volume has %q", got)
		}
		if after := [2]string{digest(t, zeros), digest(t, other)}; after != before {
			t.Error("a disk that is held was written to")
		}
	}
	faulty()
	if err := w.(interface{ Reboot(context.Context) error }).Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for of, to := range map[string]*string{id: &name, emptyID: &empty, foreignID: &foreign} {
		var err error
		if *to, err = w.BlockDevice(ctx(t), of); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.mounted(name); got != uuid {
		t.Errorf("mounted as %s", got)
	}
	faulty()

	m.run("chmod 644 /etc/hotmount/config.yaml")
	m.mounted(empty)
	m.mounted(foreign)
	m.wait("the metric", "grep -x 'hotmount_configuration_fault 0' "+gauge)
	m.run("! hotmount status | grep 'has a fault'")
	m.wait("the line for systemctl status", "systemctl show -p StatusText --value hotmount | grep '^3 mounted, 0 held, 0 refused, 0 failing$'")

	// The file of the last good settings has an unknown version at first, and is missing later.
	m.run("chmod 664 /etc/hotmount/config.yaml; sed -i '1s/version 1/version 9/' /var/lib/hotmount/settings.yaml; systemctl restart --no-block hotmount")
	m.says("the file's mode is 0664")
	m.says("cannot use the last good settings instead: .*has version .9., but this hotmount knows version 1")
	m.run("rm /var/lib/hotmount/settings.yaml")
	m.wait("the daemon to fail", "systemctl show -p NRestarts --value hotmount | grep -v '^0$'")
	m.run("chmod 644 /etc/hotmount/config.yaml")
	m.wait("the daemon to start", "systemctl is-active hotmount && [ -e /var/lib/hotmount/settings.yaml ]")
}

// TestMountCannotRun checks that hotmount retries a mount while the node cannot mount anything. Once mount(8) works
// again, the disk is mounted without help. Until the mount succeeds, status, plan and explain all show the number of
// attempts. The journal mentions no format, because the disk is known to hold XFS.
func TestMountCannotRun(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	m.run("chmod -x /usr/bin/mount")
	name, _ := m.attach(w, worker.Disk{File: made(t, 320<<20)})
	m.wait("the fourth try", "(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' ' | grep -E '"+name+" is failed: .*failed [4-9] times so far'")
	for _, command := range []string{"(hotmount status || [ $? = 3 ]) | tr -s ' \\n' ' '", "hotmount plan | grep '^" + name + " '", "hotmount explain " + name} {
		m.wait("the tries in "+command, command+" | grep -E 'failed ([4-9]|[0-9][0-9]) times so far, tried again at [0-9:]+ UTC'")
	}
	m.run("! journalctl -b -o cat --no-pager | grep -E 'seen: it is read|becomes xfs'")
	count := func(lines string) int {
		t.Helper()
		n, err := strconv.Atoi(m.run("journalctl -b -o cat --no-pager _COMM=hotmount | grep -c '" + lines + "'"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The journal has one line for the failure. The other lines about the disk report a decision.
	if failures, lines := count("^/dev/"+name+" .*tried again in"), count("/dev/"+name); failures != 1 || lines > 3 {
		t.Errorf("%d failures in %d lines, after four equal tries", failures, lines)
	}
	m.run("chmod +x /usr/bin/mount")
	m.mounted(name)
	m.wait("it to be no failure any more", "hotmount status | grep '^"+name+" .* mounted '")
}

// TestClockOfTheFuture checks formats that were recorded in 2099 by a wrong clock. Formats with a time in the future
// delay other formats no longer than format_period. hotmount records the discovery of formats in the future only once.
func TestClockOfTheFuture(t *testing.T) {
	m, w := startNode(t, worker.Options{})
	const history = "/var/lib/hotmount/history.jsonl"
	m.run(`systemctl stop hotmount; printf 'format_limit: 1\nformat_period: 1m\n' >/etc/hotmount/config.yaml
		echo '{"version":1,"begin":{"name":"vdz","identity":{},"uuid":"0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f","by":"daemon","evidence":[],"begun":"2099-01-02T03:04:05Z"}}' >>` + history + `
		systemctl start hotmount`)
	m.says("the history has 1 format with a time in the future")
	noticed := "grep -o '\"noticed\":\"[^\"]*' " + history + " | cut -d '\"' -f 4"
	m.waits(2, "the minute to pass", `[ $(date +%s) -gt $(($(date -d "$(`+noticed+`)" +%s) + 60)) ]`)
	m.run("systemctl restart hotmount")
	name, _ := m.attach(w, worker.Disk{File: blank(t, 320<<20)})
	m.mounted(name)
	if got := m.run(noticed + " | wc -l; hotmount history | grep -c 2099"); got != "1\n1" {
		t.Errorf("noticed, and in the history: %s", got)
	}
}
