package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// The type `sparse` simulates a disk on which every byte is zero, except the bytes in the map.
type sparse struct {
	size  uint64
	bytes map[uint64]byte
	// The field `fail` maps a byte offset to the error of a read at this offset.
	fail map[uint64]error
	// The field `after` is a function that the disk calls at the end of each read.
	after func()
	read  uint64
	// The field `most` is the length of the longest read in bytes.
	most int
	bad  []string
	// A scan makes two reads at once, so mu guards the other fields.
	mu sync.Mutex
}

func (s *sparse) ReadAt(b []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := uint64(offset)
	if at%align != 0 || at+uint64(len(b)) > s.size || len(b) > chunk || (len(b)%align != 0 && at+uint64(len(b)) != s.size) {
		s.bad = append(s.bad, fmt.Sprintf("read of %d at %d", len(b), at))
	}
	for o, err := range s.fail {
		if o >= at && o < at+uint64(len(b)) {
			return int(o - at), err
		}
	}
	clear(b)
	for o, c := range s.bytes {
		if o >= at && o < at+uint64(len(b)) {
			b[o-at] = c
		}
	}
	s.read, s.most = s.read+uint64(len(b)), max(s.most, len(b))
	if s.after != nil {
		s.after()
	}
	return len(b), nil
}

// TestReadsAreShort checks that only a full scan makes long reads. Any number of other scans may run at once, so their
// reads must be short.
func TestReadsAreShort(t *testing.T) {
	for plan, want := range map[Plan]int{Full: chunk, Sampled: shortChunk, Unsigned: shortChunk, Full.ShortLook(): shortChunk} {
		d := &sparse{size: 300*mib + 12*kib}
		if f, err := Scan(t.Context(), Source{Reader: d, Size: d.size}, plan); err != nil || !f.Zero() {
			t.Errorf("%s: %+v, %v", plan, f, err)
		}
		if d.most != want {
			t.Errorf("%s: the longest read has %d bytes, want %d", plan, d.most, want)
		}
	}
}

func TestScanFinds(t *testing.T) {
	// On a disk of this odd size, no sample begins at a multiple of a large power of two.
	const odd = 777*gib + 12*kib
	for _, tc := range []struct {
		name  string
		size  uint64
		plan  Plan
		at    uint64
		found bool
	}{
		{"first byte", 300 * mib, Full, 0, true},
		{"data from 1 MiB on", 300 * mib, Full, mib, true},
		{"in the middle", 300 * mib, Full, 150*mib + 4711, true},
		{"last byte", 300 * mib, Full, 300*mib - 1, true},
		{"last byte of an odd size", 300*mib + 512, Full, 300*mib + 511, true},
		{"smaller than a window", 5 * mib, Full, 5*mib - 1, true},
		{"smaller than both windows", 20 * mib, Sampled, 17 * mib, true},
		{"last byte of the head", 100 * gib, Auto, 16*mib - 1, true},
		{"largest disk read in full", 64 * gib, Auto, 17*mib + 4097, true},
		{"first byte of the tail", 100 * gib, Sampled, 100*gib - 16*mib, true},
		{"first byte of the tail of an odd size", 100*gib + 512, Sampled, 100*gib + 512 - 16*mib, true},
		{"a large disk read in full all the same", 64*gib + 512, Full, 17*mib + 4097, true},
		{"last byte of a large disk", 100*gib + 512, Auto, 100*gib + 511, true},
		{"a sample of a disk of 1 TiB", tib, Sampled, 5000*64*mib + 64*kib - 1, true},
		{"a sample of a small disk", 4 * gib, Sampled, 100*mib + 3, true},
		{"second btrfs superblock", 100*gib + 64*kib, Sampled, 64*mib + 0x40, true},
		{"third btrfs superblock", 300*gib + 64*kib, Sampled, 256*gib + 0x40, true},
		{"XFS group 1 of 4", 777*gib + 12*kib, Sampled, (777*gib+12*kib)/4096/4*4096 + 4096, true},
		{"XFS group 31 of 32", 777*gib + 128*kib, Sampled, (777*gib + 128*kib) / 32 * 31, true},
		{"XFS group of 1 TiB", 5 * tib, Sampled, 3 * (tib - 4096), true},
		{"ext4 group 27", odd, Sampled, 27*128*mib + 0x438, true},
		{"ext3 group 3 of 1 KiB blocks", odd, Sampled, 3*8*mib + 1024 + 0x38, true},
		{"ext4 last group", 777*gib + 64*mib, Sampled, 777 * gib, true},
		{"ocfs2", odd, Sampled, 4*gib + 1, true},
		{"bluestore", odd, Sampled, 10*gib + 5, true},
		{"middle", 777*gib + 68*kib, Sampled, (777*gib+68*kib)/2 + 1, true},
		{"4 KiB", 300 * mib, Unsigned, 4095, true},
		{"ends, head", 100 * gib, ends, 16*mib - 1, true},
		{"ends, tail", 100 * gib, ends, 100*gib - 1, true},

		// In the following cases, the plan does not check the byte, so the scan must not find the byte.
		{"after 4 KiB", 300 * mib, Unsigned, 4096, false},
		{"between samples", 777 * gib, Sampled, 48*mib + 64*kib, false},
		{"larger than what is read in full", 64*gib + 512, Auto, 17*mib + 4097, false},
		{"between the ends", 100 * gib, ends, 16 * mib, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &sparse{size: tc.size, bytes: map[uint64]byte{tc.at: 0x45, tc.at + 3: 0x46}}
			f, err := Scan(t.Context(), Source{Reader: d, Size: tc.size}, tc.plan)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.bad) > 0 {
				t.Error(d.bad)
			}
			if tc.found && d.read > tc.at+buffers*chunk {
				t.Errorf("it read on, %d bytes", d.read)
			}
			if !tc.found {
				if !f.Zero() {
					t.Errorf("found %+v", f)
				}
				return
			}
			if f.Zero() || f.Offset != tc.at || f.Bytes[0] != 0x45 {
				t.Errorf("found %+v, want offset %d", f, tc.at)
			}
		})
	}
}

