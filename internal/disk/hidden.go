package disk

import "strings"

// Hidden reports whether the daemon's systemd unit hides the path from the daemon. The path must be clean (path.Clean).
// ProtectHome= and PrivateTmp= (systemd.exec(5)) show the daemon an empty or private directory at such paths.
func Hidden(path string) bool {
	for _, dir := range []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}
