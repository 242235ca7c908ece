package headless_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/kerneltest"
	"dsh/kernel/session"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/headless"
	"dsh/plugins/llmscripted"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/tooltodo"
	"dsh/sdkproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const script = `
rules:
  - when: {text: plain}
    reply:
      - {chunks: [one, " two"]}
      - usage: {inputTokens: 3, outputTokens: 2, cacheReadTokens: 1}
  - when: {text: tools, step: 1}
    reply:
      - reasoning: not for standard output
      - text: I will write it down.
      - call: {tool: todo_write, args: {todos: [{content: "a\tb", status: pending}]}}
      - call: {tool: todo_write, args: {todos: 7}}
      - usage: {inputTokens: 10, outputTokens: 1}
  - when: {text: tools, step: 2}
    reply:
      - {text: "Done.\n"}
      - usage: {inputTokens: 20, outputTokens: 2}
  - when: {text: broken}
    reply:
      - {text: So far}
      - error: {code: AUTH, status: 401, message: the key is not valid}
  - when: {text: limit}
    reply:
      - {text: Cut}
      - finish: max-tokens
  - when: {text: hang}
    reply:
      - {text: first}
      - delay: 10m
  - when: {text: count}
    reply: "turn {{turn}}"
  - when: {text: many}
    reply:
      - {chunks: ["0123456789"], repeat: 20000}
`

// rows are what a front end stands on.
const rows = `
plugins:
  core: {use: core}
  store: {use: session-jsonl}
  model: {use: llm-scripted}
  loop: {use: agentloop}
  todo: {use: tool-todo}
