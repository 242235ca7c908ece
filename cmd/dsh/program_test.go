package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/kernel/session/sessiontest/killpoint"
	"dsh/kernel/stdio"
	"dsh/kernel/tool"
	"dsh/plugins"
	"dsh/plugins/sessionjsonl"
	"dsh/profiles"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// probeProfile is sdk with the row probe, and with the loop's check that a
// request equals the log.
const probeProfile = `
extends: sdk
plugins:
  loop: {config: {verifyRequests: true, retries: {delay: 1ms}}}
  probe: {use: probe}
`

// runProbe is the program `dsh-probe [id.key=value...]`: the product with a
// store that kills the process where the environment says (decision D29), and
// with the plugin probe. The product itself has neither.
func runProbe() int {
	pair, err := stdio.Take()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return kernel.ExitFailure
	}
	files := fstest.MapFS{"probe.yaml": {Data: []byte(probeProfile)}}
	for _, name := range []string{"base.yaml", "sdk.yaml"} {
		data, err := fs.ReadFile(profiles.FS, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return kernel.ExitFailure
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	loaded, err := profile.Load(profile.Options{
		Name: "probe", Embedded: files, Home: os.Getenv("DSH_HOME"), Sets: os.Args[1:], Env: os.LookupEnv,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return kernel.ExitFailure
	}
	return kernel.Run(context.Background(), "dsh-probe", os.Stderr, kernel.Options{
		Plugins: probePlugins(), Profile: loaded, Stdio: pair, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

func probePlugins() []kernel.Plugin {
	all := slices.DeleteFunc(plugins.Builtin(), func(p kernel.Plugin) bool { return p.Name == sessionjsonl.Plugin.Name })
	store := kernel.Define(sessionjsonl.Plugin.Name, "Keeps sessions in files until the process is killed.",
		func() sessionjsonl.Config { return sessionjsonl.Config{} },
		func(in kernel.Instance, c sessionjsonl.Config) fx.Option {
			return fx.Provide(func() (session.Store, error) {
				inner := sessionjsonl.New(sessionjsonl.Params{Self: in, Config: c})
				return killpoint.FromEnv(inner, func(id string) string {
					return filepath.Join(in.Home, "sessions.d", session.EncodeID(id)+".jsonl")
				})
			})
		}, kernel.Provides[session.Store]())
	probe := kernel.Define("probe", "Lets a test look into the process and hold it.",
		func() probeConfig { return probeConfig{} },
		func(in kernel.Instance, c probeConfig) fx.Option {
			return fx.Invoke(func(r *llm.Router, tools *tool.Registry, p *tool.Pipeline) error {
				if c.Faults {
					if err := addFaults(in, tools, p); err != nil {
						return err
					}
				}
				return startProbe(in, c, r)
			})
		}, kernel.Needs[*llm.Router](), kernel.Needs[*tool.Registry](), kernel.Needs[*tool.Pipeline]())
	return append(all, store, probe)
}

type probeConfig struct {
	// Gate is a file whose appearance ends a load task of the row.
	Gate string `json:"gate"`
	// Noise prints to standard output as a careless library would.
	Noise bool `json:"noise"`
	// Faults adds a tool that panics, and a hook that fails when the arguments of
	// a call say so.
	Faults bool `json:"faults"`
}

// panicking is the tool probe_panic.
type panicking struct{}

func (panicking) Spec() tool.Spec {
	return tool.Spec{Name: "probe_panic", Description: "Panics.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (panicking) Call(context.Context, tool.Invocation) (tool.Result, error) {
	panic("the tool panicked")
}

func addFaults(in kernel.Instance, tools *tool.Registry, p *tool.Pipeline) error {
	hook := func(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		switch {
		case bytes.Contains(in.Arguments, []byte("fail the hook")):
			return tool.Result{}, errors.New("the hook failed")
		case bytes.Contains(in.Arguments, []byte("panic in the hook")):
			panic("the hook panicked")
		}
		return next(ctx, t, in)
	}
	return errors.Join(tools.Register(in.Owner, panicking{}), p.Use(in.Owner, tool.OrderGate, "probe", hook))
}

func startProbe(in kernel.Instance, c probeConfig, r *llm.Router) error {
	if c.Noise {
		fmt.Println("noise of package fmt")
		fmt.Fprintln(os.NewFile(1, "descriptor 1"), "noise of descriptor 1")
	}
	if c.Gate != "" {
		in.Ready.Go("gate", true, func(ctx context.Context) error {
			for {
				if _, err := os.Stat(c.Gate); err == nil {
					return nil
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return r.Register(in.Owner, "recorded", &recorder{router: r, path: filepath.Join(in.Home, requestsFile)})
}

const requestsFile = "requests.jsonl"

// recorder is the scripted model behind a provider's strictness: it keeps every
// request and refuses one in which a call lacks its result (B41).
type recorder struct {
	router *llm.Router
	path   string
	mu     sync.Mutex
}

func (r *recorder) Resolve(route llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return route, sdkproto.AdapterDefaults{}, llm.Info{}, nil
}

func (r *recorder) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		scripted, err := r.router.Lookup("scripted")
		if err == nil {
			err = r.record(req)
		}
		if err == nil {
			err = checkPaired(req.Messages)
		}
		if err != nil {
			yield(sdkproto.Chunk{}, &llm.Error{Code: llm.CodeInvalidRequest, Status: 400, Message: err.Error()})
			return
		}
		scripted.Stream(ctx, req)(yield)
	}
}

// record appends one line with one write.
func (r *recorder) record(req llm.Request) error {
	line, err := wirejson.Marshal(struct {
		Session  string             `json:"session"`
		Header   sdkproto.Header    `json:"header"`
		Messages []sdkproto.Message `json:"messages"`
	}{req.SessionID, req.Header, req.Messages})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// checkPaired is what providers check: the results of an answer's calls follow
// it at once, in order, each once, and the first message is a user's.
func checkPaired(messages []sdkproto.Message) error {
	var open []string
	for i, m := range messages {
		results := 0
		for _, b := range m.Content {
			switch {
			case b.Type == sdkproto.BlockToolResult && (len(open) == 0 || open[0] != b.ToolCallID):
				return fmt.Errorf("message %d: a result for %q where %q are open", i, b.ToolCallID, open)
			case b.Type == sdkproto.BlockToolResult:
				open = open[1:]
				results++
			}
		}
		if results == 0 && len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %q", i, open)
		}
		if i == 0 && m.Role != sdkproto.RoleUser {
			return fmt.Errorf("the first message is of role %q", m.Role)
		}
		if m.Role == sdkproto.RoleAssistant {
			for _, b := range m.Content {
				if b.Type == sdkproto.BlockToolCall {
					open = append(open, b.ID)
				}
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the results of %q are missing", open)
	}
	return nil
}

// request is one line of the recorder.
type request struct {
	line     []byte
	Session  string            `json:"session"`
	Header   json.RawMessage   `json:"header"`
	Messages []json.RawMessage `json:"messages"`
}

func readRequests(home string) ([]request, error) {
	data, err := os.ReadFile(filepath.Join(home, requestsFile))
	if err != nil {
		return nil, err
	}
	var all []request
	for line := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		r := request{line: line}
		if err := wirejson.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", requestsFile, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// checkGrowing checks that each request of a session begins with the bytes of
// the one before it.
func checkGrowing(all []request) error {
	last := map[string]request{}
	for i, r := range all {
		before, ok := last[r.Session]
		last[r.Session] = r
		switch {
		case !ok:
		case !bytes.Equal(before.Header, r.Header):
			return fmt.Errorf("request %d has another header than the one before: %s, then %s", i+1, before.Header, r.Header)
		case len(r.Messages) < len(before.Messages):
			return fmt.Errorf("request %d has %d messages, the one before had %d", i+1, len(r.Messages), len(before.Messages))
		default:
			for j, m := range before.Messages {
				if !bytes.Equal(m, r.Messages[j]) {
					return fmt.Errorf("request %d: message %d was %s and is %s", i+1, j, m, r.Messages[j])
				}
			}
		}
	}
	return nil
}

// The recorder's checks must be able to fail.
func TestCheckPaired(t *testing.T) {
	user := sdkproto.Message{Role: sdkproto.RoleUser, Content: []sdkproto.Block{sdkproto.Text("hi")}}
	calls := func(ids ...string) sdkproto.Message {
		m := sdkproto.Message{Role: sdkproto.RoleAssistant}
		for _, id := range ids {
			m.Content = append(m.Content, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id})
		}
		return m
	}
	result := func(id string) sdkproto.Message {
		return sdkproto.Message{Role: sdkproto.RoleUser, Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: id}}}
	}
	for name, tc := range map[string]struct {
		messages []sdkproto.Message
		ok       bool
	}{
		"paired":         {[]sdkproto.Message{user, calls("a", "b"), result("a"), result("b"), calls(), user}, true},
		"missing":        {[]sdkproto.Message{user, calls("a", "b"), result("a")}, false},
		"late":           {[]sdkproto.Message{user, calls("a"), user, result("a")}, false},
		"twice":          {[]sdkproto.Message{user, calls("a"), result("a"), result("a")}, false},
		"reordered":      {[]sdkproto.Message{user, calls("a", "b"), result("b"), result("a")}, false},
		"of nothing":     {[]sdkproto.Message{user, result("a")}, false},
		"starts with it": {[]sdkproto.Message{calls(), user}, false},
	} {
		if err := checkPaired(tc.messages); (err == nil) != tc.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestCheckGrowing(t *testing.T) {
	r := func(session, header string, messages ...string) request {
		out := request{Session: session, Header: json.RawMessage(header)}
		for _, m := range messages {
			out.Messages = append(out.Messages, json.RawMessage(m))
		}
		return out
	}
	for name, tc := range map[string]struct {
		all []request
		ok  bool
	}{
		"grows":          {[]request{r("s", "h", "1"), r("t", "g", "2"), r("s", "h", "1", "3")}, true},
		"again":          {[]request{r("s", "h", "1"), r("s", "h", "1")}, true},
		"header":         {[]request{r("s", "h", "1"), r("s", "i", "1")}, false},
		"shorter":        {[]request{r("s", "h", "1", "2"), r("s", "h", "1")}, false},
		"other contents": {[]request{r("s", "h", "1", "2"), r("s", "h", "3", "2", "4")}, false},
	} {
		if err := checkGrowing(tc.all); (err == nil) != tc.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
