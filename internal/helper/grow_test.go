package helper

import (
	"strings"
	"testing"
)

func TestVolumeWords(t *testing.T) {
	const uuid = "5f0c8f3e-2b3c-4d61-9c2e-0a1b2c3d4e5f"
	if got := volumeWords(uuid, "worker-1", "local-storage"); !strings.Contains(got, "local-pv-fb8928b8 keeps its old capacity (node worker-1, StorageClass local-storage)") {
		t.Error(got)
	}
	// Without a storage class, the name of the volume is unknown, so the message must not contain a name.
	if got := volumeWords(uuid, "worker-1", ""); strings.Contains(got, "local-pv-") || !strings.Contains(got, uuid) || !strings.Contains(got, "storage_class") {
		t.Error(got)
	}
	if got := volumeWords(uuid, "", "local-storage"); !strings.Contains(got, "local-pv-") || !strings.Contains(got, "hotmount used the host's name as the node's name") {
		t.Error(got)
	}
}
