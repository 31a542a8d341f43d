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
	program    disk.MkfsExt4
	// If the field `dry` is set, mkfs.ext4 writes nothing (-n). If the field `like` is set, mkfs.ext4 writes its bytes to a
	// file instead of the disk.
	dry, like bool
}

// args returns the arguments of mkfs.ext4.
//
// If -F is given twice, mkfs.ext4 overwrites a disk that is in use (mke2fs(8)), so the arguments never contain -F.
// Without a terminal, mkfs.ext4 overwrites content and does not ask for confirmation. hotmount itself therefore proves
// that the disk is blank. As for mkfs.xfs, the arguments disable discard.
//
// The kernel zeroes the inode tables later, when the filesystem is in use. On a large disk, mkfs.ext4 would need hours
// to zero the inode tables. Checksums protect the inode tables until the kernel has zeroed them. mkfs.ext4 itself
// zeroes the journal. The seed of directory hashes need not be secret, because only users of the volume could exploit
// the seed.
func (e ext4) args() []string {
	var args []string
	if e.dry {
		args = append(args, "-n")
	}
	extended := []string{"nodiscard", "lazy_itable_init=1", "lazy_journal_init=0", "hash_seed=" + e.uuid}
	if e.like {
		extended[2] = "lazy_journal_init=1"
	}
	if e.program.Owner != "" && e.program.Owner != "0:0" {
		extended = append(extended, "root_owner="+e.program.Owner)
	}
	args = append(args, "-b", "4096", "-O", "metadata_csum")
	for _, o := range e.program.Options {
		// mkfs.ext4 uses only the last -E option, so the function `args` joins the values of all -E options.
		if values, ok := strings.CutPrefix(o, "-E "); ok {
			extended = append(extended, values)
			continue
		}
		args = append(args, strings.Fields(o)...)
	}
	return append(args, "-E", strings.Join(extended, ","), "-U", e.uuid, e.node)
}

// env returns environment variables for mkfs.ext4, which hide its progress and set the creation time in the intent.
func (e ext4) env() []string {
	// Newer versions of libext2fs prefer SOURCE_DATE_EPOCH to E2FSPROGS_FAKE_TIME.
	now := fmt.Sprint(e.program.Time)
	return []string{"E2FSPROGS_SKIP_PROGRESS=1", "E2FSPROGS_FAKE_TIME=" + now, "SOURCE_DATE_EPOCH=" + now}
}

func (e ext4) run(ctx context.Context, r run.Runner) ([]string, uint64, error) {
	return runMkfs(ctx, r, run.Command{Path: mkfsExt4, Args: e.args(), Env: e.env(), Timeout: MkfsTime}, e.dry)
}

// onFile runs mkfs.ext4 on a sparse file of the disk's size. onFile removes the name of the file and returns the open
// file.
func (s *Session) onFile(ctx context.Context, r run.Runner, e ext4) (*os.File, error) {
	f, err := s.sys.temp()
	if err != nil {
		return nil, err
	}
	err = f.Truncate(int64(s.disk.Size))
	if errors.Is(err, unix.EFBIG) {
		err = fmt.Errorf("%w: hotmount cannot try mkfs.ext4 on a file first, because no file in %s can be as large as the disk; with create: xfs, hotmount needs no such file: %w", ErrRefused, filepath.Dir(f.Name()), err)
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

// ownFilesystem describes the filesystem of the intent. The disk may hold this filesystem in whole or in part. For
// ext4, the function Like in the result returns a file with the bytes that mkfs.ext4 writes to the disk.
func (s *Session) ownFilesystem(i *disk.Intent) probe.Own {
	return probe.Own{Type: i.Type(), UUID: i.UUID, Like: func(ctx context.Context) (io.ReaderAt, error) {
		if s.like != nil && s.likeOf == i {
			return s.like, nil
		}
		f, err := s.onFile(ctx, s.deps.Runner, ext4{uuid: i.UUID, program: *i.Ext4, like: true})
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

// ext4Dry runs mkfs.ext4 on a file to check whether mkfs.ext4 would make the filesystem. mkfs.ext4 -n on the disk
// itself writes no data but sends a flush, which the kernel counts as a write.
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

// sameExt4 reports whether mkfs.ext4 would write the same bytes with the parameters `b` as with the parameters `a`.
func sameExt4(a, b *disk.MkfsExt4) bool {
	return a != nil && b != nil && a.Owner == b.Owner && a.Time == b.Time && slices.Equal(a.Options, b.Options)
}

// rootMode returns the permissions that the root directory needs after mkfs, or zero if mkfs itself sets the
// permissions.
func rootMode(i *disk.Intent) (uint16, error) {
	if i.Ext4 == nil || i.Ext4.Mode == "" || i.Ext4.Mode == "0755" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(i.Ext4.Mode, 8, 16)
	if err != nil || mode&^0o6777 != 0 {
		return 0, fmt.Errorf("%q is not a mode for a root directory", disk.Visible(i.Ext4.Mode))
	}
	return uint16(mode), nil
}

// setRootMode sets the mode of the root directory to the mode in the intent. setRootMode does not change a filesystem
// that was already mounted, because the filesystem may be in use. debugfs changes only one sector, so a crash leaves
// either the old or the new mode. The exit code of debugfs does not show whether the write succeeded. Before
// setRootMode changes the mode, it calls allowed(). If allowed() returns an error, setRootMode returns the same error.
//
// After debugfs, setRootMode takes a new count of writes for the session. Finish therefore does not notice the writes of
// another process while debugfs runs. If debugfs does not run, the count stays the same.
func (s *Session) setRootMode(ctx context.Context, i *disk.Intent, allowed func() error) error {
	mode, err := rootMode(i)
	if err != nil || mode == 0 {
		return err
	}
	current, used, err := probe.Ext4Root(s.keep, i.UUID)
	if err == nil && used {
		s.deps.Log(fmt.Sprintf("the root directory of %s keeps its mode, because the filesystem was already mounted", i.UUID))
	}
	if err != nil || used || current == mode {
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
		// debugfs writes only to the page cache.
		err = s.keep.Sync()
	}
	if err == nil {
		s.writes, _, err = s.deps.Writes()
	}
	if err == nil {
		current, _, err = probe.Ext4Root(s.keep, i.UUID)
	}
	if err == nil && current != mode {
		err = fmt.Errorf("the root directory has mode %#o, not %#o: debugfs says %q", current, mode, lines)
	}
	return err
}

// Finish completes a format after a crash, if Prove has found the complete filesystem of the disk's intent. Finish does
// not change a filesystem that was already mounted, or that may belong to another disk. Finish fails if the root
// directory still has the wrong mode and formatting is switched off.
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
	if err != nil {
		return fmt.Errorf("cannot finish the ext4 on %s: %w", s.disk.ID, err)
	}
	return nil
}

// AgreesExt4 returns an error unless mkfs.ext4 accepts the class's options for a disk of 1 GiB. AgreesExt4 creates a
// sparse file of 1 GiB, and runs mkfs.ext4 with -n, which writes nothing to the file.
func AgreesExt4(ctx context.Context, r run.Runner, class []string, file string) error {
	err := os.WriteFile(file, nil, 0o600)
	if err == nil {
		err = os.Truncate(file, 1<<30)
	}
	if err != nil {
		return err
	}
	_, _, err = ext4{node: file, uuid: "00000000-0000-4000-8000-000000000000", program: disk.MkfsExt4{Options: class, Time: 1}, dry: true}.run(ctx, r)
	return err
}
