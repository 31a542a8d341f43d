package format

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

const (
	mkfs = "/usr/sbin/mkfs.xfs"
	// lts is the set of features that Linux 6.1 and Debian 12's xfs_repair know
	// (mkfs.xfs(8), "-c options=").
	lts = "/usr/share/xfsprogs/mkfs/lts_6.1.conf"
)

// MkfsTime is far more than the some 65 writes of mkfs.xfs need on a disk that
// answers, whatever its size.
const MkfsTime = 10 * time.Minute

// making is one run of mkfs.xfs.
type making struct {
	node, uuid string
	// options is a configuration file for mkfs.xfs, empty for none.
	options string
	// class are the options that the class wants, proto is a prototype file for the
	// root directory (mkfs.xfs(8), "-p"), empty for none.
	class []string
	proto string
	// dry asks for the same checks and no write.
	dry bool
	// over makes it overwrite the XFS that is there: our own, half made.
	over bool
}

// args is the only place where arguments for mkfs.xfs are put together. -K, no
// discard: if all the proofs were wrong after all, most of the old data is
// still there. Its output is wanted for the journal, so no -q.
func (m making) args() []string {
	var args []string
	if m.dry {
		args = append(args, "-N")
	}
	if m.over {
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

// ltsFeatures are those of lts_6.1.conf that mkfs.xfs would not choose of its own
// accord, or that a class may name.
var ltsFeatures = []struct{ flag, key, value string }{
	{"-m", "bigtime", "1"}, {"-m", "finobt", "1"}, {"-m", "inobtcount", "1"}, {"-m", "reflink", "1"}, {"-m", "rmapbt", "0"},
	{"-i", "sparse", "1"}, {"-i", "nrext64", "0"},
}

// features returns the configuration file, or where the class names a feature, which
// mkfs.xfs does not take beside a file that names it too, what else is in the file.
func (m making) features() []string {
	if m.options == "" {
		return nil
	}
	var rest []string
	for _, f := range ltsFeatures {
		named := slices.ContainsFunc(m.class, func(o string) bool {
			flag, values, _ := strings.Cut(o, " ")
			return flag == f.flag && strings.Contains(","+values, ","+f.key+"=")
		})
		if !named {
			rest = append(rest, f.flag, f.key+"="+f.value)
		}
	}
	if len(rest) == 2*len(ltsFeatures) {
		return []string{"-c", "options=" + m.options}
	}
	return rest
}

// run returns what mkfs.xfs printed, line by line, and how many bytes it has written. Its
// own refusals suggest -f: they are handed on and never acted on.
func (m making) run(ctx context.Context, r run.Runner) ([]string, uint64, error) {
	return runMkfs(ctx, r, run.Command{Path: mkfs, Args: m.args(), Timeout: MkfsTime}, m.dry)
}

func runMkfs(ctx context.Context, r run.Runner, c run.Command, dry bool) ([]string, uint64, error) {
	res, err := r.Run(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	if res.ExitCode != 0 {
		err := fmt.Errorf("cannot run %s: exit code %d: %s", c, res.ExitCode, disk.Visible(strings.TrimSpace(string(res.Stderr))))
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

// chooseOptions returns lts where it is needed, empty where it is not: from 6.5 on
// mkfs.xfs turns on newer features of its own accord. 6.1.0 has the file too and
// does not accept it, nrext64 being in the wrong section.
func chooseOptions(ctx context.Context, r run.Runner, sys system) (string, error) {
	c := run.Command{Path: mkfs, Args: []string{"-V"}, Timeout: MkfsTime}
	res, err := r.Run(ctx, c)
	if err != nil {
		return "", err
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(res.Stdout), "mkfs.xfs version %d.%d", &major, &minor); err != nil || res.ExitCode != 0 {
		return "", fmt.Errorf("cannot understand %s: exit code %d, output %q", c, res.ExitCode, disk.Visible(string(res.Stdout)))
	}
	if major < 6 || major == 6 && minor < 5 {
		return "", nil
	}
	if there, err := sys.exists(lts); err != nil || !there {
		return "", err
	}
	return lts, nil
}

// Prototype returns the content of a prototype file for a root directory of that owner
// ("UID:GID") and octal mode, empty for what mkfs.xfs does of itself
// (mkfs.xfs(8), "-p protofile").
func Prototype(owner, mode string) (string, error) {
	var uid, gid uint32
	var bits uint16
	if (owner == "" || owner == "0:0") && (mode == "" || mode == "0755") {
		return "", nil
	}
	if _, err := fmt.Sscanf(owner+" "+mode, "%d:%d %o", &uid, &gid, &bits); err != nil || bits&^0o6777 != 0 {
		return "", fmt.Errorf("cannot take %q and %q for owner and mode of a root directory", owner, mode)
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

// Agrees asks mkfs.xfs, which writes nothing (-N), whether it takes the class's
// options and the prototype file, for a disk of 1 GiB. The file is made, and empty.
func Agrees(ctx context.Context, r run.Runner, class []string, proto, file string) error {
	options, err := chooseOptions(ctx, r, linux{})
	if err != nil {
		return err
	}
	o := MakeOptions{Mkfs: class, Proto: proto, Intent: disk.Intent{UUID: "00000000-0000-4000-8000-000000000000"}}
	m := o.making("-dfile,name="+file+",size=1g", options)
	_, _, err = m.run(ctx, r)
	return err
}
