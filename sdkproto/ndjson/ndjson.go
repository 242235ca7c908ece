// Package ndjson frames a byte stream as lines: a Reader that takes lines from
// a peer within a bound, and a Writer that gives whole lines to a peer from one
// goroutine and a bounded queue.
//
// It knows nothing about JSON beyond two facts: a compact JSON text holds no
// raw line feed, and white space around one means nothing. Both ends of every
// wire use it (decision R5; spec jsonrpc 1.1, 1.5 and 1.6).
package ndjson

import "errors"

// MaxLine is the longest line, in bytes, that a server has to accept: 300 MiB,
// which is twenty images of 10 MiB in base64 and room around them (decision
// D18, spec jsonrpc 1.1).
const MaxLine = 300 << 20

// MaxPrefix is the most, in bytes, that Reader.Next hands back of a line that
// was too long: enough to find the id that an error answer needs.
const MaxPrefix = 64 << 10

// ErrClosed is returned for a frame that a Writer did not take because it was
// closed.
var ErrClosed = errors.New("ndjson: writer is closed")

// ErrFrame is wrapped by the error for a frame that cannot be one line: an
// empty one, or one that holds a raw line feed.
var ErrFrame = errors.New("ndjson: not a frame")
