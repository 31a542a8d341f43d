// Package worker runs real Debian workers in virtual machines, for tests that
// only a kernel, udev and systemd together can answer, and for the demo.
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
// Nothing here needs KVM: the workers are emulated.
package worker
