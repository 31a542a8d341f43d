package helper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
	"hotmount/internal/mounts"
	"hotmount/internal/policy"
)

// Release is one run of `hotmount release`. The daemon behind the control socket unmounts the disk, and Release prints
// whether the disk is safe to detach.
type Release struct {
	Host   inventory.Host
	Socket string
	Out    io.Writer
	// If Force is set, Release unmounts the disk although pods still use it.
	Force bool
	// Sync writes out the cached data of the filesystem that is mounted at the given path (SyncFilesystem).
	Sync func(path string) error
}

// Do releases the disk with that kernel name or filesystem UUID.
func (r *Release) Do(ctx context.Context, which string) error {
	f, path, err := r.find(which)
	if err != nil {
		return fmt.Errorf("cannot release %s: %w", which, err)
	}
	switch path {
	case "":
		fmt.Fprintf(r.Out, "%s is unmounted already, and stays unmounted until the disk is attached again or accepted, or the machine reboots\n", f.ID)
		return r.saySafe(ctx, r.Out, f)
	case f.Standing.Link:
		return r.block(ctx, f)
	}
	// The path of a covered mount leads to the covering filesystem. A sync of that filesystem would not write out the
	// disk's data, and could hang.
	for i := range f.Mounts {
		if m := &f.Mounts[i]; m.Path == path && m.CoveredBy != "" {
			return fmt.Errorf("cannot release %s: another mount covers its mount %s; if nothing needs the covering mount: umount %s; then: hotmount release %s", f.ID, path, disk.Visible(m.CoveredBy), f.Name)
		}
	}
	users, err := mounts.Users(r.Host.Root, f.Dev, path)
	if err != nil {
		return fmt.Errorf("cannot release %s: %w", f.ID, err)
	}
	if users = append(users, loopUsers(f)...); len(users) > 0 {
		pods := podsOf(users)
		if !r.Force || len(pods) == 0 {
			return inUse(f, users)
		}
		fmt.Fprintf(r.Out, "%s is in use. Delete these pods before you detach the disk (for their names: kubectl get pods -A -o custom-columns=:metadata.namespace,:metadata.name,:metadata.uid):\n  %s\n  %s\n", f.ID, strings.Join(pods, "\n  "), mounts.Lines(users))
	}
	// The command writes out the data before the daemon unmounts the disk. A slow disk therefore blocks the command,
	// and not the daemon.
	switch err := r.Sync(path); {
	case err != nil && f.Fault == "":
		return fmt.Errorf("cannot release %s: cannot write buffered data to the disk: %w", f.ID, err)
	case err != nil: // after a fault, the kernel writes no more data, and a repair needs an unmounted filesystem
		fmt.Fprintf(r.Out, "%s: %s; data that was not yet written to the disk is lost: %v\n", f.ID, f.Fault, err)
	}
	if _, err := control.Ask(ctx, r.Socket, control.Request{Do: "release", Disk: f.Name, Seq: f.Seq}); err != nil {
		return err
	}
	var said strings.Builder
	if err = r.saySafe(ctx, &said, f); err != nil && !r.Force {
		// Something that the first check did not find may still use the disk, so hotmount mounts the disk again.
		_, backErr := control.Ask(ctx, r.Socket, control.Request{Do: "accept", Disk: f.Name, Seq: f.Seq})
		if backErr == nil {
			backErr = errors.New("hotmount mounts the disk again, and the disk stays mounted until hotmount release succeeds")
		}
		return errors.Join(err, backErr)
	}
	fmt.Fprintf(r.Out, "%s: %s is unmounted, and stays unmounted until the disk is attached again or accepted, or the machine reboots\n%s", f.ID, path, said.String())
	return err
}

