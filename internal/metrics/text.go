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

// The text format (https://prometheus.io/docs/instrumenting/exposition_formats/) is
// written here and not by client_golang, which has net/http, crypto/tls and protobuf in
// it: five of the program's thirteen megabytes, and a third of what each process of
// hotmount does before its main function begins.

// Kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// family is a metric with all its values.
type family struct {
	name, kind, help string
	// labels are the names of its labels, sorted.
	labels []string
	// bounds are the upper bounds of a histogram's buckets, but for the last, which is
	// infinite.
	bounds []float64
	// series are by the labels as they are written, without the braces.
	series map[string]*series
}

// series is a value, or of a histogram the sum of what was observed, how often that
// was, and how often each bound was kept to.
type series struct {
	sum     float64
	count   uint64
	buckets []uint64
}

// of returns the series with those values of the labels, which is 0 if it is new.
func (f *family) of(values ...string) *series {
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

// escape is for the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (f *family) observe(v float64, values ...string) {
	s := f.of(values...)
	s.sum += v
	s.count++
	for i, bound := range f.bounds {
		if v <= bound {
			s.buckets[i]++
		}
	}
}

// write writes nothing of a family without a series.
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
