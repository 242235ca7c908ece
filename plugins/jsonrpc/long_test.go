//go:build !race

package jsonrpc_test

import (
	"runtime"
	"strings"
	"testing"
)

// Spec jsonrpc 1.1, 14 line 4: a line of 30 MB is served in memory that is in
// proportion to it. The race detector would take minutes for its bytes.
func TestLongLine(t *testing.T) {
	p := serve(t, setup{})
	p.begin()
	text := strings.Repeat("0123456789", 3_000_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.send(prompt("1", "s", text))
	lines := p.until(`"agent/inbox/spliced"`)
	runtime.ReadMemStats(&after)
	if got := lines[len(lines)-1]; !strings.Contains(got, text) {
		t.Errorf("the text did not come back: %d bytes", len(got))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 40*uint64(len(text)) {
		t.Errorf("%d MB allocated for a line of %d MB", used>>20, len(text)>>20)
	}
}
