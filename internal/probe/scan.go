// Package probe tells what is on a disk: blank, a filesystem, something else, or
// unknown, with the evidence. It only reads. What can not be read or is not
// understood is an error or Unknown, never Blank.
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

	"golang.org/x/sys/unix"

	"hotmount/internal/disk"
)

// Plan names how much of a disk is read to prove it blank.
type Plan string

// The plans. The first four are what a class may ask for.
const (
	// Auto is Full for a disk of up to FullLimit, and Sampled for a larger one.
	Auto Plan = "auto"
	// Full reads every byte.
	Full Plan = "full"
	// Sampled reads Window bytes at both ends, 64 KiB at least every 64 MiB and
	// at no less than 4,096 places, and wherever a known format keeps a second
	// superblock.
	Sampled Plan = "sampled"
	// Unsigned wants zeros in the first 4 KiB, and Window bytes at both ends that
	// can be read: what the tools can not read they do not name.
	Unsigned Plan = "unsigned"
	// ends reads Window bytes at both ends.
	ends Plan = "ends"
)

// In bytes, and the least number of samples (packaging/doc/adr/0002).
const (
	// FullLimit is the size of the largest disk of which Auto reads every byte.
	FullLimit = 64 << 30
	// Window is what is read at each end of a disk.
	Window = 16 << 20

	sample       = 64 << 10
	sampleStride = 64 << 20
	minSamples   = 4096

	// unsigned is what has to be zero for the plan of that name.
	unsigned = 4 << 10

	// chunk is one read: a smaller one costs more calls and more changes of threads, a
	// larger one more memory while eight disks are formatted, for which there are 32 MiB in all
	// (test/bench). It and every
	// offset are multiples of align, for O_DIRECT on disks with sectors of up to that size.
	// Where a disk is not read in full it is little, and read without a place (package store)
	// by as many processes as there are.
	chunk      = 512 << 10
	shortChunk = 256 << 10
	align      = 4096
	// buffers are the chunks in memory: one is looked at while the next is read.
	buffers = 2
)

// Ends is the plan for the short look right before the format of a disk that was
// proven blank by p.
func (p Plan) Ends() Plan {
	if p == Unsigned {
		return Unsigned
	}
	return ends
}

// chunk is one read of the plan, in bytes.
func (p Plan) chunk() int {
	if p == Full {
		return chunk
	}
	return shortChunk
}

// of is the plan that Auto is for a disk of that size in bytes.
func (p Plan) of(size uint64) Plan {
	switch {
	case p != Auto:
		return p
	case size > FullLimit:
		return Sampled
	}
	return Full
}

// Finding is what a scan found.
type Finding struct {
	// Plan is the one that was followed, not Auto.
	Plan Plan
	Size uint64
	// Read counts the bytes that were read and are zero or Source.Own's, Places
	// the stretches they lie in, Own the bytes in blocks of Source.Own's.
	Read, Places, Own uint64
	// Bytes are the first that are neither, up to 16 of them from Offset on;
	// empty if there are none.
	Bytes  []byte
	Offset uint64
}

// Zero says that the scan came to its end and every byte read was zero.
func (f *Finding) Zero() bool { return f.clean() && f.Own == 0 }

// clean says that the scan came to its end and every byte read was zero or
// Source.Own's.
func (f *Finding) clean() bool { return f.Size != 0 && len(f.Bytes) == 0 }

// ReadError says that a byte that had to be read could not be.
type ReadError struct {
	Offset uint64
	Err    error
}

func (e *ReadError) Error() string { return fmt.Sprintf("cannot read byte %d: %v", e.Offset, e.Err) }

// Unwrap gives the operating system's error.
func (e *ReadError) Unwrap() error { return e.Err }

