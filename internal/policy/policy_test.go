package policy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

// TestMain sets the number of combinations to try, unless -rapid.checks is given.
func TestMain(m *testing.M) {
	checks := "50000"
	if os.Getenv("HOTMOUNT_TEST_FULL") != "" {
		checks = "5000000"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
const otherUUID = "11111111-2222-4333-8444-555555555555"

func settings() *disk.Settings {
	return &disk.Settings{
		Format: true, FormatLimit: 3, FormatPeriod: 10 * time.Minute, Settle: 5 * time.Second, Workers: 4,
		Classes: []disk.Class{{
			Name: "default", Selectors: disk.Selectors{Names: []string{"vd[a-z]", "vd[a-z][a-z]"}}, Directory: "/mnt/disks",
			Create: "xfs", Accept: []string{"xfs", "ext4"}, Blank: "full", MinimumSize: 300 << 20,
		}},
	}
}

func blankDisk() *disk.Facts {
	return &disk.Facts{
		ID: disk.ID{Name: "vdb", Dev: disk.Dev{Major: 254, Minor: 16}, Seq: 12}, Size: 5 << 30, Serial: "S1",
		Transport: "virtio", Slot: "pci-0000:05:00.0", LogicalSector: 512, Udev: disk.Udev{Initialized: true},
	}
}

func proven(k disk.Kind) *disk.Content { return &disk.Content{Kind: k, Proven: true} }

// readAs(k) returns a function that adds to f the result k of a proof that is still valid.
func readAs(k disk.Kind) func(f *disk.Facts) {
	return func(f *disk.Facts) {
		f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Content: disk.Content{Kind: k, Evidence: []string{"byte 4096"}}}
	}
}

func xfs() *disk.Content { return &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid} }

func mountedAt(path string) disk.MountPoint {
	return disk.MountPoint{Dev: disk.Dev{Major: 254, Minor: 16}, Root: "/", Path: path, Type: "xfs"}
}

func faulty(s *disk.Settings) { s.Fault = "/etc/hotmount/config.yaml: the file's mode is 0664" }

func growing(s *disk.Settings) { s.Classes[0].Grow = true }

// grown returns the geometry of an XFS filesystem of the given size. The disk of 5 GiB ends 63 blocks after the first
// allocation group.
func grown(size uint64) *disk.Geometry {
	return &disk.Geometry{Size: size, Block: 4096, Group: 5<<30 - 63*4096}
}

func fit(size, span uint64) *disk.Fit {
	return &disk.Fit{Seq: 12, Size: size, Geometry: disk.Geometry{Size: span, Block: 4096}}
}

// The function `unfit` returns the result of a failed attempt to grow a filesystem. The parameter `size` is the size of
// the disk.
func unfit(size uint64) *disk.Fit {
	f := fit(size, 1<<30)
	f.Failure = "xfs_growfs: exit code 1"
	return f
}

func with(m disk.MountPoint, g *disk.Geometry, fit *disk.Fit) func(*disk.Facts) {
	return func(f *disk.Facts) {
		f.Mounts, f.Geometry, f.Standing.Fit, f.Standing.Made = []disk.MountPoint{m}, g, fit, true
	}
}

// foreignOn returns a function that gives the disk a filesystem from another machine. The parameter `size` is the disk's
// size when this node first mounted the filesystem, or 0 if this node has never mounted the filesystem. The returned
// function first calls also().
func foreignOn(size uint64, also func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) {
		also(f)
		if f.Standing.Made = false; size > 0 {
			f.Standing.Volume = &disk.Sighting{UUID: uuid, Type: "xfs", Adopted: size}
		}
	}
}

func knownOnly(s *disk.Settings) { s.Classes[0].Adopt = disk.AdoptKnown }

// The variable `lay` is the record of a filesystem that was mounted earlier.
var lay = disk.Sighting{UUID: otherUUID, Type: "xfs", Mounted: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// The function `word` returns the record of an accept for the reason r and the filesystem with the given UUID.
func word(r disk.Reason, uuid string) []disk.Word { return []disk.Word{{Reason: r, UUID: uuid}} }

// everyWord contains three values for each reason in the table `conditions`: an accept without a filesystem, and an
// accept with each of the two UUIDs.
var everyWord = func() (all []disk.Word) {
	for _, c := range conditions {
		for _, u := range []string{"", uuid, otherUUID} {
			if w := (disk.Word{Reason: c.reason, UUID: u}); !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return all
}()

// but() returns a copy of everyWord without the given accepts.
func but(not ...disk.Word) []disk.Word {
	return slices.DeleteFunc(slices.Clone(everyWord), func(w disk.Word) bool { return slices.Contains(not, w) })
}

// The variable `gone` is the list of accepts that give up the filesystem with the UUID otherUUID.
var gone = []disk.Word{
	{Reason: disk.ReasonBefore, UUID: otherUUID}, {Reason: disk.ReasonFormerSerial, UUID: otherUUID}, {Reason: disk.ReasonFormerSlot, UUID: otherUUID},
	{Reason: disk.ReasonSameSerial, UUID: otherUUID}, {Reason: disk.ReasonSameWWN, UUID: otherUUID}, {Reason: disk.ReasonContent, UUID: otherUUID},
}

// arrived(f) makes f a disk that was attached when hotmount first started with a new machine-id.
func arrived(f *disk.Facts) { f.Standing.Arrived = &disk.Identity{Seq: 7, Serial: "S7", Size: 5 << 30} }

// hidden(f) adds to f a unit file that hotmount cannot read and that may claim the disk.
func hidden(f *disk.Facts) { f.Unseen = "/etc/systemd/system/srv.mount" }

// used(f) adds to f the record that another program mounted the disk earlier.
func used(f *disk.Facts) { f.Standing.Used = &disk.Use{How: "mounted at /srv"} }

// pulled(f) makes f a device whose underlying disk was detached.
func pulled(f *disk.Facts) { f.Below = []disk.Underlying{{Name: "vdx", Serial: "PV 1", Gone: true}} }

// node(f) adds to f a bind mount of the disk's device node.
func node(f *disk.Facts) { f.Bound = []string{"/run/volume"} }

// The variable `given` is the record of a block volume.
var given = disk.Given{Serial: "S1", Link: "/mnt/block/virtio-S1"}

// onBlockVolume makes f a device that is built on the disk of a block volume.
func onBlockVolume(f *disk.Facts) { f.Serial, f.Transport, f.Standing.Given = "LVM-x", "dm", &given }

func another(g disk.Given) func(*disk.Facts) {
	return func(f *disk.Facts) { f.Standing.Given = &g }
}

// bound returns a function that replaces the mounts of f with a pod's bind mount. The returned function also gives f
// the record of an earlier mount in the class directory.
func bound(put func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) {
		f.Mounts = []disk.MountPoint{mountedAt("/var/lib/kubelet/pods/p/volumes/kubernetes.io~local-volume/local-pv-1")}
		f.Standing.WasMounted, f.Standing.Volume = time.Unix(1700000000, 0), &disk.Sighting{UUID: uuid, Identity: disk.Identity{Seq: f.Seq}}
		if put != nil {
			put(f)
		}
	}
}

// onRecordInPlace returns a function that gives f a mount in the class directory, and the record of this mount. The
// returned function also marks f as a disk with which udev has not finished.
func onRecordInPlace(put func(*disk.Facts)) func(*disk.Facts) {
	return bound(func(f *disk.Facts) {
		f.Mounts, f.Udev.Initialized = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, false
		if put != nil {
			put(f)
		}
	})
}

func looped(f *disk.Facts) { f.Loops = []string{"loop3"} }

// wwn returns a function that adds another disk with the same WWN. The parameter `seq` is the other disk's sequence
// number. The parameter `holds` is the UUID on the other disk, or "" for no UUID.
func wwn(seq uint64, holds string) func(*disk.Facts) {
	return func(f *disk.Facts) {
		f.Serial, f.WWN = "", "naa.1"
		f.SameWWN = append(f.SameWWN, disk.Peer{ID: disk.ID{Name: "sda", Seq: seq}, WWN: f.WWN, UUID: holds})
	}
}

// begunBy returns a function that first calls the function `put` and then records an unfinished format. The parameter
// `seq` is the sequence number of the disk on which the format began.
func begunBy(seq uint64, put func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) {
		put(f)
		f.Standing.Intent = &disk.Intent{UUID: uuid, Identity: disk.Identity{Seq: seq}, Attached: true}
	}
}

func block(s *disk.Settings) { s.Classes[0].Mode = disk.ModeBlock }

// part(f) turns the disk f into its first partition. parts(s) makes the class select partitions.
func part(f *disk.Facts) {
	f.Name, f.Whole, f.WholeSize, f.Serial, f.Slot = "vdb1", "vdb", f.Size, f.Serial+"-part1", f.Slot+"-part1"
	f.Size /= 2
}

func parts(s *disk.Settings) {
	s.Classes[0].Selectors = disk.Selectors{Names: []string{"vd[b-z]1"}, Partitions: true}
}

func partOf(also func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) { part(f); also(f) }
}

// wholeClass and rawClass select all whole disks. The tests add these two classes to the classes of settings.
var wholeClass = disk.Class{Name: "whole", Selectors: disk.Selectors{Names: []string{"vd?"}}, Directory: "/mnt/whole", Accept: []string{"xfs"}}
var rawClass = disk.Class{Name: "raw", Selectors: disk.Selectors{Names: []string{"vd?"}}, Directory: "/mnt/block", Mode: disk.ModeBlock}

// before(c) puts the class c in front of the class that selects partitions. after(c) puts the class c behind the class
// that selects partitions.
func before(c disk.Class) func(*disk.Settings) {
	return func(s *disk.Settings) { parts(s); s.Classes = append([]disk.Class{c}, s.Classes...) }
}

func after(c disk.Class) func(*disk.Settings) {
	return func(s *disk.Settings) { parts(s); s.Classes = append(s.Classes, c) }
}

// beside(c) adds the class c at the end of the list of classes.
func beside(c disk.Class) func(*disk.Settings) {
	return func(s *disk.Settings) { s.Classes = append(s.Classes, c) }
}

// was(directory, class) puts the disk's filesystem on record as a volume of that class in that directory.
func was(directory, class string) func(*disk.Facts) {
	return func(f *disk.Facts) {
		f.Standing.Volume = &disk.Sighting{UUID: uuid, Type: "xfs", Directory: directory, Class: class}
	}
}

// onRecordAnd puts the disk on record as a volume, and then calls the function `put`.
func onRecordAnd(put func(*disk.Facts)) func(*disk.Facts) {
	return func(f *disk.Facts) {
		was("/mnt/disks", "default")(f)
		if f.Standing.OnRecord = true; put != nil {
			put(f)
		}
	}
}

// noName adds the class c and changes the name patterns of all classes, so that no class selects the disk.
func noName(c disk.Class) func(*disk.Settings) {
	return func(s *disk.Settings) {
		s.Classes[0].Names = []string{"sd*"}
		c.Names = []string{"sd*"}
		s.Classes = append(s.Classes, c)
	}
}

func ages(minutes ...int) (all []time.Duration) {
	for _, m := range minutes {
		all = append(all, time.Duration(m)*time.Minute)
	}
	return all
}

