package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bus is the kind of bus by which a disk is attached to the guest.
type Bus string

// The constants are the kinds of buses. All SCSI disks of a worker share one virtio-scsi controller.
const (
	BusVirtio Bus = "virtio-blk"
	BusSCSI   Bus = "virtio-scsi"
	BusNVMe   Bus = "nvme"
)

// Disk is a disk to be attached.
type Disk struct {
	// ID is the name of the disk in this package. In QEMU, ID is also the name of the disk's device. ID consists of
	// lower-case letters, digits and "-"; the default is disk0, disk1, …
	ID string
	// File is the path of the image. The image must exist; NewDisk makes an image.
	File string
	// Format is raw (the default) or qcow2.
	Format string
	// Serial is the serial number that the guest sees. A serial number has at most 20 bytes for virtio-blk and nvme,
	// and at most 36 bytes for scsi. The serial number can be any UTF-8 text without NUL.
	Serial string
	// Bus is BusVirtio by default.
	Bus              Bus
	ReadOnly         bool
	LogicalBlockSize int // in bytes, 512 by default
	// Shared lets other workers attach the same file at the same time.
	Shared bool
	// Direct makes QEMU bypass the host's page cache.
	Direct bool
	// Blkdebug contains options of QEMU's blkdebug driver, such as "inject-error". If Blkdebug is not nil, the blkdebug
	// driver lies between the disk and its file.
	Blkdebug map[string]any
	// Device contains further properties of the disk's device in QEMU.
	Device map[string]any
}

// Attached is a disk that is attached to a worker.
type Attached struct {
	Disk
	slot int // the number of the hot-plug port, or of the SCSI target
}

// fileNode returns QEMU's description of a block node for a file. QEMU does not lock a file that several workers share.
// QEMU does not flush writes to the host's disk (no-flush), because the host's page cache remains after the end of
// QEMU.
func fileNode(path, name string, readOnly, shared, direct bool) map[string]any {
	return map[string]any{
		"driver": "file", "node-name": name, "filename": path, "read-only": readOnly, "locking": onOff(!shared),
		"discard": "unmap", "cache": map[string]any{"direct": direct, "no-flush": true},
	}
}

// node returns the name of the QEMU block node that the disk's device uses.
func (a *Attached) node() string { return a.ID + "-disk" }

// The method `nodes` returns QEMU's description of the disk's block nodes, and begins with the lowest node.
func (a *Attached) nodes() []map[string]any {
	below := a.ID + "-file"
	all := []map[string]any{fileNode(a.File, below, a.ReadOnly, a.Shared, a.Direct)}
	if a.Blkdebug != nil {
		debug := maps.Clone(a.Blkdebug)
		debug["driver"], debug["node-name"], debug["image"] = "blkdebug", a.ID+"-debug", below
		debug["discard"], debug["read-only"] = "unmap", a.ReadOnly
		below = a.ID + "-debug"
		all = append(all, debug)
	}
	return append(all, map[string]any{
		"driver": a.Format, "node-name": a.node(), "file": below, "discard": "unmap", "read-only": a.ReadOnly,
		"cache": map[string]any{"direct": a.Direct, "no-flush": true},
	})
}

func (a *Attached) device() map[string]any {
	d := map[string]any{"id": a.ID, "drive": a.node()}
	if a.Serial != "" {
		d["serial"] = a.Serial
	}
	if a.LogicalBlockSize != 0 {
		d["logical_block_size"], d["physical_block_size"] = a.LogicalBlockSize, a.LogicalBlockSize
	}
	switch a.Bus {
	case BusSCSI:
		d["driver"], d["bus"], d["scsi-id"], d["lun"] = "scsi-hd", scsiName+".0", a.slot, 0
		d["werror"], d["rerror"] = "report", "report"
	case BusNVMe:
		d["driver"], d["bus"] = "nvme", portName(a.slot)
		if a.Serial == "" {
			d["serial"] = a.ID // nvme needs a serial number
		}
	default:
		d["driver"], d["bus"] = "virtio-blk-pci", portName(a.slot)
		d["werror"], d["rerror"] = "report", "report"
	}
	if a.Shared {
		d["share-rw"] = true
	}
	maps.Copy(d, a.Device)
	return d
}

