// Command demo shows hotmount as a user sees it. demo boots a Debian worker under libvirt, installs the package, runs
// virsh attach-disk and shows the results. `make demo` calls this program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"hotmount/test/worker"
)

func main() {
	deb := flag.String("deb", "", "the package to install")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, os.Stdout, *deb); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, out io.Writer, deb string) (err error) {
	if deb == "" {
		return errors.New("-deb does not name a package: run make demo")
	}
	dir, err := os.MkdirTemp("", "hotmount-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	disk := filepath.Join(dir, "data.raw")
	if err := worker.NewDisk(disk, 5<<30); err != nil {
		return err
	}
	if err := worker.PrepareLibvirt(ctx, out); err != nil {
		return err
	}
	l, err := worker.StartLibvirt(ctx, worker.Options{Deb: deb, Progress: out})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()

	fmt.Fprintf(out, "\nhost# virsh attach-disk %s %s vdc --persistent --serial DEMO-1\n", l.Domain(), filepath.Base(disk))
	said, err := l.Virsh(ctx, "attach-disk", l.Domain(), disk, "vdc", "--persistent", "--serial", "DEMO-1", "--subdriver", "raw")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, strings.TrimSpace(said))
	if _, err := l.Run(ctx, "for i in $(seq 600); do findmnt -n /dev/vdb >/dev/null && exit 0; sleep 0.1; done; journalctl -b --no-pager -u hotmount >&2; exit 1"); err != nil {
		return fmt.Errorf("the disk was not mounted within a minute: %w", err)
	}
	for _, look := range []struct {
		command string
		// The command's output must contain each of these words.
		says []string
	}{
		{"lsblk -o NAME,SIZE,SERIAL,FSTYPE,UUID,MOUNTPOINT", []string{"vdb", "DEMO-1", "xfs", "/mnt/disks/"}},
		{"findmnt /dev/vdb", []string{"/mnt/disks/", "xfs", "nodev"}},
		{"ls -ld /mnt/disks/*", []string{"/mnt/disks/"}},
		{`systemctl --no-pager --lines=0 status 'mnt-disks-*.mount'`, []string{"active (mounted)", "serial DEMO-1"}},
		{`journalctl --no-pager -o short -u "$(systemctl list-units --plain --no-legend 'mnt-disks-*.mount' | cut -d' ' -f1)"`, []string{"/dev/vdb (serial DEMO-1", "formatted: xfs", "Mounted"}},
		{"hotmount plan", []string{"vdb"}},
		{"systemctl --no-pager --lines=0 status hotmount", []string{"active (running)", "1 mounted"}},
	} {
		said, err := l.Run(ctx, look.command)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\nworker# %s\n%s\n", look.command, strings.TrimRight(said, "\n"))
		for _, word := range look.says {
			if !strings.Contains(said, word) {
				return fmt.Errorf("%s does not say %q", look.command, word)
			}
		}
	}
	return nil
}
