#!/bin/sh
# Runs libvirtd with private directories in a PID namespace. This shell is process 1 of the namespace, so all processes
# of libvirt end with it.
set -eu
root=$1
mount --make-rprivate /
mount -t proc proc /proc
for dir in etc/libvirt run/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt; do
	mkdir -p "/$dir" "$root/$dir"
	mount --bind "$root/$dir" "/$dir"
done
# libvirt looks up its default user before it reads which user to use. Without the package libvirt-daemon-system, the
# default user does not exist.
for file in passwd group; do
	cp "/etc/$file" "$root/$file"
	mount --bind "$root/$file" "/etc/$file"
done
grep -q '^libvirt-qemu:' /etc/group || echo 'libvirt-qemu:x:64055:' >>/etc/group
grep -q '^libvirt-qemu:' /etc/passwd || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/bin/false' >>/etc/passwd
cat >/etc/libvirt/libvirtd.conf <<'CONF'
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_rw_perms = "0700"
log_level = 3
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
CONF
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
CONF
libvirtd -f /etc/libvirt/libvirtd.conf -p /run/libvirt/libvirtd.pid </dev/null &
wait $!
