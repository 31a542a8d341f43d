package unit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// message gives a signal, or an answer, with a body of about so many bytes.
func message(t testing.TB, kind dbus.Type, order binary.ByteOrder, size int) []byte {
	t.Helper()
	m := &dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1/unit/dev_2dvdb_2edevice")),
		dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.DBus.Properties"),
		dbus.FieldMember:    dbus.MakeVariant("PropertiesChanged"),
	}}
	if kind == dbus.TypeMethodReply {
		m.Headers = map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(uint32(1))}
	}
	if size > 0 {
		text := strings.Repeat("x", size)
		m.Body, m.Headers[dbus.FieldSignature] = []any{text}, dbus.MakeVariant(dbus.SignatureOf(text))
	}
	var b bytes.Buffer
	if err := m.EncodeTo(&b, order); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// said is a connection on which the handshake is over and those bytes have come.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// kept is a connection of which what is written is kept.
type kept struct {
	net.Conn
	out *bytes.Buffer
}

func (k kept) Write(b []byte) (int, error) { return k.out.Write(b) }

func hearing(hears bool, in io.Reader) *eager {
	e := newEager(said{Reader: in})
	e.begun = true
	e.hears.Store(hears)
	return e
}

// TestSignalsAreSkipped: nothing is lost of what is no signal, wherever it begins, and
// nothing of signals once they are wanted.
func TestSignalsAreSkipped(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		var all, answers []byte
		for size := range 20 {
			for _, more := range []int{0, 5000} { // more than what is buffered
				answer := message(t, dbus.TypeMethodReply, order, size+more)
				answers = append(answers, answer...)
				all = append(all, answer...)
				all = append(all, message(t, dbus.TypeSignal, order, size+more)...)
				all = append(all, message(t, dbus.TypeSignal, order, size)...)
			}
		}
		for hears, want := range map[bool][]byte{false: answers, true: all} {
			got, err := io.ReadAll(hearing(hears, bytes.NewReader(all)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, hears %v: %d bytes of %d, error %v", order, hears, len(got), len(want), err)
			}
		}
	}
	signal := message(t, dbus.TypeSignal, binary.LittleEndian, 100)
	if _, err := io.ReadAll(hearing(false, bytes.NewReader(signal[:50]))); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("a signal cut off: %v", err)
	}
	for name, b := range map[string][]byte{
		"another byte order":      append([]byte("x"), signal[1:]...),
		"a body of 4 GiB":         append(append(append([]byte{}, signal[:4]...), 255, 255, 255, 255), signal[8:]...),
		"as many bytes of fields": append(append(append([]byte{}, signal[:12]...), 255, 255, 255, 255), signal[16:]...),
	} {
		if _, err := io.ReadAll(hearing(false, bytes.NewReader(b))); err == nil || !strings.Contains(err.Error(), "no message of D-Bus") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFirstMessage: one that PID 1 would read whole with the handshake is not sent with it.
func TestFirstMessage(t *testing.T) {
	var out bytes.Buffer
	e := newEager(kept{out: &out})
	e.begun, e.held = true, true
	if _, err := e.Write(make([]byte, leastFirst-1)); err == nil || out.Len() > 0 {
		t.Errorf("%d bytes were sent, error %v", out.Len(), err)
	}
	for _, want := range []int{len(begin) + leastFirst, leastFirst, 1} {
		out.Reset()
		n := min(want, leastFirst)
		if got, err := e.Write(make([]byte, n)); got != n || err != nil || out.Len() != want {
			t.Errorf("%d of %d bytes, %d sent, error %v", got, n, out.Len(), err)
		}
	}
}

// BenchmarkSignals is what it costs to be connected while PID 1 tells of ten device
// units, for who hears it and who does not.
func BenchmarkSignals(b *testing.B) {
	var all []byte
	for range 100 {
		all = append(all, message(b, dbus.TypeSignal, binary.LittleEndian, 600)...)
	}
	for name, hears := range map[string]bool{"skipped": false, "heard": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e := hearing(hears, bytes.NewReader(all))
				for {
					if _, err := dbus.DecodeMessage(e); err != nil {
						break
					}
				}
			}
		})
	}
}
