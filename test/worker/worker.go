package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Machine is the common interface of all kinds of workers.
type Machine interface {
	Run(ctx context.Context, script string) (stdout string, err error)
	Put(ctx context.Context, local, remote string) error
	Write(ctx context.Context, remote string, data []byte, mode os.FileMode) error
	Get(ctx context.Context, remote, local string) error
	BootID(ctx context.Context) (string, error)
	WaitBooted(ctx context.Context) (string, error)
	Reboot(ctx context.Context) error
	PowerCut(ctx context.Context) error
	PowerOn(ctx context.Context) error
	Install(ctx context.Context, deb string) error
	Serial() (string, error)
	SaveLogs(ctx context.Context, dir string) error
	Stop() error
}

// Node is a Machine to which a test can attach disks while the machine runs.
type Node interface {
	Machine
	Attach(ctx context.Context, d Disk) (Attached, error)
	Detach(ctx context.Context, id string) error
	Resize(ctx context.Context, id string, size int64) error
	BlockDevice(ctx context.Context, id string) (string, error)
	// Shutdown switches the machine off through systemd, and waits until it is off.
	Shutdown(ctx context.Context) error
	// Selectors returns the configuration lines with which a class selects the machine's disks. Each returned line
	// begins with the string `indent`.
	Selectors(indent string) string
}

var (
	_ Node    = (*Worker)(nil)
	_ Machine = (*Worker)(nil)
	_ Machine = (*Libvirt)(nil)
)

// Options describe a worker. The zero value of Options is valid.
type Options struct {
	// Suite is the Debian release, DefaultSuite by default.
	Suite string
	// A new worker first gets the files Files, then installs the package at the path Deb, and then runs the script
	// Setup. The state after Setup is saved, and the next worker with the same Files, Deb and Setup restores the saved
	// state.
	Files []File
	Deb   string
	Setup string
	// Memory is in MiB, 1024 by default. CPUs is the number of processors, 2 by default.
	Memory, CPUs int
	// Translations is the size of QEMU's cache of translated guest code in MiB, 512 by default. QEMU drops the whole
	// cache of translated code when the cache is full.
	Translations int
	// SystemBus is BusVirtio (the system disk is vda) or BusSCSI (sda).
	SystemBus Bus
	// KernelArgs are added to the kernel's command line. A worker with KernelArgs is booted and not restored, because a
	// restored kernel keeps its old command line.
	KernelArgs []string
	// NoSavedState boots the worker instead of restoring it. Files, Deb and Setup are in place before the worker boots,
	// even if NoSavedState is true.
	NoSavedState bool
	// Dir is the directory for the logs: serial.log, qmp.log, qemu.log. Dir also receives the logs of a worker whose
	// preparation failed. By default, the logs are temporary, and Stop removes the logs.
	Dir string
	// Progress receives messages about steps that take a long time.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Suite == "" {
		o.Suite = DefaultSuite
	}
	if o.Memory == 0 {
		o.Memory = 1024
	}
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.SystemBus == "" {
		o.SystemBus = BusVirtio
	}
	return o
}

func (o Options) customised() bool { return o.Deb != "" || len(o.Files) > 0 || o.Setup != "" }

// The method `description` returns a text for messages. The text lists everything that the options install in a worker.
func (o Options) description() string {
	var parts []string
	if o.Deb != "" {
		parts = append(parts, filepath.Base(o.Deb))
	}
	if len(o.Files) > 0 {
		parts = append(parts, fmt.Sprintf("%d files", len(o.Files)))
	}
	if o.Setup != "" {
		parts = append(parts, "a setup script")
	}
	return strings.Join(parts, ", ")
}

// Worker is a virtual machine under a QEMU that this package starts.
type Worker struct {
	*guest
	image image
	logs  *logs
	work  *workDir
	hw    hardware
	// The field `translations` is a copy of Options.Translations.
	translations int

	mu         sync.Mutex
	state      *entry // the overlay's base
	machine    *machine
	kernelArgs []string
	disks      []*Attached
	gone       map[string]*eventWaiter // one waiter for each unplugged disk
}