// saySafe prints that the disk, which hotmount no longer uses, can be detached. saySafe returns an error if anything
// else still uses the disk.
func (r *Release) saySafe(ctx context.Context, w io.Writer, f *disk.Facts) error {
	err := isFree(ctx, f)
	now, lookErr := r.currentFacts(f)
	if detachedItself(f, lookErr) {
		fmt.Fprintf(w, "the file %s is already detached from the loop device\n", disk.Visible(f.BackingFile))
		return nil
	}
	if lookErr != nil {
		return errors.Join(err, fmt.Errorf("cannot tell whether %s is safe to detach: %w", f.ID, lookErr))
	}
	// isFree detects neither a loop device nor a process that has a block volume open without O_EXCL.
	if err != nil || f.Standing.Given != nil || len(now.Loops) > 0 {
		opened, openErr := deviceUsers(&now)
		mounted, mountErr := mounts.Users("", f.Dev, "")
		users := slices.Concat(opened, mounted)
		if err == nil && len(users) > 0 {
			err = unix.EBUSY
		}
		words := mounts.Lines(users)
		if words == "" {
			words = "no process was found that uses the disk; another device or a mount in a namespace without a process may use the disk"
		}
		if err != nil {
			err = fmt.Errorf("NOT safe to detach: %s is still in use: %w:\n  %s\nwhen nothing uses it any more, run again: hotmount release %s", f.ID, err, words, f.Name)
		}
		if err = errors.Join(err, openErr, mountErr); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, toDetach(f))
	return nil
}

// detachedItself reports whether the disk was a loop device from which the kernel has already detached the file. The
// parameter `look` is the error that a look at the disk returned. If losetup(8) detaches a mounted loop device, the
// kernel detaches the file only at the unmount (LO_FLAGS_AUTOCLEAR, loop(4)).
func detachedItself(f *disk.Facts, look error) bool {
	return f.Transport == "loop" && errors.Is(look, disk.ErrGone)
}

// currentFacts returns the present facts of the disk or partition. currentFacts looks at no other disk, because another
// disk may not answer.
func (r *Release) currentFacts(f *disk.Facts) (disk.Facts, error) {
	s, err := r.Host.Store.Settings()
	if err != nil {
		return disk.Facts{}, err
	}
	now, err := r.Host.For(s).Look(f.Name)
	if err == nil && now.Seq != f.Seq {
		err = disk.ErrGone
	}
	return now, err
}

// toDetach describes what to detach, and how to find the disk on the virtual machine's host. virsh needs the target
// name that libvirt has for the disk. The disk's kernel name depends on the order in which the kernel found the disks,
// and may differ from libvirt's target name.
func toDetach(f *disk.Facts) string {
	switch {
	case f.Whole != "":
		return fmt.Sprintf("the disk is a partition of %s; %[1]s is safe to detach when no partition is mounted, given out or in use; to see all uses: hotmount status; lsblk /dev/%[1]s", f.Whole)
	case f.Transport == "dm":
		return fmt.Sprintf("the disk is made of other disks, which may have more mounts; to see the other disks: lsblk -s %s; detach such a disk only when lsblk DISK shows no mount", f.Node())
	}
	if f.Transport == "loop" {
		return fmt.Sprintf("safe to detach: the loop device %s, with the file %s\nto detach the file: losetup -d %[1]s", f.Node(), disk.Visible(f.BackingFile))
	}
	which := "size " + disk.HumanSize(f.Size)
	if f.Slot != "" {
		which += ", slot on this node " + disk.Visible(f.Slot)
	}
	name, find := " (the <target> beside the disk's <address>)", "virsh dumpxml NODE"
	if f.Serial != "" && strings.Trim(f.Serial, disk.Alphanumeric+"-_.:") == "" {
		match := fmt.Sprintf("serial='%s'", f.Serial)
		if f.SerialCut() {
			match = fmt.Sprintf("starts-with(serial,'%s')", f.Serial)
		}
		which, name, find = "serial "+f.Serial+", "+which, "", fmt.Sprintf(`virsh dumpxml NODE --xpath "//disk[%s]/target/@dev"`, match)
	}
	return fmt.Sprintf("safe to detach: %s\non the hypervisor, the disk may have another name than %s; to see that name, the TARGET%s: %s\nthen: virsh detach-disk NODE TARGET --persistent", which, f.Name, name, find)
}

// deviceUsers returns the users of the block device, except hotmount's own unit. The users include loop devices on the
// disk, because kubelet keeps a block volume open through a loop device.
func deviceUsers(f *disk.Facts) ([]mounts.User, error) {
	users, err := mounts.DeviceUsers("", f.ID)
	users = slices.DeleteFunc(users, func(u mounts.User) bool { return u.Unit == fmt.Sprintf("hotmount-block@%d.service", f.Seq) })
	return append(loopUsers(f), users...), err
}

