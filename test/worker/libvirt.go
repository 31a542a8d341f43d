package worker

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"
)

//go:embed recipe/libvirt.sh
var libvirtScript string

// domainName is the name of the only libvirt domain of a [Libvirt].
const domainName = "worker"

// Libvirt is a worker that runs as a domain of a real libvirtd. Each Libvirt has its own libvirtd. A test attaches
// disks with the real virsh: see [Libvirt.Virsh].
type Libvirt struct {
	*guest
	image image
	state *entry
	logs  *logs
	work  *workDir
	turn  *os.File // a lock, because only one Libvirt may run at a time

	daemon *process // the first process of a PID namespace with all processes of libvirt

	mu      sync.Mutex
	checked time.Time // the last time at which the domain was known to run
}

// StartLibvirt boots a domain from the disk that [Start] would use for the given options, and returns the domain.
// StartLibvirt cannot restore a saved state, because libvirt's virtual hardware differs from the hardware of the saved
// state. StartLibvirt waits while another Libvirt runs. The caller must Stop the domain.
func StartLibvirt(ctx context.Context, o Options) (*Libvirt, error) {
	l, err := startLibvirt(ctx, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("cannot start a libvirt worker: %w", err)
	}
	return l, nil
}

func startLibvirt(ctx context.Context, o Options) (_ *Libvirt, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("only root can")
	}
	if err := PrepareLibvirt(ctx, o.Progress); err != nil {
		return nil, err
	}
	c, img, state, _, err := prerequisites(ctx, o)
	if err != nil {
		return nil, err
	}
	l := &Libvirt{image: img, state: state}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	if l.turn, err = c.lock(ctx, "libvirt", lockExclusive); err != nil {
		return nil, err
	}
	if l.work, err = newWorkDir(); err != nil {
		return nil, err
	}
	dir := o.Dir
	if dir == "" {
		dir = l.work.path
	}
	if l.logs, err = openLogs(dir); err != nil {
		return nil, err
	}
	l.guest = newGuest(img, l.work, l.logs.serial)
	if err = l.startDaemon(ctx); err != nil {
		return nil, err
	}
	if err = l.define(ctx, o); err != nil {
		return nil, err
	}
	reportStep(o.Progress, "booting a worker under libvirt (about 15 s) …")
	if err = l.PowerOn(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Libvirt) root() string { return filepath.Join(l.work.path, "root") }

func (l *Libvirt) startDaemon(ctx context.Context) error {
	cmd := exec.Command("sh", "-c", libvirtScript, "libvirt", l.root())
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "XDG_RUNTIME_DIR=")
	cmd.Stdout, cmd.Stderr = l.logs.stderr, l.logs.stderr
	// When the first process of a PID namespace has ended, no other process of the PID namespace remains.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	var err error
	if l.daemon, err = startProcess("libvirtd", cmd); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := l.Virsh(ctx, "-q", "list", "--all")
		if err == nil {
			return nil
		}
		select {
		case <-l.daemon.done:
			return fmt.Errorf("cannot start libvirtd: %w", l.daemonEnded())
		case <-ctx.Done():
			return fmt.Errorf("cannot reach libvirtd: %w", err)
		case <-tick.C:
		}
	}
}

var domain = template.Must(template.New("domain").Funcs(template.FuncMap{"x": escapeXML}).Parse(`
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{{x .Name}}</name>
  <memory unit='MiB'>{{.Memory}}</memory>
  <vcpu>{{.CPUs}}</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{{x .Kernel}}</kernel>
    <initrd>{{x .Initrd}}</initrd>
    <cmdline>{{x .CommandLine}}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='maximum'>{{range .Disabled}}<feature policy='disable' name='{{x .}}'/>{{end}}</cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>{{x .Emulator}}</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe' discard='unmap'/>
      <source file='{{x .Overlay}}'/>
      {{if .SCSI}}<target dev='sda' bus='scsi'/>{{else}}<target dev='vda' bus='virtio'/>{{end}}
    </disk>
    <controller type='usb' model='none'/>
    <controller type='scsi' model='virtio-scsi'/>
    <controller type='pci' index='0' model='pcie-root'/>
    {{range .Ports}}<controller type='pci' index='{{.}}' model='pcie-root-port'/>
    {{end}}
    <serial type='file'><source path='{{x .Serial}}' append='on'/></serial>
    <memballoon model='none'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-netdev'/>
    <qemu:arg value='user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:22'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='virtio-net-pci,netdev=net,romfile=,bus=pcie.0,addr=0x1e'/>
  </qemu:commandline>
</domain>
`))

func escapeXML(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}

