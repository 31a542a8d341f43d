package uevent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/pilebones/go-udev/netlink"
)

// The header of a frame that udev sends to its listeners, struct
// monitor_netlink_header in systemd's src/libsystemd/sd-device/device-monitor.c.
// Magic and hashes are in network byte order, the lengths in the machine's.
const (
	prefix = "libudev\x00"

	magicOffset     = 8
	headerSizeAt    = 12
	propertiesAt    = 16
	propertiesLenAt = 20
	subsystemHashAt = 24
	devtypeHashAt   = 28
	headerSize      = 40

	udevMagic = 0xfeedcafe
	// MurmurHash2 with seed 0 of "block", "disk" and "partition" (string_hash32 in
	// systemd's device-monitor.c).
	blockHash = 0xf0031db7
	diskHash  = 0x7bcbc5ee
	partHash  = 0xcb234489
)

// maxName is the longest name of a disk, DISK_NAME_LEN in the kernel's
// include/linux/blkdev.h, with the NUL that ends it.
const maxName = 32

// wanted are the properties that a hint is made of. Only they are shown to the
// parser: it fails on a value with an equals sign, which any serial may hold,
// and takes most of its time for properties that nobody asks for.
var wanted = [...]string{"ACTION=", "DEVPATH=", "SUBSYSTEM=", "DEVTYPE=", "DISKSEQ="}

// errForeign says that the frame is well formed and not about a disk.
var errForeign = errors.New("not about a disk")

// parser turns frames into hints. Its buffer is used again for each frame.
type parser struct{ reduced []byte }

// parse reads one frame of udev. It never panics: what go-udev's parser takes
// for granted of a frame is checked first.
func (p *parser) parse(frame []byte) (Hint, error) {
	properties, err := properties(frame)
	if err != nil {
		return Hint{}, err
	}
	p.reduced = append(p.reduced[:0], frame[:headerSize]...)
	binary.NativeEndian.PutUint32(p.reduced[propertiesAt:], headerSize)
	for len(properties) > 0 {
		end := bytes.IndexByte(properties, 0) + 1
		for _, key := range wanted {
			if len(key) <= end && string(properties[:len(key)]) == key {
				p.reduced = append(p.reduced, properties[:end]...)
			}
		}
		properties = properties[end:]
	}
	if len(p.reduced) == headerSize {
		// go-udev takes a frame of no more than a header for one of the kernel's.
		return Hint{}, errors.New("no property of a device in it")
	}
	event, err := netlink.ParseUEvent(p.reduced)
	if err != nil {
		// The parser's words may hold the frame's bytes.
		return Hint{}, fmt.Errorf("%.128q", err.Error())
	}
	return hint(event)
}

// properties gives the properties of a frame, each one ended by a NUL.
func properties(frame []byte) ([]byte, error) {
	if len(frame) < headerSize {
		return nil, fmt.Errorf("%d bytes are too short for a header", len(frame))
	}
	if string(frame[:len(prefix)]) != prefix {
		return nil, errors.New("not a frame of udev")
	}
	if magic := binary.BigEndian.Uint32(frame[magicOffset:]); magic != udevMagic {
		return nil, fmt.Errorf("magic number is %#x", magic)
	}
	size := uint64(binary.NativeEndian.Uint32(frame[headerSizeAt:]))
	offset := uint64(binary.NativeEndian.Uint32(frame[propertiesAt:]))
	length := uint64(binary.NativeEndian.Uint32(frame[propertiesLenAt:]))
	if size < headerSize || offset < size || length == 0 || offset+length > uint64(len(frame)) {
		return nil, fmt.Errorf("header of %d bytes and properties of %d bytes at %d do not fit %d bytes", size, length, offset, len(frame))
	}
	properties := frame[offset : offset+length]
	if properties[length-1] != 0 {
		return nil, errors.New("last property has no end")
	}
	return properties, nil
}

func hint(event *netlink.UEvent) (Hint, error) {
	partition := event.Env["DEVTYPE"] == "partition"
	if event.Env["SUBSYSTEM"] != "block" || event.Env["DEVTYPE"] != "disk" && !partition {
		return Hint{}, errForeign
	}
	h := Hint{Action: event.Action.String(), Name: path.Base(event.KObj), Partition: partition}
	if partition {
		h.Whole = path.Base(path.Dir(event.KObj))
	}
	if !plausibleName(h.Name) || partition && !plausibleName(h.Whole) {
		return Hint{}, errors.New("no plausible device name")
	}
	// That of a partition's event is its disk's.
	if seq, found := event.Env["DISKSEQ"]; found && !partition {
		var err error
		if h.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return Hint{}, errors.New("disk sequence number is not a number")
		}
	}
	return h, nil
}

// plausibleName says whether s can be the name of an entry in /sys/block. The
// kernel writes the slash of a name such as "cciss/c0d0" as "!" there.
func plausibleName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) >= maxName {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '/' {
			return false
		}
	}
	return true
}
