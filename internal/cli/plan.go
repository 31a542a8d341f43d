package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"hotmount/internal/config"
	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/store"
	"hotmount/internal/usage"
)

// Prover is a function that reads a disk and returns its content.
type Prover func(ctx context.Context, f *disk.Facts, s *disk.Settings) (disk.Content, error)

// Plan prints for every disk what the daemon would do with the disk, and why. Plan omits an ignored disk without a
// size. Plan returns all disks. If verbose is true, Plan prints the evidence for each disk below the table. If the
// caller is root, Plan also reads the disks with unknown content, except the disks that the daemon reads (daemonReads).
func Plan(ctx context.Context, h inventory.Host, w io.Writer, s *disk.Settings, prove Prover, verbose bool) ([]disk.Facts, error) {
	disks, _, err := usage.Scan(ctx, h.For(s), usage.Hung{})
	if err != nil {
		return nil, err
	}
	published, err := h.Store.Published()
	if err != nil {
		return nil, err
	}
	boot, err := h.Boot()
	if err != nil {
		return nil, err
	}
	daemon := daemonState(h)
	installed := daemon == "running" || h.Store.Exists()
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	var evidence strings.Builder
	fmt.Fprintln(t, "DISK\tSIZE\tSERIAL\tDECISION\tWHY")
	for i := range disks {
		f := &disks[i]
		if !installed {
			// An installation of hotmount would record the attached disks. Plan therefore treats each disk as recorded.
			id := f.Identity(boot)
			f.Standing.Present, f.Standing.Formatting = &id, ""
		}
		c := f.KnownContent()
		d := policy.Decide(f, &c, s)
		line := lineOf(f, published)
		fails, helps := failing(line, d, daemon)
		reads := daemonReads(line, daemon)
		if d.Action == disk.Ignore && f.Size == 0 {
			continue // the disk has no size, such as a loop device without a file, or a drive without a medium
		}
		if d.Action == disk.Prove && !reads && os.Geteuid() == 0 {
			// Plan reads the disk and decides with the same functions as the daemon.
			if c, err = prove(ctx, f, s); err != nil {
				if errors.Is(err, format.ErrBusy) {
					err = fmt.Errorf("%w; to see whether a proof runs: systemctl status hotmount-format@%d", err, f.Seq)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, disk.HumanSize(f.Size), disk.Visible(f.Serial), d.Action, strings.ReplaceAll(err.Error(), "\n", "; "))
				continue
			}
			d = policy.Decide(f, &c, s)
		}
		if len(c.Evidence) > 0 {
			fmt.Fprintf(&evidence, "\n%s: %s: evidence:\n%s", f.Name, d.Action, indented(c.Evidence))
		}
		c.Evidence = nil // a line of the table has no room for the evidence
		why, next := policy.Words(f, &c, s, d)
		switch {
		case reads && d.Action == disk.Prove:
			next = "the daemon reads or formats the disk now; to see the result: hotmount status"
		case d.Action == disk.Prove:
			next = "to read the disk, run as root: hotmount plan"
		}
		if fails != "" {
			why, next = why+"; the last try failed: "+fails, helps
		}
		if next != "" {
			why += "; " + next
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, disk.HumanSize(f.Size), disk.Visible(f.Serial), d.Action, why)
	}
	if err := t.Flush(); err != nil {
		return nil, err
	}
	if verbose {
		if _, err := io.WriteString(w, evidence.String()); err != nil {
			return nil, err
		}
	}
	if os.Geteuid() != 0 {
		return disks, nil // only root may read the records of the store
	}
	notices, err := h.For(s).Notices(s)
	for _, n := range notices {
		fmt.Fprintln(w, n)
	}
	return disks, err
}

// daemonReads reports whether the daemon is reading or formatting the disk of the published line l. Plan and DumpOf must
// not read such a disk, because mkfs cannot open a disk that another process reads.
func daemonReads(l *disk.Line, daemon string) bool {
	return daemon == "running" && l != nil && (l.Decision.Action == disk.Prove || l.Decision.Action == disk.Format)
}

// WarnMissing warns about configured class directories that do not exist. hotmount.service creates only /mnt/disks.
func WarnMissing(w io.Writer, src config.Source, s *disk.Settings) error {
	var warnings strings.Builder
	for i := range s.Classes {
		key, dir := fmt.Sprintf("classes[%d].directory", i), s.Classes[i].Directory
		_, err := os.Stat(dir)
		if at := config.Origin(src, key); at != "default" && errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&warnings, "%s: warning: %s: %s does not exist; to make it: mkdir -p %[3]s\n", at, key, dir)
		}
	}
	_, err := io.WriteString(w, warnings.String())
	return err
}

// WarnUnused warns about the classes and exclusions in the configuration files that select none of the disks.
func WarnUnused(w io.Writer, src config.Source, disks []disk.Facts, s *disk.Settings) error {
	var warnings strings.Builder
	for _, key := range policy.Unused(disks, s) {
		if at := config.Origin(src, key); at != "default" {
			fmt.Fprintf(&warnings, "%s: warning: %s selects no attached disk\n", at, key)
		}
	}
	if warnings.Len() > 0 {
		warnings.WriteString("To compare with the attributes of a disk: hotmount explain DISK\n")
	}
	_, err := io.WriteString(w, warnings.String())
	return err
}

// WarnHeld warns about each class that holds new disks because of storage drivers on the node.
func WarnHeld(w io.Writer, h inventory.Host, s *disk.Settings) error {
	for _, line := range policy.Neighbours(h.Drivers(), s) {
		if _, err := fmt.Fprintln(w, "warning: "+line); err != nil {
			return err
		}
	}
	return nil
}

// OtherSettings prints a note if the settings differ from the settings of the daemon that runs, or that ran last since
// the boot. The daemon's unit may have another environment or other flags than this command. The configuration may also
// have changed since the daemon loaded it.
func OtherSettings(w io.Writer, st store.Store, s *disk.Settings) error {
	theirs, err := st.Settings()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // no daemon has run since the boot, or only root may read the daemon's settings
	}
	if err != nil {
		return err
	}
	here, err := byKey(s)
	daemons, theirErr := byKey(theirs)
	if err := errors.Join(err, theirErr); err != nil {
		return fmt.Errorf("cannot compare the settings with the daemon's settings: %w", err)
	}
	var differ []string
	for key, value := range here {
		if !bytes.Equal(value, daemons[key]) {
			differ = append(differ, key)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	_, err = fmt.Fprintf(w, "This command has read the configuration itself. The daemon uses other values for: %s\n"+
		"(to load a change: systemctl reload hotmount; to see the settings of the unit: systemctl cat hotmount).\n", strings.Join(differ, ", "))
	return err
}

// byKey returns the settings as a map from each key to its value in JSON.
func byKey(s *disk.Settings) (values map[string]json.RawMessage, err error) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	return values, err
}
