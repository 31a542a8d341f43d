package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"
)

// In a saved state, disk.qcow2 is an overlay of the image's disk, the file `ram` contains the memory, and `devices` the
// state of QEMU's devices. QEMU maps the memory file of a restored worker copy-on-write, so that a restore copies
// nothing.

// keptStates is the number of saved states that remain in the cache. Each saved state is as large as the memory that
// its worker used.
const keptStates = 6

// errRestore reports that a saved state cannot be restored.
var errRestore = errors.New("the saved state does not fit")

// File is a file that is placed in a worker.
type File struct {
	Path string // the path in the worker
	Data []byte
	Mode os.FileMode // 0644 by default
}

// baseKey contains everything that determines the saved state of a booted worker.
type baseKey struct {
	Hardware hardware
	Image    string // the random identifier of the image's build
	Dir      string // the image's directory, because an overlay names its base by path
	Kernel   string
}

// setupKey contains everything that determines the saved state of a worker with an installation.
type setupKey struct {
	Base  string // the random identifier of the saved state without the installation
	Deb   string // the hash of the package
	Files []File
	Setup string
}

// getState returns the saved state for the options o, and makes a saved state if none exists.
func getState(ctx context.Context, c *cache, img image, hw hardware, o Options) (*entry, error) {
	id, err := img.id()
	if err != nil {
		return nil, err
	}
	kernel, err := kernelLine(img, nil)
	if err != nil {
		return nil, err
	}
	name := "state-" + key(baseKey{Hardware: hw, Image: id, Dir: img.dir, Kernel: kernel})
	defer c.removeOld("state-", keptStates)
	base, err := c.get(ctx, name, func(dir string) error {
		reportStep(o.Progress, "booting the %s worker to save its state (about 15 s) …", img.suite)
		if err := makeState(ctx, dir, o.Dir, img, hw, nil, settle); err != nil {
			return fmt.Errorf("cannot save a booted worker: %w", err)
		}
		return nil
	})
	if err != nil || !o.customised() {
		return base, err
	}
	// The new saved state does not depend on the base state, because makeState copies the memory and the disk.
	defer base.release()
	state, err := getSetup(ctx, c, img, hw, o, base)
	if errors.Is(err, errRestore) {
		base.release()
		if dropped := c.drop(name); dropped != nil {
			return nil, errors.Join(err, dropped)
		}
	}
	return state, err
}

func getSetup(ctx context.Context, c *cache, img image, hw hardware, o Options, base *entry) (*entry, error) {
	id, err := base.id()
	if err != nil {
		return nil, err
	}
	k := setupKey{Base: id, Files: o.Files, Setup: o.Setup}
	if o.Deb != "" {
		if k.Deb, err = hashFile(o.Deb); err != nil {
			return nil, err
		}
	}
	defer c.removeOld("setup-", keptStates)
	return c.get(ctx, "setup-"+key(k), func(dir string) error {
		reportStep(o.Progress, "preparing a worker with %s (about 10 s) …", o.description())
		err := makeState(ctx, dir, o.Dir, img, hw, base, func(ctx context.Context, g *guest) error {
			if err := install(ctx, g, o); err != nil {
				return err
			}
			return settle(ctx, g)
		})
		if err != nil {
			return fmt.Errorf("cannot prepare a worker with %s: %w", o.description(), err)
		}
		return nil
	})
}

// makeState boots a worker, or restores the base state. Then makeState prepares the worker and saves its state in dir.
// If the preparation fails and logDir is not "", makeState saves the logs in logDir.
func makeState(ctx context.Context, dir, logDir string, img image, hw hardware, base *entry, prepare func(context.Context, *guest) error) (err error) {
	work, err := newWorkDir()
	if err != nil {
		return err
	}
	defer work.remove()
	logs, err := openLogs(work.path)
	if err != nil {
		return err
	}
	defer logs.close()
	ram := filepath.Join(dir, "ram")
	l := launch{
		hardware: hw, image: img, overlay: filepath.Join(dir, "disk.qcow2"),
		ram: ram, ramShared: true, incoming: base != nil,
		serial: logs.serial, qmpLog: logs.qmp, stderr: logs.stderr,
	}
	if base == nil {
		err = makeOverlay(ctx, l.overlay, img.disk(), "raw")
	} else {
		// The new saved state gets its own disk and memory, because the cache may remove the base state and keep the
		// new state.
		_, err = command(ctx, nil, "cp", "--sparse=auto", "--reflink=auto", base.path("disk.qcow2"), l.overlay)
		if err == nil {
			_, err = command(ctx, nil, "cp", "--sparse=auto", "--reflink=auto", base.path("ram"), ram)
		}
	}
	if err != nil {
		return err
	}
	keep := func(g runner, err error) error {
		if logDir == "" {
			return err
		}
		return errors.Join(err, saveLogs(context.WithoutCancel(ctx), g, logDir, logs.serial, logs.qmp.Name(), logs.stderr.Name()))
	}
	m, g, err := startMachine(ctx, l, work, base)
	if err != nil {
		return keep(nil, err)
	}
	defer m.stop()
	defer g.disconnect()
	if err := prepare(ctx, g); err != nil {
		return keep(g, err)
	}
	g.disconnect()
	if err := m.save(ctx, filepath.Join(dir, "devices")); err != nil {
		return err
	}
	return writeID(dir)
}

