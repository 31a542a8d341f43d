package doctor

import (
	"strings"
	"testing"
)

// TestDistribution: by whom a kubelet was made, so that the lines are for that.
func TestDistribution(t *testing.T) {
	for _, tt := range []struct {
		p    Process
		want string
	}{
		{Process{Name: "kubelet", Exe: "/usr/bin/kubelet"}, ""},
		{Process{Name: "kubelite", Exe: "/snap/microk8s/7/kubelite"}, "microk8s"},
		{Process{Name: "kubelet", Exe: "/snap/microk8s/7/kubelet"}, "microk8s"},
		{Process{Name: "k3s-server", Exe: "/var/lib/rancher/k3s/data/x/bin/k3s"}, "k3s"},
		{Process{Name: "kubelet", Exe: "/var/lib/k0s/bin/kubelet"}, "k0s"},
		{Process{Name: "kubelet", Exe: "/hyperkube"}, "rke"},
		{Process{Name: "kubelet", Exe: "/usr/local/bin/kubelet"}, ""},
		{Process{Name: "kubelet", Exe: "/usr/local/bin/kubelet", Args: []string{"kubelet", "--config=/etc/kubernetes/kubelet.yaml"}}, "talos"},
	} {
		if got := distribution(&tt.p); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.p, got, tt.want)
		}
	}
}

// TestRemedy: the lines say what has to be there, and nothing that does harm.
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
		{"a DaemonSet", remedy(Provisioner, nil, dir), "mountPropagation: HostToContainer", ""},
		// A read-only path alone is opened by ReadWritePaths=.
		{"the daemon", remedy(Agent, nil, dir), "systemctl cat hotmount", "ReadWritePaths"},
		{"the daemon, read-only", remedyReadOnly(dir), "\n  ReadWritePaths=/mnt/disks\n", ""},
		{"a container", remedy(Kubelet, plain, dir), "--volume /mnt/disks:/mnt/disks:rslave", ""},
		{"kind", remedy(Kubelet, plain, dir), "propagation: HostToContainer", ""},
		{"a container's root", remedyRoot(plain, defaultRoot), "--volume /var/lib/kubelet:/var/lib/kubelet:rshared", ""},
		{"kind's root", remedyRoot(plain, defaultRoot), "propagation: Bidirectional", ""},
		// A channel is a version of Kubernetes.
		{"microk8s", remedy(Kubelet, microk8s, dir), "strict", "channel="},
		{"microk8s is not refreshed into another snap", remedy(Kubelet, microk8s, dir), "drain", "refresh"},
		{"talos", remedy(Kubelet, talos, dir), "options: [rbind, rslave, rw]", ""},
		{"k3s", remedy(Kubelet, k3s, dir), "systemctl edit k3s", ""},
		{"k0s", remedy(Kubelet, k0s, dir), "systemctl edit k0sworker", ""},
		{"rke", remedy(Kubelet, rke, dir), `- "/mnt/disks:/mnt/disks:rslave"`, ""},
		// A second bind of it is refused: "Duplicate mount point".
		{"rke's root", remedyRoot(rke, defaultRoot), "--make-rshared", "extra_binds"},
		{"rke with another root", remedyRoot(rke, "/data/kubelet"), `- "/data/kubelet:/data/kubelet:rshared"`, ""},
	} {
		got := strings.Join(tt.lines, "\n")
		if !strings.Contains(got, tt.want) || tt.dont != "" && strings.Contains(got, tt.dont) {
			t.Errorf("%s: want %q, not %q, got\n%s", tt.name, tt.want, tt.dont, got)
		}
	}
}
