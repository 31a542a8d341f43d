package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrConnectionLost reports that the result of a script is unknown. A reboot, a power cut or a panic ended the
// connection while the script ran.
var ErrConnectionLost = errors.New("the connection to the worker was lost")

// ExitError reports that a script ran and that its exit code is not 0.
type ExitError struct {
	Code   int
	Script string
	Stdout string
	Stderr string
}

func (e *ExitError) Error() string {
	script := strings.TrimSpace(e.Script)
	if len(script) > 300 {
		script = script[:300] + "…"
	}
	said := ""
	for _, out := range []string{e.Stderr, e.Stdout} {
		if out = strings.TrimSpace(out); out != "" {
			said += ": " + tail(out, 4000)
		}
	}
	return fmt.Sprintf("script exits %d%s\n  in: %s", e.Code, said, script)
}

// ExitCode returns the exit code in err. ExitCode returns 0 if err is nil, and -1 if the script did not run to its
// end.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	return -1
}

// guest is the part that all kinds of virtual workers share: a root shell and a console.
type guest struct {
	keyFile string
	control string // a directory with a short path, for ssh's sockets
	serial  string // the path of the serial log

	mu         sync.Mutex
	alive      func() error // returns nil, or the reason why no connection is possible
	reset      func(context.Context) error
	port       int // the host's TCP port for the guest's ssh, on the loopback address
	serialFrom int64
	master     *process
	socket     string
	hold       io.Closer // the standard input of the ssh master
	seq        int
}