// startMachine starts QEMU, restores the saved state if one is given, and connects to the guest.
func startMachine(ctx context.Context, l launch, work *workDir, state *entry) (*machine, *guest, error) {
	m, err := l.start(ctx)
	if err != nil {
		return nil, nil, err
	}
	g := newGuest(l.image, work, l.serial)
	if err := come(ctx, m, g, state); err != nil {
		g.disconnect()
		m.stop()
		return nil, nil, err
	}
	return m, g, nil
}

// The function `come` restores the saved state, if a state is given, and waits until the guest answers.
func come(ctx context.Context, m *machine, g *guest, state *entry) error {
	g.restart(m.port, m.alive, m.reset)
	if state == nil {
		_, err := g.connect(ctx, "")
		return err
	}
	if err := m.restore(ctx, state.path("devices")); err != nil {
		return err
	}
	_, err := g.connect(ctx, freshenScript())
	return err
}

// freshenScript returns a script that sets the clock of a restored worker and reseeds its random number generator.
// Without the script, the clock shows the time of the save, and all workers of one saved state draw the same random
// numbers.
func freshenScript() string {
	now := time.Now()
	return fmt.Sprintf(`date -u -s @%d.%09d >/dev/null
perl -e 'open(F, ">", "/dev/urandom"); syswrite(F, "%s"); ioctl(F, 0x5207, 0)'`,
		now.Unix(), now.Nanosecond(), randomHex(32))
}

// The function `settle` waits until systemd and udev in the worker have finished all jobs, and then syncs the disks.
func settle(ctx context.Context, g *guest) error {
	_, err := g.Run(ctx, "timeout 300 systemctl is-system-running --wait >/dev/null || true; udevadm settle; journalctl --sync; sync")
	return err
}

// The function `install` copies the files of the options o to a worker, installs the package and runs the setup script.
func install(ctx context.Context, g shell, o Options) error {
	for _, f := range o.Files {
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		if err := g.Write(ctx, f.Path, f.Data, mode); err != nil {
			return err
		}
	}
	if o.Deb != "" {
		if err := installDeb(ctx, g, o.Deb); err != nil {
			return err
		}
	}
	if o.Setup != "" {
		if _, err := g.Run(ctx, o.Setup); err != nil {
			return err
		}
	}
	return nil
}

func installDeb(ctx context.Context, g shell, deb string) error {
	remote := path.Join("/root", filepath.Base(deb))
	if err := g.Put(ctx, deb, remote); err != nil {
		return err
	}
	_, err := g.Run(ctx, "export DEBIAN_FRONTEND=noninteractive; apt-get -y -q --no-install-recommends install "+
		shellQuote(remote)+"; rm -f "+shellQuote(remote))
	if err != nil {
		return fmt.Errorf("cannot install %s: %w", filepath.Base(deb), err)
	}
	return nil
}

func makeOverlay(ctx context.Context, overlay, base, format string) error {
	_, err := command(ctx, nil, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format, overlay)
	return err
}

// stateCapabilities makes QEMU omit the memory from a migration, because the memory is in a file. With
// stateCapabilities, QEMU also reports the end of a migration by an event.
var stateCapabilities = map[string]any{"capabilities": []map[string]any{
	{"capability": "x-ignore-shared", "state": true},
	{"capability": "events", "state": true},
}}

// The method `save` writes the state of the devices to a file. The guest remains stopped.
func (m *machine) save(ctx context.Context, file string) error {
	if _, err := m.execute(ctx, "stop", nil); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	defer f.Close()
	if err := m.migrate(ctx, f, "migrate"); err != nil {
		return fmt.Errorf("cannot save the state: %w", err)
	}
	return f.Close()
}

// The method `restore` loads the state of the devices and lets the guest continue.
func (m *machine) restore(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("%w: %w", errRestore, err)
	}
	defer f.Close()
	if err := m.migrate(ctx, f, "migrate-incoming"); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", errRestore, err)
	}
	_, err = m.execute(ctx, "cont", nil)
	return err
}

func (m *machine) migrate(ctx context.Context, f *os.File, how string) error {
	if _, err := m.execute(ctx, "migrate-set-capabilities", stateCapabilities); err != nil {
		return err
	}
	if _, err := m.execute(ctx, "getfd", map[string]any{"fdname": "state"}, f); err != nil {
		return err
	}
	status := func(e Event) string {
		var data struct{ Status string }
		if e.Name != "MIGRATION" || json.Unmarshal(e.Data, &data) != nil {
			return ""
		}
		return data.Status
	}
	end := m.expect(func(e Event) bool { return status(e) == "completed" || status(e) == "failed" })
	if _, err := m.execute(ctx, how, map[string]any{"uri": "fd:state"}); err != nil {
		m.forget(end)
		return err
	}
	e, err := m.await(ctx, end)
	if err != nil {
		m.forget(end)
		return err
	}
	if s := status(e); s != "completed" {
		return fmt.Errorf("QEMU's migration has %s", s)
	}
	return nil
}
