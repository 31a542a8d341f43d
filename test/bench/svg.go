package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// svg is a picture with a plot area and axes. Two small plots do not justify a library.
type svg struct {
	strings.Builder
	width, height            float64
	left, right, top, bottom float64 // the edges of the plot area
}

// The variable `colours` lists the colours of the series. TestColours checks that each colour can be seen on the light
// and on the dark paper.
var colours = []string{"#4477aa", "#d1495b", "#228833", "#a07800", "#0e8cb0", "#aa3377", "#777777"}

const (
	lightPaper, lightInk = "#ffffff", "#1f2328"
	darkPaper, darkInk   = "#0d1117", "#f0f6fc"
)

// The constant `style` is a stylesheet that makes background, text and axes light or dark. The stylesheet follows the
// colour scheme of the reader's browser. A line in the colour of the background separates the parts of a bar, because
// some readers cannot tell red from green.
const style = `<style>
.paper { fill: ` + lightPaper + ` } .bar { stroke: ` + lightPaper + ` } text { fill: ` + lightInk + ` } .axis { stroke: ` + lightInk + ` } .grid { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
.paper { fill: ` + darkPaper + ` } .bar { stroke: ` + darkPaper + ` } text { fill: ` + darkInk + ` } .axis { stroke: ` + darkInk + ` } .grid { stroke: #3d444d }
}
</style>
`

func newSVG(width, height, left float64) *svg {
	s := &svg{width: width, height: height, left: left, right: width - 30, top: 60, bottom: height - 50}
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	s.WriteString(style)
	fmt.Fprintf(s, `<rect class="paper" width="%g" height="%g"/>`+"\n", width, height)
	return s
}

func (s *svg) end() string { return s.String() + "</svg>\n" }

// The method `text` writes a text at a position. The parameter `anchor` is the SVG attribute text-anchor: start, middle or
// end.
func (s *svg) text(x, y float64, anchor, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escape(text))
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

func (s *svg) rect(x, y, width, height float64, colour, class string) {
	fmt.Fprintf(s, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", class, x, y, width, height, colour)
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// The method `legend` writes the names with their colours above the plot.
func (s *svg) legend(names, colours []string) {
	x := s.left
	for i, name := range names {
		s.rect(x, s.top-24, 12, 12, colours[i], "key")
		s.text(x+17, s.top-13, "start", name)
		x += 34 + 7.2*float64(len(name))
	}
}

// xAxis draws the horizontal axis from 0 to the given maximum. xAxis returns a function that maps a value to its
// position.
func (s *svg) xAxis(most float64, title string) func(float64) float64 {
	at := func(v float64) float64 { return s.left + v/most*(s.right-s.left) }
	for v := 0.0; v <= most; v += step(most) {
		s.line(at(v), s.top, at(v), s.bottom, "grid")
		s.text(at(v), s.bottom+17, "middle", number(v))
	}
	s.line(s.left, s.bottom, s.right, s.bottom, "axis")
	s.text((s.left+s.right)/2, s.bottom+38, "middle", title)
	return at
}

// yAxis draws the vertical axis from 0 to the given maximum. yAxis returns a function that maps a value to its
// position.
func (s *svg) yAxis(most float64, title string) func(float64) float64 {
	at := func(v float64) float64 { return s.bottom - v/most*(s.bottom-s.top) }
	for v := 0.0; v <= most; v += step(most) {
		s.line(s.left, at(v), s.right, at(v), "grid")
		s.text(s.left-6, at(v)+4, "end", number(v))
	}
	s.line(s.left, s.top, s.left, s.bottom, "axis")
	fmt.Fprintf(s, `<text transform="translate(%.1f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", s.left-42, (s.top+s.bottom)/2, escape(title))
	return at
}

// step returns a round number as the distance between the marks of an axis with the given maximum. The axis gets 4 to
// 10 marks.
func step(most float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if most/(factor*power) <= 10 {
			return factor * power
		}
	}
	return 10 * power
}

// bar is one bar that consists of several parts.
type bar struct {
	name  string
	parts []float64
}

// stacked draws horizontal bars.
func stacked(title, axis string, names []string, bars []bar) string {
	const height, gap = 26, 12
	s := newSVG(860, 60+50+float64(len(bars))*(height+gap)+gap, 220)
	s.text(8, 20, "start", title)
	most := 1.0
	for _, b := range bars {
		most = max(most, total(b.parts))
	}
	at := s.xAxis(most*1.1, axis)
	s.legend(names, colours)
	for i, b := range bars {
		y := s.top + gap + float64(i)*(height+gap)
		s.text(s.left-8, y+height/2+4, "end", b.name)
		x := 0.0
		for j, part := range b.parts {
			if part <= 0 {
				continue
			}
			s.rect(at(x), y, at(x+part)-at(x), height, colours[j], "bar")
			x += part
		}
		s.text(at(x)+6, y+height/2+4, "start", number(x))
	}
	return s.end()
}

func total(parts []float64) (sum float64) {
	for _, p := range parts {
		sum += p
	}
	return sum
}

// The type `series` is a line of a plot. A series contains the sorted times of the mounts, counted from the kernel's
// first event.
type series struct {
	name, colour string
	times        []float64
}

// panel draws a picture with one step line for each series. The parameter `down` is the picture's vertical position.
func panel(title string, all []series, down float64) string {
	s := newSVG(860, 380, 70)
	s.text(s.left, 20, "start", title)
	mostX, mostY := 1.0, 1.0
	var names, ofNames []string
	for _, one := range all {
		names, ofNames = append(names, one.name), append(ofNames, one.colour)
		mostX, mostY = max(mostX, slices.Max(one.times)), max(mostY, float64(len(one.times)))
	}
	x, y := s.xAxis(mostX*1.03, "ms since the kernel's first event"), s.yAxis(mostY*1.05, "disks mounted")
	s.legend(names, ofNames)
	for _, one := range all {
		var path strings.Builder
		fmt.Fprintf(&path, "M%.1f %.1f", x(0), y(0))
		for n, at := range one.times {
			fmt.Fprintf(&path, "H%.1fV%.1f", x(at), y(float64(n+1)))
		}
		fmt.Fprintf(s, `<path class="series" d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), one.colour)
	}
	return strings.Replace(s.end(), "<svg ", fmt.Sprintf(`<svg y="%g" `, down), 1)
}
