package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/probe"
	"hotmount/internal/run"
)

const (
	mkfsExt4 = "/usr/sbin/mkfs.ext4"
	debugfs  = "/usr/sbin/debugfs"
)

// ext4 is one run of mkfs.ext4.
type ext4 struct {
	node, uuid string
	with       disk.MkfsExt4
	// dry asks what it would do, like is for a file that shows what it has written.
	dry, like bool
}

// args is the only place where arguments for mkfs.ext4 are put together. There is
// no -F among them: mkfs.ext4 asks whether something is to be overwritten only where
// a person can answer, so that what is on the disk is ours to prove, and with -F it
// would take a disk that is in use. No discard, as with mkfs.xfs. The tables of
// inodes are left to the kernel, which zeroes them in use: that takes hours on a
// large disk, and each has a checksum until then. The journal is zeroed. The seed of
// directory hashes is no secret to those who may write to the volume.
func (e ext4) args() []string {
	var args []string
	if e.dry {
		args = append(args, "-n")
	}
	extended := []string{"nodiscard", "lazy_itable_init=1", "lazy_journal_init=0", "hash_seed=" + e.uuid}
	if e.like {
		extended[2] = "lazy_journal_init=1"
	}
	if e.with.Owner != "" && e.with.Owner != "0:0" {
		extended = append(extended, "root_owner="+e.with.Owner)
	}
	args = append(args, "-b", "4096", "-O", "metadata_csum")
	for _, o := range e.with.Options {
		// Of two -E it takes the last alone.
		if values, ok := strings.CutPrefix(o, "-E "); ok {
			extended = append(extended, values)
			continue
		}
		args = append(args, strings.Fields(o)...)
	}
	return append(args, "-E", strings.Join(extended, ","), "-U", e.uuid, e.node)
}

// env has the time of creation be the intent's.
func (e ext4) env() []string {
	// Newer versions of libext2fs look for SOURCE_DATE_EPOCH first.
	now := fmt.Sprint(e.with.Time)
	return []string{"E2FSPROGS_SKIP_PROGRESS=1", "E2FSPROGS_FAKE_TIME=" + now, "SOURCE_DATE_EPOCH=" + now}
}

func (e ext4) run(ctx context.Context, r run.Runner) ([]string, uint64, error) {
	return runMkfs(ctx, r, run.Command{Path: mkfsExt4, Args: e.args(), Env: e.env(), Timeout: MkfsTime}, e.dry)
}

