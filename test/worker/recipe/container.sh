#!/bin/bash
# Process 1 of the container's namespaces: makes its mounts, leaves the host's behind, and becomes systemd.
# LOWER is the root filesystem, WORK the working directory, NAME the container's, DISKS the host's directory
# for its disks, NODES its attached loop devices.
set -eu
mount --make-rprivate /
mkdir -p "$WORK/upper" "$WORK/overlay" "$WORK/root"
mount -t overlay -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/overlay" overlay "$WORK/root"
cd "$WORK/root"
mount -t proc proc proc
# The host's settings are not the container's to change.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
[ ! -e proc/sysrq-trigger ] || mount --bind dev/null proc/sysrq-trigger 2>/dev/null || true
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
	set -- $node
	mknod -m 666 "dev/$1" c "$2" "$3"
done
mknod -m 600 dev/console c 5 1
mknod -m 600 dev/loop-control c 10 237
for n in $NODES; do mknod -m 660 "dev/loop$n" b 7 "$n"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o mode=755 run run
echo "quiet systemd.show_status=0" >run/cmdline
mount --bind run/cmdline proc/cmdline
mount -t tmpfs tmp tmp
mkdir -p "srv/$NAME"
mount --bind "$DISKS" "srv/$NAME"
# PID 1 listens to udev only where /dev is a devtmpfs or udev's control socket is there (sd-device-monitor).
mkdir run/udev
: >run/udev/control
hostname "$NAME"
pivot_root . mnt
cd /
umount -l /mnt
mount --make-rshared /
# The clock and the modules are the host's. What the host runs inside has the same bound (Container.Command).
exec setpriv --bounding-set=-sys_time,-sys_module env -i container= PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd </dev/null >/dev/null 2>&1