// The method `define` defines the libvirt domain, with a new overlay of the saved state's disk.
func (l *Libvirt) define(ctx context.Context, o Options) error {
	overlay := filepath.Join(l.work.path, "disk.qcow2")
	if err := makeOverlay(ctx, overlay, l.state.path("disk.qcow2"), "qcow2"); err != nil {
		return err
	}
	line, err := kernelLine(l.image, o.KernelArgs)
	if err != nil {
		return err
	}
	qemu, err := exec.LookPath(emulator)
	if err != nil {
		return fmt.Errorf("cannot find QEMU: %w", err)
	}
	_, disabled := cpu(o.Suite)
	var ports []int
	for i := range hotplugPorts + 4 { // libvirt uses some PCI ports for the domain's own devices
		ports = append(ports, i+1)
	}
	var b bytes.Buffer
	err = domain.Execute(&b, map[string]any{
		"Name": domainName, "Memory": o.Memory, "CPUs": o.CPUs,
		"Kernel": l.image.kernel(), "Initrd": l.image.initrd(), "CommandLine": line,
		"Emulator": qemu, "Disabled": disabled, "Overlay": overlay, "SCSI": o.SystemBus == BusSCSI,
		"Serial": l.logs.serial, "Ports": ports,
	})
	if err != nil {
		return fmt.Errorf("cannot describe the domain: %w", err)
	}
	file := filepath.Join(l.work.path, "domain.xml")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("cannot describe the domain: %w", err)
	}
	_, err = l.Virsh(ctx, "define", "--validate", file)
	return err
}

// Domain returns the name of the libvirt domain, for use with [Libvirt.Virsh].
func (l *Libvirt) Domain() string { return domainName }

// Virsh runs virsh against the worker's libvirtd and returns the standard output of virsh.
func (l *Libvirt) Virsh(ctx context.Context, args ...string) (string, error) {
	socket := filepath.Join(l.root(), "run/libvirt/libvirt-sock")
	start := time.Now()
	out, err := command(ctx, nil, "virsh", append([]string{"-c", "qemu+unix:///system?socket=" + socket}, args...)...)
	if args[0] != "-q" {
		said := strings.TrimSpace(out)
		if err != nil {
			said += " " + err.Error()
		}
		fmt.Fprintf(l.logs.qmp, "%s virsh %q: %s\n", start.Format("15:04:05.000"), args, said)
	}
	return out, err
}

// Install installs a package in the running worker.
func (l *Libvirt) Install(ctx context.Context, deb string) error {
	return installDeb(ctx, l.guest, deb)
}

// PowerCut ends the domain at once, without a shutdown.
func (l *Libvirt) PowerCut(ctx context.Context) error {
	if _, err := l.Virsh(ctx, "destroy", domainName); err != nil {
		return err
	}
	l.disconnect()
	return nil
}

// PowerOn boots the domain, with the disks that were attached persistently, and waits until the worker answers.
func (l *Libvirt) PowerOn(ctx context.Context) error {
	if _, err := l.Virsh(ctx, "start", domainName); err != nil {
		return err
	}
	usernet, err := l.Virsh(ctx, "qemu-monitor-command", domainName, "--hmp", "info usernet")
	if err != nil {
		return err
	}
	port, err := parseForward(usernet)
	if err != nil {
		return err
	}
	l.restart(port, l.domainAlive, func(ctx context.Context) error {
		_, err := l.Virsh(ctx, "-q", "reset", domainName)
		return err
	})
	_, err = l.connect(ctx, "")
	return err
}

// daemonEnded returns an error that says how libvirtd ended.
func (l *Libvirt) daemonEnded() error {
	// An unreadable log is no error, because the logs are only for the error text.
	shell, _ := os.ReadFile(l.logs.stderr.Name())
	own, _ := os.ReadFile(filepath.Join(l.root(), "var/log/libvirt/libvirtd.log"))
	return fmt.Errorf("libvirtd has ended (%v): %s%s", l.daemon.cmd.ProcessState, tail(string(shell), 2000), tail(string(own), 3000))
}

// domainAlive returns an error if the domain does not run. domainAlive asks libvirt at most once in three seconds.
func (l *Libvirt) domainAlive() error {
	if !l.daemon.running() {
		return l.daemonEnded()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.checked) < 3*time.Second {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	state, err := l.Virsh(ctx, "-q", "domstate", "--reason", domainName)
	if err != nil {
		return err
	}
	if state = strings.TrimSpace(state); !strings.HasPrefix(state, "running") {
		return fmt.Errorf("the domain is %s", state)
	}
	l.checked = time.Now()
	return nil
}

// SaveLogs copies the logs to dir. SaveLogs adds the worker's journal if the worker answers.
func (l *Libvirt) SaveLogs(ctx context.Context, dir string) error {
	logs := filepath.Join(l.root(), "var/log/libvirt")
	var g runner
	if l.guest != nil {
		g = l.guest
	}
	return saveLogs(ctx, g, dir, l.logs.serial, l.logs.qmp.Name(), l.logs.stderr.Name(),
		filepath.Join(logs, "libvirtd.log"), filepath.Join(logs, "qemu", domainName+".log"))
}

// Stop ends the domain and libvirtd, and removes their temporary files.
func (l *Libvirt) Stop() error {
	if l.daemon != nil {
		l.daemon.kill() // when the first process ends, the kernel kills all processes of the PID namespace
	}
	if l.guest != nil {
		l.disconnect()
	}
	if l.logs != nil {
		l.logs.close()
	}
	var err error
	if l.work != nil {
		err = l.work.remove()
	}
	if l.turn != nil {
		_ = l.turn.Close()
	}
	l.state.release()
	l.image.release()
	return err
}
