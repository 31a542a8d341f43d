package doctor

import (
	"fmt"
	"io"
	"strings"

	"hotmount/internal/disk"
)

// Print writes the report as text for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	for _, h := range r.Host {
		shared := "not shared"
		if h.Shared != 0 {
			shared = "shared"
		}
		fmt.Fprintf(&b, "%s (class %s) on the host: %s, %s mounted\n", h.Directory, h.Class, shared, disk.Count(len(h.Mounts), "disk"))
		for _, s := range r.Seen {
			if s.Class == h.Class {
				fmt.Fprintf(&b, "  %s %d (%s): %s\n", s.Process.Role, s.Process.PID, disk.Visible(s.Process.Name), s.words())
			}
		}
	}
	printed := map[string]bool{}
	for _, f := range r.Findings {
		// The code that makes a finding should already escape text from other programs. disk.Printable replaces the
		// unprintable characters that remain.
		fmt.Fprintf(&b, "\n%s: %s\n", strings.ToUpper(string(f.Level)), disk.Printable(f.What))
		if f.Data != "" {
			fmt.Fprintf(&b, "  the data: %s %s\n", disk.Visible(f.Data), r.whereIs(&f))
		}
		if f.Reach != "" {
			fmt.Fprintf(&b, "  readable now at: %s\n", disk.Visible(f.Reach))
		}
		if lines := strings.Join(f.Do, "\n"); printed[lines] {
			b.WriteString("    (the commands above help here, too)\n")
		} else if lines != "" {
			printed[lines] = true
			for _, line := range f.Do {
				fmt.Fprintf(&b, "    %s\n", disk.Printable(line))
			}
		}
	}
	if len(r.Findings) == 0 {
		b.WriteString("\nnothing found\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// whereIs describes the disk that holds the data of a finding.
func (r *Report) whereIs(f *Finding) string {
	if f.Kind == NotItsDisk {
		return "on the host"
	}
	for _, h := range r.Host {
		for _, m := range h.Mounts {
			if disk.IsBelow(f.Data, m.Path) {
				return "on the host's system disk, hidden by a mount"
			}
		}
	}
	return "on the host's system disk"
}

// words returns a text about what one process sees of a class directory.
func (s *Seen) words() string {
	dir := disk.Visible(s.Directory)
	switch s.Sees {
	case seesAbsent:
		return dir + " is not there"
	case seesOther:
		return dir + " is a different directory than on the host"
	case seesUnknown:
		return dir + " cannot be seen"
	}
	right := 0
	for _, m := range s.Mounts {
		if m.Sees == seesSame {
			right++
		}
	}
	later := "later mounts arrive"
	if !s.Arrives {
		later = "later mounts do NOT arrive"
	}
	return fmt.Sprintf("%d of %s as on the host, %s", right, disk.Count(len(s.Mounts), "disk"), later)
}