func TestScanEvidence(t *testing.T) {
	for _, tc := range []struct {
		d    *sparse
		plan Plan
		want []string
	}{
		{&sparse{size: 5 * gib}, Full, []string{"read 5 GiB of 5 GiB, all zero (full)"}},
		{&sparse{size: tib}, Auto, []string{"read 1.1 GiB of 1 TiB in 18048 places, all zero (sampled)"}},
		{&sparse{size: tib}, Unsigned, []string{"read 32 MiB of 1 TiB; the first 4 KiB are all zero (unsigned)"}},
		{&sparse{size: 5 * gib, bytes: map[uint64]byte{mib: 0x45, mib + 1: 0x46, mib + 15: 1, mib + 16: 2}}, Full, []string{
			"not blank: found old data at byte 1048576, as on a recycled volume or a damaged disk",
			"byte 1048576: 45 46 00 00 00 00 00 00 00 00 00 00 00 00 00 01",
		}},
		{&sparse{size: mib, bytes: map[uint64]byte{mib - 1: 0xff}}, Full, []string{
			"not blank: found old data at byte 1048575, as on a recycled volume or a damaged disk",
			"byte 1048575: ff",
		}},
	} {
		f, err := Scan(t.Context(), Source{Reader: tc.d, Size: tc.d.size}, tc.plan)
		if err != nil {
			t.Fatal(err)
		}
		if f.Zero() && f.Read != tc.d.read {
			t.Errorf("reports %d bytes read, got %d", f.Read, tc.d.read)
		}
		if diff := cmp.Diff(tc.want, f.Evidence()); diff != "" {
			t.Error(diff)
		}
	}
	half := Finding{Plan: Unsigned, Size: tib, Read: 32 * mib, Own: 4 * kib}
	if diff := cmp.Diff([]string{"read 32 MiB of 1 TiB; the first 4 KiB contain only zeros and what hotmount's unfinished format wrote (unsigned)"}, half.Evidence()); diff != "" {
		t.Error(diff)
	}
	if lines := (&Finding{}).Evidence(); lines != nil || (&Finding{}).Zero() {
		t.Errorf("no scan, but evidence %q", lines)
	}
}

