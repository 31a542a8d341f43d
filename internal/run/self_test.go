package run

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestSelf checks that Self returns a child's answers even if the child then hangs, fails or prints a line that is too
// long.
func TestSelf(t *testing.T) {
	for _, tt := range []struct{ child, want string }{{"child-hangs", "no answer"}, {"child-fails", "exit status 1"}, {"child-babbles", "token too long"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		all, err := Self[struct{ At string }](ctx, nil, tt.child)
		cancel()
		if len(all) != 1 || all[0].At != "/first" || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %+v, %v", tt.child, all, err)
		}
	}
}
