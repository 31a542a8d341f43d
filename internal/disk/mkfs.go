package disk

import (
	"slices"
	"strings"
)

// mkfsKeys are what a class may ask of mkfs.xfs. What brings in another device, takes
// another size, writes before it was asked, or makes what the kernel can not mount or
// a crash's remains can not be told from is not in it.
var mkfsKeys = map[string][]string{
	"-d": {"agcount", "su", "sw", "sunit", "swidth", "noalign"},
	"-i": {"size", "maxpct", "sparse", "nrext64"},
	"-l": {"size", "su", "sunit"},
	"-m": {"reflink", "rmapbt", "finobt", "bigtime", "inobtcount"},
	"-n": {"size"},
}

// MkfsOption says whether a class may give the option to mkfs.xfs: a flag, a space,
// and keys with numbers, such as "-d su=64k,sw=4".
func MkfsOption(s string) bool {
	flag, values, _ := strings.Cut(s, " ")
	if len(s) > 128 || mkfsKeys[flag] == nil {
		return false
	}
	for value := range strings.SplitSeq(values, ",") {
		key, number, _ := strings.Cut(value, "=")
		if !slices.Contains(mkfsKeys[flag], key) || (number == "") != (key == "noalign") || strings.Trim(number, "0123456789kmgbs") != "" {
			return false
		}
	}
	return true
}