// TestDecide is the specification of the decision, with one line per situation.
func TestDecide(t *testing.T) {
	ours := mountedAt("/mnt/disks/" + uuid)
	tests := []struct {
		name    string
		facts   func(*disk.Facts)
		content *disk.Content
		config  func(*disk.Settings)
		action  disk.Action
		reason  disk.Reason
	}{
		{"nothing known on it", nil, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"proven blank", nil, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"said blank without proof", nil, &disk.Content{Kind: disk.Blank}, nil, disk.Prove, disk.ReasonUnread},
		{"xfs by udev's word", nil, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"xfs with a serial that another disk has", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 1}}} }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"ext4", nil, &disk.Content{Kind: disk.Filesystem, Type: "ext4", UUID: uuid}, nil, disk.Mount, disk.ReasonFilesystem},
		{"a type that the class does not accept", nil, &disk.Content{Kind: disk.Filesystem, Type: "btrfs", UUID: uuid}, nil, disk.Refuse, disk.ReasonType},
		{"a filesystem whose UUID is none", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: "../../etc"}, nil, disk.Refuse, disk.ReasonOther},
		{"something else on it", nil, proven(disk.Other), nil, disk.Refuse, disk.ReasonOther},
		{"unknown on it", nil, proven(disk.Unknown), nil, disk.Refuse, disk.ReasonUnknown},
		{"a kind that nobody foresaw", nil, proven("new"), nil, disk.Refuse, disk.ReasonUnknown},
		{"no kind at all", nil, &disk.Content{}, nil, disk.Refuse, disk.ReasonUnknown},

		{"system disk", func(f *disk.Facts) { f.System = "/" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonSystem},
		{"no class", func(f *disk.Facts) { f.Name = "sda" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonUnselected},
		{"vdaa is selected", func(f *disk.Facts) { f.Name = "vdaa" }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"vda is, where the system is elsewhere", func(f *disk.Facts) { f.Name = "vda" }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"no class, and a driver may have brought it", func(f *disk.Facts) { driven(f); f.Name = "sda" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonNoClass},
		{"no class, and bound for a pod", func(f *disk.Facts) { node(f); f.Name = "sda" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonNoClass},
		{"a partition is not", func(f *disk.Facts) { f.Name = "vdb1" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonUnselected},
		{"a partition with a filesystem, the class has disks", part, xfs(), func(s *disk.Settings) { s.Classes[0].Names = []string{"vd*"} }, disk.Ignore, disk.ReasonWhole},
		{"a disk, the class has partitions", nil, proven(disk.Blank), func(s *disk.Settings) { parts(s); s.Classes[0].Names = []string{"vd*"} }, disk.Ignore, disk.ReasonUnselected},
		{"a partition with a filesystem", part, xfs(), parts, disk.Mount, disk.ReasonFilesystem},
		{"a partition of another name", partOf(func(f *disk.Facts) { f.Name = "vdb2" }), xfs(), parts, disk.Ignore, disk.ReasonNoClass},
		{"a partition, by its disk's serial", part, xfs(), func(s *disk.Settings) { parts(s); s.Classes[0].Serial = []string{"S1"} }, disk.Mount, disk.ReasonFilesystem},
		{"a partition of a class in block mode", part, xfs(), func(s *disk.Settings) { parts(s); block(s) }, disk.Ignore, disk.ReasonNoClass},
		{"a partition, its disk excluded by name", part, xfs(), func(s *disk.Settings) { parts(s); s.Exclude = []disk.Selectors{{Names: []string{"vdb"}}} }, disk.Ignore, disk.ReasonExcluded},
		{"a partition, excluded by name", part, xfs(), func(s *disk.Settings) { parts(s); s.Exclude = []disk.Selectors{{Names: []string{"vdb1"}}} }, disk.Ignore, disk.ReasonExcluded},
		{"a partition, those of its disk excluded by name", part, xfs(), func(s *disk.Settings) {
			parts(s)
			s.Exclude = []disk.Selectors{{Names: []string{"vdb"}, Partitions: true}}
		}, disk.Ignore, disk.ReasonExcluded},
		{"a partition, its disk is the system's", partOf(func(f *disk.Facts) { f.System = "/" }), xfs(), parts, disk.Ignore, disk.ReasonSystem},
		{"a partition, udev has not seen it", partOf(func(f *disk.Facts) { f.Udev.Initialized = false }), xfs(), parts, disk.Wait, disk.ReasonUdev},
		{"a partition, read-only", partOf(func(f *disk.Facts) { f.ReadOnly = true }), xfs(), parts, disk.Refuse, disk.ReasonReadOnly},
		{"a partition, held", partOf(func(f *disk.Facts) { f.Holders = []string{"dm-0"} }), xfs(), parts, disk.Ignore, disk.ReasonHeld},
		{"a partition, claimed", partOf(func(f *disk.Facts) { f.Claim = "/etc/fstab:1" }), xfs(), parts, disk.Ignore, disk.ReasonClaimed},
		{"a partition, released", partOf(func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonReleased }), xfs(), parts, disk.Hold, disk.ReasonReleased},
		{"a partition, twin", partOf(func(f *disk.Facts) { f.SameUUID = []disk.Peer{{}} }), xfs(), parts, disk.Refuse, disk.ReasonTwin},
		{"a partition, nothing known on it", part, proven(disk.Unread), parts, disk.Refuse, disk.ReasonPartition},
		{"a partition, even proven blank", part, proven(disk.Blank), parts, disk.Refuse, disk.ReasonPartition},
		{"a partition, blank and accepted", partOf(func(f *disk.Facts) { f.Standing.Accepted = everyWord }), proven(disk.Blank), parts, disk.Refuse, disk.ReasonPartition},
		{"a partition, half-made", partOf(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, parts, disk.Refuse, disk.ReasonPartition},
		{"a partition, perhaps half-made", partOf(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), xfs(), parts, disk.Refuse, disk.ReasonPartition},
		{"a partition, something else on it", part, proven(disk.Other), parts, disk.Refuse, disk.ReasonOther},
		{"a partition, mounted", partOf(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{ours} }), xfs(), parts, disk.Keep, disk.ReasonMounted},
		{"a partition, mounted, room to grow", partOf(with(ours, grown(1<<30), nil)), xfs(), func(s *disk.Settings) { parts(s); growing(s) }, disk.Keep, disk.ReasonMounted},
		{"a disk whose partitions are wanted", func(f *disk.Facts) { f.Partitions = []string{"vdb1", "vdb2"} }, proven(disk.Other), parts, disk.Ignore, disk.ReasonPartitioned},
		{"a disk whose partitions are wanted by size", func(f *disk.Facts) { f.Partitions = []string{"vdb1", "vdb2"} }, proven(disk.Other), func(s *disk.Settings) { parts(s); s.Classes[0].Size = disk.SizeRange{Least: 1 << 20, Most: 1 << 30} }, disk.Ignore, disk.ReasonPartitioned},
		{"a disk none of whose partitions is wanted", func(f *disk.Facts) { f.Partitions = []string{"vdb2"} }, proven(disk.Other), parts, disk.Ignore, disk.ReasonNoClass},
		{"a disk whose partitions are wanted, excluded", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), func(s *disk.Settings) { parts(s); s.Exclude = []disk.Selectors{{Names: []string{"vdb"}}} }, disk.Ignore, disk.ReasonExcluded},
		{"a disk whose partitions are wanted, its own class after", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), after(wholeClass), disk.Ignore, disk.ReasonPartitioned},
		{"a disk whose partitions are wanted, its own class before", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), before(wholeClass), disk.Refuse, disk.ReasonPartitions},
		{"a disk whose partitions are wanted, raw before", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), before(rawClass), disk.Hold, disk.ReasonContent},
		{"a partition, its disk's class before", part, xfs(), before(wholeClass), disk.Ignore, disk.ReasonWhole},
		{"a partition, its disk's class after", part, xfs(), after(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a partition, its disk's class before, by the disk's size", part, xfs(), before(disk.Class{Name: "large", Selectors: disk.Selectors{Size: disk.SizeRange{Least: 5 << 30}}}), disk.Ignore, disk.ReasonWhole},
		{"a partition, a class of other disks before", part, xfs(), before(disk.Class{Name: "small", Selectors: disk.Selectors{Size: disk.SizeRange{Most: 4 << 30}}}), disk.Mount, disk.ReasonFilesystem},
		{"a partition, its disk excluded by size", part, xfs(), func(s *disk.Settings) {
			parts(s)
			s.Exclude = []disk.Selectors{{Size: disk.SizeRange{Least: 5 << 30}}}
		}, disk.Ignore, disk.ReasonExcluded},
		{"a partition of a disk that is given out", partOf(func(f *disk.Facts) { f.Standing.Given, f.Standing.Link = &given, given.Link }), xfs(), parts, disk.Ignore, disk.ReasonGivenElse},
		{"a partition of a disk that is given out, accepted", partOf(func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Link, f.Standing.Accepted = &given, given.Link, everyWord
		}), xfs(), parts, disk.Ignore, disk.ReasonGivenElse},
		{"a partition of a disk that is given out, raw after", partOf(func(f *disk.Facts) { f.Standing.Given, f.Standing.Link = &given, given.Link }), xfs(), after(rawClass), disk.Ignore, disk.ReasonWhole},
		{"a partition of a disk that was given out", partOf(another(given)), xfs(), parts, disk.Hold, disk.ReasonFormerBlock},
		{"a partition of a disk that was given out, accepted", partOf(func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &given, word(disk.ReasonFormerBlock, uuid)
		}), xfs(), parts, disk.Mount, disk.ReasonFilesystem},
		{"a partition of a disk that was given out, raw after, accepted", partOf(func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &given, word(disk.ReasonFormerBlock, uuid)
		}), xfs(), after(rawClass), disk.Ignore, disk.ReasonWhole},
		{"a partition of a disk that is given out and not on record, raw after", partOf(func(f *disk.Facts) { f.Standing.Link = given.Link }), xfs(), after(rawClass), disk.Ignore, disk.ReasonWhole},
		{"a partition of a disk that was given out, its disk's class after", partOf(another(given)), xfs(), after(wholeClass), disk.Hold, disk.ReasonFormerBlock},
		{"a partition of a disk that was given out, raw for others after", partOf(another(given)), xfs(), after(disk.Class{Name: "raw", Selectors: disk.Selectors{Names: []string{"vdc"}}, Mode: disk.ModeBlock}), disk.Hold, disk.ReasonFormerBlock},
		{"a partition, raw after", part, xfs(), after(rawClass), disk.Mount, disk.ReasonFilesystem},
		{"a disk whose partitions are wanted, raw after", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), after(rawClass), disk.Ignore, disk.ReasonPartitioned},
		{"a partition, an exclusion that says nothing", part, xfs(), func(s *disk.Settings) { parts(s); s.Exclude = []disk.Selectors{{}} }, disk.Mount, disk.ReasonFilesystem},
		{"a disk, its partitions excluded", nil, proven(disk.Blank), func(s *disk.Settings) { s.Exclude = []disk.Selectors{{Names: []string{"vdb"}, Partitions: true}} }, disk.Format, disk.ReasonBlank},
		{"a disk that is given out, and has partitions", func(f *disk.Facts) {
			f.Partitions, f.Standing.Given, f.Standing.Link = []string{"vdb1"}, &given, given.Link
		}, proven(disk.Other), after(rawClass), disk.Keep, disk.ReasonGivenOut},
		{"a disk that is given out, and has partitions, no class for raw", func(f *disk.Facts) {
			f.Partitions, f.Standing.Given, f.Standing.Link = []string{"vdb1"}, &given, given.Link
		}, proven(disk.Other), parts, disk.Ignore, disk.ReasonNoClass},
		{"a disk that was given out, and has partitions", func(f *disk.Facts) { f.Partitions, f.Standing.Given = []string{"vdb1"}, &given }, proven(disk.Other), after(rawClass), disk.Link, disk.ReasonBlock},
		{"a disk that was given out, and has partitions, no class for raw", func(f *disk.Facts) { f.Partitions, f.Standing.Given = []string{"vdb1"}, &given }, proven(disk.Other), parts, disk.Ignore, disk.ReasonPartitioned},

		{"xfs below a loop device", looped, xfs(), nil, disk.Ignore, disk.ReasonHeld},
		{"for raw, below a loop device", looped, proven(disk.Unread), block, disk.Ignore, disk.ReasonHeld},
		{"given out, its link gone, below kubelet's loop device", func(f *disk.Facts) { looped(f); f.Standing.Given = &given }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"given out once, below a loop device", func(f *disk.Facts) { looped(f); f.Standing.Given = &given }, xfs(), nil, disk.Ignore, disk.ReasonHeld},
		{"mounted in its place, below a loop device", func(f *disk.Facts) {
			looped(f)
			f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},

		{"a volume of another class", was("/mnt/whole", "whole"), xfs(), beside(wholeClass), disk.Hold, disk.ReasonOtherClass},
		{"a volume of another class, accepted for something else", func(f *disk.Facts) { was("/mnt/whole", "whole")(f); f.Standing.Accepted = everyWord }, xfs(), beside(wholeClass), disk.Hold, disk.ReasonOtherClass},
		{"a volume of another class, by its name alone", was("", "whole"), xfs(), beside(wholeClass), disk.Hold, disk.ReasonOtherClass},
		{"a volume of this class", was("/mnt/disks", "default"), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a volume of this class, which was called as another is now", was("/mnt/disks", "whole"), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a volume of this class, by its name alone", was("", "default"), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a volume of a class that is gone", was("/mnt/old", "whole"), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a volume of a class that is gone, by its name alone", was("", "old"), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a volume that was freed", was("", ""), xfs(), beside(wholeClass), disk.Mount, disk.ReasonFilesystem},
		{"a partition, a volume of another class", partOf(was("/mnt/whole", "whole")), xfs(), after(wholeClass), disk.Hold, disk.ReasonOtherClass},
		{"mounted as a volume of another class", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/whole/" + uuid)} }, xfs(), beside(wholeClass), disk.Keep, disk.ReasonMounted},
		{"mounted as a volume of another class, which grows", with(mountedAt("/mnt/whole/"+uuid), grown(1<<30), nil), xfs(), func(s *disk.Settings) { beside(wholeClass)(s); s.Classes[1].Grow = true }, disk.Grow, disk.ReasonSmaller},
		{"mounted as a volume of another class, excluded", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/whole/" + uuid)} }, xfs(), func(s *disk.Settings) {
			beside(wholeClass)(s)
			s.Exclude = []disk.Selectors{{Serial: []string{"S1"}}}
		}, disk.Ignore, disk.ReasonExcluded},
		{"mounted as a volume of this class and of another", func(f *disk.Facts) {
			f.Mounts = []disk.MountPoint{mountedAt("/mnt/whole/" + otherUUID), ours, mountedAt("/mnt/third/" + otherUUID)}
			f.Udev.FSUUID = uuid
		}, xfs(), func(s *disk.Settings) {
			other := wholeClass
			other.Names = []string{"sd*"}
			s.Classes = []disk.Class{other, s.Classes[0], other}
			s.Classes[2].Directory = "/mnt/third"
		}, disk.Keep, disk.ReasonMounted},
		{"mounted as a volume, and no class selects the disk now", func(f *disk.Facts) {
			was("/mnt/whole", "whole")(f)
			f.Mounts = []disk.MountPoint{mountedAt("/mnt/whole/" + uuid)}
		}, xfs(), noName(wholeClass), disk.Keep, disk.ReasonMounted},
		{"mounted as a volume by somebody, and no class selects the disk", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/whole/" + uuid)} }, xfs(), noName(wholeClass), disk.Ignore, disk.ReasonNoClass},
		{"given out by another class", func(f *disk.Facts) { f.Standing.Link = "/mnt/block/virtio-S1" }, proven(disk.Unread), beside(rawClass), disk.Keep, disk.ReasonGivenOut},
		{"given out, and no class selects the disk now", func(f *disk.Facts) { f.Standing.Link = "/mnt/block/virtio-S1" }, proven(disk.Unread), noName(rawClass), disk.Keep, disk.ReasonGivenOut},
		{"mounted in its place", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{ours} }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"mounted in its place, with a fault", func(f *disk.Facts) { f.Mounts, f.Fault = []disk.MountPoint{ours}, "shut down" }, xfs(), nil, disk.Keep, disk.ReasonFault},
		{"mounted in its place, and the disk below is gone", func(f *disk.Facts) {
			f.Mounts, f.Fault = []disk.MountPoint{ours}, "shut down"
			pulled(f)
		}, xfs(), nil, disk.Keep, disk.ReasonLost},
		{"not mounted, and the disk below is gone", pulled, xfs(), nil, disk.Refuse, disk.ReasonLost},
		{"released, and the disk below is gone", func(f *disk.Facts) {
			pulled(f)
			f.Standing.Unmounted = disk.ReasonReleased
		}, xfs(), nil, disk.Refuse, disk.ReasonLost},
		{"perhaps blank, and the disk below is gone", pulled, proven(disk.Unread), nil, disk.Refuse, disk.ReasonLost},
		{"for raw, and the disk below is gone", pulled, proven(disk.Unread), block, disk.Refuse, disk.ReasonLost},
		{"mounted in its place, on a disk that is there", func(f *disk.Facts) {
			f.Mounts, f.Below = []disk.MountPoint{ours}, []disk.Underlying{{Name: "vdx"}}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"mounted in another's place, and the disk below is gone", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID = []disk.MountPoint{ours}, otherUUID
			pulled(f)
		}, xfs(), nil, disk.Refuse, disk.ReasonMisplaced},
		{"mounted in its place, covered by another", func(f *disk.Facts) {
			with(ours, nil, nil)(f)
			f.Mounts[0].Covered, f.Mounts[0].CoveredBy = true, "/mnt"
		}, xfs(), growing, disk.Keep, disk.ReasonCovered},
		{"mounted in its place and in a pod", func(f *disk.Facts) {
			f.Mounts = []disk.MountPoint{mountedAt("/var/lib/kubelet/pods/x"), ours}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"mounted in its place, udev restarted", onRecordInPlace(func(f *disk.Facts) { f.Udev = disk.Udev{} }), proven(disk.Unread), nil, disk.Keep, disk.ReasonMounted},
		{"mounted, room to grow", with(ours, grown(1<<30), nil), xfs(), growing, disk.Grow, disk.ReasonSmaller},
		{"mounted, room to grow, tried at this size", with(ours, grown(1<<30), fit(5<<30, 1<<30)), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, growing it failed", with(ours, grown(1<<30), unfit(5<<30)), xfs(), growing, disk.Keep, disk.ReasonNotGrown},
		{"mounted, growing it failed at another size", with(ours, grown(1<<30), unfit(4<<30)), xfs(), growing, disk.Grow, disk.ReasonSmaller},
		{"mounted, growing it failed, and a fault", func(f *disk.Facts) { with(ours, grown(1<<30), unfit(5<<30))(f); f.Fault = "shut down" }, xfs(), growing, disk.Keep, disk.ReasonFault},
		{"mounted, room to grow, tried at another size", with(ours, grown(1<<30), fit(1<<30, 1<<30)), xfs(), growing, disk.Grow, disk.ReasonSmaller},
		{"mounted, room to grow, the class does not", with(ours, grown(1<<30), nil), xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"mounted, room to grow, read-only", func(f *disk.Facts) { with(ours, grown(1<<30), nil)(f); f.ReadOnly = true }, xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, from elsewhere, room to grow", foreignOn(0, with(ours, grown(1<<30), nil)), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, from elsewhere, room to grow as when it came", foreignOn(5<<30, with(ours, grown(1<<30), nil)), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, from elsewhere, on a disk that is larger now", foreignOn(5<<30-1, with(ours, grown(1<<30), nil)), xfs(), growing, disk.Grow, disk.ReasonSmaller},
		{"mounted, from elsewhere, size not known", foreignOn(0, with(ours, nil, nil)), xfs(), growing, disk.Grow, disk.ReasonUnmeasured},
		{"mounted, on record as made here, room to grow", func(f *disk.Facts) {
			with(ours, grown(1<<30), nil)(f)
			f.Standing.Made, f.Standing.Volume = false, &disk.Sighting{UUID: uuid}
		}, xfs(), growing, disk.Grow, disk.ReasonSmaller},
		{"from elsewhere, known only", nil, xfs(), knownOnly, disk.Hold, disk.ReasonNotAdopted},
		{"from elsewhere, any", nil, xfs(), func(s *disk.Settings) { s.Classes[0].Adopt = disk.AdoptAny }, disk.Mount, disk.ReasonFilesystem},
		{"from elsewhere, known only, accepted", func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonNotAdopted, uuid) }, xfs(), knownOnly, disk.Mount, disk.ReasonFilesystem},
		{"from elsewhere, known only, another accepted", func(f *disk.Facts) { f.Standing.Accepted = but(word(disk.ReasonNotAdopted, uuid)...) }, xfs(), knownOnly, disk.Hold, disk.ReasonNotAdopted},
		{"on record, known only", was("/mnt/disks", "default"), xfs(), knownOnly, disk.Mount, disk.ReasonFilesystem},
		{"another on record, known only", func(f *disk.Facts) { f.Standing.Volume = &lay }, xfs(), knownOnly, disk.Hold, disk.ReasonNotAdopted},
		{"made here earlier, known only", func(f *disk.Facts) { f.Standing.Made = true }, xfs(), knownOnly, disk.Mount, disk.ReasonFilesystem},
		{"just made, known only", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, knownOnly, disk.Mount, disk.ReasonFilesystem},
		{"mounted in its place, known only", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{ours} }, xfs(), knownOnly, disk.Keep, disk.ReasonMounted},
		{"blank, known only", nil, proven(disk.Blank), knownOnly, disk.Format, disk.ReasonBlank},
		{"a twin, known only", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{}} }, xfs(), knownOnly, disk.Refuse, disk.ReasonTwin},
		{"mounted, fills the disk", with(ours, grown(5<<30), nil), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, a tail too small for XFS", with(ours, grown(5<<30-63*4096), nil), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, size not known", with(ours, nil, nil), xfs(), growing, disk.Grow, disk.ReasonUnmeasured},
		{"mounted, size not known, covered", func(f *disk.Facts) { with(ours, nil, nil)(f); f.Mounts[0].Covered = true }, xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, size not known, measured before", with(ours, nil, fit(5<<30, 4<<30)), xfs(), growing, disk.Keep, disk.ReasonMounted},
		{"mounted, shrunk", with(ours, grown(6<<30), nil), xfs(), nil, disk.Keep, disk.ReasonShrunk},
		{"mounted, shrunk as was measured", with(ours, nil, fit(5<<30, 6<<30)), xfs(), growing, disk.Keep, disk.ReasonShrunk},
		{"mounted, measured shrunk at another size", with(ours, nil, fit(4<<30, 6<<30)), xfs(), growing, disk.Grow, disk.ReasonUnmeasured},
		{"not mounted, shrunk", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Span: 5<<30 + 1}, nil, disk.Refuse, disk.ReasonShrunk},
		{"not mounted, as large as the disk", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Span: 5 << 30}, nil, disk.Mount, disk.ReasonFilesystem},
		{"mounted elsewhere", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} }, xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"a part of it bound in its place", func(f *disk.Facts) { m := ours; m.Root = "/sub"; f.Mounts = []disk.MountPoint{m} }, xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted in the class directory, not by UUID", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/data")} }, xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted by UUID, not in the class directory", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv/" + uuid)} }, xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"lost its mount, bound for a pod", bound(nil), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"unmounted by hand, bound for a pod", bound(func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonUnmounted }), xfs(), nil, disk.Hold, disk.ReasonUnmounted},
		{"lost its mount, held", bound(func(f *disk.Facts) { f.Holders = []string{"dm-0"} }), xfs(), nil, disk.Ignore, disk.ReasonHeld},
		{"never mounted here, bound", bound(func(f *disk.Facts) { f.Standing.WasMounted = time.Time{} }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted as something else", bound(func(f *disk.Facts) { f.Standing.Volume.UUID = otherUUID }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"nobody knows as what", bound(func(f *disk.Facts) { f.Standing.Volume = nil }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"as was in an earlier attachment", bound(func(f *disk.Facts) { f.Standing.Volume.Identity.Seq-- }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"lost its mount, a part of it bound", bound(func(f *disk.Facts) {
			f.Mounts[0].Root, f.Mounts[0].Path = "/part", "/srv/kubelet/pods/p/volume-subpaths/local-pv-1/c/0"
		}), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"lost its mount, and mounted by somebody", bound(func(f *disk.Facts) { f.Mounts = append(f.Mounts, mountedAt("/srv")) }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"lost its mount, bound beside a pod's volumes", bound(func(f *disk.Facts) { f.Mounts[0].Path = "/var/lib/kubelet/pods/p/etc-hosts" }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"lost its mount, bound where no pod is", bound(func(f *disk.Facts) { f.Mounts[0].Path = "/srv/volumes/kubernetes.io~local-volume/x" }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted in a former directory", bound(func(f *disk.Facts) { f.Mounts = append(f.Mounts, mountedAt("/mnt/former/"+uuid)) }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"bound, and no filesystem any more", bound(nil), &disk.Content{Kind: disk.Blank, Proven: true, UUID: uuid}, nil, disk.Ignore, disk.ReasonElsewhere},
		{"for raw, lost its mount, bound", bound(nil), xfs(), block, disk.Ignore, disk.ReasonElsewhere},
		{"mounted, shrunk, and with a fault", func(f *disk.Facts) { with(ours, grown(6<<30), nil)(f); f.Fault = "shut down" }, xfs(), nil, disk.Keep, disk.ReasonShrunk},
		{"swap", func(f *disk.Facts) { f.Swap = true }, proven(disk.Other), nil, disk.Ignore, disk.ReasonSwap},
		{"multipath leg", func(f *disk.Facts) { f.Udev.Multipath = true }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonMultipath},
		{"multipath leg that udev does not mark", func(f *disk.Facts) {
			f.SameWWN = []disk.Peer{{ID: disk.ID{Seq: 13}}, {ID: disk.ID{Seq: 14}, Multipath: true}}
		}, xfs(), nil, disk.Ignore, disk.ReasonMultipath},
		{"multipath leg that udev does not mark, mounted in its place", func(f *disk.Facts) {
			f.SameWWN, f.Mounts = []disk.Peer{{ID: disk.ID{Seq: 14}, Multipath: true}}, []disk.MountPoint{ours}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"not ready", func(f *disk.Facts) { f.Udev.NotReady = true }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonNotReady},
		{"held", func(f *disk.Facts) { f.Holders = []string{"dm-0"} }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonHeld},
		{"claimed", func(f *disk.Facts) { f.Claim = "/etc/fstab:4" }, xfs(), nil, disk.Ignore, disk.ReasonClaimed},
		{"cloud-init seed", func(f *disk.Facts) { f.Udev.FSLabel = "cidata" }, proven(disk.Other), nil, disk.Ignore, disk.ReasonSeed},
		{"a cloud's ephemeral disk", func(f *disk.Facts) { f.Udev.FSLabel = "ephemeral0" }, xfs(), nil, disk.Ignore, disk.ReasonSeed},
		{"a volume on record with an ephemeral disk's label", func(f *disk.Facts) {
			f.Udev.FSLabel, f.Standing.OnRecord, f.Standing.Volume = "ephemeral0", true, &disk.Sighting{UUID: uuid}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"another ephemeral disk, in capitals", func(f *disk.Facts) { f.Udev.FSLabel = "EPHEMERAL12" }, xfs(), nil, disk.Ignore, disk.ReasonSeed},
		{"a label that is only like theirs", func(f *disk.Facts) { f.Udev.FSLabel = "ephemeral0a" }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a label of theirs without a number", func(f *disk.Facts) { f.Udev.FSLabel = "ephemeral" }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a number after another label", func(f *disk.Facts) { f.Udev.FSLabel = "persisted0" }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"an ephemeral disk, mounted in its place", func(f *disk.Facts) { f.Udev.FSLabel, f.Mounts = "ephemeral0", []disk.MountPoint{ours} }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"udev has not seen a logical volume", func(f *disk.Facts) { f.Udev.Initialized, f.MapperName = false, "vg0-a" }, proven(disk.Blank), nil, disk.Wait, disk.ReasonUdev},
		{"udev has not seen it", func(f *disk.Facts) { f.Udev.Initialized = false }, proven(disk.Blank), nil, disk.Wait, disk.ReasonUdev},

		{"no size", func(f *disk.Facts) { f.Size = 0 }, proven(disk.Blank), nil, disk.Refuse, disk.ReasonSize},
		{"partitions", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Blank), nil, disk.Refuse, disk.ReasonPartitions},
		{"read-only", func(f *disk.Facts) { f.ReadOnly = true }, xfs(), nil, disk.Refuse, disk.ReasonReadOnly},
		{"twin", func(f *disk.Facts) { f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}}} }, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, this one on record", func(f *disk.Facts) { f.SameUUID, f.Standing.OnRecord = []disk.Peer{{}}, true }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"twin, this one on record, the other mounted", func(f *disk.Facts) { f.SameUUID, f.Standing.OnRecord = []disk.Peer{{}, {Mounted: "/x"}}, true }, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, both on record, this one in its slot", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord, f.Standing.InSameSlot = []disk.Peer{{OnRecord: true}}, true, true
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"twin, both on record, this one in its slot, and the serial was refused once", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord, f.Standing.InSameSlot, f.Standing.Twin = []disk.Peer{{OnRecord: true}}, true, true, true
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"alone in its slot, and the serial was refused once", func(f *disk.Facts) {
			f.Standing.OnRecord, f.Standing.InSameSlot, f.Standing.Twin = true, true, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, both on record in that slot", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord, f.Standing.InSameSlot = []disk.Peer{{OnRecord: true, InSameSlot: true}}, true, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, mounted, this one in its slot", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord, f.Standing.InSameSlot = []disk.Peer{{Mounted: "/srv"}}, true, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, both on record", func(f *disk.Facts) { f.SameUUID, f.Standing.OnRecord = []disk.Peer{{OnRecord: true}}, true }, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, this one on record but for its size", func(f *disk.Facts) { f.SameUUID, f.Standing.Resized = []disk.Peer{{}}, true }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"twin, this one on record but for its size, the other on record", func(f *disk.Facts) {
			f.SameUUID, f.Standing.Resized = []disk.Peer{{}, {OnRecord: true}}, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, this one on record but for its size, the other mounted", func(f *disk.Facts) {
			f.SameUUID, f.Standing.Resized = []disk.Peer{{Mounted: "/x"}}, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, both on record but for their sizes", func(f *disk.Facts) {
			f.SameUUID, f.Standing.Resized = []disk.Peer{{Resized: true}}, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, this one on record, the other but for its size", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord = []disk.Peer{{Resized: true}}, true
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"twin, this one on record but for its size, and refused before", func(f *disk.Facts) {
			f.SameUUID, f.Standing.Resized, f.Standing.Twin = []disk.Peer{{}}, true, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin, this one on record but refused before", func(f *disk.Facts) {
			f.SameUUID, f.Standing.OnRecord, f.Standing.Twin = []disk.Peer{{}}, true, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin in place of another", func(f *disk.Facts) { f.Standing.LastOn = &lay }, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"twin in place of another, accepted", func(f *disk.Facts) { f.Standing.LastOn, f.Standing.Accepted = &lay, word(disk.ReasonTwin, otherUUID) }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"twin in place of another, accepted for something else", func(f *disk.Facts) {
			f.Standing.LastOn, f.Standing.Accepted = &lay, but(disk.Word{Reason: disk.ReasonTwin, UUID: otherUUID})
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"in place of another that was seen leaving", func(f *disk.Facts) { f.Standing.LastOn = &disk.Sighting{UUID: uuid, Left: true} }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"in place of one that left while this one was there", func(f *disk.Facts) {
			f.Standing.LastOn, f.Standing.Beside = &disk.Sighting{UUID: uuid, Left: true}, true
		}, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"in place of one that left while this one was there, accepted", func(f *disk.Facts) {
			f.Standing.LastOn, f.Standing.Beside, f.Standing.Accepted = &disk.Sighting{UUID: uuid, Left: true}, true, word(disk.ReasonTwin, uuid)
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"mounted, from another disk than the one on record", func(f *disk.Facts) { f.Mounts, f.Standing.LastOn = []disk.MountPoint{ours}, &lay }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"twin, the other gone", func(f *disk.Facts) { f.Standing.Twin = true }, xfs(), nil, disk.Refuse, disk.ReasonTwin},
		{"released", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonReleased }, xfs(), nil, disk.Hold, disk.ReasonReleased},
		{"unmounted by hand", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonUnmounted }, xfs(), nil, disk.Hold, disk.ReasonUnmounted},
		{"released, still mounted", func(f *disk.Facts) {
			f.Standing.Unmounted, f.Mounts = disk.ReasonReleased, []disk.MountPoint{ours}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"too small to format", func(f *disk.Facts) { f.Size = 300<<20 - 1 }, proven(disk.Blank), nil, disk.Refuse, disk.ReasonTooSmall},
		{"too small, and not read", func(f *disk.Facts) { f.Size = 192 << 10 }, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"too small, and a disk image", func(f *disk.Facts) { f.Size = 192 << 10 }, &disk.Content{Kind: disk.Other, Type: "qcow2", Proven: true}, nil, disk.Refuse, disk.ReasonOther},
		{"just large enough", func(f *disk.Facts) { f.Size = 300 << 20 }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"small, with a filesystem", func(f *disk.Facts) { f.Size = 20 << 20 }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"class creates ext4", nil, proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Create = "ext4" }, disk.Format, disk.ReasonBlank},
		{"class creates what nobody knows", nil, proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Create = "" }, disk.Refuse, disk.ReasonNoCreate},
		{"half-made ext4, class creates ext4", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, Type: "ext4", UUID: uuid, Proven: true}, func(s *disk.Settings) { s.Classes[0].Create = "ext4" }, disk.Format, disk.ReasonIntent},
		{"half-made ext4, class creates xfs", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, Type: "ext4", UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonNoCreate},
		{"half-made xfs, class creates ext4", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, Type: "xfs", UUID: uuid, Proven: true}, func(s *disk.Settings) { s.Classes[0].Create = "ext4" }, disk.Refuse, disk.ReasonNoCreate},
		{"class creates nothing", nil, proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Create = "none" }, disk.Refuse, disk.ReasonNoCreate},

		{"formatting off", nil, proven(disk.Blank), func(s *disk.Settings) { s.Format = false }, disk.Hold, disk.ReasonFormatOff},
		{"used by another", used, proven(disk.Blank), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, accepted", func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, "") }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"used by another, accepted for all else", func(f *disk.Facts) { used(f); f.Standing.Accepted = but(disk.Word{Reason: disk.ReasonUsed}) }, proven(disk.Blank), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, unread", used, proven(disk.Unread), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, xfs", used, xfs(), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, half-made where a volume of this node was", func(f *disk.Facts) {
			used(f)
			was("/mnt/disks", "default")(f)
			f.Standing.Intent = &disk.Intent{UUID: uuid}
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonUsed},
		{"used by another, a copy of a volume on record", func(f *disk.Facts) { used(f); copyOf(f) }, xfs(), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, xfs, accepted", func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, uuid) }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"used by another, xfs, another was accepted", func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, otherUUID) }, xfs(), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, a volume of this node", func(f *disk.Facts) { used(f); was("/mnt/disks", "default")(f) }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"used by another, made by this node", used, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"used by another, where a volume of this node was", func(f *disk.Facts) { used(f); f.Standing.Volume = &disk.Sighting{UUID: otherUUID} }, xfs(), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, something else on it", used, proven(disk.Other), nil, disk.Hold, disk.ReasonUsed},
		{"used by another, mounted", func(f *disk.Facts) { used(f); f.Mounts = []disk.MountPoint{ours} }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"used by another, and mounted there again", func(f *disk.Facts) { used(f); f.Mounts = []disk.MountPoint{mountedAt("/srv")} }, xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"its node bound", node, xfs(), nil, disk.Ignore, disk.ReasonBound},
		{"its node bound, a volume of this node", func(f *disk.Facts) { node(f); was("/mnt/disks", "default")(f) }, xfs(), nil, disk.Ignore, disk.ReasonBound},
		{"its node bound, a volume on record", onRecordAnd(node), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"claimed, a volume on record", onRecordAnd(func(f *disk.Facts) { f.Claim = "/etc/libvirt/qemu/guest.xml:4" }), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"claimed, a volume on record, accepted for everything", onRecordAnd(func(f *disk.Facts) { f.Claim, f.Standing.Accepted = "/etc/fstab:4", everyWord }), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"mounted elsewhere, a volume on record", onRecordAnd(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} }), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"mounted elsewhere, a volume on record, released", onRecordAnd(func(f *disk.Facts) {
			f.Mounts, f.Standing.Unmounted = []disk.MountPoint{mountedAt("/srv")}, disk.ReasonReleased
		}), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted elsewhere, a volume on record, unmounted by hand", onRecordAnd(func(f *disk.Facts) {
			f.Mounts, f.Standing.Unmounted = []disk.MountPoint{mountedAt("/srv")}, disk.ReasonUnmounted
		}), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"mounted to get a UUID of its own, a volume on record", onRecordAnd(func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt(twinMount)} }), xfs(), nil, disk.Ignore, disk.ReasonElsewhere},
		{"mounted for a pod alone, a volume on record", bound(func(f *disk.Facts) { f.Standing.OnRecord = true }), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"something built on it, a volume on record", onRecordAnd(func(f *disk.Facts) { f.Holders = []string{"dm-0"} }), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"below a loop device, a volume on record", onRecordAnd(looped), xfs(), nil, disk.Refuse, disk.ReasonInUse},
		{"mounted in its place, and claimed", onRecordAnd(func(f *disk.Facts) { f.Claim, f.Mounts = "/etc/fstab:4", []disk.MountPoint{ours} }), xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"a volume on record that nobody uses", onRecordAnd(nil), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"its node bound, accepted", func(f *disk.Facts) { node(f); f.Standing.Accepted = everyWord }, xfs(), nil, disk.Ignore, disk.ReasonBound},
		{"its node bound, perhaps blank", node, proven(disk.Unread), nil, disk.Ignore, disk.ReasonBound},
		{"its node bound, mounted", func(f *disk.Facts) { node(f); f.Mounts = []disk.MountPoint{ours} }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"its node bound, given out once", func(f *disk.Facts) { node(f); f.Standing.Given = &given }, xfs(), nil, disk.Ignore, disk.ReasonBound},
		{"a claim unseen", hidden, proven(disk.Blank), nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, accepted", func(f *disk.Facts) { hidden(f); f.Standing.Accepted = word(disk.ReasonUnseen, "") }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"a claim unseen, accepted for all else", func(f *disk.Facts) { hidden(f); f.Standing.Accepted = but(disk.Word{Reason: disk.ReasonUnseen}) }, proven(disk.Blank), nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, half-made by this node", func(f *disk.Facts) { hidden(f); f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, xfs", hidden, xfs(), nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, xfs, accepted", func(f *disk.Facts) { hidden(f); f.Standing.Accepted = word(disk.ReasonUnseen, uuid) }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a claim unseen, xfs, accepted for another", func(f *disk.Facts) {
			hidden(f)
			f.Standing.Accepted = but(disk.Word{Reason: disk.ReasonUnseen, UUID: uuid})
		}, xfs(), nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, a volume of this node", func(f *disk.Facts) { hidden(f); was("/mnt/disks", "default")(f) }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a claim unseen, made by this node", hidden, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"a claim unseen, where a volume of this node was", func(f *disk.Facts) { hidden(f); f.Standing.Volume = &disk.Sighting{UUID: otherUUID} }, xfs(), nil, disk.Hold, disk.ReasonUnseen},
		{"a claim unseen, mounted", func(f *disk.Facts) { hidden(f); f.Mounts = []disk.MountPoint{ours} }, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"a claim unseen, and one that is seen", func(f *disk.Facts) { hidden(f); f.Claim = "/etc/fstab:4" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonClaimed},
		{"formatting off, xfs", nil, xfs(), func(s *disk.Settings) { s.Format = false }, disk.Mount, disk.ReasonFilesystem},
		{"store lost", func(f *disk.Facts) { f.Standing.Formatting = "lost" }, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormatOff},
		{"store lost, accepted", func(f *disk.Facts) { f.Standing.Formatting = "lost"; f.Standing.Accepted = everyWord }, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormatOff},
		{"there before installation", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Blank), nil, disk.Hold, disk.ReasonPresent},
		{"there before installation, not read yet", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Unread), nil, disk.Hold, disk.ReasonPresent},
		{"there before installation, accepted", func(f *disk.Facts) {
			f.Standing.Present, f.Standing.Accepted = &disk.Identity{}, word(disk.ReasonPresent, "")
		}, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"there before installation, preseeded", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Unread), func(s *disk.Settings) { s.FormatPresent = true }, disk.Prove, disk.ReasonUnread},
		{"there at a new machine-id", arrived, proven(disk.Blank), nil, disk.Hold, disk.ReasonNewMachine},
		{"there at a new machine-id, not read yet", arrived, proven(disk.Unread), nil, disk.Hold, disk.ReasonNewMachine},
		{"there at a new machine-id, accepted", func(f *disk.Facts) { arrived(f); f.Standing.Accepted = word(disk.ReasonNewMachine, "") }, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"there at a new machine-id, accepted as there before", func(f *disk.Facts) { arrived(f); f.Standing.Accepted = word(disk.ReasonPresent, "") }, proven(disk.Unread), nil, disk.Hold, disk.ReasonNewMachine},
		{"there at a new machine-id, preseeded", arrived, proven(disk.Unread), func(s *disk.Settings) { s.FormatPresent = true }, disk.Prove, disk.ReasonUnread},
		{"there at a new machine-id, xfs", arrived, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"block, there at a new machine-id", arrived, proven(disk.Unread), block, disk.Hold, disk.ReasonNewMachine},
		{"block, there at a new machine-id, given out before", func(f *disk.Facts) { arrived(f); f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size} }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"there before installation, xfs", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"second of a serial", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 11}}} }, proven(disk.Unread), nil, disk.Hold, disk.ReasonSameSerial},
		{"second of a serial, accepted", func(f *disk.Facts) {
			f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 11}}}
			f.Standing.Accepted = word(disk.ReasonSameSerial, "")
		}, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"second of a serial, accepted, and now the first has a filesystem", func(f *disk.Facts) {
			f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 11}, UUID: otherUUID}}
			f.Standing.Accepted = word(disk.ReasonSameSerial, "")
		}, proven(disk.Unread), nil, disk.Hold, disk.ReasonSameSerial},
		{"second of a serial, accepted with the filesystem of the first, which is on record", func(f *disk.Facts) {
			f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 11}, UUID: otherUUID}}
			f.Standing.FormerSerial, f.Standing.Accepted = &lay, word(disk.ReasonSameSerial, otherUUID)
		}, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"third of a serial, accepted with the filesystem of the first", func(f *disk.Facts) {
			f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 10}, UUID: otherUUID}, {ID: disk.ID{Seq: 11}, UUID: uuid}}
			f.Standing.Accepted = word(disk.ReasonSameSerial, otherUUID)
		}, proven(disk.Unread), nil, disk.Hold, disk.ReasonSameSerial},
		{"first of a serial", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}}} }, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"the serial of a later disk with a filesystem", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}, UUID: uuid}} }, proven(disk.Unread), nil, disk.Hold, disk.ReasonSameSerial},
		{"the serial of a later disk in use", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}, InUse: "dm-0"}} }, proven(disk.Blank), nil, disk.Hold, disk.ReasonSameSerial},
		{"the serial of a later disk that is being formatted", begunBy(13, func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}}} }), &disk.Content{Kind: disk.Unread}, nil, disk.Hold, disk.ReasonSameSerial},
		{"the serial of a later disk whose half-made filesystem is on it, too", begunBy(13, func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}}} }), &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonSameSerial},
		{"the serial of an earlier disk that is being formatted", begunBy(11, func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 11}}} }), &disk.Content{Kind: disk.Unread}, nil, disk.Hold, disk.ReasonSameSerial},
		{"first of a serial, and its format did not finish", begunBy(12, func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}}} }), &disk.Content{Kind: disk.Unread}, nil, disk.Prove, disk.ReasonIntent},
		{"second of a WWN", wwn(11, ""), proven(disk.Unread), nil, disk.Hold, disk.ReasonSameWWN},
		{"second of a WWN, proven blank", wwn(11, ""), proven(disk.Blank), nil, disk.Hold, disk.ReasonSameWWN},
		{"a format of an earlier boot, and by chance its number", func(f *disk.Facts) {
			begunBy(13, wwn(13, ""))(f)
			f.Standing.Intent.Attached = false
		}, &disk.Content{Kind: disk.Unread}, nil, disk.Prove, disk.ReasonIntent},
		{"second of a WWN that is being formatted", begunBy(11, wwn(11, "")), &disk.Content{Kind: disk.Unread}, nil, disk.Hold, disk.ReasonSameWWN},
		{"the WWN of a later disk that is being formatted", begunBy(13, wwn(13, "")), &disk.Content{Kind: disk.Unread}, nil, disk.Hold, disk.ReasonSameWWN},
		{"second of a WWN, accepted", func(f *disk.Facts) {
			wwn(11, "")(f)
			f.Standing.Accepted = word(disk.ReasonSameWWN, "")
		}, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},
		{"second of a WWN, accepted, and now the first has a filesystem", func(f *disk.Facts) {
			wwn(11, otherUUID)(f)
			f.Standing.Accepted = word(disk.ReasonSameWWN, "")
		}, proven(disk.Unread), nil, disk.Hold, disk.ReasonSameWWN},
		{"first of a WWN", wwn(13, ""), proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"the WWN of a later disk with a filesystem", wwn(13, uuid), proven(disk.Unread), nil, disk.Hold, disk.ReasonSameWWN},
		{"xfs with a WWN that another disk has", wwn(1, ""), xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a former disk's serial", func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, proven(disk.Unread), nil, disk.Hold, disk.ReasonFormerSerial},
		{"a former disk's serial, proven blank", func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSerial},
		{"a former disk's serial, xfs", func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a former disk's serial, accepted", func(f *disk.Facts) {
			f.Standing.FormerSerial, f.Standing.Accepted = &lay, word(disk.ReasonFormerSerial, otherUUID)
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"a former disk's serial, another filesystem was accepted", func(f *disk.Facts) {
			f.Standing.FormerSerial, f.Standing.Accepted = &lay, word(disk.ReasonFormerSerial, uuid)
		}, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSerial},
		{"a former disk's serial, its filesystem was accepted as another's", func(f *disk.Facts) {
			f.Standing.FormerSerial, f.Standing.Accepted = &lay, word(disk.ReasonShared, otherUUID)
		}, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSerial},
		{"in a former slot lay what has no UUID", func(f *disk.Facts) { f.Standing.FormerSlot = &disk.Sighting{Type: "swap"} }, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSlot},
		{"in a former slot lay what has no UUID, accepted", func(f *disk.Facts) {
			f.Standing.FormerSlot, f.Standing.Accepted = &disk.Sighting{Type: "swap"}, word(disk.ReasonFormerSlot, "")
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"in a former slot lay what has no UUID, accepted for something else", func(f *disk.Facts) {
			f.Standing.FormerSlot, f.Standing.Accepted = &disk.Sighting{Type: "swap"}, but(disk.Word{Reason: disk.ReasonFormerSlot})
		}, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSlot},
		{"a filesystem vanished, given up", func(f *disk.Facts) {
			f.Standing.Before, f.Standing.Accepted = &lay, word(disk.ReasonBefore, otherUUID)
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"a filesystem vanished, given up, and its serial is known", func(f *disk.Facts) {
			f.Standing.Before, f.Standing.FormerSerial, f.Standing.Accepted = &lay, &lay, word(disk.ReasonBefore, otherUUID)
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"mounted, and udev says so", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, strings.ToUpper(uuid)
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"mounted, and what udev knows is of the disk before", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID, f.Udev.Initialized = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, otherUUID, false
		}, xfs(), nil, disk.Wait, disk.ReasonUdev},
		{"mounted, on record as what it once was", onRecordInPlace(func(f *disk.Facts) { f.Standing.WasMounted = time.Time{} }), xfs(), nil, disk.Wait, disk.ReasonUdev},
		{"mounted as something else, and udev has not seen it", onRecordInPlace(func(f *disk.Facts) { f.Standing.Volume.UUID = otherUUID }), xfs(), nil, disk.Wait, disk.ReasonUdev},
		{"mounted as in an earlier attachment, and udev has not seen it", onRecordInPlace(func(f *disk.Facts) { f.Standing.Volume.Identity.Seq-- }), xfs(), nil, disk.Wait, disk.ReasonUdev},
		{"mounted in another's place", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, otherUUID
		}, xfs(), nil, disk.Refuse, disk.ReasonMisplaced},
		{"mounted in another's place, by the kernel's word", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID, f.Geometry = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, uuid, &disk.Geometry{Size: f.Size, Block: 4096, UUID: otherUUID}
		}, xfs(), nil, disk.Refuse, disk.ReasonMisplaced},
		{"mounted in another's place, and udev knows nothing of it", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID, f.Geometry = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, "", &disk.Geometry{Size: f.Size, Block: 4096, UUID: otherUUID}
		}, xfs(), nil, disk.Refuse, disk.ReasonMisplaced},
		{"mounted in its place, and another written over it", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID, f.Geometry = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, otherUUID, &disk.Geometry{Size: f.Size, Block: 4096, UUID: uuid}
		}, xfs(), nil, disk.Refuse, disk.ReasonMisplaced},
		{"mounted in its place, by the kernel's word too", func(f *disk.Facts) {
			f.Mounts, f.Udev.FSUUID, f.Geometry = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, uuid, &disk.Geometry{Size: f.Size, Block: 4096, UUID: uuid}
		}, xfs(), nil, disk.Keep, disk.ReasonMounted},
		{"a former disk's slot", func(f *disk.Facts) { f.Standing.FormerSlot = &lay }, proven(disk.Unread), nil, disk.Hold, disk.ReasonFormerSlot},
		{"a former disk's slot, its filesystem is elsewhere", func(f *disk.Facts) { f.Standing.FormerSlot, f.Moved = &lay, &disk.Peer{} }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"a former disk's slot, accepted", func(f *disk.Facts) {
			f.Standing.FormerSlot, f.Standing.Accepted = &lay, word(disk.ReasonFormerSlot, otherUUID)
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"as many formats as may be", func(f *disk.Facts) { f.Standing.Formats = ages(1, 2, 3) }, proven(disk.Blank), nil, disk.Hold, disk.ReasonBrake},
		{"one less, in time", func(f *disk.Facts) { f.Standing.Formats = ages(10, 1, 2) }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"as many, after the clock was set back", func(f *disk.Facts) { f.Standing.Formats = ages(-600, 1, 2) }, proven(disk.Blank), nil, disk.Hold, disk.ReasonBrake},
		{"as many, accepted", func(f *disk.Facts) {
			f.Standing.Formats, f.Standing.Accepted = ages(1, 2, 3), word(disk.ReasonBrake, "")
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"held since there were too many", func(f *disk.Facts) { f.Standing.Braked = true }, proven(disk.Blank), nil, disk.Hold, disk.ReasonBrake},
		{"the proof failed for good", func(f *disk.Facts) {
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Failure: "x"}
		}, proven(disk.Unread), nil, disk.Refuse, disk.ReasonFormatFailed},
		{"the proof failed for now", func(f *disk.Facts) {
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Failure: "x", Retry: true}
		}, proven(disk.Unread), nil, disk.Prove, disk.ReasonUnread},

		{"the proof went well", func(f *disk.Facts) { f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size} }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"unfinished, udev says xfs", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, xfs(), nil, disk.Prove, disk.ReasonIntent},
		{"unfinished, proven half-made", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"unfinished, proven half-made, a filesystem vanished", func(f *disk.Facts) { f.Standing.Intent, f.Standing.Before = &disk.Intent{UUID: uuid}, &lay }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"unfinished, proven half-made, a former disk's serial", func(f *disk.Facts) { f.Standing.Intent, f.Standing.FormerSerial = &disk.Intent{UUID: uuid}, &lay }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"unfinished, proven half-made, a former disk's slot", func(f *disk.Facts) { f.Standing.Intent, f.Standing.FormerSlot = &disk.Intent{UUID: uuid}, &lay }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"unfinished, proven half-made, and it was mounted since", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Before = &disk.Intent{UUID: uuid}, &disk.Sighting{UUID: uuid, Type: "xfs"}
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonBefore},
		{"unfinished, a former disk's serial, unread", func(f *disk.Facts) { f.Standing.Intent, f.Standing.FormerSerial = &disk.Intent{UUID: uuid}, &lay }, &disk.Content{Kind: disk.Unread}, nil, disk.Prove, disk.ReasonIntent},
		{"unfinished, a former disk's serial, proven blank", func(f *disk.Facts) { f.Standing.Intent, f.Standing.FormerSerial = &disk.Intent{UUID: uuid}, &lay }, proven(disk.Blank), nil, disk.Hold, disk.ReasonFormerSerial},
		{"unfinished, half-made with another UUID", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonHalfMade},
		{"half-made, ours, and there is a copy of it", func(f *disk.Facts) {
			f.SameUUID = []disk.Peer{{ID: disk.ID{Seq: 13}}}
			f.Standing.Intent = &disk.Intent{Identity: f.Identity("before"), UUID: uuid}
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"half-made, ours, in another slot than before", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{Identity: disk.Identity{Boot: "before", Slot: "pci-0000:99:00.0", Size: f.Size}, UUID: uuid}
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"half-made, ours, in another slot than before, and there is a copy of it", func(f *disk.Facts) {
			f.SameUUID = []disk.Peer{{ID: disk.ID{Seq: 13}}}
			f.Standing.Intent = &disk.Intent{Identity: disk.Identity{Boot: "before", Slot: "pci-0000:99:00.0", Size: f.Size}, UUID: uuid}
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonHalfMade},
		{"the slot of an unfinished format, on record", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: otherUUID}, true, &disk.Sighting{UUID: uuid}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"the slot of an unfinished format, not on record", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: otherUUID}, true
		}, xfs(), nil, disk.Prove, disk.ReasonIntent},
		{"the slot of an unfinished format, another on record", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: otherUUID}, true, &disk.Sighting{UUID: otherUUID}
			f.Udev.FSType = "xfs"
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonShared},
		{"the slot of an unfinished format, made here", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot = &disk.Intent{UUID: otherUUID}, true
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"the attachment of an unfinished format, on record", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Volume = &disk.Intent{UUID: otherUUID}, &disk.Sighting{UUID: uuid}
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonShared},
		{"the slot of an unfinished format, its own filesystem, somebody else wrote", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: uuid, Doubt: "x"}, true, &disk.Sighting{UUID: uuid}
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonDisturbed},
		{"the slot of a broken-off overwrite, what it was of", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: otherUUID, Over: true, Was: uuid}, true, &disk.Sighting{UUID: uuid}
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonOverwrite},
		{"the slot of a broken-off overwrite, on record", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = &disk.Intent{UUID: otherUUID, Over: true, Was: "x"}, true, &disk.Sighting{UUID: uuid}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"half-made, not ours", nil, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonHalfMade},
		{"half-made, not proven", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid}, nil, disk.Prove, disk.ReasonIntent},
		{"unfinished, proven blank", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"unfinished, proven whole", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"unfinished, torn", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, nil, disk.Refuse, disk.ReasonTorn},
		{"unfinished, torn, accepted", func(f *disk.Facts) { f.Standing.Intent, f.Standing.Accepted = &disk.Intent{UUID: uuid}, everyWord }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, nil, disk.Refuse, disk.ReasonTorn},
		{"unfinished, torn, and somebody else wrote", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, nil, disk.Refuse, disk.ReasonTorn},
		{"unfinished, torn, and another's", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Torn: true}, nil, disk.Hold, disk.ReasonShared},
		{"unfinished, whole, and somebody else wrote", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonDisturbed},
		{"unfinished, whole, somebody else wrote, accepted", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Accepted = &disk.Intent{UUID: uuid, Doubt: "x"}, word(disk.ReasonDisturbed, uuid)
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"unfinished, whole, somebody else wrote, accepted for something else", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Accepted = &disk.Intent{UUID: uuid, Doubt: "x"}, but(disk.Word{Reason: disk.ReasonDisturbed, UUID: uuid})
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonDisturbed},
		{"unfinished, another's that was accepted, and somebody else wrote", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Accepted = &disk.Intent{UUID: otherUUID, Doubt: "x"}, word(disk.ReasonShared, uuid)
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"unfinished, whole, somebody else wrote, and mounted since", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.OnRecord = &disk.Intent{UUID: uuid, Doubt: "x"}, true
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"unfinished, blank again, and somebody else wrote", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, proven(disk.Blank), nil, disk.Hold, disk.ReasonDisturbed},
		{"unfinished, blank again, somebody else wrote, accepted", func(f *disk.Facts) {
			f.Standing.Intent, f.Standing.Accepted = &disk.Intent{UUID: uuid, Doubt: "x"}, word(disk.ReasonDisturbed, uuid)
		}, proven(disk.Blank), nil, disk.Format, disk.ReasonBlank},
		{"unfinished, half-made, and somebody else wrote", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonDisturbed},
		{"unfinished, whole, somebody else wrote, not proven", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, xfs(), nil, disk.Prove, disk.ReasonIntent},
		{"unfinished, proven whole, and another's", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonShared},
		{"a filesystem that another machine made meanwhile", func(f *disk.Facts) {
			f.Udev.FSType = "xfs"
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: "shared", Shared: true}
		}, xfs(), nil, disk.Hold, disk.ReasonShared},
		{"a filesystem on a disk whose format failed", func(f *disk.Facts) {
			f.Udev.FSType = "xfs"
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: "busy", Retry: true}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a filesystem that was written since another machine did", func(f *disk.Facts) {
			f.Udev.FSType = "xfs"
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes + 1, Failure: "shared", Shared: true}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a filesystem that another machine made meanwhile, accepted", func(f *disk.Facts) {
			f.Udev.FSType = "xfs"
			f.Standing.Accepted = word(disk.ReasonShared, uuid)
			f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: "shared", Shared: true}
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"a filesystem where udev has seen none", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonShared},
		{"a filesystem where udev has seen none, accepted", func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonShared, uuid) }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"a filesystem where udev has seen none, another was accepted", func(f *disk.Facts) { f.Standing.Accepted = word(disk.ReasonShared, otherUUID) }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonShared},
		{"a filesystem of our making, which udev has not seen yet", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"a filesystem by proof that udev knows, too", func(f *disk.Facts) { f.Udev.FSType = "xfs" }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"unfinished, another's, accepted", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: otherUUID}
			f.Standing.Accepted = word(disk.ReasonShared, uuid)
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"the operator's format has made its filesystem after all", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Over: true} }, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"the operator's format came to nothing, accepted", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true}
			f.Standing.Accepted = word(disk.ReasonOverwrite, uuid)
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Mount, disk.ReasonFilesystem},
		{"the operator's format came to nothing, accepted as another's", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true}
			f.Standing.Accepted = word(disk.ReasonShared, uuid)
		}, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}, nil, disk.Hold, disk.ReasonOverwrite},
		{"unfinished, half-made, and xfs to udev", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: uuid}
			f.Udev.FSType, f.Udev.FSUsage = "xfs", "filesystem"
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Format, disk.ReasonIntent},
		{"unfinished, half-made, and ext4 to udev", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: uuid}
			f.Udev.FSType, f.Udev.FSUsage = "ext4", "filesystem"
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonDisagree},
		{"unfinished, half-made, and xfs of another use to udev", func(f *disk.Facts) {
			f.Standing.Intent = &disk.Intent{UUID: uuid}
			f.Udev.FSType, f.Udev.FSUsage = "xfs", "raid"
		}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonDisagree},
		{"proven blank, xfs to udev", func(f *disk.Facts) { f.Udev.FSType, f.Udev.FSUsage = "xfs", "filesystem" }, proven(disk.Blank), nil, disk.Refuse, disk.ReasonDisagree},
		{"writes not counted", func(f *disk.Facts) { f.Uncounted = true }, proven(disk.Unread), nil, disk.Refuse, disk.ReasonUncounted},
		{"writes not counted, xfs", func(f *disk.Facts) { f.Uncounted = true }, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"given out once, xfs", func(f *disk.Facts) { f.Standing.Given = &given }, xfs(), nil, disk.Hold, disk.ReasonFormerBlock},
		{"given out once, xfs, accepted", func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &given, word(disk.ReasonFormerBlock, uuid)
		}, xfs(), nil, disk.Mount, disk.ReasonFilesystem},
		{"given out once, looks blank", func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Blank), nil, disk.Refuse, disk.ReasonNeverFormat},
		{"given out now", func(f *disk.Facts) { f.Standing.Link = "/mnt/block/virtio-S1" }, proven(disk.Blank), nil, disk.Ignore, disk.ReasonGivenElse},

		{"block", nil, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, proven blank", nil, proven(disk.Blank), block, disk.Link, disk.ReasonBlock},
		{"block, given out", func(f *disk.Facts) { f.Standing.Link = "/mnt/disks/virtio-S1" }, proven(disk.Unread), block, disk.Keep, disk.ReasonGivenOut},
		{"block, given out, in use by LVM", func(f *disk.Facts) { f.Standing.Link, f.Holders = "/mnt/disks/virtio-S1", []string{"dm-0"} }, proven(disk.Other), block, disk.Keep, disk.ReasonGivenOut},
		{"block, given out in another directory", func(f *disk.Facts) { f.Standing.Link = "/mnt/block/virtio-S1" }, proven(disk.Unread), block, disk.Ignore, disk.ReasonGivenElse},
		{"block, no link and no serial", func(f *disk.Facts) { f.Serial = "" }, proven(disk.Unread), block, disk.Refuse, disk.ReasonNoSerial},
		{"block, mounted by somebody", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{mountedAt("/srv")} }, xfs(), block, disk.Ignore, disk.ReasonElsewhere},
		{"block, udev has not seen it", func(f *disk.Facts) { f.Udev = disk.Udev{} }, proven(disk.Unread), block, disk.Wait, disk.ReasonUdev},
		{"block, no size", func(f *disk.Facts) { f.Size = 0 }, proven(disk.Unread), block, disk.Refuse, disk.ReasonSize},
		{"block, read-only", func(f *disk.Facts) { f.ReadOnly = true }, proven(disk.Unread), block, disk.Refuse, disk.ReasonReadOnly},
		{"block, a serial seen twice", func(f *disk.Facts) { f.SameSerial = []disk.Peer{{ID: disk.ID{Seq: 13}}} }, proven(disk.Unread), block, disk.Refuse, disk.ReasonSerialTwice},
		{"block, released", func(f *disk.Facts) { f.Standing.Unmounted = disk.ReasonReleased }, proven(disk.Unread), block, disk.Hold, disk.ReasonReleased},
		{"block, a filesystem", func(f *disk.Facts) { f.Udev.FSType, f.Udev.FSUsage = "xfs", "filesystem" }, xfs(), block, disk.Hold, disk.ReasonContent},
		{"block, read as data a moment ago", readAs(disk.Unknown), proven(disk.Unknown), block, disk.Hold, disk.ReasonContent},
		{"block, read as blank", readAs(disk.Blank), proven(disk.Blank), block, disk.Link, disk.ReasonBlock},
		{"block, not read to the end", readAs(""), proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, read as data, and changed since", func(f *disk.Facts) { readAs(disk.Unknown)(f); f.Writes++ }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, read as data for another class", func(f *disk.Facts) { f.Standing.Noted = &lay }, proven(disk.Unread), block, disk.Hold, disk.ReasonContent},
		{"block, read as data for another class, accepted", func(f *disk.Facts) {
			f.Standing.Noted, f.Standing.Accepted = &lay, word(disk.ReasonContent, "")
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, given out before, read as data", func(f *disk.Facts) { f.Standing.Noted, f.Standing.Given = &lay, &given }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, partitions", func(f *disk.Facts) { f.Partitions = []string{"vdb1"} }, proven(disk.Other), block, disk.Hold, disk.ReasonContent},
		{"block, a filesystem, accepted", func(f *disk.Facts) {
			f.Udev.FSType, f.Udev.FSUUID, f.Standing.Accepted = "xfs", strings.ToUpper(uuid), word(disk.ReasonContent, uuid)
		}, xfs(), block, disk.Link, disk.ReasonBlock},
		{"block, a filesystem, another was accepted", func(f *disk.Facts) {
			f.Udev.FSType, f.Udev.FSUUID, f.Standing.Accepted = "xfs", uuid, word(disk.ReasonContent, otherUUID)
		}, xfs(), block, disk.Hold, disk.ReasonContent},
		{"block, LVM, accepted", func(f *disk.Facts) {
			f.Udev.FSType, f.Udev.FSUUID, f.Standing.Accepted = "LVM2_member", "no-UUID", word(disk.ReasonContent, "")
		}, proven(disk.Other), block, disk.Link, disk.ReasonBlock},
		{"block, a filesystem that was a volume, accepted", func(f *disk.Facts) {
			f.Udev.FSType, f.Udev.FSUUID, f.Standing.Accepted = "xfs", otherUUID, word(disk.ReasonContent, otherUUID)
			f.Standing.FormerSerial = &lay
		}, xfs(), block, disk.Link, disk.ReasonBlock},
		{"block, a filesystem, and another was on its serial, accepted", func(f *disk.Facts) {
			f.Udev.FSType, f.Udev.FSUUID, f.Standing.Accepted = "xfs", uuid, word(disk.ReasonContent, uuid)
			f.Standing.FormerSerial = &lay
		}, xfs(), block, disk.Hold, disk.ReasonFormerSerial},
		{"block, where a larger one was given out", another(disk.Given{Serial: "S1", Size: 6 << 30}), xfs(), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, where a smaller one was given out", another(disk.Given{Serial: "S1", Size: 4 << 30}), xfs(), block, disk.Link, disk.ReasonBlock},
		{"block, where a smaller one of a serial that was cut was given out", func(f *disk.Facts) {
			f.Serial = "worker-1-data-disk-0"
			f.Standing.Given = &disk.Given{Serial: f.Serial, Size: 4 << 30}
		}, proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, where one of another WWN was given out", func(f *disk.Facts) {
			f.WWN = "0x5000c50015ea71ad"
			f.Standing.Given = &disk.Given{Serial: "S1", WWN: "0x5000c50015ea71ae", Size: f.Size}
		}, proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, where a larger one was given out, accepted", func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &disk.Given{Serial: "S1", Size: 6 << 30}, word(disk.ReasonOtherBlock, "")
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, given out before, and two had its serial", another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:06:00.0", Twice: true}), proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, given out before, and two had its serial, in its slot", another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:05:00.0", Twice: true}), proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, given out in this boot, and two had its serial, in its slot", another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:05:00.0", Twice: true, ThisBoot: true}), proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, given out by this attachment, and two had its serial", func(f *disk.Facts) {
			another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:05:00.0", Seq: f.Seq, Twice: true, ThisBoot: true})(f)
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, given out in this boot, and one had its serial, in its slot", another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:05:00.0", ThisBoot: true}), proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, given out before, and two had its serial, in its slot, and it holds something", func(f *disk.Facts) {
			another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:05:00.0", Twice: true})(f)
			f.Udev.FSType = "xfs"
		}, xfs(), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, given out before, and two had its serial, slots unknown", func(f *disk.Facts) {
			another(disk.Given{Serial: "S1", Size: 5 << 30, Twice: true})(f)
			f.Slot = ""
		}, proven(disk.Unread), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, given out before, in another slot", another(disk.Given{Serial: "S1", Size: 5 << 30, Slot: "pci-0000:06:00.0"}), proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, one of a serial that was cut was given out, and it holds something", func(f *disk.Facts) {
			f.Serial, f.Udev.FSType = "worker-1-data-disk-0", "xfs"
			f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size}
		}, xfs(), block, disk.Hold, disk.ReasonOtherBlock},
		{"block, one of a serial that was cut was given out, nothing known on it", func(f *disk.Facts) {
			f.Serial = "worker-1-data-disk-0"
			f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size}
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, one of a long serial was given out that is no virtio disk's", func(f *disk.Facts) {
			f.Serial, f.Udev.FSType, f.Transport = "worker-1-data-disk-0", "xfs", "scsi"
			f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size}
		}, xfs(), block, disk.Link, disk.ReasonBlock},
		{"block, a volume of another class", another(disk.Given{Serial: "S1", Link: "/mnt/block/virtio-S1", Class: "raw"}), proven(disk.Unread), func(s *disk.Settings) { block(s); beside(rawClass)(s) }, disk.Hold, disk.ReasonOtherClass},
		{"block, a volume of another class, accepted for something else", func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Accepted = &disk.Given{Serial: "S1", Link: "/mnt/block/virtio-S1", Class: "raw"}, everyWord
		}, proven(disk.Unread), func(s *disk.Settings) { block(s); beside(rawClass)(s) }, disk.Hold, disk.ReasonOtherClass},
		{"block, a volume of a class that is gone", another(disk.Given{Serial: "S1", Link: "/mnt/old/virtio-S1", Class: "raw"}), proven(disk.Unread), func(s *disk.Settings) { block(s); beside(rawClass)(s) }, disk.Link, disk.ReasonBlock},
		{"block, a filesystem, given out before", func(f *disk.Facts) { f.Udev.FSType, f.Standing.Given = "xfs", &given }, xfs(), block, disk.Link, disk.ReasonBlock},
		{"block, a former filesystem's serial", func(f *disk.Facts) { f.Standing.FormerSerial = &lay }, proven(disk.Unread), block, disk.Hold, disk.ReasonFormerSerial},
		{"block, there before installation", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Unread), block, disk.Hold, disk.ReasonPresent},
		{"block, its node bound", node, proven(disk.Unread), block, disk.Ignore, disk.ReasonBound},
		{"block, its node bound, its link gone", func(f *disk.Facts) { node(f); f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size} }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, claimed", func(f *disk.Facts) { f.Claim = "/etc/libvirt/qemu/guest.xml:4" }, proven(disk.Unread), block, disk.Ignore, disk.ReasonClaimed},
		{"block, claimed, its link gone", func(f *disk.Facts) {
			f.Claim, f.Standing.Given = "/etc/libvirt/qemu/guest.xml:4", &disk.Given{Serial: f.Serial, Size: f.Size}
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"given out once, claimed", func(f *disk.Facts) { f.Claim, f.Standing.Given = "/etc/libvirt/qemu/guest.xml:4", &given }, proven(disk.Unread), nil, disk.Ignore, disk.ReasonClaimed},
		{"block, used by another", used, proven(disk.Unread), block, disk.Hold, disk.ReasonUsed},
		{"block, used by another, accepted", func(f *disk.Facts) { used(f); f.Standing.Accepted = word(disk.ReasonUsed, "") }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, used by another, given out before", func(f *disk.Facts) { used(f); f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size} }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, a claim unseen", hidden, proven(disk.Unread), block, disk.Hold, disk.ReasonUnseen},
		{"block, a claim unseen, accepted", func(f *disk.Facts) { hidden(f); f.Standing.Accepted = word(disk.ReasonUnseen, "") }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, a claim unseen, given out before", func(f *disk.Facts) { hidden(f); f.Standing.Given = &disk.Given{Serial: f.Serial, Size: f.Size} }, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, there before installation, preseeded", func(f *disk.Facts) { f.Standing.Present = &disk.Identity{} }, proven(disk.Unread), func(s *disk.Settings) { block(s); s.FormatPresent = true }, disk.Link, disk.ReasonBlock},
		{"block, there before installation, accepted", func(f *disk.Facts) {
			f.Standing.Present, f.Standing.Accepted = &disk.Identity{}, word(disk.ReasonPresent, "")
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, there before installation, given out before", func(f *disk.Facts) {
			f.Standing.Present, f.Standing.Given = &disk.Identity{}, &disk.Given{Serial: f.Serial, Size: f.Size}
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"block, a former filesystem's serial, given out before", func(f *disk.Facts) {
			f.Standing.FormerSerial, f.Standing.Given = &lay, &disk.Given{Serial: f.Serial, Size: f.Size}
		}, proven(disk.Unread), block, disk.Link, disk.ReasonBlock},
		{"a faulty configuration, blank", nil, proven(disk.Blank), faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, unread", nil, proven(disk.Unread), faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, and formatting is off", nil, proven(disk.Unread), func(s *disk.Settings) { faulty(s); s.Format = false }, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, a format of ours that did not finish", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, xfs", nil, xfs(), faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, xfs, accepted for everything", func(f *disk.Facts) { f.Standing.Accepted = everyWord }, xfs(), faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, xfs on record", func(f *disk.Facts) { f.Standing.Volume = &disk.Sighting{UUID: uuid} }, xfs(), faulty, disk.Mount, disk.ReasonFilesystem},
		{"a faulty configuration, xfs, and another on record", func(f *disk.Facts) { f.Standing.Volume = &disk.Sighting{UUID: otherUUID} }, xfs(), faulty, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, xfs made here", nil, &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true, Made: true}, faulty, disk.Mount, disk.ReasonFilesystem},
		{"a faulty configuration, mounted", func(f *disk.Facts) { f.Mounts = []disk.MountPoint{ours} }, xfs(), faulty, disk.Keep, disk.ReasonMounted},
		{"a faulty configuration, block", nil, proven(disk.Unread), func(s *disk.Settings) { faulty(s); block(s) }, disk.Hold, disk.ReasonSettings},
		{"a faulty configuration, block, given out before", another(disk.Given{Serial: "S1", Size: 5 << 30}), proven(disk.Unread), func(s *disk.Settings) { faulty(s); block(s) }, disk.Link, disk.ReasonBlock},
		{"a faulty configuration, the system", func(f *disk.Facts) { f.System = "/" }, proven(disk.Blank), faulty, disk.Ignore, disk.ReasonSystem},
		{"a faulty configuration, in use", func(f *disk.Facts) { f.Standing.Volume = &disk.Sighting{UUID: uuid}; f.Holders = []string{"dm-0"} }, xfs(), faulty, disk.Ignore, disk.ReasonHeld},
		{"given out by the name that its class would give", func(f *disk.Facts) { f.Standing.Link = "/mnt/disks/virtio-S1" }, xfs(), nil, disk.Ignore, disk.ReasonGivenElse},
		{"a partition, something else, with an intent", partOf(func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }), &disk.Content{Kind: disk.Other}, parts, disk.Refuse, disk.ReasonOther},
		{"a partition, unknown", part, proven(disk.Unknown), parts, disk.Refuse, disk.ReasonPartition},
		{"something else with the UUID of an intent", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Other, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonOther},
		{"unknown with the UUID of an intent", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, &disk.Content{Kind: disk.Unknown, UUID: uuid, Proven: true}, nil, disk.Refuse, disk.ReasonUnknown},
		{"unfinished, proven something else", func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid} }, proven(disk.Other), nil, disk.Refuse, disk.ReasonOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, s := blankDisk(), settings()
			if tt.facts != nil {
				tt.facts(f)
			}
			if tt.config != nil {
				tt.config(s)
			}
			d := Decide(f, tt.content, s)
			if d.Action != tt.action || d.Reason != tt.reason {
				t.Errorf("got %s (%s), want %s (%s)", d.Action, d.Reason, tt.action, tt.reason)
			}
			if (d.Action == disk.Mount || d.Mounted()) && !disk.ValidUUID(d.UUID) {
				t.Errorf("%s with UUID %q", d.Action, d.UUID)
			}
			why, _ := Words(f, tt.content, s, d)
			if why == "" || why == string(d.Reason) {
				t.Errorf("%s has no words", d.Reason)
			}
			// A decision must allocate no memory, so that a storm of events leaves no work for the garbage collector
			// (issue 8). The conversion of a UUID to lower case allocates memory, but udev reports the UUIDs of XFS and
			// ext4 in lower case.
			if n := testing.AllocsPerRun(10, func() { Decide(f, tt.content, s) }); n != 0 && strings.ToLower(f.Udev.FSUUID) == f.Udev.FSUUID {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestWordsOfPresent checks that the message names the disk that was attached before the installation.
func TestWordsOfPresent(t *testing.T) {
	f, s := blankDisk(), settings()
	for want, p := range map[string]disk.Identity{
		"(serial \\x1b[1mS, at pci-1, 3 GiB, disk sequence number 12)": {Seq: 12, Serial: "\x1b[1mS", Slot: "pci-1", Size: 3 << 30},
		"(no serial, at an unknown slot, 0 B, disk sequence number 1)": {Seq: 1},
	} {
		f.Standing.Present = &p
		if why, _ := Words(f, proven(disk.Unread), s, Decide(f, proven(disk.Unread), s)); !strings.Contains(why, want) {
			t.Errorf("%q", why)
		}
	}
}

// TestWordsOfLoopDevice checks that no message advises to set a serial for a loop device.
func TestWordsOfLoopDevice(t *testing.T) {
	f := blankDisk()
	f.Transport, f.Serial = "loop", ""
	if why, next := Words(f, proven(disk.Unread), settings(), disk.Decision{Action: disk.Refuse, Reason: disk.ReasonNoSerial}); !strings.Contains(why, "a loop device has no serial") || strings.Contains(next, "virsh") {
		t.Errorf("%q, %q", why, next)
	}
}

// TestWordsOfGivenElse checks that the remedy is to release the disk that is given out, and names this disk.
func TestWordsOfGivenElse(t *testing.T) {
	for want, put := range map[string]func(*disk.Facts){
		"to use the disk for something else: hotmount release vdb": func(f *disk.Facts) { f.Standing.Link = "/mnt/block/" + f.LinkName() },
		"to use the disk for something else: hotmount release vdx": func(f *disk.Facts) { f.Whole, f.Standing.Link = "vdx", "/mnt/block/virtio-X" },
		"to use the disk for something else: hotmount release the disk that readlink -f /mnt/block/virtio-X names": func(f *disk.Facts) {
			f.Transport, f.Standing.Link = "dm", "/mnt/block/virtio-X"
		},
	} {
		f := blankDisk()
		put(f)
		if _, next := Words(f, xfs(), settings(), disk.Decision{Action: disk.Ignore, Reason: disk.ReasonGivenElse}); next != want {
			t.Errorf("%q, want %q", next, want)
		}
	}
}

// TestWordsOfAnUnfinishedFormat checks that the message says which disk's format did not finish, and who ordered the
// format, as far as hotmount knows.
func TestWordsOfAnUnfinishedFormat(t *testing.T) {
	foreign := &disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Proven: true}
	for name, tt := range map[string]struct {
		serial string
		intent *disk.Intent
		c      *disk.Content
		want   string
	}{
		"unknown":                                  {"S1", nil, proven(disk.Unknown), "hotmount does not recognise the disk's content"},
		"unknown, blank before":                    {"S1", &disk.Intent{UUID: otherUUID}, proven(disk.Unknown), "hotmount does not recognise the disk's content"},
		"unknown, overwritten":                     {"S1", &disk.Intent{UUID: otherUUID, Over: true}, proven(disk.Unknown), "an operator's format of the disk did not finish; hotmount does not know what the disk holds now"},
		"another's":                                {"S1", &disk.Intent{UUID: otherUUID}, foreign, "the disk was blank; the disk now holds xfs"},
		"another's, known by its slot":             {"", &disk.Intent{UUID: otherUUID}, foreign, "the disk, or a disk that was in its slot, was blank; the disk now holds xfs"},
		"unknown, the slot's was overwritten":      {"", &disk.Intent{UUID: otherUUID, Over: true}, proven(disk.Unknown), "an operator's format of the disk, or a disk of 0 B (no serial, at an unknown slot), did not finish"},
		"a filesystem, the slot's was overwritten": {"", &disk.Intent{UUID: otherUUID, Over: true}, foreign, "an operator's format of the disk, or a disk of 0 B (no serial, at an unknown slot), did not finish; if this is the disk that was being formatted, its filesystem xfs"},
		"a filesystem, overwritten":                {"S1", &disk.Intent{UUID: otherUUID, Over: true}, foreign, "an operator's format of the disk did not finish; the old filesystem xfs"},
		"half-made, the slot's":                    {"", &disk.Intent{UUID: otherUUID}, &disk.Content{Kind: disk.HalfMade, UUID: uuid, Proven: true}, "mkfs.xfs did not finish the filesystem"},
		"disturbed, the slot's":                    {"", &disk.Intent{UUID: otherUUID, Doubt: "x"}, proven(disk.Blank), "this node made xfs " + otherUUID + " on the disk, or a disk that was in its slot; somebody else"},
	} {
		f, s := blankDisk(), settings()
		f.Serial, f.Standing.Intent, f.Standing.IntentBySlot = tt.serial, tt.intent, tt.serial == ""
		f.Standing.IntentDoubt = tt.serial == "" && tt.intent.Over
		if why, _ := Words(f, tt.c, s, Decide(f, tt.c, s)); !strings.HasPrefix(why, tt.want) {
			t.Errorf("%s: %q", name, why)
		}
	}
	// The message must not mention the unfinished format of another disk that was in the same slot.
	f, s := blankDisk(), settings()
	f.Serial, f.Standing.Intent, f.Standing.IntentBySlot, f.Standing.Volume = "", &disk.Intent{UUID: otherUUID}, true, &disk.Sighting{UUID: uuid}
	f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Shared: true}
	if why, _ := Words(f, foreign, s, Decide(f, foreign, s)); !strings.HasPrefix(why, "the disk was blank; the disk now holds xfs") {
		t.Errorf("shared, with another's intent: %q", why)
	}
	f.Standing.Verdict = nil
	unread := &disk.Content{Kind: disk.Unread}
	if why, _ := Words(f, unread, s, Decide(f, unread, s)); why != "an earlier format of the disk, or of another disk in the same slot, did not finish" {
		t.Errorf("to be proven: %q", why)
	}
}

