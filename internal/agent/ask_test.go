package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hotmount/internal/disk"
)

// TestUsedByAnotherIsHeld checks disks that are mounted elsewhere, claimed, or bound as a device (Facts.Bound).
// hotmount must not use these disks. When somebody else has stopped using a disk, hotmount must hold the disk until it
// is accepted. A volume of this node is refused while somebody else uses it, and is mounted again afterwards without an
// accept.
func TestUsedByAnotherIsHeld(t *testing.T) {
	for how, use := range map[string]func(m *machine, f *disk.Facts, on bool){
		"mounted at /srv": func(m *machine, f *disk.Facts, on bool) {
			m.table = nil
			if on {
				m.table = []disk.MountPoint{{Dev: f.Dev, Root: "/", Path: "/srv", Type: "xfs"}}
			}
		},
		"bind-mounted as a device at /run/x": func(_ *machine, f *disk.Facts, on bool) {
			f.Bound = nil
			if on {
				f.Bound = []string{"/run/x"}
			}
		},
		"claimed by /etc/fstab:1": func(_ *machine, f *disk.Facts, on bool) {
			f.Claim = ""
			if on {
				f.Claim = "/etc/fstab:1"
			}
		},
	} {
		reason := map[string]string{"m": "mounted-elsewhere", "b": "bound-as-device", "c": "claimed"}[how[:1]]
		mounted := `
			mount vdb seq 2: xfs at /mnt/disks/` + uuidA + `
			vdb: mounted at ` + uuidA
		for _, volume := range []bool{false, true} {
			vdb := xfsDisk("vdb", 2, uuidA)
			if volume {
				vdb.Standing.Volume = &disk.Sighting{Identity: disk.Identity{Boot: "before"}, UUID: uuidA, Type: "xfs", Directory: "/mnt/disks"}
				vdb.Standing.OnRecord = true
			}
			m := newMachine(vdb)
			use(m, vdb, true)
			with(t, m, func(t *testing.T, a *Agent) {
				left, held := "vdb: ignore ("+reason+")", "vdb: hold (used-elsewhere)"
				if volume {
					left, held = "vdb: refuse (volume-in-use)", "vdb: mount (filesystem)"+mounted
				}
				settle()
				if log := strings.Join(m.log, "\n"); !strings.Contains(log, left) || strings.Contains(log, "vdb is used by another: "+how) == volume {
					t.Errorf("%s: %s", how, log)
				}
				m.change(func() { m.log = nil })
				a.Look("vdb")
				m.expect(t, "")
				m.change(func() { use(m, vdb, false) })
				a.Look("vdb")
				m.expect(t, held)
				if volume {
					return
				}
				if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
					t.Error(err)
				}
				m.expect(t, "accepted vdb (used-elsewhere)\nvdb: mount (filesystem)"+mounted)
			})
		}
	}
}

