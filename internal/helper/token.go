package helper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/store"
	"hotmount/internal/unit"
)

// PrintToken prints what is on the disk, and the token with which Confirm formats the disk. PrintToken only reads from
// the disk.
func PrintToken(ctx context.Context, h inventory.Host, w io.Writer, name string) error {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	f, err := h.For(s).ByName(name)
	if err != nil {
		return err
	}
	if err := learnFailure(h, f, policy.Select(f, s)); err != nil {
		return err
	}
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	// If hotmount refuses the disk whatever its content is, the disk need not be read.
	if err := checkConfirmable(f, s); err != nil {
		return err
	}
	var content disk.Content
	var token string
	var overridden []policy.Condition
	err = proven(ctx, h, f, s, func(session *format.Session, c disk.Content) (err error) {
		if d, ok := policy.Confirmable(f, &c, s); !ok {
			return notConfirmable(f, &c, s, d)
		}
		content, overridden = c, unmetConditions(f, &c, s)
		token, err = session.Token(ctx, tokenText(boot, overridden))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, disk sequence number %d, holds %s:\n", report.Name(f), f.Seq, describeContent(&content))
	for _, line := range content.Evidence {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if why := f.Standing.MountFailure; why != "" {
		fmt.Fprintf(w, "The disk could not be mounted: %s\n", strings.ReplaceAll(why, "\n", "; "))
	}
	if len(overridden) > 0 {
		fmt.Fprintln(w, "These conditions for a format are not met, and the token overrides them:")
	}
	for _, c := range overridden {
		fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(c.Wanted+": "+c.Found, ": "))
	}
	_, err = fmt.Fprintf(w, "To format the disk with %s, and lose everything that is on the disk:\n  hotmount format %s --confirm %s\n", policy.Select(f, s).Create, f.Name, token)
	return err
}

// learnFailure adds the daemon's error of the failed mount to the facts of the disk. Only the daemon knows this error.
// If the node or the class's options are at fault, learnFailure returns an error, because the filesystem may be
// healthy.
func learnFailure(h inventory.Host, f *disk.Facts, class *disk.Class) error {
	lines, err := h.Store.Published()
	for _, l := range lines {
		if l.Disk != f.Name || l.Seq != f.Seq || l.Decision.Action != disk.Mount || l.Failure == "" || class == nil {
			continue
		}
		if l.OfNode {
			return fmt.Errorf("cannot format %s: the mount fails because of the node, so a format would not help: %s; nothing is written", f.Name, l.Failure)
		}
		// The daemon has no right to try mount options with the kernel, and the journal may lack the kernel's message.
		fstype := l.Decision.Type
		if fault := refused(h.Store, class, fstype); fault != nil {
			return fmt.Errorf("cannot format %s: the mount fails because of the node or the class, so a format would not help: %w; nothing is written; %s", f.Name, fault, optionsRemedy(class))
		}
		f.Standing.MountFailure = l.Failure
	}
	return err
}

// unmetConditions returns the unmet conditions for a format of the disk, except the condition that the disk is blank.
func unmetConditions(f *disk.Facts, c *disk.Content, s *disk.Settings) []policy.Condition {
	all := policy.Conditions(f, c, s, policy.Select(f, s))
	all = all[:len(all)-1] // the last condition is that the disk is blank
	return slices.DeleteFunc(all, func(c policy.Condition) bool { return c.Held })
}

// tokenText returns the text to which a token is bound: the boot id and the conditions that the token overrides. The
// token becomes invalid if hotmount gets a new reason to hold the disk, or if a condition now names other data or
// another disk.
func tokenText(boot string, overridden []policy.Condition) string {
	for _, c := range overridden {
		boot += "\n" + c.Wanted
		if c.Names {
			boot += ": " + c.Found
		}
	}
	return boot
}

// describeContent describes the content of the disk in words.
func describeContent(c *disk.Content) string {
	s := string(c.Kind)
	switch c.Kind {
	case disk.Unknown:
		s = "unknown content"
	case disk.Other:
		s = "something"
	case disk.Filesystem:
		s = "a filesystem"
	case disk.Blank: // the disk is a former block volume
		s = "nothing"
	}
	if c.Type != "" {
		s += " (" + disk.Visible(c.Type) + ")"
	}
	if c.Label != "" {
		s += ", label " + disk.Visible(c.Label)
	}
	return s
}

var tokenPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ValidToken reports whether the text has the form of a token from PrintToken.
func ValidToken(text string) bool { return tokenPattern.MatchString(text) }

// Confirm makes PID 1 run the unit that formats the disk, and prints the answer of the unit. hotmount-format@.service
// itself checks whether the token is valid. After a success, Confirm makes the daemon behind the control socket look at
// the disk, because the daemon may have held the disk until now.
func Confirm(ctx context.Context, h inventory.Host, w io.Writer, name, token, socket string) (err error) {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	f, err := h.For(s).ByName(name)
	if err != nil {
		return err
	}
	end, err := h.Store.Confirming(f.Seq)
	if err != nil {
		return fmt.Errorf("cannot format %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	withdraw, err := h.Store.Confirm(f.Seq, token)
	if err != nil {
		return err
	}
	// A proof that is already running does not see the token. The request to PID 1 returns when the running proof ends,
	// and only the next proof takes the token.
	var manager unit.Manager
	jobErr, taken := error(nil), false
	for !taken && jobErr == nil {
		jobErr = manager.Run(ctx, disk.ProgramFormat, f.ID, "")
		if taken, err = h.Store.Taken(f.Seq); err != nil {
			return errors.Join(err, withdraw(), jobErr)
		}
	}
	// After the withdrawal no unit can take the token, but a unit may have taken the token just before the withdrawal.
	err = withdraw()
	if err == nil && !taken {
		taken, err = h.Store.Taken(f.Seq)
	}
	if err != nil {
		return errors.Join(err, jobErr)
	}
	answer, err := h.Store.TakeAnswer(f.Seq)
	switch {
	case errors.Is(err, store.ErrNoAnswer) && taken:
		err = fmt.Errorf("cannot tell whether %s is formatted: a unit has started with the token, and may still be running; to see its result: journalctl -u hotmount-format@%d", name, f.Seq)
	case errors.Is(err, store.ErrNoAnswer):
		err = errors.New("no unit has taken the token, and nothing was formatted; no unit can take the token later")
	case err == nil && answer.Failure != "":
		err = errors.New(answer.Failure)
	}
	if err = errors.Join(err, jobErr); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s is formatted: %s %s\n", f.ID, cmp.Or(answer.Type, disk.XFS), answer.UUID)
	return errors.Join(err, hint(ctx, socket, f.Seq))
}
