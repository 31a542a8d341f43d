package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestConfirm(t *testing.T) {
	s := made(t)
	if token, err := s.TakeToken(7); token != "" || err != nil {
		t.Fatalf("no token, and yet %q, %v", token, err)
	}
	confirm := func(token string) (withdraw func() error) {
		t.Helper()
		withdraw, err := s.Confirm(7, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = withdraw() }) // the test still refers to the function `withdraw`, so the token's file stays open and locked
		return withdraw
	}
	confirm("abc")
	for path, want := range map[string]os.FileMode{"confirmed": 0o700, "confirmed/7": 0o600} {
		if fi, err := os.Stat(filepath.Join(s.Runtime, path)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	if taken, err := s.Taken(7); taken || err != nil {
		t.Errorf("before it is taken: %v, %v", taken, err)
	}
	if token, _ := s.TakeToken(8); token != "" {
		t.Errorf("another disk's token is %q", token)
	}
	if token, err := s.TakeToken(7); token != "abc" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	if taken, err := s.Taken(7); !taken || err != nil {
		t.Errorf("after it is taken: %v, %v", taken, err)
	}
	if token, err := s.TakeToken(7); token != "" || err != nil {
		t.Errorf("a second time it is %q, %v", token, err)
	}
	if err := s.SaveAnswer(7, Answer{UUID: uuid}); err != nil {
		t.Fatal(err)
	}
	if a, err := s.TakeAnswer(7); a != (Answer{UUID: uuid}) || err != nil {
		t.Errorf("%+v, %v", a, err)
	}

	// An answer can be taken only once, and only for the token that it answers. If no process has taken a token,
	// TakeAnswer must withdraw the token.
	if err := s.SaveAnswer(7, Answer{UUID: uuid}); err != nil {
		t.Fatal(err)
	}
	confirm("def")
	if a, err := s.TakeAnswer(7); a.UUID != "" || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%+v, %v", a, err)
	}
	if token, err := s.TakeToken(7); token != "" || err != nil {
		t.Errorf("the word that was taken back is %q, %v", token, err)
	}
	// A token must become invalid after withdraw(), which has the same effect as the end of the process.
	if err := confirm("def")(); err != nil {
		t.Fatal(err)
	}
	if token, err := s.TakeToken(7); token != "" || err != nil {
		t.Errorf("the word that was withdrawn is %q, %v", token, err)
	}
	if taken, err := s.Taken(7); !taken || err != nil {
		t.Errorf("the word that was withdrawn is there: %v", err)
	}
	// The token must become invalid when the attachment of its disk ends.
	confirm("def")
	if err := s.Forget(7); err != nil {
		t.Fatal(err)
	}
	if token, _ := s.TakeToken(7); token != "" {
		t.Errorf("the word for a disk that is gone is %q", token)
	}
}

// TestConfirmByTwo checks that no process gets the answer to another process's token.
func TestConfirmByTwo(t *testing.T) {
	s := made(t)
	end, err := s.Confirming(7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Confirming(7); !errors.Is(err, ErrConfirming) {
		t.Errorf("a second at once: %v", err)
	}
	if other, err := s.Confirming(8); err != nil || other() != nil {
		t.Errorf("of another disk: %v", err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if end, err = s.Confirming(7); err != nil {
		t.Fatalf("when the first has ended: %v", err)
	}
	defer end()
	// The answer for the first process comes only after that process has stopped waiting.
	withdraw, err := s.Confirm(7, "def")
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	late := func() {
		if err := s.SaveAnswer(7, Answer{UUID: uuid}); err != nil {
			t.Fatal(err)
		}
	}
	late()
	if token, err := s.TakeToken(7); token != "def" || err != nil {
		t.Fatalf("%q, %v", token, err)
	}
	if a, err := s.TakeAnswer(7); a != (Answer{}) || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("it was taken, and broken off: %+v, %v", a, err)
	}
	if withdraw, err = s.Confirm(7, "ghi"); err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	late()
	if a, err := s.TakeAnswer(7); a != (Answer{}) || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("it was not taken: %+v, %v", a, err)
	}
}
