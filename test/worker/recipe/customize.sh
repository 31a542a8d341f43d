#!/bin/sh
# Makes a worker from a minimal Debian, with network, ssh and journal, and without timers. WORKER_KEY is root's public
# key.
set -eu
root=$1

echo worker >"$root/etc/hostname"
printf '127.0.0.1 localhost\n127.0.1.1 worker\n' >"$root/etc/hosts"
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$root/etc/machine-id"
echo >>"$root/etc/machine-id"
: >"$root/etc/fstab"

# The settings of mmdebstrap are only for the build.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap" "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
rm -f "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*
rm -f "$root/etc/resolv.conf"

# The interface exists before init starts, because its driver is in the initramfs.
cat >"$root/etc/systemd/system/worker-network.service" <<'UNIT'
[Unit]
Description=Network of the test worker
DefaultDependencies=no
After=local-fs-pre.target
Before=network.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2'

[Install]
WantedBy=multi-user.target
UNIT
chroot "$root" systemctl -q enable worker-network.service

mkdir -p "$root/root/.ssh"
chmod 700 "$root/root/.ssh"
echo "$WORKER_KEY" >"$root/root/.ssh/authorized_keys"
cat >"$root/etc/ssh/sshd_config.d/worker.conf" <<'CONF'
PermitRootLogin prohibit-password
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM no
UseDNS no
MaxSessions 200
MaxStartups 50
PrintMotd no
CONF
chroot "$root" passwd -q -d root # for the serial console

mkdir -p "$root/etc/systemd/journald.conf.d" "$root/var/log/journal"
cat >"$root/etc/systemd/journald.conf.d/worker.conf" <<'CONF'
[Journal]
Storage=persistent
SyncIntervalSec=5s
CONF

# udev would load these drivers for an emulated processor, which takes seconds.
cat >"$root/etc/modprobe.d/worker.conf" <<'CONF'
blacklist kvm
blacklist kvm_amd
blacklist kvm_intel
blacklist powernow_k8
blacklist acpi_cpufreq
blacklist aesni_intel
blacklist ghash_clmulni_intel
blacklist sha512_ssse3
CONF

for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	man-db.timer logrotate.timer systemd-timesyncd.service getty@tty1.service getty-static.service \
	systemd-pstore.service lvm2-monitor.service mdcheck_start.timer mdcheck_continue.timer mdmonitor-oneshot.timer \
	systemd-networkd.service systemd-networkd.socket systemd-resolved.service systemd-firstboot.service \
	systemd-binfmt.service proc-sys-fs-binfmt_misc.automount; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# The clock jumps when a saved worker is restored, and the timer would run then. fstrim.service stays, because tests
# start it.
chroot "$root" systemctl -q disable fstrim.timer
