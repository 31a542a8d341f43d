package disk

import (
	"slices"
	"strings"
)

// The types of filesystems that a class can create.
const (
	XFS  = "xfs"
	Ext4 = "ext4"
)

// mkfsKeys are the options of mkfs.xfs that a class may set. mkfsKeys leaves out options that add another device,
// choose another size, or change the time at which mkfs writes. mkfsKeys also leaves out options that make a filesystem
// which the kernel may be unable to mount. With some other options, hotmount could not recognise the unfinished
// filesystem after a crash. mkfsKeys leaves out these options, too.
var mkfsKeys = map[string][]string{
	"-d": {"agcount", "su", "sw", "sunit", "swidth", "noalign"},
	"-i": {"size", "maxpct", "sparse", "nrext64"},
	"-l": {"size", "su", "sunit"},
	"-m": {"reflink", "rmapbt", "finobt", "bigtime", "inobtcount"},
	"-n": {"size"},
}

// ext4Keys are the options of mkfs.ext4 that a class may set; "" stands for a plain number. Options that hotmount sets
// itself are left out.
var ext4Keys = map[string][]string{
	"-i": {""},
	"-m": {""},
	"-N": {""},
	"-E": {"stride", "stripe_width"},
	"-J": {"size"},
}

// MkfsOption reports whether a class may pass the option to mkfs.xfs or mkfs.ext4. An option is a flag and a space,
// followed by a number or by keys with numbers, such as "-d su=64k,sw=4". The key noalign has no number.
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
