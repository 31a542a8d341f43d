package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Answer is what came of an operator's word.
type Answer struct {
	// UUID is that of the filesystem that was made, Failure why none was.
	UUID    string `json:"uuid,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// Confirm leaves the operator's word, a token, for the process that formats the
// disk of that sequence number. The directory is root's alone.
func (s Store) Confirm(seq uint64, token string) error {
	err := os.MkdirAll(s.confirmedDir(), 0o700)
	if err == nil {
		err = removeIfThere(s.answerFile(seq))
	}
	if err == nil {
		err = writeFile(seqFile(s.confirmedDir(), seq), token, false)
	}
	if err != nil {
		return fmt.Errorf("cannot hand on the token: %w", err)
	}
	return nil
}

// TakeToken gives the operator's word for the disk of that sequence number, empty
// if there is none. It is given once.
func (s Store) TakeToken(seq uint64) (string, error) {
	var token string
	err := readJSON(seqFile(s.confirmedDir(), seq), &token)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err = errors.Join(err, removeIfThere(seqFile(s.confirmedDir(), seq))); err != nil {
		return "", fmt.Errorf("cannot take the token: %w", err)
	}
	return token, nil
}

// Taken tells whether the operator's word for the disk of that sequence number is
// no longer there.
func (s Store) Taken(seq uint64) (bool, error) {
	_, err := os.Lstat(seqFile(s.confirmedDir(), seq))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot see whether the token was taken: %w", err)
	}
	return err != nil, nil
}

// SaveAnswer leaves what came of the operator's word for whoever gave it.
func (s Store) SaveAnswer(seq uint64, a Answer) error {
	if err := writeFile(s.answerFile(seq), a, false); err != nil {
		return fmt.Errorf("cannot answer the operator: %w", err)
	}
	return nil
}

// TakeAnswer gives what came of the operator's word. A word that nobody has taken
// is taken back.
func (s Store) TakeAnswer(seq uint64) (Answer, error) {
	var a Answer
	err := readJSON(s.answerFile(seq), &a)
	if errors.Is(err, fs.ErrNotExist) {
		a.Failure = "nobody has taken the token: the unit did not start"
		err = nil
	}
	return a, errors.Join(err, removeIfThere(s.answerFile(seq)), removeIfThere(seqFile(s.confirmedDir(), seq)))
}

func (s Store) confirmedDir() string { return filepath.Join(s.Runtime, "confirmed") }

func (s Store) answerFile(seq uint64) string { return seqFile(s.confirmedDir(), seq) + ".answer" }
