package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const emulator = "qemu-system-x86_64"

// hotplugPorts is the number of a worker's PCIe hot-plug ports, each for one virtio-blk or nvme disk.
const hotplugPorts = 32

// The type `hardware` lists the properties of a virtual machine that a saved state depends on. A saved state can be
// restored only in a virtual machine with the same properties.
type hardware struct {
	Layout    int // must be increased with each change of QEMU's devices in the code below
	QEMU      string
	Suite     string
	Memory    int // in MiB
	CPUs      int
	SystemBus Bus
}

// The type `launch` contains the settings for one start of QEMU.
type launch struct {
	hardware
	image        image
	overlay      string
	kernelArgs   []string
	translations int    // as Options.Translations
	ram          string // a file for the guest's memory, or "" for memory without a file
	ramShared    bool   // QEMU writes the guest's changes of the memory to the file ram
	incoming     bool   // QEMU waits for a saved state
	disks        []*Attached
	serial       string
	qmpLog       *os.File
	stderr       *os.File
}

// machine is a running QEMU.
type machine struct {
	*process
	*qmp
	port int // the host's TCP port for the guest's ssh, on the loopback address
}

// The method `reset` resets the virtual machine like a reset button (system_reset in QEMU's QMP reference).
func (m *machine) reset(ctx context.Context) error {
	_, err := m.execute(ctx, "system_reset", nil)
	return err
}

func qemuVersion(ctx context.Context) (string, error) {
	out, err := command(ctx, nil, emulator, "--version")
	line, _, _ := strings.Cut(out, "\n")
	return line, err
}

// kernelLine returns the kernel's command line for a worker.
func kernelLine(img image, extra []string) (string, error) {
	uuid, err := img.rootUUID()
	if err != nil {
		return "", err
	}
	args := []string{
		"root=UUID=" + uuid, "rootfstype=ext4", "rw", "console=ttyS0", "net.ifnames=0",
		"panic=-1",        // the kernel reboots at once after a panic, and the serial log shows the panic
		"mitigations=off", // mitigations would only slow down an emulated processor
		"tsc=reliable",    // all emulated processors have the same time stamp counter
		"random.trust_cpu=on",
	}
	return strings.Join(append(args, extra...), " "), nil
}

// portAddress returns the PCI slot and function of hot-plug port i on the root bus.
func portAddress(i int) (slot, function int) { return 0x10 + i/8, i % 8 }

// ownPrefix is the prefix of the names that this package's own devices have in QEMU. The ID of a disk must not begin
// with ownPrefix.
const ownPrefix = "worker-"

const scsiName = ownPrefix + "scsi"

func portName(i int) string { return ownPrefix + "port" + strconv.Itoa(i) }

