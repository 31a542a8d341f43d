package disk

import "strings"

// Below returns the part of a clean path that is below a directory, without the leading slash. The result rest is empty
// if the path is the directory itself. The result ok reports whether the path is the directory or lies below it.
func Below(path, dir string) (rest string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// IsBelow reports whether a clean path is the directory or lies below it.
func IsBelow(path, dir string) bool {
	_, ok := Below(path, dir)
	return ok
}
