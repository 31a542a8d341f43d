package disk

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Alphanumeric consists of the letters and digits that are safe in a command line.
const Alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// UUID returns the bytes as a UUID in the 8-4-4-4-12 form of RFC 4122, in lower case.
func UUID(b [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ValidUUID reports whether s is a UUID in the 8-4-4-4-12 form of RFC 4122, in lower case and not all zeros. No other
// string may be used as a UUID in a path.
func ValidUUID(s string) bool {
	if len(s) != 36 || s == "00000000-0000-0000-0000-000000000000" {
		return false
	}
	for i := range len(s) {
		digit := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen && s[i] != '-' || !hyphen && !digit {
			return false
		}
	}
	return true
}

// Visible returns arbitrary bytes as text that is safe to print, and truncates the text after 256 bytes. Control
// characters, invalid UTF-8 and format characters, such as direction overrides, are escaped.
func Visible(s string) string {
	const limit = 256
	if len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f || r == '\\' }) {
		return s // most texts need no change
	}
	var b strings.Builder
	for len(s) > 0 {
		if b.Len() >= limit {
			return b.String() + "…"
		}
		_, n := utf8.DecodeRuneInString(s)
		if s[0] == '"' {
			b.WriteByte('"')
		} else {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// OneLine returns s as one line. Text from outside hotmount must already be escaped in s (Visible), as it is in the
// text of an error. OneLine replaces unprintable characters of s.
func OneLine(s string) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return Printable(strings.Join(lines, "; "))
}

// Printable replaces the characters of s that are not printable, such as those that control a terminal. Text from
// outside hotmount must already be escaped in s (Visible).
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Output returns what a program has printed, as one line that is safe to print.
func Output(b []byte) string { return Visible(strings.Join(strings.Fields(string(b)), " ")) }

// Unescape undoes the escape \xNN, which udev and blkid write for special bytes (blkid_encode_string in util-linux's
// libblkid). Unescape leaves all other text as it is.
func Unescape(s string) string {
	return escape.ReplaceAllStringFunc(s, func(x string) string {
		b, err := hex.DecodeString(x[2:])
		if err != nil {
			return x
		}
		return string(b)
	})
}

var escape = regexp.MustCompile(`\\x[0-9A-Fa-f]{2}`)

// VisibleJSON makes JSON safe to print, as Visible does for text. VisibleJSON escapes unprintable characters that
// encoding/json does not escape, such as U+009B (a terminal escape) or a direction override. The meaning of the JSON
// stays the same.
func VisibleJSON(text []byte) []byte {
	return escaped(text, func(b []byte, r rune) []byte {
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
		return b
	})
}

// VisibleYAML makes YAML safe to print, as Visible does for text. All foreign strings in the YAML must be in double
// quotes. VisibleYAML also accepts JSON, because YAML readers accept JSON.
func VisibleYAML(text []byte) []byte {
	return escaped(text, func(b []byte, r rune) []byte { return fmt.Appendf(b, `\U%08x`, r) })
}

func escaped(text []byte, escape func([]byte, rune) []byte) []byte {
	var b []byte
	for _, r := range string(text) {
		if r < 0x7f || unicode.IsPrint(r) {
			b = utf8.AppendRune(b, r)
		} else {
			b = escape(b, r)
		}
	}
	return b
}

// Count returns a number with the name of the things counted: "1 disk", "2 disks".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// HumanSize returns a size in bytes in powers of 1024 with at most one decimal: "5 GiB", "1.5 TiB", "512 B".
func HumanSize(bytes uint64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return strconv.FormatUint(bytes, 10) + " B"
	}
	unit, rest := -1, float64(bytes)
	for rest >= 1024 && unit < len(units)-1 {
		rest /= 1024
		unit++
	}
	s := strings.TrimSuffix(strconv.FormatFloat(rest, 'f', 1, 64), ".0")
	return s + " " + units[unit:unit+1] + "iB"
}

// ExactSize returns HumanSize followed by the number of bytes.
func ExactSize(bytes uint64) string { return fmt.Sprintf("%s (%d bytes)", HumanSize(bytes), bytes) }
