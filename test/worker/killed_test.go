//go:build root

package worker

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// killedName is the environment variable that passes the path of a disk file to TestToBeKilled.
const killedName = "HOTMOUNT_TEST_TO_BE_KILLED"

// TestToBeKilled runs in a process that TestContainerKilled starts and kills. Without the environment variable
// killedName, TestToBeKilled does nothing.
func TestToBeKilled(t *testing.T) {
	file := os.Getenv(killedName)
	if file == "" {
		return
	}
	c := startContainer(t, ContainerOptions{Name: "killed"})
	_, name := attach(t, c, Disk{File: file})
	// In the container, systemd mounts one disk, and losetup attaches a second disk.
	runIn(t, c, fmt.Sprintf(untilNamed, name))
	runIn(t, c, fmt.Sprintf(`systemd-mount /dev/%s /mnt/held; n=%d; truncate -s 1G %s/x.img
mknod /dev/loop$n b 7 $n; losetup /dev/loop$n %[3]s/x.img`, name, c.First()+1, c.Disks()))
	fmt.Printf("\nready %d %d %s\n", c.init.cmd.Process.Pid, c.First(), c.group.dir)
	select {}
}

// TestContainerKilled checks that a container ends when the process that started the container is killed. The next
// container must remove what the killed container has left on the host.
func TestContainerKilled(t *testing.T) {
	var pid, first int
	var group string
	test := exec.Command(os.Args[0], "-test.run=^TestToBeKilled$", "-test.v")
	test.Env = append(os.Environ(), killedName+"="+xfsFile(t))
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for group == "" && said.Scan() {
		_, _ = fmt.Sscanf(said.Text(), "ready %d %d %s", &pid, &first, &group) // other lines come from the test framework
	}
	if err := test.Process.Kill(); err != nil || group == "" {
		t.Fatalf("the container is not there: %v", err)
	}
	_ = test.Wait() // Wait returns an error, because the process was killed
	if !bound(first+1) || !exists(group) {
		t.Error("the killed run has left nothing: this test shows nothing")
	}

	for _, name := range []string{"", "killed"} { // one container with a free name, and one with the killed container's name
		c := startContainer(t, ContainerOptions{Name: name})
		if exists(fmt.Sprintf("/proc/%d/root/run/systemd", pid)) {
			t.Errorf("process %d goes on", pid)
		}
		// Another program may use the loop device by now. The test therefore fails only if a file of the killed
		// container is still attached to the loop device.
		file, _ := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", first+1))
		if strings.Contains(string(file), "/srv/killed/") {
			t.Errorf("loop%d still has %s", first+1, file)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		c.work, c.group, c.leave = nil, nil, nil // already stopped
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), filepath.Join(containerBase, "killed")) {
		t.Errorf("a mount is left: %v", err)
	}
	// containerWork.remove removes the container's directory last, so nothing is left if the directory is gone.
	for _, path := range []string{group, filepath.Join(containerBase, "killed")} {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}
