package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The type `logs` contains the log files of one worker.
type logs struct {
	serial string
	qmp    *os.File
	stderr *os.File // QEMU's standard error
}

func openLogs(dir string) (*logs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a directory for logs: %w", err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for logs: %w", err)
	}
	l := &logs{serial: filepath.Join(abs, "serial.log")}
	open := func(name string) (f *os.File) {
		if err == nil {
			f, err = os.OpenFile(filepath.Join(abs, name), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
		}
		return f
	}
	l.qmp, l.stderr = open("qmp.log"), open("qemu.log")
	if err != nil {
		l.close()
		return nil, fmt.Errorf("cannot open a log: %w", err)
	}
	return l, nil
}

func (l *logs) close() {
	for _, f := range []*os.File{l.qmp, l.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// LogDir makes a directory for the logs of one worker of the named test. The directory is below $HOTMOUNT_TEST_LOGS, or
// by default below the directory for temporary files. Each worker has its own directory, so no log is overwritten. A
// caller that does not need the logs removes the directory.
func LogDir(test string) (string, error) {
	base := os.Getenv("HOTMOUNT_TEST_LOGS")
	if base == "" {
		base = filepath.Join(os.TempDir(), "hotmount-test-logs")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("cannot make a directory for logs: %w", err)
	}
	for n := 1; ; n++ {
		dir := filepath.Join(base, strings.ReplaceAll(test, "/", "_"))
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrExist):
			return "", fmt.Errorf("cannot make a directory for logs: %w", err)
		}
	}
}

// SaveLogs copies the logs to dir. SaveLogs adds the worker's journal if the worker answers.
func (w *Worker) SaveLogs(ctx context.Context, dir string) error {
	return saveLogs(ctx, w.guest, dir, w.logs.serial, w.logs.qmp.Name(), w.logs.stderr.Name())
}

// The interface `runner` describes a value that runs scripts in a worker.
type runner interface {
	Run(ctx context.Context, script string) (stdout string, err error)
}

// The interface `shell` describes a value that runs scripts and writes files in a worker.
type shell interface {
	runner
	Put(ctx context.Context, local, remote string) error
	Write(ctx context.Context, remote string, data []byte, mode os.FileMode) error
}

// saveLogs copies the log files to dir. If g is not nil, saveLogs also saves the journal and the state of the worker in
// which g runs scripts.
func saveLogs(ctx context.Context, g runner, dir string, files ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot save logs: %w", err)
	}
	var errs []error
	for _, f := range files {
		to := filepath.Join(dir, filepath.Base(f))
		if same(f, to) || !exists(f) {
			continue
		}
		errs = append(errs, copyFile(f, to))
	}
	if g == nil {
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for name, script := range map[string]string{
		"journal.txt": "journalctl --no-pager -o short-precise",
		"state.txt": `for c in 'systemctl --failed --no-pager' 'systemctl list-units --all --no-pager' 'systemctl list-jobs --no-pager' findmnt \
	'lsblk -o NAME,MAJ:MIN,SIZE,RO,TYPE,FSTYPE,UUID,SERIAL,MOUNTPOINTS' 'ls -la /dev/disk/by-*' 'ps axf -o pid,stat,wchan:20,args'; do
	echo "== $c"; $c 2>&1 || true
done`,
	} {
		out, err := g.Run(ctx, script)
		if err != nil {
			out += "\n" + err.Error() + "\n"
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(out), 0o644))
	}
	return errors.Join(errs...)
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// workDir is a temporary directory. If this process is killed, the next run removes the directory.
type workDir struct {
	path string
	lock *os.File
}

const workPrefix = "hotmount-vm-"

// The path of a Unix socket has at most 107 bytes, and ssh appends 18 bytes to the path.
const maxControlDir = 107 - 18 - len("/s12345")

func newWorkDir() (*workDir, error) {
	parent := os.TempDir()
	if len(parent)+len(workPrefix)+12 > maxControlDir {
		parent = "/tmp"
	}
	removeAbandoned(parent)
	dir, err := os.MkdirTemp(parent, workPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot make a working directory: %w", err)
	}
	lock, err := flock(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &workDir{path: dir, lock: lock}, nil
}

func (d *workDir) remove() error {
	err := os.RemoveAll(d.path)
	_ = d.lock.Close()
	return err
}

// removeAbandoned removes the working directories that killed processes have left.
func removeAbandoned(parent string) {
	found, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, f := range found {
		info, err := f.Info()
		if err != nil || !strings.HasPrefix(f.Name(), workPrefix) || time.Since(info.ModTime()) < time.Minute {
			continue // a new directory is perhaps not locked yet
		}
		dir := filepath.Join(parent, f.Name())
		if !exists(filepath.Join(dir, "lock")) {
			continue
		}
		if lock, err := flock(filepath.Join(dir, "lock"), syscall.LOCK_EX); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}
