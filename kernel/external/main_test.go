package external

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// TestMain makes the test binary a plugin when the harness under test starts it:
// the name it is started by says how it behaves.
func TestMain(m *testing.M) {
	if os.Getenv(plugin.CookieKey) == "" {
		os.Exit(m.Run())
	}
	name := filepath.Base(os.Args[0])
	play, ok := plays()[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no play is called", name)
		os.Exit(1)
	}
	play()
}

// executableNamed gives the path of a plugin that behaves as name says.
func executableNamed(t testing.TB, name string) string {
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

type goodConfig struct {
	Greeting string `json:"greeting,omitzero" jsonschema:"What to say first."`
	Count    int    `json:"count,omitzero"`
	Refuse   string `json:"refuse,omitzero"`
	Fail     string `json:"fail,omitzero"`
}

func (c *goodConfig) Validate() error {
	if c.Count > 100 {
		return errors.Join(plugin.Invalid("count", "%d is too many; use 100 or fewer", c.Count), plugin.Invalid("greeting", "is never right then"))
	}
	return nil
}

type doArgs struct {
	What string `json:"what" jsonschema:"What to do."`
	Text string `json:"text,omitzero" jsonschema:"What to say."`
}

func good(c *goodConfig) plugin.Plugin {
	return plugin.Plugin{
		Name: "good", Version: "1.2.3", Summary: "Does what it is told.",
		Config: plugin.Config(c),
		Start: func(context.Context, *plugin.Plugin) error {
			slog.Warn("started", "greeting", c.Greeting)
			if c.Fail != "" {
				return errors.New(c.Fail)
			}
			return nil
		},
		Stop:     func(context.Context) error { slog.Warn("stopped"); return nil },
		Tools:    []plugin.Tool{plugin.Typed(plugin.ToolSpec{Name: "do", Description: "Does something.", Parallel: true}, do(c))},
		Models:   &plugin.Models{Providers: providers(), Stream: answer},
		Hooks:    hooksOf(),
		Sections: []plugin.Section{{Name: "first", Text: section}, {Name: "second", Text: section}},
		Commands: []plugin.Command{{Name: "shout", Description: "Shouts.", ArgumentHint: "TEXT", Expand: func(_ context.Context, u plugin.Use) ([]sdkproto.Block, error) {
			if u.Args == "" {
				return nil, errors.New("nothing to shout")
			}
			return []sdkproto.Block{sdkproto.Text(strings.ToUpper(u.Args))}, nil
		}}},
	}
}

func do(c *goodConfig) func(context.Context, plugin.Call, doArgs) (plugin.Result, error) {
	var calls atomic.Int64
	return func(ctx context.Context, call plugin.Call, p doArgs) (plugin.Result, error) {
		n := calls.Add(1)
		switch p.What {
		case "greet":
			return plugin.TextResult(c.Greeting + " " + p.Text), nil
		case "count":
			return plugin.TextResult(strconv.FormatInt(n, 10)), nil
		case "pid":
			return plugin.TextResult(strconv.Itoa(os.Getpid())), nil
		case "env":
			v, ok := os.LookupEnv(p.Text)
			return plugin.TextResult(fmt.Sprint(ok, " ", v)), nil
		case "stdin":
			// Serve reads it, so that it ends with the harness.
			link, err := os.Readlink("/proc/self/fd/0")
			return plugin.TextResult(link), err
		case "progress":
			call.Progress("half way")
			return plugin.TextResult("done"), nil
		case "model error":
			return plugin.ErrorResult("NotFoundError", "NOT_FOUND", "Error: there is no such thing"), nil
		case "error":
			return plugin.Result{}, errors.New("the tool is broken")
		case "panic":
			panic("oh no")
		case "crash":
			fmt.Fprintln(os.Stderr, "about to fail: disk on fire")
			go func() { panic("really broken") }()
			<-ctx.Done()
		case "exit":
			os.Exit(0)
		case "hang":
			select {}
		case "wait":
			<-ctx.Done()
			return plugin.Result{}, ctx.Err()
		case "print":
			fmt.Println(p.Text)
			fmt.Fprintln(os.Stderr, "and "+p.Text)
			return plugin.TextResult("printed"), nil
		case "log":
			slog.Error(p.Text, "secret", os.Getenv("PLUGIN_TEST_TOKEN"))
			return plugin.TextResult("logged"), nil
		case "flood":
			line := strings.Repeat("x", 99)
			for range 100_000 {
				fmt.Fprintln(originalStderr, line)
			}
			return plugin.TextResult("flooded"), nil
		case "flood progress":
			for range 10_000 {
				call.Progress("again")
			}
			return plugin.TextResult("flooded"), nil
		case "large":
			n, err := strconv.Atoi(p.Text)
			return plugin.TextResult(strings.Repeat("y", n)), err
		case "huge":
			return plugin.Result{Content: []sdkproto.Block{sdkproto.Text(strings.Repeat("z", plugin.MaxAnswer+1))}}, nil
		case "fork":
			pid, err := fork(p.Text == "away")
			return plugin.TextResult(strconv.Itoa(pid)), err
		}
		return plugin.TextResult(p.Text), nil
	}
}

// originalStderr is standard error itself, which go-plugin replaces.
var originalStderr = os.Stderr

// fork starts something that outlives the plugin if it may.
func fork(away bool) (int, error) {
	cmd := exec.Command("sleep", "600")
	cmd.Stdout, cmd.Stderr = originalStderr, originalStderr
	if away {
		leaveGroup(cmd)
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

func providers() []plugin.Provider {
	return []plugin.Provider{{
		ID:               "good",
		Models:           []plugin.Model{{ID: "small", ContextWindow: 1000, Price: &plugin.Price{Currency: "USD", Input: 1, Output: 2}}, {ID: "eyes", Images: true}},
		ReasoningEfforts: []string{"low", "high"}, DefaultReasoningEffort: "low", DefaultMaxTokens: 77,
	}, {ID: "any", AnyModel: true}}
}

// answer does what the last message says.
func answer(ctx context.Context, r plugin.ModelRequest) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		last := r.Messages[len(r.Messages)-1]
		text := sdkproto.TextOf(last.Content)
		if last.Content[len(last.Content)-1].Type == sdkproto.BlockImage {
			var seen []string
			for _, b := range last.Content {
				seen = append(seen, b.Type+" "+b.MimeType+" "+b.Data)
			}
			text = strings.Join(seen, "|")
		}
		chunks := func(text string) bool {
			b := sdkproto.Text(text)
			for _, c := range []sdkproto.Chunk{
				{Type: sdkproto.ChunkBlockStart, BlockType: sdkproto.BlockText},
				{Type: sdkproto.ChunkTextDelta, Text: text},
				{Type: sdkproto.ChunkBlockEnd, Block: &b},
			} {
				if !yield(c, nil) {
					return false
				}
			}
			return true
		}
		finish := sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}}
		switch text {
		case "busy":
			yield(sdkproto.Chunk{}, &plugin.ModelError{Code: "RATE_LIMIT", Message: "slow down", Status: 429, RetryAfter: 1500 * time.Millisecond, RequestID: "r1"})
		case "broken":
			yield(sdkproto.Chunk{}, errors.New("no idea"))
		case "cut":
			chunks("half")
		case "crash":
			chunks("half")
			os.Exit(3)
		case "silent":
			chunks("half")
			<-ctx.Done()
		default:
			_ = chunks(r.Header.Config.Model+": "+text) && yield(finish, nil)
		}
	}
}