// TestNoMemory checks that a lack of memory is the error of a read. An error of any other kind would mean that the disk
// holds a damaged superblock.
func TestNoMemory(t *testing.T) {
	_, err := alignedBuffer(1 << 62)
	var unread *ReadError
	if !errors.As(err, &unread) || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("error %v", err)
	}
}

func TestScanErrors(t *testing.T) {
	gone := errors.New("gone")
	for _, tc := range []struct {
		name   string
		r      io.ReaderAt
		size   uint64
		plan   Plan
		is     error
		offset uint64
	}{
		{"error", &sparse{size: 5 * mib, fail: map[uint64]error{3*mib + 5: gone}}, 5 * mib, Full, gone, 3*mib + 5},
		{"short read", &sparse{size: 5 * mib, fail: map[uint64]error{3*mib + 5: nil}}, 5 * mib, Full, io.ErrUnexpectedEOF, 3*mib + 5},
		{"dead disk", &sparse{size: 5 * mib, fail: map[uint64]error{0: io.EOF}}, 5 * mib, Full, io.ErrUnexpectedEOF, 0},
		{"shrunk disk", bytes.NewReader(make([]byte, 3*mib)), 5 * mib, Full, io.ErrUnexpectedEOF, 3 * mib},
		{"error at the start of an unsigned volume", &sparse{size: 100 * gib, fail: map[uint64]error{64*kib + 7: gone}}, 100 * gib, Unsigned, gone, 64*kib + 7},
		{"error at the end of an unsigned volume", &sparse{size: 100 * gib, fail: map[uint64]error{100*gib - 1: gone}}, 100 * gib, Unsigned, gone, 100*gib - 1},
		{"error in a sample", &sparse{size: 100 * gib, fail: map[uint64]error{64*mib + 7: gone}}, 100 * gib, Auto, gone, 64*mib + 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := Scan(t.Context(), Source{Reader: tc.r, Size: tc.size}, tc.plan)
			var read *ReadError
			if !errors.As(err, &read) || read.Offset != tc.offset || !errors.Is(err, tc.is) {
				t.Errorf("error %v", err)
			}
			if f.Zero() {
				t.Error("the disk counts as zero")
			}
		})
	}
	for name, tc := range map[string]struct {
		size uint64
		plan Plan
	}{
		"no size":        {0, Full},
		"beyond 63 bits": {1 << 63, Sampled},
		"no plan":        {mib, ""},
		"unknown plan":   {mib, "quick"},
	} {
		if f, err := Scan(t.Context(), Source{Reader: &sparse{size: tc.size}, Size: tc.size}, tc.plan); err == nil || f.Zero() {
			t.Errorf("%s: %+v, error %v", name, f, err)
		}
	}
}

// TestScanWhoseReaderEnds ends one goroutine of a scan by runtime.Goexit, as a failed test does. The scan must not wait
// forever for the ended goroutine, and must not find the disk blank.
func TestScanWhoseReaderEnds(t *testing.T) {
	f, err := Scan(t.Context(), Source{Reader: &sparse{size: gib}, Size: gib, Progress: func(context.Context, Progress) { runtime.Goexit() }}, Full)
	if err == nil || f.Zero() {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the disk is gone")
	d := &sparse{size: 5 * gib}
	d.after = func() {
		if d.read == 4*chunk {
			cancel(why)
		}
	}
	f, err := Scan(ctx, Source{Reader: d, Size: d.size}, Full)
	// The scan may have read one additional chunk, because its second goroutine may have begun a read.
	if !errors.Is(err, why) || f.Zero() || d.read < 4*chunk || d.read > 5*chunk {
		t.Errorf("%+v after %d bytes, error %v", f, d.read, err)
	}
}

// TestScanIsInOrder checks that a scan examines the data of two parallel reads in the order of the offsets, even if the
// second read ends first.
func TestScanIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := make([]byte, 4*chunk)
		data[chunk-1], data[chunk] = 0x45, 0x46
		two := func() Source {
			return Source{Reader: overtaken{bytes.NewReader(data), make(chan struct{})}, Size: uint64(len(data))}
		}
		f, err := Scan(t.Context(), two(), Full)
		if err != nil || f.Offset != chunk-1 || f.Read != 0 {
			t.Errorf("%+v, %v", f, err)
		}
		got, err := Digest(t.Context(), two(), Full)
		want, wantErr := Digest(t.Context(), Source{Reader: bytes.NewReader(data), Size: uint64(len(data))}, Full)
		if err != nil || wantErr != nil || got != want {
			t.Errorf("%x, %v; want %x, %v", got, err, want, wantErr)
		}
	})
}

