package test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	draw = flag.Uint64("draw", 0, "seed: TestWords prints sentences of the documents, the messages and the comments, to be read without context")
	each = flag.Int("each", 40, "how many sentences -draw prints of each")
)

// maxWords is the maximum number of words in a sentence. The guideline in .github/CONTRIBUTING.md is stricter: at most
// 25 words a sentence. In messages, which have the form "cannot X: why; command", a colon or a semicolon also ends a
// sentence.
const maxWords = 35

// TestWords checks each sentence of the documents, the manual pages, the messages and the comments. TestWords checks
// the length of each sentence, and searches the sentence for the unwanted phrases in phrases.txt. TestWords cannot find
// every unclear sentence.
func TestWords(t *testing.T) {
	phrases, quoting := readPhrases(t)
	sentences := 0
	text := allText(t)
	if *draw != 0 {
		printDraw(t, text)
	}
	for name, paragraphs := range text {
		for _, paragraph := range paragraphs {
			paragraph = strings.Join(strings.Fields(paragraph), " ") // a phrase may continue on the next line
			for _, p := range phrases {
				if found := p.FindString(paragraph); found != "" && !quoting[name] {
					t.Errorf("%s: %q in: %s", name, found, paragraph)
				}
			}
			for _, s := range sentencesOf(kindOf(name), paragraph) {
				sentences++
				if n := len(words(s)); n > maxWords {
					t.Errorf("%s: a sentence of %d words: %s", name, n, s)
				}
			}
		}
	}
	if sentences < 5000 {
		t.Errorf("only %d sentences were read", sentences)
	}
	for name := range quoting {
		if text[name] == nil {
			t.Errorf("phrases.txt exempts %s, which is not read", name)
		}
	}
}

// printDraw prints random sentences that have at least five words. The flag -draw sets the random seed.
func printDraw(t *testing.T, text map[string][]string) {
	of := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(text)) {
		kind := kindOf(name)
		for _, paragraph := range text[name] {
			for _, s := range sentencesOf("", strings.Join(strings.Fields(paragraph), " ")) {
				if len(words(s)) >= 5 && !heading.MatchString(s) {
					of[kind] = append(of[kind], name+": "+s)
				}
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		t.Logf("%s, seed %d, %d of %d sentences:", kind, *draw, *each, len(of[kind]))
		order := rand.New(rand.NewPCG(*draw, 0)).Perm(len(of[kind]))
		for i, n := range order[:min(*each, len(order))] {
			t.Logf("%d. %s", i+1, of[kind][n])
		}
	}
}

// kindOf returns "comments", "messages" or "documents", depending on the kind of text in the file.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".go"):
		return "comments"
	case strings.HasSuffix(name, "messages.txt"), strings.HasPrefix(name, "packaging/catalog/"):
		return "messages"
	}
	return "documents"
}

// readPhrases returns the unwanted phrases of phrases.txt as regular expressions, and the files that may quote the
// phrases. The regular expressions match from the beginning of a word and ignore case.
func readPhrases(t *testing.T) (all []*regexp.Regexp, quoting map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("phrases.txt")
	if err != nil {
		t.Fatal(err)
	}
	quoting = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		phrase, _, _ := strings.Cut(line, "#")
		if file, exempt := strings.CutPrefix(phrase, "!"); exempt {
			quoting[strings.TrimSpace(file)] = true
		} else if phrase = strings.TrimSpace(phrase); phrase != "" {
			all = append(all, regexp.MustCompile(`(?i)\b(`+phrase+`)`))
		}
	}
	if len(all) < 10 {
		t.Fatalf("phrases.txt has only %d phrases", len(all))
	}
	return all, quoting
}

// allText returns the text of each file that people read. A key of the returned map is the name of a file. A value is
// the text of the file, split into parts such as paragraphs.
func allText(t *testing.T) map[string][]string {
	t.Helper()
	text := map[string][]string{}
	read := func(pattern string, parse func(string) []string) {
		files, err := filepath.Glob("../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(file, "../")
			if text[name] = parse(string(b)); len(text[name]) == 0 {
				t.Errorf("%s: no text was found", name)
			}
		}
	}
	for _, file := range documents(t) {
		read(strings.TrimPrefix(file, "../"), markdown)
	}
	read("packaging/man/*", manual)
	read("packaging/catalog/*", catalog)
	read("test/testdata/messages.txt", plainLines)
	read("internal/*/testdata/messages.txt", plainLines)
	for _, pattern := range []string{"packaging/debian/NEWS", "packaging/debian/control", "packaging/examples/prometheus/*", ".github/ISSUE_TEMPLATE/*"} {
		read(pattern, plainLines)
	}
	for _, pattern := range []string{
		"packaging/config.yaml", "packaging/debian/p*", "udev/*.rules", "systemd/*.service", "systemd/*.timer", "systemd/*/*",
		"packaging/examples/*.yaml", "packaging/examples/kubernetes/*", "packaging/examples/nfs/*",
		"packaging/need", "packaging/build", "packaging/check", "packaging/previous", "packaging/same", "packaging/sbom", "packaging/copyright",
		"packaging/debian/rules", "packaging/debian/lintian-overrides",
		"Makefile", ".ci/run", "test/fuzz", "test/long", "test/unit", "test/*/*.sh", "test/worker/recipe/*.sh",
	} {
		read(pattern, hashComments)
	}
	for _, top := range []string{"../cmd", "../internal", "../test"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") {
				text[strings.TrimPrefix(path, "../")], err = comments(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return text
}

var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```|^    [^\n]*$")
	// The pattern `code` matches text between backquotes in Markdown. TestWords treats such a text as one word.
	code = regexp.MustCompile("`[^`]*`")
	item = regexp.MustCompile(`^\s*(?:[-*] |[0-9]+\. |#+ |\|)`)
	link = regexp.MustCompile(`\]\([^)]*\)`)
)

// The function `markdown` returns the paragraphs, list items, headings and table cells of a Markdown text.
func markdown(text string) []string {
	text = code.ReplaceAllString(link.ReplaceAllString(fence.ReplaceAllString(text, "\n"), "]"), "CODE")
	var all []string
	var now strings.Builder
	end := func() {
		if s := strings.TrimSpace(now.String()); s != "" {
			all = append(all, s)
		}
		now.Reset()
	}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" || item.MatchString(line) {
			end()
		}
		if strings.HasPrefix(line, "|") {
			all = append(all, strings.Split(line, "|")...)
			continue
		}
		now.WriteString(line)
	}
	end()
	return all
}

