package main

import (
	"fmt"
	"strings"
)

// screenStyle is the CSS that makes the picture light or dark, depending on the colour scheme of the reader's browser.
const screenStyle = `<style>
.paper { fill: #ffffff; stroke: #d1d9e0 } text { fill: #1f2328 } .command { fill: #0550ae }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .command { fill: #79c0ff }
}
</style>
`

// screenSVG returns a picture of a terminal that shows the text. Lines that begin with the prompt get the CSS class
// "command", which sets their colour.
func screenSVG(text string) string {
	const lineHeight, charWidth, margin = 19, 8.43, 16 // charWidth is 0.602 em, as in monospace fonts
	lines := strings.Split(strings.TrimSpace(text), "\n")
	longest := 0
	for _, line := range lines {
		longest = max(longest, len([]rune(line)))
	}
	width, height := float64(longest)*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" font-family="ui-monospace, 'DejaVu Sans Mono', monospace" font-size="14">`+"\n", width, height, width, height)
	s.WriteString(screenStyle)
	fmt.Fprintf(&s, `<rect class="paper" x="0.5" y="0.5" width="%.0f" height="%d" rx="6"/>`+"\n", width-1, height-1)
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for i, line := range lines {
		class := ""
		if strings.HasPrefix(line, prompt) {
			class = `class="command" `
		}
		fmt.Fprintf(&s, `<text %sxml:space="preserve" x="%d" y="%d">%s</text>`+"\n", class, margin, margin+14+i*lineHeight, escape.Replace(line))
	}
	s.WriteString("</svg>\n")
	return s.String()
}
