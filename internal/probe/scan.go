// Package probe reports, with evidence, what is on a disk: nothing, a filesystem, other content or unknown content.
// Package probe writes nothing to a disk. If a read fails or an examined byte is not zero, the disk is never Blank.
package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Plan determines how much of a disk is read to prove that the disk is blank.
type Plan string

// A class can specify the plan Auto, Full, Sampled or Unsigned. Only ShortLook uses the fifth plan, `ends`.
const (
	// Auto is the plan Full for a disk of up to FullLimit bytes, and the plan Sampled for a larger disk.
	Auto Plan = "auto"
	// Full reads every byte of the disk.
	Full Plan = "full"
	// Sampled reads Window bytes at each end of the disk, and the places of second superblocks (places.go). Sampled
	// also reads at least 4,096 samples of 64 KiB, and at least one sample in each 64 MiB.
	Sampled Plan = "sampled"
	// Unsigned requires zeros only in the first 4 KiB of the disk. Unsigned also requires that the first and the last
	// 16 MiB (Window) are readable, because wipefs and blkid report no signature that they cannot read.
	Unsigned Plan = "unsigned"
	// The plan `ends` reads Window bytes at each end of the disk.
	ends Plan = "ends"
)

// All constants are sizes in bytes, except `buffers` and minSamples, which are plain numbers (packaging/doc/adr/0002).
const (
	// FullLimit is the size of the largest disk of which Auto reads every byte.
	FullLimit = 64 << 30
	// Window is the number of bytes that are read at each end of a disk.
	Window = 16 << 20

	sample       = 64 << 10
	sampleStride = 64 << 20
	minSamples   = 4096

	// unsigned is the number of bytes at the start of the disk that must be zero for the plan Unsigned.
	unsigned = 4 << 10

	// chunk is the size of one read of the plan Full. A smaller chunk needs more calls, and a larger chunk needs more
	// memory. In test/bench, hotmount used 38 MiB of memory while eight disks were formatted. The constant `chunk` and
	// every offset are multiples of `align`, because O_DIRECT reads whole sectors. A sector has at most `align` bytes.
	//
	// shortChunk is the size of one read of every plan except Full. shortChunk is small, because any number of
	// processes may make reads of this size at once (package store).
	chunk      = 1 << 20
	shortChunk = 256 << 10
	align      = 4096
	// buffers is the number of chunks that a scan keeps in memory. While one goroutine examines a chunk, the other
	// goroutine can read the next chunk.
	buffers = 2
	// hugePage is the size in bytes of a huge page on x86-64. One huge page holds the chunks of a disk that is read in
	// full. For each read, the kernel looks up every page of the chunk. One huge page needs fewer lookups.
	hugePage = 2 << 20
)

// ShortLook returns the plan for the short look right before a format. The receiver p is the plan of the proof.
func (p Plan) ShortLook() Plan {
	if p == Unsigned {
		return Unsigned
	}
	return ends
}

// chunk returns the size in bytes of one read under the plan.
func (p Plan) chunk() int {
	if p == Full {
		return chunk
	}
	return shortChunk
}

// forSize returns the plan for a disk of the given size in bytes. forSize changes only Auto, to Full or Sampled.
func (p Plan) forSize(size uint64) Plan {
	switch {
	case p != Auto:
		return p
	case size > FullLimit:
		return Sampled
	}
	return Full
}

// Finding is the result of a scan. The plan Unsigned examines only the first 4 KiB of the bytes that it reads.
type Finding struct {
	// Plan is the plan by which the scan read the disk. If the caller of the scan chose Auto, Plan is Full or Sampled.
	Plan Plan
	Size uint64
	// Read is the number of bytes read before the read that found the byte at Offset, if any. Places is the number of
	// separate stretches that the scan read. Own is the size in bytes of the scanned blocks that belong to Source.Own.
	Read, Places, Own uint64
	// Bytes contains up to 16 bytes of the disk, from Offset on. The byte at Offset is the first byte that is neither
	// zero nor part of Source.Own. Bytes is empty if every examined byte is zero or part of Source.Own.
	Bytes  []byte
	Offset uint64
	// File is the format of the file whose bytes fill the disk, such as qcow2, or empty if no format was recognised.
	// Only the function Look sets the field File.
	File string
}

// Zero reports whether the scan finished and every examined byte was zero.
func (f *Finding) Zero() bool { return f.clean() && f.Own == 0 }