// TestWordsOfARemedy checks that each command in a message does what the message says.
func TestWordsOfARemedy(t *testing.T) {
	fs := &disk.Content{Kind: disk.Filesystem, Type: disk.XFS, UUID: uuid, Proven: true}
	lost := func(f *disk.Facts) { f.Standing.Formatting = "lost" }
	const format = "if nothing on the disk is needed: hotmount format vdb"
	for name, tt := range map[string]struct {
		facts  func(*disk.Facts)
		c      *disk.Content
		config func(*disk.Settings)
		want   string
	}{
		"something else":                    {nil, proven(disk.Other), nil, format},
		"formatting off":                    {nil, proven(disk.Other), func(s *disk.Settings) { s.Format = false }, "then: systemctl reload hotmount; then, if nothing on the disk is needed: hotmount format vdb"},
		"formatting held back":              {func(f *disk.Facts) { f.Standing.Formatting = disk.HeldBack }, proven(disk.Other), nil, "to allow formats again: rm /etc/hotmount/hold; hotmount rescan; then, if nothing on the disk is needed: hotmount format vdb"},
		"records lost, a partition":         {partOf(lost), proven(disk.Blank), parts, "nothing on the disk may be overwritten yet: lost"},
		"records lost":                      {lost, proven(disk.Other), nil, "nothing on the disk may be overwritten yet: lost"},
		"records lost, with what helps":     {func(f *disk.Facts) { f.Standing.Formatting = "lost" + disk.Helps + "hotmount state init" }, proven(disk.Other), nil, "nothing on the disk may be overwritten yet: lost; what helps: hotmount state init"},
		"records lost, class creates none":  {lost, proven(disk.Other), func(s *disk.Settings) { s.Classes[0].Create = "none" }, "nothing on the disk may be overwritten yet: lost"},
		"class creates nothing":             {nil, proven(disk.Other), func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb"},
		"class creates nothing, takes ext4": {nil, proven(disk.Other), func(s *disk.Settings) { s.Classes[0].Create, s.Classes[0].Accept = "none", []string{disk.Ext4} }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.ext4 /dev/vdb"},
		"given out once":                    {func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Other), nil, format},
		"given out once, blank":             {func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Blank), nil, format},
		"given out once, creates nothing":   {func(f *disk.Facts) { f.Standing.Given = &given }, proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb; hotmount accept vdb filesystem-on-former-block-volume"},
		"on a block volume":                 {onBlockVolume, proven(disk.Other), nil, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb; hotmount accept vdb filesystem-on-former-block-volume"},
		"on a block volume, blank":          {onBlockVolume, proven(disk.Blank), func(s *disk.Settings) { s.Classes[0].Accept = []string{disk.Ext4} }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.ext4 /dev/vdb; hotmount accept vdb filesystem-on-former-block-volume"},
		"too small":                         {func(f *disk.Facts) { f.Size = 1 << 20 }, proven(disk.Other), nil, "attach a larger disk"},
		"half made, of another type":        {halfExt4, &disk.Content{Kind: disk.HalfMade, Type: disk.Ext4, UUID: uuid, Proven: true}, nil, format},
		"half made, class creates nothing":  {halfExt4, &disk.Content{Kind: disk.HalfMade, Type: disk.Ext4, UUID: uuid, Proven: true}, func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb"},
		"not overwritten":                   {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true} }, fs, nil, format},
		"not overwritten, given out once": {func(f *disk.Facts) {
			f.Standing.Given, f.Standing.Intent = &given, &disk.Intent{UUID: otherUUID, Over: true}
		}, fs, func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb; hotmount accept vdb filesystem-on-former-block-volume"},
		"not overwritten, creates nothing":    {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true} }, fs, func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb"},
		"somebody wrote":                      {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, fs, nil, format},
		"somebody wrote, and creates nothing": {func(f *disk.Facts) { f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"} }, fs, func(s *disk.Settings) { s.Classes[0].Create = "none" }, "format the disk by hand: wipefs -a /dev/vdb; mkfs.xfs /dev/vdb"},
	} {
		f, s := blankDisk(), settings()
		if tt.facts != nil {
			tt.facts(f)
		}
		if tt.config != nil {
			tt.config(s)
		}
		if _, next := Words(f, tt.c, s, Decide(f, tt.c, s)); !strings.HasSuffix(next, tt.want) {
			t.Errorf("%s: %q", name, next)
		}
	}
}

// TestWordsHideBytes checks that no message quotes bytes of the disk, or contains an unprintable character.
func TestWordsHideBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		put    func(*disk.Facts)
		config func(*disk.Settings)
		c      *disk.Content
		want   string
	}{
		"records lost":      {func(f *disk.Facts) { f.Standing.Formatting = "a\x1bb" }, nil, proven(disk.Blank), "hotmount formats no disk: a\ufffdb"},
		"read as data":      {readAs(disk.Unknown), block, proven(disk.Unknown), "a pod that uses the disk as a block volume would overwrite the data on the disk: unknown content"},
		"read as something": {func(f *disk.Facts) { readAs(disk.Other)(f); f.Standing.Verdict.Content.Type = "LVM2_member" }, block, proven(disk.Unknown), "a pod that uses the disk as a block volume would overwrite the data on the disk: LVM2_member"},
	} {
		f, s := blankDisk(), settings()
		tt.put(f)
		if tt.config != nil {
			tt.config(s)
		}
		if why, _ := Words(f, tt.c, s, Decide(f, tt.c, s)); why != tt.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestWordsOfASerialTwice(t *testing.T) {
	for want, p := range map[string]disk.Peer{
		"; the other disk holds xfs " + otherUUID: {Type: "xfs", UUID: otherUUID},
		"; the other disk holds LVM2_member":      {Type: "LVM2_member", HasContent: true},
		"at pci-2; this disk is vdb ":             {},
	} {
		f, s := blankDisk(), settings()
		p.ID, p.Slot = disk.ID{Name: "vdc", Seq: 11}, "pci-2"
		f.SameSerial = []disk.Peer{p}
		if why, _ := Words(f, proven(disk.Blank), s, Decide(f, proven(disk.Blank), s)); !strings.Contains(why, want) || strings.Contains(why, "the other disk holds") != (p.Type != "") {
			t.Errorf("%+v: %q, want %q", p, why, want)
		}
	}
}

// TestWordsOfACutSerial checks that the message blames virtio for the truncated serial, and says what to change on the
// host.
func TestWordsOfACutSerial(t *testing.T) {
	const cut, host = "virtio passes on only the first 20 characters", "on the host, give each disk a serial that differs in its first 20 characters (virsh"
	for _, tt := range []struct {
		serial, transport string
		cut, path         bool
	}{
		{"kubernetes-dynamic-p", "virtio", true, false},
		{"S1", "virtio", false, false},
		{"kubernetes-dynamic-pvc-1", "scsi", false, true},
	} {
		f, s := blankDisk(), settings()
		f.Serial, f.Transport, f.SameSerial = tt.serial, tt.transport, []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 11}, Serial: tt.serial}}
		why, next := Words(f, proven(disk.Blank), s, Decide(f, proven(disk.Blank), s))
		if strings.Contains(why, cut) != tt.cut || strings.HasPrefix(next, host) != tt.cut || strings.HasPrefix(next, "if this disk is a second path to vdc: leave both to multipathd") != tt.path || !strings.HasSuffix(next, "if these are two different disks: hotmount accept vdb same-serial") {
			t.Errorf("%s on %s: %s; %s", tt.serial, tt.transport, why, next)
		}
		s.Classes[0].Mode = disk.ModeBlock
		if why, next := Words(f, proven(disk.Blank), s, Decide(f, proven(disk.Blank), s)); strings.HasSuffix(next, ", which differs in its first 20 characters") != tt.cut || strings.Contains(why, "virtio") != tt.cut {
			t.Errorf("%s on %s, as a block volume: %s; %s", tt.serial, tt.transport, why, next)
		}
	}
}

// TestWordsOfTwoPaths checks that for a disk without a serial the message names the WWN and the other path. The message
// must not advise to copy data between the two paths, because both paths may lead to one disk.
func TestWordsOfTwoPaths(t *testing.T) {
	f, s := blankDisk(), settings()
	wwn(11, otherUUID)(f)
	why, next := Words(f, proven(disk.Blank), s, Decide(f, proven(disk.Blank), s))
	if !strings.Contains(why, "another disk has the same WWN naa.1: sda (disk sequence number 11); this disk is vdb") || !strings.HasSuffix(why, "; the other disk holds "+otherUUID+"; both may be paths to one disk") ||
		next != "if this disk is a second path to sda: leave both to multipathd, or exclude this disk in the configuration; if these are two different disks: hotmount accept vdb same-wwn" {
		t.Errorf("blank: %s; %s", why, next)
	}
	for inUse, want := range map[string]string{"/srv": "if this disk is a second path to sda: leave this disk to multipathd", "": "or if this disk is not a second path to sda: give this disk a UUID"} {
		f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "sda", Seq: 11}, UUID: uuid, WWN: "naa.1", Mounted: inUse, InUse: inUse}}
		why, next := Words(f, xfs(), s, Decide(f, xfs(), s))
		if !strings.Contains(why, "(WWN naa.1); this disk is vdb") || strings.Contains(why, "both may be paths to one disk") != (inUse != "") || !strings.Contains(next, want) {
			t.Errorf("a twin, in use %q: %s; %s", inUse, why, next)
		}
	}
	f.SameUUID, f.SameWWN = nil, nil
	f.Standing.Twin, f.Standing.OnRecord = true, true
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.HasPrefix(why, "hotmount refused a disk with the same WWN naa.1") {
		t.Errorf("alone: %s", why)
	}
	f.Standing.LastOn = &disk.Sighting{UUID: uuid, Identity: disk.Identity{WWN: "naa.2", Slot: "pci-2"}}
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(why, "(WWN naa.2, at pci-2)") {
		t.Errorf("moved: %s", why)
	}
	f.SameWWN = []disk.Peer{{ID: disk.ID{Name: "dm-0"}, Multipath: true}}
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); why != "the disk is a path of a multipath device: dm-0 has the disk's WWN naa.1" {
		t.Errorf("multipath: %s", why)
	}
}

