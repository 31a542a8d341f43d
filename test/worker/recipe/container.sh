#!/bin/bash
# Process 1 of the container's namespaces: makes its mounts, leaves the host's behind, and becomes systemd.
# LOWER is the root filesystem, MEMORY a tmpfs of the container's own, NAME its name, NODES its attached
# loop devices, ARGS what the kernel's command line has besides, CAPABILITIES what it may not.
set -eu
mount --make-rprivate /
mount -t overlay -o "lowerdir=$LOWER,upperdir=$MEMORY/upper,workdir=$MEMORY/overlay" overlay "$MEMORY/root"
cd "$MEMORY/root"

# Each bind mount is for a file of the host that the container must not change, or that tells it of the host.
mount -t proc proc proc
echo "quiet systemd.show_status=0 $ARGS" >"$MEMORY/cmdline"
mount --bind "$MEMORY/cmdline" proc/cmdline
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
if [ -e proc/sysrq-trigger ]; then
	mount --bind proc/sysrq-trigger proc/sysrq-trigger
	mount -o remount,bind,ro proc/sysrq-trigger
fi

# The host's devices, drivers and modules can be looked at, but their attributes stay as they are: rules of udev set
# some. Writable are those of virtual block devices and of memory, whose events udevadm trigger asks for. /sys
# itself is writable, or systemd would know no devices (device_supported in its src/core/device.c).
mount -t sysfs sysfs sys
for dir in bus devices module power; do
	[ ! -d "sys/$dir" ] || { mount --bind "sys/$dir" "sys/$dir" && mount -o remount,bind,ro "sys/$dir"; }
done
for dir in sys/devices/virtual/block sys/devices/virtual/mem; do
	mount --bind "$dir" "$dir"
	mount -o remount,bind,rw "$dir"
done
# udevadm trigger gives up at the first device that it may not write to. What it writes to one of the host's disks
# ends in a file, over the first line of what the kernel says of the disk.
for disk in sys/class/block/*; do
	at=$(readlink "$disk") || continue # another test's loop device is gone
	[[ $at != */virtual/* ]] || continue
	said=$MEMORY/uevent-${disk##*/}
	{ printf 'WRITTEN_OVER=%0200d\n' 0; cat "$disk/uevent"; } >"$said"
	mount --bind "$said" "$disk/uevent"
done
mount -t cgroup2 cgroup2 sys/fs/cgroup
# PID 1 would mount the host's here.
for dir in sys/fs/pstore sys/kernel/security sys/firmware/efi/efivars; do
	[ ! -d "$dir" ] || mount -t tmpfs -o ro,size=4k,mode=755 none "$dir"
done

# No console, kernel log or loop-control: they are the host's.
mount -t tmpfs -o mode=755 tmpfs dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
	set -- $node
	mknod -m 666 "dev/$1" c "$2" "$3"
done
for n in $NODES; do mknod -m 660 "dev/loop$n" b 7 "$n"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr

# xfs_growfs would take a source that is there in / for the device.
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p "srv/$NAME"
mount --bind "$MEMORY/disks" "srv/$NAME"
# A file that the host has attached has the host's path. hotmount looks there whether it is a regular file.
for dir in "$MEMORY/disks" $BACKING; do
	mkdir -p ".$dir"
	mount --bind "$dir" ".$dir"
done
# PID 1 listens to udev only where /dev is a devtmpfs or udev's control socket is there (sd-device-monitor).
mkdir run/udev
: >run/udev/control
echo "$NAME" >etc/hostname # systemd sets it
pivot_root . mnt
cd /
umount -l /mnt
mount --make-rshared /
exec setpriv --bounding-set="$CAPABILITIES" \
	env -i container= PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd </dev/null >/dev/null 2>&1