// The method `clean` reports whether the scan finished and every examined byte was zero or part of Source.Own.
func (f *Finding) clean() bool { return f.Size != 0 && len(f.Bytes) == 0 }

// ReadError is the error of a read: the disk did not return the byte at Offset, or memory was lacking (Offset is 0).
type ReadError struct {
	Offset uint64
	Err    error
}

func (e *ReadError) Error() string { return fmt.Sprintf("cannot read byte %d: %v", e.Offset, e.Err) }

// Unwrap returns the operating system's error.
func (e *ReadError) Unwrap() error { return e.Err }

// Scan reads the disk by the plan and stops at the first examined byte that is neither zero nor part of s.Own. If
// s.Reader is a file opened with O_DIRECT, Scan does not use the page cache. If a read fails, the error is a
// *ReadError. If ctx ends before Scan stops, the error is context.Cause(ctx). After an error, the content is unknown.
func Scan(ctx context.Context, s Source, plan Plan) (Finding, error) {
	f := Finding{Plan: plan.forSize(s.Size), Size: s.Size}
	if s.Size == 0 {
		return Finding{}, errors.New("cannot scan the disk: its size is 0")
	}
	var own interface {
		foreign(b []byte, offset uint64) (i int, own uint64)
	} = newOwner(s.Own.UUID)
	if s.Own.Type == disk.Ext4 {
		ext4, err := newExt4Owner(ctx, s.Own)
		if err != nil {
			return Finding{}, err
		}
		own = ext4
	}
	read, err := s.read(ctx, f.Plan, func(b []byte, offset uint64) bool {
		if f.Plan == Unsigned {
			b = b[:min(uint64(len(b)), max(offset, unsigned)-offset)]
		}
		i, n := own.foreign(b, offset)
		f.Own += n
		if i >= 0 {
			f.Offset = offset + uint64(i)
			f.Bytes = bytes.Clone(b[i:min(i+16, len(b))])
		}
		return i < 0
	})
	if err != nil {
		return Finding{}, err
	}
	f.Read, f.Places = read.bytes, read.places
	return f, nil
}

// amount contains the number of bytes for which take() returned true, and the number of separate places that were read.
type amount struct{ bytes, places uint64 }

// The method `read` reads the disk according to the plan. The method passes the data to take(), in the order of the
// offsets, until take() returns false. The method frees the memory of its disk reads only after all reads have ended.
func (s *Source) read(ctx context.Context, plan Plan, take func(b []byte, offset uint64) bool) (amount, error) {
	var a amount
	extents, err := plan.extents(s.Size)
	if err != nil {
		return a, err
	}
	size := plan.chunk()
	memory, into, err := hugeBuffer(buffers * size)
	if err != nil {
		return a, err
	}
	defer memory.free()
	next, stop := iter.Pull(pieces(extents, uint64(size)))
	defer stop()
	begun := time.Now()
	enough := false
	// The goroutines call hand() one after the other, in the order of the pieces.
	hand := func(p piece, b []byte, failed error) (more bool) {
		if err = failed; err != nil {
			return false
		}
		if p.first {
			a.places++
		}
		if enough = !take(b, p.start); enough {
			return false
		}
		a.bytes += p.end - p.start
		if s.Progress != nil {
			s.Progress(ctx, Progress{At: p.end, Size: s.Size, Read: a.bytes})
		}
		err = s.throttle(ctx, begun, a.bytes)
		return err == nil
	}
	inOrder := turns{next: next}
	inOrder.changed.L = &inOrder.mu
	var readers sync.WaitGroup
	for i := range buffers {
		readers.Go(func() {
			inOrder.read(ctx, s.Reader, into[i*size:][:size:size], hand)
		})
	}
	readers.Wait()
	// An error, or the stop by take(), stays valid even if ctx ends while the method `read` waits for the goroutines.
	switch {
	case err != nil || enough:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case inOrder.handed != inOrder.given:
		err = fmt.Errorf("only %d of %d reads were checked", inOrder.handed, inOrder.given)
	}
	return a, err
}

// piece is the extent of one read of the disk. p.first is set if the piece p begins an extent of the plan.
type piece struct {
	extent
	first bool
}

// The function `pieces` cuts the extents of a plan into reads of at most the given size in bytes.
func pieces(extents iter.Seq[extent], size uint64) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for e := range extents {
			for at := e.start; at < e.end; at += size {
				if !yield(piece{extent{at, min(at+size, e.end)}, at == e.start}) {
					return
				}
			}
		}
	}
}