// TestWordsOfAFailedGrowth checks the message about a filesystem that does not fill its disk. After a failed attempt to
// grow the filesystem, the message mentions the failure until the size of the disk changes.
func TestWordsOfAFailedGrowth(t *testing.T) {
	f, s := blankDisk(), settings()
	failed := unfit(f.Size)
	with(mountedAt("/mnt/disks/"+uuid), grown(1<<30), failed)(f)
	growing(s)
	words := func() string {
		why, next := Words(f, xfs(), s, Decide(f, xfs(), s))
		return why + "; " + next
	}
	if got := words(); !strings.Contains(got, failed.Failure) || !strings.HasSuffix(got, "systemctl start hotmount-grow@12") {
		t.Errorf("failed: %q", got)
	}
	failed.Recorded, failed.Failure = true, "its ext4 has \\x1b on record"
	if got := words(); got != `the disk is mounted, and its filesystem could not be grown to fill the disk: its ext4 has \x1b on record; stop the pods that use the disk, then: hotmount release vdb; e2fsck -f /dev/vdb; hotmount accept vdb released` {
		t.Errorf("errors on record: %q", got)
	}
	failed.Failure = ""
	if got := words(); got != "the disk is mounted; " {
		t.Errorf("not failed: %q", got)
	}
	failed.Failure, f.Size = "x", f.Size+1
	if got := words(); strings.Contains(got, "x") && strings.Contains(got, "could not") {
		t.Errorf("another size: %q", got)
	}
}

