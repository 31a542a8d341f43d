package disk

import (
	"reflect"
	"regexp"
)

// Selectors say which disks are meant: those of which all hold that are given. In
// a list one of its values is enough.
type Selectors struct {
	// Names are patterns of the kernel's names. Only what they name literally by
	// its first two letters, or by "dm-", is selected beside virtio-blk, SCSI and
	// NVMe disks.
	Names []string `json:"names,omitempty"`
	// MapperNames are patterns of the names of device-mapper devices.
	MapperNames []string `json:"mapper_names,omitempty"`
	// BackingFile are patterns of Facts.BackingFile, in which "*" stands for no slash. Loop
	// devices are selected only by a class that has both Names for them and these.
	BackingFile []string `json:"backing_file,omitempty"`
	// Transport as in Facts.
	Transport []string `json:"transport,omitempty"`
	// Serial, WWN, Model and Vendor are patterns of what the hardware says of
	// itself, ByPath of where it is plugged in: udev's ID_PATH.
	Serial []string `json:"serial,omitempty"`
	WWN    []string `json:"wwn,omitempty"`
	Model  []string `json:"model,omitempty"`
	Vendor []string `json:"vendor,omitempty"`
	ByPath []string `json:"by_path,omitempty"`
	// Size is where the disk's size has to be.
	Size SizeRange `json:"size,omitzero"`
	// Rotational and Removable as in Facts, nil for any.
	Rotational *bool `json:"rotational,omitempty"`
	Removable  *bool `json:"removable,omitempty"`
	// LogicalSector in bytes.
	LogicalSector []uint32 `json:"logical_sector,omitempty"`
	// Partitions selects partitions, and no whole disks.
	Partitions bool `json:"partitions,omitempty"`
	// Compiled are the regular expressions among the patterns, by pattern, in what
	// policy.Compile has returned.
	Compiled map[string]*regexp.Regexp `json:"-"`
}

// IsZero reports whether nothing is given.
func (s *Selectors) IsZero() bool { return reflect.ValueOf(*s).IsZero() }

// SizeRange is from Least to Most bytes, both included; Most 0 is no bound.
type SizeRange struct {
	Least uint64 `json:"least,omitempty"`
	Most  uint64 `json:"most,omitempty"`
}

// Has reports whether the size is in the range.
func (r SizeRange) Has(size uint64) bool { return size >= r.Least && (r.Most == 0 || size <= r.Most) }

// String returns the range for people, with the number of bytes.
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
