package doctor

import (
	"fmt"
	"path"
	"strings"
)

// remedy gives the lines that let a process see the class directory as the host
// does, and for the daemon, write to it.
func remedy(r Role, p *Process, dir string) []string {
	switch r {
	case Provisioner:
		return lines(`in the provisioner's DaemonSet (the chart does it), then let its pods be made anew:
  volumeMounts:
    - name: disks
      mountPath: %[1]s
      mountPropagation: HostToContainer
  volumes:
    - name: disks
      hostPath: {path: %[1]s}`, dir)
	case Agent:
		return lines(`systemctl cat hotmount   # MountFlags=, BindPaths=, BindReadOnlyPaths=, TemporaryFileSystem=, InaccessiblePaths=, RootDirectory= and RootImage= are not hotmount's, but for BindReadOnlyPaths=/sys: take them out of the drop-ins
systemctl daemon-reload && systemctl restart hotmount`)
	}
	return kubeletLines(p, dir, "rslave")
}

// remedyReadOnly gives the lines that let the daemon write to a class directory.
func remedyReadOnly(dir string) []string {
	return lines(`hotmount config apply-sandbox   # or a drop-in of systemctl edit hotmount:
  [Service]
  ReadOnlyPaths=
  ReadOnlyPaths=/proc
  ReadWritePaths=%[1]s
systemctl daemon-reload && systemctl restart hotmount`, dir)
}

// remedyRoot gives the lines that let the container runtime see what a kubelet
// mounts.
func remedyRoot(p *Process, dir string) []string { return kubeletLines(p, dir, "rshared") }

// kubeletLines are those for the distribution that the kubelet is of. All of them
// stand in hotmount(8).
func kubeletLines(p *Process, dir, propagation string) []string {
	kind := "HostToContainer"
	if propagation == "rshared" {
		kind = "Bidirectional"
	}
	switch distribution(p) {
	case "microk8s":
		return lines(`snap list microk8s   # a strictly confined MicroK8s ("strict" in its channel) has mounts of its own; the classic one has the host's
# drain the node, remove the snap, and install the classic one of the same Kubernetes version
in LXD, on the node: mount --make-rshared /`)
	case "talos":
		return lines(`in Talos's machine configuration ("bind" alone is not enough: rbind):
  machine:
    kubelet:
      extraMounts:
        - destination: %[1]s
          type: bind
          source: %[1]s
          options: [rbind, %[2]s, rw]`, dir, propagation)
	case "rke":
		if dir == defaultRoot {
			// It is among RKE's own binds (cluster/plan.go), and a second one in
			// extra_binds is refused ("Duplicate mount point").
			return lines(`RKE shares %[1]s by itself; the host's mount of it is to be shared, too:
  mount --make-rshared $(findmnt -no TARGET -T %[1]s)
  docker restart kubelet`, dir)
		}
		return lines(`in cluster.yml, then rke up:
  services:
    kubelet:
      extra_binds:
        - "%[1]s:%[1]s:%[2]s"`, dir, propagation)
	case "k3s":
		return lines(`k3s as a service needs the host's mounts: systemctl edit k3s (or k3s-agent), then restart it:
  [Service]
  PrivateMounts=no
  PrivateTmp=no
  ProtectSystem=no
  ProtectHome=no
k3s in a container:
  docker run … --volume %[1]s:%[1]s:%[2]s …
  k3d cluster create … --volume %[1]s:%[1]s:%[2]s@all`, dir, propagation)
	case "k0s":
		return lines(`k0s as a service needs the host's mounts: systemctl edit k0sworker, then restart it:
  [Service]
  PrivateMounts=no
  PrivateTmp=no
  ProtectSystem=no
  ProtectHome=no
k0s in a container:
  docker run … --volume %[1]s:%[1]s:%[2]s … k0s worker`, dir, propagation)
	}
	return lines(`kubelet in a container, started anew with:
  docker run … --volume %[1]s:%[1]s:%[2]s …
kubelet in kind:
  nodes:
    - extraMounts:
        - hostPath: %[1]s
          containerPath: %[1]s
          propagation: %[3]s
kubelet as a service needs the host's mounts: systemctl edit kubelet, then restart it:
  [Service]
  PrivateMounts=no
  PrivateTmp=no
  ProtectSystem=no
  ProtectHome=no`, dir, propagation, kind)
}

// distribution guesses by whom a kubelet was made.
func distribution(p *Process) string {
	switch base := path.Base(p.Exe); {
	case base == "kubelite" || p.Name == "kubelite" || strings.HasPrefix(p.Exe, "/snap/microk8s/"):
		return "microk8s"
	case base == "k3s" || strings.HasPrefix(p.Name, "k3s"):
		return "k3s"
	case strings.HasPrefix(p.Exe, "/var/lib/k0s/"):
		return "k0s"
	case base == "hyperkube" || p.Name == "hyperkube" || strings.HasPrefix(p.Exe, "/opt/rke-tools/"):
		return "rke"
	case p.Exe == "/usr/local/bin/kubelet" && strings.Contains(strings.Join(p.Args, " "), "/etc/kubernetes/kubelet.yaml"):
		return "talos"
	}
	return ""
}

func lines(text string, args ...any) []string {
	return strings.Split(fmt.Sprintf(text, args...), "\n")
}
