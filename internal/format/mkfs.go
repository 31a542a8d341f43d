package format

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

const mkfs = "/usr/sbin/mkfs.xfs"

// MkfsTime is the time limit for one run of mkfs. mkfs.xfs makes about 65 writes for four allocation groups, so a
// responsive disk needs far less time than MkfsTime.
const MkfsTime = 10 * time.Minute

// making is one run of mkfs.xfs.
type making struct {
	node, uuid string
	guard      guard
	// The field `class` contains the options of the disk's class. The field `proto` is the path of a prototype file for the
	// root directory (mkfs.xfs(8), "-p"), or empty if there is none.
	class []string
	proto string
	// If dry is set, mkfs.xfs only runs its checks and writes nothing (-N).
	dry bool
	// If overwrite is set, mkfs.xfs overwrites content (-f): hotmount's own half-made XFS or, with a token, any
	// content.
	overwrite bool
}

// args returns the arguments of mkfs.xfs. -K disables discard, so that most of the old data would survive if all proofs
// were wrong. The option -q is absent, because hotmount logs the output of mkfs.xfs to the journal.
func (m making) args() []string {
	var args []string
	if m.dry {
		args = append(args, "-N")
	}
	if m.overwrite {
		args = append(args, "-f")
	}
	args = append(args, m.features()...)
	for _, o := range m.class {
		args = append(args, strings.Fields(o)...)
	}
	if m.proto != "" {
		args = append(args, "-p", m.proto)
	}
	return append(args, "-K", "-m", "uuid="+m.uuid, m.node)
}

// The method `features` returns the arguments that set the XFS features of the guard. mkfs.xfs rejects a feature
// that is both in the configuration file and in an option. If the class sets a feature that the configuration file also
// sets, mkfs.xfs does not get the configuration file. Instead, mkfs.xfs gets one option for each feature in the file,
// except the features that the class sets.
func (m making) features() []string {
	var rest []string
	for _, f := range m.guard.features {
		if !f.isNamedIn(m.class) {
			rest = append(rest, f.flag, f.key+"="+f.value)
		}
	}
	if m.guard.file != "" && len(rest) == 2*len(m.guard.features) {
		return []string{"-c", "options=" + m.guard.file}
	}
	return rest
}

// run returns the lines that mkfs.xfs printed, and the number of bytes that mkfs.xfs wrote. If mkfs.xfs refuses a disk,
// its message suggests -f. hotmount reports the message of mkfs.xfs, but does not add -f.
func (m making) run(ctx context.Context, r run.Runner) ([]string, uint64, error) {
	return runMkfs(ctx, r, run.Command{Path: mkfs, Args: m.args(), Timeout: MkfsTime}, m.dry)
}

func runMkfs(ctx context.Context, r run.Runner, c run.Command, dry bool) ([]string, uint64, error) {
	res, err := r.Run(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	if res.ExitCode != 0 {
		err := fmt.Errorf("cannot run %s: exit code %d: %s", c, res.ExitCode, disk.Output(res.Stderr))
		if dry {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, 0, err
	}
	var lines []string
	for line := range strings.Lines(string(res.Stdout) + string(res.Stderr)) {
		lines = append(lines, disk.Visible(strings.TrimRight(line, "\n")))
	}
	return lines, res.Wrote, nil
}

// Prototype returns the content of a prototype file for a root directory with the given owner ("UID:GID") and octal
// mode (mkfs.xfs(8), "-p protofile"). The content is empty if owner and mode are the defaults of mkfs.xfs.
func Prototype(owner, mode string) (string, error) {
	var uid, gid uint32
	var bits uint16
	if (owner == "" || owner == "0:0") && (mode == "" || mode == "0755") {
		return "", nil
	}
	if _, err := fmt.Sscanf(owner+" "+mode, "%d:%d %o", &uid, &gid, &bits); err != nil || bits&^0o6777 != 0 {
		return "", fmt.Errorf("%q and %q are not an owner and a mode for a root directory", owner, mode)
	}
	set := []byte("--")
	if bits&0o4000 != 0 {
		set[0] = 'u'
	}
	if bits&0o2000 != 0 {
		set[1] = 'g'
	}
	return fmt.Sprintf("/dev/null\n0 0\nd%s%03o %d %d\n$\n", set, bits&0o777, uid, gid), nil
}

// Agrees returns an error unless mkfs.xfs accepts the class's options and the prototype file for a disk of 1 GiB. With
// -N, mkfs.xfs makes no filesystem, and only creates an empty file at the given path.
func Agrees(ctx context.Context, r run.Runner, class []string, proto, file string) error {
	g, err := chooseGuard(ctx, r, linux{})
	if err != nil {
		return err
	}
	o := MakeOptions{Mkfs: class, Proto: proto, Intent: disk.Intent{UUID: "00000000-0000-4000-8000-000000000000"}}
	m := o.making("-dfile,name="+file+",size=1g", g)
	_, _, err = m.run(ctx, r)
	return err
}
