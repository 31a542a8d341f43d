package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// aptSource is one suite of one archive that apt may use.
type aptSource struct {
	URI      string
	Suite    string
	SignedBy string // the path of a keyring, or empty for apt's default keyrings
	Trusted  bool
}

// The method `line` returns the source in the one-line format of sources.list(5).
func (s aptSource) line() string {
	var options []string
	if s.SignedBy != "" {
		options = append(options, "signed-by="+s.SignedBy)
	}
	if s.Trusted {
		options = append(options, "trusted=yes")
	}
	bracket := ""
	if len(options) > 0 {
		bracket = "[" + strings.Join(options, " ") + "] "
	}
	return fmt.Sprintf("deb %s%s %s main", bracket, s.URI, s.Suite)
}

// debianSources returns a sources.list(5) for the given Debian release. debianSources takes the Debian sources of this
// machine's apt, keeps only the component main, and replaces this machine's release by the given release. The machine's
// settings are read from the directory etc below root.
func debianSources(root, suite string) (string, error) {
	own, err := ownSuite(root)
	if err != nil {
		return "", err
	}
	all, err := readSources(root)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, s := range all {
		rewritten, ok := rewriteSuite(s.Suite, own, suite)
		if !ok || !debianSigned(s) {
			continue
		}
		s.Suite = rewritten
		if l := s.line(); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("cannot find a Debian source (%s, main) in %s", own, filepath.Join(root, "etc/apt"))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// rewriteSuite replaces this machine's Debian release (own) by another release (want) in the name of an apt suite.
// rewriteSuite returns false for any suite except the release itself, its updates and its security updates.
func rewriteSuite(s, own, want string) (string, bool) {
	switch strings.TrimSuffix(s, "/") {
	case own:
		return want, true
	case own + "-updates":
		return want + "-updates", true
	case own + "-security", own + "/updates":
		return want + "-security", true
	}
	return "", false
}

// debianSigned reports whether an apt source comes from Debian, and not from a vendor that uses Debian's release names.
// An apt source of another vendor names the vendor's own keyring.
func debianSigned(s aptSource) bool {
	return s.SignedBy == "" || strings.HasPrefix(filepath.Base(s.SignedBy), "debian-archive-")
}

// ownSuite returns the name of the Debian release that is installed below root.
func ownSuite(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", fmt.Errorf("cannot tell which Debian this is: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[k] = strings.Trim(v, `"'`)
		}
	}
	if values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return "", fmt.Errorf("cannot use this machine's apt sources: it is %q %q, not a Debian release",
			values["ID"], values["VERSION_CODENAME"])
	}
	return values["VERSION_CODENAME"], nil
}

// readSources returns the enabled binary sources with the component main from the apt settings below root.
func readSources(root string) ([]aptSource, error) {
	etc := filepath.Join(root, "etc/apt")
	files := []string{filepath.Join(etc, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, err := filepath.Glob(filepath.Join(etc, "sources.list.d", pattern))
		if err != nil {
			return nil, fmt.Errorf("cannot list apt's sources: %w", err)
		}
		files = append(files, found...)
	}
	var all []aptSource
	for _, file := range files {
		b, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read apt's sources: %w", err)
		}
		if strings.HasSuffix(file, ".sources") {
			all = append(all, parseDeb822(string(b))...)
		} else {
			all = append(all, parseOneLine(string(b))...)
		}
	}
	return all, nil
}

var oneLine = regexp.MustCompile(`^deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s+(.+)$`)

// parseOneLine reads the one-line format of sources.list(5).
func parseOneLine(text string) []aptSource {
	var all []aptSource
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		m := oneLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !slices.Contains(strings.Fields(m[4]), "main") {
			continue
		}
		s := aptSource{URI: m[2], Suite: m[3]}
		for _, option := range strings.Fields(m[1]) {
			k, v, _ := strings.Cut(option, "=")
			switch strings.ToLower(k) {
			case "signed-by":
				s.SignedBy = v
			case "trusted":
				s.Trusted = v == "yes"
			}
		}
		all = append(all, s)
	}
	return all
}

// parseDeb822 reads the deb822 format of sources.list(5).
func parseDeb822(text string) []aptSource {
	var all []aptSource
	fields := map[string]string{}
	flush := func() {
		all = append(all, fromStanza(fields)...)
		fields = map[string]string{}
	}
	last := ""
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
			last = ""
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			k, v, _ := strings.Cut(line, ":")
			last = strings.ToLower(k)
			fields[last] = strings.TrimSpace(v)
		}
	}
	flush()
	return all
}

