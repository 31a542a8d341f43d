package helper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/internal/unit"
)

// ExportUnits writes one static mount unit for each filesystem that hotmount has mounted, and prints how to use the
// units. The parameter `dir` is the directory for the unit files.
func ExportUnits(w io.Writer, dir string, disks []disk.Facts, s *disk.Settings) error {
	var names []string
	for i := range disks {
		f := &disks[i]
		c := f.KnownContent()
		d := policy.Decide(f, &c, s)
		if d.GivenOut() {
			fmt.Fprintf(w, "%s is given out as a block volume: a unit file cannot give out a disk\n", f.Node())
		}
		if !d.Mounted() {
			continue
		}
		class := policy.Select(f, s)
		u := unit.MountUnit{
			ID: f.ID, Path: class.MountPoint(d.UUID), Type: d.Type, Options: class.MountOptions(d.Type), Timeout: unit.MountTimeout,
			Description: fmt.Sprintf("%s filesystem %s, with the mount options of hotmount", d.Type, d.UUID),
		}
		text, err := u.Static()
		if err != nil {
			return err
		}
		if err := writeNew(filepath.Join(dir, unit.Name(u.Path)), text); err != nil {
			return fmt.Errorf("cannot write the unit of %s: %w", f.ID, err)
		}
		names = append(names, unit.Name(u.Path))
	}
	if len(names) == 0 {
		_, err := fmt.Fprintln(w, "hotmount has no filesystem mounted, and no unit file was written")
		return err
	}
	_, err := fmt.Fprintf(w, "%s written to %s. To mount these filesystems without hotmount from the next boot on:\n  apt remove hotmount\n  systemctl daemon-reload\n  systemctl enable '%s'\n",
		disk.Count(len(names), "unit"), disk.Visible(dir), strings.Join(names, "' '"))
	return err
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
