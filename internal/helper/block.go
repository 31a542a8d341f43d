package helper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/unit"
)

// GiveOut makes the symbolic link to a block volume's disk. GiveOut then replaces its own process by sleep(1), which
// only keeps the disk open. While a process has the disk open, the kernel does not reuse the disk's name, so the link
// cannot lead to another disk. When the disk is detached, TakeBack removes the link, and then PID 1 stops the process
// that keeps the disk open.
func GiveOut(_ context.Context, h inventory.Host, seq uint64) error {
	s, f, err := settingsAndDisk(h, seq)
	if err != nil {
		return err
	}
	c := f.KnownContent()
	d := policy.Decide(f, &c, s)
	if d.Action != disk.Link {
		why, _ := policy.Words(f, &c, s, d)
		return fmt.Errorf("cannot give out %s: %s: %s", f.ID, d.Action, why)
	}
	device, err := hold(h, f, s)
	if err != nil {
		return fmt.Errorf("cannot give out %s: %w", f.ID, err)
	}
	defer runtime.KeepAlive(device)
	class := policy.Select(f, s)
	link := class.LinkTo(f)
	boot, err := h.Boot()
	if err != nil {
		return fmt.Errorf("cannot give out %s: %w", f.ID, err)
	}
	if err := h.Store.GiveOut(f, boot, class.Name, link); err != nil {
		return err
	}
	if err := unit.MakeLink(link, f.ID); err != nil {
		return err
	}
	report.New().Event(report.KindGivenOut, journal.PriNotice, f, d, "", fmt.Sprintf("%s: given out as a block volume at %s", report.Name(f), link))
	if _, err := daemon.SdNotify(false, "STATUS=keeps "+f.Node()+" open for "+link+"\n"+daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	// sleep(1) replaces this process, because sleep(1) needs half a megabyte of memory, and this process needs ten
	// megabytes. sleep(1) inherits the descriptor that keeps the disk open.
	if _, err := unix.FcntlInt(device.Fd(), unix.F_SETFD, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return unix.Exec("/usr/bin/sleep", []string{"sleep", "infinity"}, nil)
}

// hold opens the disk and takes a shared lock on it. The function `hold` verifies that the disk has not been detached
// since the caller read the disk's facts. The shared lock shows that no format is writing, because a format writes only
// under the exclusive lock.
func hold(h inventory.Host, f *disk.Facts, s *disk.Settings) (*os.File, error) {
	device, err := os.OpenFile(f.BySeq(), os.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.Sandboxed("hotmount-block", err)
	}
	var seq uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.BLKGETDISKSEQ, uintptr(unsafe.Pointer(&seq))); errno != 0 {
		return nil, errors.Join(fmt.Errorf("BLKGETDISKSEQ: %w", errno), device.Close())
	}
	if seq != f.Seq {
		return nil, errors.Join(fmt.Errorf("%s has disk sequence number %d: %w", f.BySeq(), seq, disk.ErrGone), device.Close())
	}
	if err := unix.Flock(int(device.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another process, such as a running format, has locked the disk: %w", err), device.Close())
	}
	// The caller read the facts before hold() took the lock. Between the read and the lock, the disk may have been
	// attached again, or a format may have begun or ended.
	now, err := h.For(s).BySeq(f.Seq)
	if err == nil && now.Serial != f.Serial {
		err = disk.ErrGone
	}
	if err == nil {
		c := now.KnownContent()
		if d := policy.Decide(now, &c, s); d.Action != disk.Link {
			why, _ := policy.Words(now, &c, s, d)
			err = fmt.Errorf("%s: %s", d.Action, why)
		}
	}
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return device, nil
}

// hintPatience is the time limit for the request that makes the daemon look at a disk. hintPatience is short, because
// TakeBack must end within TimeoutStopSec=30 of hotmount-block@.service.
const hintPatience = 5 * time.Second

// TakeBack removes the link to the disk, even if the disk is gone. TakeBack makes the daemon behind the control socket
// look at the disk, because the daemon cannot notice the removal of the link otherwise. If policy still requires a
// block volume, the daemon gives the disk out again.
func TakeBack(ctx context.Context, h inventory.Host, seq uint64, socket string) error {
	link, err := h.Store.Link(seq)
	if err != nil || link == "" {
		return err
	}
	if err := unit.RemoveLink(link, disk.ID{Seq: seq}); err != nil {
		return err
	}
	if err := h.Store.ForgetLink(seq); err != nil {
		return err
	}
	return hint(ctx, socket, seq)
}

// hint makes the daemon behind the control socket look at the disk.
func hint(ctx context.Context, socket string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, hintPatience)
	defer cancel()
	return ask(ctx, socket, control.Request{Do: "hint", Seq: seq})
}