func hooksOf() *plugin.Hooks {
	return &plugin.Hooks{
		BeforeTool: func(_ context.Context, c plugin.ToolCall) (plugin.Before, error) {
			switch text := string(c.Arguments); {
			case strings.Contains(text, "forbidden"):
				return plugin.Before{Deny: true, Reason: "that is forbidden"}, nil
			case strings.Contains(text, "rewrite"):
				return plugin.Before{Arguments: []byte(`{"what":"echo","text":"rewritten"}`)}, nil
			case strings.Contains(text, "bad arguments"):
				return plugin.Before{Arguments: []byte(`{"nonsense":1}`)}, nil
			case strings.Contains(text, "hook fails"):
				return plugin.Before{}, errors.New("cannot judge")
			}
			return plugin.Before{}, nil
		},
		AfterTool: func(_ context.Context, c plugin.ToolCall, r plugin.Result) (plugin.After, error) {
			switch text := sdkproto.TextOf(r.Content); {
			case strings.Contains(text, "withheld"):
				return plugin.After{Deny: true, Reason: "it is private"}, nil
			case strings.Contains(text, "masked"):
				masked := plugin.TextResult("***")
				return plugin.After{Result: &masked}, nil
			case strings.Contains(text, "review fails"):
				return plugin.After{}, errors.New("cannot review")
			}
			return plugin.After{}, nil
		},
		Prompt: func(_ context.Context, p plugin.Prompt) (plugin.Verdict, error) {
			switch text := sdkproto.TextOf(p.Message.Content); text {
			case "stop":
				return plugin.Verdict{Block: true, Reason: "not today"}, nil
			case "fail":
				return plugin.Verdict{}, errors.New("cannot read")
			default:
				return plugin.Verdict{Context: []string{fmt.Sprint(text, " in ", p.CWD, " ", p.First, " ", p.Depth, " ", p.Provider, "/", p.Model)}}, nil
			}
		},
	}
}

