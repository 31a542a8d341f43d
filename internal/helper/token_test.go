package helper

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"hotmount/internal/config"
	"hotmount/internal/nodetest"
	"hotmount/internal/store"
)

// TestConfirmTwice: while one process waits for the result of an accept, no other process takes its place.
func TestConfirmTwice(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	f, err := h.For(&settings).ByName("vdc")
	if err != nil {
		t.Fatal(err)
	}
	end, err := h.Store.Confirming(f.Seq)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	first := strings.Repeat("0a", 16)
	withdraw, err := h.Store.Confirm(f.Seq, first)
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	if err := Confirm(t.Context(), h, io.Discard, "vdc", strings.Repeat("0b", 16)); !errors.Is(err, store.ErrConfirming) {
		t.Errorf("error %v", err)
	}
	if token, err := h.Store.TakeToken(f.Seq); token != first || err != nil {
		t.Errorf("the first's is %q, %v", token, err)
	}
}

// TestFormatWithoutAToken: an unreadable token confirms nothing. The disk is not read, and no answer is sent.
func TestFormatWithoutAToken(t *testing.T) {
	h := nodetest.New(t)
	settings := config.Default()
	if err := h.Store.SaveSettings(&settings); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Init(nil); err != nil {
		t.Fatal(err)
	}
	f, err := h.For(&settings).ByName("vdc")
	if err != nil {
		t.Fatal(err)
	}
	withdraw, err := h.Store.Confirm(f.Seq, strings.Repeat("0a", 16))
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	nodetest.Write(t, h.Store.Runtime, map[string]string{fmt.Sprintf("confirmed/%d", f.Seq): "{"})
	if err := Format(t.Context(), h, f.Seq); err == nil || !strings.Contains(err.Error(), "cannot take the token") || strings.Contains(err.Error(), "open") {
		t.Errorf("error %v", err)
	}
	if answer, err := h.Store.TakeAnswer(f.Seq); !errors.Is(err, store.ErrNoAnswer) {
		t.Errorf("it is answered: %+v, %v", answer, err)
	}
}
