package helper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/inventory"
	"hotmount/internal/run"
	"hotmount/internal/store"
)

// ofAnyMount are the mount options that mount(8) or the kernel itself evaluates for every filesystem type. No
// filesystem driver sees these options (linux_flags_map in libmount/src/optmap.c of util-linux). context= and similar
// options belong to SELinux.
var ofAnyMount = []string{
	"defaults", "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "sync", "async", "dirsync", "silent", "loud", "mand", "nomand",
	"lazytime", "nolazytime", "atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime", "iversion", "noiversion",
	"symfollow", "nosymfollow", "comment", "context", "fscontext", "defcontext", "rootcontext", "seclabel",
}

// kernelTakes returns an error if the kernel does not support the filesystem type, or refuses a mount option.
// kernelTakes mounts nothing, so it cannot detect an option that fails only because of the content of a filesystem. If
// kernelTakes cannot check the options, kernelTakes returns nil.
func kernelTakes(fstype string, options []string) error {
	fd, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("this kernel cannot mount %s, because the module is missing or cannot be loaded; to see why: modprobe %[1]s", fstype)
	}
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	for _, option := range options {
		name, value, has := strings.Cut(option, "=")
		if slices.Contains(ofAnyMount, name) {
			continue
		}
		if has {
			err = unix.FsconfigSetString(fd, name, value)
		} else {
			err = unix.FsconfigSetFlag(fd, name)
		}
		if errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%s does not take the mount option %s: %s", fstype, disk.Visible(option), kernelSays(fd, err))
		}
	}
	return nil
}

// kernelSays returns the newest unread message of the kernel about a filesystem context, or else the given error. Older
// messages may be about accepted options. Each read(2) returns one message, and fails if there is none. The kernel puts
// the level of the message and a space before the message (fscontext_read in fs/fsopen.c).
func kernelSays(fd int, otherwise error) string {
	text, newest := make([]byte, 512), otherwise.Error()
	for n, err := unix.Read(fd, text); err == nil && n > 0; n, err = unix.Read(fd, text) {
		if _, says, ok := strings.Cut(string(text[:n]), " "); ok {
			newest = disk.Visible(strings.TrimSpace(says))
		}
	}
	return newest
}

// refused() returns an error if the kernel refuses the class's mount options for the filesystem type. The function also
// returns an error if TryClasses could not mount a new filesystem with these options.
func refused(st store.Store, class *disk.Class, fstype string) error {
	if err := kernelTakes(fstype, class.MountOptions(fstype)); err != nil {
		return err
	}
	tried, err := st.Tried()
	if why := tried[triedKey(class, fstype)]; why != "" {
		return errors.New(why)
	}
	return err
}

// canMount returns an error if a new filesystem of the class could not be mounted with the class's mount options.
func canMount(st store.Store, class *disk.Class, id disk.ID) error {
	if err := refused(st, class, class.Create); err != nil {
		return fmt.Errorf("cannot format %s: the mount of the new filesystem would fail: %w; nothing is written; %s", id, err, optionsRemedy(class))
	}
	return nil
}

// triedKey returns the key under which SaveTried records a result. The key consists of the type of the scratch
// filesystem and the class's mount options.
func triedKey(class *disk.Class, fstype string) string {
	return fstype + " " + strings.Join(class.MountOptions(fstype), ",")
}

// TryClasses mounts a scratch filesystem with the mount options of each class that formats disks, and records the
// result for later formats. TryClasses skips a class with the usual (default) options. TryClasses does not try options
// whose result the last run in this boot recorded. TryClasses must run in a mount namespace of its own.
func TryClasses(ctx context.Context, h inventory.Host, r run.Runner, usual []string) error {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	last, err := h.Store.Tried()
	if err != nil {
		return err
	}
	now := map[string]string{}
	for i := range s.Classes {
		class := &s.Classes[i]
		if class.Mode == disk.ModeBlock || class.Create == "none" || slices.Equal(class.Options, usual) {
			continue
		}
		key := triedKey(class, class.Create)
		why, known := last[key]
		if !known {
			err := tryMount(ctx, r, class.Create, class.MountOptions(class.Create), true)
			if errors.Is(err, errUntried) || ctx.Err() != nil {
				continue // the next format tries again
			}
			if err != nil {
				why = fmt.Sprintf("a new %s filesystem cannot be mounted with %q: %v", class.Create, class.Options, err)
			}
		}
		now[key] = why
	}
	return h.Store.SaveTried(now)
}