var (
	font    = regexp.MustCompile(`\\f[A-Z]`)
	example = regexp.MustCompile(`(?ms)^\.nf\n.*?^\.fi\n`)
)

// The function `manual` returns the paragraphs of a manual page.
func manual(text string) []string {
	text = example.ReplaceAllString(text, ".PP\n")
	var all []string
	var now strings.Builder
	end := func() {
		if s := strings.TrimSpace(now.String()); s != "" {
			all = append(all, s)
		}
		now.Reset()
	}
	for line := range strings.Lines(font.ReplaceAllString(text, "")) {
		switch {
		case strings.HasPrefix(line, ".B"), strings.HasPrefix(line, ".I "), strings.HasPrefix(line, ".IR"):
			_, line, _ = strings.Cut(line, " ")
		case strings.HasPrefix(line, "."):
			end()
			continue
		}
		now.WriteString(strings.ReplaceAll(line, `\-`, "-"))
	}
	end()
	return all
}

// The pattern `hashed` matches a comment that begins with "#", or a help text that begins with "##". The comment may
// follow a command on the same line. In config.yaml, a comment may follow a key that is itself commented out. A line
// with several spaces after "#" does not match, because such a line is an example.
var hashed = regexp.MustCompile(`^(?:.*?\s)??#{1,2} (\S.*)`)

// hashComments returns the paragraphs of the comments of a script, a unit or a configuration file.
func hashComments(text string) []string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if found := hashed.FindStringSubmatch(line); found != nil {
			line = found[1]
		} else {
			line = ""
		}
		lines.WriteString(line + "\n")
	}
	return slices.DeleteFunc(strings.Split(lines.String(), "\n\n"), func(p string) bool { return strings.TrimSpace(p) == "" })
}

// plainLines returns the lines of a text that are not empty.
func plainLines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// The function `catalog` returns the subjects and paragraphs of a journal catalog.
func catalog(text string) []string {
	text = regexp.MustCompile(`(?m)^(-- .*|Defined-By:.*|Documentation:.*|#.*)$|^Subject: `).ReplaceAllString(text, "\n")
	var all []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.TrimSpace(paragraph) != "" {
			all = append(all, paragraph)
		}
	}
	return all
}

// The function `comments` returns the paragraphs of a Go file's comments, without directives and indented code.
func comments(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, group := range file.Comments {
		if ast.IsGenerated(file) {
			break
		}
		for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
			if !strings.HasPrefix(paragraph, "\t") {
				all = append(all, paragraph)
			}
		}
	}
	return all, nil
}

// The pattern `heading` matches a heading such as "system-disk (ignore): " in internal/policy/testdata/messages.txt.
var heading = regexp.MustCompile(`^[a-z-]+ \([a-z]+\): `)

// fullStop matches a full stop, an exclamation mark or a question mark at the end of a sentence. The pattern `pause`
// also matches a colon or a semicolon.
var (
	fullStop = regexp.MustCompile(`([.!?][)"]?) `)
	pause    = regexp.MustCompile(`([.!?:;][)"]?) `)
)

// sentencesOf splits a paragraph into sentences. The paragraph must be one line. In messages, sentencesOf also splits
// at a colon or a semicolon.
func sentencesOf(kind, paragraph string) []string {
	end := fullStop
	if kind == "messages" {
		end = pause
	}
	return strings.Split(end.ReplaceAllString(paragraph, "$1\n"), "\n")
}

var word = regexp.MustCompile(`[A-Za-z0-9]`)

// The function `words` returns the words of a sentence. A dash or another lone punctuation mark is not a word.
func words(sentence string) []string {
	var all []string
	for _, w := range strings.Fields(sentence) {
		if word.MatchString(w) {
			all = append(all, w)
		}
	}
	return all
}
