#!/bin/sh
# mmdebstrap runs this script before it installs the kernel. So the initramfs is small, and is built only once.
set -eu
root=$1
mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/etc/initramfs-tools/hooks"
echo 'MODULES=list' >"$root/etc/initramfs-tools/conf.d/worker"
cat >"$root/etc/initramfs-tools/hooks/worker" <<'HOOK'
#!/bin/sh
case "$1" in prereqs) exit 0 ;; esac
. /usr/share/initramfs-tools/hook-functions
for module in virtio_pci virtio_blk virtio_scsi sd_mod virtio_net virtio_rng ext4; do
	force_load "$module"
done
copy_exec /sbin/blkid # blkid finds the root filesystem
HOOK
chmod 755 "$root/etc/initramfs-tools/hooks/worker"
