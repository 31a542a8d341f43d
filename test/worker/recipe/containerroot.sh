#!/bin/sh
# Makes a container's root filesystem from a minimal Debian. No unit in it changes the host or runs by a timer. At boot,
# the container triggers no events of the host's devices.
set -eu
root=$1
system=$root/etc/systemd/system

echo container >"$root/etc/hostname"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$root/etc/machine-id"
echo >>"$root/etc/machine-id"
: >"$root/etc/fstab"
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap" "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
rm -f "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/* "$root/etc/resolv.conf"

# The container also receives the events of the host's devices. Without these rules, udev loads no drivers, names no
# interfaces, assembles no arrays, activates no volume groups, and does not answer the device mapper.
mkdir -p "$root/etc/udev/rules.d"
for rules in 50-firmware.rules 60-autosuspend.rules 64-md-raid-assembly.rules 69-lvm.rules 73-special-net-names.rules \
	75-net-description.rules 80-drivers.rules 80-net-setup-link.rules 81-net-dhcp.rules 85-hwclock.rules 95-dm-notify.rules; do
	ln -sf /dev/null "$root/etc/udev/rules.d/$rules"
done
for unit in systemd-sysctl.service procps.service systemd-modules-load.service modprobe@.service kmod-static-nodes.service \
	systemd-binfmt.service proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount systemd-random-seed.service \
	sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
	dev-hugepages.mount dev-mqueue.mount systemd-journald-audit.socket systemd-pstore.service systemd-remount-fs.service \
	systemd-rfkill.socket systemd-rfkill.service systemd-backlight@.service systemd-hibernate-clear.service \
	systemd-timesyncd.service systemd-firstboot.service systemd-update-utmp.service systemd-tmpfiles-clean.timer \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
	xfs_scrub_all.timer man-db.timer logrotate.timer getty.target getty@tty1.service console-getty.service \
	systemd-networkd.service systemd-networkd.socket systemd-resolved.service lvm2-monitor.service \
	mdcheck_start.timer mdcheck_continue.timer mdmonitor-oneshot.timer ldconfig.service; do
	ln -sf /dev/null "$system/$unit"
done

# At boot, udevadm triggers only the events of the container's own disks.
mkdir -p "$system/systemd-udev-trigger.service.d"
cat >"$system/systemd-udev-trigger.service.d/container.conf" <<'UNIT'
[Service]
ExecStart=
ExecStart=/bin/sh -c 'for node in /dev/loop[0-9]*; do [ ! -b "$$node" ] || udevadm trigger --action=add "/sys/class/block/$${node#/dev/}"; done'
UNIT

mkdir -p "$root/etc/systemd/journald.conf.d" "$root/var/log/journal"
cat >"$root/etc/systemd/journald.conf.d/container.conf" <<'CONF'
[Journal]
Storage=persistent
ForwardToSyslog=no
ForwardToConsole=no
ReadKMsg=no
CONF
chroot "$root" passwd -q -d root
