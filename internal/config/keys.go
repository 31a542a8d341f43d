package config

import "time"

// key is a key of the configuration with its possible values.
type key struct {
	name string
	kind
	count count
	// usage is the usage text of the key's flag, or empty if the key has no flag.
	usage string
}

// count is the number of values that a key can have.
type count int

const (
	single count = iota
	list
	nonEmptyList
)

// scalars are the keys that files, the environment and the command line can set.
var scalars = []key{
	{"format", boolean, single, "format blank disks"},
	{"format_present", boolean, single, "format blank disks that were attached before hotmount was installed"},
	{"format_limit", wholeNumber(1, 256), single, "how many disks hotmount formats within format_period; more disks need an accept by the operator"},
	{"format_period", duration(time.Minute, 24*time.Hour), single, "the period for format_limit"},
	{"settle", duration(0, 10*time.Minute), single, "how long a disk must be without writes before it is formatted"},
	{"scan_rate", rate, single, "the maximum that hotmount reads from a disk per second to prove the disk blank"},
	{"ready_timeout", duration(0, 10*time.Minute), single, "the longest time that disks may delay the readiness of the daemon at its start"},
	{"rescan", duration(10*time.Second, 0), single, "how often hotmount looks at every disk, even without an event"},
	{"workers", wholeNumber(1, 64), single, "how many disks hotmount looks at in parallel"},
	{"node", storageClass, single, "the node's `name` in the cluster (default the host's name)"},
	{"trim", boolean, single, "return the free space of filesystems to the storage"},
}

// lists are the keys at the root of a file that have a list of texts as their value. Only files can set lists. If
// several files set the same list, the list of the last file applies.
var lists = []key{
	{"csi_ignore", driverName, list, ""},
}

// selectorKeys are the keys of an exclusion. A class has the keys in selectorKeys too.
var selectorKeys = []key{
	{"names", kernelNames, nonEmptyList, ""},
	{"mapper_names", anyText, nonEmptyList, ""},
	{"backing_file", backingFile, nonEmptyList, ""},
	{"transport", transport, nonEmptyList, ""},
	{"serial", anyText, nonEmptyList, ""},
	{"wwn", anyText, nonEmptyList, ""},
	{"model", anyText, nonEmptyList, ""},
	{"vendor", anyText, nonEmptyList, ""},
	{"by_path", anyText, nonEmptyList, ""},
	{"size", sizeRange, single, ""},
	{"rotational", boolean, single, ""},
	{"removable", boolean, single, ""},
	{"local", boolean, single, ""},
	{"logical_sector", sector, nonEmptyList, ""},
	{"partitions", boolean, single, ""},
}

// actKeys are the keys that decide what hotmount does with the disks of a class.
var actKeys = []key{
	{"directory", directory, single, ""},
	{"mode", mode, single, ""},
	{"neighbours", neighbours, single, ""},
	{"create", filesystemMade, single, ""},
	{"mkfs_options", mkfsOption, list, ""},
	{"root_owner", rootOwner, single, ""},
	{"root_mode", rootMode, single, ""},
	{"accept", filesystemKept, nonEmptyList, ""},
	{"adopt", adopted, single, ""},
	{"options", mountOption, list, ""},
	{"blank", proof, single, ""},
	{"minimum_size", size, single, ""},
	{"grow", boolean, single, ""},
	{"trim", boolean, single, ""},
	{"provision", boolean, single, ""},
	{"storage_class", storageClass, single, ""},
}

var classKeys = append(append([]key{{"name", className, single, ""}}, selectorKeys...), actKeys...)

// rootKeys are the names of the keys at the root of a file.
var rootKeys = append(append([]string{"classes", "exclude"}, names(lists)...), names(scalars)...)

func names(keys []key) []string {
	var all []string
	for _, k := range keys {
		all = append(all, k.name)
	}
	return all
}
