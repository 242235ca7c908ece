// Package session holds the contract of the session log: an append-only list of
// facts with one writer, a store that keeps it, subscriptions that hand every
// fact on once and in order, and folds that derive state from it.
//
// Promises: Seq has no gaps. A fact is in the hands of the operating system
// before anybody else sees it (kill -9 loses nothing that was handed out), and
// on the disk after the next Sync (a power failure loses nothing that was
// acknowledged). A write that failed hands out nothing and fails the log.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Header is the record at the head of a stored session (spec jsonrpc 9.2). It
// is not an event and never on the wire.
type Header struct {
	ID string `json:"id"`
	// CreatedAt is in epoch milliseconds.
	CreatedAt int64 `json:"createdAt"`
	// CWD is the absolute, cleaned working directory; "" for none.
	CWD             string `json:"cwd,omitzero"`
	ParentSession   string `json:"parentSession,omitzero"`
	SeedLength      int64  `json:"seedLength,omitzero"`
	Origin          string `json:"origin,omitzero"`
	DelegationDepth int    `json:"delegationDepth"`
	AgentPreset     string `json:"agentPreset,omitzero"`
}

// Record is one event with its encoded form. Raw and Data are not changed once
// the record exists.
type Record struct {
	Event sdkproto.Event
	// Raw is the envelope as it stands in the log and on the wire.
	Raw []byte
	// Data is the typed payload when the record was just made, nil when it was
	// read back; use Decode.
	Data any
}

// Decode gives the typed payload of a record.
func Decode[T any](r *Record) (T, error) {
	if v, ok := r.Data.(T); ok {
		return v, nil
	}
	if p, ok := r.Data.(*T); ok {
		return *p, nil
	}
	var v T
	if err := wirejson.Unmarshal(r.Event.Data, &v); err != nil {
		return v, fmt.Errorf("event %d (%s): %w", r.Event.Seq, r.Event.Type, err)
	}
	return v, nil
}

// Draft is an event before it has a place in the log.
type Draft struct {
	Type string
	// Data is encoded by its AppendJSON method, if it has one, else by wirejson.
	Data any
	// Sources become sourceEventSeqs.
	Sources []int64
	// Surface is the surface operation; surface types without one append.
	Surface   json.RawMessage
	Ignorable bool
	// Time overrides the clock, in epoch milliseconds; repair events reuse the
	// last time of the log (spec jsonrpc 9.6).
	Time int64
}

// Errors of stores and logs.
var (
	// ErrNotFound: no such session is stored.
	ErrNotFound = errors.New("no such session")
	// ErrExists: a session of that id is stored already.
	ErrExists = errors.New("session exists already")
	// ErrOtherCWD: the stored session belongs to another working directory.
	ErrOtherCWD = errors.New("session belongs to another working directory")
	// ErrUnsupported: the log has a format, or an event type that may not be
	// ignored, that this version does not know.
	ErrUnsupported = errors.New("unsupported session format")
	// ErrCorrupt: the committed part of the log cannot be read.
	ErrCorrupt = errors.New("session log is corrupt")
	// ErrClosed: the log or writer has been closed.
	ErrClosed = errors.New("session log is closed")
)

// InUseError says that another writer holds the session.
type InUseError struct {
	ID string
	// PID is the process that holds it; 0 when the system does not tell.
	PID int
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("session %q is in use by another process", e.ID)
	}
	return fmt.Sprintf("session %q is in use by process %d", e.ID, e.PID)
}

// Writer is the exclusive right to extend one stored session. Append and Close
// are called by one goroutine at a time; Sync may run beside Append.
type Writer interface {
	// Append hands records, which continue the sequence, to the operating system
	// before it returns. After an error the writer is unusable.
	Append(records []Record) error
	// Sync returns when everything appended before the call is on the disk.
	Sync(ctx context.Context) error
	// Close syncs and gives up the right.
	Close() error
}

// Store keeps sessions. All methods may be called from any goroutine, and their
// errors name the session.
type Store interface {
	// Create starts an empty session; nothing need be on the disk before the first
	// Append. Errors: ErrExists, *InUseError.
	Create(ctx context.Context, h Header) (Writer, error)
	// Open takes the exclusive right to a stored session, cuts off what a crash
	// left half written, and hands the header and every record to fn in order.
	// cwd, when not "", must be the session's. Errors: ErrNotFound, ErrOtherCWD,
	// ErrUnsupported, ErrCorrupt, *InUseError, and those of fn.
	Open(ctx context.Context, id, cwd string, fn func(Header, *Record) error) (Writer, error)
	// Read hands the records from seq `from` on to fn, without any right to the
	// session; what a live writer appends meanwhile may be missing. Errors:
	// ErrNotFound, ErrUnsupported, ErrCorrupt, and those of fn.
	Read(ctx context.Context, id string, from int64, fn func(*Record) error) error
	// Header reads the head of one session. Error: ErrNotFound.
	Header(ctx context.Context, id string) (Header, error)
	// List gives the headers of all sessions of cwd ("" for all), newest first.
	List(ctx context.Context, cwd string) ([]Header, error)
	// Delete removes a session and all that belongs to it. Errors: ErrNotFound,
	// *InUseError.
	Delete(ctx context.Context, id string) error
}

// Titler is a Store that finds a title faster than Read does.
type Titler interface {
	// Title gives the title that a session had last; "" for none. Errors:
	// ErrNotFound, ErrUnsupported, ErrCorrupt.
	Title(ctx context.Context, id string) (string, error)
}

// Fold derives state from the records of one log. It is called in order, under
// the log's lock: it must be quick and must not call the log.
type Fold interface {
	Apply(r *Record) error
}
