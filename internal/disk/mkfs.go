package disk

import (
	"slices"
	"strings"
)

// The types of filesystems that a class may have made.
const (
	XFS  = "xfs"
	Ext4 = "ext4"
)

// mkfsKeys are what a class may ask of mkfs.xfs. What brings in another device, takes
// another size, writes before it was asked, or makes what the kernel cannot mount or
// a crash's remains cannot be told from is not in it.
var mkfsKeys = map[string][]string{
	"-d": {"agcount", "su", "sw", "sunit", "swidth", "noalign"},
	"-i": {"size", "maxpct", "sparse", "nrext64"},
	"-l": {"size", "su", "sunit"},
	"-m": {"reflink", "rmapbt", "finobt", "bigtime", "inobtcount"},
	"-n": {"size"},
}

// ext4Keys are the same for mkfs.ext4; "" is a number alone. What format asks of it
// itself is not in it.
var ext4Keys = map[string][]string{
	"-i": {""},
	"-m": {""},
	"-N": {""},
	"-E": {"stride", "stripe_width"},
	"-J": {"size"},
}

// MkfsOption reports whether a class may give the option to mkfs.xfs or mkfs.ext4: a
// flag, a space, and keys with numbers, such as "-d su=64k,sw=4", or a number.
func MkfsOption(fstype, s string) bool {
	keys := mkfsKeys
	if fstype == Ext4 {
		keys = ext4Keys
	}
	flag, values, _ := strings.Cut(s, " ")
	if len(s) > 128 || keys[flag] == nil {
		return false
	}
	if slices.Contains(keys[flag], "") {
		return values != "" && strings.Trim(values, "0123456789") == ""
	}
	for value := range strings.SplitSeq(values, ",") {
		key, number, _ := strings.Cut(value, "=")
		if !slices.Contains(keys[flag], key) || (number == "") != (key == "noalign") || strings.Trim(number, "0123456789kmgbs") != "" {
			return false
		}
	}
	return true
}