func section(_ context.Context, f plugin.Facts) (string, error) {
	if f.CWD == "/fails" {
		return "", errors.New("no text")
	}
	return fmt.Sprint(f.SessionID, " ", f.CWD, " ", f.Provider, "/", f.Model, " ", strings.Join(f.Tools, "+")), nil
}

// plays are all the ways to behave.
func plays() map[string]func() {
	serve := func(change func(*plugin.Plugin)) func() {
		return func() {
			c := goodConfig{Greeting: "Hello"}
			p := good(&c)
			if change != nil {
				change(&p)
			}
			plugin.Serve(p)
		}
	}
	return map[string]func(){
		"good": serve(nil),
		"bare": serve(func(p *plugin.Plugin) { *p = plugin.Plugin{Name: "bare", Version: "1"} }),
		"tools": serve(func(p *plugin.Plugin) {
			*p = plugin.Plugin{Name: "tools", Version: "1", Config: p.Config, Tools: p.Tools, Stop: p.Stop}
		}),
		"noisy": func() {
			fmt.Println("Welcome to the plugin!")
			serve(nil)()
		},
		"flooding": func() {
			line := strings.Repeat("loud ", 200) + "\n"
			for range 5000 {
				if _, err := os.Stdout.WriteString(line); err != nil {
					break
				}
			}
			serve(nil)()
		},
		"endless": func() {
			for {
				if _, err := os.Stdout.WriteString("no end in sight "); err != nil {
					os.Exit(1)
				}
			}
		},
		"silent":   func() { time.Sleep(time.Hour) },
		"quitting": func() { fmt.Fprintln(os.Stderr, "no licence found"); os.Exit(7) },
		"newer":    func() { fmt.Println("1|9|unix|/nowhere|grpc"); time.Sleep(time.Hour) },
		"older":    func() { fmt.Println("1|1|tcp|127.0.0.1:1"); time.Sleep(time.Hour) },
		"netrpc":   func() { fmt.Println("1|1|tcp|127.0.0.1:1|netrpc"); time.Sleep(time.Hour) },
		"deaf":     func() { fmt.Println("1|1|unix|/nowhere/at/all|grpc"); time.Sleep(time.Hour) },
		"crashing": serve(func(p *plugin.Plugin) {
			*p = plugin.Plugin{Name: "crashing", Version: "1", Tools: p.Tools}
			p.Start = func(context.Context, *plugin.Plugin) error {
				// There must be time for the harness to list the tools.
				time.AfterFunc(500*time.Millisecond, func() { os.Exit(4) })
				return nil
			}
		}),
		"stubborn": serve(func(p *plugin.Plugin) {
			ignoreTerm()
			p.Stop = func(context.Context) error { select {} }
		}),
		"stubborn bare": serve(func(p *plugin.Plugin) {
			ignoreTerm()
			*p = plugin.Plugin{Name: "stubborn", Version: "1", Stop: func(context.Context) error { select {} }}
		}),
		"eventful": serve(func(p *plugin.Plugin) {
			*p = plugin.Plugin{Name: "eventful", Version: "1", Events: recorder()}
		}),
	}
}
