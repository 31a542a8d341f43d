package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mountedTurn returns a turn in which the mount method mounts one disk after the given number of milliseconds.
func mountedTurn(figure, way string, ms float64, busy bool) Turn {
	t := Turn{
		Figure: figure, Way: way, Disks: 1, Idle: 1, Added: map[string]float64{"loop100": 1000}, Probed: map[string]float64{"loop100": 1000 + ms/2},
		Mounted: map[string]float64{"loop100": 1000 + ms}, CPU: map[string]float64{"all": ms},
	}
	if busy {
		t.Others = 0.5
	}
	return t
}

func TestTableHasMediansOfQuietTurns(t *testing.T) {
	r := Result{Made: "now"}
	for _, ms := range []float64{30, 10, 20} {
		r.Turns = append(r.Turns, mountedTurn("one", hotmount, ms, false), mountedTurn("one", rule, 2*ms, false))
	}
	r.Turns = append(r.Turns, mountedTurn("one", hotmount, 900, true), mountedTurn("one", mountCall, 7, true))
	failed := mountedTurn("one", hotmount, 1, false)
	failed.Fault = "no"
	r.Turns = append(r.Turns, failed)
	table := r.table()
	want := []Row{
		{"one disk", "to mounted", hotmount, "ms", Interval{20, 10, 30}, 10, 30, 3, 4},
		{"one disk", "to mounted", rule, "ms", Interval{40, 20, 60}, 20, 60, 3, 3},
		// All turns of this method are used, because none of them ran on an idle machine.
		{"one disk", "to mounted", mountCall, "ms", Interval{7, 7, 7}, 7, 7, 0, 1},
	}
	if got := table.Rows[:3]; !slices.Equal(got, want) {
		t.Errorf("the rows are\n%+v, not\n%+v", got, want)
	}
	if b := table.Bounds[0]; b.Is != 0.5 || b.Met || b.Low > 0.5 || b.High < 0.5 {
		t.Errorf("the first bound is %+v, not 0.5, missed", b)
	}
	var text strings.Builder
	if err := table.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"MISSED", "hotmount  3 of 4       20 (10 to 30)", "turns that do not count: 1, because no"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("the table lacks %q:\n%s", line, text.String())
		}
	}
}

func TestEstimate(t *testing.T) {
	many := make([]float64, 31)
	for i := range many {
		many[i] = float64(100 + i)
	}
	got := estimate(medianOf, many)
	// By order statistics, the 95 % interval of the median of 31 values reaches from the 10th to the 22nd value.
	if got.Is != 115 || got.Low < 107 || got.Low > 111 || got.High < 119 || got.High > 123 {
		t.Errorf("the median is %+v, not 115 with about 109 to 121", got)
	}
	if again := estimate(medianOf, many); again != got {
		t.Errorf("once it is %+v, then %+v", got, again)
	}
	if got := estimate(ratioOfDifferences, []float64{30}, []float64{50}, []float64{10}); got.Is != 0.5 {
		t.Errorf("20 beyond 10, of 40 beyond 10, is %v", got.Is)
	}
	if got := estimate(slowest, []float64{2, 2, 5}); got.Is != 2.5 {
		t.Errorf("5 of the median 2 is %v", got.Is)
	}
}

