package ndjson_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/sdkproto/ndjson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a sink whose every write waits for a token.
type gate struct {
	tokens chan struct{}
	mu     sync.Mutex
	writes []string
}

func newGate() *gate { return &gate{tokens: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	<-g.tokens
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, string(p))
	return len(p), nil
}

func (g *gate) open() { close(g.tokens) }

func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.writes...)
}

func mustFrame(t *testing.T, w *ndjson.Writer, frame string) {
	t.Helper()
	if err := w.Frame(t.Context(), []byte(frame)); err != nil {
		t.Fatalf("frame: %v", err)
	}
}

func mustClose(t *testing.T, w *ndjson.Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func TestWriterKeepsTheOrderOfEachProducer(t *testing.T) {
	const producers, frames = 32, 300
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := ndjson.NewWriter(pipe, 16)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			scratch := make([]byte, 0, 100)
			for i := range frames {
				// The buffer is used again at once: the frame must have been copied.
				scratch = fmt.Appendf(scratch[:0], "%d %d %s", p, i, strings.Repeat("x", p))
				if err := w.Frame(t.Context(), scratch); err != nil {
					t.Errorf("frame: %v", err)
					return
				}
			}
		})
	}
	go func() {
		wg.Wait()
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		pipe.Close()
	}()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, producers)
	lines := strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
	if len(lines) != producers*frames {
		t.Errorf("%d lines, want %d", len(lines), producers*frames)
	}
	for _, line := range lines {
		var p, i int
		if _, err := fmt.Sscanf(line, "%d %d", &p, &i); err != nil || p < 0 || p >= producers {
			t.Fatalf("torn line %q", line)
		}
		if want := fmt.Sprintf("%d %d %s", p, next[p], strings.Repeat("x", p)); line != want {
			t.Fatalf("line %q, want %q", line, want)
		}
		next[p]++
	}
}

func TestWriterGathersWhileAWriteRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newGate()
		w := ndjson.NewWriter(sink, 1000)
		mustFrame(t, w, "first")
		synctest.Wait() // the first write has begun, though nothing followed
		for range 3 {
			mustFrame(t, w, "later")
		}
		sink.open()
		mustClose(t, w)
		if d := cmp.Diff([]string{"first\n", "later\nlater\nlater\n"}, sink.seen()); d != "" {
			t.Errorf("writes (-want +got)\n%s", d)
		}
	})
}

// Writes hold whole lines, and 32 KiB of them unless one is longer.
func TestWriterCutsBetweenLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newGate()
		w := ndjson.NewWriter(sink, 1000)
		mustFrame(t, w, "first")
		synctest.Wait()
		ten, hundred := strings.Repeat("a", 10<<10), strings.Repeat("b", 100<<10)
		for range 4 {
			mustFrame(t, w, ten)
		}
		mustFrame(t, w, hundred)
		mustFrame(t, w, "last")
		sink.open()
		mustClose(t, w)
		want := []string{"first\n", strings.Repeat(ten+"\n", 3), ten + "\n", hundred + "\n", "last\n"}
		if d := cmp.Diff(want, sink.seen()); d != "" {
			t.Errorf("writes (-want +got)\n%s", d)
		}
	})
}

func TestWriterRefusesWhatIsNoLine(t *testing.T) {
	var sink bytes.Buffer
	w := ndjson.NewWriter(&sink, 10)
	for _, frame := range []string{"", "\n", "a\n", "a\nb"} {
		if err := w.Frame(t.Context(), []byte(frame)); !errors.Is(err, ndjson.ErrFrame) {
			t.Errorf("frame %q: %v, want ErrFrame", frame, err)
		}
	}
	mustFrame(t, w, "a\r\u2028b") // only a line feed ends a line
	mustClose(t, w)
	if got, want := sink.String(), "a\r\u2028b\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestWriterBoundsTheQueue(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames int
		size   int
		fit    int
	}{
		{"frames", 5, 100, 5},
		{"one frame", 1, 100, 1},
		{"no frame asked for is one", 0, 100, 1},
		{"bytes", 1000, 1<<20 - 1, 4},
		{"bytes, one too many", 1000, 1 << 20, 3},
		{"a frame larger than the bound", 1000, 5 << 20, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := newGate()
				w := ndjson.NewWriter(sink, c.frames)
				frame := bytes.Repeat([]byte{'x'}, c.size)
				for i := range c.fit {
					synctest.Wait() // also what is being written counts
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					// Without a wait the context does not matter.
					if err := w.Frame(ctx, frame); err != nil {
						t.Fatalf("frame %d: %v", i, err)
					}
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := w.Frame(ctx, frame); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("one frame more: %v, want the deadline", err)
				}
				if waited := time.Since(start); waited != time.Minute {
					t.Errorf("waited %v, want the minute of the context", waited)
				}
				sink.open()
				mustClose(t, w)
				if got, want := len(strings.Join(sink.seen(), "")), c.fit*(c.size+1); got != want {
					t.Errorf("wrote %d bytes, want %d: refused frames must not appear", got, want)
				}
			})
		})
	}
}

