package toolbash

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// wantFlat checks the peak memory of this process: it is below 200 MB whatever
// the commands wrote.
func wantFlat(t *testing.T) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := peak.FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak memory so far: %d MiB", kb>>10)
	if kb > 200<<10 {
		t.Errorf("peak memory is %d MiB", kb>>10)
	}
}

// guards is the number of processes that the runner itself has here.
const guards = 1
