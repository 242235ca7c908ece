//go:build unix

package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel/external/conformance"
	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// TestMain makes the test binary a plugin when a check starts it: the name it is
// started by says what is wrong with it.
func TestMain(m *testing.M) {
	if os.Getenv(plugin.CookieKey) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	name := filepath.Base(os.Args[0])
	spoil, ok := plays()[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no play is called", name)
		os.Exit(1)
	}
	p := good()
	if name != "good" {
		// Those that are about tools bring their own; the others are quicker without.
		p.Tools = nil
	}
	spoil(&p)
	plugin.Serve(p)
}

func named(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

type args struct {
	Text string `json:"text" jsonschema:"A text."`
	Kind string `json:"kind" enum:"a,b" jsonschema:"A word."`
	Size int    `json:"size" jsonschema:"A number."`
}

type config struct {
	Word string `json:"word,omitzero" jsonschema:"A word."`
}

// good is a plugin that keeps to the contract in everything.
func good() plugin.Plugin {
	return plugin.Plugin{
		Name: "good-one", Version: "1", Summary: "Does all that a plugin can.",
		Config: plugin.Config(&config{}),
		Tools: []plugin.Tool{
			say(func(_ context.Context, p args) (plugin.Result, error) { return plugin.TextResult(p.Text), nil }),
			plugin.Typed(plugin.ToolSpec{Name: "wipe", Description: "Wipes all.", Destructive: true},
				func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
					os.Exit(9) // nobody may call it without being told to
					return plugin.Result{}, nil
				}),
		},
		Models: &plugin.Models{Providers: []plugin.Provider{{ID: "good", Models: []plugin.Model{{ID: "small"}}}}, Stream: answer(text("hi"), finish())},
		Hooks: &plugin.Hooks{
			BeforeTool: func(context.Context, plugin.ToolCall) (plugin.Before, error) { return plugin.Before{}, nil },
			AfterTool: func(context.Context, plugin.ToolCall, plugin.Result) (plugin.After, error) {
				r := plugin.TextResult("other")
				return plugin.After{Result: &r}, nil
			},
			Prompt: func(context.Context, plugin.Prompt) (plugin.Verdict, error) {
				return plugin.Verdict{Context: []string{"more"}}, nil
			},
		},
		Sections: []plugin.Section{{Name: "one", Text: func(_ context.Context, f plugin.Facts) (string, error) { return strings.Join(f.Tools, " "), nil }}},
		Commands: []plugin.Command{{Name: "shout", Description: "Shouts.", Expand: func(_ context.Context, u plugin.Use) ([]sdkproto.Block, error) {
			if u.Args == "" {
				return nil, errors.New("nothing to shout")
			}
			return []sdkproto.Block{sdkproto.Text(strings.ToUpper(u.Args))}, nil
		}}},
		Events: &plugin.Events{Types: []string{"turn/"}, Handle: func(context.Context, string, sdkproto.Event) error { return nil }},
	}
}

func say(f func(context.Context, args) (plugin.Result, error)) plugin.Tool {
	return plugin.Typed(plugin.ToolSpec{Name: "say", Description: "Says a text.", ReadOnly: true, Subject: plugin.Subject{Kind: "text", Member: "text"}},
		func(ctx context.Context, _ plugin.Call, p args) (plugin.Result, error) { return f(ctx, p) })
}

func text(s string) sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: s}
}

func finish() sdkproto.Chunk {
	return sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}}
}