// The reader `overtaken` completes the read of the second chunk before the read of the first chunk.
type overtaken struct {
	io.ReaderAt
	second chan struct{}
}

func (o overtaken) ReadAt(b []byte, at int64) (int, error) {
	if at == 0 {
		<-o.second
		time.Sleep(time.Second)
	}
	n, err := o.ReaderAt.ReadAt(b, at)
	if at == chunk {
		close(o.second)
	}
	return n, err
}

// TestScanWhoseContextEndsDuringARead checks that Scan returns a byte that it found, even if ctx ends during the next
// read. Scan must ignore the data of a read that ends after ctx has ended.
func TestScanWhoseContextEndsDuringARead(t *testing.T) {
	why := errors.New("stopped")
	for _, found := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			data := make([]byte, 2*chunk)
			data[chunk] = 0x46
			if found {
				data[0] = 0x45
			}
			time.AfterFunc(1500*time.Millisecond, func() { cancel(why) })
			f, err := Scan(ctx, Source{Reader: slow{bytes.NewReader(data)}, Size: 2 * chunk}, Full)
			if found && (err != nil || len(f.Bytes) == 0 || f.Offset != 0) || !found && (!errors.Is(err, why) || len(f.Bytes) > 0) {
				t.Errorf("found %v: %+v, %v", found, f, err)
			}
		})
	}
}

// TestScanProgress checks that the reported progress reaches the end of the disk, counts the bytes read, and never goes
// back.
func TestScanProgress(t *testing.T) {
	for _, size := range []uint64{300*mib + 512, 100 * gib} {
		var last Progress
		d := &sparse{size: size}
		f, err := Scan(t.Context(), Source{Reader: d, Size: size, Progress: func(_ context.Context, p Progress) {
			if p.At <= last.At || p.Read <= last.Read || p.Read != p.At || p.Size != size {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		}}, Full)
		if err != nil || last.At != size || last.Read != f.Read {
			t.Errorf("%+v, error %v", last, err)
		}
	}
}

func TestScanRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		f, err := Scan(t.Context(), Source{Reader: &sparse{size: 300 * mib}, Size: 300 * mib, Rate: 10 * mib}, Full)
		if took := time.Since(begun); err != nil || !f.Zero() || took != 30*time.Second {
			t.Errorf("300 MiB at 10 MiB a second: took %s, error %v", took, err)
		}
		// A scan that waits because of the field Rate must end when its context ends.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun = time.Now()
		if _, err := Scan(ctx, Source{Reader: &sparse{size: gib}, Size: gib, Rate: kib}, Full); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Second {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
	})
}

// TestScanMemory checks that a full scan uses two buffers in one huge page, and that two scans need at most 16 MiB.
func TestScanMemory(t *testing.T) {
	into := map[*byte]int{}
	d := &sparse{size: 100 * gib}
	if _, err := Scan(t.Context(), Source{Reader: buffered{d, into, new(sync.Mutex)}, Size: d.size}, Full); err != nil {
		t.Fatal(err)
	}
	var total int
	first := ^uintptr(0)
	for b, n := range into {
		total += n
		first = min(first, uintptr(unsafe.Pointer(b)))
	}
	if first%hugePage != 0 || total != hugePage {
		t.Errorf("%d bytes from %x fill no huge page", total, first)
	}
	if len(into) != buffers || 2*total > 16*mib {
		t.Errorf("%d buffers of %d bytes together", len(into), total)
	}
}

// TestToHugePage checks the number of bytes from an address to the next huge page. The kernel of Debian 12 (Linux 6.1)
// does not align large mappings. Linux 6.7 and later align large mappings.
func TestToHugePage(t *testing.T) {
	for address, want := range map[uintptr]int{0: 0, 4096: hugePage - 4096, 3 * hugePage: 0, 5*hugePage - 4096: 4096} {
		if got := toHugePage(address); got != want {
			t.Errorf("%x: %d, want %d", address, got, want)
		}
	}
}