// Scan reads the disk as the plan says and stops at the first byte that is
// neither zero nor s.Own's. Where s.Reader is a file opened with O_DIRECT the
// page cache is neither trusted nor filled. An error, a *ReadError or ctx's,
// says that nothing is known.
func Scan(ctx context.Context, s Source, plan Plan) (Finding, error) {
	f := Finding{Plan: plan.of(s.Size), Size: s.Size}
	if s.Size == 0 {
		return Finding{}, errors.New("cannot scan: the size is 0")
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

// amount is how much was read and handed on.
type amount struct{ bytes, places uint64 }

// read reads the disk as the plan says and hands it on, until take says no. It ends when the
// read ahead that is under way does: into memory that is in use nobody may read.
func (s *Source) read(ctx context.Context, plan Plan, take func(b []byte, offset uint64) bool) (amount, error) {
	var a amount
	extents, err := plan.extents(s.Size)
	if err != nil {
		return a, err
	}
	size := plan.chunk()
	memory, err := alignedBuffer(buffers * size)
	if err != nil {
		return a, err
	}
	defer memory.free()
	unused, pieces := make(chan []byte, buffers), make(chan piece)
	for i := range buffers {
		unused <- memory[i*size:][:size:size]
	}
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	reader.Go(func() {
		defer close(pieces)
		s.readAhead(reading, extents, unused, pieces)
	})
	begun := time.Now()
	for p := range pieces {
		if ctx.Err() != nil {
			break
		}
		if p.first {
			a.places++
		}
		if p.err != nil {
			return a, p.err
		}
		if !take(p.b, p.start) {
			return a, nil
		}
		a.bytes += uint64(len(p.b))
		if s.Progress != nil {
			s.Progress(ctx, Progress{At: p.start + uint64(len(p.b)), Size: s.Size, Read: a.bytes})
		}
		if err := s.slow(ctx, begun, a.bytes); err != nil {
			return a, err
		}
		unused <- p.b[:size]
	}
	return a, context.Cause(ctx)
}

// piece is what was read from start on, or why it could not be.
type piece struct {
	b     []byte
	start uint64
	// first says that a place begins with it.
	first bool
	err   error
}

// readAhead reads into what memory is unused, until all is read, a read fails or ctx ends.
func (s *Source) readAhead(ctx context.Context, extents iter.Seq[extent], unused <-chan []byte, pieces chan<- piece) {
	for e := range extents {
		for p := (piece{start: e.start, first: true}); p.start < e.end; p.start, p.first = p.start+uint64(len(p.b)), false {
			select {
			case p.b = <-unused:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
			p.b = p.b[:min(uint64(len(p.b)), e.end-p.start)]
			p.err = readFull(s.Reader, p.b, p.start)
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil {
				return
			}
		}
	}
}

// Digest gives a digest of what the plan reads.
func Digest(ctx context.Context, s Source, plan Plan) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	h := sha256.New()
	_, err := s.read(ctx, plan.of(s.Size), func(b []byte, offset uint64) bool {
		h.Write(binary.LittleEndian.AppendUint64(nil, offset))
		h.Write(b)
		return true
	})
	h.Sum(sum[:0])
	return sum, err
}

// slow waits until so many bytes since begun are no more than Rate allows.
func (s *Source) slow(ctx context.Context, begun time.Time, read uint64) error {
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

// readFull reads all of b or fails: on the descriptor of a disk that is gone a
// read gives no bytes and no error.
func readFull(r io.ReaderAt, b []byte, offset uint64) error {
	n, err := r.ReadAt(b, int64(offset))
	if n == len(b) && (err == nil || err == io.EOF) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = fmt.Errorf("%d bytes instead of %d: %w", n, len(b), io.ErrUnexpectedEOF)
	}
	return &ReadError{Offset: offset + uint64(max(n, 0)), Err: err}
}

// nonZero gives the index of the first byte of b that is not zero, or -1. It takes
// words: under QEMU's emulation vector instructions, which bytes.Equal uses, cost
// several times as much. It looks at what its caller alone has, and the race detector
// would make it hundreds of times slower.
//
//go:norace
func nonZero(b []byte) int {
	const line = 64 // bytes of a cache line: eight words
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

// extent is a stretch of the disk, end excluded.
type extent struct{ start, end uint64 }

// extents gives what the plan reads, in ascending order and without overlap.
func (p Plan) extents(size uint64) (iter.Seq[extent], error) {
	if size > 1<<63-1 {
		return nil, fmt.Errorf("cannot scan: a size of %d bytes", size)
	}
	switch p {
	case Full:
		return clip(size, one(extent{0, size})), nil
	case Unsigned, ends:
		return clip(size, one(extent{0, Window}, extent{tail(size), size})), nil
	case Sampled:
		return clip(size, samples(size)), nil
	}
	return nil, fmt.Errorf("cannot scan: unknown plan %q", string(p))
}

// tail is where the window at the end begins: counted from the true end, and
// down to the next place where a direct read may begin.
func tail(size uint64) uint64 {
	if size < Window {
		return 0
	}
	return (size - Window) / align * align
}

func one(list ...extent) iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for _, e := range list {
			if !yield(e) {
				return
			}
		}
	}
}

// samples gives both windows, the samples and the places of second superblocks,
// ordered by their start. The list is never held as a whole: for a disk of
// 1 PiB it has 16 million entries.
func samples(size uint64) iter.Seq[extent] {
	count := max(minSamples, (size+sampleStride-1)/sampleStride)
	stride := max(sample, size/count/sample*sample)
	special := places(size)
	return func(yield func(extent) bool) {
		if !yield(extent{0, Window}) {
			return
		}
		for at := uint64(0); at < tail(size); at += stride {
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
			if at < tail(size) && !yield(extent{at, at + sample}) {
				return
			}
		}
		yield(extent{tail(size), size})
	}
}

// clip takes away what lies beyond the end and what was given before, and makes one of those between which
// nothing lies: the samples of a small disk are all of it, and a read for each takes several times as long.
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

// buffer is memory that begins at a page: O_DIRECT asks for it (open(2)), and
// Go's own allocator does not promise it.
type buffer []byte

func alignedBuffer(size int) (buffer, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("cannot allocate %d bytes: %w", size, err)
	}
	return b, nil
}

// free can only fail for memory that Mmap did not give.
func (b buffer) free() { _ = unix.Munmap(b) }
