package policy

// fileIs returns what a file of the given format (package probe) is, and how to use the content of such a file. fileIs
// returns two empty texts for an unknown format.
func fileIs(format string) (what, use string) {
	driver := format
	switch format {
	case "qcow2":
		return "a disk image of the format qcow2", "detach the disk, and on the host attach the image with its format: virsh attach-disk DOMAIN FILE TARGET --subdriver qcow2"
	case "vhd":
		driver = "vpc"
		fallthrough
	case "vmdk", "vdi", "vhdx":
		return "a disk image of the format " + format, say("detach the disk, convert the image on the host: qemu-img convert -f %s -O raw FILE NEWFILE; then attach NEWFILE", driver)
	case "gzip", "xz", "zstd", "bzip2", "lz4":
		return "a file of the format " + format, say("detach the disk, unpack the file on the host: %s -dc <FILE >NEWFILE; then attach NEWFILE", format)
	case "zip", "7z", "tar":
		return "a file of the format " + format, "detach the disk, unpack the file on the host, and attach its content"
	case "age", "openpgp", "openssl":
		return "a file encrypted with " + format, "detach the disk, decrypt the file on the host, and attach the decrypted content"
	}
	return "", ""
}

// otherRemedy returns the remedy for content that hotmount does not mount. For content that looks like a file, the
// remedy explains how to use the file. The remedy names `hotmount format` only if the token of that command would be
// valid.
func otherRemedy(w *wording) string {
	_, use := fileIs(w.c.Type)
	if use == "" {
		return wipe(w)
	}
	if _, ok := Confirmable(w.f, w.c, w.s); ok {
		use += "; " + wipe(w)
	}
	return use
}
