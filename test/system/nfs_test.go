//go:build vm && full

package system

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"hotmount/test/worker"
)

// nfsPackages are nfs-kernel-server and what it needs that a worker has not.
var nfsPackages = []string{
	"libsasl2-modules-db", "libsasl2-2", "libldap-2.5-0", "libevent-core-2.1-7", "libnfsidmap1", "netbase", "rpcbind", "keyutils", "nfs-common", "nfs-kernel-server",
}

// nfsServer gives a worker with Debian's NFS server, which does not run yet.
func nfsServer(t *testing.T, packages []worker.File) (machine, *worker.Worker) {
	t.Helper()
	o := worker.Options{Files: append([]worker.File{}, packages...), Setup: `set -e
		export DEBIAN_FRONTEND=noninteractive
		dpkg -i /root/nfs/*.deb >/root/nfs/log 2>&1 || { cat /root/nfs/log >&2; exit 1; }
		printf '[nfsd]\ngrace-time=10\nlease-time=10\n' >/etc/nfs.conf.d/quick.conf
		systemctl stop nfs-server nfs-mountd nfsdcld rpc-statd
		mkdir -p /srv/disks /srv/nfs /mnt/client; echo '/srv/nfs *(rw,sync,no_subtree_check,no_root_squash,fsid=0)' >/etc/exports
		modprobe nfsd; modprobe nfsv4`}
	for name, path := range map[string]string{"hotmount-srv.conf": "/etc/systemd/system/hotmount.service.d/srv.conf", "nfs-disk@.service": "/etc/systemd/system/nfs-disk@.service"} {
		text, err := os.ReadFile("../../packaging/examples/nfs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		o.Files = append(o.Files, worker.File{Path: path, Data: text, Mode: 0o644})
	}
	m, w := start(t, o)
	m.example("nfs.yaml")
	m.run("systemctl daemon-reload; systemctl restart hotmount")
	return m, w
}

// lan gives the worker a network card with that address, on a wire that two workers
// share: the one that is given a port listens there.
func (m machine) lan(w *worker.Worker, port int, listen bool, address string) {
	m.t.Helper()
	end := "connect"
	if listen {
		end = "listen"
	}
	mac := "52:54:00:00:09:0" + address[len(address)-1:]
	for _, c := range []struct {
		command string
		args    map[string]any
	}{
		{"netdev_add", map[string]any{"type": "socket", "id": "lan", end: fmt.Sprint("127.0.0.1:", port)}},
		{"device_add", map[string]any{"driver": "virtio-net-pci", "id": "lan-card", "bus": "worker-port31", "netdev": "lan", "mac": mac}},
	} {
		if _, err := w.QMP(ctx(m.t), c.command, c.args); err != nil {
			m.t.Fatal(err)
		}
	}
	m.run(`cat >/etc/systemd/system/lan.service <<'X'
[Unit]
Before=nfs-server.service
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'for i in $(seq 300); do for d in /sys/class/net/*; do if grep -qi ` + mac + ` $d/address; then ip address replace ` + address + `/24 dev $(basename $d) && ip link set $(basename $d) up && exit; fi; done; sleep 0.2; done; exit 1'
[Install]
WantedBy=multi-user.target
X
systemctl daemon-reload; systemctl -q enable --now lan`)
}

// TestNFSServer: Debian's NFS server, whose exports and whose own state lie on a
// disk of hotmount's, is restarted, its worker is, and its disk is moved to another
// worker: the data and the identity are the same, and a client that writes all the
// time goes on.
func TestNFSServer(t *testing.T) {
	parallel(t)
	var packages []worker.File
	for _, f := range download(t, nfsPackages...) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, worker.File{Path: "/root/nfs/" + filepath.Base(f), Data: data, Mode: 0o644})
	}
	a, aw := nfsServer(t, packages)
	b, bw := nfsServer(t, packages)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	a.lan(aw, port, true, "10.9.0.1")
	b.lan(bw, port, false, "10.9.0.2")

	image := made(t, gib)
	name, id := a.attach(aw, worker.Disk{File: image, Serial: "NFS"})
	a.wait("the disk", "findmnt -n /dev/"+name)
	uuid := filepath.Base(a.run("findmnt -no TARGET /dev/" + name))
	serve := "systemctl -q enable nfs-disk@" + uuid + "; systemctl restart nfs-server; exportfs -v | grep -q /srv/nfs"
	a.run(serve + "; cat /proc/sys/kernel/random/uuid >/srv/nfs/nfs-provisioner.identity")
	identity := func(m machine) string {
		return m.run("cat /srv/nfs/nfs-provisioner.identity; findmnt -no SOURCE /srv/nfs /var/lib/nfs | cut -d '[' -f 2; [ -e /var/lib/nfs/nfsdcld/main.sqlite ]")
	}
	before := identity(a)
	b.run("mount -t nfs4 -o vers=4.2,hard 10.9.0.1:/ /mnt/client; cat /mnt/client/nfs-provisioner.identity")
	b.run(`cat >/run/systemd/system/client.service <<'X'
[Service]
ExecStart=/bin/bash -c 'set -e; exec 3>>/mnt/client/log; for ((n = 1; ; n++)); do echo $n >&3; sync /mnt/client/log; echo $n >/run/client; sleep 0.1; done'
X
systemctl daemon-reload; systemctl start client`)
	goesOn := func(after string) {
		t.Helper()
		var n int
		if _, err := fmt.Sscan(b.run("cat /run/client || echo 0"), &n); err != nil {
			t.Fatal(err)
		}
		b.wait("the client to go on after "+after, fmt.Sprintf("[ $(cat /run/client) -gt %d ] && systemctl is-active client", n+5))
	}
	goesOn("the start")
	a.run("systemctl restart nfs-server")
	goesOn("a restart of the server")
	if err := aw.Reboot(ctx(t)); err != nil {
		t.Fatal(err)
	}
	goesOn("a restart of the worker")
	if got := identity(a); got != before {
		t.Errorf("the server was\n%s\nand is\n%s", before, got)
	}

	// The move: address and disk.
	a.run("ip address flush to 10.9.0.1/32; systemctl disable --now -q nfs-disk@" + uuid)
	if got := a.run("hotmount release " + uuid); !regexpLine(got, "^safe to detach") {
		t.Errorf("released: %s", got)
	}
	a.detach(aw, id)
	name, _ = b.attach(bw, worker.Disk{File: image, Serial: "NFS"})
	b.wait("the disk", "findmnt -n /dev/"+name)
	b.run("i=$(ip -o address show to 10.9.0.2 | cut -d ' ' -f 2); ip address add 10.9.0.1/32 dev $i; " + serve)
	goesOn("the move")
	if got := identity(b); got != before {
		t.Errorf("the server was\n%s\nand is\n%s", before, got)
	}
	b.run("systemctl stop client; sync")
	n, err := strconv.Atoi(b.run("cat /run/client"))
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is missing and nothing is there twice.
	b.run(fmt.Sprintf("head -n %d /srv/nfs/log | cmp - <(seq %[1]d)", n))
	t.Logf("%d lines", n)
}
