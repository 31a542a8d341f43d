package report

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"

	"hotmount/internal/disk"
)

// The constants are the intervals of reports about a long scan, in the journal and in the status of the unit.
const (
	firstWord   = 5 * time.Second
	everyWord   = 30 * time.Second
	everyStatus = time.Second
)

// Scan reports the progress of the proof of one disk. The process that proves the disk blank uses a Scan. Make a Scan
// with NewScan.
type Scan struct {
	// Doing is a text that describes the purpose of the scan.
	Doing string

	log    *Log
	facts  *disk.Facts
	notify func(state string)

	begun, word, status time.Time
	read                uint64
}

// NewScan returns a Scan for a proof that begins now.
func NewScan(log *Log, f *disk.Facts) *Scan {
	return &Scan{Doing: "proving that the disk is blank", log: log, facts: f, notify: func(state string) {
		// The error is ignored, because the journal contains the report even if there is no service manager.
		_, _ = daemon.SdNotify(false, state)
	}}
}

// Progress reports how far a scan has come. The first two parameters are the byte offset that the scan has reached, and
// the offset at which the scan ends. The third parameter is the number of bytes read so far. At most once a second,
// Progress also calls Status, which extends the unit's timeout. The service manager therefore ends a proof only if the
// proof makes no progress for the time in the last parameter.
func (s *Scan) Progress(at, size, read uint64, patience time.Duration) {
	now := time.Now()
	if s.begun.IsZero() || read < s.read {
		s.begun, s.word = now, now.Add(firstWord)
	}
	s.read = read
	if now.Before(s.status) {
		return
	}
	s.status = now.Add(everyStatus)
	took := now.Sub(s.begun)
	message := fmt.Sprintf("%s: %d %% of %s", s.Doing, at*100/max(size, 1), disk.HumanSize(size))
	if took >= everyStatus {
		rate := float64(read) / took.Seconds()
		left := time.Duration(float64(took) * float64(size-at) / float64(max(at, 1)))
		message += fmt.Sprintf(", %s/s, %s to go", disk.HumanSize(uint64(rate)), left.Round(time.Second))
	}
	s.Status(s.facts.Name+": "+message, patience)
	if !now.Before(s.word) {
		s.word = now.Add(everyWord)
		s.log.Event(KindProven, journal.PriInfo, s.facts, disk.Decision{Action: disk.Prove}, "", Name(s.facts)+": "+message)
	}
}

// Status sends a line of status to the service manager (STATUS= in sd_notify(3)). Status also extends the unit's
// timeout (EXTEND_TIMEOUT_USEC=). The last parameter is the time from now until the new timeout.
func (s *Scan) Status(line string, patience time.Duration) {
	s.notify(fmt.Sprintf("STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", disk.OneLine(line), patience.Microseconds()))
}
