package mounts

import "hotmount/internal/disk"

// Changed gives the devices whose mounts differ between two tables, each once.
func Changed(before, now []disk.MountPoint) []disk.Dev {
	count := map[disk.MountPoint]int{}
	for _, m := range before {
		count[m]--
	}
	for _, m := range now {
		count[m]++
	}
	var devices []disk.Dev
	seen := map[disk.Dev]bool{}
	for m, n := range count {
		if n != 0 && !seen[m.Dev] {
			seen[m.Dev] = true
			devices = append(devices, m.Dev)
		}
	}
	return devices
}