// The method `sysfs` returns a shell pattern for the disk's directory in the guest's sysfs.
func (a *Attached) sysfs() string {
	slot, function := portAddress(a.slot)
	port := fmt.Sprintf("/sys/devices/pci0000:00/0000:00:%02x.%x/0000:*", slot, function)
	switch a.Bus {
	case BusSCSI:
		return fmt.Sprintf("/sys/devices/pci0000:00/0000:00:06.0/virtio*/host*/target*/*:0:%d:0/block/*", a.slot)
	case BusNVMe:
		return port + "/nvme/nvme*/nvme*n*"
	}
	return port + "/virtio*/block/*"
}

var goodID = regexp.MustCompile(`^[a-z][a-z0-9-]{0,24}$`)

// Attach attaches a disk. The guest's kernel detects the disk a little after Attach returns: see BlockDevice. If the
// worker is off, its kernel detects the disk in the next boot.
func (w *Worker) Attach(ctx context.Context, d Disk) (Attached, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.place(d)
	if err != nil {
		return Attached{}, fmt.Errorf("cannot attach %s: %w", d.File, err)
	}
	if w.machine != nil {
		if err := w.plug(ctx, a); err != nil {
			return Attached{}, fmt.Errorf("cannot attach %s: %w", d.File, err)
		}
	}
	w.disks = append(w.disks, a)
	return *a, nil
}

// The method `place` sets the defaults of the disk and finds a free hot-plug port or SCSI target.
func (w *Worker) place(d Disk) (*Attached, error) {
	if d.Format == "" {
		d.Format = "raw"
	}
	if d.Bus == "" {
		d.Bus = BusVirtio
	}
	taken := func(yes func(*Attached) bool) bool { return slices.ContainsFunc(w.disks, yes) }
	for i := 0; d.ID == ""; i++ {
		id := fmt.Sprintf("disk%d", i)
		if !taken(func(a *Attached) bool { return a.ID == id }) {
			d.ID = id
		}
	}
	switch {
	case !goodID.MatchString(d.ID) || strings.HasPrefix(d.ID, ownPrefix):
		return nil, fmt.Errorf("%q cannot be a disk's ID", d.ID)
	case taken(func(a *Attached) bool { return a.ID == d.ID }):
		return nil, fmt.Errorf("there is a disk %s already", d.ID)
	case !utf8.ValidString(d.Serial) || strings.Contains(d.Serial, "\x00"):
		return nil, fmt.Errorf("QEMU takes no serial %q", d.Serial)
	}
	file, err := filepath.Abs(d.File)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	d.File = file
	scsi := d.Bus == BusSCSI
	first, end := 0, hotplugPorts
	if scsi {
		first, end = 1, 200 // SCSI target 0 may be the system disk
	}
	for slot := first; slot < end; slot++ {
		if !taken(func(a *Attached) bool { return a.slot == slot && (a.Bus == BusSCSI) == scsi }) {
			return &Attached{Disk: d, slot: slot}, nil
		}
	}
	return nil, errors.New("no free slot is left")
}

func (w *Worker) plug(ctx context.Context, a *Attached) error {
	var added []string
	undo := func() {
		for _, node := range slices.Backward(added) {
			_, _ = w.machine.execute(ctx, "blockdev-del", map[string]any{"node-name": node}) // best effort
		}
	}
	for _, node := range a.nodes() {
		if _, err := w.machine.execute(ctx, "blockdev-add", node); err != nil {
			undo()
			return err
		}
		added = append(added, node["node-name"].(string))
	}
	if _, err := w.machine.execute(ctx, "device_add", a.device()); err != nil {
		undo()
		return err
	}
	return nil
}

