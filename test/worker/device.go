package worker

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The type `device` is the number of a device that the processes of a cgroup may use. A minor number of -1 stands for all
// minor numbers.
type device struct {
	block        bool
	major, minor int32
}

// basicDevices are null, zero, full, random, urandom, tty, ptmx and the pseudo-terminals
// (Documentation/admin-guide/devices.txt in the kernel). basicDevices omits /dev/mem, /dev/console and /dev/kmsg.
// basicDevices also omits loop-control, which can add and remove loop devices of the host.
var basicDevices = []device{
	{false, 1, 3}, {false, 1, 5}, {false, 1, 7}, {false, 1, 8}, {false, 1, 9},
	{false, 5, 0}, {false, 5, 2}, {false, 136, -1},
}

// allowDevices denies the cgroup all devices except the given devices. The denial lasts as long as the cgroup exists.
// The device filter also denies mknod(2) for the other devices. The device filter needs a mounted cgroup2, but the
// machine may use cgroup v1 beside cgroup2.
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
	defer program.Close() // the cgroup holds its own reference to the BPF program
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(dir.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice,
		// With BPF_F_ALLOW_MULTI, the container's systemd can add device filters for its units. A device is allowed
		// only if every device filter allows the device.
		Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("cannot attach the container's device filter: %w", err)
	}
	return nil
}

// deviceFilter returns a BPF program that returns 1 (allow) for the given devices, and 0 (deny) for all other devices.
// The BPF program reads three words of struct bpf_cgroup_dev_ctx (linux/bpf.h): access_type, major and minor. The low
// 16 bits of access_type are the device's type.
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
