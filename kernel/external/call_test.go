package external

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
)

// A tool of a plugin keeps the contract of every tool.
func TestTool(t *testing.T) {
	b := up(t, "tools", "")
	tl, ok := b.tools.View(nil).Lookup("do")
	if !ok {
		t.Fatal("there is no tool do")
	}
	tooltest.TestTool(t, tl, tooltest.Options{
		Good: []string{`{"what":"greet","text":"you"}`, `{"what":"echo","text":"x"}`, `{"what":"progress"}`},
		Slow: `{"what":"wait"}`,
	})
}

// What a call gives is what the plugin gave.
func TestCall(t *testing.T) {
	b := up(t, "tools", "")
	for _, tc := range []struct{ what, text, want, code string }{
		{"greet", "you", "Hello you", ""},
		{"model error", "", "Error: there is no such thing", "NOT_FOUND"},
		{"error", "", "Error: the plugin it: the tool is broken", "PLUGIN_FAILED"},
		{"panic", "", "Error: the plugin it: panic: oh no", "PLUGIN_FAILED"},
		{"echo", "a\u2028b\x00", "a\u2028b\x00", ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			var r tool.Result
			arguments := fmt.Sprintf(`{"what":%q,"text":%s}`, tc.what, strconv.QuoteToASCII(tc.text))
			arguments = strings.ReplaceAll(arguments, `\x00`, `\u0000`)
			r = b.call(t.Context(), "do", arguments, nil)
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if text(r) != tc.want || code != tc.code || r.IsError != (tc.code != "") {
				t.Errorf("got %q, error %v %q; want %q, %q", text(r), r.IsError, code, tc.want, tc.code)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	b := up(t, "tools", "")
	var said []string
	r := b.call(t.Context(), "do", `{"what":"progress"}`, func(line string) { said = append(said, line) })
	if text(r) != "done" {
		t.Errorf("got %q", text(r))
	}
	if diff := cmp.Diff([]string{"half way"}, said); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	said = nil
	b.call(t.Context(), "do", `{"what":"flood progress"}`, func(line string) { said = append(said, line) })
	if len(said) == 0 || len(said) > 1000 {
		t.Errorf("of 10000 lines %d were handed on", len(said))
	}
}

// A plugin that ends during a call fails the call, not the harness: the result
// names it and has its last words, and the next call works (case B70).
func TestEndsInCall(t *testing.T) {
	for _, tc := range []struct {
		what string
		want []string
	}{
		{"crash", []string{"the plugin it ended during the call (exit status 2)", "about to fail: disk on fire", "panic: really broken"}},
		{"exit", []string{"the plugin it ended during the call (exit status 0)"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			b := up(t, "tools", "")
			if got := text(b.do(t.Context(), "count", "")); got != "1" {
				t.Fatalf("first call: %q", got)
			}
			beside := make(chan tool.Result, 1)
			go func() { beside <- b.do(t.Context(), "wait", "") }()
			time.Sleep(20 * time.Millisecond)
			r := b.do(t.Context(), tc.what, "")
			if r.Error == nil || r.Error.Code != "PLUGIN_UNAVAILABLE" {
				t.Errorf("got %+v", r)
			}
			wantAll(t, text(r), append(tc.want, "The call is not repeated")...)
			if r := <-beside; r.Error == nil || r.Error.Code != "PLUGIN_UNAVAILABLE" {
				t.Errorf("the call beside it: %+v", r)
			}
			// A new process counts anew: nothing was repeated.
			if got := text(b.do(t.Context(), "count", "")); got != "1" {
				t.Errorf("the call after it: %q", got)
			}
			if err := b.ready(t, "it"); err != nil {
				t.Errorf("the state after it: %v", err)
			}
			wantAll(t, b.log.String(), `msg="the plugin ended and is started again" row=it`, `msg="the plugin runs again" row=it generation=2`)
		})
	}
}

// A plugin that is killed while nobody calls it is there for the next call (case
// B70).
func TestKilledIdle(t *testing.T) {
	b := up(t, "tools", "")
	pid := b.pid(t)
	kill(t, pid)
	eventually(t, "the plugin runs again", func() bool { return strings.Contains(b.log.String(), "the plugin runs again") })
	if again := b.pid(t); again == pid {
		t.Errorf("still process %d", pid)
	}
	wantAll(t, b.log.String(), "it ended (signal: killed)")
}

func (b *booted) pid(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(text(b.do(t.Context(), "pid", "")))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// A plugin that crashes at each start is given up after the restarts it has; its
// tools stay listed and say so (cases B70, B73).
func TestCrashLoop(t *testing.T) {
	b := boot(t, rowOf(t, "it", "crashing", "host: {restarts: 2}"))
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is off", func() bool { return strings.Contains(b.log.String(), "the plugin is off") })
	wantAll(t, b.log.String(), "that was end 3 in a row, and it stays off until the profile is reloaded or the harness restarts")
	if n := strings.Count(b.log.String(), "is started again"); n != 2 {
		t.Errorf("it was started again %d times, want 2", n)
	}
	if _, ok := b.tools.View(nil).Lookup("do"); !ok {
		t.Fatal("its tool is not listed any more")
	}
	r := b.do(t.Context(), "greet", "you")
	if r.Error == nil || r.Error.Code != "PLUGIN_UNAVAILABLE" {
		t.Errorf("got %+v", r)
	}
	wantAll(t, text(r), "the plugin it is not available: it ended (exit status 4)", "it stays off")
	err := b.ready(t, "it")
	if err == nil {
		t.Fatal("its state is good")
	}
	wantAll(t, err.Error(), "it stays off")
}

// While a plugin pauses before its next start, calls fail at once and say when.
func TestCallInPause(t *testing.T) {
	b := up(t, "tools", "")
	b.do(t.Context(), "exit", "")
	b.do(t.Context(), "count", "") // the first start comes at once
	kill(t, b.pid(t))
	var r tool.Result
	eventually(t, "a call in the pause", func() bool {
		r = b.do(t.Context(), "count", "")
		return r.IsError && strings.Contains(text(r), "is not available")
	})
	wantAll(t, text(r), "it ended (signal: killed)", "it is started again in 1s")
	eventually(t, "the plugin runs again", func() bool { return !b.do(t.Context(), "count", "").IsError })
}

// A call that hangs ends with its limit or its context; the plugin stays.
func TestHangs(t *testing.T) {
	b := up(t, "tools", "host: {callTimeoutMs: 200}")
	r := b.do(t.Context(), "hang", "")
	if r.Error == nil || r.Error.Code != "PLUGIN_TIMEOUT" {
		t.Errorf("got %+v", r)
	}
	wantAll(t, text(r), "the plugin it did not answer within 200ms")
	if got := text(b.do(t.Context(), "greet", "you")); got != "Hello you" {
		t.Errorf("after it: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	if r := b.do(ctx, "wait", ""); !r.IsError {
		t.Errorf("a cancelled call gave %+v", r)
	}
}

// Large results are cut for the model, and one that is larger than a message may
// be fails the call alone.
func TestLarge(t *testing.T) {
	b := up(t, "tools", "")
	if got := text(b.do(t.Context(), "large", strconv.Itoa(maxText))); len(got) != maxText {
		t.Errorf("%d bytes of %d are left", len(got), maxText)
	}
	r := b.do(t.Context(), "large", "1000000")
	if n := len(text(r)); n < maxText || n > maxText+500 {
		t.Errorf("%d bytes are left", n)
	}
	wantAll(t, text(r), "[The result has 1000000 characters of text, more than the 30000 that fit. The rest is lost.]")
	r = b.do(t.Context(), "huge", "")
	wantAll(t, text(r), "Error: the plugin it: a message is too large")
	if got := text(b.do(t.Context(), "greet", "you")); got != "Hello you" {
		t.Errorf("after it: %q", got)
	}
}

// What a plugin prints is logged with its row, its level and its attributes,
// never on standard output, and its granted secrets are not (case B69).
func TestPrints(t *testing.T) {
	t.Setenv("PLUGIN_TEST_TOKEN", "sesame-open")
	b := up(t, "tools", "host: {env: [PLUGIN_TEST_TOKEN]}")
	b.do(t.Context(), "print", "hello sesame-open")
	b.do(t.Context(), "log", "watch sesame-open")
	eventually(t, "all is logged", func() bool { return strings.Count(b.log.String(), "[secret]") == 4 })
	wantAll(t, b.log.String(),
		`level=INFO msg="hello [secret]" row=it from="standard output"`,
		`level=INFO msg="and hello [secret]" row=it from="standard error"`,
		`level=ERROR msg="watch [secret]" row=it secret=[secret]`)
	if strings.Contains(b.log.String(), "sesame") {
		t.Error("the secret is in the log")
	}
}

// A flood on standard error blocks nobody and is bounded in the log (case B69).
func TestFlood(t *testing.T) {
	b := up(t, "tools", "")
	if got := text(b.do(t.Context(), "flood", "")); got != "flooded" {
		t.Fatalf("got %q", got)
	}
	if n := strings.Count(b.log.String(), "xxxxxxxxxx\""); n > 100 {
		t.Errorf("odd count %d", n)
	}
	if n := len(b.log.String()); n > 4<<20 {
		t.Errorf("the log has %d bytes", n)
	}
	if n := strings.Count(b.log.String(), "\n"); n > 5000 {
		t.Errorf("the log has %d lines", n)
	}
}

// A plugin gets what is granted and nothing else (decision D28), and nothing of
// our standard input.
func TestEnvironment(t *testing.T) {
	t.Setenv("PLUGIN_TEST_TOKEN", "sesame-open")
	t.Setenv("PLUGIN_TEST_OTHER", "x")
	t.Setenv("LC_TEST", "y")
	b := up(t, "tools", "host: {env: [PLUGIN_TEST_TOKEN, PLUGIN_TEST_UNSET]}")
	for name, want := range map[string]string{
		"PLUGIN_TEST_TOKEN": "true sesame-open",
		"PLUGIN_TEST_OTHER": "false ",
		"PLUGIN_TEST_UNSET": "false ",
		"LC_TEST":           "true y",
		"PATH":              "true " + os.Getenv("PATH"),
	} {
		if got := text(b.do(t.Context(), "env", name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	wantAll(t, b.log.String(), `msg="variables that the row grants to the plugin are not set" row=it names=PLUGIN_TEST_UNSET`)
}

// A variable that a row names as a credential reaches no plugin that has not
// asked for it, even one that all plugins get (decision D28).
func TestCredentialEnv(t *testing.T) {
	t.Setenv("LC_SECRET", "sesame-open")
	rows := rowOf(t, "it", "good", "") + fmt.Sprintf("  other: {use: %s, config: {apiKeyEnv: LC_SECRET}}\n", executableNamed(t, "bare"))
	b := boot(t, rows)
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	if got := text(b.do(t.Context(), "env", "LC_SECRET")); got != "false " {
		t.Errorf("got %q", got)
	}
}

// The spec of a tool is the plugin's.
func TestSpec(t *testing.T) {
	b := up(t, "tools", "")
	tl, _ := b.tools.View(nil).Lookup("do")
	spec := tl.Spec()
	if spec.Description != "Does something." || !spec.Parallel || spec.ReadOnly || spec.Destructive {
		t.Errorf("got %+v", spec)
	}
	wantAll(t, string(spec.Parameters), `"what":{"type":"string","description":"What to do."}`, `"required":["what"]`)
	if got := b.tools.View(nil).Origin("do"); got != "row it" {
		t.Errorf("its origin is %q", got)
	}
}

// A result without content says something, a failure has a name and a code, and
// what is no result is an error.
func TestDecodeResult(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire *pb.ToolResult
		want tool.Result
		err  string
	}{
		{"nothing", &pb.ToolResult{}, tool.TextResult("(no output)"), ""},
		{"a bare failure", &pb.ToolResult{Content: []byte(`[{"type":"text","text":"no"}]`), IsError: true}, tool.ErrorResult("ToolError", "TOOL_FAILED", "no"), ""},
		{"an error that is none", &pb.ToolResult{Content: []byte(`[{"type":"text","text":"x"}]`), Error: &pb.ToolError{Name: "E"}}, tool.TextResult("x"), ""},
		{"no list", &pb.ToolResult{Content: []byte(`{"type":"text"}`)}, tool.Result{}, "content: "},
		{"a block without type", &pb.ToolResult{Content: []byte(`[{}]`)}, tool.Result{}, "content: "},
		{"meta that is no JSON", &pb.ToolResult{Meta: []byte(`{`)}, tool.Result{}, "meta is no JSON value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decodeResult(tc.wire)
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(sdkproto.Block{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An image that nobody keeps becomes a text: no log may hold it (S132).
func TestImageWithoutStore(t *testing.T) {
	b := admit(t.Context(), nil, []sdkproto.Block{{Type: sdkproto.BlockImage, Data: "x", MimeType: "image/png"}})
	if diff := cmp.Diff("[An image of type image/png cannot be shown: the profile has no row that keeps images]", b[0].Text); diff != "" {
		t.Error(diff)
	}
}
