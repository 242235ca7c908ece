package kernel

import (
	"os"
	"runtime/debug"
	"time"
)

const (
	// startHeap is the GC percentage of a process that starts: nearly all that it
	// allocates stays, so that the collection which the runtime begins at 4 MiB finds
	// nothing, and costs a tenth of the start.
	startHeap = 200
	// startTime is how long that holds: some starts long, so that the sessions behind
	// it are collected like any others.
	startTime = 100 * time.Millisecond
)

// startLightly puts the first collection off, unless the environment says how to
// collect; settle goes back to the usual way at once.
func startLightly() (settle func()) {
	if _, ok := os.LookupEnv("GOGC"); ok {
		return func() {}
	}
	usual := debug.SetGCPercent(startHeap)
	back := time.AfterFunc(startTime, func() { debug.SetGCPercent(usual) })
	return func() {
		if back.Stop() {
			debug.SetGCPercent(usual)
		}
	}
}
