package external

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// A hook sees each call before it is judged, may refuse it or change its
// arguments, and sees each result before the model does.
func TestToolHooks(t *testing.T) {
	b := up(t, "good", "")
	for _, tc := range []struct{ name, arguments, want, code string }{
		{"passes", `{"what":"greet","text":"you"}`, "Hello you", ""},
		{"refused", `{"what":"echo","text":"forbidden"}`, "Error: The plugin it refused the call: that is forbidden", "DENIED_BY_PLUGIN"},
		{"rewritten", `{"what":"greet","text":"rewrite"}`, "rewritten", ""},
		{"withheld", `{"what":"echo","text":"withheld"}`, "Error: The call has run; the plugin it withheld its result: it is private", "DENIED_BY_PLUGIN"},
		{"replaced", `{"what":"echo","text":"masked"}`, "***", ""},
		// The row is not required: what a hook cannot judge passes, and is logged.
		{"hook fails", `{"what":"echo","text":"hook fails"}`, "hook fails", ""},
		{"bad arguments", `{"what":"echo","text":"bad arguments"}`, "bad arguments", ""},
		{"review fails", `{"what":"echo","text":"review fails"}`, "review fails", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := b.call(t.Context(), "do", tc.arguments, nil)
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if text(r) != tc.want || code != tc.code {
				t.Errorf("got %q, %q; want %q, %q", text(r), code, tc.want, tc.code)
			}
		})
	}
	wantAll(t, b.log.String(), `msg="a hook failed; the call goes on without it" row=it tool=do error="the plugin it: cannot judge"`,
		`gave arguments that the tool does not take: `, `msg="a hook failed; the result goes on without it"`)
}

// The hooks of a required row, and of one that says so, refuse what they cannot
// judge.
func TestToolHooksRefuse(t *testing.T) {
	for _, tc := range []struct {
		name, required, config string
		refuses                bool
	}{
		{"required", "true", "", true},
		{"required, passing", "true", "host: {hookFailure: pass}", false},
		{"not required", "false", "", false},
		{"not required, refusing", "false", "host: {hookFailure: refuse}", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := boot(t, fmt.Sprintf("  it: {use: %q, required: %s, config: {%s}}\n", executableNamed(t, "good"), tc.required, tc.config))
			if err := b.ready(t, "it"); err != nil {
				t.Fatal(err)
			}
			for _, say := range []string{"hook fails", "bad arguments", "review fails"} {
				r := b.do(t.Context(), "echo", say)
				if refused := r.Error != nil && r.Error.Code == "DENIED_BY_PLUGIN"; refused != tc.refuses {
					t.Errorf("%s: got %q", say, text(r))
				}
			}
			v, err := b.hooks.Admit(t.Context(), kernel.Now, promptOf("fail"))
			if v.Block != tc.refuses || tc.refuses == (err != nil) {
				t.Errorf("prompt: got %+v, %v", v, err)
			}
		})
	}
}

