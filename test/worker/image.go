package worker

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// DefaultSuite is the default Debian release of a worker.
const DefaultSuite = "bookworm"

const lockExclusive = syscall.LOCK_EX

// recipeVersion must be increased when a change of the code in this file changes the built image.
const recipeVersion = 1

// keptImages is the number of images that stay in the cache.
const keptImages = 4

const (
	rootSize  = 3 << 30 // size of the root filesystem, in bytes
	rootStart = 1 << 20 // where the root partition begins on the disk, in bytes
)

//go:embed recipe/essential.sh
var essentialHook string

//go:embed recipe/customize.sh
var customizeHook string

// imagePackages lists the Debian packages of a worker image. The list names recommended packages, too, because a
// minimal Debian is built without recommended packages.
var imagePackages = []string{
	"systemd", "systemd-sysv", "udev", "dbus", "openssh-server",
	"linux-image-cloud-amd64", "initramfs-tools", "kmod",
	"xfsprogs", "e2fsprogs", "btrfs-progs", "dosfstools", "attr", "util-linux", "mount", "fdisk",
	"lvm2", "mdadm", "cryptsetup-bin", "gdisk", "parted",
	"iproute2", "procps", "psmisc", "lsof", "strace",
}

// The variable `unwanted` lists hooks and scripts of initramfs-tools that a worker does not need and that would slow its
// boot. The initramfs works without udev, because it loads the worker's drivers by name and finds the root filesystem
// with blkid.
var unwanted = []string{"udev", "lvm2", "mdadm", "btrfs", "dmsetup", "fsck", "thermal", "keymap", "resume", "fuse"}

// The type `recipe` contains everything that determines a worker image, except the contents of the Debian archive.
type recipe struct {
	Version              int
	Suite                string
	Arch                 string
	Packages, Unwanted   []string
	Essential, Customize string
	RootSize, RootStart  int64
}

func imageRecipe(suite string) recipe {
	return recipe{
		Version: recipeVersion, Suite: suite, Arch: runtime.GOARCH,
		Packages: imagePackages, Unwanted: unwanted,
		Essential: essentialHook, Customize: customizeHook,
		RootSize: rootSize, RootStart: rootStart,
	}
}

func (r recipe) name() string { return "image-" + r.Suite + "-" + key(r) }

// image is the cache entry of a finished worker image, with the files disk.raw, vmlinuz, initrd.img, id_ed25519 and
// root-uuid.
type image struct {
	*entry
	suite string
}

func (i image) disk() string   { return i.path("disk.raw") }
func (i image) kernel() string { return i.path("vmlinuz") }
func (i image) initrd() string { return i.path("initrd.img") }
func (i image) sshKey() string { return i.path("id_ed25519") }

