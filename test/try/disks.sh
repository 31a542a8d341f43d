# Makes the files data.img and lvm.img. No class selects a file in /tmp, so hotmount ignores the loop device that pvcreate
# needs.
set -e
mkdir -p "$DISKS" /tmp/data
echo "this file was here before hotmount" >/tmp/data/precious
truncate -s 1G "$DISKS/data.img" /tmp/lvm.img
mkfs.ext4 -q -d /tmp/data "$DISKS/data.img"
[ -b "/dev/loop$FIRST" ] || mknod -m 660 "/dev/loop$FIRST" b 7 "$FIRST"
losetup "/dev/loop$FIRST" /tmp/lvm.img
pvcreate -q "/dev/loop$FIRST"
losetup -d "/dev/loop$FIRST"
until [ ! -e "/sys/block/loop$FIRST/loop" ]; do sleep 0.1; done
mv /tmp/lvm.img "$DISKS/"
