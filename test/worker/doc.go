// Package worker runs real Debian workers, for the benchmark, the demo, and tests that need a kernel, udev and systemd
// together.
//
// A [Worker] is a QEMU virtual machine that this package starts and controls by QMP. A [Libvirt] is a domain of a
// real libvirtd, which the real virsh controls. A Worker and a Libvirt are both a [Machine], which has a root shell
// by ssh, a serial log and a reboot.
//
// mmdebstrap builds the image once from the machine's own apt sources. The memory of a booted worker is saved beside
// the image. Every further start restores the saved memory, with a temporary overlay of the disk, so that a test has
// its worker in seconds. Images and saved states are in one cache directory (see [CacheDir]). The cache directory may
// be deleted when no test runs.
//
// A [Container] is a Debian whose systemd is PID 1 of its own namespaces, on this machine's kernel. A container boots
// in half a second, and nothing in it is emulated. A container's disks are loop devices, and a BPF program on the
// container's cgroup denies it all other devices. Like a Worker, a Container is a [Node].
//
// Tests need the virtual machine if they need hot-plug, their own kernel, power cuts or QEMU. The directory
// /run/hotmount-container records what each container uses on the host. With this record, the next container can
// remove what a killed process has left.
//
// This package does not need KVM, because the virtual machines are emulated.
package worker
