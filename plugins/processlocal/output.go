package processlocal

import (
	"io"
	"os"
	"sync"
	"time"
)

const (
	// lateLimit is how long output is still taken after the program has ended
	// while somebody else holds the pipe: what a `tee` behind it has not passed on.
	lateLimit = 150 * time.Millisecond
	// busyLimit is how much longer it is taken while the pipe is not empty: the
	// listener may be slow, or this process short of time.
	busyLimit = 5 * time.Second
	// lateBytes bounds it for one that never stops writing. It covers a full pipe
	// several times, so nothing the program itself wrote is lost; and it is small,
	// so that what the program wrote last stays near the end.
	lateBytes = 256 << 10
	// drainPause is the pause between two reads of a pipe that nobody listens to.
	drainPause = 20 * time.Millisecond
	readSize   = 32 << 10
)

// output is our end of the pipe that a program and its children write to.
//
// After the call the pipe stays open and is emptied slowly, for as long as
// somebody holds its other end. Closing it would end a server in the background
// at its next line of log; leaving it full would stop that server; emptying it
// at full speed would let a forgotten `yes` keep two cores busy.
type output struct {
	pipe *os.File
	// eof is closed when nobody holds the other end any more, or by close.
	eof chan struct{}
	// stop ends the slow emptying.
	stop func()
	// enough is closed when the late bytes are used up.
	enough  chan struct{}
	stopped chan struct{}

	mu sync.Mutex
	// to is nil once the call is over.
	to    io.Writer
	ended bool
	late  int
}

func newOutput(pipe *os.File, to io.Writer) *output {
	if to == nil {
		to = io.Discard
	}
	o := &output{pipe: pipe, to: to, eof: make(chan struct{}), enough: make(chan struct{}), stopped: make(chan struct{})}
	o.stop = sync.OnceFunc(func() {
		close(o.stopped)
		pipe.Close()
	})
	return o
}

// read runs until the pipe ends or is closed.
func (o *output) read() {
	defer close(o.eof)
	defer o.stop()
	buf := make([]byte, readSize)
	for {
		n, err := o.pipe.Read(buf)
		if err != nil {
			return
		}
		if o.deliver(buf[:n]) {
			continue
		}
		select {
		case <-time.After(drainPause):
		case <-o.stopped:
			return
		}
	}
}

// deliver says whether anybody listens.
func (o *output) deliver(p []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return false
	}
	if _, err := o.to.Write(p); err != nil {
		// The program must not wait for a listener that has failed.
		o.to = io.Discard
	}
	if o.ended {
		if o.late += len(p); o.late >= lateBytes {
			o.to = nil
			close(o.enough)
		}
	}
	return true
}

// settle takes what is left of a program that has ended. After it nothing is
// delivered. It says whether somebody still holds the other end.
func (o *output) settle() (open bool) {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	limit := time.NewTicker(lateLimit)
	defer limit.Stop()
	for waited, done := time.Duration(0), false; !done; waited += lateLimit {
		select {
		case <-o.eof:
			done = true
		case <-o.enough:
			done = true
		case <-limit.C:
			done = waited >= busyLimit || unread(o.pipe) == 0
		}
	}
	o.mu.Lock()
	o.to = nil
	o.mu.Unlock()
	return !o.closed()
}

// closed says whether nobody holds the other end any more.
func (o *output) closed() bool {
	select {
	case <-o.eof:
		return true
	default:
		return false
	}
}
