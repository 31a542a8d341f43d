package report

// Entry is a journal entry: its fields, as `journalctl -o json` prints them. A value is a string, or an array of bytes
// if the value is not printable (systemd.io/JOURNAL_EXPORT_FORMATS).
type Entry map[string]any

// Text returns the value of the field as text. Text returns "" if the entry does not contain the field.
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