// TestWordsOfAFixedFilesystem checks that the message explains why hotmount does not grow another machine's filesystem.
func TestWordsOfAFixedFilesystem(t *testing.T) {
	for _, tt := range []struct {
		size, span uint64
		grow, says bool
	}{{0, 1 << 30, true, true}, {5 << 30, 1 << 30, true, true}, {4 << 30, 1 << 30, true, false}, {0, 5 << 30, true, false}, {0, 1 << 30, false, false}} {
		f, s := blankDisk(), settings()
		foreignOn(tt.size, with(mountedAt("/mnt/disks/"+uuid), grown(tt.span), fit(f.Size, tt.span)))(f)
		s.Classes[0].Grow = tt.grow
		why, next := Words(f, xfs(), s, Decide(f, xfs(), s))
		if strings.Contains(why, "the filesystem has 1 GiB (1073741824 bytes), and the disk has 5 GiB (5368709120 bytes): this node did not make the filesystem") != tt.says || next != "" {
			t.Errorf("%+v: %q, %q", tt, why, next)
		}
	}
}

// TestWordsOfTwins checks the message about two disks with the same UUID. If neither disk is mounted, the operator may
// have to detach one disk and accept the other disk. If neither disk is mounted, the message must therefore name the
// command `hotmount accept`.
func TestWordsOfTwins(t *testing.T) {
	for mounted, accept := range map[string]bool{"": true, "/mnt/disks/" + uuid: false} {
		for kind, own := range map[string]string{"xfs": "xfs_admin -U generate", "ext4": "tune2fs -U random"} {
			f, s, c := blankDisk(), settings(), xfs()
			c.Type = kind
			f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}, Mounted: mounted}}
			_, next := Words(f, c, s, Decide(f, c, s))
			if !strings.Contains(next, "detach one") || !strings.HasSuffix(next, own+" /dev/"+f.Name+" && udevadm trigger /dev/"+f.Name) || strings.HasPrefix(next, "detach one of the two disks; if this disk stays refused: hotmount accept vdb twin; or give this disk") != accept {
				t.Errorf("%s, mounted %q: %s", kind, mounted, next)
			}
		}
	}
}