`

func boot(t *testing.T, home, more string, sets ...string) *kerneltest.Booted {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return kerneltest.Boot(t, kerneltest.Options{
		Home: home, Text: rows + more,
		Sets:    append(sets, "model.script="+file),
		Plugins: []kernel.Plugin{core.Plugin, sessionjsonl.Plugin, llmscripted.Plugin, agentloop.Plugin, tooltodo.Plugin, headless.Plugin},
	})
}

// page is an output that can be read while it is written.
type page struct{ kerneltest.Log }

func (p *page) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(p.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q did not come; there is %q", text, p.String())
		}
	}
}

// trial is a run composed by hand on a real registry.
type trial struct {
	*kerneltest.Booted
	out, err page
}

func config(change func(*headless.Config)) headless.Config {
	c := *headless.Plugin.Defaults().(*headless.Config)
	c.Provider = "scripted"
	if change != nil {
		change(&c)
	}
	return c
}

func (tr *trial) begin(t *testing.T, c headless.Config, in io.Reader, out io.Writer) {
	t.Helper()
	commands, ok := kernel.Seam[*command.Registry](tr.Kernel)
	if !ok {
		t.Fatal("no commands")
	}
	agents, ok := kernel.Seam[agent.Registry](tr.Kernel)
	if !ok {
		t.Fatal("no registry")
	}
	owner := kernel.NewOwner(context.Background(), "headless")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	run := headless.New(headless.Options{
		Agents: agents, Commands: commands, Owner: owner, Root: tr.Kernel.Root(), Ready: tr.Kernel.Ready(),
		In: in, Out: out, Err: &tr.err, Config: c,
	})
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
}

func attempt(t *testing.T, home, prompt string, change func(*headless.Config)) (tr *trial, code int) {
	t.Helper()
	tr = &trial{Booted: boot(t, home, "")}
	tr.begin(t, config(change), strings.NewReader(prompt), &tr.out)
	return tr, tr.WaitExit(t)
}

func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt, out string
		err         []string // each once, in order
		code        int
	}{
		"an answer":      {"plain\n", "one two\n", nil, 0},
		"calls":          {"tools", "I will write it down.\n\nDone.\n", []string{`* todo_write {"todos":[{"content":"a\tb"`, `* todo_write {"todos":7}`, "! todo_write: "}, 0},
		"a failure":      {"broken", "So far\n", []string{"dsh: the turn failed: the key is not valid (AUTH)\n"}, 1},
		"a limit":        {"limit", "Cut\n", []string{"dsh: the turn ended early: max-tokens\n"}, 1},
		"no prompt":      {" \n\r\n", "", []string{"dsh: the prompt is empty"}, 2},
		"a long prompt":  {strings.Repeat("x", 1001), "", []string{"more than 1000 bytes"}, 1},
		"no end of line": {"plain", "one two\n", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tr, code := attempt(t, "", tc.prompt, func(c *headless.Config) { c.MaxPrompt = 1000 })
			if code != tc.code || tr.out.String() != tc.out {
				t.Errorf("got code %d and %q, want %d and %q; standard error: %s", code, tr.out.String(), tc.code, tc.out, tr.err.String())
			}
			rest := tr.err.String()
			for _, want := range tc.err {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("%q is not in %q", want, tr.err.String())
				}
				rest = after
			}
			if len(tc.err) == 0 && rest != "" {
				t.Errorf("standard error: %s", rest)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt string
		want   headless.Outcome
		code   int
	}{
		"an answer": {"plain", headless.Outcome{
			Result: "one two", FinishReason: "completed", Usage: sdkproto.Usage{InputTokens: 3, OutputTokens: 2, CacheReadTokens: 1},
		}, 0},
		"the last answer and the sum": {"tools", headless.Outcome{
			Result: "Done.\n", FinishReason: "completed", Usage: sdkproto.Usage{InputTokens: 30, OutputTokens: 3},
		}, 0},
		"a failure": {"broken", headless.Outcome{
			FinishReason: "error", Error: &sdkproto.Failure{Code: "AUTH", Status: 401, Message: "the key is not valid"},
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tr, code := attempt(t, "", tc.prompt, func(c *headless.Config) { c.Output, c.Session = headless.OutputJSON, "s" })
			var got headless.Outcome
			if err := json.Unmarshal([]byte(tr.out.String()), &got); err != nil || strings.Count(tr.out.String(), "\n") != 1 {
				t.Fatalf("%v: %s", err, tr.out.String())
			}
			if got.DurationMs < 0 {
				t.Errorf("took %d ms", got.DurationMs)
			}
			got.DurationMs = 0
			tc.want.SessionID = "s"
			if tc.want.FinishReason == "error" {
				// How much of an answer that failed counts is the loop's matter.
				got.Result, got.Usage = "", sdkproto.Usage{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || code != tc.code {
				t.Errorf("code %d (-want +got):\n%s", code, diff)
			}
		})
	}
}

func stored(t *testing.T, home, id string) (lines []string, last string) {
	t.Helper()
	store := sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), filepath.Join(home, "spill"), nil)
	if err := store.Read(context.Background(), id, 0, func(r *session.Record) error {
		lines, last = append(lines, string(r.Raw)), r.Event.Type
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines, last
}

// Output events is the log: everything, once, in order, when it resumes, too.
func TestEvents(t *testing.T) {
	home := t.TempDir()
	var all []string
	for _, prompt := range []string{"tools", "many"} {
		tr, code := attempt(t, home, prompt, func(c *headless.Config) { c.Output, c.Session = headless.OutputEvents, "s" })
		if code != 0 {
			t.Fatalf("code %d: %s", code, tr.err.String())
		}
		all = append(all, strings.Split(strings.TrimSuffix(tr.out.String(), "\n"), "\n")...)
	}
	want, last := stored(t, home, "s")
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("(-stored +printed):\n%.2000s", diff)
	}
	if last != sdkproto.TypeTurnEnd || len(want) < 20_000 {
		t.Errorf("%d events, the last is %s", len(want), last)
	}
}

func TestSession(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	for _, tc := range []struct {
		change   func(*headless.Config)
		out, err string
		code     int
	}{
		{nil, "turn 1\n", "", 0},
		{nil, "turn 2\n", "", 0},
		{func(c *headless.Config) { c.CWD = other }, "", "--cwd", 1},
		{func(c *headless.Config) { c.Session, c.CWD = "other", other }, "turn 1\n", "", 0},
		{func(c *headless.Config) { c.Session = "" }, "turn 1\n", "", 0},
		{func(c *headless.Config) { c.CWD = filepath.Join(other, "missing") }, "", "missing", 1},
		{func(c *headless.Config) { c.Provider = "x" }, "", `"x"; registered providers: scripted; name another with --provider`, 1},
		{nil, "turn 3\n", "", 0},
	} {
		tr, code := attempt(t, home, "count", func(c *headless.Config) {
			c.Session = "s"
			if tc.change != nil {
				tc.change(c)
			}
		})
		if code != tc.code || tr.out.String() != tc.out || !strings.Contains(tr.err.String(), tc.err) {
			t.Errorf("got %d, %q, %q, want %d, %q, %q", code, tr.out.String(), tr.err.String(), tc.code, tc.out, tc.err)
		}
	}
}

// The end of the process cuts the turn short: its end is in the log and in the
// outcome before the process has come to rest.
func TestEndOfProcess(t *testing.T) {
	home := t.TempDir()
	tr := &trial{Booted: boot(t, home, "")}
	tr.begin(t, config(func(c *headless.Config) { c.Session = "s" }), strings.NewReader("hang"), &tr.out)
	tr.out.await(t, "first")
	if err := tr.Kernel.Root().Quiesce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := tr.err.String(); got != "dsh: the turn ended early: aborted\n" || tr.out.String() != "first\n" {
		t.Errorf("got %q and %q", tr.out.String(), got)
	}
	if code := tr.WaitExit(t); code != 1 {
		t.Errorf("code %d", code)
	}
	if _, last := stored(t, home, "s"); last != sdkproto.TypeTurnEnd {
		t.Errorf("the log ends with %s", last)
	}
}

// A prompt that does not end does not hold up the end of the process.
func TestEndWithoutPrompt(t *testing.T) {
	tr := &trial{Booted: boot(t, "", "")}
	in, writer := io.Pipe()
	defer writer.Close()
	tr.begin(t, config(func(c *headless.Config) { c.Output = headless.OutputJSON }), in, &tr.out)
	if err := tr.Kernel.Root().Quiesce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(tr.out.String(), `"finishReason":"aborted"`) || tr.WaitExit(t) != 1 {
		t.Errorf("got %s", tr.out.String())
	}
}

// A reader that takes its time, such as a pager, gets everything, however late.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := t.TempDir()
		tr := &trial{Booted: boot(t, home, "")}
		out, writer := io.Pipe()
		tr.begin(t, config(func(c *headless.Config) { c.Session = "s" }), strings.NewReader("many"), writer)
		go func() {
			<-tr.Kernel.Root().Exiting()
			writer.Close() // what is missing by now does not come
		}()
		got := make([]byte, 200_001)
		for i := range got {
			if i%50_000 == 0 || i == 199_000 { // at the second, the turn has ended
				time.Sleep(time.Minute)
			}
			if _, err := io.ReadFull(out, got[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Repeat("0123456789", 20_000) + "\n"; string(got) != want {
			t.Error("the text is not whole")
		}
		if code := tr.WaitExit(t); code != 0 {
			t.Errorf("code %d: %s", code, tr.err.String())
		}
	})
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

// With a broken output there is nobody to run for.
func TestBrokenOutput(t *testing.T) {
	for _, form := range []string{headless.OutputText, headless.OutputEvents} {
		home := t.TempDir()
		tr := &trial{Booted: boot(t, home, "")}
		tr.begin(t, config(func(c *headless.Config) { c.Output, c.Session = form, "s" }), strings.NewReader("hang"), brokenPipe{})
		if code := tr.WaitExit(t); code != 1 || !strings.Contains(tr.err.String(), "nobody reads") {
			t.Errorf("%s: code %d, %s", form, code, tr.err.String())
		}
		// With events it is the receipt that is not taken; the prompt may be dropped
		// before its turn begins.
		lines, last := stored(t, home, "s")
		dropped := form == headless.OutputEvents && strings.Contains(lines[len(lines)-1], `"outcome":"canceled"`)
		if last != sdkproto.TypeTurnEnd && !dropped {
			t.Errorf("%s: the log ends with %s", form, lines[len(lines)-1])
		}
	}
	tr := &trial{Booted: boot(t, "", "")}
	tr.begin(t, config(func(c *headless.Config) { c.Output = headless.OutputJSON }), strings.NewReader("plain"), brokenPipe{})
	if code := tr.WaitExit(t); code != 1 {
		t.Errorf("json: code %d", code)
	}
}

// The row does the same between the process's descriptors.
func TestRow(t *testing.T) {
	b := boot(t, "", "  headless: {use: headless}\n", "headless.provider=scripted", "headless.output=json")
	if _, err := b.In.WriteString("plain\n"); err != nil {
		t.Fatal(err)
	}
	if err := b.In.Close(); err != nil {
		t.Fatal(err)
	}
	if code := b.WaitExit(t); code != 0 {
		t.Errorf("code %d", code)
	}
	buf := make([]byte, 4096)
	n, err := b.Out.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), `"result":"one two"`) {
		t.Errorf("got %q, %v", buf[:n], err)
	}
}

func TestConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*headless.Config)
		want   string
	}{
		"output":    {func(c *headless.Config) { c.Output = "xml" }, `"xml" is no form of output; use text, json, events`},
		"provider":  {func(c *headless.Config) { c.Provider = "" }, "must not be empty"},
		"model":     {func(c *headless.Config) { c.Model = "" }, "must not be empty"},
		"session":   {func(c *headless.Config) { c.Session = strings.Repeat("x", 201) }, "200"},
		"maxTokens": {func(c *headless.Config) { c.MaxTokens = -1 }, "too small"},
		"maxPrompt": {func(c *headless.Config) { c.MaxPrompt = 0 }, "too small"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(tc.change)
			err := c.Validate()
			var at *kernel.FieldError
			if !errors.As(err, &at) || at.Pointer != "/"+name || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	c := config(nil)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
