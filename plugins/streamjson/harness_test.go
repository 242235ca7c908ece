package streamjson_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/kernel/kerneltest"
	"dsh/plugins"
	"dsh/profiles"
)

// script is what the scripted model answers.
const script = `
rules:
  - when: {matches: '^time', step: 1}
    reply:
      - call: {tool: mcp__app__server_time, id: "time-{{turn}}"}
  - when: {matches: '^time', step: 2}
    reply: "Tool said: {{result}}"
  - when: {matches: '^hang'}
    reply:
      - {text: first}
      - delay: 10m
  - when: {matches: '^touch', step: 1}
    reply:
      - call: {tool: Bash, args: {command: "touch made"}}
  - when: {matches: '^touch', step: 2}
    reply: "{{if failed}}refused{{else}}done{{end}}"
  - when: {matches: '^nag'}
    reply:
      - call: {tool: Bash, args: {command: "touch made"}}
  - when: {matches: '^sleep', step: 1}
    reply:
      - call: {tool: Bash, args: {command: "sleep 600"}}
  - when: {matches: '^model'}
    reply: "I am {{model}}"
  - when: {matches: '^delegate', step: 1}
    reply:
      - call: {tool: Agent, args: {description: d, prompt: child, subagent_type: general-purpose, run_in_background: true}}
  - when: {matches: '^delegate', step: 2}
    reply: it works in the background
  - when: {matches: '^child'}
    reply:
      - {chunks: [some, " work"], every: 50ms}
  - when: {matches: 'general-purpose'}
    reply: it is done
  - when: {matches: '^fail'}
    reply:
      - error: {code: INVALID_REQUEST, status: 400, message: no good}
  - reply:
      - {text: "said {{user}}"}
      - usage: {inputTokens: 10, outputTokens: 5}
`

// client drives a booted profile from outside.
type client struct {
	*kerneltest.Booted
	t   *testing.T
	log kerneltest.Log

	mu    sync.Mutex
	lines []line
	next  int
	came  chan struct{}
	ended bool
	// answer is called for every control_request of the server; nil answers none.
	answer func(id string, request line) any
}

// line is one line of the wire.
type line map[string]any

// at follows keys into a line.
func (l line) at(keys ...string) any {
	var v any = map[string]any(l)
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			if list, isList := v.([]any); isList && k == "0" && len(list) > 0 {
				v = list[0]
				continue
			}
			return nil
		}
		v = m[k]
	}
	return v
}

func (l line) str(keys ...string) string {
	s, _ := l.at(keys...).(string)
	return s
}

// kind is the type of a line and its subtype, and of an assistant or user line
// the type of its first block.
func (l line) kind() string {
	kind := l.str("type")
	for _, more := range []string{l.str("subtype"), l.str("message", "content", "0", "type"), l.str("request", "subtype"), l.str("response", "subtype")} {
		if more != "" {
			kind += "/" + more
		}
	}
	return kind
}

// start boots profile stream-json in a new folder.
func start(t *testing.T, sets ...string) *client {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	return startHere(t, t.TempDir(), sets...)
}

// startHere is start in the present folder, with a home.
func startHere(t *testing.T, home string, sets ...string) *client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, came: make(chan struct{})}
	c.Booted = kerneltest.Boot(t, kerneltest.Options{
		Profile: "stream-json", FS: profiles.FS, Plugins: plugins.Builtin(), Home: home,
		Sets: append([]string{"scripted.script=" + file, "front.legacyLines=false"}, sets...),
		Log:  slog.New(slog.NewTextHandler(&c.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	go c.read()
	return c
}

func (c *client) read() {
	in := bufio.NewReaderSize(c.Out, 1<<20)
	for {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			c.ended = true
			close(c.came)
			c.came = make(chan struct{})
			c.mu.Unlock()
			return
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil || l.str("type") == "" || l.str("type") == "error" || l.str("type") == "end" {
			c.t.Errorf("bad line (F5, F6, B04): %s", raw)
			continue
		}
		c.mu.Lock()
		c.lines = append(c.lines, l)
		answer := c.answer
		close(c.came)
		c.came = make(chan struct{})
		c.mu.Unlock()
		if l.str("type") == "control_request" && answer != nil {
			id := l.str("request_id")
			if response := answer(id, l); response != nil {
				c.send(map[string]any{"type": "control_response", "response": map[string]any{
					"subtype": "success", "request_id": id, "response": response,
				}})
			}
		}
	}
}

func (c *client) send(lines ...any) {
	c.t.Helper()
	var b []byte
	for _, l := range lines {
		if s, ok := l.(string); ok {
			b = append(b, s...)
		} else {
			encoded, err := json.Marshal(l)
			if err != nil {
				c.t.Fatal(err)
			}
			b = append(b, encoded...)
		}
		b = append(b, '\n')
	}
	if _, err := c.In.Write(b); err != nil {
		c.t.Error(err)
	}
}

func control(id, subtype string, members ...any) map[string]any {
	request := map[string]any{"subtype": subtype}
	for i := 0; i < len(members); i += 2 {
		request[members[i].(string)] = members[i+1]
	}
	return map[string]any{"type": "control_request", "request_id": id, "request": request}
}

func user(text string, members ...any) map[string]any {
	l := map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}, "parent_tool_use_id": nil}
	for i := 0; i < len(members); i += 2 {
		l[members[i].(string)] = members[i+1]
	}
	return l
}

const patience = 20 * time.Second

// await gives the next line, after those that were awaited before, that fits.
func (c *client) await(what string, fits func(line) bool) line {
	c.t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		for c.next < len(c.lines) {
			l := c.lines[c.next]
			c.next++
			if fits(l) {
				c.mu.Unlock()
				return l
			}
		}
		came, ended := c.came, c.ended
		c.mu.Unlock()
		if ended {
			c.t.Fatalf("the output ended without %s: %s\nlog: %s", what, c.show(), c.log.String())
		}
		select {
		case <-came:
		case <-limit:
			c.t.Fatalf("no %s: %s\nlog: %s", what, c.show(), c.log.String())
		}
	}
}

// kind awaits a line of a kind.
func (c *client) kind(kind string) line {
	c.t.Helper()
	return c.await(kind, func(l line) bool { return l.kind() == kind || strings.HasPrefix(l.kind(), kind+"/") })
}

// response awaits the answer to a request.
func (c *client) response(id string) line {
	c.t.Helper()
	return c.await("an answer to "+id, func(l line) bool { return l.str("type") == "control_response" && l.str("response", "request_id") == id })
}

func (c *client) result() line {
	c.t.Helper()
	return c.kind("result")
}

// rest closes the input, and gives all lines and the exit code.
func (c *client) rest() (lines []line, code int) {
	c.t.Helper()
	if err := c.In.Close(); err != nil {
		c.t.Error(err)
	}
	code = c.WaitExit(c.t)
	return c.settled(), code
}

// settled gives all lines of a profile that has exited.
func (c *client) settled() []line {
	c.t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		lines, came, ended := slices.Clone(c.lines), c.came, c.ended
		c.mu.Unlock()
		if ended {
			return lines
		}
		select {
		case <-came:
		case <-limit:
			c.t.Fatalf("the output does not end: %s\nlog: %s", c.show(), c.log.String())
		}
	}
}

func (c *client) show() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, l := range c.lines {
		raw, _ := json.Marshal(l)
		fmt.Fprintf(&b, "\n%.600s", raw)
	}
	return b.String()
}

func kinds(lines []line) []string {
	list := make([]string, len(lines))
	for i, l := range lines {
		list[i] = l.kind()
	}
	return list
}
