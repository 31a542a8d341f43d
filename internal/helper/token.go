package helper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"hotmount/internal/disk"
	"hotmount/internal/format"
	"hotmount/internal/inventory"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/store"
	"hotmount/internal/unit"
)

// Offer prints what is on the disk, and the token with which Confirm has it formatted. It only reads.
func Offer(ctx context.Context, h inventory.Host, w io.Writer, name string) error {
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	f, err := h.For(s).ByName(name)
	if err != nil {
		return err
	}
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	// A disk that is refused whatever is on it need not be read.
	if err := checkConfirmable(f, s); err != nil {
		return err
	}
	var content disk.Content
	var token string
	err = proven(ctx, h, f, s, func(session *format.Session, c disk.Content) (err error) {
		if d, ok := policy.Confirmable(f, &c, s); !ok {
			return notConfirmable(f, &c, s, d)
		}
		content = c
		token, err = session.Token(ctx, boot)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, disk sequence number %d, holds %s:\n", report.Name(f), f.Seq, what(&content))
	for _, line := range content.Evidence {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if g := f.Standing.Given; g != nil {
		fmt.Fprintf(w, "  it was given out as the block volume %s, first on %s\n", disk.Visible(g.Link), g.First.UTC().Format("2006-01-02"))
	}
	if u := f.Standing.Used; u != nil {
		fmt.Fprintf(w, "  somebody else on this node used it: %s\n", disk.Visible(u.How))
	}
	for _, d := range policy.Drivers(f, s) {
		fmt.Fprintf(w, "  a storage driver on this node can have brought it, or can take it: %s\n", disk.Visible(d))
	}
	if b := f.Standing.Before; b != nil {
		fmt.Fprintf(w, "  since it was attached %s %s lay on it\n", cmp.Or(b.Type, disk.XFS), b.UUID)
	}
	_, err = fmt.Fprintf(w, "To lose everything that is on it, and have it formatted with %s:\n  hotmount format %s --confirm %s\n", policy.Select(f, s).Create, f.Name, token)
	return err
}

// what describes the content of the disk in words.
func what(c *disk.Content) string {
	s := string(c.Kind)
	switch c.Kind {
	case disk.Unknown:
		s = "something unknown"
	case disk.Other:
		s = "something"
	case disk.Blank: // a former block volume
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

// ValidToken reports whether the text can be a token from Offer.
func ValidToken(text string) bool { return tokenPattern.MatchString(text) }

// Confirm makes PID 1 run the unit that formats, and prints its answer. The unit itself checks whether the token is
// valid.
func Confirm(ctx context.Context, h inventory.Host, w io.Writer, name, token string) (err error) {
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
	// A proof that is already running does not see the token. PID 1 then returns with that job, and only the next proof
	// takes the token.
	var manager unit.Manager
	jobErr, taken := error(nil), false
	for !taken && jobErr == nil {
		jobErr = manager.Format(ctx, f.Seq)
		if taken, err = h.Store.Taken(f.Seq); err != nil {
			return errors.Join(err, withdraw(), jobErr)
		}
	}
	// From here on nobody can take it, but somebody may have meanwhile.
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
		err = fmt.Errorf("cannot tell what became of %s: the token was taken, and what is under way goes on; see journalctl -u hotmount-format@%d", name, f.Seq)
	case errors.Is(err, store.ErrNoAnswer):
		err = errors.New("nobody has taken the token, and it is taken back")
	case err == nil && answer.Failure != "":
		err = errors.New(answer.Failure)
	}
	if err = errors.Join(err, jobErr); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s is formatted: %s %s\n", f.ID, cmp.Or(answer.Type, disk.XFS), answer.UUID)
	return err
}
