//go:build vm

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotmount/test/corpus"
	"hotmount/test/worker"
)

// suites are the Debian releases whose tools are tried.
func suites() []string {
	if full {
		return []string{"bookworm", "trixie"}
	}
	return []string{"bookworm"}
}

// alone keeps everybody but hotmount from acting on a disk that comes: what
// assembles arrays and volume groups writes to their members.
const alone = `mkdir -p /run/udev/rules.d
for r in 63-md-raid-arrays 64-md-raid-assembly 69-lvm 69-lvm-metad 69-bcache; do ln -sf /dev/null /run/udev/rules.d/$r.rules; done
udevadm control --reload`

// perWorker is how many disks are attached to one worker.
const perWorker = 24

// someKinds are one whole and one damaged kind of each class, or all kinds in
// the full test.
func someKinds(r *rand.Rand) []corpus.Kind {
	all := corpus.Kinds()
	if full {
		return all
	}
	var some []corpus.Kind
	taken := map[string]bool{}
	for _, i := range r.Perm(len(all)) {
		k := all[i]
		if kind := fmt.Sprint(k.Class, k.Damaged()); !taken[kind] {
			taken[kind] = true
			some = append(some, k)
		}
	}
	// What is mounted is to be among them.
	if !slices.ContainsFunc(some, func(k corpus.Kind) bool { return k.Mounts }) {
		some = append(some, all[slices.IndexFunc(all, func(k corpus.Kind) bool { return k.Mounts })])
	}
	return some
}

// TestCorpus: of all that disks may hold, what hotmount mounts has the same files
// afterwards, and what it does not mount is the same byte for byte, with no write
// to it counted by the kernel (issue 3).
func TestCorpus(t *testing.T) {
	chance := chance(t)
	for _, suite := range suites() {
		kinds := someKinds(chance)
		i := 0
		for batch := range slices.Chunk(kinds, perWorker) {
			i++
			t.Run(fmt.Sprintf("%s-%d", suite, i), func(t *testing.T) { tryKinds(t, suite, batch) })
		}
	}
}

func tryKinds(t *testing.T, suite string, kinds []corpus.Kind) {
	parallel(t)
	if err := worker.Need(ctx(t), os.Stderr, corpus.Packages); err != nil {
		t.Fatal(err)
	}
	type filled struct {
		corpus.Kind
		image, digest, name string
	}
	disks := make([]filled, len(kinds))
	dir := t.TempDir()
	for i, k := range kinds {
		d := filled{Kind: k, image: filepath.Join(dir, fmt.Sprint(i))}
		if err := k.Make(ctx(t), d.image); err != nil {
			t.Fatal(err)
		}
		var err error
		if d.digest, err = corpus.Digest(d.image); err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		disks[i] = d
	}
	m, w := start(t, worker.Options{Suite: suite})
	m.run(alone)
	for i := range disks {
		disks[i].name, _ = m.attach(w, worker.Disk{File: disks[i].image, Serial: fmt.Sprint("CORPUS-", i)})
	}
	// Each disk has been decided about once the journal says so of it. All are
	// waited for at once: the worker is slow.
	var names []string
	for _, d := range disks {
		names = append(names, d.name)
	}
	m.wait("a decision about each disk", fmt.Sprintf(
		`journalctl -b -o cat --no-pager >/tmp/journal; for d in %s; do grep -qE "^/dev/$d .*(refuse: |hold: |ignore: |mounted |cannot |mkfs)" /tmp/journal || exit 1; done; ! systemctl list-units --no-legend 'hotmount-format@*' | grep -q .`,
		strings.Join(names, " ")))
	plan := m.run("udevadm settle; sync; hotmount plan")
	journal := m.run("journalctl -b -o cat --no-pager")
	touched := m.run("for d in " + strings.Join(names, " ") + "; do echo $d $(awk '{print $5+$12, $7+$14}' /sys/block/$d/stat) $(findmnt -no TARGET /dev/$d); done")
	for _, d := range disks {
		if d.Mounts {
			m.hasFiles(d.Kind, m.mounted(d.name))
			t.Logf("%s: mounted, with its files", d.Name)
			continue
		}
		var says []string
		for line := range strings.Lines(journal) {
			if strings.HasPrefix(line, "/dev/"+d.name+" ") {
				says = append(says, line[:min(len(line), 300)])
			}
		}
		if !regexpLine(plan, `^`+d.name+` +[0-9.]+ [A-Z]iB +CORPUS-[0-9]+ +(refuse|ignore|mount) `) {
			t.Errorf("%s (%s): the plan:\n%s", d.Name, d.name, plan)
		}
		// What udev calls an XFS is given to the kernel first, which flushes the disk
		// before it refuses: a write request without a sector.
		requests := "0"
		if slices.ContainsFunc(says, func(line string) bool { return strings.Contains(line, ": mount: it holds xfs ") }) {
			requests = "[01]"
		}
		if !regexpLine(touched, `^`+d.name+` `+requests+` 0$`) {
			t.Errorf("%s (%s): writes and mounts:\n%s\n%q", d.Name, d.name, touched, says)
		}
		if got, err := corpus.Digest(d.image); err != nil || got != d.digest {
			t.Errorf("%s (%s): its bytes have changed (%v): %q", d.Name, d.name, err, says)
		}
		t.Logf("%s: %q", d.Name, says)
	}
}

