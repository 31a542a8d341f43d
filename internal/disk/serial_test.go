package disk

import "testing"

func TestControllerSerial(t *testing.T) {
	for _, c := range []struct{ transport, serial, want string }{
		{"nvme", NamespacePrefix("2") + "S5G-1", "S5G-1"},
		{"nvme", NamespacePrefix("10") + "S5G", "S5G"},
		{"nvme", NamespacePrefix("1") + "S5G-1", "S5G-1"},
		{"nvme", NamespacePrefix("") + "S5G", "S5G"},
		{"virtio", "n2-S5G", "n2-S5G"},
		{"nvme", "n1-S5G", "n1-S5G"},
		{"nvme", "n-S5G", "n-S5G"},
		{"nvme", "nx2-S5G", "nx2-S5G"},
		{"nvme", "2-S5G", "2-S5G"},
		{"nvme", "n2", "n2"},
	} {
		f := Facts{Transport: c.transport}
		if got := f.ControllerSerial(c.serial); got != c.want {
			t.Errorf("%s %s: %s", c.transport, c.serial, got)
		}
	}
}