// TestWordsOfASecondPath checks that no message advises a command that writes to the disk in use or mounts that disk
// again.
func TestWordsOfASecondPath(t *testing.T) {
	for name, tt := range map[string]struct {
		c      *disk.Content
		facts  func(*disk.Facts)
		config func(*disk.Settings)
		// The field `never` contains the reason why no token is ever valid for the disk, or "" if a token can be valid.
		// If the field contains a reason, the test checks only the reason. If the field is empty, the token must be
		// valid, unless the disk may be a second path to a disk in use.
		never disk.Reason
	}{
		"a twin":                {xfs(), nil, nil, ""},
		"unknown":               {proven(disk.Unknown), nil, nil, ""},
		"LVM":                   {&disk.Content{Kind: disk.Other, Type: "LVM2_member", Proven: true}, nil, nil, ""},
		"a partition":           {proven(disk.Unknown), part, parts, disk.ReasonPartition},
		"given out once, blank": {proven(disk.Blank), func(f *disk.Facts) { f.Standing.Given = &given }, nil, disk.ReasonNeverFormat},
	} {
		for _, inUse := range []string{"", "/srv"} {
			f, s, c := blankDisk(), settings(), tt.c
			if tt.facts != nil {
				tt.facts(f)
			}
			if tt.config != nil {
				tt.config(s)
			}
			f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdd", Seq: 14}, Serial: f.Serial, Mounted: inUse, InUse: inUse}}
			if c.Kind == disk.Filesystem {
				f.SameUUID = append([]disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}, Serial: "S2", Mounted: "/x", InUse: "/x"}}, f.SameSerial...)
			}
			d := Decide(f, c, s)
			_, next := Words(f, c, s, d)
			writes := strings.Contains(next, "nouuid") || strings.Contains(next, "blkdiscard") || strings.Contains(next, "hotmount format") || strings.Contains(next, "mkfs.")
			if writes != (inUse == "") || strings.Contains(next, "a second path to vdd: ") != (inUse != "") {
				t.Errorf("%s, in use %q: %s", name, inUse, next)
			}
			if tt.never != "" {
				if d.Reason != tt.never {
					t.Errorf("%s, in use %q: %+v", name, inUse, d)
				}
				continue
			}
			d, ok := Confirmable(f, c, s)
			if why, next := Words(f, c, s, d); ok == (inUse != "") || !ok && (!strings.Contains(why, "the same serial S1 and is in use (/srv): vdd") || !strings.Contains(next, "exclude this disk")) {
				t.Errorf("%s, in use %q: %v, %s; %s", name, inUse, ok, why, next)
			}
		}
	}
}