// The type `turns` lets several goroutines read the disk at the same time. The goroutines pass on their data one after
// the other, in order. Each goroutine examines its own data, because waking another goroutine for each read would take
// longer.
type turns struct {
	mu   sync.Mutex
	next func() (piece, bool)
	// t.given is the number of pieces that goroutines have begun to read. t.handed is the number of pieces that were
	// passed to hand().
	given, handed int
	// t.over is set when no goroutine may begin another piece. The condition variable t.changed is signalled when
	// t.over is set, and when t.handed changes.
	over    bool
	changed sync.Cond
}

// The method `read` reads pieces of the disk into the buffer b, and passes each piece to hand(). The reading ends after
// the last piece, or if hand() returns false or ctx ends. Each goroutine needs a buffer of its own.
func (t *turns) read(ctx context.Context, r io.ReaderAt, b []byte, hand func(p piece, b []byte, failed error) (more bool)) {
	t.mu.Lock()
	all := false
	// The deferred function lets the other goroutine continue even after a panic or runtime.Goexit.
	defer func() {
		t.over = t.over || !all
		t.changed.Broadcast()
		t.mu.Unlock()
	}()
	for !t.over && ctx.Err() == nil {
		p, more := t.next()
		if !more {
			all = true
			return
		}
		mine := t.given
		t.given++
		got := b[:p.end-p.start]
		var err error
		t.unlocked(func() { err = readFull(r, got, p.start) })
		for t.handed != mine && !t.over {
			t.changed.Wait()
		}
		if t.over || ctx.Err() != nil {
			return
		}
		// The other goroutines wait until the value of t.handed changes, so only this goroutine calls hand() now.
		t.unlocked(func() { more = hand(p, got, err) })
		t.handed, t.over = t.handed+1, t.over || !more
		t.changed.Broadcast()
	}
}

// unlocked releases the lock, runs f and takes the lock again. Even if f panics, unlocked takes the lock again, because
// a second unlock by the caller would hide the panic.
func (t *turns) unlocked(f func()) {
	t.mu.Unlock()
	defer t.mu.Lock()
	f()
}

// Digest returns the SHA-256 digest of all bytes that the plan reads, and of their offsets.
func Digest(ctx context.Context, s Source, plan Plan) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	h := sha256.New()
	_, err := s.read(ctx, plan.forSize(s.Size), func(b []byte, offset uint64) bool {
		h.Write(binary.LittleEndian.AppendUint64(nil, offset))
		h.Write(b)
		return true
	})
	h.Sum(sum[:0])
	return sum, err
}

// throttle waits until the average rate since the start of the scan is at most s.Rate.
func (s *Source) throttle(ctx context.Context, begun time.Time, read uint64) error {
	if s.Rate == 0 {
		return nil
	}
	wait := time.Duration(float64(read)/float64(s.Rate)*float64(time.Second)) - time.Since(begun)
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readFull fills the buffer b from the disk, or returns a *ReadError. If the disk was removed, a read may return no
// bytes and no error.
func readFull(r io.ReaderAt, b []byte, offset uint64) error {
	n, err := r.ReadAt(b, int64(offset))
	if n == len(b) && (err == nil || err == io.EOF) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = fmt.Errorf("read %d bytes instead of %d bytes: %w", n, len(b), io.ErrUnexpectedEOF)
	}
	return &ReadError{Offset: offset + uint64(max(n, 0)), Err: err}
}

// nonZero returns the index of the first byte of b that is not zero, or -1. nonZero compares 64-bit words, because the
// vector instructions of bytes.Equal are several times slower under QEMU's emulation. The race detector would make
// nonZero hundreds of times slower. nonZero does not need the race detector, because only the caller uses the bytes.
//
//go:norace
func nonZero(b []byte) int {
	const line = 64 // the bytes of a cache line, which are eight 64-bit words
	i := 0
	for ; i+line <= len(b); i += line {
		w := b[i : i+line : i+line]
		if binary.NativeEndian.Uint64(w[0:])|binary.NativeEndian.Uint64(w[8:])|
			binary.NativeEndian.Uint64(w[16:])|binary.NativeEndian.Uint64(w[24:])|
			binary.NativeEndian.Uint64(w[32:])|binary.NativeEndian.Uint64(w[40:])|
			binary.NativeEndian.Uint64(w[48:])|binary.NativeEndian.Uint64(w[56:]) != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] != 0 {
			return i
		}
	}
	return -1
}

