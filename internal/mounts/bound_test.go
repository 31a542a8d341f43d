package mounts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bindings is a mount table with bind mounts that kubelet and other programs made.
const bindings = `24 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw
25 24 0:5 / /dev rw shared:2 - devtmpfs udev rw
26 24 0:22 / /run rw shared:3 - tmpfs tmpfs rw
60 24 0:5 /vdb /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-1/pod-1 rw shared:2 - devtmpfs udev rw
61 24 0:5 /vdb /srv/a\040b rw shared:2 - devtmpfs udev rw
62 24 0:5 /vdc1 /srv/part rw - devtmpfs udev rw
63 24 0:40 /dev/loop7 /srv/loop rw - tmpfs none rw
64 24 0:5 /vdd//deleted /srv/gone rw - devtmpfs udev rw
65 24 0:5 /vde /dev/vde rw - devtmpfs udev rw
66 24 254:16 /vdf /srv/dir rw - xfs /dev/vdb rw
67 24 0:50 /vdg /srv/nfs rw - nfs server:/ rw
`

func treeOf(t *testing.T, table string) []Mount {
	t.Helper()
	tree, err := ParseTree(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestBound(t *testing.T) {
	want := map[string][]string{
		"vdb":     {"/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-1/pod-1", "/srv/a b"},
		"vdc1":    {"/srv/part"},
		"loop7":   {"/srv/loop"},
		"deleted": {"/srv/gone"},
	}
	if diff := cmp.Diff(want, Bound(treeOf(t, bindings))); diff != "" {
		t.Error(diff)
	}
}

func TestChangedNodes(t *testing.T) {
	without := func(id string) string {
		var kept []string
		for line := range strings.Lines(bindings) {
			if !strings.HasPrefix(line, id+" ") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	for name, test := range map[string]struct {
		before, now string
		want        []string
	}{
		"nothing":             {bindings, bindings, nil},
		"one of two places":   {bindings, without("61"), []string{"vdb"}},
		"the only place":      {bindings, without("62"), []string{"vdc1"}},
		"a new place":         {without("63"), bindings, []string{"loop7"}},
		"a mount, not a node": {bindings, without("66"), nil},
		"the first table":     {"", bindings, []string{"deleted", "loop7", "vdb", "vdc1"}},
	} {
		if diff := cmp.Diff(test.want, ChangedNodes(treeOf(t, test.before), treeOf(t, test.now))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
