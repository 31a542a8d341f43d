package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Seen is what the probe saw in the worker. Times are CLOCK_MONOTONIC in
// milliseconds, by the disk's sequence number.
type Seen struct {
	Added   map[string]float64 `json:"added"`   // the kernel's event
	Probed  map[string]float64 `json:"probed"`  // udev's event
	Mounted map[string]float64 `json:"mounted"` // below mountedBelow
	Units   map[string]string  `json:"units"`   // mount point by sequence number
	// CPU in milliseconds that was spent from the first disk's kernel event to
	// quiet after the last mount: by the whole machine ("guest") and by some of
	// its control groups.
	CPU map[string]float64 `json:"cpu"`
}

const (
	mountedBelow = "/mnt/disks/"
	// quiet in milliseconds is how long CPU is counted after the last mount.
	quiet = 2500
)

// groups are the control groups whose CPU is told apart.
var groups = map[string]string{
	"PID 1":    "init.scope",
	"hotmount": "system.slice/hotmount.service",
	"udevd":    "system.slice/systemd-udevd.service",
	"journald": "system.slice/systemd-journald.service",
	"dbus":     "system.slice/dbus.service",
	"loop":     "system.slice/bench-loop.service",
}

func now() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the kernel has this clock
	}
	return float64(t.Nano()) / 1e6
}

// probe runs in the worker: it waits until so many disks were added and, unless
// how is "hear", mounted, and prints what it saw. With "mount" it mounts them
// itself, as soon as the kernel has them, with "format" it makes an XFS on them before. It makes
// the file ready once it listens.
func probe(ready string, disks int, how string, out io.Writer) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		return err
	}
	// The groups of the kernel and of udev.
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 | 2}); err != nil {
		return err
	}
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	p := prober{how: how, seen: Seen{Added: map[string]float64{}, Probed: map[string]float64{}, Mounted: map[string]float64{}, Units: map[string]string{}}}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return err
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(table), Events: unix.POLLPRI}}
	deadline := now() + 280_000
	for !p.done(disks) {
		if now() > deadline {
			return fmt.Errorf("waited in vain: %+v", p.seen)
		}
		if _, err := unix.Poll(fds, 1000); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if fds[0].Revents != 0 {
			if err := p.hear(fd); err != nil {
				return err
			}
		}
		if fds[1].Revents != 0 {
			if err := p.look(); err != nil {
				return err
			}
		}
	}
	time.Sleep(quiet * time.Millisecond)
	after, err := cpu()
	if err != nil {
		return err
	}
	p.seen.CPU = map[string]float64{}
	for name, spent := range after {
		p.seen.CPU[name] = spent - p.before[name]
	}
	return json.NewEncoder(out).Encode(p.seen)
}

type prober struct {
	how    string
	seen   Seen
	before map[string]float64
}

func (p *prober) done(disks int) bool {
	return len(p.seen.Probed) >= disks && (p.how == "hear" || len(p.seen.Mounted) >= disks)
}

// hear reads all events that are there.
func (p *prober) hear(fd int) error {
	buffer := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		at := now()
		frame, times := buffer[:n], p.seen.Added
		if bytes.HasPrefix(frame, []byte("libudev\x00")) && n > 40 {
			// The offset of the properties in struct monitor_netlink_header.
			frame, times = frame[binary.NativeEndian.Uint32(frame[16:]):], p.seen.Probed
		}
		e := map[string]string{}
		for property := range strings.SplitSeq(string(frame), "\x00") {
			key, value, _ := strings.Cut(property, "=")
			e[key] = value
		}
		seq, name := e["DISKSEQ"], filepath.Base(e["DEVPATH"])
		if e["SUBSYSTEM"] != "block" || e["DEVTYPE"] != "disk" || e["ACTION"] != "add" || seq == "" || times[seq] != 0 {
			continue
		}
		// At boot there are others, and the one that it boots from.
		if !strings.HasPrefix(name, "vd") || name == "vda" {
			continue
		}
		times[seq] = at
		if p.before == nil {
			if p.before, err = cpu(); err != nil {
				return err
			}
		}
		if (p.how == "mount" || p.how == "format") && times[seq] == p.seen.Added[seq] {
			if err := p.mount("/dev/"+name, mountedBelow+"floor-"+seq); err != nil {
				return err
			}
		}
	}
}

func (p *prober) mount(node, where string) error {
	if p.how == "format" {
		if said, err := exec.Command("mkfs.xfs", "-q", "-K", node).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot make an XFS on %s: %w: %s", node, err, said)
		}
	}
	if err := os.MkdirAll(where, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(node, where, "xfs", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("cannot mount %s: %w", node, err)
	}
	return nil
}

// look reads the mount table.
func (p *prober) look() error {
	at := now()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], mountedBelow) {
			continue
		}
		seq, err := os.ReadFile("/sys/dev/block/" + fields[2] + "/diskseq")
		if err != nil {
			return err
		}
		s := strings.TrimSpace(string(seq))
		if _, known := p.seen.Mounted[s]; !known {
			p.seen.Mounted[s], p.seen.Units[s] = at, fields[4]
		}
	}
	return nil
}

// cpu gives what was spent since boot, in milliseconds: by the machine, from
// /proc/stat (proc_stat(5); a tick is 10 ms), and by the groups.
func cpu() (map[string]float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	spent := map[string]float64{}
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		if i != 3 && i != 4 && i < 8 { // idle, iowait; guest time is in user
			spent["guest"] += n * 10
		}
	}
	for name, group := range groups {
		if spent[name], err = groupCPU(group); err != nil {
			return nil, err
		}
	}
	return spent, nil
}

func groupCPU(group string) (float64, error) {
	text, err := os.ReadFile("/sys/fs/cgroup/" + group + "/cpu.stat")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var usec float64
	_, err = fmt.Sscanf(string(text), "usage_usec %f", &usec)
	return usec / 1000, err
}

// peak runs in the worker: until there is a file enough it adds up what the processes of hotmount's units
// have of memory of their own (RssAnon, proc_pid_status(5)), fifty times a second. It prints the most of those named hotmount in MiB,
// how many of them there were then, and the most of all, the tools with them. A child that has not become a tool yet has its parent's
// memory (vfork(2)), which is not counted twice.
func peak(enough string, out io.Writer) error {
	most, processes, mostOfAll := 0.0, 0, 0.0
	for {
		if _, err := os.Stat(enough); err == nil {
			_, err := fmt.Fprintln(out, most, processes, mostOfAll)
			return err
		}
		all, err := procfs.AllProcs()
		if err != nil {
			return err
		}
		parents, tools := map[int]int{}, map[int]bool{}
		for _, p := range all {
			group, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cgroup")
			if err != nil || !bytes.Contains(group, []byte("hotmount")) {
				continue // it has ended, or is another
			}
			if stat, err := p.Stat(); err == nil {
				parents[p.PID], tools[p.PID] = stat.PPID, stat.Comm != "hotmount"
			}
		}
		sum, n, sumOfAll := 0.0, 0, 0.0
		for _, p := range all {
			parent, ours := parents[p.PID]
			if _, child := parents[parent]; !ours || child && !tools[p.PID] {
				continue
			}
			status, err := p.NewStatus()
			if err != nil {
				continue // it has just ended
			}
			mib := float64(status.RssAnon) / (1 << 20)
			if sumOfAll += mib; !tools[p.PID] {
				sum, n = sum+mib, n+1
			}
		}
		mostOfAll = max(mostOfAll, sumOfAll)
		if sum > most {
			most, processes = sum, n
		}
		time.Sleep(20 * time.Millisecond)
	}
}
