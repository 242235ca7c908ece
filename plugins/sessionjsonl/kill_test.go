package sessionjsonl_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel/session/sessiontest/killpoint"
)

// envHome makes the test binary play the script below that folder and do
// nothing else.
const envHome = "DSH_TEST_PLAY"

func TestMain(m *testing.M) {
	if home := os.Getenv(envHome); home != "" {
		os.Exit(playAndDie(home))
	}
	goleak.VerifyTestMain(m)
}

// playAndDie runs the script and says on stdout what was acknowledged.
func playAndDie(home string) int {
	st, err := killpoint.FromEnv(quiet(home), func(id string) string { return file(home, id) })
	if err == nil {
		err = play(context.Background(), st, func(synced bool, next int64) {
			fmt.Printf("%v %d\n", synced, next)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKill kills a process that writes a session at each of its writes and
// syncs, and looks at what is left (decision D29, spec jsonrpc 9.6, case B42).
func TestKill(t *testing.T) {
	acts := script()
	appends, syncs := int64(0), int64(0)
	for _, a := range acts {
		if a == nil {
			syncs++
		} else {
			appends++
		}
	}
	var points []killpoint.Point
	for n := int64(1); n <= appends; n++ {
		for _, when := range []string{killpoint.Before, killpoint.Half, killpoint.After} {
			points = append(points, killpoint.Point{Op: killpoint.Append, N: n, When: when})
		}
	}
	for n := int64(1); n <= syncs; n++ {
		points = append(points, killpoint.Point{Op: killpoint.Sync, N: n, When: killpoint.Before}, killpoint.Point{Op: killpoint.Sync, N: n, When: killpoint.After})
	}
	unknown, notStarted, partial := 0, 0, 0
	for _, p := range points {
		t.Run(p.String(), func(t *testing.T) {
			home := t.TempDir()
			handedOut, acknowledged := runUntil(t, home, p)
			end := checkRepaired(t, home)
			if end.next < handedOut || end.next < acknowledged {
				t.Errorf("%d events are left; %d were handed out, %d of them synced", end.next, handedOut, acknowledged)
			}
			batch := batchAfter(acts, handedOut)
			if p.When != killpoint.After && p.Op == killpoint.Append && end.next >= handedOut+batch {
				t.Errorf("%d events are left, but the batch of %d behind %d was never written in full", end.next, batch, handedOut)
			}
			if p.When == killpoint.After && p.Op == killpoint.Append && end.next != handedOut+batch {
				t.Errorf("%d events are left, want %d: the last batch was written in full", end.next, handedOut+batch)
			}
			unknown += end.unknown
			notStarted += end.notStarted
			if end.partial != "" {
				partial++
				if !strings.HasPrefix("one two three four five", end.partial) && end.partial != "a failed attempt says this" &&
					!strings.HasPrefix("xyz\n", end.partial) && !strings.HasPrefix("last", end.partial) {
					t.Errorf("the text up to the kill is %q", end.partial)
				}
			}
		})
	}
	// The script has all of it, so a loop that never met one has tested nothing.
	if unknown == 0 || notStarted == 0 || partial == 0 {
		t.Errorf("over all points: %d outcomes unknown, %d calls not started, %d answers cut off; want some of each", unknown, notStarted, partial)
	}
}

// batchAfter is the size of the batch that starts at a seq.
func batchAfter(acts []act, seq int64) int64 {
	next := int64(0)
	for _, a := range acts {
		if a != nil && next == seq {
			return int64(len(a))
		}
		next += int64(len(a))
	}
	return 0
}

// runUntil plays the script in a process that dies at p, and tells what it had
// been told to be written and to be synced: the seq that follows.
func runUntil(t *testing.T, home string, p killpoint.Point) (handedOut, acknowledged int64) {
	t.Helper()
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), envHome+"="+home, killpoint.Env+"="+p.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() || ctx.Err() != nil {
		t.Fatalf("the process was not killed at %s: %v\n%s", p, err, stderr.Bytes())
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var synced bool
		if _, err := fmt.Sscan(lines.Text(), &synced, &handedOut); err != nil {
			t.Fatalf("line %q of the process: %v", lines.Text(), err)
		}
		if synced {
			acknowledged = handedOut
		}
	}
	return handedOut, acknowledged
}

// TestCut cuts the file of a finished session within and between all of its
// rows, as a power failure may, and repairs it.
func TestCut(t *testing.T) {
	home := t.TempDir()
	if err := play(t.Context(), quiet(home), func(bool, int64) {}); err != nil {
		t.Fatal(err)
	}
	path := file(home, scriptID)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cuts []int
	at := 0
	for line := range bytes.Lines(whole) {
		cuts = append(cuts, at, at+1, at+len(line)/2, at+len(line)-1)
		at += len(line)
	}
	last := ending{next: -1}
	for _, n := range append(cuts, len(whole)) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		end := checkRepaired(t, home)
		if end.next < last.next {
			t.Errorf("%d bytes hold %d events, fewer held %d", n, end.next, last.next)
		}
		last = end
		if t.Failed() {
			t.Fatalf("cut after %d bytes: …%q", n, whole[max(0, n-200):n])
		}
	}
	if last.repaired {
		t.Errorf("the whole file asked for a repair")
	}
}
