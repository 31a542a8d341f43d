package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// placeholder matches a placeholder that has not been replaced by a value.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// TestAdvice checks that advice.txt contains all advice that the code uses, and no other advice.
func TestAdvice(t *testing.T) {
	var asked, written []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`advice\("([a-z-]+)"|"((?:kubelet-|after-copy-)[a-z0-9-]+|kubelet)"\n`).FindAllStringSubmatch(string(code), -1) {
			asked = append(asked, m[1]+m[2])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^== (.*) ==$`).FindAllStringSubmatch(adviceText, -1) {
		written = append(written, m[1])
		for _, line := range advice(m[1]) {
			if strings.TrimSpace(line) == "" {
				t.Errorf("%s has an empty line", m[1])
			}
		}
	}
	slices.Sort(asked)
	if asked = slices.Compact(asked); len(asked) < 20 {
		t.Errorf("the code uses only %q", asked)
	}
	if slices.Sort(written); !slices.Equal(asked, written) {
		t.Errorf("the code uses\n%q, the file has\n%q", asked, written)
	}
	if got, want := advice("covered", "over", "/a b'{over}")[1], `umount '/a b'\''{over}'   # `; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDistribution checks that the advice fits the distribution of the kubelet.
func TestDistribution(t *testing.T) {
	for _, tt := range []struct {
		p    Process
		want string
	}{
		{Process{Name: "kubelet", Exe: "/usr/bin/kubelet"}, "kubelet"},
		{Process{Name: "kubelite", Exe: "/snap/microk8s/7/kubelite"}, "kubelet-microk8s"},
		{Process{Name: "kubelet", Exe: "/snap/microk8s/7/kubelet"}, "kubelet-microk8s"},
		{Process{Name: "k3s-server", Exe: "/var/lib/rancher/k3s/data/x/bin/k3s"}, "kubelet-k3s"},
		{Process{Name: "kubelet", Exe: "/var/lib/k0s/bin/kubelet"}, "kubelet-k0s"},
		{Process{Name: "kubelet", Exe: "/hyperkube"}, "kubelet-rke"},
		{Process{Name: "kubelet", Exe: "/usr/local/bin/kubelet"}, "kubelet"},
		{Process{Name: "kubelet", Exe: "/usr/local/bin/kubelet", Args: []string{"kubelet", "--config=/etc/kubernetes/kubelet.yaml"}}, "kubelet-talos"},
	} {
		if got := distribution(&tt.p); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.p, got, tt.want)
		}
	}
}

// TestRemedy checks that each remedy contains the settings or commands that help in its case, and nothing harmful.
func TestRemedy(t *testing.T) {
	const dir = "/mnt/disks"
	process := func(name, exe string, args ...string) *Process {
		return &Process{Name: name, Exe: exe, Args: args, Role: Kubelet}
	}
	var (
		plain    = process("kubelet", "/usr/bin/kubelet")
		microk8s = process("kubelite", "/snap/microk8s/7/kubelite")
		rke      = process("kubelet", "/hyperkube")
		talos    = process("kubelet", "/usr/local/bin/kubelet", "--config=/etc/kubernetes/kubelet.yaml")
		k3s      = process("k3s-server", "/usr/local/bin/k3s")
		k0s      = process("kubelet", "/var/lib/k0s/bin/kubelet")
	)
	for _, tt := range []struct {
		name       string
		lines      []string
		want, dont string
	}{
		{"a DaemonSet", remedy(&Process{Role: Provisioner}, dir), "mountPropagation: HostToContainer", ""},
		// The advice must not contain ReadWritePaths=, which would help only against a read-only path.
		{"the daemon", remedy(&Process{Role: Agent}, dir), "systemctl cat hotmount", "ReadWritePaths"},
		{"the daemon, read-only", advice("daemon-read-only", "dir", dir), "\n  ReadWritePaths=/mnt/disks\n", ""},
		{"a container", remedy(plain, dir), "--volume /mnt/disks:/mnt/disks:rslave", ""},
		{"kind", remedy(plain, dir), "propagation: HostToContainer", ""},
		{"a container's root", remedyRoot(plain, defaultRoot), "--volume /var/lib/kubelet:/var/lib/kubelet:rshared", ""},
		{"kind's root", remedyRoot(plain, defaultRoot), "propagation: Bidirectional", ""},
		// The advice must not change the channel of MicroK8s, because another channel can contain another version of
		// Kubernetes.
		{"microk8s", remedy(microk8s, dir), "strict", "channel="},
		{"microk8s is not refreshed into another snap", remedy(microk8s, dir), "drain", "refresh"},
		{"talos", remedy(talos, dir), "options: [rbind, rslave, rw]", ""},
		{"k3s", remedy(k3s, dir), "k3d cluster create … --volume /mnt/disks:/mnt/disks:rslave@all", ""},
		{"k0s", remedy(k0s, dir), "--volume /mnt/disks:/mnt/disks:rslave … k0s worker", ""},
		{"rke", remedy(rke, dir), `- "/mnt/disks:/mnt/disks:rslave"`, ""},
		// RKE refuses a second bind of the default root directory: "Duplicate mount point".
		{"rke's root", remedyRoot(rke, defaultRoot), "--make-rshared", "extra_binds"},
		{"rke with another root", remedyRoot(rke, "/data/kubelet"), `- "/data/kubelet:/data/kubelet:rshared"`, ""},
	} {
		got := strings.Join(tt.lines, "\n")
		if !strings.Contains(got, tt.want) || tt.dont != "" && strings.Contains(got, tt.dont) || placeholder.MatchString(got) {
			t.Errorf("%s: want %q, not %q, got\n%s", tt.name, tt.want, tt.dont, got)
		}
	}
}