// TestAsksBeforeTheFirstUse checks the first use of a disk on a node where other software opens disks. hotmount must
// not mount the disk, format it or give it out before the agent knows who has the disk open. If the disk is already a
// volume, the agent must not search for processes that have the disk open.
func TestAsksBeforeTheFirstUse(t *testing.T) {
	vdb, vdc, vdd := xfsDisk("vdb", 2, uuidA), blankDisk("vdc", 3), xfsDisk("vdd", 4, uuidC)
	vdd.Standing.Volume = &disk.Sighting{Identity: disk.Identity{Boot: "before"}, UUID: uuidC, Type: "xfs", Directory: "/mnt/disks"}
	for _, f := range []*disk.Facts{vdb, vdc, vdd} {
		f.Neighbours = true
	}
	m := newMachine(vdb, vdc, vdd)
	with(t, m, func(t *testing.T, _ *Agent) {
		settle()
		log := strings.Join(m.log, "\n")
		for before, after := range map[string]string{"ask who has seq 2 open": "mount vdb seq 2", "ask who has seq 3 open": "format seq 3"} {
			if i, j := strings.Index(log, before), strings.Index(log, after); i < 0 || j < i || strings.Count(log, before) != 1 {
				t.Errorf("%s, %s:\n%s", before, after, log)
			}
		}
		if strings.Contains(log, "seq 4 open") || !strings.Contains(log, "mount vdd seq 4") || !strings.Contains(log, "vdc: mounted") {
			t.Errorf("log:\n%s", log)
		}
	})
	raw := rawDisk("vdb", 2, "A")
	raw.Neighbours = true
	m = newMachine(raw)
	m.mode = disk.ModeBlock
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: link (block-mode)
			ask who has seq 2 open
			give out seq 2
			vdb: keep (given-out)
			ready`)
	})
}

// TestAMachinesDiskIsHeld checks that hotmount holds a disk that a virtual machine monitor has open. After an accept,
// the disk must not be mounted until the virtual machine monitor has closed the disk.
func TestAMachinesDiskIsHeld(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Neighbours = true
	m := newMachine(vdb)
	m.opener = &disk.Opener{PID: 7, Command: "qemu-system-x86", Machine: true}
	with(t, m, func(t *testing.T, a *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			ask who has seq 2 open
			vdb is used by another: opened by the virtual machine monitor qemu-system-x86 (process 7)
			vdb: hold (used-elsewhere)
			ready`)
		if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		m.change(func() {
			if log := strings.Join(m.log, "\n"); strings.Contains(log, "mount vdb seq") || !strings.Contains(log, "cannot use the disk: it is opened by the virtual machine monitor") {
				t.Errorf("log:\n%s", log)
			}
			m.log, m.opener = nil, nil
		})
		time.Sleep(time.Hour)
		m.change(func() {
			if log := strings.Join(m.log, "\n"); !strings.Contains(log, "vdb: mounted at "+uuidA) {
				t.Errorf("it is never mounted:\n%s", log)
			}
		})
	})
}

