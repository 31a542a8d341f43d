// Package worker runs real Debian workers, for tests that only a kernel, udev
// and systemd together can answer, for the benchmark and for the demo.
//
// A [Worker] is a QEMU of our own, driven by QMP; a [Libvirt] is a domain that
// a real libvirtd runs, driven by the real virsh. Both are a [Machine]: a root
// shell by ssh, a serial log, a reboot.
//
// The image is built once by mmdebstrap from the machine's own apt sources, the
// memory of a booted worker is saved beside it, and every further start is a
// restore into a throw-away overlay, so that a test has its worker in seconds.
// All of that lies in one cache directory (see [CacheDir]); it may be deleted
// at any time when no test runs.
//
// A [Container] is a Debian whose systemd is PID 1 of namespaces of its own, on
// this machine's kernel: it boots in half a second and nothing in it is emulated.
// Its disks are loop devices, and a BPF program on its cgroup denies it all
// other devices. It is a [Node], as a Worker is. What needs hot-plug, a kernel of
// its own, a power cut or QEMU needs the virtual machine. /run/hotmount-container
// tells what each container has on the host, so that the next one removes what a
// killed process has left.
//
// Nothing here needs KVM: the virtual machines are emulated.
package worker
