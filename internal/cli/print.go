// Package cli prints the output of hotmount's commands: tables, JSON, YAML and completions for the shell.
package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// PrintJSON prints output for programs as JSON, which is also safe to print on a terminal.
func PrintJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", disk.VisibleJSON(text))
	return err
}

// PrintYAML prints v as YAML, with the same keys and values as PrintJSON.
func PrintYAML(w io.Writer, v any) error {
	// PrintYAML parses the JSON text as YAML, because every JSON text is also YAML.
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(disk.VisibleYAML(b), &n); err != nil {
		return err
	}
	clearStyle(&n)
	if b, err = yaml.Marshal(&n); err != nil {
		return err
	}
	_, err = w.Write(disk.VisibleYAML(b))
	return err
}

// clearStyle removes JSON's braces, JSON's brackets and the quotes around keys from the YAML nodes. clearStyle keeps
// the quotes around values. Without the quotes, older YAML readers would read the string "no" as a boolean.
func clearStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Style = 0
		}
		clearStyle(c)
	}
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Colour reports whether output to w may be in colour.
func Colour(w io.Writer) bool {
	return Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// columns is the maximum width of a text from the function `wrap`, in characters. The narrow table is not wider either.
const columns = 100

// The function `wrap` breaks a text at spaces so that no line has more characters than the constant `columns`. A longer
// word has a longer line. The parameter `indent` is the text at the start of each line except the first.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns-len(indent):
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// age returns a duration as text in one unit, such as "47h". age returns "-" for a negative duration.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