// TestWordsOfATwinWithoutASerial checks a twin without a serial, which may be a second path to a disk in use. The
// message warns of the second path before it gives the command that writes to the disk. No token may overwrite a disk
// that may be a second path.
func TestWordsOfATwinWithoutASerial(t *testing.T) {
	const warned = "if this disk is not a second path to vdd: give this disk a UUID"
	const left = "if this disk is a second path to vdd: leave this disk to multipathd"
	const filesystem = "has the same filesystem " + uuid + " (no serial tells the two disks apart)"
	vdd := disk.Peer{ID: disk.ID{Name: "vdd", Seq: 14}, UUID: uuid, WWN: "naa.1", Mounted: "/srv", InUse: "/srv"}
	looped := vdd
	looped.Mounted, looped.InUse = "", "loop0"
	for name, tt := range map[string]struct {
		wwn   string
		peers []disk.Peer
		path  bool
		same  string
		told  string
	}{
		"no WWN":              {"", []disk.Peer{vdd}, true, filesystem, warned},
		"its WWN":             {"naa.1", []disk.Peer{vdd}, true, "has the same WWN naa.1", left},
		"another WWN":         {"naa.2", []disk.Peer{vdd}, false, "", "detach one of the two disks, or give this disk a UUID"},
		"below a loop device": {"", []disk.Peer{looped}, true, filesystem, warned},
		"beside one not used": {"", []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}, UUID: uuid, Serial: "S9"}, vdd}, true, filesystem, warned},
	} {
		f, s := blankDisk(), settings()
		f.Serial, f.WWN, f.SameUUID = "", tt.wwn, tt.peers
		if _, next := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(next, tt.told) || strings.Contains(next, "second path") != tt.path || tt.told == left && strings.Contains(next, "UUID") {
			t.Errorf("%s: %s", name, next)
		}
		d, ok := Confirmable(f, xfs(), s)
		if why, next := Words(f, xfs(), s, d); ok == tt.path || !ok && (!strings.Contains(why, tt.same+" and is in use (") || !strings.Contains(why, "): vdd") || !strings.Contains(next, "exclude this disk")) {
			t.Errorf("%s: %v, %s; %s", name, ok, why, next)
		}
	}
}

// TestSameWWN checks that without a serial the WWN identifies a second path, whatever is on the disk. A disk with a
// serial of its own is not a second path.
func TestSameWWN(t *testing.T) {
	for serial, path := range map[string]bool{"": true, "S2": false} {
		f, s := blankDisk(), settings()
		f.Serial, f.WWN = serial, "naa.1"
		o := *f
		o.ID, o.Holders = disk.ID{Name: "vdd", Seq: 14}, []string{"dm-0"}
		if serial != "" {
			o.Serial = "S3"
		}
		self := *f
		f.FindPeers([]*disk.Facts{&self, &o})
		d, ok := Confirmable(f, proven(disk.Other), s)
		if why, next := Words(f, proven(disk.Other), s, d); ok == path || !ok && (!strings.Contains(why, "another disk has the same WWN naa.1 and is in use (dm-0): vdd") || !strings.Contains(next, "exclude this disk")) {
			t.Errorf("serial %q: %v, %s; %s", serial, ok, why, next)
		}
	}
}

// TestWordsOfABlockVolumesSerial checks that the message names the other disk with that serial.
func TestWordsOfABlockVolumesSerial(t *testing.T) {
	f, s := blankDisk(), settings()
	s.Classes = []disk.Class{rawClass}
	f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}, Serial: f.Serial}}
	f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "vdd", Seq: 14}, UUID: uuid, Mounted: "/srv", InUse: "/srv"}}
	if why, _ := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(why, "the same serial S1: vdc") {
		t.Error(why)
	}
}

// TestWordsOfAReplacement checks what the message says about the disk from which the filesystem was last mounted.
func TestWordsOfAReplacement(t *testing.T) {
	for want, standing := range map[string]disk.Standing{
		", whose removal hotmount did not see: a disk of":             {LastOn: &disk.Sighting{UUID: uuid}, Twin: true},
		", which was detached while this one was attached: a disk of": {LastOn: &disk.Sighting{UUID: uuid, Left: true}, Beside: true, Twin: true},
		"when this disk was attached, another disk had the same UUID": {LastOn: &disk.Sighting{UUID: uuid, Left: true}, Twin: true},
		"because another disk had the UUID":                           {OnRecord: true, Twin: true},
	} {
		f, s := blankDisk(), settings()
		f.Standing, f.Serial = standing, "S1"
		if why, next := Words(f, xfs(), s, Decide(f, xfs(), s)); !strings.Contains(why, want) || !strings.Contains(next, "hotmount accept "+f.Name) {
			t.Errorf("%s; %s", why, next)
		}
	}
}

// condition is one fact that prevents the format of a disk that is proven blank.
type condition struct {
	name   string
	reason disk.Reason
	// The field `lift` is a list of accepts. Any one of these accepts permits a format despite the condition. If the list
	// is empty, the condition prevents the format whatever the operator accepts.
	lift []disk.Word
	put  func(*disk.Facts, *disk.Content, *disk.Settings)
}