// The method `args` returns QEMU's command line.
//
// The emulator TCG of QEMU 7.2 has a fault. After the instruction TEST of a negative number, the instruction SETGE can
// store 1 in memory, although a real processor stores 0. SETGE stores the wrong value only if the store causes a page
// fault, as the first write to a memory page does. Go uses TEST and SETGE to assign some comparisons to a bool. In a Go
// program in a worker, a bool in a new page of the heap can therefore be wrong.
func (l launch) args() ([]string, error) {
	kernel, err := kernelLine(l.image, l.kernelArgs)
	if err != nil {
		return nil, err
	}
	model, disabled := cpu(l.Suite)
	for _, feature := range disabled {
		model += "," + feature + "=off"
	}
	memory := fmt.Sprintf("memory-backend-ram,id=ram,size=%dM", l.Memory)
	if l.ram != "" {
		memory = fmt.Sprintf("memory-backend-file,id=ram,size=%dM,mem-path=%s,share=%s", l.Memory, qemuQuote(l.ram), onOff(l.ramShared))
	}
	a := []string{
		"-name", "worker", "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "q35,vmport=off,smbus=off,sata=off,usb=off,i8042=off,memory-backend=ram",
		"-object", memory, "-m", fmt.Sprintf("%dM", l.Memory),
		"-accel", "tcg,thread=multi,tb-size=" + strconv.Itoa(cmp.Or(l.translations, 512)), "-cpu", model, "-smp", strconv.Itoa(l.CPUs),
		"-kernel", l.image.kernel(), "-initrd", l.image.initrd(), "-append", kernel,
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-chardev", "file,id=serial,append=on,path=" + qemuQuote(l.serial), "-serial", "chardev:serial",
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
		"-device", "virtio-net-pci,netdev=net,romfile=,bus=pcie.0,addr=4",
		"-device", "virtio-rng-pci,bus=pcie.0,addr=5",
		"-device", "virtio-scsi-pci,id=" + scsiName + ",bus=pcie.0,addr=6",
	}
	system, err := json.Marshal(map[string]any{
		"driver": "qcow2", "node-name": "worker-system", "discard": "unmap",
		"file": fileNode(l.overlay, "worker-file", false, false, false),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot describe the system disk: %w", err)
	}
	a = append(a, "-blockdev", string(system))
	switch l.SystemBus {
	case BusVirtio:
		a = append(a, "-device", "virtio-blk-pci,id=worker-disk,drive=worker-system,bus=pcie.0,addr=3")
	case BusSCSI:
		a = append(a, "-device", "scsi-hd,id=worker-disk,drive=worker-system,bus="+scsiName+".0,scsi-id=0,lun=0")
	default:
		return nil, fmt.Errorf("cannot put the system disk on bus %q", l.SystemBus)
	}
	for i := range hotplugPorts {
		slot, function := portAddress(i)
		a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d,bus=pcie.0,addr=%#x.%d,multifunction=on",
			portName(i), i+1, slot, function))
	}
	for _, d := range l.disks {
		for _, node := range d.nodes() {
			b, err := json.Marshal(node)
			if err != nil {
				return nil, fmt.Errorf("cannot describe disk %s: %w", d.ID, err)
			}
			a = append(a, "-blockdev", string(b))
		}
		b, err := json.Marshal(d.device())
		if err != nil {
			return nil, fmt.Errorf("cannot describe disk %s: %w", d.ID, err)
		}
		a = append(a, "-device", string(b))
	}
	if l.incoming {
		a = append(a, "-incoming", "defer")
	}
	return a, nil
}

// The method `start` starts QEMU and waits until its monitor answers.
func (l launch) start(ctx context.Context) (*machine, error) {
	args, err := l.args()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := monitorPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(emulator, args...)
	cmd.ExtraFiles = []*os.File{theirs} // becomes the file descriptor 3 of QEMU
	cmd.Stdout, cmd.Stderr = l.stderr, l.stderr
	p, err := startProcess("QEMU", cmd)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	_ = theirs.Close() // the end of QEMU ends the connection only if this process has closed its copy of QEMU's socket
	fmt.Fprintf(l.qmpLog, "%s == %s %q\n", time.Now().Format("15:04:05.000"), emulator, args)
	q, err := newQMP(ctx, ours, l.qmpLog)
	if err != nil {
		p.kill()
		said, _ := os.ReadFile(l.stderr.Name()) // an unreadable log only shortens the error text
		return nil, fmt.Errorf("cannot start QEMU: %w: %s", err, tail(strings.TrimSpace(string(said)), 4000))
	}
	m := &machine{process: p, qmp: q}
	if m.port, err = m.sshPort(ctx); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

// The method `stop` ends QEMU at once, like a power cut.
func (m *machine) stop() {
	m.process.kill()
	m.qmp.close()
}

var forward = regexp.MustCompile(`TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+22\s`)

// parseForward finds the host's TCP port for the guest's ssh in the output of QEMU's "info usernet". The host's kernel
// has chosen the port.
func parseForward(usernet string) (int, error) {
	m := forward.FindStringSubmatch(usernet)
	if m == nil {
		return 0, fmt.Errorf("cannot find the port of the guest's ssh in %q", usernet)
	}
	return strconv.Atoi(m[1])
}

func (m *machine) sshPort(ctx context.Context) (int, error) {
	raw, err := m.execute(ctx, "human-monitor-command", map[string]any{"command-line": "info usernet"})
	if err != nil {
		return 0, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return 0, fmt.Errorf("cannot read what QEMU says of its network: %w", err)
	}
	return parseForward(text)
}

// monitorPair returns a connected pair of sockets for QEMU's monitor, which then needs no socket in the filesystem.
func monitorPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a monitor's sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "monitor"), os.NewFile(uintptr(fds[1]), "monitor")
	defer ours.Close() // FileConn has its own copy of the descriptor
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot make a monitor's sockets: %w", err), theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// qemuQuote quotes a value for QEMU's comma-separated options.
func qemuQuote(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
