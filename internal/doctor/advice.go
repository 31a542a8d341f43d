package doctor

import (
	_ "embed"
	"path"
	"strings"

	"hotmount/internal/disk"
)

//go:embed advice.txt
var adviceText string

// advice returns the lines of the named section of advice.txt. The parameter `values` contains pairs. Each pair is
// the name of a placeholder and the value of the placeholder.
func advice(name string, values ...string) []string {
	_, text, _ := strings.Cut(adviceText, "\n== "+name+" ==\n")
	text, _, _ = strings.Cut(text, "\n== ")
	pairs := []string{"{marker}", disk.Marker}
	for i := 1; i < len(values); i += 2 {
		pairs = append(pairs, "{"+values[i-1]+"}", shellQuote(values[i]))
	}
	return strings.Split(strings.NewReplacer(pairs...).Replace(strings.TrimSpace(text)), "\n")
}

// plain contains the bytes that are safe without quotes in a shell, a path and a unit file.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"

// shellQuote quotes a word for a shell. shellQuote escapes bytes that a terminal does not show. For the shell, an
// escaped word is different from the original word. The difference is intended, because nobody should paste the
// original bytes into a shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, plain+":@+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(disk.Visible(s), "'", `'\''`) + "'"
}

// remedy returns the advice for the case that a process does not see the class directory as the host does.
func remedy(p *Process, dir string) []string {
	switch p.Role {
	case Provisioner:
		return advice("provisioner", "dir", dir)
	case Agent:
		return advice("daemon")
	}
	return kubeletAdvice(p, dir, "rslave", "HostToContainer")
}

// remedyRoot returns the advice for the case that the container runtime does not see kubelet's mounts for pods.
func remedyRoot(p *Process, dir string) []string {
	return kubeletAdvice(p, dir, "rshared", "Bidirectional")
}

// kubeletAdvice returns the advice for the kubelet's systemd service or for the Kubernetes distribution.
// hotmount-doctor(8) contains the full explanation of the advice for kubelets.
func kubeletAdvice(p *Process, dir, propagation, kubernetes string) []string {
	name, s := distribution(p), &p.Service
	switch {
	case len(s.Causes) > 0:
		return advice("service", "unit", s.name(), "causes", strings.Join(s.Causes, ", "), "lines", "[Service] "+strings.Join(s.Resets, " "))
	case s.Group != "" && name != "kubelet-microk8s":
		return advice("service-restart", "unit", s.name())
	}
	if name == "kubelet-rke" && dir == defaultRoot {
		// RKE itself binds the default root directory (cluster/plan.go). Docker refuses a second bind in extra_binds
		// ("Duplicate mount point").
		name = "kubelet-rke-root"
	}
	return advice(name, "dir", dir, "propagation", propagation, "kubernetes", kubernetes)
}

// distribution guesses the Kubernetes distribution of a kubelet, and returns the name of the section of advice.txt for
// this distribution.
func distribution(p *Process) string {
	switch base := path.Base(p.Exe); {
	case base == "kubelite" || p.Name == "kubelite" || strings.HasPrefix(p.Exe, "/snap/microk8s/"):
		return "kubelet-microk8s"
	case base == "k3s" || strings.HasPrefix(p.Name, "k3s"):
		return "kubelet-k3s"
	case strings.HasPrefix(p.Exe, "/var/lib/k0s/"):
		return "kubelet-k0s"
	case isHyperkube(p) || strings.HasPrefix(p.Exe, "/opt/rke-tools/"):
		return "kubelet-rke"
	case p.Exe == "/usr/local/bin/kubelet" && strings.Contains(strings.Join(p.Args, " "), "/etc/kubernetes/kubelet.yaml"):
		return "kubelet-talos"
	}
	return "kubelet"
}