// find returns the attached disk with the given ID. The caller holds w.mu.
func (w *Worker) find(id string) (*Attached, error) {
	i := slices.IndexFunc(w.disks, func(a *Attached) bool { return a.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("the worker has no disk %q", id)
	}
	return w.disks[i], nil
}

// Attached returns the disks that are attached to the worker now, without the system disk.
func (w *Worker) Attached() []Attached {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Attached
	for _, a := range w.disks {
		all = append(all, *a)
	}
	return all
}

// Detach unplugs a disk and waits until the guest has released it.
func (w *Worker) Detach(ctx context.Context, id string) error {
	if err := w.DetachSurprise(ctx, id); err != nil {
		return err
	}
	return w.WaitDetached(ctx, id)
}

// DetachSurprise unplugs a disk without waiting for the guest. DetachSurprise removes a SCSI disk at once. A virtio-blk
// or nvme disk is gone only after the guest's kernel has answered, but the kernel cannot refuse the removal. The caller
// of DetachSurprise must call WaitDetached afterwards.
func (w *Worker) DetachSurprise(ctx context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.find(id)
	if err != nil || w.machine == nil || w.gone[id] != nil {
		return err
	}
	w.gone[a.ID] = w.machine.expect(func(e Event) bool {
		var data struct{ Device string }
		return e.Name == "DEVICE_DELETED" && json.Unmarshal(e.Data, &data) == nil && data.Device == id
	})
	if _, err := w.machine.execute(ctx, "device_del", map[string]any{"id": id}); err != nil {
		w.machine.forget(w.gone[a.ID])
		delete(w.gone, a.ID)
		return fmt.Errorf("cannot detach %s: %w", id, err)
	}
	return nil
}

// The constant `patience` is the maximum time that a guest may need to release a disk.
const patience = 3 * time.Minute

// WaitDetached waits until an unplugged disk is gone.
func (w *Worker) WaitDetached(ctx context.Context, id string) error {
	w.mu.Lock()
	a, err := w.find(id)
	m, gone := w.machine, w.gone[id]
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if m != nil {
		if gone == nil {
			return fmt.Errorf("cannot wait for disk %s to go: nobody has pulled it", id)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, err := m.await(ctx, gone); err != nil {
			return fmt.Errorf("cannot detach %s: the guest does not let go: %w", id, err)
		}
		for _, node := range slices.Backward(a.nodes()) {
			if err := m.deleteNode(ctx, node["node-name"].(string)); err != nil {
				return fmt.Errorf("cannot detach %s: %w", id, err)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.gone, id)
	w.disks = slices.DeleteFunc(w.disks, func(x *Attached) bool { return x == a })
	return nil
}

// deleteNode deletes a QEMU block node. deleteNode tries for 10 s, because a device that is about to disappear may
// still use the block node.
func (m *machine) deleteNode(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := m.execute(ctx, "blockdev-del", map[string]any{"node-name": name})
		var refused *QMPError
		if !errors.As(err, &refused) || !strings.Contains(refused.Desc, "in use") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Resize changes the size of a disk and its file to the given number of bytes.
func (w *Worker) Resize(ctx context.Context, id string, size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.find(id)
	if err != nil {
		return err
	}
	if w.machine == nil {
		return fmt.Errorf("cannot resize %s: the worker is off", id)
	}
	if _, err := w.machine.execute(ctx, "block_resize", map[string]any{"node-name": a.node(), "size": size}); err != nil {
		return fmt.Errorf("cannot resize %s: %w", id, err)
	}
	return nil
}

// BlockDevice waits until the guest's kernel has detected the disk, and returns the disk's name, such as vdb.
func (w *Worker) BlockDevice(ctx context.Context, id string) (string, error) {
	w.mu.Lock()
	a, err := w.find(id)
	w.mu.Unlock()
	if err != nil {
		return "", err
	}
	out, err := w.Run(ctx, fmt.Sprintf(`for i in {1..600}; do
	for d in %s; do [ ! -e "$d/size" ] || { echo "${d##*/}"; exit 0; }; done
	sleep 0.1
done
echo "no such disk after a minute" >&2; exit 1`, a.sysfs()))
	if err != nil {
		return "", fmt.Errorf("cannot find disk %s in the worker: %w", id, err)
	}
	return strings.TrimSpace(out), nil
}