// conditions contains all facts that can prevent a format. Decide returns Format only if no condition is true.
var conditions = []condition{
	{name: "it carries the system", reason: disk.ReasonSystem, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.System = "/var" }},
	{name: "it is excluded", reason: disk.ReasonExcluded, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) {
		s.Exclude = []disk.Selectors{{Transport: []string{"nvme"}}, {Serial: []string{"S*"}}}
	}},
	{name: "no class selects the disk", reason: disk.ReasonUnselected, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) { s.Classes[0].Names = []string{"nvme*"} }},
	{name: "no class selects the disk, and it is in use", reason: disk.ReasonNoClass, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		f.Swap, s.Classes[0].Names = true, []string{"nvme*"}
	}},
	{name: "it is a partition", reason: disk.ReasonPartition, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) { part(f); parts(s) }},
	{name: "its partitions are wanted", reason: disk.ReasonPartitioned, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		if parts(s); f.Whole == "" {
			f.Partitions = []string{"vdb1"}
		}
	}},
	{name: "its disk is another class's", reason: disk.ReasonWhole, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		part(f)
		before(wholeClass)(s)
	}},
	{name: "it was a volume of another class", reason: disk.ReasonOtherClass, put: func(f *disk.Facts, c *disk.Content, s *disk.Settings) {
		*c = *xfs()
		was("/mnt/whole", "whole")(f)
		beside(wholeClass)(s)
	}},
	{name: "a filesystem from elsewhere", reason: disk.ReasonNotAdopted, put: func(_ *disk.Facts, c *disk.Content, s *disk.Settings) {
		*c = *xfs()
		knownOnly(s)
	}},
	{name: "it is mounted", reason: disk.ReasonElsewhere, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Mounts = []disk.MountPoint{mountedAt("/srv")}
	}},
	{name: "it is mounted in its place", reason: disk.ReasonMounted, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}
	}},
	{name: "it is mounted in another's place", reason: disk.ReasonMisplaced, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Mounts, f.Udev.FSUUID = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, otherUUID
	}},
	{name: "it is mounted in its place, with a fault", reason: disk.ReasonFault, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Mounts, f.Fault = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}, "the kernel has shut the filesystem down"
	}},
	{name: "the disk below it is gone", reason: disk.ReasonLost, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { pulled(f) }},
	{name: "the disk below it is gone while it is mounted", reason: disk.ReasonLost, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Mounts = []disk.MountPoint{mountedAt("/mnt/disks/" + uuid)}
		f.MapperName, f.Serial = "vg--0-disk1", "LVM-x"
		pulled(f)
	}},
	{name: "the disk below a LUKS device is gone", reason: disk.ReasonLost, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.MapperName, f.Serial = "secret", "CRYPT-LUKS2-0123456789abcdef0123456789abcdef-secret"
		pulled(f)
	}},
	{name: "the disks below a multipath device are gone", reason: disk.ReasonLost, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.MapperName, f.Serial = "mpatha", "mpath-360000"
		pulled(f)
	}},
	{name: "it is mounted in its place, under another mount", reason: disk.ReasonCovered, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		m := mountedAt("/mnt/disks/" + uuid)
		m.Covered, m.CoveredBy = true, "/mnt"
		f.Mounts = []disk.MountPoint{m}
	}},
	{name: "it is swap", reason: disk.ReasonSwap, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Swap = true }},
	{name: "it is a multipath leg", reason: disk.ReasonMultipath, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.Multipath = true }},
	{name: "udev says not ready", reason: disk.ReasonNotReady, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.NotReady = true }},
	{name: "something is built on it", reason: disk.ReasonHeld, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Holders = []string{"md0"} }},
	{name: "a loop device lies on it", reason: disk.ReasonHeld, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { looped(f) }},
	{name: "a link in a class directory leads to it", reason: disk.ReasonClaimed, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) { f.Claim = s.Classes[0].Directory + "/vdb" }},
	{name: "it is claimed", reason: disk.ReasonClaimed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Claim = "/etc/crypttab:1" }},
	{name: "it is a volume on record, and claimed", reason: disk.ReasonInUse, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		onRecordAnd(nil)(f)
		f.Claim = "/etc/libvirt/qemu/guest.xml:4"
	}},
	{name: "seed, NoCloud", reason: disk.ReasonSeed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSLabel = "cidata" }},
	{name: "seed, NoCloud in capitals", reason: disk.ReasonSeed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSLabel = "CIDATA" }},
	{name: "seed, ConfigDrive", reason: disk.ReasonSeed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSLabel = "config-2" }},
	{name: "seed, ConfigDrive in capitals", reason: disk.ReasonSeed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSLabel = "CONFIG-2" }},
	{name: "a cloud's ephemeral disk", reason: disk.ReasonSeed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSLabel = "ephemeral0" }},
	{name: "udev has not finished", reason: disk.ReasonUdev, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.Initialized = false }},
	{name: "no size", reason: disk.ReasonSize, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) { f.Size, s.Classes[0].MinimumSize = 0, 0 }},
	{name: "partitions", reason: disk.ReasonPartitions, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Partitions = []string{"vdb1"} }},
	{name: "read-only", reason: disk.ReasonReadOnly, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.ReadOnly = true }},
	{name: "too small", reason: disk.ReasonTooSmall, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) { s.Classes[0].MinimumSize = f.Size + 1 }},
	{name: "the class creates nothing", reason: disk.ReasonNoCreate, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) { s.Classes[0].Create = "none" }},
	{name: "formatting the disk failed for good", reason: disk.ReasonFormatFailed, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Verdict = &disk.Verdict{Seq: f.Seq, Size: f.Size, Writes: f.Writes, Failure: "x"}
	}},
	{name: "the configuration has a fault", reason: disk.ReasonSettings, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) {
		s.Fault = "/etc/hotmount/config.yaml:1: formt: unknown key"
	}},
	{name: "formatting is off in the configuration", reason: disk.ReasonFormatOff, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) { s.Format = false }},
	{name: "formatting is off on this node", reason: disk.ReasonFormatOff, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Formatting = "the state directory is not initialised" + disk.Helps + "hotmount state init"
	}},
	{name: "there before installation", reason: disk.ReasonPresent, lift: word(disk.ReasonPresent, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Present = &disk.Identity{Seq: 7, Serial: "S7", Size: 5 << 30}
	}},
	{name: "formatting is off by the hold file", reason: disk.ReasonFormatOff, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Formatting = disk.HeldBack }},
	{name: "formatting is off on the kernel command line", reason: disk.ReasonFormatOff, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Formatting = disk.OffAtBoot }},
	{name: "the state directory is full", reason: disk.ReasonFormatOff, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Formatting = disk.StateFull }},
	{name: "a record could not be written", reason: disk.ReasonFormatOff, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Formatting = disk.StateGap + " at 2026-11-28 06:00 UTC (open: no space left on device), and a record may be missing; the directory can be written now"
	}},
	{name: "there at a new machine-id", reason: disk.ReasonNewMachine, lift: word(disk.ReasonNewMachine, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { arrived(f) }},
	{name: "its node is bound", reason: disk.ReasonBound, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { node(f) }},
	{name: "somebody else used it", reason: disk.ReasonUsed, lift: word(disk.ReasonUsed, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { used(f) }},
	{name: "a claim that cannot be read", reason: disk.ReasonUnseen, lift: word(disk.ReasonUnseen, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { hidden(f) }},
	{name: "a storage driver may have brought it", reason: disk.ReasonCSI, lift: word(disk.ReasonCSI, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { driven(f) }},
	{name: "the serial of an earlier disk", reason: disk.ReasonSameSerial, lift: word(disk.ReasonSameSerial, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vda", Seq: 1}}}
	}},
	{name: "the serial of a disk with a filesystem", reason: disk.ReasonSameSerial, lift: word(disk.ReasonSameSerial, otherUUID), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 99}}, {ID: disk.ID{Name: "vdd", Seq: 99}, UUID: otherUUID}}
	}},
	{name: "the serial of a mounted disk", reason: disk.ReasonSameSerial, lift: word(disk.ReasonSameSerial, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 99}, Mounted: "/x"}}
	}},
	{name: "the serial of a later disk that holds something", reason: disk.ReasonSameSerial, lift: word(disk.ReasonSameSerial, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 99}, HasContent: true}}
	}},
	{name: "the serial of a later disk in use", reason: disk.ReasonSameSerial, lift: word(disk.ReasonSameSerial, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 99}, InUse: "dm-0"}}
	}},
	{name: "the WWN of an earlier disk", reason: disk.ReasonSameWWN, lift: word(disk.ReasonSameWWN, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.WWN, f.SameWWN = "naa.1", append(f.SameWWN, disk.Peer{ID: disk.ID{Name: "sda", Seq: 1}})
	}},
	{name: "the WWN of a disk with a filesystem", reason: disk.ReasonSameWWN, lift: word(disk.ReasonSameWWN, otherUUID), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.WWN, f.SameWWN = "naa.1", append(f.SameWWN, disk.Peer{ID: disk.ID{Name: "sda", Seq: 99}, UUID: otherUUID, Type: "xfs"})
	}},
	{name: "the WWN of a multipath device", reason: disk.ReasonMultipath, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.WWN, f.SameWWN = "naa.1", append(f.SameWWN, disk.Peer{ID: disk.ID{Name: "dm-0", Seq: 99}, Multipath: true})
	}},
	{name: "a filesystem vanished", reason: disk.ReasonBefore, lift: gone, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Before = &lay }},
	{name: "a former disk's serial", reason: disk.ReasonFormerSerial, lift: gone, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.FormerSerial = &lay }},
	{name: "a former disk's slot", reason: disk.ReasonFormerSlot, lift: gone, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.FormerSlot = &lay }},
	{name: "too many formats", reason: disk.ReasonBrake, lift: word(disk.ReasonBrake, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Formats = ages(1, 2, 3) }},
	{name: "held by the brake before", reason: disk.ReasonBrake, lift: word(disk.ReasonBrake, ""), put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Braked = true }},
	{name: "it was given out as a block volume", reason: disk.ReasonNeverFormat, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Given = &given }},
	{name: "it is given out as a block volume", reason: disk.ReasonGivenElse, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Standing.Link = "/mnt/block/virtio-S1" }},
	{name: "a filesystem on a former block volume", reason: disk.ReasonFormerBlock, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		f.Standing.Given = &given
	}},
	{name: "a class in block mode", reason: disk.ReasonBlock, put: func(_ *disk.Facts, _ *disk.Content, s *disk.Settings) { block(s) }},
	{name: "a class in block mode, given out", reason: disk.ReasonGivenOut, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.Standing.Link = "/mnt/disks/virtio-S1"
	}},
	{name: "a class in block mode, and another disk had its name", reason: disk.ReasonOtherBlock, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.Standing.Given = &disk.Given{Serial: "S1", Size: f.Size + 1, Link: "/mnt/disks/virtio-S1"}
	}},
	{name: "a class in block mode, no serial", reason: disk.ReasonNoSerial, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.Serial = ""
	}},
	{name: "a class in block mode, a serial seen twice", reason: disk.ReasonSerialTwice, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.SameSerial = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}}}
	}},
	{name: "a class in block mode, a filesystem", reason: disk.ReasonContent, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.Udev.FSType = "xfs"
	}},
	{name: "a class in block mode, data that another class has read", reason: disk.ReasonContent, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		block(s)
		f.Standing.Noted = &disk.Sighting{Type: "unknown content", Mounted: lay.Mounted}
	}},
	{name: "writes are not counted", reason: disk.ReasonUncounted, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Uncounted = true }},
	{name: "udev knows a type", reason: disk.ReasonDisagree, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSType = "xfs" }},
	{name: "udev knows a usage", reason: disk.ReasonDisagree, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.FSUsage = "raid" }},
	{name: "udev knows two things", reason: disk.ReasonDisagree, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.Ambivalent = "x" }},
	{name: "udev knows a partition table", reason: disk.ReasonDisagree, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) { f.Udev.PartTable = "gpt" }},
	{name: "another machine's filesystem", reason: disk.ReasonShared, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		c.Proven = true
		f.Standing.Intent = &disk.Intent{UUID: otherUUID}
	}},
	{name: "a filesystem larger than the disk", reason: disk.ReasonShrunk, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) { *c = *xfs(); c.Span = f.Size + 1<<30 }},
	{name: "it is mounted and has room", reason: disk.ReasonSmaller, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		with(mountedAt("/mnt/disks/"+uuid), grown(1<<30), nil)(f)
		growing(s)
	}},
	{name: "it is mounted and could not be grown", reason: disk.ReasonNotGrown, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		with(mountedAt("/mnt/disks/"+uuid), grown(1<<30), unfit(f.Size))(f)
		growing(s)
	}},
	{name: "it is mounted and not measured", reason: disk.ReasonUnmeasured, put: func(f *disk.Facts, _ *disk.Content, s *disk.Settings) {
		with(mountedAt("/mnt/disks/"+uuid), nil, nil)(f)
		growing(s)
	}},
	{name: "released", reason: disk.ReasonReleased, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Unmounted = disk.ReasonReleased
	}},
	{name: "unmounted by hand", reason: disk.ReasonUnmounted, put: func(f *disk.Facts, _ *disk.Content, _ *disk.Settings) {
		f.Standing.Unmounted = disk.ReasonUnmounted
	}},
	{name: "what the operator wanted gone", reason: disk.ReasonOverwrite, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		c.Proven = true
		f.Standing.Intent = &disk.Intent{UUID: otherUUID, Over: true}
	}},
	{name: "a format that a power cut has torn", reason: disk.ReasonTorn, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		c.Proven, c.Torn = true, true
		f.Standing.Intent = &disk.Intent{UUID: uuid}
	}},
	{name: "a format during which somebody else wrote", reason: disk.ReasonDisturbed, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		c.Proven = true
		f.Standing.Intent = &disk.Intent{UUID: uuid, Doubt: "x"}
	}},
	{name: "not proven", reason: disk.ReasonUnread, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Proven = false }},
	{name: "not read", reason: disk.ReasonUnread, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind = disk.Unread }},
	{name: "something else on it", reason: disk.ReasonOther, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind = disk.Other }},
	{name: "a disk image", reason: disk.ReasonOther, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind, c.Type = disk.Other, "qcow2" }},
	{name: "a disk image that makes a disk too small", reason: disk.ReasonOther, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		c.Kind, c.Type, f.Size = disk.Other, "vhd", 192<<10
	}},
	{name: "a packed file", reason: disk.ReasonOther, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind, c.Type = disk.Other, "gzip" }},
	{name: "signatures of two formats", reason: disk.ReasonOther, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) {
		c.Kind, c.Type = disk.Other, disk.Ambivalent
	}},
	{name: "an encrypted file", reason: disk.ReasonOther, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind, c.Type = disk.Other, "age" }},
	{name: "unknown", reason: disk.ReasonUnknown, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind = disk.Unknown }},
	{name: "no kind", reason: disk.ReasonUnknown, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { c.Kind = "" }},
	{name: "half-made", reason: disk.ReasonHalfMade, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) {
		c.Kind, c.UUID, c.Type = disk.HalfMade, uuid, ""
	}},
	{name: "half-made, of an intent that may be another disk's", reason: disk.ReasonHalfMade, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		c.Kind, c.UUID, c.Type = disk.HalfMade, uuid, ""
		f.Standing.Intent, f.Standing.IntentDoubt = &disk.Intent{UUID: uuid, Over: true}, true
	}},
	{name: "a filesystem", reason: disk.ReasonFilesystem, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { *c = *xfs() }},
	{name: "a filesystem not accepted", reason: disk.ReasonType, put: func(_ *disk.Facts, c *disk.Content, _ *disk.Settings) { *c = *xfs(); c.Type = "btrfs" }},
	{name: "a twin", reason: disk.ReasonTwin, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = *xfs()
		f.SameUUID = []disk.Peer{{ID: disk.ID{Name: "vdc", Seq: 13}}}
	}},
	{name: "an intent and no proof", reason: disk.ReasonIntent, put: func(f *disk.Facts, c *disk.Content, _ *disk.Settings) {
		*c = disk.Content{Kind: disk.Other}
		f.Standing.Intent = &disk.Intent{UUID: uuid}
	}},
}

// TestEachConditionAloneBlocksFormat checks that each condition alone blocks the format, with a reason of its own. Only
// a disk that is proven blank is formatted.
func TestEachConditionAloneBlocksFormat(t *testing.T) {
	f, c, s := blankDisk(), proven(disk.Blank), settings()
	if d := Decide(f, c, s); d.Action != disk.Format || d.Reason != disk.ReasonBlank {
		t.Fatalf("without any: got %s (%s), want format", d.Action, d.Reason)
	}
	for _, cond := range conditions {
		f, c, s := blankDisk(), proven(disk.Blank), settings()
		cond.put(f, c, s)
		if d := Decide(f, c, s); d.Action == disk.Format || d.Reason != cond.reason {
			t.Errorf("%s: got %s (%s), want %s", cond.name, d.Action, d.Reason, cond.reason)
		}
		f.Standing.Accepted = but(cond.lift...)
		if d := Decide(f, c, s); d.Action == disk.Format {
			t.Errorf("%s, accepted for all else: got %s (%s)", cond.name, d.Action, d.Reason)
		}
		for _, w := range cond.lift {
			f.Standing.Accepted = []disk.Word{w}
			if d := Decide(f, c, s); d.Action != disk.Format {
				t.Errorf("%s, accepted as %v: got %s (%s)", cond.name, w, d.Action, d.Reason)
			}
		}
	}
}

// TestAnAcceptLiftsWhatWasTold checks a disk with two holds. hotmount reports only the first hold. After the operator
// has accepted the first hold, hotmount reports the second hold. A second accept lifts the second hold.
func TestAnAcceptLiftsWhatWasTold(t *testing.T) {
	for _, one := range conditions {
		for _, other := range conditions {
			if one.lift == nil || other.lift == nil || one.reason == other.reason {
				continue
			}
			f, c, s := blankDisk(), proven(disk.Blank), settings()
			one.put(f, c, s)
			other.put(f, c, s)
			// Each missing filesystem gets its own UUID. If two holds named the same UUID, one accept could lift both
			// holds.
			for i, l := range []**disk.Sighting{&f.Standing.Before, &f.Standing.FormerSerial, &f.Standing.FormerSlot} {
				if *l != nil {
					*l = &disk.Sighting{UUID: fmt.Sprintf("0000000%d-0000-4000-8000-000000000000", i), Type: "xfs"}
				}
			}
			var told []disk.Reason
			for range 3 {
				d := Decide(f, c, s)
				if d.Action == disk.Format {
					break
				}
				told = append(told, d.Reason)
				f.Standing.Accepted = append(f.Standing.Accepted, Word(f, d))
			}
			if len(told) != 2 || !slices.Contains(told, one.reason) || !slices.Contains(told, other.reason) {
				t.Errorf("%s, and %s: reported %v", one.name, other.name, told)
			}
		}
	}
}

// TestEachReasonHasItsCondition checks that the table conditions has a condition for each reason in
// internal/disk/reason.go. The exception is ReasonBlank, which prevents no format.
func TestEachReasonHasItsCondition(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../disk/reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	reached := map[string]bool{string(disk.ReasonBlank): true}
	for _, c := range conditions {
		reached[string(c.reason)] = true
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			found++
			if reason, err := strconv.Unquote(l.Value); err != nil || !reached[reason] {
				t.Errorf("no condition has the reason %s", l.Value)
			}
		}
		return true
	})
	if found != len(reached) {
		t.Errorf("%d reasons are there, %d are reached", found, len(reached))
	}
}

// TestAnyConditionBlocksFormat checks combinations of conditions and accepts. Each condition must prevent the format,
// unless the field `lift` of the condition contains one of the accepts. The test contains the other exceptions.
func TestAnyConditionBlocksFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, c, s := blankDisk(), proven(disk.Blank), settings()
		chosen := rapid.SliceOfNDistinct(rapid.IntRange(0, len(conditions)-1), 0, 6, rapid.ID[int]).Draw(t, "conditions")
		var names []string
		for _, i := range chosen {
			conditions[i].put(f, c, s)
			names = append(names, conditions[i].name)
		}
		accepted := rapid.SliceOfN(rapid.SampledFrom(everyWord), 0, 4).Draw(t, "accepted")
		if rapid.Bool().Draw(t, "fitting") {
			for _, i := range chosen {
				if lift := conditions[i].lift; lift != nil && rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
					accepted = append(accepted, rapid.SampledFrom(lift).Draw(t, "word"))
				}
			}
		}
		f.Standing.Accepted = accepted
		s.FormatPresent = rapid.Bool().Draw(t, "format_present")
		ours := rapid.Bool().Draw(t, "intent")
		if ours {
			f.Standing.Intent = &disk.Intent{UUID: uuid}
		}
		want := true
		halfMade := c.Kind == disk.HalfMade && f.Standing.Intent != nil && c.UUID == f.Standing.Intent.UUID && !f.Standing.IntentDoubt
		for n, i := range chosen {
			cond := &conditions[i]
			lifted := slices.ContainsFunc(accepted, func(w disk.Word) bool { return slices.Contains(cond.lift, w) }) || s.FormatPresent && (cond.reason == disk.ReasonPresent || cond.reason == disk.ReasonNewMachine)
			switch cond.reason {
			case disk.ReasonHalfMade, disk.ReasonUnread, disk.ReasonOther, disk.ReasonUnknown, disk.ReasonFilesystem, disk.ReasonType, disk.ReasonTwin, disk.ReasonIntent, disk.ReasonShared, disk.ReasonOverwrite, disk.ReasonTorn, disk.ReasonDisturbed, disk.ReasonShrunk, disk.ReasonFormerBlock, disk.ReasonOtherClass, disk.ReasonNotAdopted:
				continue // several conditions set the content, and the last of these conditions determines it
			case disk.ReasonBefore, disk.ReasonFormerSerial, disk.ReasonFormerSlot:
				if halfMade {
					continue // the operator gave up the missing content when the format began
				}
			case disk.ReasonCSI:
				if f.Standing.Intent != nil {
					continue // this node began the format, so the disk belongs to this node
				}
			case disk.ReasonSeed:
				if v := f.Standing.Volume; v != nil && v.UUID == c.UUID {
					continue // a filesystem on record is a volume of this node, whatever its label
				}
			case disk.ReasonSameSerial:
				if slices.ContainsFunc(chosen[n+1:], func(i int) bool { return conditions[i].reason == cond.reason }) {
					continue // several conditions set f.SameSerial, and the last of these conditions determines it
				}
			}
			want = want && lifted
		}
		want = want && f.Size >= s.Classes[0].MinimumSize // a condition about the content may also have set the size
		disturbed := f.Standing.Intent != nil && f.Standing.Intent.Doubt != "" && !slices.Contains(accepted, disk.Word{Reason: disk.ReasonDisturbed, UUID: uuid})
		want = want && !disturbed && c.Proven && (c.Kind == disk.Blank || halfMade) && f.Standing.Given == nil
		d := Decide(f, c, s)
		if (d.Action == disk.Format) != want {
			t.Fatalf("%s; accepted %v, intent %v, content %+v: got %s (%s)", strings.Join(names, ", "), accepted, ours, c, d.Action, d.Reason)
		}
		if why, _ := Words(f, c, s, d); why == "" {
			t.Fatalf("%s has no words", d.Reason)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	f, c, s := blankDisk(), xfs(), settings()
	b.ReportAllocs()
	for b.Loop() {
		Decide(f, c, s)
	}
}
