// Package worker runs real Debian workers. They serve tests that need a kernel, udev and systemd together, the
// benchmark and the demo.
//
// A [Worker] is a QEMU of this package, driven by QMP. A [Libvirt] is a domain that a real libvirtd runs, driven by the
// real virsh. Both are a [Machine]: a root shell by ssh, a serial log, a reboot.
//
// mmdebstrap builds the image once from the machine's own apt sources. The memory of a booted worker is saved beside
// it. Every further start restores that into a temporary overlay, so that a test has its worker in seconds. All of this
// lies in one cache directory (see [CacheDir]), which may be deleted at any time when no test runs.
//
// A [Container] is a Debian whose systemd is PID 1 of namespaces of its own, on this machine's kernel. It boots in half
// a second, and nothing in it is emulated. Its disks are loop devices, and a BPF program on its cgroup denies it all
// other devices. Like a Worker, it is a [Node].
//
// Tests of hot-plug, a kernel of their own, power cuts or QEMU need the virtual machine. A directory records the host's
// part of each container, /run/hotmount-container, so that the next one removes what a killed process has left.
//
// Nothing here needs KVM: the virtual machines are emulated.
package worker
