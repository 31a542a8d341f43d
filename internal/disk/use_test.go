package disk

import "testing"

// TestUseIs checks which disks a record of use may belong to.
func TestUseIs(t *testing.T) {
	const one, two = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
	id := func(boot string, seq uint64, serial, slot string, size uint64) Identity {
		return Identity{Boot: boot, Seq: seq, Serial: serial, Slot: slot, Size: size}
	}
	for name, test := range map[string]struct {
		was, is      Identity
		wasOf, isNow string
		want         bool
	}{
		"the same attachment":                   {id("a", 1, "", "pci-1", 1), id("a", 1, "", "pci-1", 2), one, two, true},
		"the serial, attached again":            {id("a", 1, "S", "pci-1", 1), id("a", 2, "S", "pci-2", 1), one, one, true},
		"the serial, after a reboot, larger":    {id("a", 1, "S", "pci-1", 1), id("b", 1, "S", "pci-1", 2), one, two, true},
		"the serial, cut by virtio":             {id("a", 1, "12345678901234567890", "pci-1", 1), id("b", 1, "123456789012345678901", "pci-1", 1), "", "", true},
		"another serial in the slot, a copy":    {id("a", 1, "S", "pci-1", 1), id("b", 1, "T", "pci-1", 1), one, one, false},
		"no serial, the filesystem, moved":      {id("a", 1, "", "pci-1", 1), id("a", 2, "", "pci-2", 2), one, one, true},
		"no serial, slot and size, other boot":  {id("a", 1, "", "pci-1", 1), id("b", 3, "", "pci-1", 1), one, two, true},
		"no serial, slot and size, same boot":   {id("a", 1, "", "pci-1", 1), id("a", 3, "", "pci-1", 1), one, two, false},
		"no serial, the slot, another size":     {id("a", 1, "", "pci-1", 1), id("b", 3, "", "pci-1", 2), one, two, false},
		"no serial, nothing known on either":    {id("a", 1, "", "pci-1", 1), id("b", 3, "", "pci-2", 1), "", "", false},
		"a serial now, none before, filesystem": {id("a", 1, "", "pci-1", 1), id("b", 3, "S", "pci-2", 1), one, one, true},
		"a serial now, none before, the slot":   {id("a", 1, "", "pci-1", 1), id("b", 3, "S", "pci-1", 1), "", "", false},
	} {
		u := Use{Identity: test.was, UUID: test.wasOf}
		if got := u.Is(test.is, test.isNow); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
