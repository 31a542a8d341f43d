// Package worker runs real Debian workers, for the benchmark, the demo, and tests that need a kernel, udev and systemd
// together.
//
// A [Worker] is a QEMU virtual machine that this package starts and controls by QMP. A [Libvirt] is a virtual machine
// (a domain) of a real libvirtd. A test controls the domain with the real virsh. Worker and Libvirt implement
// [Machine], with a root shell over ssh, a serial log and reboots.
//
// mmdebstrap builds the disk image of the virtual machines once, from the apt sources of the host. This package boots a
// worker once and saves its memory beside the disk image. Every later start restores the saved memory, with a temporary
// overlay of the disk image, and takes only seconds. Disk images and saved states are in one cache directory (see
// [CacheDir]). The cache directory may be deleted when no test runs.
//
// A [Container] is a Debian system in its own namespaces on this machine's kernel, with systemd as PID 1. A container
// boots in half a second, and nothing in the container is emulated. A container's disks are loop devices, and a BPF
// program on the container's cgroup denies all other disks. Worker and Container implement [Node], so a test can attach
// disks to a running worker or container.
//
// A test must use a virtual machine if the test needs hot-plug, a kernel of its own, power cuts or QEMU. The directory
// /run/hotmount-container records what each container uses on the host, so that the next container can remove a killed
// container's leftovers.
//
// This package does not need KVM, because QEMU emulates the processor.
package worker