// rootUUID returns the UUID of the root filesystem.
func (i image) rootUUID() (string, error) {
	b, err := os.ReadFile(i.path("root-uuid"))
	if err != nil {
		return "", fmt.Errorf("cannot read the image's root UUID: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// The function `cpu` returns QEMU's processor model for the kernel of a Debian release, and the processor features that
// must be switched off.
func cpu(suite string) (model string, disabled []string) {
	switch suite {
	case "bookworm", "bullseye":
		return "max", nil
	default: // if the feature cx16 is on, kernels since Linux 6.12 panic under QEMU 7.2
		return "max", []string{"cx16"}
	}
}

func getImage(ctx context.Context, c *cache, suite string, progress io.Writer) (image, error) {
	r := imageRecipe(suite)
	defer c.removeOld("image-", keptImages)
	e, err := c.get(ctx, r.name(), func(dir string) error {
		reportStep(progress, "building the %s worker image (about 40 s) …", suite)
		if err := r.build(ctx, dir); err != nil {
			return fmt.Errorf("cannot build the %s worker image: %w", suite, err)
		}
		return nil
	})
	if err != nil {
		return image{}, err
	}
	return image{entry: e, suite: suite}, nil
}

func (r recipe) build(ctx context.Context, dir string) error {
	if os.Getuid() != 0 {
		return errors.New("only root can")
	}
	keyFile := filepath.Join(dir, "id_ed25519")
	if _, err := command(ctx, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "worker", "-f", keyFile); err != nil {
		return err
	}
	public, err := os.ReadFile(keyFile + ".pub")
	if err != nil {
		return fmt.Errorf("cannot read the new key: %w", err)
	}
	tree := filepath.Join(dir, "tree")
	if err := r.bootstrap(ctx, dir, tree, strings.TrimSpace(string(public))); err != nil {
		return err
	}
	for pattern, name := range map[string]string{"boot/vmlinuz-*": "vmlinuz", "boot/initrd.img-*": "initrd.img"} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("cannot find one %s in the new image, but %d: %w", pattern, len(found), err)
		}
		if err := copyFile(found[0], filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := r.makeDisk(ctx, dir, tree); err != nil {
		return err
	}
	if err := os.RemoveAll(tree); err != nil {
		return fmt.Errorf("cannot remove the image's tree: %w", err)
	}
	return writeID(dir)
}

// MountRoot mounts the root filesystem of a worker image read-only at dir, until the caller calls the function `unmount`.
// With MountRoot a test can run the tools of another Debian release. The caller of MountRoot must be root.
func MountRoot(ctx context.Context, suite, dir string, progress io.Writer) (unmount func() error, err error) {
	if err := Prepare(ctx, progress); err != nil {
		return nil, err
	}
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	img, err := getImage(ctx, c, suite, progress)
	if err != nil {
		return nil, err
	}
	options := fmt.Sprintf("ro,noload,loop,offset=%d,sizelimit=%d", rootStart, int64(rootSize))
	if _, err := command(ctx, nil, "mount", "-t", "ext4", "-o", options, img.disk(), dir); err != nil {
		img.release()
		return nil, err
	}
	return func() error {
		defer img.release()
		_, err := command(context.WithoutCancel(ctx), nil, "umount", dir)
		return err
	}, nil
}

// bootstrap installs a Debian system into the directory tree, from the archives that this machine's apt uses.
func (r recipe) bootstrap(ctx context.Context, dir, tree, public string) error {
	sources, err := debianSources("/", r.Suite)
	if err != nil {
		return err
	}
	options, err := aptOptions(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{"sources.list": sources, "essential.sh": r.Essential, "customize.sh": r.Customize}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return fmt.Errorf("cannot write the recipe: %w", err)
		}
		defer os.Remove(filepath.Join(dir, name))
	}
	args := []string{
		"--mode=root", "--variant=minbase", "--format=directory",
		"--architectures=" + r.Arch,
		"--include=" + strings.Join(r.Packages, ","),
		"--essential-hook=" + shellQuote(filepath.Join(dir, "essential.sh")) + ` "$1"`,
		"--customize-hook=" + shellQuote(filepath.Join(dir, "customize.sh")) + ` "$1"`,
		"--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
	}
	for _, u := range r.Unwanted {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/initramfs-tools/hooks/"+u,
			"--dpkgopt=path-exclude=/usr/share/initramfs-tools/scripts/*/"+u)
	}
	for _, o := range options {
		args = append(args, "--aptopt="+o)
	}
	args = append(args, r.Suite, tree, filepath.Join(dir, "sources.list"))
	_, err = contained(ctx, []string{"WORKER_KEY=" + public, "TMPDIR=" + dir}, "mmdebstrap", args...)
	return err
}

// makeDisk makes disk.raw. The file disk.raw has a partition table with one partition, whose filesystem contains the
// files of the directory tree.
func (r recipe) makeDisk(ctx context.Context, dir, tree string) error {
	disk := filepath.Join(dir, "disk.raw")
	if err := NewDisk(disk, r.RootStart+r.RootSize); err != nil {
		return err
	}
	uuid := newUUID()
	_, err := command(ctx, nil, "mke2fs", "-q", "-F", "-t", "ext4", "-L", "worker-root", "-U", uuid, "-m", "1",
		"-E", "lazy_itable_init=0,offset="+strconv.FormatInt(r.RootStart, 10),
		"-d", tree, disk, strconv.FormatInt(r.RootSize>>10, 10)+"k")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "root-uuid"), []byte(uuid+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot write the root UUID: %w", err)
	}
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot partition the image: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(masterBootRecord(r.RootStart, r.RootSize), 0); err != nil {
		return fmt.Errorf("cannot partition the image: %w", err)
	}
	return f.Close()
}

// masterBootRecord returns a DOS partition table with one Linux partition.
func masterBootRecord(start, size int64) []byte {
	mbr := make([]byte, 512)
	copy(mbr[440:], "hotm") // the disk's identifier
	entry := mbr[446:]
	copy(entry[1:], []byte{0xfe, 0xff, 0xff}) // fe ff ff marks a CHS address that is not used
	entry[4] = 0x83
	copy(entry[5:], []byte{0xfe, 0xff, 0xff})
	binary.LittleEndian.PutUint32(entry[8:], uint32(start/512))
	binary.LittleEndian.PutUint32(entry[12:], uint32(size/512))
	mbr[510], mbr[511] = 0x55, 0xaa
	return mbr
}

// NewDisk makes a sparse raw disk file with the given size in bytes. The file at path must not exist yet.
func NewDisk(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("cannot make a disk: %w", err)
	}
	if err := f.Truncate(size); err != nil {
		return errors.Join(fmt.Errorf("cannot make a disk: %w", err), f.Close())
	}
	return f.Close()
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("cannot copy: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("cannot copy: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(fmt.Errorf("cannot copy %s: %w", from, err), out.Close())
	}
	return out.Close()
}

// shellQuote quotes s as one word for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
