package unit

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// Kubelets lists the services that give volumes to pods. Before= of hotmount.service lists the same services. The
// services with the prefix snap belong to MicroK8s, Canonical Kubernetes, Charmed Kubernetes and Ubuntu on EKS.
const Kubelets = "kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service k0sworker.service k0scontroller.service snap.microk8s.daemon-kubelite.service snap.k8s.kubelet.service snap.kubelet.daemon.service snap.kubelet-eks.daemon.service"

// Static returns the mount unit as the text of a unit file (systemd.mount(5)). The unit file works without hotmount,
// and finds the filesystem by its UUID at every boot.
func (u *MountUnit) Static() (string, error) {
	if err := u.check(); err != nil {
		return "", fmt.Errorf("cannot write a unit for %s: %w", u.ID, err)
	}
	text, err := io.ReadAll(unit.Serialize([]*unit.UnitOption{
		{Section: "Unit", Name: "Description", Value: strings.ReplaceAll(u.Description, "%", "%%")},
		{Section: "Unit", Name: "Before", Value: Kubelets},
		{Section: "Mount", Name: "What", Value: "/dev/disk/by-uuid/" + path.Base(u.Path)},
		{Section: "Mount", Name: "Where", Value: strings.ReplaceAll(u.Path, "%", "%%")},
		{Section: "Mount", Name: "Type", Value: u.Type},
		{Section: "Mount", Name: "Options", Value: strings.Join(append(u.Options[:len(u.Options):len(u.Options)], "nofail"), ",")},
		{Section: "Mount", Name: "TimeoutSec", Value: fmt.Sprint(int64(u.Timeout / time.Second))},
		{Section: "Install", Name: "WantedBy", Value: "multi-user.target"},
	}))
	return string(text), err
}
