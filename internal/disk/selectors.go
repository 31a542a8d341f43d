package disk

import (
	"reflect"
	"regexp"
)

// Selectors select disks. A disk must match all selectors that are given. A list of values is satisfied if one of its
// values matches the disk.
type Selectors struct {
	// Names contains patterns for kernel names. A virtio-blk, SCSI or NVMe disk can match any pattern. In a class, a
	// pattern for another kind of disk must begin with the first two letters of the kernel name, without a wildcard.
	// For a device-mapper device, the pattern must begin with "dm-".
	Names []string `json:"names,omitempty"`
	// MapperNames contains patterns for the names of device-mapper devices.
	MapperNames []string `json:"mapper_names,omitempty"`
	// BackingFile contains patterns for Facts.BackingFile. In these patterns, "*" does not match a slash. A class
	// selects loop devices only if it has BackingFile patterns and also Names patterns for loop devices.
	BackingFile []string `json:"backing_file,omitempty"`
	// Transport is a list of values of Facts.Transport. "scsi" also selects VirtioSCSI.
	Transport []string `json:"transport,omitempty"`
	// Serial, WWN, Model and Vendor contain patterns for the values that the hardware reports. ByPath contains patterns
	// for Facts.Slot.
	Serial []string `json:"serial,omitempty"`
	WWN    []string `json:"wwn,omitempty"`
	Model  []string `json:"model,omitempty"`
	Vendor []string `json:"vendor,omitempty"`
	ByPath []string `json:"by_path,omitempty"`
	// Size is the range in which the disk's size must lie.
	Size SizeRange `json:"size,omitzero"`
	// Rotational and Removable must equal the fields with these names in the disk's Facts. If Local is true,
	// Facts.Fabric must be false; if Local is false, Facts.Fabric must be true. A nil Rotational, Removable or Local
	// matches any disk.
	Rotational *bool `json:"rotational,omitempty"`
	Removable  *bool `json:"removable,omitempty"`
	Local      *bool `json:"local,omitempty"`
	// LogicalSector is a list of logical block sizes in bytes.
	LogicalSector []uint32 `json:"logical_sector,omitempty"`
	// Partitions reports whether a class selects only partitions (true) or only whole disks (false).
	Partitions bool `json:"partitions,omitempty"`
	// Compiled maps each pattern that is a regular expression to the compiled regular expression. policy.Compile sets
	// Compiled.
	Compiled map[string]*regexp.Regexp `json:"-"`
}

// IsZero reports whether no selector is given.
func (s *Selectors) IsZero() bool { return reflect.ValueOf(*s).IsZero() }

// SizeRange is the range from Least to Most bytes, including both bounds. If Most is 0, the range has no upper bound.
type SizeRange struct {
	Least uint64 `json:"least,omitempty"`
	Most  uint64 `json:"most,omitempty"`
}

// Has reports whether the size is in the range.
func (r SizeRange) Has(size uint64) bool { return size >= r.Least && (r.Most == 0 || size <= r.Most) }

// String returns the range in a form for people, with the exact sizes in bytes.
func (r SizeRange) String() string {
	s := ""
	if r.Least > 0 {
		s = ExactSize(r.Least)
	}
	s += ".."
	if r.Most > 0 {
		s += ExactSize(r.Most)
	}
	return s
}