// Rules judge what a hook has made of a call, not what was there before.
func TestHookBeforeRules(t *testing.T) {
	b := up(t, "good", "")
	o := kernel.NewOwner(t.Context(), "test")
	defer func() {
		if err := o.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var seen string
	err := b.pipeline.Use(o, tool.OrderGate, "rules", func(ctx context.Context, tl tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		seen = string(in.Arguments)
		return next(ctx, tl, in)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(t.Context(), "greet", "rewrite")
	if want := `{"what":"echo","text":"rewritten"}`; seen != want {
		t.Errorf("the rules saw %s, want %s", seen, want)
	}
}

func promptOf(text string) agent.Prompt {
	return agent.Prompt{
		Opening: agent.Opening{SessionID: "s1", CWD: "/work", First: true, Route: llm.Route{Provider: "p", Model: "m"}},
		Message: llmtest.User(text),
	}
}

func TestPromptHook(t *testing.T) {
	b := up(t, "good", "")
	for text, want := range map[string]agent.Verdict{
		"stop":  {Block: true, Reason: "not today"},
		"hello": {Context: []string{"hello in /work true 0 p/m"}},
	} {
		got, err := b.hooks.Admit(t.Context(), kernel.Now, promptOf(text))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestSections(t *testing.T) {
	b := up(t, "good", "")
	f := prompt.Facts{SessionID: "s1", CWD: "/work", Provider: "p", Model: "m", Tools: []string{"a", "b"}}
	if got, want := b.sections.System(f), "s1 /work p/m a+b\n\ns1 /work p/m a+b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.CWD = "/fails"
	if got := b.sections.System(f); got != "" {
		t.Errorf("got %q", got)
	}
	wantAll(t, b.log.String(), `msg="a section of the system prompt is left out" row=it section=first session=s1 error="the plugin it: no text"`)
}

func TestCommands(t *testing.T) {
	b := up(t, "good", "")
	c, args, ok := b.commands.Parse("/shout  hello there ")
	if !ok || c.Description != "Shouts." || c.ArgumentHint != "TEXT" {
		t.Fatalf("got %+v, %v", c, ok)
	}
	got, err := c.Expand(t.Context(), command.Invocation{SessionID: "s1", CWD: "/work", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Text != "HELLO THERE" {
		t.Errorf("got %+v", got)
	}
	_, err = c.Expand(t.Context(), command.Invocation{})
	if err == nil || err.Error() != "command /shout: the plugin it: nothing to shout" {
		t.Errorf("got %v", err)
	}
}

// Routes are checked with what the plugin said, without asking it.
func TestResolve(t *testing.T) {
	b := up(t, "good", "")
	for _, tc := range []struct {
		name  string
		route llm.Route
		want  llm.Route
		info  llm.Info
		err   string
	}{
		{name: "defaults", route: llm.Route{Provider: "good", Model: "small"},
			want: llm.Route{Provider: "good", Model: "small", ReasoningEffort: "low", MaxTokens: 77},
			info: llm.Info{ContextWindow: 1000, Price: &llm.Price{Currency: "USD", Input: 1, Output: 2}}},
		{name: "given", route: llm.Route{Provider: "good", Model: "eyes", ReasoningEffort: "high", MaxTokens: 5},
			want: llm.Route{Provider: "good", Model: "eyes", ReasoningEffort: "high", MaxTokens: 5}, info: llm.Info{Images: true}},
		{name: "any model", route: llm.Route{Provider: "any", Model: "whatever"}, want: llm.Route{Provider: "any", Model: "whatever"}},
		{name: "unknown model", route: llm.Route{Provider: "good", Model: "large"}, err: `provider "good" has no model "large"; it has: small, eyes`},
		{name: "unknown effort", route: llm.Route{Provider: "good", Model: "small", ReasoningEffort: "max"}, err: `unknown reasoning effort "max"; use one of low, high`},
		{name: "no efforts", route: llm.Route{Provider: "any", Model: "x", ReasoningEffort: "low"}, err: `provider "any" takes no reasoning effort; leave out "low"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := b.models.Lookup(tc.route.Provider)
			if err != nil {
				t.Fatal(err)
			}
			got, chosen, info, err := a.Resolve(tc.route)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("route (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.info, info); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
			if want := tc.name == "defaults"; chosen.MaxTokens != want || chosen.ReasoningEffort != want {
				t.Errorf("chosen by the adapter: %+v", chosen)
			}
		})
	}
}

// ask streams one answer of provider good.
func (b *booted) ask(t *testing.T, model string, content ...sdkproto.Block) llmtest.Answer {
	t.Helper()
	a, err := b.models.Lookup("good")
	if err != nil {
		t.Fatal(err)
	}
	req := llm.Request{SessionID: "s1", Messages: []sdkproto.Message{{Role: sdkproto.RoleUser, Content: content}}}
	req.Header.Config = sdkproto.RequestConfig{Provider: "good", Model: model}
	req.Image = func(_ context.Context, a *sdkproto.Attachment) ([]byte, error) {
		if a.AttachmentID == "gone" {
			return nil, errors.New("it is gone")
		}
		return []byte(a.AttachmentID), nil
	}
	return llmtest.Collect(t.Context(), t, a, req)
}

func TestStream(t *testing.T) {
	b := up(t, "good", "host: {callTimeoutMs: 2000}")
	got := b.ask(t, "small", sdkproto.Text("hello"))
	if diff := cmp.Diff([]sdkproto.Block{sdkproto.Text("small: hello")}, got.Blocks(), cmp.AllowUnexported(sdkproto.Block{})); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if got.Finish() != sdkproto.FinishStop || got.Failure() != nil {
		t.Errorf("finish %q, failure %v", got.Finish(), got.Failure())
	}
	for _, tc := range []struct {
		say  string
		want llm.Error
	}{
		{"busy", llm.Error{Code: "RATE_LIMIT", Message: "slow down", Status: 429, RetryAfter: 1500 * time.Millisecond, RequestID: "r1"}},
		{"broken", llm.Error{Code: "TRANSPORT", Message: "the plugin it: no idea"}},
		{"cut", llm.Error{Code: "STREAM_CLOSED", Message: "the plugin it ended the answer without a finish"}},
		{"silent", llm.Error{Code: "TIMEOUT", Message: "the plugin it sent nothing for 2s"}},
		{"crash", llm.Error{Code: "TRANSPORT", Message: "the plugin it ended during the call (exit status 3)"}},
	} {
		t.Run(tc.say, func(t *testing.T) {
			got := b.ask(t, "small", sdkproto.Text(tc.say)).Failure()
			if got == nil {
				t.Fatal("it did not fail")
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// The next attempt works: the loop decides whether to make one.
	if got := b.ask(t, "small", sdkproto.Text("again")); got.Failure() != nil {
		t.Errorf("after a crash: %v", got.Failure())
	}
}

// A stream that nobody reads any more ends at the plugin, too.
func TestStreamCancelled(t *testing.T) {
	b := up(t, "good", "")
	a, err := b.models.Lookup("good")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := llm.Request{Messages: []sdkproto.Message{{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text("silent")}}}}
	var last error
	for c, err := range a.Stream(ctx, req) {
		if last = err; c.Type == sdkproto.ChunkBlockEnd {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("it ended with %v", last)
	}
	for range a.Stream(t.Context(), req) {
		break
	}
}

// Images travel to a plugin as bytes, if the model takes them (S131).
func TestStreamImages(t *testing.T) {
	b := up(t, "good", "")
	image := func(id string) sdkproto.Block {
		return sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{AttachmentID: id, MediaType: "image/png", Width: 2, Height: 3}}
	}
	for _, tc := range []struct{ model, id, want string }{
		{"eyes", "one", "text  |image image/png " + base64.StdEncoding.EncodeToString([]byte("one"))},
		{"eyes", "gone", "[An image of type image/png, 2×3, is not shown: it is gone]"},
		{"small", "one", "[An image of type image/png, 2×3, is not shown: the model takes no images]"},
	} {
		got := sdkproto.TextOf(b.ask(t, tc.model, sdkproto.Text("images"), image(tc.id)).Blocks())
		if !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s %s: got %q, want %q", tc.model, tc.id, got, tc.want)
		}
	}
}
