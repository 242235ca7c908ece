package jsonrpc_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// puppet is a model that does what the last user text says: "call NAME" calls a
// tool, "hang" streams a word and waits to be cancelled, all else is repeated.
// An answer costs 10 tokens of input and as many of output as it has bytes. It
// remembers which tools each request offered.
type puppet struct {
	mu      sync.Mutex
	offered [][]string
}

func (*puppet) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	if r.ReasoningEffort == "odd" {
		return r, sdkproto.AdapterDefaults{}, llm.Info{}, &llm.Error{Code: "UNSUPPORTED_REASONING_EFFORT", Message: "no effort odd"}
	}
	return r, sdkproto.AdapterDefaults{}, llm.Info{}, nil
}

func (m *puppet) Stream(ctx context.Context, r llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	m.mu.Lock()
	names := []string{}
	for _, t := range r.Header.Tools {
		names = append(names, t.Name)
	}
	m.offered = append(m.offered, names)
	m.mu.Unlock()
	return func(yield func(sdkproto.Chunk, error) bool) {
		last := r.Messages[len(r.Messages)-1]
		said := sdkproto.TextOf(last.Content)
		block, finish := sdkproto.Text(said), sdkproto.FinishStop
		switch name, call := strings.CutPrefix(said, "call "); {
		case call:
			block, finish = sdkproto.Block{Type: sdkproto.BlockToolCall, ID: "c1", Name: name, Arguments: "{}"}, sdkproto.FinishToolCalls
		case last.Content[0].Type == sdkproto.BlockToolResult:
			block = sdkproto.Text("after the call")
		}
		chunks := []sdkproto.Chunk{{Type: sdkproto.ChunkBlockStart, BlockType: block.Type}}
		if block.Text != "" {
			chunks = append(chunks, sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: block.Text})
		}
		chunks = append(chunks,
			sdkproto.Chunk{Type: sdkproto.ChunkBlockEnd, Block: &block},
			sdkproto.Chunk{Type: sdkproto.ChunkUsage, Usage: &sdkproto.Usage{InputTokens: 10, OutputTokens: int64(len(block.Text))}},
			sdkproto.Chunk{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: finish}})
		for _, c := range chunks {
			if c.Type == sdkproto.ChunkBlockEnd && said == "hang" {
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

func (m *puppet) offers() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.offered)
}

// stage is a composition with a puppet and two tools, read and write, whose
// registries the test can reach.
type stage struct {
	puppet *puppet
	agents agent.Registry
	tools  *tool.Registry
	owner  *kernel.Owner
}

type namedTool string

func (n namedTool) Spec() tool.Spec {
	return tool.Spec{Name: string(n), Description: "A tool.", Parameters: json.RawMessage(`{"type":"object"}`), ReadOnly: true}
}

func (n namedTool) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.TextResult("done by " + string(n)), nil
}

func (s *stage) row() kernel.Plugin {
	return kernel.Define("stage", "What the test reaches.", func() struct{} { return struct{}{} },
		func(in kernel.Instance, _ struct{}) fx.Option {
			return fx.Invoke(func(agents agent.Registry, tools *tool.Registry, router *llm.Router) error {
				s.puppet, s.agents, s.tools, s.owner = &puppet{}, agents, tools, in.Owner
				for _, name := range []string{"read", "write"} {
					if err := tools.Register(in.Owner, namedTool(name)); err != nil {
						return err
					}
				}
				return router.Register(in.Owner, "puppet", s.puppet)
			})
		}, kernel.Needs[agent.Registry](), kernel.Needs[*tool.Registry](), kernel.Needs[*llm.Router]())
}

// perform boots a composition with a stage.
func perform(t *testing.T, o composition) (*composed, *stage) {
	t.Helper()
	s := &stage{}
	o.rows += "  stage: {use: stage}\n"
	o.plugins = append(o.plugins, s.row())
	return compose(t, o), s
}

// greet initializes with the puppet and further members of the parameters.
func (c *composed) greet(more string) string {
	c.t.Helper()
	c.tell(`{"id":"i","method":"initialize","params":{"cwd":"/w","provider":"puppet","model":"m"` + more + `}}`)
	a, _ := c.answer(`"i"`)
	return a
}

// ask sends a request and gives its answer; what comes before is dropped.
func (c *composed) ask(method, params string) string {
	c.t.Helper()
	c.tell(`{"id":"ask","method":"` + method + `","params":` + params + `}`)
	a, _ := c.answer(`"ask"`)
	return a
}

// said gives what a session's turn is, up to idle.
func (c *composed) said(id, text string) []string {
	c.t.Helper()
	c.tell(prompt(`"said"`, id, text))
	return c.until(`"params":{"sessionId":"` + id + `","status":"idle"}`)
}

// of gives the lines that are notifications of a method.
func of(lines []string, method string) (out []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","method":"`+method+`",`) {
			out = append(out, l)
		}
	}
	return out
}

// messageID takes the id out of an answer to a prompt.
func messageID(t *testing.T, answer string) string {
	t.Helper()
	var a struct{ Result struct{ MessageID string } }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Result.MessageID == "" {
		t.Fatalf("no message id in %s (%v)", answer, err)
	}
	return a.Result.MessageID
}