// buffered records the memory into which the scan reads.
type buffered struct {
	io.ReaderAt
	buffers map[*byte]int
	mu      *sync.Mutex
}

func (r buffered) ReadAt(b []byte, at int64) (int, error) {
	first := unsafe.SliceData(b)
	r.mu.Lock()
	r.buffers[first] = max(r.buffers[first], len(b))
	r.mu.Unlock()
	return r.ReaderAt.ReadAt(b, at)
}

func TestExtents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 512 * rapid.OneOf(rapid.Uint64Range(1, 4*mib), rapid.Uint64Range(1, 64*tib/512)).Draw(t, "sectors")
		list, err := Sampled.extents(size)
		if err != nil {
			t.Fatal(err)
		}
		var all []extent
		for e := range list {
			if e.start%align != 0 || e.start >= e.end || e.end > size || (e.end%align != 0 && e.end != size) {
				t.Fatalf("extent %+v of %d", e, size)
			}
			if n := len(all); n > 0 && e.start <= all[n-1].end {
				t.Fatalf("extent %+v comes after %+v", e, all[n-1])
			}
			all = append(all, e)
		}
		covered := func(at, length uint64) bool {
			for at < min(at+length, size) {
				i, found := slices.BinarySearchFunc(all, at, func(e extent, at uint64) int {
					switch {
					case e.end <= at:
						return -1
					case e.start > at:
						return 1
					}
					return 0
				})
				if !found {
					return false
				}
				length -= min(length, all[i].end-at)
				at = all[i].end
			}
			return true
		}
		if !covered(0, Window) || !covered(size-min(size, Window), Window) {
			t.Fatal("the plan does not cover both ends")
		}
		for _, at := range places(size) {
			if !covered(at, min(sample, size-at)) {
				t.Fatalf("place %d is not covered", at)
			}
		}
		var total, gap, last uint64
		for _, e := range all {
			gap = max(gap, e.start-last)
			last = e.end
			total += e.end - e.start
		}
		if gap > sampleStride-sample {
			t.Fatalf("a gap of %d bytes", gap)
		}
		if total != size && total < minSamples*sample-2*Window {
			t.Fatalf("got %d of %d bytes read", total, size)
		}
	})
}

// TestXFSGroups compares the allocation groups with the output of mkfs.xfs 6.1.0 -N, without and with "-d su=64k,sw=4".
// In each case that names a number of CPUs, the expected allocation groups are from mkfs.xfs 6.13.0 -d
// concurrency=CPUS. The field `agsize` is the size of an allocation group in blocks of 4 KiB.
func TestXFSGroups(t *testing.T) {
	for _, tc := range []struct {
		size, agsize, agcount uint64
		how                   string
	}{
		{300 * mib, 19200, 4, ""},
		{5*gib + 512, 327680, 4, ""},
		{5*gib + 512, 163824, 8, "striped"},
		{10*gib + 4096, 655361, 4, ""},
		{10*gib + 4096, 163856, 16, "striped"},
		{64 * gib, 4194304, 4, ""},
		{64 * gib, 1048560, 16, "striped"},
		{75*gib + 4608, 4915201, 4, ""},
		{75*gib + 4608, 1228816, 16, "striped"},
		{123456789504, 7535205, 4, ""},
		{123456789504, 1883808, 16, "striped"},
		{511 * gib, 33488896, 4, ""},
		{931*gib + 4096, 61014017, 4, ""},
		{999653638144, 61014016, 4, ""},
		{999653638144, 7626736, 32, "striped"},
		{tib, 8388592, 32, "striped"},
		{2 * tib, 16777200, 32, "striped"},
		{4095 * gib, 268369920, 4, ""},
		{4*tib - 4096, 268435455, 4, ""},
		{4*tib - 4096, 33554416, 32, "striped"},
		{4 * tib, 268435455, 4, ""},
		{5 * tib, 268435455, 5, ""},
		{6 * tib, 50331632, 32, "striped"},
		{6 * tib, 268435455, 6, ""},
		{123456789504, 3767602, 8, "8 CPUs"},
		{tib, 22369621, 12, "12 CPUs"},
		{931*gib + 4096, 3813376, 64, "64 CPUs"},
		{256 * gib, 1048576, 64, "64 CPUs"},
		{3 * tib, 8388608, 96, "96 CPUs"},
		{5 * tib, 2621440, 512, "512 CPUs"},
		{700*gib + 4096, 1048576, 175, "200 CPUs, which are too many"},
		{6 * tib, 161061273, 10, "5 CPUs, whose groups would be too large"},
	} {
		groups := xfsGroups(tc.size)
		for i := uint64(1); i < tc.agcount; i++ {
			if at := i * tc.agsize * 4096; !slices.Contains(groups, at) {
				t.Errorf("%d bytes %s: group %d at %d is not in the list", tc.size, tc.how, i, at)
			}
		}
	}
}

