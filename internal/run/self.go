package run

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// selfTimeout is the longest time that Self waits for a child. A child on a dead filesystem hangs forever.
const selfTimeout = 5 * time.Second

// Unanswered is the error for a child that did not end in time. Self has sent SIGKILL to the child, but a child that
// hangs in the kernel does not end. The channel Ended is closed when the child has ended.
type Unanswered struct{ Ended <-chan struct{} }

func (Unanswered) Error() string { return fmt.Sprintf("no answer within %s", selfTimeout) }

// Self runs a second process of this program, for work that may hang. Self decodes one JSON value from each line of the
// child's output. Self returns the answers that come until the child ends, ctx ends, or 5 seconds pass. If the child
// fails, does not end in time or prints an invalid line, Self also returns an error. Self does not wait for a child that
// hangs in the kernel. If stdin is nil, the child's input is empty.
func Self[T any](ctx context.Context, stdin *os.File, args ...string) ([]T, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	deadline := time.Now().Add(selfTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := out.SetReadDeadline(deadline); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	c := exec.Command("/proc/self/exe", args...)
	c.Dir, c.Env, c.Stdout = "/", []string{"LC_ALL=C.UTF-8"}, in
	if stdin != nil {
		c.Stdin = stdin
	}
	err = c.Start()
	in.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	defer stop()
	var all []T
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one T
		if err = json.Unmarshal(lines.Bytes(), &one); err != nil {
			break
		}
		all = append(all, one)
	}
	if err = cmp.Or(err, lines.Err()); err == nil {
		return all, c.Wait()
	}
	_ = c.Process.Kill()
	ended := make(chan struct{})
	// The goroutine reaps the child, and ends when the child ends. Nobody waits for the goroutine, because a child that
	// hangs in the kernel may never end.
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = Unanswered{ended}
	}
	return all, err
}