func fromStanza(fields map[string]string) []aptSource {
	if !slices.Contains(strings.Fields(fields["types"]), "deb") ||
		!slices.Contains(strings.Fields(fields["components"]), "main") ||
		slices.Contains([]string{"no", "false", "0"}, strings.ToLower(fields["enabled"])) {
		return nil
	}
	var all []aptSource
	for _, uri := range strings.Fields(fields["uris"]) {
		for _, suite := range strings.Fields(fields["suites"]) {
			all = append(all, aptSource{
				URI:      uri,
				Suite:    suite,
				SignedBy: strings.TrimSpace(fields["signed-by"]),
				Trusted:  strings.EqualFold(fields["trusted"], "yes"),
			})
		}
	}
	return all
}

// aptOptions returns this machine's apt settings for reaching archives, such as proxies, as configuration lines.
func aptOptions(ctx context.Context) ([]string, error) {
	out, err := command(ctx, nil, "apt-config", "dump")
	if err != nil {
		return nil, err
	}
	return filterAptOptions(out), nil
}

var transport = regexp.MustCompile(`^Acquire::(http|https|ftp|tor|Check-[A-Za-z-]+|Retries|ForceIPv[46]|Max-FutureTime|` +
	`AllowInsecureRepositories|AllowReleaseInfoChange)(::\S*)? "[^"]+";$`)

func filterAptOptions(dump string) []string {
	var options []string
	for line := range strings.Lines(dump) {
		if line = strings.TrimSpace(line); transport.MatchString(line) {
			options = append(options, line)
		}
	}
	return options
}

// workerPackages are the Debian packages on the host whose programs a [Worker] needs.
var workerPackages = []string{
	"mmdebstrap", "debian-archive-keyring", "e2fsprogs", "qemu-system-x86", "qemu-utils", "seabios", "openssh-client",
}

var libvirtPackages = []string{"libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients", "util-linux", "mount"}

// Prepare checks that the Debian packages for a [Worker] are installed. If the caller is root, Prepare installs the
// missing packages. For any other user, Prepare returns an error that names the missing packages. [Start] calls
// Prepare.
func Prepare(ctx context.Context, progress io.Writer) error {
	return Need(ctx, progress, workerPackages)
}

// PrepareLibvirt prepares the host for a [Libvirt] as [Prepare] does for a [Worker]. [StartLibvirt] calls
// PrepareLibvirt.
func PrepareLibvirt(ctx context.Context, progress io.Writer) error {
	return Need(ctx, progress, slices.Concat(workerPackages, libvirtPackages))
}

// Need checks that the given Debian packages are installed. If the caller is root, Need installs the missing
// packages. For any other user, Need returns an error that names the missing packages.
func Need(ctx context.Context, progress io.Writer, packages []string) error {
	return requirePackages(ctx, progress, packages, os.Getuid())
}

func requirePackages(ctx context.Context, progress io.Writer, packages []string, uid int) error {
	missing := missingPackages(ctx, packages)
	if len(missing) == 0 {
		return nil
	}
	if uid != 0 {
		return fmt.Errorf("these Debian packages are missing: %s", strings.Join(missing, " "))
	}
	c, err := openCache()
	if err != nil {
		return err
	}
	lock, err := c.lock(ctx, "apt", lockExclusive)
	if err != nil {
		return err
	}
	defer lock.Close()
	if missing = missingPackages(ctx, packages); len(missing) == 0 {
		return nil
	}
	reportStep(progress, "installing %s …", strings.Join(missing, " "))
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	install := append([]string{"-y", "-q", "-o", "DPkg::Lock::Timeout=600", "--no-install-recommends", "install"}, missing...)
	if _, err := command(ctx, env, "apt-get", install...); err == nil {
		return nil
	}
	// The installation failed, most likely because the package lists are missing or old.
	if _, err := command(ctx, env, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", "update"); err != nil {
		return err
	}
	_, err = command(ctx, env, "apt-get", install...)
	return err
}

// missingPackages returns the packages that dpkg does not list as installed.
func missingPackages(ctx context.Context, packages []string) []string {
	// dpkg-query fails if a package is unknown, but still prints the known packages.
	out, _ := command(ctx, nil, "dpkg-query", append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n"}, packages...)...)
	var missing []string
	for _, p := range packages {
		if !slices.Contains(strings.Split(out, "\n"), p+" installed") {
			missing = append(missing, p)
		}
	}
	return missing
}

// reportStep reports a step that takes a long time.
func reportStep(progress io.Writer, format string, args ...any) {
	if progress != nil {
		fmt.Fprintf(progress, "worker: "+format+"\n", args...)
	}
}
