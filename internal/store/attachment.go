package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"hotmount/internal/disk"
	"hotmount/internal/policy/identity"
)

// attachment reads the records of the attachment with that sequence number.
func (s Store) attachment(seq uint64) identity.Attachment {
	var a identity.Attachment
	// If a record is unreadable it is as if it were not there: nothing is lifted, the proof runs again, the filesystem
	// is measured again.
	_ = readJSON(seqFile(s.acceptedDir(), seq), &a.Accepted)
	var v disk.Verdict
	if readJSON(seqFile(s.verdictDir(), seq), &v) == nil {
		a.Verdict = &v
	}
	var fit disk.Fit
	if readJSON(seqFile(s.fitDir(), seq), &fit) == nil {
		a.Fit = &fit
	}
	var use disk.Use
	if readJSON(seqFile(s.usedDir(), seq), &use) == nil {
		a.Used = &use
	}
	if reason, err := readFile(seqFile(s.unmountedDir(), seq)); err == nil {
		a.Unmounted = disk.Reason(reason)
	}
	if a.Unmounted == remount {
		a.Unmounted, a.Remount = "", true
	}
	// The links themselves show whether it still exists.
	a.Link, _ = s.Link(seq)
	return a
}

// KeepUnmounted records that this attachment of the disk must not be mounted, because it was released (ReasonReleased)
// or unmounted by hand (ReasonUnmounted). An empty reason removes the record.
func (s Store) KeepUnmounted(f *disk.Facts, reason disk.Reason) error {
	if reason == "" {
		return removeIfThere(seqFile(s.unmountedDir(), f.Seq))
	}
	err := os.MkdirAll(s.unmountedDir(), 0o700)
	if err == nil {
		err = replace(seqFile(s.unmountedDir(), f.Seq), []byte(reason), false)
	}
	if err != nil {
		return fmt.Errorf("cannot record that %s stays unmounted: %w", f.Name, err)
	}
	return nil
}

// SaveVerdict records the result of a proof.
func (s Store) SaveVerdict(v disk.Verdict) error {
	if err := os.MkdirAll(s.verdictDir(), 0o700); err != nil {
		return fmt.Errorf("cannot record the verdict: %w", err)
	}
	if err := writeFile(seqFile(s.verdictDir(), v.Seq), v, false); err != nil {
		return fmt.Errorf("cannot record the verdict: %w", err)
	}
	return nil
}

// SaveFit records the result of an attempt to grow a filesystem to its disk.
func (s Store) SaveFit(v disk.Fit) error {
	err := os.MkdirAll(s.fitDir(), 0o700)
	if err == nil {
		err = writeFile(seqFile(s.fitDir(), v.Seq), v, false)
	}
	if err != nil {
		return fmt.Errorf("cannot record how much of the disk the filesystem takes: %w", err)
	}
	return nil
}

// SaveHolders records, in words, who used a filesystem when its disk was detached.
func (s Store) SaveHolders(uuid, words string) error {
	if !disk.ValidUUID(uuid) {
		return fmt.Errorf("cannot record who uses the filesystem: %q is not a UUID", uuid)
	}
	err := os.MkdirAll(s.holdersDir(), 0o700)
	if err == nil {
		err = replace(filepath.Join(s.holdersDir(), uuid), []byte(words), false)
	}
	if err != nil {
		return fmt.Errorf("cannot record who uses %s: %w", uuid, err)
	}
	return nil
}

// ForgetHolders removes what SaveHolders recorded.
func (s Store) ForgetHolders(uuid string) error {
	return removeIfThere(filepath.Join(s.holdersDir(), uuid))
}

// Holders returns what SaveHolders last recorded in this boot, empty for nothing.
func (s Store) Holders(uuid string) string {
	words, _ := readFile(filepath.Join(s.holdersDir(), uuid))
	return string(words)
}

// Forget removes the runtime records of an attachment that has ended.
func (s Store) Forget(seq uint64) error {
	return errors.Join(removeIfThere(seqFile(s.acceptedDir(), seq)), removeIfThere(seqFile(s.verdictDir(), seq)), removeIfThere(seqFile(s.unmountedDir(), seq)),
		removeIfThere(seqFile(s.confirmedDir(), seq)), removeIfThere(s.answerFile(seq)), removeIfThere(seqFile(s.confirmedDir(), seq)+".lock"), removeIfThere(seqFile(s.fitDir(), seq)), s.forgetOpener(seq), s.forgetUse(seq))
}

func (s Store) acceptedDir() string { return filepath.Join(s.Runtime, "accepted") }

func (s Store) verdictDir() string { return filepath.Join(s.Runtime, "verdicts") }

func (s Store) fitDir() string { return filepath.Join(s.Runtime, "fits") }

func (s Store) unmountedDir() string { return filepath.Join(s.Runtime, "unmounted") }

func (s Store) holdersDir() string { return filepath.Join(s.Runtime, "holders") }

func seqFile(dir string, seq uint64) string {
	return filepath.Join(dir, strconv.FormatUint(seq, 10))
}
