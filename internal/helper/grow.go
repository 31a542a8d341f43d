package helper

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
	"hotmount/internal/grow"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/run"
)

// Grow is the whole program of hotmount-grow@.service, which grows a mounted filesystem. If the parameter `stage` is not
// empty, Grow is the program of hotmount-stage@.service, which grows a filesystem before the daemon mounts it. The
// parameter stage is the directory for a temporary mount.
//
// Grow saves the result as a disk.Fit for the daemon. Grow returns an error only if it cannot save a Fit. Grow ignores
// an earlier Fit, so that an administrator can start the unit to repeat an attempt.
func Grow(ctx context.Context, h inventory.Host, seq uint64, stage string) error {
	log := report.New()
	s, f, err := settingsAndDisk(h, seq)
	if err != nil {
		return err
	}
	f.Standing.Fit = nil
	c := f.KnownContent()
	d := policy.Decide(f, &c, s)
	class := policy.Select(f, s)
	var before, after disk.Geometry
	var path, when string
	switch {
	case d.Action == disk.Grow && stage == "":
		path, when = class.MountPoint(d.UUID), "online"
		before, after, err = grow.Mounted(ctx, run.Exec{}, f, path, d.Type, d.UUID)
	case d.Action == disk.Mount && stage != "" && policy.Grows(f, class):
		path, when = class.MountPoint(d.UUID), "before the mount"
		before, after, err = grow.Unmounted(ctx, run.Exec{}, f, stage, d.Type, d.UUID, class.MountOptions(d.Type))
	default:
		return nil
	}
	switch {
	case errors.Is(err, grow.ErrUnmountable): // the daemon tries to mount the filesystem next, and reports the failure
		return nil
	case errors.Is(err, disk.ErrGone):
		return err
	}
	fit := disk.Fit{Seq: f.Seq, Size: f.Size, Geometry: after, Recorded: errors.Is(err, grow.ErrRecorded)}
	switch {
	case err != nil && after == (disk.Geometry{}) && !errors.Is(err, grow.ErrShrunk):
		return err // there is no Fit to save
	case err != nil: // the daemon reports the failure
		fit.Failure = disk.OneLine(err.Error())
	case after.Size > before.Size:
		text := fmt.Sprintf("%s: grown: %s %s from %s to %s, %s", report.Name(f), d.Type, d.UUID, disk.ExactSize(before.Size), disk.ExactSize(after.Size), when)
		if class.Provision {
			text += "; " + volumeWords(d.UUID, s.Node, class.StorageClass)
		}
		log.Event(report.KindGrown, journal.PriNotice, f, d, path, text)
	}
	return h.Store.SaveFit(fit)
}

// volumeWords describes which PersistentVolume keeps its old capacity after its filesystem has grown.
func volumeWords(uuid, node, class string) string {
	const keeps = "the provisioner does not update the capacity of an existing PersistentVolume: "
	if class == "" {
		return keeps + "the volume of this disk keeps its old capacity (the volume's name depends on the StorageClass, and the configuration has no storage_class; to find its name: kubectl get pv -o custom-columns=:metadata.name,:spec.local.path | grep " + uuid + ")"
	}
	name, err := inventory.NodeName(node)
	if err != nil {
		return keeps + "the volume of this disk keeps its old capacity (the volume's name depends on the node's name, which is not known: " + err.Error() + ")"
	}
	note := ""
	if node == "" {
		note = "; the configuration does not set node, so hotmount used the host's name as the node's name"
	}
	return fmt.Sprintf("%s%s keeps its old capacity (node %s, StorageClass %s%s)", keeps, disk.VolumeName(uuid, name, class), disk.Visible(name), class, note)
}
