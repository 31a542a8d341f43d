package test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func fileText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var pictures = regexp.MustCompile(`!\[[^]]*\]\([^)]*\)`)

// TestReadme checks that the README has 500 to 1000 words of prose. Code, tables and the texts of pictures are not
// prose. TestReadme also checks the number of bullets at the top of the README, and the number of rows in its table of
// disks.
func TestReadme(t *testing.T) {
	text := fileText(t, "../README.md")
	top, _, _ := strings.Cut(text, "```")
	if n := strings.Count(top, "\n- "); n != 4 {
		t.Errorf("the README begins with %d bullets, not 4", n)
	}
	_, disk, _ := strings.Cut(text, "\n## What happens to my disk\n")
	disk, _, _ = strings.Cut(disk, "\n## ")
	if n := strings.Count(disk, "\n| ") - 1; n != 5 || !strings.Contains(disk, "```mermaid\nflowchart") {
		t.Errorf("the table of what happens to a disk has %d rows, not 5, or there is no flowchart", n)
	}
	var prose strings.Builder
	for line := range strings.Lines(pictures.ReplaceAllString(text, "")) {
		if !strings.HasPrefix(line, "|") {
			prose.WriteString(line)
		}
	}
	n := 0
	for _, paragraph := range markdown(prose.String()) {
		n += len(words(paragraph))
	}
	t.Logf("%d words", n)
	if n < 500 || n > 1000 {
		t.Errorf("the README has %d words of prose, not 500 to 1000", n)
	}
}

// The function `documents` returns the paths of hotmount's Markdown files, relative to the directory of this test.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", ".github/*.md", "packaging/doc/*.md", "packaging/doc/adr/*.md", "test/bench/*.md"} {
		files, err := filepath.Glob("../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

var (
	target  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile("[^a-z0-9 _-]")
)

// The function `anchors` returns the anchors that GitHub gives to the headings of a Markdown text.
func anchors(text string) []string {
	var all []string
	for _, m := range title.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// TestLinks checks that each relative link of a document leads to a file, and to a heading if the link has an anchor.
func TestLinks(t *testing.T) {
	found := 0
	for _, file := range documents(t) {
		text := fileText(t, file)
		for _, m := range target.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			path, anchor, _ := strings.Cut(m[1], "#")
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if anchor != "" && !slices.Contains(anchors(fileText(t, to)), anchor) {
				t.Errorf("%s: %s has no heading #%s", file, to, anchor)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links were found", found)
	}
}

// TestPictures checks that each committed picture is an SVG with texts, and has a style for dark screens.
func TestPictures(t *testing.T) {
	files, err := filepath.Glob("../packaging/doc/*.svg")
	if err != nil || len(files) < 3 {
		t.Errorf("%d pictures, %v", len(files), err)
	}
	for _, file := range files {
		text := fileText(t, file)
		if !strings.Contains(text, "prefers-color-scheme: dark") {
			t.Errorf("%s has no dark style", file)
		}
		if filepath.Base(file) == "screen.svg" && !strings.Contains(text, "hotmount status") {
			t.Errorf("%s does not show hotmount status", file)
		}
		if texts := svgTexts(t, file, text); texts < 5 {
			t.Errorf("%s has only %d texts", file, texts)
		}
	}
}

// svgTexts returns the number of text elements in an SVG. svgTexts also checks that the SVG is valid XML, and that each
// element is in the SVG namespace, which browsers require.
func svgTexts(t *testing.T, file, text string) (texts int) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return texts
		}
		element, ok := token.(xml.StartElement)
		if ok && element.Name.Space != "http://www.w3.org/2000/svg" {
			t.Errorf("%s: the element %s is not of SVG", file, element.Name.Local)
			return texts
		}
		if ok && element.Name.Local == "text" {
			texts++
		}
	}
}

// TestIssueForms checks that GitHub's issue forms are valid, and that the bug form asks for everything that a diagnosis
// needs.
func TestIssueForms(t *testing.T) {
	type form struct {
		Name, Description string
		Body              []struct {
			Type, ID   string
			Attributes struct{ Label, Description, Value string }
		}
	}
	files, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			var config map[string]any
			if err := yaml.Unmarshal([]byte(fileText(t, file)), &config); err != nil || config["blank_issues_enabled"] == nil {
				t.Errorf("%s: %v, %v", file, config, err)
			}
			continue
		}
		var f form
		if err := yaml.Unmarshal([]byte(fileText(t, file)), &f); err != nil || f.Name == "" || f.Description == "" || len(f.Body) == 0 {
			t.Errorf("%s: %+v, %v", file, f, err)
		}
		var labels strings.Builder
		ids := map[string]bool{}
		for _, b := range f.Body {
			if !slices.Contains([]string{"markdown", "textarea", "input", "dropdown", "checkboxes"}, b.Type) ||
				b.Type != "markdown" && (b.Attributes.Label == "" || b.ID == "" || ids[b.ID]) {
				t.Errorf("%s: not an element of a form: %+v", file, b)
			}
			ids[b.ID] = true
			labels.WriteString(b.Attributes.Label + "\n")
		}
		if filepath.Base(file) != "bug.yml" {
			continue
		}
		for _, want := range []string{"hotmount status", "hotmount explain DISK", "hotmount doctor", "hotmount version", "Debian", "on the disk"} {
			if !strings.Contains(labels.String(), want) {
				t.Errorf("%s does not ask for %q", file, want)
			}
		}
	}
}
