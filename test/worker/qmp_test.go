package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// fakeQEMU returns a client of a fake QEMU. For each command except qmp_capabilities, the fake QEMU calls respond() and
// sends the returned lines. If respond() returns nil, the fake QEMU closes the connection.
func fakeQEMU(t *testing.T, respond func(command string, id int) []string) (*qmp, *bytes.Buffer) {
	t.Helper()
	ours, theirs, err := monitorPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		fmt.Fprintln(conn, `{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}`)
		scanner := bufio.NewScanner(conn)
		for scanner.Scan() {
			var c struct {
				Execute string
				ID      int
			}
			if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
				return
			}
			lines := []string{fmt.Sprintf(`{"return": {}, "id": %d}`, c.ID)}
			if c.Execute != "qmp_capabilities" {
				lines = respond(c.Execute, c.ID)
			}
			if lines == nil {
				return
			}
			// The fake QEMU sends all lines in one write, because a client must also handle several messages in one
			// read.
			fmt.Fprint(conn, strings.Join(lines, "\r\n")+"\r\n")
		}
	}()
	var log bytes.Buffer
	q, err := newQMP(t.Context(), ours, &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.close(); <-done })
	return q, &log
}

func TestQMP(t *testing.T) {
	q, _ := fakeQEMU(t, func(command string, id int) []string {
		switch command {
		case "refused":
			return []string{fmt.Sprintf(`{"id": %d, "error": {"class": "GenericError", "desc": "no"}}`, id)}
		case "eventful":
			return []string{
				`{"event": "DEVICE_DELETED", "data": {"path": "/x"}, "timestamp": {"seconds": 1, "microseconds": 2}}`,
				fmt.Sprintf(`{"return": {"a": 1}, "id": %d}`, id),
				`{"event": "DEVICE_DELETED", "data": {"device": "disk0"}}`,
			}
		}
		return nil
	})
	ctx := t.Context()
	w := q.expect(func(e Event) bool { return strings.Contains(string(e.Data), "disk0") })
	got, err := q.execute(ctx, "eventful", map[string]any{"serial": "a=b \x01"})
	if err != nil || string(got) != `{"a": 1}` {
		t.Errorf("got %s, %v", got, err)
	}
	if e, err := q.await(ctx, w); err != nil || e.Name != "DEVICE_DELETED" {
		t.Errorf("got event %v, %v", e, err)
	}
	var refused *QMPError
	if _, err := q.execute(ctx, "refused", nil); !errors.As(err, &refused) || refused.Desc != "no" {
		t.Errorf("a refusal gives %v", err)
	}
	w = q.expect(func(Event) bool { return true })
	if _, err := q.execute(ctx, "hang up", nil); err == nil {
		t.Error("a monitor that hangs up gives no error")
	}
	if _, err := q.await(ctx, w); !errors.Is(err, errMonitorClosed) {
		t.Errorf("an event of a closed monitor gives %v", err)
	}
	if _, err := q.execute(ctx, "anything", nil); err == nil {
		t.Error("a closed monitor takes commands")
	}
}

func TestQMPGivesUpWithTheContext(t *testing.T) {
	q, log := fakeQEMU(t, func(string, int) []string { return []string{} })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := q.execute(ctx, "query-nothing", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w := q.expect(func(Event) bool { return true })
	if _, err := q.await(ctx, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	q.close()
	if !strings.Contains(log.String(), `-> {"execute":"query-nothing"`) {
		t.Errorf("the log has %q", log)
	}
}

func TestParseForward(t *testing.T) {
	const usernet = "Hub -1 (net):\r\n" +
		"  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
		"  TCP[ESTABLISHED]   13       127.0.0.1 45678       10.0.2.15    22     0     0\r\n" +
		"  TCP[HOST_FORWARD]  12       127.0.0.1 40123       10.0.2.15    22     0     0\r\n"
	if port, err := parseForward(usernet); err != nil || port != 40123 {
		t.Errorf("got %d, %v", port, err)
	}
	if port, err := parseForward("nothing"); err == nil {
		t.Errorf("got %d of nothing", port)
	}
}