// The method `restart` prepares the guest for the next boot of its machine. In the next boot, the guest's ssh is on the
// given port, and a call of reset() resets the machine.
func (g *guest) restart(port int, alive func() error, reset func(context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.disconnectLocked()
	g.port, g.alive, g.reset = port, alive, reset
	if info, err := os.Stat(g.serial); err == nil {
		g.serialFrom = info.Size()
	}
}

func (g *guest) sshArgs(socket string) []string {
	return []string{
		"-F", "none", "-T", "-S", socket, "-l", "root",
		"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "GlobalKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes",
		"-o", "PreferredAuthentications=publickey", "-i", g.keyFile,
		"-o", "KexAlgorithms=curve25519-sha256", "-o", "HostKeyAlgorithms=ssh-ed25519",
		"-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=6",
	}
}

// firstOutputWait is the maximum time without output from a booting kernel that has not started its first process. On a
// busy machine, an emulated kernel once wrote nothing for five seconds.
const firstOutputWait = time.Minute

// bootLimit is the maximum time until a booting worker answers. On a busy machine, an emulated worker once took a
// minute to answer.
const bootLimit = 5 * time.Minute

// connect waits until the worker's ssh server answers. The given script runs before any other script. The return value
// is the kernel's boot ID.
func (g *guest) connect(ctx context.Context, first string) (bootID string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.connectLocked(ctx, first)
}

func (g *guest) connectLocked(ctx context.Context, first string) (string, error) {
	g.disconnectLocked()
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	said, since, resets := "", time.Now(), 0
	for {
		// QEMU's emulation can lose an interrupt while the kernel detects the hardware (seen once in some thousand
		// boots). Before the kernel has started its first process, a reset loses no data.
		if now := g.firstWords(); now != said || now == "" {
			said, since = now, time.Now()
		} else if time.Since(since) > firstOutputWait && resets < 2 {
			if err := g.reset(ctx); err != nil {
				return "", fmt.Errorf("cannot connect to the worker: its kernel stands: %w%s", err, g.lastWords())
			}
			fmt.Fprintf(os.Stderr, "worker: its kernel has said nothing for %s and not come to its first process: it is reset\n", firstOutputWait)
			since, resets = time.Now(), resets+1
		}
		if err := g.alive(); err != nil {
			return "", fmt.Errorf("cannot connect to the worker: %w", err)
		}
		if err := g.checkPanic(); err != nil {
			return "", fmt.Errorf("cannot connect to the worker: %w", err)
		}
		if last = g.probe(ctx); last == nil {
			var boot string
			if boot, last = g.startMaster(ctx, first); last == nil {
				return boot, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("cannot connect to the worker: %w (last: %w)%s", ctx.Err(), last, g.lastWords())
		case <-tick.C:
		}
	}
}

// The method `probe` returns nil if the guest's ssh server sends its greeting. QEMU accepts connections long before the
// guest does. Without the method `probe`, ssh would mistake the guest for a slow server and wait.
func (g *guest) probe(ctx context.Context) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(g.port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	greeting := make([]byte, 4)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		return fmt.Errorf("no greeting from ssh: %w", err)
	}
	return nil
}

// startMaster opens the ssh connection that all scripts share. The ssh connection lasts as long as its first session,
// whose command waits for the end of standard input.
func (g *guest) startMaster(ctx context.Context, first string) (string, error) {
	g.seq++
	socket := filepath.Join(g.control, fmt.Sprintf("s%d", g.seq))
	script := first + "\ncat /proc/sys/kernel/random/boot_id\nexec cat >/dev/null"
	args := append(g.sshArgs(socket), "-M", "-o", "ConnectTimeout=30", "-p", strconv.Itoa(g.port), "127.0.0.1", script)
	cmd := exec.Command("ssh", args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("cannot start ssh: %w", err)
	}
	// startMaster calls os.Pipe, because Wait would close a pipe from StdoutPipe too early.
	out, in, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("cannot start ssh: %w", err)
	}
	defer out.Close()
	var stderr bytes.Buffer // must not be read before the process has ended
	cmd.Stdout, cmd.Stderr = in, &stderr
	master, err := startProcess("ssh", cmd)
	_ = in.Close()
	if err != nil {
		return "", err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = out.SetReadDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	line, err := bufio.NewReader(out).ReadString('\n')
	stop()
	if err != nil {
		master.kill()
		return "", fmt.Errorf("cannot log in: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	g.master, g.socket, g.hold = master, socket, stdin
	return strings.TrimSpace(line), nil
}

// The method `disconnect` ends the ssh connection. The next script opens a new connection.
func (g *guest) disconnect() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.disconnectLocked()
}

func (g *guest) disconnectLocked() {
	if g.master == nil {
		return
	}
	_ = g.hold.Close()
	g.master.end(2 * time.Second)
	g.master = nil
}

// session returns the socket and the master process of a working ssh connection, and opens a new connection if
// necessary.
func (g *guest) session(ctx context.Context) (string, *process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.master == nil || !g.master.running() {
		if _, err := g.connectLocked(ctx, ""); err != nil {
			return "", nil, err
		}
	}
	return g.socket, g.master, nil
}

// maxArgument is a length in bytes below Linux's limit of 128 KiB for one command line argument.
const maxArgument = 120 << 10

// Run runs a bash script as root, with -e and no input, and returns its standard output. If the exit code is not 0, the
// error is an [*ExitError] with the standard error; see [ExitCode]. Run waits for each background process that still
// has the script's standard input, output or error open.
func (g *guest) Run(ctx context.Context, script string) (stdout string, err error) {
	var out bytes.Buffer
	prefix := "set -e; export LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; "
	if len(script) < maxArgument {
		err = g.exec(ctx, script, prefix+"\n"+script, nil, &out)
	} else {
		err = g.exec(ctx, script, prefix+"f=$(mktemp); cat >$f; bash -e $f </dev/null", strings.NewReader(script), &out)
	}
	return out.String(), err
}

// exec runs one command line in the worker.
func (g *guest) exec(ctx context.Context, name, script string, stdin io.Reader, stdout io.Writer) error {
	socket, master, err := g.session(ctx)
	if err != nil {
		return err
	}
	// If the master connection is gone, ssh must fail instead of opening a new connection.
	args := append(g.sshArgs(socket), "-o", "ControlMaster=no", "-o", "ProxyCommand=false")
	if stdin == nil {
		args = append(args, "-n")
	}
	cmd := exec.CommandContext(ctx, "ssh", append(args, "worker", script)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	kept, _ := stdout.(*bytes.Buffer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("cannot run %.100q in the worker: %w%s", name, ctx.Err(), g.lastWords())
	case errors.As(err, &exit) && exit.ExitCode() == 255 && g.connectionLost(ctx, master):
		err = fmt.Errorf("%w: %s", ErrConnectionLost, strings.TrimSpace(stderr.String()))
		g.mu.Lock()
		defer g.mu.Unlock()
		return fmt.Errorf("cannot run %.100q in the worker: %w", name, errors.Join(err, g.checkPanic()))
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		e := &ExitError{Code: exit.ExitCode(), Script: name, Stderr: stderr.String()}
		if kept != nil {
			e.Stdout = kept.String()
		}
		return e
	}
	return fmt.Errorf("cannot run %.100q in the worker: %w: %s", name, err, stderr.String())
}

// connectionLost reports whether the ssh connection has ended. The exit code 255 of ssh does not prove a lost
// connection, because a script may also exit with 255. connectionLost waits up to a second, because ssh's master
// process can end a little after the connection.
func (g *guest) connectionLost(ctx context.Context, master *process) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return master.wait(ctx) == nil
}

// Put copies a local file, with its mode, to a remote path in the worker. Put makes missing directories.
func (g *guest) Put(ctx context.Context, local, remote string) error {
	f, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("cannot copy to the worker: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot copy to the worker: %w", err)
	}
	return g.write(ctx, f, remote, info.Mode().Perm())
}

// Write writes data to the remote file in the worker, and makes missing directories.
func (g *guest) Write(ctx context.Context, remote string, data []byte, mode os.FileMode) error {
	return g.write(ctx, bytes.NewReader(data), remote, mode)
}

func (g *guest) write(ctx context.Context, from io.Reader, remote string, mode os.FileMode) error {
	return g.exec(ctx, "write "+remote, writeScript(remote, mode), from, io.Discard)
}

// writeScript returns a script that writes its standard input to the remote file, and makes missing directories.
func writeScript(remote string, mode os.FileMode) string {
	return fmt.Sprintf("set -e; mkdir -p %s; cat >%[2]s.part; chmod %[3]o %[2]s.part; mv -f %[2]s.part %[2]s",
		shellQuote(path.Dir(remote)), shellQuote(remote), mode.Perm())
}

// Get copies the remote file of the worker to a local path.
func (g *guest) Get(ctx context.Context, remote, local string) error {
	f, err := os.Create(local)
	if err != nil {
		return fmt.Errorf("cannot copy from the worker: %w", err)
	}
	if err := g.exec(ctx, "read "+remote, "cat "+shellQuote(remote), nil, f); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// BootID returns the kernel's identifier of the current boot.
func (g *guest) BootID(ctx context.Context) (string, error) {
	out, err := g.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(out), err
}

// Reboot reboots the worker through systemd, and waits until the new boot answers. Units may still be starting when
// Reboot returns: see WaitBooted.
func (g *guest) Reboot(ctx context.Context) error {
	before, err := g.BootID(ctx)
	if err != nil {
		return fmt.Errorf("cannot reboot: %w", err)
	}
	if _, err := g.Run(ctx, "systemctl --no-block reboot"); err != nil && !errors.Is(err, ErrConnectionLost) {
		return fmt.Errorf("cannot reboot: %w", err)
	}
	return g.awaitBoot(ctx, before)
}

// awaitBoot waits until the worker answers with a boot ID that differs from the given boot ID.
func (g *guest) awaitBoot(ctx context.Context, before string) error {
	for {
		now, err := g.connect(ctx, "")
		if err != nil {
			return fmt.Errorf("cannot reboot: %w", err)
		}
		if now != before {
			return nil
		}
		// The worker has not rebooted yet, so awaitBoot waits until the worker's shutdown breaks the connection.
		g.mu.Lock()
		master := g.master
		g.mu.Unlock()
		if err := master.wait(ctx); err != nil {
			return fmt.Errorf("cannot reboot: the old boot goes on: %w%s", err, g.lastWords())
		}
	}
}

// WaitBooted waits until systemd has finished all start jobs. WaitBooted returns "running", or "degraded" if a unit has
// failed.
func (g *guest) WaitBooted(ctx context.Context) (string, error) {
	out, err := g.Run(ctx, "systemctl is-system-running --wait || true")
	return strings.TrimSpace(out), err
}

// Serial returns everything that the worker has written to its console so far.
func (g *guest) Serial() (string, error) {
	b, err := os.ReadFile(g.serial)
	if err != nil {
		return "", fmt.Errorf("cannot read the serial log: %w", err)
	}
	return string(b), nil
}

// console returns the console's output since the machine was switched on, or nothing if the log is unreadable. The
// caller holds g.mu.
func (g *guest) console() []byte {
	f, err := os.Open(g.serial)
	if err != nil {
		return nil // the log does not exist yet
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, g.serialFrom, 64<<20))
	if err != nil {
		return nil
	}
	return b
}

// firstWords returns the kernel's output of the current boot until the kernel starts its first process. After the start
// of the first process, firstWords returns "". The caller holds g.mu.
func (g *guest) firstWords() string {
	b := g.console()
	at := bytes.LastIndex(b, []byte("] Linux version "))
	if at < 0 || bytes.Contains(b[at:], []byte(" as init process")) {
		return ""
	}
	return string(b[at:])
}

// checkPanic returns an error if the kernel has panicked in the current boot. The caller holds g.mu.
func (g *guest) checkPanic() error {
	b := g.console()
	at := bytes.Index(b, []byte("Kernel panic - not syncing"))
	if at < 0 {
		return nil
	}
	return fmt.Errorf("the worker's kernel panicked: %s", tail(string(b[max(0, at-2000):min(len(b), at+3000)]), 5000))
}

// lastWords returns the end of the serial log, for an error message.
func (g *guest) lastWords() string {
	log, err := g.Serial()
	if err != nil || strings.TrimSpace(log) == "" {
		return ""
	}
	return "\n  the end of its console:\n" + tail(log, 1500)
}
