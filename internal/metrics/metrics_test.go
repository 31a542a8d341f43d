package metrics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"hotmount/internal/disk"
)

const uuid = "0b0f1c6e-2b3c-4d61-9c2e-0a1b2c3d4e5f"

// The function `used` returns the text of the metrics after one event of each kind.
func used(t *testing.T) string {
	t.Helper()
	m := New("1.2.3")
	at := time.UnixMilli(1700000000500)
	blank := &disk.Facts{ID: disk.ID{Name: "vdb", Seq: 2}}
	blank.Standing.Verdict = &disk.Verdict{Seq: 2, Content: disk.Content{Kind: disk.Filesystem, Type: "xfs", UUID: uuid, Made: true}}
	ours := disk.Decision{Action: disk.Mount, Class: "default", UUID: uuid, Reason: disk.ReasonFilesystem}
	m.Added(2, at)
	m.Decided(blank, &disk.Content{Kind: disk.Unread}, disk.Decision{Action: disk.Prove, Class: "default"})
	m.Decided(blank, &blank.Standing.Verdict.Content, ours)
	m.Failed(ours)
	m.Failed(disk.Decision{})
	// Once the disk is mounted, the result of the proof is no longer known.
	blank.Standing.Verdict = nil
	m.Mounted(blank, ours, at.Add(10*time.Second))
	// The disk is mounted again without an event, so no duration is recorded.
	m.Mounted(blank, ours, at.Add(time.Hour))
	// The disk was held, and accepted a day later. hotmount must not record the time for which a held disk waits for
	// its accept.
	held := &disk.Facts{ID: disk.ID{Name: "vdc", Seq: 3}}
	m.Added(3, at)
	m.Decided(held, &disk.Content{}, disk.Decision{Action: disk.Hold, Class: "default", Reason: disk.ReasonPresent})
	m.Mounted(held, ours, at.Add(24*time.Hour))
	m.Decided(held, &disk.Content{}, disk.Decision{Action: disk.Refuse, Class: "\xff\n\"odd", Reason: disk.ReasonPartitions})
	m.Lost()
	m.Rescanned(at)
	m.Alive(at)
	m.Faulty(true)
	path := filepath.Join(t.TempDir(), "hotmount.prom")
	lines := []disk.Line{
		{Disk: "vdb", Decision: disk.Decision{Action: disk.Keep, Class: "default", Reason: disk.ReasonMounted}},
		{Disk: "vdc", Decision: disk.Decision{Action: disk.Mount, Class: "default", Reason: disk.ReasonFilesystem}, Failure: "no"},
		{Disk: "vdd", Decision: disk.Decision{Action: disk.Refuse, Class: "default", Reason: disk.ReasonPartitions}},
		{Disk: "vde", Decision: disk.Decision{Action: disk.Refuse, Class: "default", Reason: disk.ReasonPartitions}},
	}
	gone := []Filesystem{{UUID: "gone", Class: "default", Device: "/dev/vdz", Size: 1}}
	if err := m.Write(path, lines[:1], gone); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(path, lines, []Filesystem{{UUID: uuid, Class: "default", Device: "/dev/vdb", Size: 1000, Free: 600, Available: 500, Inodes: 40, FreeInodes: 30}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("node_exporter cannot read it: %v, %v", info, err)
	}
	if all, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(all) != 1 {
		t.Errorf("beside it: %v, %v", all, err)
	}
	return string(text)
}

func TestMetrics(t *testing.T) {
	text := used(t)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	fs := `{class="default",device="/dev/vdb",uuid="` + uuid + `"} `
	for _, want := range []string{
		`hotmount_build_info{version="1.2.3"} 1`,
		`hotmount_disks{class="default",reason="mounted",state="mounted"} 1`,
		`hotmount_disks{class="default",reason="filesystem",state="failed"} 1`,
		`hotmount_disks{class="default",reason="partitions",state="refused"} 2`,
		`hotmount_refusals_total{class="default",reason="attached-before-installation"} 1`,
		`hotmount_refusals_total{class="\\xff\\n\"odd",reason="partitions"} 1`,
		`hotmount_formats_total{class="default"} 1`,
		`hotmount_mounts_total{class="default"} 3`,
		`hotmount_failures_total{action="mount"} 1`,
		`hotmount_failures_total{action="look"} 1`,
		`hotmount_lost_events_total 1`,
		`hotmount_last_rescan_timestamp_seconds 1.7000000005e+09`,
		`hotmount_watchdog_timestamp_seconds 1.7000000005e+09`,
		`hotmount_configuration_fault 1`,
		`hotmount_attach_to_mounted_seconds_bucket{formatted="true",le="5"} 0`,
		`hotmount_attach_to_mounted_seconds_bucket{formatted="true",le="10"} 1`,
		`hotmount_attach_to_mounted_seconds_bucket{formatted="true",le="+Inf"} 1`,
		`hotmount_attach_to_mounted_seconds_sum{formatted="true"} 10`,
		`hotmount_attach_to_mounted_seconds_count{formatted="true"} 1`,
		`hotmount_filesystem_size_bytes` + fs + `1000`,
		`hotmount_filesystem_free_bytes` + fs + `600`,
		`hotmount_filesystem_available_bytes` + fs + `500`,
		`hotmount_filesystem_inodes` + fs + `40`,
		`hotmount_filesystem_free_inodes` + fs + `30`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, "gone") || strings.Contains(text, `formatted="false"`) {
		t.Error("a past state is written as a present one")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestExamplesNameWhatThereIs checks that the alerts and the dashboard use only metrics and labels that exist.
func TestExamplesNameWhatThereIs(t *testing.T) {
	text := used(t)
	files, err := filepath.Glob("../../packaging/examples/prometheus/*")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(data) {
			t.Errorf("%s is no JSON", file)
		}
		for _, name := range regexp.MustCompile(`\bhotmount_[a-z_]+`).FindAllString(string(data), -1) {
			if !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n"+name+" ") {
				t.Errorf("%s uses %s", file, name)
			}
		}
	}
}

func TestArrivalsAreBounded(t *testing.T) {
	m := New("x")
	for seq := range uint64(10 * arrivalsKept) {
		m.Added(seq, time.Unix(0, 0))
	}
	if len(m.added) > arrivalsKept {
		t.Errorf("%d are kept", len(m.added))
	}
}

func TestWriteFails(t *testing.T) {
	if err := New("x").Write(filepath.Join(t.TempDir(), "no", "x.prom"), nil, nil); err == nil || !strings.Contains(err.Error(), "cannot write the metrics") {
		t.Errorf("got %v", err)
	}
}

// TestAllocationsAreCounted allocates objects between two outputs of the metrics, and checks that each object is
// counted once. The output, the runtime and other goroutines allocate some objects too, so the count varies a little.
func TestAllocationsAreCounted(t *testing.T) {
	m := New("x")
	counted := func() float64 {
		t.Helper()
		_, after, _ := strings.Cut(string(m.text(nil, nil)), "\nhotmount_heap_allocations_total ")
		n, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := counted()
	kept := make([]*int64, 1000)
	for i := range kept {
		kept[i] = new(int64)
	}
	if more := counted() - before; more < 1000 || more >= 2000 {
		t.Errorf("a thousand objects: counted %v", more)
	}
	runtime.KeepAlive(kept)
}

// TestBeforeAnything checks that the metrics are 0 before the first event, because alerts need a value.
func TestBeforeAnything(t *testing.T) {
	text := string(New("x").text(nil, nil))
	for _, want := range []string{"lost_events_total 0", "last_rescan_timestamp_seconds 0", "watchdog_timestamp_seconds 0"} {
		if !strings.Contains(text, "\nhotmount_"+want+"\n") {
			t.Errorf("no line %s in:\n%s", want, text)
		}
	}
}

// TestFaulty checks that the metric for faults is 0 before a fault and after the end of a fault.
func TestFaulty(t *testing.T) {
	m := New("1")
	for _, fault := range []bool{false, true, false} {
		want := "hotmount_configuration_fault 0\n"
		if fault {
			want = "hotmount_configuration_fault 1\n"
		}
		if m.Faulty(fault); !strings.Contains(string(m.text(nil, nil)), want) {
			t.Errorf("no %s", want)
		}
	}
}