// The type `extent` is a stretch of the disk from byte `start` up to, but not including, byte `end`.
type extent struct{ start, end uint64 }

// extents returns the stretches of the disk that the plan reads, in ascending order and without overlap.
func (p Plan) extents(size uint64) (iter.Seq[extent], error) {
	if size > 1<<63-1 {
		return nil, fmt.Errorf("cannot scan the disk: its size is %d bytes", size)
	}
	switch p {
	case Full:
		return clip(size, extentsOf(extent{0, size})), nil
	case Unsigned, ends:
		return clip(size, extentsOf(extent{0, Window}, extent{tailOffset(size), size})), nil
	case Sampled:
		return clip(size, samples(size)), nil
	}
	return nil, fmt.Errorf("cannot scan the disk: unknown plan %q", string(p))
}

// tailOffset returns the byte offset of the window at the end of the disk, rounded down for O_DIRECT.
func tailOffset(size uint64) uint64 {
	if size < Window {
		return 0
	}
	return (size - Window) / align * align
}

func extentsOf(list ...extent) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for _, e := range list {
			if !yield(e) {
				return
			}
		}
	}
}

// The function `samples` returns all extents of the plan Sampled: the samples, the two windows at the ends, and the
// places of second superblocks. For a disk of 1 PiB, the list has 16 million entries, so the function never keeps the
// whole list in memory.
func samples(size uint64) iter.Seq[extent] {
	count := max(minSamples, (size+sampleStride-1)/sampleStride)
	stride := max(sample, size/count/sample*sample)
	special := places(size)
	return func(yield func(extent) bool) {
		if !yield(extent{0, Window}) {
			return
		}
		for at := uint64(0); at < tailOffset(size); at += stride {
			for len(special) > 0 && special[0] <= at {
				if !yield(extent{special[0], special[0] + sample}) {
					return
				}
				special = special[1:]
			}
			if !yield(extent{at, at + sample}) {
				return
			}
		}
		for _, at := range special {
			if at < tailOffset(size) && !yield(extent{at, at + sample}) {
				return
			}
		}
		yield(extent{tailOffset(size), size})
	}
}

// clip drops extents beyond the end of the disk, drops overlaps, and joins adjacent extents. The samples of a small
// disk are adjacent and cover the whole disk. Joined reads are several times faster than one read for each sample.
func clip(size uint64, list iter.Seq[extent]) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		var next extent
		for e := range list {
			e.start, e.end = max(e.start, next.end), min(e.end, size)
			switch {
			case e.start >= e.end:
			case e.start == next.end:
				next.end = e.end
			case next.end > 0 && !yield(next):
				return
			default:
				next = e
			}
		}
		if next.end > 0 {
			yield(next)
		}
	}
}

// buffer is memory that begins at a page boundary. O_DIRECT requires memory at a multiple of the disk's sector size
// (open(2)), which Go's allocator does not guarantee.
type buffer []byte

func alignedBuffer(size int) (buffer, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, &ReadError{Err: fmt.Errorf("cannot allocate %d bytes: %w", size, err)}
	}
	return b, nil
}

// hugeBuffer returns a memory mapping `all`, and a buffer b of the given size in bytes inside this mapping. The caller
// must free the whole mapping. If the size is a multiple of a huge page, hugeBuffer requests huge pages: a scan then
// reads 2.1 GB/s instead of 1.4 GB/s (make bench-scan). For a buffer of any other size, a huge page would waste memory.
func hugeBuffer(size int) (all buffer, b []byte, err error) {
	if size%hugePage != 0 {
		all, err = alignedBuffer(size)
		return all, all, err
	}
	if all, err = alignedBuffer(size + hugePage); err != nil {
		return nil, nil, err
	}
	b = all[toHugePage(uintptr(unsafe.Pointer(unsafe.SliceData(all)))):][:size]
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	return all, b, nil
}

// toHugePage returns the number of bytes from the memory address to the next boundary of a huge page.
func toHugePage(address uintptr) int { return -int(address) & (hugePage - 1) }

// The method `free` ignores the error of munmap(2), which fails only for memory that is not from mmap(2).
func (b buffer) free() { _ = unix.Munmap(b) }
