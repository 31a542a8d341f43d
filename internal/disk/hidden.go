package disk

import "strings"

// Hidden reports whether the path, which is clean, is where the daemon's unit shows it nothing
// of the host, or a place of its own: ProtectHome= and PrivateTmp= (systemd.exec(5)).
func Hidden(path string) bool {
	for _, dir := range []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}
