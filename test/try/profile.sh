PS1='try# '

# attach FILE [SIZE] attaches a file in $DISKS to a free loop device of this container. A new file is blank. Its default
# size is 1 GiB.
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

# detach DEVICE detaches a disk even if it is in use, like virsh detach-disk.
detach() { losetup -d "/dev/${1#/dev/}"; }
