package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSelf checks that Self returns a child's answers even if the child then hangs, fails or prints an invalid line. Self
// must end and reap the child.
func TestSelf(t *testing.T) {
	for _, tt := range []struct{ child, want string }{
		{"child-hangs", "no answer"}, {"child-fails", "exit status 1"}, {"child-babbles", "token too long"}, {"child-errs", "invalid character"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		all, err := Self[struct{ At string }](ctx, nil, tt.child)
		cancel()
		if len(all) != 1 || all[0].At != "/first" || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %+v, %v", tt.child, all, err)
		}
		for deadline := time.Now().Add(20 * time.Second); ; {
			if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil); errors.Is(err, unix.ECHILD) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the child still exists", tt.child)
			}
		}
	}
}
