#!/bin/bash
# This script is process 1 of a container. The script makes the container's mounts, unmounts the host's, and becomes
# systemd. LOWER is the root filesystem. MEMORY is a tmpfs. NAME is the container's name. NODES are the numbers of its
# attached loop devices. ARGS are words to add to the kernel's command line. CAPABILITIES are the capabilities that the
# container lacks. BACKING lists further directories of the host that contain the files of loop devices.
set -eu
mount --make-rprivate /
mount -t overlay -o "lowerdir=$LOWER,upperdir=$MEMORY/upper,workdir=$MEMORY/overlay" overlay "$MEMORY/root"
cd "$MEMORY/root"

# The bind mounts hide the host's command line, and make the host's settings read-only.
mount -t proc proc proc
echo "quiet systemd.show_status=0 $ARGS" >"$MEMORY/cmdline"
mount --bind "$MEMORY/cmdline" proc/cmdline
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
if [ -e proc/sysrq-trigger ]; then
	mount --bind proc/sysrq-trigger proc/sysrq-trigger
	mount -o remount,bind,ro proc/sysrq-trigger
fi

# The container can read the attributes of the host's devices, drivers and modules. These attributes are
# read-only, because the container's udev rules would otherwise change some of the host's attributes. udevadm trigger
# must write the attributes of virtual block devices and memory devices, so these attributes are writable.
# /sys itself is writable, because systemd otherwise has no devices (device_supported in systemd's src/core/device.c).
mount -t sysfs sysfs sys
for dir in bus devices module power; do
	[ ! -d "sys/$dir" ] || { mount --bind "sys/$dir" "sys/$dir" && mount -o remount,bind,ro "sys/$dir"; }
done
for dir in sys/devices/virtual/block sys/devices/virtual/mem; do
	mount --bind "$dir" "$dir"
	mount -o remount,bind,rw "$dir"
done
# udevadm trigger stops at the first device that it cannot write to. So a bind mount puts another file over the uevent
# file of each disk of the host. udevadm overwrites the first line of this other file. The other lines are a copy of the
# kernel's.
for disk in sys/class/block/*; do
	at=$(readlink "$disk") || continue # another test has removed its loop device
	[[ $at != */virtual/* ]] || continue
	said=$MEMORY/uevent-${disk##*/}
	{ printf 'WRITTEN_OVER=%0200d\n' 0; cat "$disk/uevent"; } >"$said"
	mount --bind "$said" "$disk/uevent"
done
mount -t cgroup2 cgroup2 sys/fs/cgroup
# PID 1 mounts the host's filesystems at these directories, unless something is mounted there.
for dir in sys/fs/pstore sys/kernel/security sys/firmware/efi/efivars; do
	[ ! -d "$dir" ] || mount -t tmpfs -o ro,size=4k,mode=755 none "$dir"
done

# The container has no console, kernel log or loop-control, because these belong to the host.
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

# If a file in / has the same name as the source of a mount, xfs_growfs takes this source for a device. No file in / has
# the name tmpfs.
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p "srv/$NAME"
mount --bind "$MEMORY/disks" "srv/$NAME"
# For a loop device, the kernel shows the path that the file has on the host. hotmount checks that this path is a regular
# file.
for dir in "$MEMORY/disks" $BACKING; do
	mkdir -p ".$dir"
	mount --bind "$dir" ".$dir"
done
# PID 1 listens to udev only if /dev is a devtmpfs, or if udev's control socket exists (sd-device-monitor).
mkdir run/udev
: >run/udev/control
echo "$NAME" >etc/hostname # systemd sets the host name from this file
pivot_root . mnt
cd /
umount -l /mnt
mount --make-rshared /
exec setpriv --bounding-set="$CAPABILITIES" \
	env -i container= PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd </dev/null >/dev/null 2>&1
