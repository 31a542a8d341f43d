package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// The type `probed` is a disk that udev has announced, with the UUID of its filesystem.
type probed struct{ name, uuid string }

// ownWay is a mount method that this program implements with a thread. The thread mounts each disk that udev
// announces.
type ownWay struct {
	disks chan probed
	done  chan error
	tools []*exec.Cmd
	ms    float64 // CPU time of the method's calls and processes, in milliseconds
}

// startOwn starts the method, or returns nil if this program does not implement the method. end() waits for the
// goroutine of the method.
func startOwn(way string, disks int) *ownWay {
	mount := map[string]func(*ownWay, probed) error{mountCall: (*ownWay).call, systemdMount: (*ownWay).run}[way]
	if mount == nil {
		return nil
	}
	o := &ownWay{disks: make(chan probed, disks), done: make(chan error, 1)}
	go func() {
		runtime.LockOSThread() // usage measures the CPU time of this goroutine only
		defer runtime.UnlockOSThread()
		var errs []error
		for d := range o.disks {
			errs = append(errs, mount(o, d))
		}
		o.done <- errors.Join(errs...)
	}()
	return o
}

// end() waits for the mount method and returns its CPU time in milliseconds.
func (o *ownWay) end() (float64, error) {
	if o == nil {
		return 0, nil
	}
	close(o.disks)
	errs := []error{<-o.done}
	for _, tool := range o.tools {
		if err := tool.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("cannot mount by systemd-mount: %w", err))
		}
		o.ms += float64((tool.ProcessState.UserTime() + tool.ProcessState.SystemTime()).Microseconds()) / 1000
	}
	return o.ms, errors.Join(errs...)
}

// The method `call` mounts the disk with mount(2).
func (o *ownWay) call(d probed) error {
	before := usage(unix.RUSAGE_THREAD)
	defer func() { o.ms += usage(unix.RUSAGE_THREAD) - before }()
	where := filepath.Join(mountsDir, d.uuid)
	if err := os.MkdirAll(where, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/dev/"+d.name, where, "xfs", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("cannot mount %s: %w", d.name, err)
	}
	return nil
}

// The method `run` starts systemd-mount for the disk. end() waits for this systemd-mount.
func (o *ownWay) run(d probed) error {
	tool := exec.Command("systemd-mount", "-q", "--no-block", "--collect", "--fsck=no", "-t", "xfs", "-o", "noatime", "/dev/"+d.name, filepath.Join(mountsDir, d.uuid))
	if err := tool.Start(); err != nil {
		return fmt.Errorf("cannot run systemd-mount for %s: %w", d.name, err)
	}
	o.tools = append(o.tools, tool)
	return nil
}

// The function `usage` returns the CPU time of this process or of this thread, in milliseconds.
func usage(of int) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(of, &u); err != nil {
		panic(err) // getrusage(2) cannot fail with valid arguments
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}
