package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNoAnswer reports that the process that formats has written no answer to the operator's token.
var ErrNoAnswer = errors.New("the unit that formats has stored no result")

// Answer is the result of formatting with an operator's token.
type Answer struct {
	// UUID and Type describe the filesystem that was made. Failure is the reason why no filesystem was made, or why
	// the new filesystem cannot be used (format.ErrMade). Failure is empty after a success.
	UUID    string `json:"uuid,omitempty"`
	Type    string `json:"type,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// ErrConfirming reports that another process already waits for the result of a token for the same disk.
var ErrConfirming = errors.New("another hotmount format --confirm already formats the disk; see hotmount history")

// Confirming gives this process the exclusive right to confirm the format of the disk with that sequence number. If
// another process already has this right, Confirming returns ErrConfirming. If two processes confirmed the same format,
// one process could receive the answer to the token of the other process. The right ends when the caller calls the
// function `end`, or when the process ends.
func (s Store) Confirming(seq uint64) (end func() error, err error) {
	err = os.MkdirAll(filepath.Dir(s.confirmingFile(seq)), 0o700)
	var f *os.File
	if err == nil {
		f, err = lockPlace(s.confirmingFile(seq))
	}
	if err == nil && f == nil {
		err = ErrConfirming
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pass the token to the unit that formats: %w", err)
	}
	return f.Close, nil
}

// Confirm stores the operator's token for the process that formats the disk with that sequence number. The token is
// valid until a process takes the token (TakeToken), the caller calls the function `withdraw`, or this process ends. If
// the token stayed valid, a format could still begin long after the operator has seen a failure. Only root can read the
// directory of the token.
func (s Store) Confirm(seq uint64, token string) (withdraw func() error, err error) {
	path := s.record(confirmedDir, seq)
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), removeIfThere(s.answerFile(seq)))
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(filepath.Dir(path), ".new-*")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pass the token to the unit that formats: %w", err)
	}
	err = json.NewEncoder(f).Encode(token)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pass the token to the unit that formats: %w", errors.Join(err, f.Close(), removeIfThere(f.Name())))
	}
	return f.Close, nil
}

// TakeToken returns the operator's token for the disk with that sequence number, or "" if there is no valid token. A
// token can be taken only once. If there is a token, TakeToken also removes the answer to an earlier token, because the
// operator no longer waits for that answer.
func (s Store) TakeToken(seq uint64) (token string, err error) {
	token, err = s.takeToken(seq)
	return token, wrap(err, "cannot read and remove the token of hotmount format")
}

func (s Store) takeToken(seq uint64) (token string, err error) {
	f, err := os.Open(s.record(confirmedDir, seq))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	held := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	data, err := readAll(f)
	if err == nil {
		err = json.Unmarshal(data, &token)
	}
	if err = errors.Join(err, removeIfThere(s.answerFile(seq)), removeIfThere(f.Name())); err != nil {
		return "", err
	}
	switch {
	case held == nil:
		return "", nil
	case !errors.Is(held, syscall.EWOULDBLOCK):
		return "", held
	}
	return token, nil
}

// Taken reports whether the token for the disk with that sequence number has been taken. A token has been taken if its
// file is missing, because TakeToken removes the file.
func (s Store) Taken(seq uint64) (bool, error) {
	_, err := os.Lstat(s.record(confirmedDir, seq))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot find out whether the unit that formats has taken the token: %w", err)
	}
	return err != nil, nil
}

// SaveAnswer stores the result of the format for the operator whose token was taken.
func (s Store) SaveAnswer(seq uint64, a Answer) error {
	return wrap(writeJSON(s.answerFile(seq), a, false), "cannot store the result of the format for the operator")
}

// TakeAnswer returns the result of the format that the operator's token ordered, or ErrNoAnswer if there is no result
// yet. If no process has taken the token, TakeAnswer withdraws the token and returns ErrNoAnswer. If there is an
// answer, but nobody has taken the token yet, the answer belongs to an earlier token.
func (s Store) TakeAnswer(seq uint64) (Answer, error) {
	var a Answer
	taken, err := s.Taken(seq)
	if err == nil {
		err = readJSON(s.answerFile(seq), &a)
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && !taken {
		a, err = Answer{}, ErrNoAnswer
	}
	return a, errors.Join(err, removeIfThere(s.answerFile(seq)), s.drop(confirmedDir, seq))
}

func (s Store) answerFile(seq uint64) string     { return s.record(confirmedDir, seq) + ".answer" }
func (s Store) confirmingFile(seq uint64) string { return s.record(confirmedDir, seq) + ".lock" }
