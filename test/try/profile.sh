PS1='try# '

# attach FILE [SIZE]: connects a free loop device of this container with a file in $DISKS. A new file is blank, 1 GiB by default.
attach() {
	local file=$DISKS/$1 n
	[ -e "$file" ] || truncate -s "${2:-1G}" "$file" || return
	for n in $(seq "$FIRST" $((FIRST + LOOPS - 1))); do
		[ ! -e "/sys/block/loop$n/loop" ] || continue
		[ -b "/dev/loop$n" ] || mknod -m 660 "/dev/loop$n" b 7 "$n"
		losetup "/dev/loop$n" "$file" && echo "$file is /dev/loop$n"
		return
	done
	echo "no loop device is free" >&2
	return 1
}

# detach DEVICE: as virsh detach-disk, it does not ask who uses the disk.
detach() { losetup -d "/dev/${1#/dev/}"; }