func answer(chunks ...sdkproto.Chunk) func(context.Context, plugin.ModelRequest) iter.Seq2[sdkproto.Chunk, error] {
	return func(context.Context, plugin.ModelRequest) iter.Seq2[sdkproto.Chunk, error] {
		return func(yield func(sdkproto.Chunk, error) bool) {
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// raw is a tool that gets its arguments as they come.
type raw struct {
	parameters string
	call       func(json.RawMessage) (plugin.Result, error)
}

func (r raw) Spec() plugin.ToolSpec {
	return plugin.ToolSpec{Name: "raw", Description: "Takes anything.", Parameters: json.RawMessage(r.parameters)}
}

func (r raw) Call(_ context.Context, c plugin.Call) (plugin.Result, error) {
	return r.call(c.Arguments)
}

// plays are ways to be good or bad.
func plays() map[string]func(*plugin.Plugin) {
	const object = `{"type":"object","properties":{},"additionalProperties":false}`
	return map[string]func(*plugin.Plugin){
		"good":     func(*plugin.Plugin) {},
		"nameless": func(p *plugin.Plugin) { p.Name = "Bad Name" },
		"choosy": func(p *plugin.Plugin) {
			p.Config = plugin.Config(&struct {
				Project string `json:"project"`
			}{})
		},
		"odd list": func(p *plugin.Plugin) {
			p.Tools = append(good().Tools, raw{`{"type":"array"}`, func(json.RawMessage) (plugin.Result, error) {
				return plugin.ErrorResult("RawError", "NEVER", "no"), nil
			}})
		},
		"gullible": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{raw{object, func(json.RawMessage) (plugin.Result, error) { return plugin.TextResult("done"), nil }}}
		},
		"fragile": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{raw{object, func(a json.RawMessage) (plugin.Result, error) {
				if !json.Valid(a) {
					os.Exit(3)
				}
				return plugin.TextResult("done"), nil
			}}}
		},
		"panicking": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{say(func(_ context.Context, p args) (plugin.Result, error) {
				if strings.Contains(p.Text, "\x00") {
					panic("a NUL")
				}
				return plugin.TextResult(p.Text), nil
			})}
		},
		"long-winded": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{say(func(_ context.Context, p args) (plugin.Result, error) {
				return plugin.TextResult(strings.Repeat(p.Text, 4)), nil
			})}
		},
		"wordless": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{say(func(_ context.Context, p args) (plugin.Result, error) {
				return plugin.Result{IsError: strings.Contains(p.Text, "\ufeff")}, nil
			})}
		},
		"picky": func(p *plugin.Plugin) {
			p.Config = plugin.Config(&struct {
				Project string `json:"project"`
			}{})
			p.Tools = []plugin.Tool{say(func(_ context.Context, p args) (plugin.Result, error) {
				if p.Text == "no" {
					return plugin.ErrorResult("SayError", "REFUSED", "I will not say that"), nil
				}
				return plugin.TextResult(p.Text), nil
			})}
		},
		"cut off":  func(p *plugin.Plugin) { p.Models.Stream = answer(text("hi")) },
		"mumbling": func(p *plugin.Plugin) { p.Models.Stream = answer(sdkproto.Chunk{Type: "mumble"}, finish()) },
		"sullen": func(p *plugin.Plugin) {
			p.Hooks.BeforeTool = func(context.Context, plugin.ToolCall) (plugin.Before, error) { return plugin.Before{Deny: true}, nil }
		},
		"fickle": func(p *plugin.Plugin) {
			p.Sections[0].Text = func(context.Context, plugin.Facts) (string, error) { return time.Now().String(), nil }
		},
		"slashed": func(p *plugin.Plugin) { p.Commands[0].Name = "/shout" },
		"forgetting": func(p *plugin.Plugin) {
			p.Events.Handle = func(context.Context, string, sdkproto.Event) error { return errors.New("no") }
		},
		"talkative": func(p *plugin.Plugin) {
			p.Tools = []plugin.Tool{say(func(_ context.Context, p args) (plugin.Result, error) {
				fmt.Println("I was called")
				return plugin.TextResult(p.Text), nil
			})}
		},
		"stubborn": func(p *plugin.Plugin) { p.Stop = func(context.Context) error { time.Sleep(time.Minute); return nil } },
		"fertile": func(p *plugin.Plugin) {
			p.Start = func(context.Context, *plugin.Plugin) error { return exec.Command("sleep", "600").Start() }
		},
		"deaf": func(*plugin.Plugin) {
			// Serve waits for the end of what it takes for standard input.
			r, w, err := os.Pipe()
			if err != nil {
				os.Exit(1)
			}
			os.Stdin = r
			go func() { time.Sleep(time.Hour); w.Close() }()
		},
	}
}

