package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hotmount/internal/disk"
)

// This package writes the text format (https://prometheus.io/docs/instrumenting/exposition_formats/) itself.
// client_golang imports net/http, crypto/tls and protobuf, which would make the program some megabytes larger.
// With client_golang, each hotmount process spent a third of its time in the initialisation of client_golang, before
// the main function began.

// The kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// The type `family` contains a metric and the values of all its series.
type family struct {
	name, kind, help string
	// labels are the names of the metric's labels, sorted.
	labels []string
	// bounds are the upper bounds of a histogram's buckets, except the last, infinite bound.
	bounds []float64
	// The map `series` contains the values of each series. The key is the labels of the series, as in the text format
	// but without the braces.
	series map[string]*series
}

// The type `series` contains one value of a metric. A series of a histogram contains the sum and the number of all
// observations, and the number of observations up to each bound.
type series struct {
	sum     float64
	count   uint64
	buckets []uint64
}

// seriesWith returns the series with the given values of the labels. If the family has no such series, seriesWith adds
// a series with the value 0.
func (f *family) seriesWith(values ...string) *series {
	var pairs []string
	for i, label := range f.labels {
		pairs = append(pairs, label+`="`+escape.Replace(disk.Visible(values[i]))+`"`)
	}
	key := strings.Join(pairs, ",")
	if f.series[key] == nil {
		f.series[key] = &series{buckets: make([]uint64, len(f.bounds))}
	}
	return f.series[key]
}

// escape escapes the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (f *family) observe(v float64, values ...string) {
	s := f.seriesWith(values...)
	s.sum += v
	s.count++
	for i, bound := range f.bounds {
		if v <= bound {
			s.buckets[i]++
		}
	}
}

// The method `write` appends the family to the buffer, or nothing if the family has no series.
func (f *family) write(b *bytes.Buffer) {
	if len(f.series) == 0 {
		return
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", f.name, f.help, f.kind)
	for _, labels := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[labels]
		if f.kind != histogram {
			f.line(b, "", labels, s.sum)
			continue
		}
		for i, bound := range f.bounds {
			f.line(b, "_bucket", labels+`,le="`+number(bound)+`"`, float64(s.buckets[i]))
		}
		f.line(b, "_bucket", labels+`,le="+Inf"`, float64(s.count))
		f.line(b, "_sum", labels, s.sum)
		f.line(b, "_count", labels, float64(s.count))
	}
}

func (f *family) line(b *bytes.Buffer, suffix, labels string, v float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(b, "%s%s%s %s\n", f.name, suffix, labels, number(v))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
