package report

// Entry has the fields of a journal entry as `journalctl -o json` prints them. A value is a string, or an array of
// bytes if it is not printable (systemd.io/JOURNAL_EXPORT_FORMATS).
type Entry map[string]any

// Text returns the field as text, empty if the entry lacks it.
func (e Entry) Text(field string) string {
	switch v := e[field].(type) {
	case string:
		return v
	case []any:
		var b []byte
		for _, n := range v {
			if n, ok := n.(float64); ok {
				b = append(b, byte(n))
			}
		}
		return string(b)
	}
	return ""
}
