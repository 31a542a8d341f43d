package uevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/pilebones/go-udev/netlink"
)

// The constants describe the header of a frame that udev sends to its listeners: struct monitor_netlink_header in
// systemd's src/libsystemd/sd-device/device-monitor.c. The magic number and the hashes are in network byte order, and
// the lengths are in the machine's byte order.
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
	// The hashes are the MurmurHash2 values, with seed 0, of "block", "disk" and "partition" (string_hash32 in
	// systemd's device-monitor.c).
	blockHash = 0xf0031db7
	diskHash  = 0x7bcbc5ee
	partHash  = 0xcb234489
)

// maxName is the length of the longest name of a disk, including its final NUL: DISK_NAME_LEN in the kernel's
// include/linux/blkdev.h.
const maxName = 32

// errForeign is the error for a well-formed frame that is not about a disk or partition.
var errForeign = errors.New("not about a disk")

// parse returns the hint of one frame from udev. The function `parse` first checks everything on which go-udev's parser
// relies, so that the parser cannot panic. go-udev's parser rejects a frame with an equals sign in the value of a
// property. Such a frame causes a rescan (Counters.Unreadable).
func parse(frame []byte) (Hint, error) {
	end, err := checkHeader(frame)
	if err != nil {
		return Hint{}, err
	}
	event, err := netlink.ParseUEvent(frame[:end])
	if err != nil {
		// The error of go-udev's parser may quote bytes of the frame.
		return Hint{}, fmt.Errorf("%.128q", err.Error())
	}
	return hint(event)
}

// checkHeader checks the header of a frame, and returns the offset in the frame at which its properties end. The last
// NUL is part of the properties.
func checkHeader(frame []byte) (int, error) {
	// go-udev would treat a frame that has only a header as a frame from the kernel.
	if len(frame) <= headerSize {
		return 0, fmt.Errorf("%d bytes are too short for a header and properties", len(frame))
	}
	if string(frame[:len(prefix)]) != prefix {
		return 0, errors.New("not a message from udev")
	}
	if magic := binary.BigEndian.Uint32(frame[magicOffset:]); magic != udevMagic {
		return 0, fmt.Errorf("magic number is %#x", magic)
	}
	size := uint64(binary.NativeEndian.Uint32(frame[headerSizeAt:]))
	offset := uint64(binary.NativeEndian.Uint32(frame[propertiesAt:]))
	length := uint64(binary.NativeEndian.Uint32(frame[propertiesLenAt:]))
	end := offset + length
	if size < headerSize || offset < size || length == 0 || end > uint64(len(frame)) {
		return 0, fmt.Errorf("a header of %d bytes, and properties of %d bytes at offset %d, do not fit into a message of %d bytes", size, length, offset, len(frame))
	}
	if frame[end-1] != 0 {
		return 0, errors.New("the last property does not end with NUL")
	}
	return int(end), nil
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
	// A partition's event contains the disk sequence number of the whole disk.
	if seq, found := event.Env["DISKSEQ"]; found && !partition {
		var err error
		if h.Seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return Hint{}, errors.New("disk sequence number is not a number")
		}
	}
	return h, nil
}

// plausibleName reports whether s can be the name of an entry in /sys/block. In /sys/block, the kernel replaces the
// slash of a name such as "cciss/c0d0" by "!".
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
