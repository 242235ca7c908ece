package llmscripted

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// CodeScript is the code of a failure of the script itself: it cannot be read,
// or one of its templates asks for what is not there. It is not retried.
const CodeScript = "SCRIPT_ERROR"

// maxScriptBytes bounds a script file.
const maxScriptBytes = 1 << 20

//go:embed default.yaml
var defaultScript []byte

// Model answers requests from a script. It is an llm.Adapter.
type Model struct {
	config Config
	self   kernel.Instance
	router *llm.Router

	loaded   chan struct{} // closed once script may be called
	script   func() (*script, error)
	attempts attempts
}

var _ llm.Adapter = (*Model)(nil)

// New makes the model; register puts it behind its provider id and reads the
// script.
func New(p Params) (*Model, error) {
	return &Model{config: p.Config, self: p.Self, router: p.Router, loaded: make(chan struct{})}, nil
}

func (m *Model) register() error {
	if err := m.router.Register(m.self.Owner, m.config.Provider, m); err != nil {
		return err
	}
	if m.config.Script == "" {
		// Parsed by the first request: few processes ever make one.
		m.script = sync.OnceValues(func() (*script, error) { return parseScript("the built-in script", defaultScript) })
		close(m.loaded)
		return nil
	}
	m.self.Ready.Go("script of "+m.self.ID, true, m.load)
	return nil
}

// load runs as a required load task: a script that cannot be used fails
// `initialize`, with file and line.
func (m *Model) load(context.Context) error {
	defer close(m.loaded)
	read, err := readScript(m.config.Script)
	m.script = func() (*script, error) { return read, err }
	return err
}

func readScript(path string) (*script, error) {
	// A pipe or a device would keep the load task waiting.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read script %s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxScriptBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	if len(data) > maxScriptBytes {
		return nil, fmt.Errorf("read script %s: the file is larger than %d bytes", path, maxScriptBytes)
	}
	return parseScript(path, data)
}

// Resolve takes every model and effort, and has no defaults of its own. A script
// costs nothing, which is known.
func (m *Model) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return r, sdkproto.AdapterDefaults{}, llm.Info{ContextWindow: m.config.ContextWindow, Price: &llm.Price{Currency: "USD"}}, nil
}

// Stream answers with the first rule that matches. A request that comes before
// the script has been read waits for it.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		select {
		case <-m.loaded:
		case <-ctx.Done():
			yield(sdkproto.Chunk{}, ctx.Err())
			return
		}
		script, err := m.script()
		if err != nil {
			yield(sdkproto.Chunk{}, &llm.Error{Code: CodeScript, Message: err.Error()})
			return
		}
		s := &speaker{ctx: ctx, yield: yield, facts: factsOf(req)}
		attempt := 1
		if s.facts.aside == "" { // it is made beside the session's own requests
			attempt = m.attempts.begin(req)
		}
		err = s.answer(script, attempt)
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			yield(sdkproto.Chunk{}, err)
		case len(s.blocks) > 0 && s.facts.aside == "":
			m.attempts.end(req.SessionID)
		}
	}
}