// loopUsers returns one user for each loop device that lies on the disk.
func loopUsers(f *disk.Facts) []mounts.User {
	var users []mounts.User
	how := "in use through the loop device /dev/"
	if f.LoopsUnsure {
		how = "perhaps in use through the loop device /dev/"
	}
	for _, l := range f.Loops {
		users = append(users, mounts.User{How: how + l})
	}
	return users
}

// block() takes back the disk of a block volume if nobody uses the disk.
func (r *Release) block(ctx context.Context, f *disk.Facts) error {
	users, err := deviceUsers(f)
	if err != nil {
		return fmt.Errorf("cannot release %s: %w", f.ID, err)
	}
	if len(users) > 0 {
		return inUse(f, users)
	}
	if _, err := control.Ask(ctx, r.Socket, control.Request{Do: "release", Disk: f.Name, Seq: f.Seq}); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "%s: %s is removed, and stays removed until the disk is attached again or accepted, or the machine reboots\n", f.ID, f.Standing.Link)
	return r.saySafe(ctx, r.Out, f)
}

func inUse(f *disk.Facts, users []mounts.User) error {
	return fmt.Errorf("cannot release %s: it is in use:\n  %s\nend these uses first (for a pod: kubectl delete pod), then: hotmount release %s", f.ID, mounts.Lines(users), f.Name)
}

// The method `find` returns the disk with that kernel name or filesystem UUID. The second result is the path of the
// disk's mount point, or of the link by which hotmount has given the disk out. The path is empty if hotmount already
// keeps the disk unmounted.
func (r *Release) find(which string) (*disk.Facts, string, error) {
	s, err := r.Host.Store.Settings()
	if err != nil {
		return nil, "", err
	}
	disks, err := r.Host.For(s).Scan()
	if err != nil {
		return nil, "", err
	}
	var unmounted *disk.Facts
	for i := range disks {
		f := &disks[i]
		c := f.KnownContent()
		d := policy.Decide(f, &c, s)
		switch named := f.Name == strings.TrimPrefix(which, "/dev/"); {
		case givenOut(f, d) && named:
			return f, f.OwnLink(), nil
		case d.Mounted() && (named || d.UUID == which):
			return f, policy.Select(f, s).MountPoint(d.UUID), nil
		case f.Standing.Unmounted != "" && (named || c.UUID == which):
			unmounted = f
		}
	}
	if unmounted == nil {
		return nil, "", errors.New("no disk with this name or UUID is mounted or given out by hotmount; see hotmount plan")
	}
	return unmounted, "", nil
}

// givenOut reports whether the disk itself is given out as a block volume. givenOut returns false for a partition, and
// for a device that is built on a given-out disk. The decision for a given-out disk is disk.Ignore if the class of the
// block volume is no longer configured.
func givenOut(f *disk.Facts, d disk.Decision) bool {
	return f.OwnLink() != "" && (d.GivenOut() || d.Action == disk.Ignore)
}

// Releasable reports whether Release finds the disk by its kernel name.
func Releasable(f *disk.Facts, d disk.Decision) bool {
	return d.Mounted() || givenOut(f, d) || f.Standing.Unmounted != ""
}

// podsOf returns the UIDs of the pods among the users, each UID once.
func podsOf(users []mounts.User) []string {
	var pods []string
	for _, u := range users {
		if u.Pod != "" && !slices.Contains(pods, u.Pod) {
			pods = append(pods, u.Pod)
		}
	}
	return pods
}

// SyncFilesystem writes out the cached data of the filesystem that is mounted at the given path.
func SyncFilesystem(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

// isFree returns nil if an exclusive open succeeds (open(2), O_EXCL on a block device). If an exclusive open succeeds,
// the disk is neither mounted nor claimed on this machine. isFree retries for 5 seconds, because the kernel may unmount
// a filesystem only some time after its last mount namespace has ended.
func isFree(ctx context.Context, f *disk.Facts) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		fd, err := unix.Open(f.BySeq(), unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err == nil {
			return unix.Close(fd)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