func newGuest(img image, work *workDir, serial string) *guest {
	return &guest{keyFile: img.sshKey(), control: work.path, serial: serial}
}

// Start returns a running worker. Start takes only seconds if a worker with the same options was started before. The
// caller must Stop the worker. The worker ends when the calling process ends.
func Start(ctx context.Context, o Options) (*Worker, error) {
	o = o.withDefaults()
	for try := 1; ; try++ {
		w, err := start(ctx, o)
		if errors.Is(err, errRestore) && try == 1 {
			reportStep(o.Progress, "%v; making it anew …", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot start a worker: %w", err)
		}
		return w, nil
	}
}

// Warm prepares the image and the saved state for the options, so that the next Start with these options is fast.
func Warm(ctx context.Context, o Options) error {
	w, err := Start(ctx, o)
	if err != nil {
		return err
	}
	return w.Stop()
}

// prerequisites returns the image and the saved state for the options o.
func prerequisites(ctx context.Context, o Options) (c *cache, img image, state *entry, hw hardware, err error) {
	if err = Prepare(ctx, o.Progress); err != nil {
		return
	}
	if c, err = openCache(); err != nil {
		return
	}
	if img, err = getImage(ctx, c, o.Suite, o.Progress); err != nil {
		return
	}
	version, err := qemuVersion(ctx)
	if err != nil {
		img.release()
		return
	}
	hw = hardware{
		Layout: 2, QEMU: version, Suite: o.Suite,
		Memory: o.Memory, CPUs: o.CPUs, SystemBus: o.SystemBus,
	}
	if state, err = getState(ctx, c, img, hw, o); err != nil {
		img.release()
	}
	return
}

func start(ctx context.Context, o Options) (_ *Worker, err error) {
	c, img, state, hw, err := prerequisites(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &Worker{image: img, state: state, hw: hw, kernelArgs: o.KernelArgs, translations: o.Translations, gone: map[string]*eventWaiter{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	if w.work, err = newWorkDir(); err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		dir = w.work.path
	}
	if w.logs, err = openLogs(dir); err != nil {
		return nil, err
	}
	w.guest = newGuest(img, w.work, w.logs.serial)
	if err = makeOverlay(ctx, w.overlay(), state.path("disk.qcow2"), "qcow2"); err != nil {
		return nil, err
	}
	l := w.launch()
	restored := state
	if o.NoSavedState || len(o.KernelArgs) > 0 {
		restored = nil
	} else {
		l.incoming, l.ram = true, state.path("ram")
	}
	if w.machine, err = l.start(ctx); err != nil {
		return nil, err
	}
	if err = come(ctx, w.machine, w.guest, restored); errors.Is(err, errRestore) {
		state.release()
		err = errors.Join(err, c.drop(filepath.Base(state.dir)))
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Worker) overlay() string { return filepath.Join(w.work.path, "disk.qcow2") }

// The method `launch` returns the settings for a start of QEMU with the worker's current disks and without a saved state.
func (w *Worker) launch() launch {
	return launch{
		hardware: w.hw, image: w.image, overlay: w.overlay(), kernelArgs: w.kernelArgs, translations: w.translations, disks: w.disks,
		serial: w.logs.serial, qmpLog: w.logs.qmp, stderr: w.logs.stderr,
	}
}

// alive returns an error if QEMU has ended.
func (m *machine) alive() error {
	if m.running() {
		return nil
	}
	return fmt.Errorf("its QEMU has ended: %w", errors.Join(m.process.err, errOff))
}

var errOff = errors.New("the worker is off")

// QMP runs a command in QEMU's monitor.
func (w *Worker) QMP(ctx context.Context, command string, args any) (json.RawMessage, error) {
	w.mu.Lock()
	m := w.machine
	w.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("cannot execute %s: %w", command, errOff)
	}
	return m.execute(ctx, command, args)
}

// ExpectEvent catches the next QEMU event for which match() returns true. Call ExpectEvent before the action that
// causes the event, and then call the returned function to wait.
func (w *Worker) ExpectEvent(match func(Event) bool) (wait func(context.Context) (Event, error), err error) {
	w.mu.Lock()
	m := w.machine
	w.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("cannot expect an event: %w", errOff)
	}
	waiter := m.expect(match)
	return func(ctx context.Context) (Event, error) { return m.await(ctx, waiter) }, nil
}

// Selectors returns the configuration line with which a class selects virtio disks.
func (w *Worker) Selectors(indent string) string { return indent + "names: [\"vd*\"]\n" }

// Install installs a package in the running worker.
func (w *Worker) Install(ctx context.Context, deb string) error { return installDeb(ctx, w.guest, deb) }

// SetKernelArgs replaces the additional kernel arguments, from the next PowerOn on.
func (w *Worker) SetKernelArgs(args ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kernelArgs = args
}

// PowerCut ends the worker at once. Everything that the worker's kernel has not yet written to its disks is lost.
func (w *Worker) PowerCut(context.Context) error {
	w.mu.Lock()
	w.removeMachine()
	w.mu.Unlock()
	// PowerCut ends QEMU before the ssh connection. The method `disconnect` needs the lock of the guest, and a
	// connection attempt can keep this lock until QEMU has ended.
	w.disconnect()
	return nil
}

// removeMachine ends QEMU, and removes the unplugged disks from the worker's list of disks. The caller holds w.mu.
func (w *Worker) removeMachine() {
	if w.machine == nil {
		return
	}
	w.machine.stop()
	w.machine = nil
	var kept []*Attached
	for _, a := range w.disks {
		if w.gone[a.ID] == nil {
			kept = append(kept, a)
		}
	}
	w.disks = kept
	clear(w.gone)
}

// Shutdown switches the worker off through systemd, and waits until it is off.
func (w *Worker) Shutdown(ctx context.Context) error {
	if _, err := w.Run(ctx, "systemctl --no-block poweroff"); err != nil && !errors.Is(err, ErrConnectionLost) {
		return fmt.Errorf("cannot shut down: %w", err)
	}
	w.mu.Lock()
	m := w.machine
	w.mu.Unlock()
	if m != nil {
		if err := m.process.wait(ctx); err != nil {
			return fmt.Errorf("cannot shut down: %w%s", err, w.lastWords())
		}
	}
	return w.PowerCut(ctx)
}

// PowerOn boots a worker that is off, with its disks, and waits until the worker answers. Units may still be starting
// when PowerOn returns: see WaitBooted.
func (w *Worker) PowerOn(ctx context.Context) error {
	w.mu.Lock()
	m, err := w.switchOn(ctx)
	w.mu.Unlock()
	if err == nil {
		err = come(ctx, m, w.guest, nil)
	}
	if err != nil {
		return fmt.Errorf("cannot switch the worker on: %w", err)
	}
	return nil
}

// switchOn starts QEMU. The caller holds w.mu.
func (w *Worker) switchOn(ctx context.Context) (*machine, error) {
	if w.machine != nil {
		return nil, errors.New("it is on")
	}
	m, err := w.launch().start(ctx)
	if err == nil {
		w.machine = m
	}
	return m, err
}

// Stop ends the worker and removes its temporary files.
func (w *Worker) Stop() error {
	w.mu.Lock()
	w.removeMachine()
	w.mu.Unlock()
	if w.guest != nil {
		w.disconnect()
	}
	if w.logs != nil {
		w.logs.close()
	}
	var err error
	if w.work != nil {
		err = w.work.remove()
	}
	w.state.release()
	w.image.release()
	return err
}
