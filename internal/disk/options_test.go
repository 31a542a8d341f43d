package disk

import (
	"slices"
	"strings"
	"testing"
)

// TestMountOptions checks that an ext4 superblock does not choose the error behaviour or the barriers. The options of
// the class can choose the error behaviour and the barriers.
func TestMountOptions(t *testing.T) {
	for _, c := range []struct{ fstype, options, want string }{
		{XFS, "noatime,nodev", "noatime,nodev"},
		{Ext4, "noatime,nodev", "noatime,nodev,errors=remount-ro,barrier"},
		{Ext4, "errors=panic", "errors=panic,barrier"},
		{Ext4, "errors=continue,noatime", "errors=continue,noatime,barrier"},
		{Ext4, "nobarrier", "nobarrier,errors=remount-ro"},
		{Ext4, "barrier=0", "barrier=0,errors=remount-ro"},
		{Ext4, "barrier,errors=remount-ro", "barrier,errors=remount-ro"},
		{Ext4, "barriers,errorsome=1", "barriers,errorsome=1,errors=remount-ro,barrier"},
		{"ext3", "noatime", "noatime"},
	} {
		given := strings.Split(c.options, ",")
		// MountOptions must not write to the spare capacity of the slice Options, because several disks share one
		// class.
		class := Class{Options: append(make([]string, 0, 8), given...)}
		got := class.MountOptions(c.fstype)
		if want := strings.Split(c.want, ","); !slices.Equal(got, want) {
			t.Errorf("%s with %s: %q", c.fstype, c.options, got)
		}
		if again := class.MountOptions(c.fstype); !slices.Equal(class.Options, given) || !slices.Equal(again, got) {
			t.Errorf("%s with %s: the class has %q now", c.fstype, c.options, class.Options)
		}
	}
	if got := (&Class{}).MountOptions(Ext4); !slices.Equal(got, []string{"errors=remount-ro", "barrier"}) {
		t.Errorf("without options: %q", got)
	}
}
