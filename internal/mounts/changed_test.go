package mounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hotmount/internal/disk"
)

func TestChanged(t *testing.T) {
	ids := 0
	mount := func(major, minor uint32, path string) Mount {
		ids++
		return Mount{MountPoint: disk.MountPoint{Dev: disk.Dev{Major: major, Minor: minor}, Root: "/", Path: path, Type: "xfs", Options: "rw"}, ID: ids}
	}
	vdb, vdc, sda := mount(254, 16, "/b"), mount(254, 32, "/c"), mount(8, 0, "/a")
	again := mount(254, 16, "/b")
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	volume, tmpfs := mount(254, 48, "/mnt/disks/"+uuid), disk.Dev{Minor: 50}
	readOnly, private, other := vdb, vdb, vdc
	readOnly.Options, private.Shared, other.ID = "ro", 1, vdb.ID
	type table = []Mount
	for _, test := range []struct {
		name        string
		before, now table
		want        []disk.Dev
	}{
		{"nothing twice", nil, nil, nil},
		{"the same", table{vdb, vdc}, table{vdb, vdc}, nil},
		{"another order", table{vdb, vdc}, table{vdc, vdb}, nil},
		{"the first look", nil, table{vdb}, []disk.Dev{vdb.Dev}},
		{"mounted", table{vdc}, table{vdc, vdb}, []disk.Dev{vdb.Dev}},
		{"unmounted", table{vdc, vdb}, table{vdc}, []disk.Dev{vdb.Dev}},
		{"mounted a second time on the same path", table{vdb}, table{vdb, again}, []disk.Dev{vdb.Dev}},
		{"one of two on the same path unmounted", table{vdb, again}, table{vdb}, []disk.Dev{vdb.Dev}},
		{"mounted read-only", table{vdb}, table{readOnly}, []disk.Dev{vdb.Dev}},
		{"mounted once more", table{vdb, vdc}, table{vdc, again}, []disk.Dev{vdb.Dev}},
		{"shared", table{vdb}, table{private}, []disk.Dev{vdb.Dev}},
		{"another mount with its number", table{vdb}, table{other}, []disk.Dev{vdb.Dev, vdc.Dev}},
		{"ended while the table was read, and its number another's", table{vdb, vdc}, table{vdb, other}, []disk.Dev{vdc.Dev}},
		{"and then it is gone", table{vdb, other}, table{other}, []disk.Dev{vdb.Dev}},
		{"another device on the path", table{vdb}, table{mount(254, 32, "/b")}, []disk.Dev{vdb.Dev, vdc.Dev}},
		{"something over a volume", table{volume}, table{volume, mount(0, 50, "/mnt/disks/"+uuid)}, []disk.Dev{tmpfs, volume.Dev}},
		{"something above a volume", table{volume, vdb}, table{volume, vdb, mount(0, 50, "/mnt")}, []disk.Dev{tmpfs, volume.Dev}},
		{"no longer above a volume", table{mount(0, 50, "/mnt"), volume}, table{volume}, []disk.Dev{tmpfs, volume.Dev}},
		{"above no volume", table{volume, vdb}, table{volume, vdb, mount(0, 50, "/mn")}, []disk.Dev{tmpfs}},
		{"in the order of the numbers", table{vdc}, table{sda, vdb}, []disk.Dev{sda.Dev, vdb.Dev, vdc.Dev}},
	} {
		// The order of the returned devices must not depend on the order of a map.
		for range 10 {
			if diff := cmp.Diff(test.want, Changed(test.before, test.now)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
				break
			}
		}
	}
}

// TestChangedIsWhatDiffers checks that Changed returns a device if and only if the device's lines differ between the
// tables. The order of the lines in a mount table must not matter.
func TestChangedIsWhatDiffers(t *testing.T) {
	mount := rapid.Custom(func(t *rapid.T) Mount {
		return Mount{
			MountPoint: disk.MountPoint{
				Dev:  disk.Dev{Major: rapid.Uint32Range(0, 2).Draw(t, "major"), Minor: rapid.Uint32Range(0, 2).Draw(t, "minor")},
				Path: rapid.SampledFrom([]string{"/", "/a", "/b"}).Draw(t, "path"),
			},
			ID: rapid.IntRange(1, 12).Draw(t, "id"),
		}
	})
	table := rapid.SliceOfNDistinct(mount, 0, 8, func(m Mount) int { return m.ID })
	rapid.Check(t, func(t *rapid.T) {
		before, now := table.Draw(t, "before"), table.Draw(t, "now")
		if rapid.Bool().Draw(t, "alike") {
			more := now[:min(len(now), 2)]
			now = slices.Clone(before)
			slices.Reverse(now)
			for _, m := range more {
				m.ID += 12
				now = append(now, m)
			}
		}
		paths := func(all []Mount, dev disk.Dev) string {
			var of []string
			for _, m := range all {
				if m.Dev == dev {
					of = append(of, fmt.Sprint(m.ID, m.Path))
				}
			}
			slices.Sort(of)
			return strings.Join(of, " ")
		}
		var want []disk.Dev
		for major := range uint32(3) {
			for minor := range uint32(3) {
				if dev := (disk.Dev{Major: major, Minor: minor}); paths(before, dev) != paths(now, dev) {
					want = append(want, dev)
				}
			}
		}
		if diff := cmp.Diff(want, Changed(before, now)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, Changed(now, before)); diff != "" {
			t.Fatalf("back again (-want +got):\n%s", diff)
		}
	})
}