// hasFiles checks the files in the filesystem of that UUID.
func (m machine) hasFiles(k corpus.Kind, uuid string) {
	m.t.Helper()
	got := m.run("cd /mnt/disks/" + uuid + " && find . -type f -printf '%P\\n' | sort | xargs sha256sum")
	var want []string
	for path, sum := range corpus.Files() {
		want = append(want, sum+"  "+path)
	}
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	if got != strings.Join(want, "\n") {
		m.t.Errorf("%s: the files in it are\n%s", k.Name, got)
	}
}

// TestBlanks: what is blank is formatted, whatever its size and sectors are and
// however its zeros came there.
func TestBlanks(t *testing.T) {
	for _, suite := range suites() {
		t.Run(suite, func(t *testing.T) {
			m, w := startNode(t, worker.Options{Suite: suite})
			sizes := map[string]int64{}
			large := int64(70 * gib)
			if full {
				large = 8 << 40
			}
			for _, b := range []struct {
				what    string
				size    int64
				sector  int
				written bool
			}{
				{"sparse", 320 << 20, 0, false},
				{"written zeros", 320 << 20, 0, true},
				{"no multiple of 1 MiB", 320<<20 + 3*512, 0, false},
				{"sectors of 4096 bytes", 321<<20 + 4096, 4096, false},
				{"the smallest", 300 << 20, 0, false},
				{"too large to be read in full", large, 0, false},
			} {
				image := blank(t, b.size)
				if b.written {
					writeZeros(t, image, b.size)
				}
				name, _ := m.attach(w, worker.Disk{File: image, LogicalBlockSize: b.sector})
				sizes[name] = b.size
				t.Logf("%s: %s", name, b.what)
			}
			for name, size := range sizes {
				if size > 1<<40 { // minutes of reading for a slow processor
					m.waits(10, name+" to be formatted", "journalctl -b -o cat --no-pager | grep '^/dev/"+name+" .*: formatted: '")
				}
				uuid := m.mounted(name)
				if got := m.run("findmnt -no FSTYPE /dev/" + name + "; echo kept >/mnt/disks/" + uuid + "/f; sync; cat /mnt/disks/" + uuid + "/f"); got != "xfs\nkept" {
					t.Errorf("%s: %s", name, got)
				}
				if got := m.run("blockdev --getsize64 /dev/" + name); got != fmt.Sprint(size) {
					t.Errorf("%s has %s bytes", name, got)
				}
			}
			if got := m.run("journalctl -b -u hotmount -p warning -q --no-pager -o cat"); got != "" {
				t.Errorf("warnings:\n%s", got)
			}
		})
	}
}

func writeZeros(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
}