func optionsRemedy(class *disk.Class) string {
	return fmt.Sprintf("to check the options of class %s: hotmount config check && systemctl reload hotmount", class.Name)
}

// TryOptions tries each class's mount options on a scratch filesystem of each type that the class mounts. TryOptions
// returns an error if the options fail for the filesystem type that the class creates, or for every type that the class
// mounts. If the options fail only for another type, TryOptions returns a warning, because an existing filesystem may
// have the feature that an option needs. TryOptions makes no scratch filesystem for a class with the usual (default)
// options. For anybody but root, TryOptions tries nothing and returns only a warning.
func TryOptions(ctx context.Context, r run.Runner, s *disk.Settings, usual []string, origin func(key string) string) (warnings []string, err error) {
	if os.Geteuid() != 0 {
		return []string{"the mount options were not tried, because only root can try them: sudo hotmount config check"}, nil
	}
	for i := range s.Classes {
		class := &s.Classes[i]
		if class.Mode == disk.ModeBlock {
			continue
		}
		key := fmt.Sprintf("classes[%d].options", i)
		var refusals []string
		fault := false
		for _, fstype := range class.Accept {
			options := class.MountOptions(fstype)
			refused := kernelTakes(fstype, options)
			if refused == nil && !slices.Equal(class.Options, usual) {
				refused = tryMount(ctx, r, fstype, options, false)
			}
			if errors.Is(refused, errUntried) {
				warnings = append(warnings, fmt.Sprintf("%s: %s was not tried with a new %s filesystem: %v", origin(key), key, fstype, refused))
			} else if refused != nil {
				fault = fault || fstype == class.Create
				refusals = append(refusals, fmt.Sprintf("%s: %s: found %q, with which a new %s filesystem cannot be mounted: %v", origin(key), key, class.Options, fstype, refused))
			}
		}
		if fault || len(refusals) == len(class.Accept) && len(refusals) > 0 {
			err = errors.Join(err, errors.New(strings.Join(refusals, "\n")))
		} else {
			warnings = append(warnings, refusals...)
		}
	}
	return warnings, err
}

// tryPatience is the time limit for mount(8) and for umount(8) of a small scratch filesystem.
const tryPatience = time.Minute

// errUntried reports that this machine cannot mount, unmount or remove a scratch filesystem, whatever the options are.
var errUntried = errors.New("mount options cannot be tried on this machine")

// tryMount makes a filesystem in a temporary file and mounts the file. If private is set, the process already has a
// mount namespace of its own. Otherwise mount(8) runs in a new mount namespace, which ends with mount(8).
func tryMount(ctx context.Context, r run.Runner, fstype string, options []string, private bool) (err error) {
	dir, err := os.MkdirTemp("", "hotmount-check-")
	if err != nil {
		return fmt.Errorf("%w: %w", errUntried, err)
	}
	defer func() {
		if left := os.RemoveAll(dir); left != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", errUntried, left))
		}
	}()
	file, at := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
	mount := func(options ...string) error {
		c := run.Command{Path: "/usr/bin/mount", Timeout: tryPatience, Args: []string{"-t", fstype, "-o", strings.Join(append([]string{"loop"}, options...), ","), file, at}}
		if !private {
			c.Path, c.Args = "/usr/bin/unshare", append([]string{"--mount", c.Path}, c.Args...)
		}
		res, err := r.Run(ctx, c)
		if err != nil {
			return fmt.Errorf("%w: %w", errUntried, err) // mount(8) has refused nothing
		}
		if res.ExitCode != 0 {
			said, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr)), "\n")
			_, words, _ := strings.Cut(strings.TrimPrefix(said, "mount: "), ": ")
			err = errors.New(disk.Visible(words))
		} else if private {
			c = run.Command{Path: "/usr/bin/umount", Timeout: tryPatience, Args: []string{at}}
			if res, err = r.Run(ctx, c); err == nil && res.ExitCode != 0 {
				err = fmt.Errorf("%s: exit code %d: %s", c, res.ExitCode, disk.Output(res.Stderr))
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", errUntried, err)
			}
		}
		return err
	}
	if err = os.Mkdir(at, 0o700); err == nil {
		err = format.Scratch(ctx, r, fstype, file)
	}
	if err == nil {
		err = mount()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUntried, err)
	}
	return mount(options...)
}