// TestExtGroups compares the block groups with the output of `mke2fs -n`.
func TestExtGroups(t *testing.T) {
	for _, tc := range []struct {
		size, block uint64
		backups     []uint64
	}{
		{gib, 4096, []uint64{32768, 98304, 163840, 229376}},
		{400 * gib, 4096, []uint64{32768, 98304, 163840, 229376, 294912, 819200, 884736, 1605632, 2654208, 4096000, 7962624, 11239424, 20480000, 23887872, 71663616, 78675968, 102400000}},
		{123456789504, 4096, []uint64{32768, 98304, 163840, 229376, 294912, 819200, 884736, 1605632, 2654208, 4096000, 7962624, 11239424, 20480000, 23887872}},
		{999653638144, 2048, []uint64{16384, 49152, 81920, 114688, 147456, 409600, 442368, 802816, 1327104, 2048000, 3981312, 5619712, 10240000, 11943936, 35831808, 39337984, 51200000, 107495424, 256000000, 275365888, 322486272}},
		{999653638144, 1024, []uint64{8193, 24577, 40961, 57345, 73729, 204801, 221185, 401409, 663553, 1024001, 1990657, 2809857, 5120001, 5971969, 17915905, 19668993, 25600001, 53747713, 128000001, 137682945, 161243137, 483729409, 640000001, 963780609}},
		{256 * mib, 1024, []uint64{8193, 24577, 40961, 57345, 73729, 204801, 221185}},
	} {
		all := places(tc.size)
		for _, b := range tc.backups {
			if at := b * tc.block / align * align; !slices.Contains(all, at) {
				t.Errorf("%d bytes in blocks of %d: %d is not in the list", tc.size, tc.block, b)
			}
		}
	}
}

func TestPlacesAreFew(t *testing.T) {
	if n := len(places(1<<63 - 1)); n > 8192 {
		t.Errorf("%d places", n)
	}
}

func TestNonZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, rapid.IntRange(0, 20000).Draw(t, "length"))
		want := -1
		for range rapid.IntRange(0, 2).Draw(t, "count") {
			if len(b) > 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.ByteRange(1, 255).Draw(t, "byte")
			}
		}
		want = strings.IndexFunc(string(b), func(r rune) bool { return r != 0 })
		if got := nonZero(b); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func BenchmarkNonZero(b *testing.B) {
	buf := make([]byte, chunk)
	b.SetBytes(chunk)
	for b.Loop() {
		if nonZero(buf) >= 0 {
			b.Fatal("not zero")
		}
	}
}

// BenchmarkScan and BenchmarkPlainRead read the same 256 MiB from memory. The difference between the two benchmarks is
// the cost of the check for zeros.
func BenchmarkScan(b *testing.B)      { benchmark(b, true) }
func BenchmarkPlainRead(b *testing.B) { benchmark(b, false) }

func benchmark(b *testing.B, scan bool) {
	const size = 256 * mib
	data := bytes.NewReader(make([]byte, size))
	buf := make([]byte, chunk)
	b.SetBytes(size)
	for b.Loop() {
		if scan {
			if f, err := Scan(b.Context(), Source{Reader: data, Size: size}, Full); err != nil || !f.Zero() {
				b.Fatal(f, err)
			}
			continue
		}
		for at := int64(0); at < size; at += chunk {
			if _, err := data.ReadAt(buf, at); err != nil {
				b.Fatal(err)
			}
		}
	}
}