// onFile runs mkfs.ext4 on a sparse file of the disk's size, which has no name any
// more.
func (s *Session) onFile(ctx context.Context, r run.Runner, e ext4) (*os.File, error) {
	f, err := s.sys.temp()
	if err != nil {
		return nil, err
	}
	err = f.Truncate(int64(s.disk.Size))
	if errors.Is(err, unix.EFBIG) {
		err = fmt.Errorf("%w: mkfs.ext4 cannot be asked first, since no file in %s can be as large as the disk (have the class make an xfs): %w", ErrRefused, filepath.Dir(f.Name()), err)
	}
	if err == nil {
		e.node = f.Name()
		_, _, err = e.run(ctx, r)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// own is what of the intent's filesystem may be on the disk. For an ext4 it has a file on which
// mkfs.ext4 has made what the intent has it make on the disk.
func (s *Session) own(i *disk.Intent) probe.Own {
	return probe.Own{Type: i.Type(), UUID: i.UUID, Like: func(ctx context.Context) (io.ReaderAt, error) {
		if s.like != nil && s.likeOf == i {
			return s.like, nil
		}
		f, err := s.onFile(ctx, s.deps.Runner, ext4{uuid: i.UUID, with: *i.Ext4, like: true})
		if err != nil {
			return nil, fmt.Errorf("cannot tell what mkfs.ext4 has written: %w", err)
		}
		if s.like != nil {
			err = s.like.Close()
		}
		s.like, s.likeOf = f, i
		return f, err
	}}
}

// ext4Dry asks mkfs.ext4 whether it would make what is wanted of it, on a file: on
// the disk -n writes nothing, but flushes, which the kernel counts as a write.
type ext4Dry struct {
	session *Session
	e       ext4
}

func (d ext4Dry) run(ctx context.Context, r run.Runner) ([]string, uint64, error) {
	f, err := d.session.onFile(ctx, r, d.e)
	if err == nil {
		err = f.Close()
	}
	return nil, 0, err
}

// sameExt4 reports whether mkfs.ext4 would write the same.
func sameExt4(a, b *disk.MkfsExt4) bool {
	return a != nil && b != nil && a.Owner == b.Owner && a.Time == b.Time && slices.Equal(a.Options, b.Options)
}

// rootMode returns the permissions that the root directory of the intent's filesystem is
// to have once its mkfs has finished, zero where that has set them.
func rootMode(i *disk.Intent) (uint16, error) {
	if i.Ext4 == nil || i.Ext4.Mode == "" || i.Ext4.Mode == "0755" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(i.Ext4.Mode, 8, 16)
	if err != nil || mode&^0o6777 != 0 {
		return 0, fmt.Errorf("cannot take %q for the mode of a root directory", disk.Visible(i.Ext4.Mode))
	}
	return uint16(mode), nil
}

// setRootMode returns the root directory the intent's mode, unless the filesystem was
// mounted: then it is somebody's. debugfs writes the one block with that inode, of
// which one sector changes, so that a crash leaves the one mode or the other. It does
// not say by its exit code whether it could. Where there is nothing to write nobody is
// asked whether it is allowed.
func (s *Session) setRootMode(ctx context.Context, i *disk.Intent, allowed func() error) error {
	mode, err := rootMode(i)
	if err != nil || mode == 0 {
		return err
	}
	is, used, err := probe.Ext4Root(s.keep, i.UUID)
	if err == nil && used {
		s.deps.Log(fmt.Sprintf("the root directory of %s keeps its mode: the filesystem was mounted", i.UUID))
	}
	if err != nil || used || is == mode {
		return err
	}
	if err := allowed(); err != nil {
		return err
	}
	lines, _, err := runMkfs(ctx, s.deps.Runner, run.Command{
		Path: debugfs, Args: []string{"-w", "-R", fmt.Sprintf("set_inode_field <2> mode %#o", 0o40000|mode), s.disk.Node()},
		Timeout: MkfsTime,
	}, false)
	if err == nil {
		// debugfs leaves it to the page cache.
		err = s.keep.Sync()
	}
	if err == nil {
		is, _, err = probe.Ext4Root(s.keep, i.UUID)
	}
	if err == nil && is != mode {
		err = fmt.Errorf("its root directory has mode %#o, and not %#o: debugfs says %q", is, mode, lines)
	}
	return err
}

// Finish does the rest of a format of which the recovery has found mkfs's part: Prove
// has found the filesystem of the disk's intent, and all of it. What was mounted since is
// left as it is, and so is what may be another disk's. It fails where a write is left to do
// and formatting is switched off: what is mounted without it would keep the wrong mode.
func (s *Session) Finish(ctx context.Context) error {
	i := s.disk.Standing.Intent
	if i == nil || i.Ext4 == nil || s.disk.Standing.IntentDoubt || s.proven.Kind != disk.Filesystem || s.proven.Torn {
		return nil
	}
	err := s.lock(ctx, unix.LOCK_EX)
	if err == nil {
		err = s.isUntouched()
	}
	if err == nil {
		err = s.setRootMode(ctx, i, s.deps.Allowed)
	}
	if err == nil {
		s.writes, _, err = s.deps.Writes()
	}
	if err != nil {
		return fmt.Errorf("cannot finish the ext4 on %s: %w", s.disk.ID, err)
	}
	return nil
}

// AgreesExt4 asks mkfs.ext4, which writes nothing (-n), whether it takes the class's
// options, for a disk of 1 GiB. The file is made, and empty.
func AgreesExt4(ctx context.Context, r run.Runner, class []string, file string) error {
	err := os.WriteFile(file, nil, 0o600)
	if err == nil {
		err = os.Truncate(file, 1<<30)
	}
	if err != nil {
		return err
	}
	_, _, err = ext4{node: file, uuid: "00000000-0000-4000-8000-000000000000", with: disk.MkfsExt4{Options: class, Time: 1}, dry: true}.run(ctx, r)
	return err
}
