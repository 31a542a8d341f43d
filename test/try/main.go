// Command try demonstrates hotmount, and needs no virtual machine. The program boots a container with the hotmount
// package, attaches three disks, shows the results, and starts a shell for the user. The disks are loop devices.
// `make try` calls this program. With -screen, the program also writes the picture that the README shows.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hotmount/test/worker"
)

func main() {
	deb := flag.String("deb", "", "the package to install")
	suite := flag.String("suite", worker.DefaultSuite, "the Debian release of the container")
	root := flag.String("root", "", "a root filesystem to use, a directory or a tarball; built by mmdebstrap by default")
	screen := flag.String("screen", "", "an SVG `file`: write a picture of the commands attach and status to it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := try(ctx, os.Stdout, *deb, *suite, *root, *screen); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

// makeDisks is a script that makes the files of two disks: one disk contains an ext4 filesystem, and the other disk
// contains LVM. For pvcreate, makeDisks uses a loop device whose file no class selects.
//
//go:embed disks.sh
var makeDisks string

// The variable `profile` is a shell script that defines the commands attach and detach.
//
//go:embed profile.sh
var profile string

func try(ctx context.Context, out io.Writer, deb, suite, root, screen string) (err error) {
	if deb == "" {
		return errors.New("-deb does not name a package: run make try")
	}
	begun := time.Now()
	c, err := worker.StartContainer(ctx, worker.ContainerOptions{
		Options: worker.Options{Deb: deb, Suite: suite, Progress: out}, Name: "try", Root: root,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	settings := fmt.Sprintf("FIRST=%d LOOPS=%d DISKS=%s\n", c.First(), c.Loops(), c.Disks())
	if err := c.Write(ctx, "/root/.bashrc", []byte(settings+profile), 0o644); err != nil {
		return err
	}
	if _, err := c.Run(ctx, ". /root/.bashrc\n"+makeDisks); err != nil {
		return err
	}
	shown, err := show(ctx, out, c)
	if err != nil {
		return err
	}
	if screen != "" {
		return os.WriteFile(screen, []byte(screenSVG(shown)), 0o644)
	}
	fmt.Fprintf(out, "\nAll of this took %s.\n", time.Since(begun).Round(time.Second))
	return shell(ctx, out, c)
}

// The type `look` is a command that the program shows to the user, with the words that the command's output must contain.
type look struct {
	command string
	words   []string
}

// The constant `prompt` is printed before each command that the program shows to the user.
const prompt = "try# "

// The function `show` attaches the disks one by one and prints the results. The return value is the printed output of the
// commands attach and `hotmount status`.
func show(ctx context.Context, out io.Writer, c *worker.Container) (screen string, err error) {
	blank, data, lvm := device(c, 0), device(c, 1), device(c, 2)
	for _, l := range []look{
		{"attach blank.img # a blank disk of 1 GiB", []string{blank}},
		{"attach data.img  # a disk with an ext4 filesystem and a file", []string{data}},
		{"attach lvm.img   # a disk with LVM", []string{lvm}},
		{waitForState(blank, "mounted"), nil},
		{waitForState(data, "mounted"), nil},
		{waitForState(lvm, "refused"), nil},
		{"lsblk -o NAME,SIZE,FSTYPE,UUID,MOUNTPOINT " + strings.Join([]string{"/dev/" + blank, "/dev/" + data, "/dev/" + lvm}, " "), []string{"xfs", "ext4", "LVM2_member", "/mnt/disks/"}},
		{"findmnt -t xfs,ext4", []string{"/mnt/disks/", "nodev"}},
		{"ls /mnt/disks/*", []string{"precious"}},
		{"hotmount status || [ $? = 3 ] # one disk is refused", []string{blank, data, lvm, "LVM2"}},
		{`journalctl --no-pager -o short -u "$(systemd-escape -p --suffix=mount "$(findmnt -no TARGET /dev/` + blank + `)")"`, []string{"formatted: xfs"}},
		{"hotmount plan", []string{blank, data, lvm}},
		{"systemctl --no-pager --lines=0 status hotmount", []string{"active (running)", "2 mounted"}},
	} {
		output, err := l.run(ctx, c)
		if err != nil {
			return "", err
		}
		if l.words == nil {
			continue
		}
		command, _, _ := strings.Cut(l.command, " ||") // the user does not see the error handling after ||
		shown := prompt + command + "\n" + output + "\n"
		fmt.Fprint(out, "\n", shown)
		if strings.HasPrefix(command, "attach ") || command == "hotmount status" {
			screen += shown
		}
	}
	return screen, nil
}

// waitForState returns a script that waits until hotmount status shows the disk in the given state.
func waitForState(name, state string) string {
	return fmt.Sprintf("until hotmount status | grep -E '%s .*%s'; do sleep 0.2; done", name, state)
}

// The method `run` executes the command and returns its output.
func (l look) run(ctx context.Context, c *worker.Container) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // enough time even on an emulated processor
	defer cancel()
	output, err := c.Run(ctx, ". /root/.bashrc\n"+l.command)
	if err != nil {
		return "", err
	}
	for _, word := range l.words {
		if !strings.Contains(output, word) {
			return "", fmt.Errorf("%s does not print %q: %s", l.command, word, output)
		}
	}
	return strings.TrimRight(output, "\n"), nil
}

// device returns the name of the container's loop device n, counted from 0.
func device(c *worker.Container, n int) string { return fmt.Sprintf("loop%d", c.First()+n) }

// The function `shell` runs a shell in the container until the user leaves the shell. If standard input is not a
// terminal, the function `shell` does nothing.
func shell(ctx context.Context, out io.Writer, c *worker.Container) error {
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	fmt.Fprintf(out, "\nA shell in the container. Try: attach mine.img; hotmount status; hotmount release %[1]s; detach %[1]s; exit\n", device(c, 0))
	bash := c.Command(ctx, "bash", "-i")
	bash.Stdin, bash.Stdout, bash.Stderr = os.Stdin, out, os.Stderr
	var left interface{ ExitCode() int }
	if err := bash.Run(); err != nil && !errors.As(err, &left) {
		return err
	}
	return nil
}
