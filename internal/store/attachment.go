package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"hotmount/internal/disk"
)

// kind is a kind of record about one attachment. The value of a kind is the name of the directory for its records.
type kind string

const (
	acceptedDir  kind = "accepted"
	verdictDir   kind = "verdicts"
	fitDir       kind = "fits"
	unmountedDir kind = "unmounted"
	usedDir      kind = "used"
	openerDir    kind = "openers"
	linkDir      kind = "links"
	confirmedDir kind = "confirmed"
)

// The method `record` returns the path of an attachment's record of kind k. The parameter `seq` is the disk sequence
// number.
func (s Store) record(k kind, seq uint64) string {
	return filepath.Join(s.Runtime, string(k), strconv.FormatUint(seq, 10))
}

// The method `keep` writes a record about an attachment, and replaces an earlier record of the same kind.
func (s Store) keep(k kind, seq uint64, v any) error {
	path := s.record(k, seq)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeJSON(path, v, false)
}

// keepText writes a record as plain text. keepText replaces an earlier file at the same path.
func keepText(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replace(path, []byte(text), false)
}

func (s Store) drop(k kind, seq uint64) error { return removeIfThere(s.record(k, seq)) }

// readRecord returns a record of an attachment, or nil if there is none. An unreadable record is treated as missing.
// Only a missing record of usedDir lifts a hold. Without any other record, the disk stays held, the proof runs again,
// or the filesystem is measured again.
func readRecord[T any](s Store, k kind, seq uint64) *T {
	var v T
	if readJSON(s.record(k, seq), &v) != nil {
		return nil
	}
	return &v
}

// The method `attachment` returns the runtime records about the attachment with that disk sequence number.
func (s Store) attachment(seq uint64) disk.Standing {
	st := disk.Standing{Verdict: readRecord[disk.Verdict](s, verdictDir, seq), Fit: readRecord[disk.Fit](s, fitDir, seq), Used: readRecord[disk.Use](s, usedDir, seq)}
	if all := readRecord[[]disk.Word](s, acceptedDir, seq); all != nil {
		st.Accepted = *all
	}
	if reason, err := readFile(s.record(unmountedDir, seq)); err == nil {
		st.Unmounted = disk.Reason(reason)
	}
	if st.Unmounted == remount {
		st.Unmounted, st.Remount = "", true
	}
	// The method `attachment` ignores an error of Link. If the record of the link is unreadable, the disk is treated as
	// not given out.
	st.Link, _ = s.Link(seq)
	return st
}

// KeepUnmounted records that the disk must be neither mounted nor given out during this attachment. The reason is that
// the disk was released (ReasonReleased) or unmounted by hand (ReasonUnmounted). An empty reason removes the record.
// With the reason `remount`, the record has the opposite meaning.
func (s Store) KeepUnmounted(f *disk.Facts, reason disk.Reason) error {
	if reason == "" {
		return s.drop(unmountedDir, f.Seq)
	}
	return wrap(keepText(s.record(unmountedDir, f.Seq), string(reason)), "cannot record that %s stays unmounted", f.Name)
}

// SaveVerdict records the result of a proof.
func (s Store) SaveVerdict(v disk.Verdict) error {
	return wrap(s.keep(verdictDir, v.Seq, v), "cannot record the result of the proof")
}

// SaveFit records the result of an attempt to grow a filesystem to the size of its disk.
func (s Store) SaveFit(v disk.Fit) error {
	return wrap(s.keep(fitDir, v.Seq, v), "cannot record how much of the disk the filesystem takes")
}

// SaveHolders records, in words, who used a filesystem when its disk was detached.
func (s Store) SaveHolders(uuid, words string) error {
	if !disk.ValidUUID(uuid) {
		return fmt.Errorf("cannot record who uses the filesystem: %q is not a UUID", uuid)
	}
	return wrap(keepText(s.holdersFile(uuid), words), "cannot record who uses the filesystem %s", uuid)
}

// ForgetHolders removes the record that SaveHolders has written.
func (s Store) ForgetHolders(uuid string) error { return removeIfThere(s.holdersFile(uuid)) }

// Holders returns the words that SaveHolders last recorded in this boot, or "" if there are none.
func (s Store) Holders(uuid string) string {
	words, _ := readFile(s.holdersFile(uuid))
	return string(words)
}

// Forget removes the runtime records of an attachment that has ended, except the record of its link (ForgetLink).
func (s Store) Forget(seq uint64) error {
	err := errors.Join(removeIfThere(s.answerFile(seq)), removeIfThere(s.confirmingFile(seq)))
	for _, k := range []kind{acceptedDir, verdictDir, unmountedDir, confirmedDir, fitDir, openerDir, usedDir} {
		err = errors.Join(err, s.drop(k, seq))
	}
	return err
}

func (s Store) holdersFile(uuid string) string { return filepath.Join(s.Runtime, "holders", uuid) }
