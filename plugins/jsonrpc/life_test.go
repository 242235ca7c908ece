package jsonrpc_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/agent"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

const shutdown = `{"jsonrpc":"2.0","id":"stop","method":"shutdown"}`

const stopped = `{"jsonrpc":"2.0","id":"stop","result":{}}`

// untilCancelled is a turn that ends only when it is cancelled.
func untilCancelled(r *fakeRegistry) {
	r.step = func(ctx context.Context, a *fakeAgent, _ sdkproto.Message) {
		a.chunk(ctx, "partial")
		<-ctx.Done()
	}
}

// Spec jsonrpc 14 line 1, 3.1; S119.
func TestInitializeWaitsForReadyAlone(t *testing.T) {
	p := serve(t, setup{ready: true})
	release := p.ready.Hold("slow")
	p.send(initialize, prompt("1", "s", "x"), probe)
	if got := p.next(); got != probed {
		t.Fatalf("got %s", got)
	}
	release()
	if _, before := p.answer("1"); !slices.Contains(before, initialized) {
		t.Errorf("initialize was not answered before the prompt behind it: %q", before)
	}
}

// Of several that wait, the last one sent holds for the prompts behind it.
func TestConcurrentInitialize(t *testing.T) {
	p := serve(t, setup{ready: true})
	release := p.ready.Hold("slow")
	p.send(initialize, prompt("1", "one", "x"), strings.NewReplacer(`"m"`, `"n"`, `"i"`, `"j"`).Replace(initialize), prompt("2", "two", "x"))
	release()
	open := map[string]bool{`"id":1,"result"`: true, `"id":2,"result"`: true, `"id":"i","result"`: true, `"id":"j","result"`: true}
	for len(open) > 0 {
		l := p.next()
		for id := range open {
			if strings.Contains(l, id) {
				delete(open, id)
			}
		}
	}
	got := map[string]string{}
	for _, s := range p.agents.opened() {
		got[s.ID] = s.Route.Model
	}
	if diff := cmp.Diff(map[string]string{"one": "m", "two": "n"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestInitializeFailsWithARequiredTask(t *testing.T) {
	p := serve(t, setup{ready: true})
	p.ready.Go("mcp", true, func(context.Context) error { return fmt.Errorf("no such command") })
	p.send(initialize)
	if got, want := p.next(), failed(`"i"`, -32603, `"load task mcp: no such command"`); got != want {
		t.Errorf("got %s", got)
	}
}

// Spec jsonrpc 14 line 6.
func TestThreePromptsInOneWrite(t *testing.T) {
	release := make(chan struct{})
	p := serve(t, setup{}, func(r *fakeRegistry) {
		r.step = func(ctx context.Context, _ *fakeAgent, _ sdkproto.Message) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
	})
	p.begin()
	p.send(prompt("1", "s", "a"), prompt("2", "s", "b"), prompt("3", "s", "c"))
	_, lines := p.answer("3")
	close(release)
	lines = append(lines, p.until(`"status":"idle"`)...)
	var statuses, receipts []string
	turns := 0
	for _, l := range lines {
		switch {
		case strings.Contains(l, `"session.status"`):
			statuses = append(statuses, l[strings.Index(l, `"status":`):])
		case strings.Contains(l, `"turn/end"`):
			turns++
		case strings.Contains(l, `"text":"`):
			at := strings.Index(l, `"text":"`)
			receipts = append(receipts, l[at+8:at+9])
		}
	}
	if diff := cmp.Diff([]string{`"status":"running"}}`, `"status":"idle"}}`}, statuses); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, receipts); diff != "" {
		t.Error(diff)
	}
	if turns != 3 {
		t.Errorf("%d turns", turns)
	}
}

// S105: racing first prompts on one id give one agent, and keep their order.
func TestFiftyPromptsForOneID(t *testing.T) {
	p := serve(t, setup{}, func(r *fakeRegistry) {
		r.opening = func(context.Context, agent.Spec) error { time.Sleep(5 * time.Millisecond); return nil }
	})
	p.begin()
	var want []string
	lines := make([]string, 50)
	for i := range lines {
		lines[i] = prompt(fmt.Sprint(i), "s", "x")
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"messageId":"s-m%d"}}`, i, i+1))
	}
	p.send(lines...)
	var got []string
	for len(got) < 50 {
		if l := p.next(); strings.Contains(l, `"result"`) {
			got = append(got, l)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(p.agents.opened()); n != 1 {
		t.Errorf("%d agents", n)
	}
}

// Case B95: a session that cannot be opened yet holds up no other, and no other
// request.
func TestStuckSessionHoldsUpNobody(t *testing.T) {
	hold := make(chan struct{})
	r := &slowRegistry{id: "stuck", hold: hold}
	p := serve(t, setup{agents: func(p *peer) agent.Registry {
		r.fakeRegistry = &fakeRegistry{owner: p.owner.Child("agents"), agents: map[string]*fakeAgent{}}
		return r
	}})
	p.begin()
	p.send(prompt("1", "stuck", "x"), prompt("2", "s", "x"), probe)
	lines := p.until(`"status":"idle"`)
	all := strings.Join(lines, "\n")
	if strings.Contains(all, `"id":1,`) || !strings.Contains(all, `"sessionId":"s"`) {
		t.Errorf("got %s", all)
	}
	close(hold)
	p.answer("1")
}

// slowRegistry opens one session only when it is told to.
type slowRegistry struct {
	*fakeRegistry
	id   string
	hold chan struct{}
}

func (r *slowRegistry) Open(ctx context.Context, spec agent.Spec, mode agent.Mode) (agent.Agent, error) {
	if spec.ID == r.id {
		<-r.hold
	}
	return r.fakeRegistry.Open(ctx, spec, mode)
}

// Spec jsonrpc 2.3, 14 line 15; case B79.
func TestShutdown(t *testing.T) {
	t.Parallel()
	t.Run("before initialize", func(t *testing.T) {
		p := serve(t, setup{ready: true})
		defer p.ready.Hold("slow")()
		p.send(shutdown)
		if got := p.next(); got != stopped {
			t.Errorf("got %s", got)
		}
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("while initialize waits", func(t *testing.T) {
		p := serve(t, setup{ready: true})
		defer p.ready.Hold("slow")()
		p.send(initialize, prompt("1", "s", "x"), shutdown)
		_, before := p.answer(`"stop"`)
		code, rest := p.ended()
		all := strings.Join(append(before, rest...), "\n")
		for _, id := range []string{`"i"`, "1"} {
			if !strings.Contains(all, failed(id, -32603, `"SDK server is shutting down"`)) {
				t.Errorf("%s was not refused: %s", id, all)
			}
		}
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("no params, idle", func(t *testing.T) {
		p := serve(t, setup{})
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until(`"status":"idle"`)
		p.send(shutdown)
		p.answer(`"stop"`)
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("in the middle of a turn", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.send(shutdown)
		_, before := p.answer(`"stop"`)
		want := []string{"turn/end", "idle"}
		if diff := cmp.Diff(want, kinds(t, before)); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(strings.Join(before, ""), `"reason":{"kind":"aborted","reason":{"kind":"disposed"}}`) {
			t.Errorf("got %q", before)
		}
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("twice at once, and a prompt behind", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.send(shutdown, strings.Replace(shutdown, `"stop"`, "2", 1), prompt("3", "s", "late"), prompt("4", "new", "late"), initialize)
		code, lines := p.ended()
		if code != 0 {
			t.Errorf("exit %d", code)
		}
		refused := `"SDK server is shutting down"`
		for _, want := range []string{stopped, strings.Replace(stopped, `"stop"`, "2", 1), failed("3", -32603, refused), failed("4", -32603, refused), failed(`"i"`, -32603, refused)} {
			n := 0
			for _, l := range lines {
				if l == want {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d times %s in\n%s", n, want, strings.Join(lines, "\n"))
			}
		}
		closed := false
		for _, l := range lines {
			if l == stopped {
				closed = true
			}
			if closed && strings.Contains(l, `"method"`) {
				t.Errorf("behind the answer: %s", l)
			}
		}
		if n := len(p.agents.opened()); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
	t.Run("a session that does not come to rest", func(t *testing.T) {
		stuck := make(chan struct{})
		p := serve(t, setup{}, func(r *fakeRegistry) {
			r.step = func(ctx context.Context, a *fakeAgent, _ sdkproto.Message) { a.chunk(ctx, "partial"); <-stuck }
		})
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.send(shutdown)
		p.answer(`"stop"`)
		close(stuck)
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("an open that hangs", func(t *testing.T) {
		hold := make(chan struct{})
		r := &slowRegistry{id: "s", hold: hold}
		p := serve(t, setup{agents: func(p *peer) agent.Registry {
			r.fakeRegistry = &fakeRegistry{owner: p.owner.Child("agents"), agents: map[string]*fakeAgent{}}
			return r
		}})
		defer close(hold)
		p.begin()
		p.send(prompt("1", "s", "x"), shutdown)
		p.answer(`"stop"`)
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// Decision R11, R29; spec jsonrpc 14 line 16.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	t.Run("before initialize", func(t *testing.T) {
		p := serve(t, setup{ready: true})
		defer p.ready.Hold("boot")()
		p.in.Close()
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, wrote %q", code, rest)
		}
	})
	t.Run("accepted requests are answered", func(t *testing.T) {
		p := serve(t, setup{ready: true})
		release := p.ready.Hold("boot")
		p.send(initialize, prompt("1", "s", "x"))
		p.in.Close()
		time.AfterFunc(20*time.Millisecond, release)
		p.answer(`"i"`)
		if got, _ := p.answer("1"); got != `{"jsonrpc":"2.0","id":1,"result":{"messageId":"s-m1"}}` {
			t.Errorf("got %s", got)
		}
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("while initialize waits for good", func(t *testing.T) {
		p := serve(t, setup{ready: true})
		defer p.ready.Hold("boot")()
		p.send(initialize)
		p.in.Close()
		if got, want := p.next(), failed(`"i"`, -32603, `"SDK server is shutting down"`); got != want {
			t.Errorf("got %s", got)
		}
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("in the middle of a turn", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.in.Close()
		lines := p.until(`"status":"idle"`)
		if diff := cmp.Diff([]string{"turn/end", "idle"}, kinds(t, lines)); diff != "" {
			t.Error(diff)
		}
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("behind shutdown in one write", func(t *testing.T) {
		p := serve(t, setup{})
		p.begin()
		p.send(shutdown)
		p.in.Close()
		if got := p.next(); got != stopped {
			t.Errorf("got %s", got)
		}
		if code, rest := p.ended(); code != 0 || len(rest) > 0 {
			t.Errorf("exit %d, then %q", code, rest)
		}
	})
	t.Run("a read error counts as the end", func(t *testing.T) {
		p := serve(t, setup{})
		p.begin()
		p.in.CloseWithError(io.ErrUnexpectedEOF)
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// What a signal does: the kernel brings the root to rest and ends the process.
func TestQuiesceFromOutside(t *testing.T) {
	p := serve(t, setup{ready: true}, untilCancelled)
	release := p.ready.Hold("boot")
	release()
	p.begin()
	p.send(prompt("1", "s", "x"))
	p.until("partial")
	defer p.ready.Hold("reload")()
	p.send(strings.Replace(initialize, `"i"`, "9", 1))
	p.send(probe)
	p.answer(`"probe"`)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := p.root.Quiesce(ctx); err != nil {
		t.Fatal(err)
	}
	lines := p.until(`"status":"idle"`)
	if diff := cmp.Diff([]string{"turn/end", "idle"}, kinds(t, lines)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(lines, "\n"), failed("9", -32603, `"SDK server is shutting down"`)) {
		if got, _ := p.answer("9"); got != failed("9", -32603, `"SDK server is shutting down"`) {
			t.Errorf("got %s", got)
		}
	}
	p.send(prompt("2", "s", "late"))
	if got, _ := p.answer("2"); got != failed("2", -32603, `"SDK server is shutting down"`) {
		t.Errorf("got %s", got)
	}
	// The end of input now must not overtake the signal's exit code.
	p.root.Exit(130)
	p.in.Close()
	time.Sleep(20 * time.Millisecond)
	select {
	case code := <-p.exit:
		t.Errorf("exit %d besides that of the signal", code)
	default:
	}
}

// Decision R12.
func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	t.Run("while the client still writes", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.out.Close()
		p.send(probe)
		if code, _ := p.ended(); code != 1 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("behind the end of input", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.in.Close()
		p.out.Close()
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("behind shutdown", func(t *testing.T) {
		p := serve(t, setup{}, untilCancelled)
		p.begin()
		p.send(prompt("1", "s", "x"))
		p.until("partial")
		p.send(shutdown)
		p.out.Close()
		if code, _ := p.ended(); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
}

// Spec jsonrpc 14 line 19.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	sent := 0
	p := serve(t, setup{deaf: true}, func(r *fakeRegistry) {
		r.step = func(ctx context.Context, a *fakeAgent, _ sdkproto.Message) {
			for a.chunk(ctx, strings.Repeat("x", 4<<10)) {
				mu.Lock()
				sent++
				mu.Unlock()
			}
		}
	})
	p.send(initialize, prompt("1", "s", "x"))
	// The turn streams until it is held up.
	count := func() int { mu.Lock(); defer mu.Unlock(); return sent }
	for last, same := -1, 0; same < 10; time.Sleep(10 * time.Millisecond) {
		if n := count(); n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
	}
	// 4 MiB or 1,024 frames in the writer, as many entries before it.
	if n := count(); n > 4096 {
		t.Errorf("%d chunks were taken from the model for a client that does not read", n)
	}
	// Reading goes on, and so does what needs no output.
	for i := range 200 {
		p.send(prompt(fmt.Sprint(100+i), fmt.Sprintf("other-%d", i), "x"))
	}
	p.send(shutdown)
	if code, _ := p.ended(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// The requests of a client that never reads are bounded too: then it is not
// read from any longer.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	p := serve(t, setup{deaf: true, limits: jsonrpc.Limits{MaxEntries: 1, MaxRequests: 50}})
	done := make(chan int)
	go func() {
		n := 0
		for ; n < 10_000; n++ {
			if _, err := io.WriteString(p.in, probe+"\n"); err != nil {
				break
			}
		}
		done <- n
	}()
	select {
	case n := <-done:
		t.Errorf("%d requests were read", n)
	case <-time.After(200 * time.Millisecond):
	}
	// The client goes away.
	p.out.Close()
	if code, _ := p.ended(); code != 1 {
		t.Errorf("exit %d", code)
	}
	p.in.Close()
	<-done
}

// S118.
func TestUnload(t *testing.T) {
	p := serve(t, setup{}, untilCancelled)
	p.begin()
	p.send(prompt("1", "s", "x"))
	lines := p.until("partial")
	if !strings.Contains(strings.Join(lines, ""), `"id":1,"result"`) {
		p.answer("1")
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := p.row.Close(ctx); err != nil {
		t.Fatal(err)
	}
	p.send(probe)
	a, ok := p.agents.Get("s")
	if !ok || a.Status() != sdkproto.StatusRunning {
		t.Error("the session did not go on")
	}
	// The log holds up nobody for a server that is gone.
	for range 5000 {
		if !a.(*fakeAgent).chunk(ctx, "y") {
			t.Fatal("no room")
		}
	}
	p.in.Close()
	time.Sleep(20 * time.Millisecond)
	select {
	case code := <-p.exit:
		t.Errorf("exit %d", code)
	case l := <-p.lines:
		t.Errorf("wrote %s", l)
	default:
	}
	if p.root.Context().Err() != nil {
		t.Error("the process ended")
	}
}

// Spec jsonrpc 1.1: a line longer than allowed is answered, where its id can be
// known, and the next one is served.
func TestTooLongLine(t *testing.T) {
	p := serve(t, setup{limits: jsonrpc.Limits{MaxLine: 4096}})
	p.begin()
	p.send(
		prompt("7", "s", strings.Repeat("x", 5000)),
		`{"params":{"id":8,"x":"`+strings.Repeat("x", 5000)+`"},"id":9,"method":"m"}`,
		`{"a":[{"id":1}, "}"],"id":"ten","method":"m","params":"`+strings.Repeat("x", 5000)+`"}`,
		probe,
	)
	message := `"request line is longer than 4096 bytes; send less in one request"`
	for _, want := range []string{failed("7", -32603, message), failed(`"ten"`, -32603, message), probed} {
		if got := p.next(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// More requests in one write than may wait at the same time: those that are
// taken must not wait for those that are not.
func TestMoreInOneWriteThanIsTaken(t *testing.T) {
	p := serve(t, setup{limits: jsonrpc.Limits{MaxRequests: 2}})
	p.begin()
	var lines []string
	for i := range 20 {
		lines = append(lines, prompt(fmt.Sprint(i), "s", "x"))
	}
	p.send(lines...)
	for i := range 20 {
		if a, _ := p.answer(fmt.Sprint(i)); !strings.Contains(a, `"messageId"`) {
			t.Errorf("got %s", a)
		}
	}
}
