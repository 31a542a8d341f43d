package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"

	"hotmount/internal/disk"
	"hotmount/internal/policy"
	"hotmount/internal/report"
	"hotmount/internal/store"
	"hotmount/internal/unit"
)

func formatCommand() *cobra.Command {
	var token string
	c := &cobra.Command{
		Use:   "format DISK [--confirm TOKEN]",
		Short: "Have a disk that is refused overwritten",
		Long: "Show what is on a disk that is refused, and print a token for it. With that token, format the disk: everything on\n" +
			"it is lost. The token is for this disk as it is now. It does not hold any more once the disk was written to,\n" +
			"resized or detached, or the machine has restarted. What is mounted, held, swap or the system's is never formatted.",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(disksWith(func(_ *disk.Facts, d disk.Decision) bool { return d.Action == disk.Refuse || d.Action == disk.Hold })),
		RunE: func(c *cobra.Command, given []string) error {
			if os.Geteuid() != 0 {
				return errors.New("cannot format: only root may")
			}
			name := diskName(given[0])
			if c.Flags().Changed("confirm") {
				return confirm(c.Context(), c.OutOrStdout(), name, token)
			}
			return offer(c.Context(), c.OutOrStdout(), name)
		},
	}
	c.Flags().StringVar(&token, "confirm", "", "the `token` that was printed for the disk")
	return c
}

// offer shows what is on the disk, and the token for it. It reads only.
func offer(ctx context.Context, w io.Writer, name string) (err error) {
	h := host()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	f, err := hostFor(s).ByName(name)
	if err != nil {
		return err
	}
	boot, err := h.Boot()
	if err != nil {
		return err
	}
	// What is refused whatever is on the disk is not read first.
	if d, ok := policy.Confirmable(f, &disk.Content{Kind: disk.Unknown, Proven: true}, s); !ok {
		return notConfirmable(f, &disk.Content{Kind: disk.Unknown}, s, d)
	}
	progress, free, err := scanPlace(ctx)
	if err != nil {
		return err
	}
	defer free()
	session, err := open(ctx, f, s, nil, progress, nil, func(string, ...string) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	content, err := session.Prove(ctx, policy.Select(f, s).Blank)
	if err != nil {
		return err
	}
	if d, ok := policy.Confirmable(f, &content, s); !ok {
		return notConfirmable(f, &content, s, d)
	}
	token, err := session.Token(ctx, boot)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, disk sequence number %d, holds %s:\n", report.Name(f), f.Seq, what(&content))
	for _, line := range content.Evidence {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if b := f.Standing.Before; b != nil {
		fmt.Fprintf(w, "  since it was attached %s %s lay on it\n", cmp.Or(b.Type, disk.XFS), b.UUID)
	}
	_, err = fmt.Fprintf(w, "To lose everything that is on it, and have it formatted with %s:\n  hotmount format %s --confirm %s\n", policy.Select(f, s).Create, f.Name, token)
	return err
}

func what(c *disk.Content) string {
	s := string(c.Kind)
	switch c.Kind {
	case disk.Unknown:
		s = "something unknown"
	case disk.Other:
		s = "something"
	}
	if c.Type != "" {
		s += " (" + disk.Visible(c.Type) + ")"
	}
	if c.Label != "" {
		s += ", label " + disk.Visible(c.Label)
	}
	return s
}

func notConfirmable(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision) error {
	why, next := policy.Words(f, c, s, d)
	if next != "" {
		why += "; " + next
	}
	but := "it is not refused for what is on it, but "
	if d.Reason == disk.ReasonSerialTwice { // beside that
		but = ""
	}
	return fmt.Errorf("cannot format %s: %s%s: %s", f.Name, but, d.Action, why)
}

var tokenPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// confirm has PID 1 run the unit that formats, and gives its answer. The unit
// finds out for itself whether the token holds.
func confirm(ctx context.Context, w io.Writer, name, token string) (err error) {
	if !tokenPattern.MatchString(token) {
		return usageError{fmt.Errorf("cannot take %q for a token; hotmount format %s prints it", disk.Visible(token), disk.Visible(name))}
	}
	h := host()
	s, err := h.Store.Settings()
	if err != nil {
		return err
	}
	f, err := hostFor(s).ByName(name)
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
	// A proof that ran already has looked for no token: PID 1 gives its job again,
	// and only the next one takes the token.
	var manager unit.Manager
	jobErr, taken := error(nil), false
	for !taken && jobErr == nil {
		jobErr = manager.StartFormat(ctx, f.Seq)
		if taken, err = h.Store.Taken(f.Seq); err != nil {
			return errors.Join(err, withdraw(), jobErr)
		}
	}
	// From here on nobody takes it; somebody may have meanwhile.
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
		return errors.Join(fmt.Errorf("cannot tell what became of %s: the token was taken, and what is under way goes on; see journalctl -u hotmount-format@%d", name, f.Seq), jobErr)
	case errors.Is(err, store.ErrNoAnswer):
		return errors.Join(errors.New("nobody has taken the token, and it is taken back"), jobErr)
	case err != nil:
		return errors.Join(err, jobErr)
	case answer.Failure != "":
		return errors.Join(errors.New(answer.Failure), jobErr)
	case jobErr != nil:
		return jobErr
	}
	_, err = fmt.Fprintf(w, "%s is formatted: %s %s\n", f.ID, cmp.Or(answer.Type, disk.XFS), answer.UUID)
	return err
}

// formatConfirmed is formatDisk with the operator's word.
func formatConfirmed(ctx context.Context, log *report.Log, f *disk.Facts, s *disk.Settings, token string, place *store.Place) error {
	h := host()
	log.Event(report.KindProven, journal.PriNotice, f, disk.Decision{}, "", fmt.Sprintf("%s: the operator wants it formatted, whatever is on it", report.Name(f)))
	v := disk.Verdict{Seq: f.Seq, Size: f.Size}
	var answer store.Answer
	err := h.Store.Check()
	if err == nil {
		v.Content, v.Writes, err = proveConfirmed(ctx, log, f, s, token, place)
	}
	if err != nil {
		answer.Failure = err.Error()
		log.Event(report.KindFailed, journal.PriErr, f, disk.Decision{}, "", fmt.Sprintf("%s: %v", f.Node(), err))
		return h.Store.SaveAnswer(f.Seq, answer)
	}
	answer.UUID, answer.Type = v.Content.UUID, v.Content.Type
	return errors.Join(h.Store.SaveVerdict(v), h.Store.SaveAnswer(f.Seq, answer))
}

func proveConfirmed(ctx context.Context, log *report.Log, f *disk.Facts, s *disk.Settings, token string, place *store.Place) (disk.Content, uint64, error) {
	if d, ok := policy.Confirmable(f, &disk.Content{Kind: disk.Unknown, Proven: true}, s); !ok {
		return disk.Content{}, 0, notConfirmable(f, &disk.Content{Kind: disk.Unknown}, s, d)
	}
	return proveAndMake(ctx, log, f, s, token, place)
}
