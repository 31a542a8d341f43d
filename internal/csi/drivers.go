package csi

import (
	"path"

	"hotmount/internal/disk"
)

// known maps drivers to the disks that they attach or take. The keys are the names of the drivers. If a driver's
// directory below plugins has another name, the directory's name is a key too. The sources of the table are the
// manifests and constants in the repositories, and the provider's documentation if there is no public repository.
var known = map[string]disk.Reach{
	// The following drivers attach network filesystems, secrets or files of the node, and no disks.
	"csi.tigera.io":                    0, // projectcalico/calico
	"nfs.csi.k8s.io":                   0, // kubernetes-csi/csi-driver-nfs
	"csi-nfsplugin":                    0, // directory of nfs.csi.k8s.io
	"smb.csi.k8s.io":                   0, // kubernetes-csi/csi-driver-smb
	"secrets-store.csi.k8s.io":         0, // kubernetes-sigs/secrets-store-csi-driver
	"csi-secrets-store":                0, // directory of secrets-store.csi.k8s.io
	"csi.cert-manager.io":              0, // cert-manager/csi-driver
	"cert-manager-csi-driver":          0, // directory of csi.cert-manager.io
	"cert-manager-csi":                 0, // directory of csi.cert-manager.io in older manifests
	"spiffe.csi.cert-manager.io":       0, // cert-manager/csi-driver-spiffe
	"cert-manager-csi-driver-spiffe":   0, // directory of spiffe.csi.cert-manager.io
	"csi.spiffe.io":                    0, // spiffe/spiffe-csi
	"cephfs.csi.ceph.com":              0, // ceph/ceph-csi
	"nfs.csi.ceph.com":                 0, // ceph/ceph-csi
	"efs.csi.aws.com":                  0, // kubernetes-sigs/aws-efs-csi-driver
	"fsx.csi.aws.com":                  0, // kubernetes-sigs/aws-fsx-csi-driver
	"s3.csi.aws.com":                   0, // awslabs/mountpoint-s3-csi-driver
	"ru.yandex.s3.csi":                 0, // yandex-cloud/k8s-csi-s3
	"file.csi.azure.com":               0, // kubernetes-sigs/azurefile-csi-driver
	"blob.csi.azure.com":               0, // kubernetes-sigs/blob-csi-driver
	"filestore.csi.storage.gke.io":     0, // kubernetes-sigs/gcp-filestore-csi-driver
	"gcsfuse.csi.storage.gke.io":       0, // GoogleCloudPlatform/gcs-fuse-csi-driver
	"nfs.manila.csi.openstack.org":     0, // kubernetes/cloud-provider-openstack
	"cephfs.manila.csi.openstack.org":  0, // kubernetes/cloud-provider-openstack
	"filestorage.csi.scaleway.com":     0, // Scaleway, documentation
	"csi.juicefs.com":                  0, // juicedata/juicefs-csi-driver
	"kubevirt.io.hostpath-provisioner": 0, // kubevirt/hostpath-provisioner

	// The following drivers, except csi-isilon, attach disks behind a network. Longhorn and LINSTOR build their devices
	// on the node.
	"rbd.csi.ceph.com":         disk.Fabric,               // ceph/ceph-csi
	"driver.longhorn.io":       disk.Fabric | disk.Mapper, // longhorn/longhorn-manager
	"linstor.csi.linbit.com":   disk.Fabric | disk.Mapper, // piraeusdatastore/linstor-csi
	"io.openebs.csi-mayastor":  disk.Fabric | disk.Whole,  // openebs/mayastor-control-plane; a DiskPool takes a whole disk
	"io.openebs.mayastor":      disk.Fabric | disk.Whole,  // directory of io.openebs.csi-mayastor
	"jiva.csi.openebs.io":      disk.Fabric,               // openebs-archive/jiva-operator
	"iscsi.csi.k8s.io":         disk.Fabric,               // kubernetes-csi/csi-driver-iscsi
	"csi-iscsi":                disk.Fabric,               // directory of iscsi.csi.k8s.io
	"csi.trident.netapp.io":    disk.Fabric,               // NetApp/trident
	"csi.san.synology.com":     disk.Fabric,               // SynologyOpenSource/synology-csi
	"csi-isilon":               0,                         // directory of dell/csi-powerscale, which attaches NFS
	"csi-isilon.dellemc.com":   0,                         // dell/csi-powerscale
	"unity.emc.dell.com":       disk.Fabric,               // directory of dell/csi-unity
	"csi-unity.dellemc.com":    disk.Fabric,               // dell/csi-unity
	"powermax.emc.dell.com":    disk.Fabric,               // directory of dell/csi-powermax
	"csi-powermax.dellemc.com": disk.Fabric,               // dell/csi-powermax

	// The following drivers build their volumes on disks of the node.
	"topolvm.io":           disk.Mapper, // topolvm/topolvm
	"topolvm.cybozu.com":   disk.Mapper, // former name of topolvm.io
	"local.csi.openebs.io": disk.Mapper, // openebs/lvm-localpv
	"lvm-localpv":          disk.Mapper, // directory of local.csi.openebs.io
	"zfs.csi.openebs.io":   disk.Mapper, // openebs/zfs-localpv
	"zfs-localpv":          disk.Mapper, // directory of zfs.csi.openebs.io

	// The following drivers attach disks that look local, because the hypervisor attaches them.
	"cinder.csi.openstack.org":        disk.Local, // kubernetes/cloud-provider-openstack
	"csi.hetzner.cloud":               disk.Local, // hetznercloud/csi-driver
	"dobs.csi.digitalocean.com":       disk.Local, // digitalocean/csi-digitalocean
	"pd.csi.storage.gke.io":           disk.Local, // kubernetes-sigs/gcp-compute-persistent-disk-csi-driver
	"ebs.csi.aws.com":                 disk.Local, // kubernetes-sigs/aws-ebs-csi-driver
	"ebs.csi.eks.amazonaws.com":       disk.Local, // EKS Auto Mode, documentation
	"disk.csi.azure.com":              disk.Local, // kubernetes-sigs/azuredisk-csi-driver
	"csi.vsphere.vmware.com":          disk.Local, // kubernetes-sigs/vsphere-csi-driver
	"csi.proxmox.sinextra.dev":        disk.Local, // sergelogvinov/proxmox-csi-plugin
	"csi.kubevirt.io":                 disk.Local, // kubevirt/csi-driver
	"csi.ovirt.org":                   disk.Local, // openshift/ovirt-csi-driver
	"ovirt.org":                       disk.Local, // directory of csi.ovirt.org
	"linodebs.csi.linode.com":         disk.Local, // linode/linode-blockstorage-csi-driver
	"block.csi.vultr.com":             disk.Local, // vultr/vultr-csi
	"csi.scaleway.com":                disk.Local, // scaleway/scaleway-csi
	"storage.csi.upcloud.com":         disk.Local, // UpCloudLtd/upcloud-csi
	"csi.exoscale.com":                disk.Local, // exoscale/exoscale-csi-driver
	"blockvolume.csi.oraclecloud.com": disk.Local, // oracle/oci-cloud-controller-manager
	"vpc.block.csi.ibm.io":            disk.Local, // kubernetes-sigs/ibm-vpc-block-csi-driver
	"diskplugin.csi.alibabacloud.com": disk.Local, // kubernetes-sigs/alibaba-cloud-csi-driver
	"com.tencent.cloud.csi.cbs":       disk.Local, // TencentCloud/kubernetes-csi-tencentcloud
	"disk.csi.everest.io":             disk.Local, // Huawei Cloud CCE, documentation

	// The following drivers take whole disks of the node.
	"directpv-min-io":      disk.Whole, // minio/directpv
	"direct-csi-min-io":    disk.Whole, // former name of directpv-min-io
	"pxd.portworx.com":     disk.Whole, // libopenstorage/operator
	"lvm.hwameistor.io":    disk.Whole, // hwameistor/hwameistor
	"disk.hwameistor.io":   disk.Whole, // hwameistor/hwameistor
	"carina.storage.io":    disk.Whole, // carina-io/carina
	"cstor.csi.openebs.io": disk.Whole, // openebs-archive/cstor-operators
	"rook":                 disk.Whole, // rook/rook, found by its OSDs
}

// families are patterns for drivers whose names are not fixed. An administrator chooses the beginning or the end of
// such a name.
var families = []struct {
	pattern string
	reach   disk.Reach
}{
	{"*.rbd.csi.ceph.com", disk.Fabric},                 // rook/rook: the operator's namespace comes first
	{"*.cephfs.csi.ceph.com", 0},                        // rook/rook
	{"*.nfs.csi.ceph.com", 0},                           // rook/rook
	{"org.democratic-csi.*", disk.Fabric | disk.Mapper}, // democratic-csi/democratic-csi: examples of csiDriver.name
	{"csi-powerstore.dellemc.com*", disk.Fabric},        // dell/csi-powerstore, driver and directory
}

// reachOf returns the kinds of disks that the driver attaches or takes. An unknown driver may attach or take any kind
// of disk.
func reachOf(name string) disk.Reach {
	if reach, ok := known[name]; ok {
		return reach
	}
	for _, f := range families {
		if ok, err := path.Match(f.pattern, name); ok && err == nil {
			return f.reach
		}
	}
	return disk.Anything
}
