package worker

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// device is a device number that a cgroup may use. A minor of -1 stands for every minor number.
type device struct {
	block        bool
	major, minor int32
}

// basicDevices are null, zero, full, random, urandom, tty, ptmx and the pseudo-terminals
// (Documentation/admin-guide/devices.txt in the kernel). basicDevices omits memory, the console and the kernel's log.
// basicDevices also omits loop-control, which can add and remove loop devices of the host.
var basicDevices = []device{
	{false, 1, 3}, {false, 1, 5}, {false, 1, 7}, {false, 1, 8}, {false, 1, 9},
	{false, 5, 0}, {false, 5, 2}, {false, 136, -1},
}

// allowDevices denies the cgroup all devices except the given ones, as long as the cgroup exists. The device filter
// also denies mknod(2). The device filter works with cgroup v1 and v2, provided that cgroup2 is mounted.
func allowDevices(group string, all []device) error {
	dir, err := os.Open(group)
	if err != nil {
		return fmt.Errorf("cannot open the container's cgroup: %w", err)
	}
	defer dir.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: deviceFilter(all)})
	if err != nil {
		return fmt.Errorf("cannot load the container's device filter: %w", err)
	}
	defer program.Close() // the cgroup holds its own reference to the program
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(dir.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice,
		// The systemd in the container adds filters for its units (BPF_F_ALLOW_MULTI). A device is allowed only if
		// every filter allows it.
		Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("cannot attach the container's device filter: %w", err)
	}
	return nil
}

// deviceFilter returns a BPF program that returns 1 for the given devices and 0 for all others. The program's context
// is struct bpf_cgroup_dev_ctx (linux/bpf.h): access_type, whose low 16 bits are the device's type, then major and
// minor.
func deviceFilter(all []device) asm.Instructions {
	const typeBlock, typeCharacter = 1, 2 // BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_DEV_CHAR
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.And.Imm32(asm.R2, 0xffff),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.LoadMem(asm.R4, asm.R1, 8, asm.Word),
	}
	for i, d := range all {
		next, kind := fmt.Sprintf("next%d", i), int32(typeCharacter)
		if d.block {
			kind = typeBlock
		}
		check := asm.Instructions{asm.JNE.Imm(asm.R2, kind, next), asm.JNE.Imm(asm.R3, d.major, next)}
		if d.minor >= 0 {
			check = append(check, asm.JNE.Imm(asm.R4, d.minor, next))
		}
		if i > 0 {
			check[0] = check[0].WithSymbol(fmt.Sprintf("next%d", i-1))
		}
		program = append(program, check...)
		program = append(program, asm.Mov.Imm(asm.R0, 1), asm.Return())
	}
	return append(program, asm.Mov.Imm(asm.R0, 0).WithSymbol(fmt.Sprintf("next%d", len(all)-1)), asm.Return())
}
