package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotmount/internal/control"
	"hotmount/internal/disk"
	"hotmount/internal/inventory"
)

// machineID changes the machine-id of the test node.
func machineID(t *testing.T, h inventory.Host, id string) {
	t.Helper()
	if err := os.WriteFile(h.Store.MachineID, []byte(id+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// standingOf returns the standing of the disk according to the store.
func standingOf(t *testing.T, h inventory.Host, name string) *disk.Standing {
	t.Helper()
	f, err := h.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return &f.Standing
}

// The function `serve` answers the calls on the control socket, like a running daemon.
func serve(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- control.Serve(ctx, socket, func(context.Context, control.Request) (string, error) { return "", nil })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for ctx.Err() == nil {
		if _, err := control.Ask(ctx, socket, control.Request{Do: "look"}); err == nil {
			return
		}
	}
}

const cloned = "11111111222233334444555555555555"

// TestStateKeep checks that status reports a new machine-id, and that `state keep` ends the holds that the change
// caused.
func TestStateKeep(t *testing.T) {
	h := machine(t)
	attach(t, h.Root, "vdd", 48, "OLD")
	if out, code, err := call(t, "state", "keep"); code != 1 || err == nil || out != "" {
		t.Errorf("without a state: %q, %d, %v", out, code, err)
	}
	if _, _, err := call(t, "state", "init"); err != nil {
		t.Fatal(err)
	}
	if out, code, err := call(t, "state", "keep"); code != 0 || err != nil || !strings.Contains(out, "already") {
		t.Errorf("with the same id: %q, %d, %v", out, code, err)
	}
	machineID(t, h, cloned)
	attach(t, h.Root, "vde", 64, "NEW")
	if st := standingOf(t, h, "vde"); !strings.Contains(st.Formatting, "systemctl restart hotmount") {
		t.Errorf("before the daemon starts: %+v", st)
	}
	if err := h.RecordArrival(); err != nil {
		t.Fatal(err)
	}
	if st := standingOf(t, h, "vde"); st.Formatting != "" || st.Arrived == nil || st.Present != nil {
		t.Errorf("after the daemon's start: %+v", st)
	}
	out, _, err := call(t, "status")
	if text := strings.Join(strings.Fields(out), " "); err != nil && !strings.Contains(err.Error(), "refused") || !strings.Contains(text, "hotmount state keep") || !strings.Contains(text, "hotmount state reset") ||
		!strings.Contains(text, "vde is held (pre-existing): no known content was found on the disk, and the disk was already attached when hotmount first started with the present machine-id") {
		t.Errorf("status: %s, %v", out, err)
	}
	if out, code, err := call(t, "state", "keep"); code != 0 || err != nil || !strings.Contains(out, "belong to this worker again") {
		t.Errorf("%q, %d, %v", out, code, err)
	}
	if st := standingOf(t, h, "vde"); st.Arrived != nil || st.Present != nil || st.Formatting != "" {
		t.Errorf("kept: %+v", st)
	}
	if standingOf(t, h, "vdd").Present == nil {
		t.Error("a disk from before the installation is no longer held")
	}
	if out, _, _ := call(t, "status"); strings.Contains(out, "machine-id") {
		t.Errorf("status: %s", out)
	}
}

// TestStateReset checks that `state reset` fails while a mount, a block volume or a running daemon depends on the
// records. After a reset, the next start of the daemon counts as the first start.
func TestStateReset(t *testing.T) {
	h := machine(t)
	attach(t, h.Root, "vdd", 48, "OLD")
	if _, _, err := call(t, "state", "init"); err != nil {
		t.Fatal(err)
	}
	refuses := func(what, want string) {
		t.Helper()
		if out, code, err := call(t, "state", "reset"); code != 1 || out != "" || err == nil || !strings.Contains(err.Error(), want) || h.Store.First() {
			t.Errorf("%s: %q, %d, %v", what, out, code, err)
		}
	}
	const table = "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"
	const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	for _, where := range []string{"/mnt/disks", "/mnt/former"} {
		write(t, h.Root, map[string]string{"proc/1/mountinfo": table + "28 27 254:16 / " + where + "/" + uuid + " rw shared:2 - xfs /dev/vdb rw\n"})
		if err := h.Store.SaveDirectories(&disk.Settings{}, "/mnt/former"); err != nil {
			t.Fatal(err)
		}
		refuses("mounted", "umount "+where+"/"+uuid)
	}
	write(t, h.Root, map[string]string{"proc/1/mountinfo": table + "28 27 254:16 / /srv/" + uuid + " rw shared:2 - xfs /dev/vdb rw\n"})
	f, err := h.ByName("vdd")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Store.GiveOut(f, "boot", "raw", "/mnt/raw/virtio-OLD"); err != nil {
		t.Fatal(err)
	}
	refuses("a block volume", "first detach /dev/vdd, which was given out as the block volume /mnt/raw/virtio-OLD")
	if err := os.RemoveAll(filepath.Join(h.Root, "sys/block/vdd")); err != nil {
		t.Fatal(err)
	}
	t.Run("daemon", func(t *testing.T) {
		serve(t)
		if out, code, err := call(t, "state", "reset"); code != 1 || out != "" || err == nil || !strings.Contains(err.Error(), "systemctl stop hotmount") || h.Store.First() {
			t.Errorf("%q, %d, %v", out, code, err)
		}
	})

	if out, code, err := call(t, "state", "reset"); code != 0 || err != nil || !strings.Contains(out, "systemctl start hotmount") {
		t.Errorf("%q, %d, %v", out, code, err)
	}
	machineID(t, h, cloned)
	attach(t, h.Root, "vde", 64, "NEW")
	if st := standingOf(t, h, "vde"); st.Formatting == "" {
		t.Errorf("before the daemon starts: %+v", st)
	}
	if err := h.RecordArrival(); err != nil {
		t.Fatal(err)
	}
	attach(t, h.Root, "vdf", 80, "LATER")
	if st := standingOf(t, h, "vde"); st.Formatting != "" || st.Present == nil || st.Arrived != nil {
		t.Errorf("after the daemon's start: %+v", st)
	}
	if st := standingOf(t, h, "vdf"); st.Formatting != "" || st.Present != nil {
		t.Errorf("attached later: %+v", st)
	}
}