// A large frame is not passed by small ones that come later, and when its
// producer gives up, they are let in.
func TestWriterServesWaitersInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel bool
		want   string
	}{
		{"served", false, "big small"},
		{"gives up", true, "small"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := newGate()
				w := ndjson.NewWriter(sink, 1000)
				half := strings.Repeat("h", 3<<20)
				mustFrame(t, w, half)
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					err := w.Frame(ctx, []byte(strings.Repeat("b", 2<<20)))
					if c.cancel != errors.Is(err, context.Canceled) || !c.cancel && err != nil {
						t.Errorf("large frame: %v", err)
					}
				})
				synctest.Wait()
				small := false
				wg.Go(func() {
					if err := w.Frame(t.Context(), []byte("small")); err != nil {
						t.Errorf("small frame: %v", err)
					}
					small = true
				})
				synctest.Wait()
				if small {
					t.Error("the small frame passed the large one")
				}
				if c.cancel {
					cancel()
					synctest.Wait()
					if !small {
						t.Error("the small frame still waits, though it fits")
					}
				}
				sink.open()
				wg.Wait()
				mustClose(t, w)
				var order []string
				for line := range strings.Lines(strings.Join(sink.seen(), "")) {
					switch line[0] {
					case 'b':
						order = append(order, "big")
					case 's':
						order = append(order, "small")
					}
				}
				if got := strings.Join(order, " "); got != c.want {
					t.Errorf("order %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestWriterFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newGate()
		w := ndjson.NewWriter(sink, 1000)
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("flush of nothing: %v", err)
		}
		mustFrame(t, w, "one")
		synctest.Wait()
		mustFrame(t, w, "two")
		var wg sync.WaitGroup
		var flushed bool
		wg.Go(func() {
			if err := w.Flush(t.Context()); err != nil {
				t.Errorf("flush: %v", err)
			}
			flushed = true
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush of a stalled stream: %v, want the deadline", err)
		}
		sink.tokens <- struct{}{} // "one" goes out
		synctest.Wait()
		if flushed {
			t.Error("flush returned with a frame unwritten")
		}
		mustFrame(t, w, "three") // queued behind the flush, which does not wait for it
		sink.tokens <- struct{}{}
		synctest.Wait()
		if !flushed {
			t.Error("flush still waits, though what was queued before it is written")
		}
		wg.Wait()
		sink.open()
		mustClose(t, w)
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("flush after close: %v", err)
		}
		if d := cmp.Diff([]string{"one\n", "two\n", "three\n"}, sink.seen()); d != "" {
			t.Errorf("writes (-want +got)\n%s", d)
		}
	})
}

func TestWriterCloseLeavesAStuckWriteBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newGate()
		w := ndjson.NewWriter(sink, 2)
		mustFrame(t, w, "one")
		synctest.Wait()
		mustFrame(t, w, "two")
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.Frame(t.Context(), []byte("three")); !errors.Is(err, ndjson.ErrClosed) {
				t.Errorf("frame that waits during close: %v, want ErrClosed", err)
			}
		})
		wg.Go(func() {
			if err := w.Flush(t.Context()); !errors.Is(err, ndjson.ErrClosed) {
				t.Errorf("flush of what was given up: %v, want ErrClosed", err)
			}
		})
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v, want the deadline", err)
		}
		if waited := time.Since(start); waited != 2*time.Second {
			t.Errorf("close took %v, want its 2s", waited)
		}
		if err := w.Frame(t.Context(), []byte("four")); !errors.Is(err, ndjson.ErrClosed) {
			t.Errorf("frame after close: %v, want ErrClosed", err)
		}
		sink.open() // the peer reads again: the goroutine ends, writing nothing more
		wg.Wait()
		if err := w.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second close: %v, want the first one's error, as frames were lost", err)
		}
		if d := cmp.Diff([]string{"one\n"}, sink.seen()); d != "" {
			t.Errorf("writes (-want +got)\n%s", d)
		}
		select {
		case <-w.Failed():
			t.Error("failed is closed without a write error")
		default:
		}
	})
}

func TestWriterCloseWritesWhatIsQueued(t *testing.T) {
	var sink bytes.Buffer
	w := ndjson.NewWriter(&sink, 10_000)
	var want strings.Builder
	for i := range 5000 {
		mustFrame(t, w, fmt.Sprint("frame ", i))
		fmt.Fprintln(&want, "frame", i)
	}
	mustClose(t, w)
	if sink.String() != want.String() {
		t.Error("what was queued before close was not written whole")
	}
	mustClose(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("close of a closed writer with a context that is done: %v", err)
	}
	if err := w.Frame(t.Context(), []byte("x")); !errors.Is(err, ndjson.ErrClosed) {
		t.Errorf("frame after close: %v, want ErrClosed", err)
	}
}

func TestWriterBrokenPipe(t *testing.T) {
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	w := ndjson.NewWriter(pipe, 2)
	// The pipe is filled, so that producers wait when it breaks.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if err := w.Frame(t.Context(), bytes.Repeat([]byte{'x'}, 40<<10)); err != nil {
					if !errors.Is(err, syscall.EPIPE) {
						t.Errorf("frame: %v, want EPIPE", err)
					}
					return
				}
			}
		})
	}
	wg.Go(func() {
		<-w.Failed()
		if err := w.Err(); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("err: %v, want EPIPE", err)
		}
	})
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Err(); err != nil {
		t.Errorf("err while all is well: %v", err)
	}
	r.Close()
	wg.Wait()
	for name, err := range map[string]error{
		"frame": w.Frame(t.Context(), []byte("x")),
		"flush": w.Flush(t.Context()),
		"close": w.Close(t.Context()),
	} {
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s after the failure: %v, want EPIPE", name, err)
		}
	}
	if err := w.Frame(t.Context(), []byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("frame after close of a failed writer: %v, want EPIPE", err)
	}
}

// short takes at most n bytes of a write.
type short struct {
	bytes.Buffer
	n int
}

func (s *short) Write(p []byte) (int, error) { return s.Buffer.Write(p[:min(s.n, len(p))]) }

func TestWriterGoesOnAfterShortWrites(t *testing.T) {
	sink := &short{n: 3}
	w := ndjson.NewWriter(sink, 10)
	mustFrame(t, w, "0123456789")
	mustFrame(t, w, "abc")
	mustClose(t, w)
	if got, want := sink.String(), "0123456789\nabc\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestWriterFailsWithoutProgress(t *testing.T) {
	w := ndjson.NewWriter(&short{n: 0}, 10)
	mustFrame(t, w, "x")
	if err := w.Close(t.Context()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("close: %v, want io.ErrShortWrite", err)
	}
}

// What one side frames the other reads.
func TestRoundTrip(t *testing.T) {
	pr, pw := io.Pipe()
	w := ndjson.NewWriter(pw, 4)
	want := []got{{"{}", false}, {strings.Repeat("x", 300<<10), false}, {`{"a":"é"}`, false}}
	go func() {
		for _, f := range want {
			if err := w.Frame(context.Background(), []byte(f.Line)); err != nil {
				t.Errorf("frame: %v", err)
			}
		}
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		pw.Close()
	}()
	all, err := readAll(ndjson.NewReader(iotest.HalfReader(pr), 0))
	if err != io.EOF {
		t.Errorf("ended with %v", err)
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