// check gives the outcomes by name.
func check(t *testing.T, o conformance.Options) (map[string]conformance.Outcome, bool) {
	t.Helper()
	all := map[string]conformance.Outcome{}
	ok := conformance.Run(t.Context(), o, func(one conformance.Outcome) { all[one.Name] = one })
	return all, ok
}

// TestRun has each fault found by the check that is about it, and by no other.
func TestRun(t *testing.T) {
	for play, c := range map[string]struct{ check, reason string }{
		"good":        {},
		"nameless":    {"describe", `the name "Bad Name" is not kebab-case`},
		"choosy":      {"config", "give one that the plugin takes"},
		"odd list":    {"tools: list", `tool "raw": the parameters: the schema has the type "array"`},
		"gullible":    {"tools: bad input", "they were taken, and are not JSON"},
		"fragile":     {"tools: bad input", "exit status 3"},
		"panicking":   {"tools: unicode", "panic: a NUL"},
		"long-winded": {"tools: large texts", "and send none of more than 16"},
		"wordless":    {"tools: unicode", "an error result does not say what was wrong"},
		"cut off":     {"models: an answer", ""},
		"mumbling":    {"models: an answer", `no chunks of type "mumble"`},
		"sullen":      {"hooks", "hook tool.before: it refuses and does not say why"},
		"fickle":      {"prompt sections", "the same facts give another text"},
		"slashed":     {"slash commands", `"/shout"`},
		"forgetting":  {"events", ""},
		"talkative":   {"standard output", `such as "I was called"`},
		"stubborn":    {"shutdown", "no answer within"},
		"fertile":     {"shutdown", "there are still processes"},
		"deaf":        {"end of the harness", "its standard input ended"},
	} {
		if play == "fertile" && runtime.GOOS != "linux" {
			continue // where processes cannot be seen
		}
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			all, ok := check(t, conformance.Options{Path: named(t, play)})
			failed := map[string]string{}
			for name, one := range all {
				if one.Status == conformance.Fail {
					failed[name] = one.Reason
				}
			}
			if ok != (c.check == "") {
				t.Errorf("passed: %v", ok)
			}
			reason, found := failed[c.check]
			if c.check != "" && (!found || !strings.Contains(reason, c.reason)) || len(failed) > 1 || c.check == "" && len(failed) > 0 {
				t.Errorf("failed: %q; want %q: %q", failed, c.check, c.reason)
			}
		})
	}
}

func TestRunOfNoPlugin(t *testing.T) {
	all, ok := check(t, conformance.Options{Path: filepath.Join(t.TempDir(), "none")})
	if ok || len(all) != 1 || !strings.Contains(all["handshake"].Reason, "there is no file") {
		t.Errorf("%+v", all)
	}
}

// TestRunWithOptions uses the config and the calls that are given.
func TestRunWithOptions(t *testing.T) {
	o := conformance.Options{Path: named(t, "picky"), Config: json.RawMessage(`{"project":"ABC"}`)}
	for text, want := range map[string]conformance.Outcome{
		"yes": {Name: "tools: good calls", Status: conformance.OK},
		"no": {
			Name: "tools: good calls", Status: conformance.Fail,
			Reason: `tool "say" with {"text":"no","kind":"a","size":1}: the result is an error: [{"type":"text","text":"I will not say that"}]`,
		},
	} {
		o.Calls = []conformance.Call{{Tool: "say", Arguments: fmt.Appendf(nil, `{"text":%q,"kind":"a","size":1}`, text)}}
		all, ok := check(t, o)
		if diff := cmp.Diff(want, all["tools: good calls"]); diff != "" || ok != (text == "yes") {
			t.Errorf("passed: %v (-want +got):\n%s", ok, diff)
		}
	}
}
