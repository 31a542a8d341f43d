// Command hotmount formats blank disks of a Kubernetes node. hotmount mounts the filesystems by UUID for the
// local-static-provisioner.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hotmount:", err)
	}
	os.Exit(exitCode(err))
}

// exitCode returns the exit code for an error. hotmount(8) lists the exit codes. No function other than exitCode
// chooses an exit code.
func exitCode(err error) int {
	var usage usageError
	var found foundError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &found):
		return 3
	default:
		return 1
	}
}
