package format

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/run"
)

// lts is the path of the mkfs.xfs configuration file with the features that Linux 6.1 and Debian 12's xfs_repair
// support (mkfs.xfs(8), "-c options="). The configuration file and mkfs.xfs are from the same version of xfsprogs. The
// configuration file therefore contains a line for each feature that mkfs.xfs may choose.
const lts = "/usr/share/xfsprogs/mkfs/lts_6.1.conf"

// guard switches off the XFS features that the configuration file lts switches off. Linux 6.1 cannot mount some of
// these features. The zero value of guard is for mkfs.xfs before version 6.5, which chooses only features that Linux
// 6.1 can mount.
type guard struct {
	// The field `file` is the constant `lts`. The field `file` is empty if the configuration file does not exist, or if the
	// installed mkfs.xfs needs no guard. The field `features` contains the features to set, which come from the
	// configuration file or from ltsFeatures.
	file     string
	features []feature
}

// feature is an XFS feature, written as on the command line of mkfs.xfs.
type feature struct{ flag, key, value string }

// isNamedIn reports whether one of the class's options sets the feature, to any value.
func (f feature) isNamedIn(class []string) bool {
	return slices.ContainsFunc(class, func(o string) bool {
		flag, values, _ := strings.Cut(o, " ")
		return flag == f.flag && strings.Contains(","+values, ","+f.key+"=")
	})
}

// ltsFeatures is the list of features to set if the mkfs.xfs configuration file lts is missing. The field `since` is the
// minor version of the first mkfs.xfs 6 that accepts the option, or 5 for all older options (doc/CHANGES in xfsprogs).
var ltsFeatures = []struct {
	feature
	since int
}{
	{feature{"-m", "bigtime", "1"}, 5}, {feature{"-m", "crc", "1"}, 5}, {feature{"-m", "finobt", "1"}, 5}, {feature{"-m", "inobtcount", "1"}, 5},
	{feature{"-m", "metadir", "0"}, 13}, {feature{"-m", "reflink", "1"}, 5}, {feature{"-m", "rmapbt", "0"}, 5}, {feature{"-m", "autofsck", "0"}, 10},
	{feature{"-i", "sparse", "1"}, 5}, {feature{"-i", "nrext64", "0"}, 5}, {feature{"-i", "exchange", "0"}, 10}, {feature{"-n", "parent", "0"}, 10},
}

// chooseGuard returns the guard for the installed mkfs.xfs. From version 6.5 on, mkfs.xfs enables features by default
// that lts switches off. mkfs.xfs 6.1.0 does not accept its own configuration file lts, because the file sets nrext64
// in the wrong section.
func chooseGuard(ctx context.Context, r run.Runner, sys system) (guard, error) {
	c := run.Command{Path: mkfs, Args: []string{"-V"}, Timeout: MkfsTime}
	res, err := r.Run(ctx, c)
	if err != nil {
		return guard{}, err
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(res.Stdout), "mkfs.xfs version %d.%d", &major, &minor); err != nil || res.ExitCode != 0 {
		return guard{}, fmt.Errorf("cannot understand %s: exit code %d, output %q", c, res.ExitCode, disk.Visible(string(res.Stdout)))
	}
	if major < 6 || major == 6 && minor < 5 {
		return guard{}, nil
	}
	text, err := sys.readFile(lts)
	if errors.Is(err, fs.ErrNotExist) {
		var g guard
		for _, f := range ltsFeatures {
			if major > 6 || minor >= f.since {
				g.features = append(g.features, f.feature)
			}
		}
		return g, nil
	}
	if err != nil {
		return guard{}, err
	}
	features, err := parseFeatures(string(text))
	return guard{lts, features}, err
}

// The map `flags` contains the mkfs.xfs flags for sections of a configuration file ("Section Name" in mkfs.xfs(8)). The
// map leaves out sections that lts does not need, such as "sector".
var flags = map[string]string{"block": "-b", "data": "-d", "inode": "-i", "log": "-l", "metadata": "-m", "naming": "-n", "realtime": "-r"}

// parseFeatures parses the text of a configuration file of mkfs.xfs.
func parseFeatures(text string) ([]feature, error) {
	var all []feature
	flag := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, option := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		section, ends := strings.CutSuffix(line, "]")
		section, begins := strings.CutPrefix(section, "[")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case begins && ends && flags[section] != "":
			flag = flags[section]
		case option && flag != "" && key != "" && value != "" && !strings.ContainsAny(key+value, " \t,;[]"):
			all = append(all, feature{flag, key, value})
		default:
			return nil, fmt.Errorf("cannot understand %q in %s", disk.Visible(line), lts)
		}
	}
	return all, nil
}