// TestOrder checks that each round rotates the methods by one, and that only some rounds measure the methods in the map
// "seldom".
func TestOrder(t *testing.T) {
	ways, seldom := []string{"a", "b", "c"}, map[string]int{"b": 3}
	for round, want := range []string{"abc", "ca", "ca", "abc", "ca"} {
		if got := strings.Join(order(ways, seldom, round), ""); got != want {
			t.Errorf("round %d is %q, not %q", round, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	kernel := "change@/devices/virtual/block/loop100\x00ACTION=change\x00MAJOR=7\x00MINOR=100\x00SUBSYSTEM=block\x00"
	e, fromUdev := parse([]byte(kernel))
	if fromUdev || e["MINOR"] != "100" || e["SUBSYSTEM"] != "block" {
		t.Errorf("the kernel's event is %v, udev's: %v", e, fromUdev)
	}
	header := append([]byte("libudev\x00"), make([]byte, 32)...)
	header[16] = 40
	e, fromUdev = parse(append(header, "MAJOR=7\x00ID_FS_UUID=u\x00"...))
	if !fromUdev || e["MAJOR"] != "7" || e["ID_FS_UUID"] != "u" {
		t.Errorf("udev's event is %v, udev's: %v", e, fromUdev)
	}
	header[16], header[17] = 255, 255
	if e, _ := parse(append(header, "MAJOR=7\x00"...)); len(e) != 0 {
		t.Errorf("properties beyond the end are %v", e)
	}
}

// tracedTurn is the turn of testdata/trace.txt, which lacks most lines of sched_switch. tracedSplit is the expected
// split of tracedTurn; a person has read the split from the trace.
var (
	tracedTurn = Turn{
		Way: hotmount, Disks: 1, Added: map[string]float64{"loop308": 3342100.186042}, Probed: map[string]float64{"loop308": 3342116.932068},
		Mounted: map[string]float64{"loop308": 3342167.108571},
	}
	tracedSplit = map[string]float64{splitUdev: 16.75, splitOwn: 10.95, splitPID1: 14.43, splitMount: 24.80}
)

func TestSplitTurn(t *testing.T) {
	f, err := os.Open("testdata/trace.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := parseTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	turn := tracedTurn
	splitTurn(&turn, events)
	for name, want := range tracedSplit {
		if got := turn.Values[name]; got < want-0.01 || got > want+0.01 {
			t.Errorf("%s is %.2f ms, not %.2f (%s)", name, got, want, turn.Fault)
		}
	}
	turn = tracedTurn
	turn.Mounted = map[string]float64{"loop308": lastTime(turn.Added) + 1}
	if splitTurn(&turn, events); turn.Fault == "" {
		t.Error("a mount before mount(8) has no fault")
	}
}

// The function `elements` returns the number of elements of the given class in a picture. If the picture is not XML, the
// test fails.
func elements(t *testing.T, picture, class string) int {
	t.Helper()
	n := 0
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		if e, ok := token.(xml.StartElement); ok && slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == "class" && a.Value == class }) {
			n++
		}
	}
}

func TestPlots(t *testing.T) {
	var r Result
	for _, way := range []string{hotmount, rule} {
		r.Turns = append(r.Turns, mountedTurn("one", way, 40, false), mountedTurn("twenty", way, 10, false), mountedTurn("hundreds", way, 20, false))
	}
	// The traced turns of hotmount take 80 ms, and the turns without a trace 40 ms. The shares of the parts are 1/8,
	// 1/4, 1/8 and 1/2.
	traced := mountedTurn("split", hotmount, 80, false)
	traced.Values = map[string]float64{splitUdev: 10, splitOwn: 20, splitPID1: 10, splitMount: 40}
	r.Turns = append(r.Turns, traced)
	one := r.plotOne()
	// One of the texts ">40<" is a label of the axis. The mount method named rule has no traced turns.
	if n := elements(t, one, "bar"); n != 6 || strings.Count(one, ">40</text>") != 3 {
		t.Errorf("the plot of one disk has %d bars, not four parts of hotmount and two of the rule that end at 40 ms:\n%s", n, one)
	}
	if n := elements(t, one, "key"); n != 5 {
		t.Errorf("the legend has %d colours, not four for the parts and one for a method without traced turns", n)
	}
	widths := regexp.MustCompile(`class="bar" x="[0-9.]+" y="[0-9.]+" width="([0-9.]+)"`).FindAllStringSubmatch(one, 4)
	var shares []float64
	for _, w := range widths {
		width, err := strconv.ParseFloat(w[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, width)
	}
	whole := total(shares)
	for i, want := range []float64{0.125, 0.25, 0.125, 0.5} {
		if got := shares[i] / whole; math.Abs(got-want) > 0.001 {
			t.Errorf("part %d of hotmount's bar is %.3f of the bar, not %.3f", i, got, want)
		}
	}
	if n := elements(t, r.plotMany(), "series"); n != 4 {
		t.Errorf("the plot of many disks has %d lines, not one for each of two methods and two figures", n)
	}
	// If some methods are missing in a panel, the other methods must keep their colours.
	fewer := Result{Turns: []Turn{mountedTurn("hundreds", rule, 20, false)}}
	colour := colours[slices.Index(plottedWays, rule)]
	if many := fewer.plotMany(); strings.Count(many, `"`+colour+`"`) != 2 {
		t.Errorf("the plot of the rule alone does not have its colour %s in the legend and in the line:\n%s", colour, many)
	}
	escaped := Result{Turns: []Turn{mountedTurn("one", "a<b", 3, false)}}
	elements(t, escaped.plotOne(), "")
	for _, picture := range []string{(&Result{}).plotOne(), (&Result{}).plotMany()} {
		elements(t, picture, "")
	}
}

// luminance returns the relative luminance of a colour (WCAG 2.2).
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var rgb [3]int
	if _, err := fmt.Sscanf(colour, "#%2x%2x%2x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		t.Fatal(colour, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(rgb[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// TestColours checks the contrast between the paper and each series, and between the paper and the text. The paper is
// light or dark. WCAG 2.2 requires a contrast ratio of 3 for graphics and of 4.5 for text.
func TestColours(t *testing.T) {
	check := func(colour, paper string, least float64) {
		a, b := luminance(t, colour), luminance(t, paper)
		if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < least {
			t.Errorf("%s on %s has the contrast %.2f, not %.1f", colour, paper, contrast, least)
		}
	}
	if len(colours) < len(plottedWays) {
		t.Errorf("%d methods have only %d colours", len(plottedWays), len(colours))
	}
	for _, c := range colours {
		check(c, lightPaper, 3)
		check(c, darkPaper, 3)
	}
	check(lightInk, lightPaper, 4.5)
	check(darkInk, darkPaper, 4.5)
}

func TestMedianTurn(t *testing.T) {
	r := Result{Turns: []Turn{mountedTurn("twenty", rule, 10, false), mountedTurn("twenty", rule, 31, false), mountedTurn("twenty", rule, 30, false), mountedTurn("twenty", rule, 30.4, true)}}
	turn, ok := r.medianTurn("twenty", rule)
	if ms, _ := toMounted(turn); !ok || ms != 30 {
		t.Errorf("the median turn took %v ms, not 30", ms)
	}
}

// TestAFaultMeetsNoBound checks that a bound is missed if one turn has a fault, whatever the times of the other turns.
func TestAFaultMeetsNoBound(t *testing.T) {
	r := Result{Turns: []Turn{mountedTurn("one", hotmount, 1, false), mountedTurn("one", rule, 10, false)}}
	if b := r.table().Bounds[0]; !b.Met {
		t.Errorf("without a fault: %+v", b)
	}
	failed := mountedTurn("one", hotmount, 1, false)
	failed.Fault = "no"
	r.Turns = append(r.Turns, failed)
	if b := r.table().Bounds[0]; b.Met {
		t.Errorf("with a fault: %+v", b)
	}
}

// TestFailedFigure checks that a run with a failed figure still measures the other figures and writes its files. The
// error of the run must name the failed figure. A figure that -only omits cannot fail.
func TestFailedFigure(t *testing.T) {
	for only, fails := range map[string]bool{"one,blank,twenty": true, "one,twenty": false} {
		wanted, err := chosen(only)
		if err != nil {
			t.Fatal(err)
		}
		b := bench{dir: t.TempDir(), out: io.Discard}
		err = b.run(t.Context(), wanted, func(_ context.Context, f figure) error {
			if f.name == "blank" {
				return errors.New("no dd")
			}
			b.result.Turns = append(b.result.Turns, mountedTurn(f.name, hotmount, 10, false))
			return nil
		})
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), ": blank failed") {
			t.Errorf("%s: the error is %v", only, err)
		}
		text, err := os.ReadFile(filepath.Join(b.dir, "bench.txt"))
		if err != nil || strings.Contains(string(text), "blank is not measured, or not all of it: no dd") != fails || !strings.Contains(string(text), "20 AT ONCE") {
			t.Errorf("%s: bench.txt is %s, %v", only, text, err)
		}
	}
}
