package agentloop

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// quietAfter is how long nothing must run before memory goes back to the
// system, and spareBytes how much must be held beyond what was held after the
// last time, so that a host with small turns does not pay for it at every pause.
const (
	quietAfter = time.Second
	spareBytes = 8 << 20
)

// quiet gives memory back to the system after a busy while: without it a process
// that once served thousands of sessions stays at its peak for minutes
// (performance rule 12). The zero value is ready.
type quiet struct {
	mu      sync.Mutex
	running int
	timer   *time.Timer
	kept    uint64 // bytes held from the system after the last time
	stopped bool
	working sync.WaitGroup
}

func (q *quiet) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running++
	if q.timer != nil {
		q.timer.Stop()
	}
}

func (q *quiet) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	switch {
	case q.running > 0 || q.stopped:
	case q.timer == nil:
		q.timer = time.AfterFunc(quietAfter, q.release)
	default:
		q.timer.Reset(quietAfter)
	}
}

func (q *quiet) release() {
	q.mu.Lock()
	if q.running > 0 || q.stopped {
		q.mu.Unlock()
		return
	}
	q.working.Add(1)
	kept := q.kept
	q.mu.Unlock()
	defer q.working.Done()
	if held() < kept+spareBytes {
		return
	}
	debug.FreeOSMemory()
	kept = held()
	q.mu.Lock()
	q.kept = kept
	q.mu.Unlock()
}

// stop waits for a release that is under way; there is none after it.
func (q *quiet) stop() {
	q.mu.Lock()
	q.stopped = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	q.working.Wait()
}

// held is what the heap has from the system, in bytes.
func held() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased + m.StackSys
}
