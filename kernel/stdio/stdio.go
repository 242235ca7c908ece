// Package stdio takes the process's standard input and output away from
// everybody but the one owner of the wire (spec jsonrpc 0.3, 1.5).
package stdio

import (
	"io"
	"os"
)

// Pair is the stream pair that the peer holds the other ends of.
//
// A write to Out after the peer has gone returns an error that wraps EPIPE; it
// does not end the process, as a write to descriptor 1 would.
type Pair struct {
	In  io.Reader
	Out *os.File

	terminal bool
}

// Terminal reports whether In is a terminal, so that a person and not a program
// is on the other side. The null device is none.
func (p *Pair) Terminal() bool { return p.terminal }

// Unread reports whether nobody can read any more what is written to Out, without
// writing anything: a process that has nothing to say would else not see that its
// peer is gone (case B75). Where the system does not tell it is false.
func (p *Pair) Unread() bool { return p.Out != nil && p.unread() }

// Take moves standard input and output to descriptors that only the returned
// Pair knows and no child process inherits. From then on, for this process and
// its children, standard input is the null device and standard output is
// standard error: what a library prints, or reads, cannot reach the peer
// (decision D27, spec jsonrpc 1.5).
//
// A descriptor that was closed when the process started has been opened on the
// null device by the Go runtime, so that Take always finds three.
//
// A broken standard error does not end the process either: writes to it fail.
//
// A descriptor above these that the process was started with, by a parent that
// let it slip, is kept from children, too: a pipe that one of them holds for
// ever keeps the other end waiting.
//
// Take is the first line of main, before anything can print or start a
// goroutine, and is called once; a second Pair would be the null device and
// standard error. After an error nothing has been moved that the caller needs
// to undo, other than to exit.
func Take() (*Pair, error) { return take() }

// KeepFromChildren keeps every descriptor above the three standard ones that is
// open now from children. Take does so; it is for processes without a Pair, such
// as tests.
func KeepFromChildren() { keepInherited() }