// TestMountedInAnotherNamespace checks a disk that another process has mounted in its own mount namespace. hotmount
// must hold the disk, as it holds a disk that a virtual machine monitor has open. If hotmount does not find the process
// that mounted the disk, hotmount must mount the disk once the mount in the other namespace has ended.
func TestMountedInAnotherNamespace(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Unlisted = true
	m := newMachine(vdb)
	m.opener = &disk.Opener{PID: 7, Command: "pod", How: "mounted at /srv in its mount namespace"}
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb: mount (filesystem)
			ask who has seq 2 open
			vdb is used by another: used by pod (process 7): mounted at /srv in its mount namespace
			vdb: hold (used-elsewhere)
			ready`)
	})
	vdb = xfsDisk("vdb", 2, uuidA)
	vdb.Unlisted = true
	m = newMachine(vdb)
	m.opener = &disk.Opener{How: "mounted or being mounted according to the kernel, but in no mount table that hotmount can read"}
	with(t, m, func(t *testing.T, _ *Agent) {
		settle()
		m.change(func() {
			log := strings.Join(m.log, "\n")
			if strings.Contains(log, "used by another") || !strings.Contains(log, "cannot use the disk: it is mounted or being mounted according to the kernel, but in no mount table that hotmount can read; nothing on it was changed") {
				t.Error(log)
			}
			m.opener, vdb.Unlisted = nil, false
		})
		time.Sleep(time.Hour)
		m.change(func() {
			if log := strings.Join(m.log, "\n"); !strings.Contains(log, "vdb: mounted at "+uuidA) {
				t.Errorf("it is never mounted:\n%s", log)
			}
		})
	})
}

// TestUseIsRecordedAgain checks that the agent renews a held disk's record of use before the record is lost. The store
// drops the oldest records of use first.
func TestUseIsRecordedAgain(t *testing.T) {
	vdb := xfsDisk("vdb", 2, uuidA)
	vdb.Standing.Used, vdb.Standing.UsedLongAgo = &disk.Use{How: "mounted at /srv"}, true
	m := newMachine(vdb)
	with(t, m, func(t *testing.T, _ *Agent) {
		m.expect(t, `
			vdb is used by another: mounted at /srv
			vdb: hold (used-elsewhere)
			ready`)
	})
}

// TestAWriterIsWaitedFor checks that hotmount neither mounts nor holds a disk that another process has open for
// writing. The disk must be mounted once that process has closed the disk. While the agent cannot find out who has a
// disk open, the agent must not mount the disk.
func TestAWriterIsWaitedFor(t *testing.T) {
	for want, put := range map[string]func(m *machine){
		"cannot use the disk: it is opened for writing by dd (process 8)": func(m *machine) { m.opener = &disk.Opener{PID: 8, Command: "dd"} },
		"no answer": func(m *machine) { m.openerErr = errors.New("no answer") },
		"no space":  func(m *machine) { m.opener, m.keepErr = &disk.Opener{Machine: true}, errors.New("no space") },
	} {
		vdb := xfsDisk("vdb", 2, uuidA)
		vdb.Neighbours = true
		m := newMachine(vdb)
		put(m)
		with(t, m, func(t *testing.T, _ *Agent) {
			time.Sleep(10 * time.Minute)
			m.change(func() {
				log := strings.Join(m.log, "\n")
				if !strings.Contains(log, want) || strings.Contains(log, "mount vdb seq") || strings.Contains(log, "hold") || vdb.Standing.Used != nil {
					t.Errorf("%s:\n%s", want, log)
				}
				if asked := strings.Count(log, "ask who"); asked < 5 || asked > 20 {
					t.Errorf("%s: asked %d times", want, asked)
				}
				m.log, m.opener, m.openerErr, m.keepErr = nil, nil, nil, nil
			})
			time.Sleep(10 * time.Minute)
			m.change(func() {
				if log := strings.Join(m.log, "\n"); !strings.Contains(log, "vdb: mounted at "+uuidA) {
					t.Errorf("%s: it is never mounted:\n%s", want, log)
				}
			})
		})
	}
}

// TestAsksBeforeARefusal checks a refusal that advises the operator to overwrite the disk, on a node where other
// software opens disks. Before the refusal, the agent must ask which process has the disk open. If a virtual machine
// monitor has the disk open, hotmount must hold the disk. If the agent gets no answer, hotmount must still refuse the
// disk.
func TestAsksBeforeARefusal(t *testing.T) {
	for name, test := range map[string]struct {
		put  func(m *machine)
		want string
	}{
		"nobody":    {func(*machine) {}, "vdb: refuse (other-content)"},
		"a program": {func(m *machine) { m.opener = &disk.Opener{PID: 8, Command: "dd"} }, "vdb: refuse (other-content)"},
		"unknown":   {func(m *machine) { m.openerErr = errors.New("no answer") }, "problem: no answer\nvdb: refuse (other-content)"},
		"a machine": {func(m *machine) { m.opener = &disk.Opener{PID: 7, Command: "qemu-system-x86", Machine: true} }, `vdb is used by another: opened by the virtual machine monitor qemu-system-x86 (process 7)
			vdb: hold (used-elsewhere)`},
	} {
		vdb := blankDisk("vdb", 2)
		vdb.Neighbours, vdb.Udev.FSType, vdb.Udev.FSUsage = true, "crypto_LUKS", "crypto"
		m := newMachine(vdb)
		test.put(m)
		with(t, m, func(t *testing.T, a *Agent) {
			m.expect(t, "ask who has seq 2 open\n"+test.want+"\nready")
			a.Look("vdb")
			m.expect(t, "")
			if name != "a machine" {
				return
			}
			// After the accept, hotmount must refuse the disk, although the virtual machine still has the disk open.
			if _, err := a.Accept(t.Context(), "vdb", 0, ""); err != nil {
				t.Error(err)
			}
			m.expect(t, "accepted vdb (used-elsewhere)\nvdb: refuse (other-content)")
		})
	}
}
