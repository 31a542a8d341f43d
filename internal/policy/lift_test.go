package policy

import (
	"strings"
	"testing"

	"hotmount/internal/disk"
)

// The function `operator` applies the effect of the remedy's first command to the facts of the disk or to the settings.
// The result is false for an unknown command.
func operator(f *disk.Facts, c *disk.Content, s *disk.Settings, d disk.Decision, next string) bool {
	accept, format := "hotmount accept "+f.Name, "hotmount format "+f.Name
	switch {
	case strings.Contains(next, accept):
		if w := Word(f, d); w.Reason != "" {
			f.Standing.Accepted = append(f.Standing.Accepted, w)
			// Like Store.Accept, this code clears the class and the directory in the record of the volume.
			if v := f.Standing.Volume; w.Reason == disk.ReasonOtherClass && v != nil {
				freed := *v
				freed.Class, freed.Directory, f.Standing.Volume = "", "", &freed
			}
		} else if ruleOf(d.Reason).lift&byRetry != 0 {
			f.Standing.Unmounted = ""
		}
		return true
	case strings.Contains(next, format):
		return true // the disk does not change before the operator enters the token
	case strings.Contains(next, "hotmount config show"):
		s.Format = true
		return true
	case strings.Contains(next, "hotmount config check"):
		s.Fault = ""
		return true
	case strings.Contains(next, "rm "+disk.HoldFile), strings.Contains(next, "reboot") && f.Standing.Formatting == disk.OffAtBoot:
		f.Standing.Formatting = ""
		return true
	case next == "make room on the filesystem of /var/lib/hotmount, then: hotmount rescan", strings.HasSuffix(next, "hotmount state init"):
		f.Standing.Formatting = ""
		return true
	}
	return false
}

// TestEachHoldHasALift checks that the command printed with a hold lifts the hold. TestEachHoldHasALift also checks
// that each token that a remedy offers is valid.
func TestEachHoldHasALift(t *testing.T) {
	held := map[disk.Reason]bool{}
	for _, cond := range conditions {
		f, c, s := blankDisk(), proven(disk.Blank), settings()
		cond.put(f, c, s)
		d := Decide(f, c, s)
		why, next := Words(f, c, s, d)
		if strings.Contains(next, "hotmount format "+f.Name) {
			if d, ok := Confirmable(f, c, s); !ok {
				t.Errorf("%s: %q, and no token is taken: %s (%s)", cond.name, next, d.Action, d.Reason)
			}
		}
		if d.Action != disk.Hold {
			continue
		}
		held[d.Reason] = true
		if !operator(f, c, s, d, next) {
			t.Errorf("%s: nothing lifts it: %s; %q", cond.name, why, next)
			continue
		}
		if now := Decide(f, c, s); now.Reason == d.Reason && now.UUID == d.UUID {
			t.Errorf("%s: %q does not lift it", cond.name, next)
		}
	}
	for _, e := range Reasons() {
		if e.Action == disk.Hold && !held[e.Reason] {
			t.Errorf("no condition has the hold %s", e.Reason)
		}
	}
}

// TestWordsOfAFormerBlockVolume checks that the message names what was given out. For a device-mapper device, the
// message says that the device or a disk below it was given out.
func TestWordsOfAFormerBlockVolume(t *testing.T) {
	for it, put := range map[string]func(*disk.Facts){"the disk": another(given), "the whole disk vdb": partOf(another(given)), "the disk, or a disk below it,": onBlockVolume} {
		f, s := blankDisk(), settings()
		if put(f); f.Whole != "" {
			parts(s)
		}
		d := Decide(f, xfs(), s)
		want := it + " was given out as a block volume at /mnt/block/virtio-S1, and now holds xfs " + uuid
		if why, _ := Words(f, xfs(), s, d); d.Reason != disk.ReasonFormerBlock || why != want {
			t.Errorf("%s: %s", d.Reason, why)
		}
	}
}

// TestFormerBlockVolume checks that a disk that was given out is refused until the operator enters the token that the
// remedy names.
func TestFormerBlockVolume(t *testing.T) {
	f, c, s := blankDisk(), proven(disk.Blank), settings()
	f.Standing.Given, f.Standing.Accepted = &given, everyWord
	d := Decide(f, c, s)
	if _, next := Words(f, c, s, d); d.Reason != disk.ReasonNeverFormat || next != "if nothing on the disk is needed: hotmount format vdb" {
		t.Errorf("%+v, %q", d, next)
	}
	if _, ok := Confirmable(f, c, s); !ok {
		t.Error("the token does not help")
	}
}
