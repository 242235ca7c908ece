package jsonrpc_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/toolfilter"
	"dsh/sdkproto"
)

// parrot answers with the last user text; "hang" streams a word and then waits.
type parrot struct{}

func (parrot) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return r, sdkproto.AdapterDefaults{}, llm.Info{}, nil
}

func (parrot) Stream(ctx context.Context, r llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		said := sdkproto.TextOf(r.Messages[len(r.Messages)-1].Content)
		block := sdkproto.Text(said)
		chunks := []sdkproto.Chunk{
			{Type: sdkproto.ChunkBlockStart, BlockType: sdkproto.BlockText},
			{Type: sdkproto.ChunkTextDelta, Text: said},
			{Type: sdkproto.ChunkBlockEnd, Block: &block},
			{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}},
		}
		for i, c := range chunks {
			if i == 2 && said == "hang" {
				<-ctx.Done()
				yield(sdkproto.Chunk{}, ctx.Err())
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

var parrotRow = kernel.Define("parrot", "Repeats.", func() struct{} { return struct{}{} },
	func(in kernel.Instance, _ struct{}) fx.Option {
		return fx.Invoke(func(r *llm.Router) error { return r.Register(in.Owner, "scripted", parrot{}) })
	}, kernel.Needs[*llm.Router]())

// composed is a server in a profile of real rows.
type composed struct {
	*peer
	kernel *kerneltest.Booted
}

// composition is a profile in which a server runs.
type composition struct {
	home, name string
	// rpc is the config of the server's row, rows are further ones.
	rpc, rows string
	plugins   []kernel.Plugin
	// model is the row of the model; the parrot by default.
	model string
}

func boot(t *testing.T, home string) *composed { return compose(t, composition{home: home}) }

func compose(t *testing.T, o composition) *composed {
	t.Helper()
	c := &composed{peer: &peer{t: t, lines: make(chan string, 1<<16), logs: &logs{}}}
	c.kernel = kerneltest.Boot(t, kerneltest.Options{
		Profile: cmp.Or(o.name, "t"), Home: o.home,
		FS: fstest.MapFS{cmp.Or(o.name, "t") + ".yaml": {Data: []byte(`
plugins:
  rpc: {use: jsonrpc, config: ` + cmp.Or(o.rpc, "{}") + `}
  core: {use: core}
  store: {use: session-jsonl}
  model: ` + cmp.Or(o.model, "{use: parrot}") + `
  loop: {use: agentloop, config: {verifyRequests: true}}
` + o.rows)}},
		Plugins: append([]kernel.Plugin{core.Plugin, sessionjsonl.Plugin, agentloop.Plugin, parrotRow, jsonrpc.Plugin, toolfilter.Plugin}, o.plugins...),
		Log:     slog.New(slog.NewTextHandler(c.logs, nil)),
	})
	go func() {
		defer close(c.lines)
		lines := bufio.NewScanner(c.kernel.Out)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			c.lines <- lines.Text()
		}
	}()
	return c
}

func (c *composed) tell(lines ...string) {
	c.t.Helper()
	if _, err := c.kernel.In.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *composed) start() {
	c.t.Helper()
	c.tell(initialize)
	if got := c.next(); got != initialized {
		c.t.Fatalf("initialize answered %s", got)
	}
}

// wired gives the events of a session among lines, as they came.
func wired(t *testing.T, lines []string, id string) []string {
	t.Helper()
	var raw []string
	for _, l := range lines {
		var f struct {
			Method string
			Params struct {
				SessionID string
				Event     json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(l), &f); err != nil {
			t.Fatalf("not a frame: %s", l)
		}
		if f.Method == sdkproto.NotifySessionEvent && f.Params.SessionID == id {
			raw = append(raw, string(f.Params.Event))
		}
	}
	return raw
}

// logged gives the events of a session as they are on the disk.
func logged(t *testing.T, home, id string) []string {
	t.Helper()
	store := sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), filepath.Join(home, "spill"), nil)
	var raw []string
	if err := store.Read(context.Background(), id, 0, func(r *session.Record) error {
		raw = append(raw, string(r.Raw))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return raw
}

// Spec jsonrpc 14 lines 5 and 15; S126, S127, S116: order on the wire, the same
// facts in the log, and a second process that goes on.
func TestComposedTurns(t *testing.T) {
	home := t.TempDir()
	c := boot(t, home)
	c.start()
	c.tell(prompt("1", "s", "hello"))
	lines := c.until(`"status":"idle"`)
	got := slices.DeleteFunc(kinds(t, lines), func(k string) bool { return k == "" })
	want := []string{
		"agent/inbox/spliced", "running", "turn/start", "agent/inbox/spliced", "step/start", "user/message", "session/title",
		"request/header", "request/context", "assistant/chunk", "assistant/chunk", "assistant/chunk", "assistant/chunk",
		"assistant/message", "step/end", "turn/end", "idle",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var receipt struct {
		Data struct{ Inserted []struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(wired(t, lines, "s")[0]), &receipt); err != nil {
		t.Fatal(err)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"messageId":%q}}`, receipt.Data.Inserted[0].ID)
	if !slices.Contains(lines, answer) {
		if a, _ := c.answer("1"); a != answer {
			t.Errorf("answered %s, want %s", a, answer)
		}
	}
	c.tell(shutdown)
	if _, before := c.answer(`"stop"`); len(before) > 0 {
		t.Errorf("before the answer: %q", before)
	}
	if code := c.kernel.WaitExit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	first := logged(t, home, "s")
	if diff := gocmp.Diff(first, wired(t, lines, "s")); diff != "" {
		t.Errorf("log and wire differ: %s", diff)
	}

	c = boot(t, home)
	c.start()
	c.tell(prompt("2", "s", "again"))
	lines = c.until(`"status":"idle"`)
	if !strings.Contains(strings.Join(lines, "\n"), `"data":{"turn":2}`) {
		t.Errorf("no second turn: %q", lines)
	}
	c.tell(shutdown)
	c.answer(`"stop"`)
	c.kernel.WaitExit(t)
	all := logged(t, home, "s")
	if diff := gocmp.Diff(first, all[:len(first)]); diff != "" {
		t.Errorf("the log was rewritten: %s", diff)
	}
	for i, raw := range all {
		if !strings.Contains(raw, fmt.Sprintf(`"seq":%d,`, i)) {
			t.Errorf("event %d is %s", i, raw)
		}
	}
}

// Cases B79, spec jsonrpc 14 lines 15 and 16: whatever ends the process in the
// middle of a turn, the turn's end is on the wire and in the log.
func TestComposedEnds(t *testing.T) {
	tests := []struct {
		name string
		end  func(*composed)
		// answered: shutdown is answered, as the last line.
		answered bool
		code     int
	}{
		{"shutdown", func(c *composed) { c.tell(shutdown) }, true, 0},
		{"end of input", func(c *composed) { c.kernel.In.Close() }, false, 0},
		{"shutdown and end of input", func(c *composed) { c.tell(shutdown); c.kernel.In.Close() }, true, 0},
		{"signal", func(c *composed) { c.kernel.Kernel.Root().Exit(130) }, false, 130},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			c := boot(t, home)
			c.start()
			c.tell(prompt("1", "s", "hang"), prompt("2", "s", "queued"), prompt("3", "other", "hang"))
			var lines []string
			// Both turns stream and all three prompts are answered.
			for seen := 0; seen < 5; {
				l := c.next()
				lines = append(lines, l)
				if strings.Contains(l, `"text-delta"`) || strings.Contains(l, `"messageId"`) {
					seen++
				}
			}
			tt.end(c)
			if code := c.kernel.WaitExit(t); code != tt.code {
				t.Errorf("exit %d, want %d", code, tt.code)
			}
			lines = append(lines, c.left()...)
			if got := lines[len(lines)-1]; (got == stopped) != tt.answered {
				t.Errorf("the last line is %s", got)
			}
			for _, id := range []string{"s", "other"} {
				log := logged(t, home, id)
				if diff := gocmp.Diff(log, wired(t, lines, id)); diff != "" {
					t.Errorf("session %s, log and wire differ: %s", id, diff)
				}
				if last := log[len(log)-1]; !strings.Contains(last, `"data":{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"disposed"}}}`) {
					t.Errorf("session %s ends with %s", id, last)
				}
				if n := strings.Count(strings.Join(lines, "\n"), `"params":{"sessionId":"`+id+`","status":"idle"}`); n != 1 {
					t.Errorf("session %s was idle %d times", id, n)
				}
			}
		})
	}
}

// left closes the server's end of the output and gives what is still to be
// read.
func (c *composed) left() (lines []string) {
	c.t.Helper()
	deadline := time.Now().Add(hang)
	if err := c.kernel.Out.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		c.t.Fatal(err)
	}
	for {
		select {
		case l, ok := <-c.lines:
			if !ok {
				return lines
			}
			lines = append(lines, l)
		case <-time.After(time.Until(deadline)):
			c.t.Fatal("the output does not end")
		}
	}
}

// Decision D22, S104: an unknown session id of another directory is an error of
// the prompt, and nothing is left on the disk.
func TestComposedRefusals(t *testing.T) {
	home := t.TempDir()
	c := boot(t, home)
	c.tell(`{"id":1,"method":"initialize","params":{"cwd":"/w","provider":"X","model":"m"}}`)
	if got, want := c.next(), failed("1", -32602, `"no adapter registered for provider \"X\"; registered providers: scripted"`); got != want {
		t.Errorf("got %s", got)
	}
	c.start()
	c.tell(prompt("2", strings.Repeat("x", 201), "hi"))
	if got, _ := c.answer("2"); !strings.Contains(got, `"error":{"code":-32602`) {
		t.Errorf("got %s", got)
	}
	c.tell(prompt("3", "s", "hi"))
	c.until(`"status":"idle"`)
	c.tell(strings.Replace(initialize, "/w", "/elsewhere", 1))
	c.answer(`"i"`)
	c.tell(shutdown)
	c.answer(`"stop"`)
	c.kernel.WaitExit(t)

	c = boot(t, home)
	c.tell(strings.Replace(initialize, "/w", "/elsewhere", 1), prompt("4", "s", "hi"))
	if got, _ := c.answer("4"); !strings.Contains(got, "belongs to another working directory") {
		t.Errorf("got %s", got)
	}
	c.tell(shutdown)
	c.answer(`"stop"`)
	c.kernel.WaitExit(t)
	files, err := os.ReadDir(filepath.Join(home, "sessions.d"))
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
}
