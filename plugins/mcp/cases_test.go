package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"dsh/kernel"
	contract "dsh/kernel/mcp"
	"dsh/kernel/process/processtest"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// B24 e: a tool that appears late passes the same filter.
func TestB24LateToolPassesTheFilter(t *testing.T) {
	var tools *tool.Registry
	r := start(t, servers(quick(), map[string]Server{"good": stdio(t, "good")}), func(p *Params) { tools = p.Tools })
	allowed := tools.View([]*tool.Filter{{Allow: []string{"mcp__good__grow", "mcp__good__echo"}}})
	r.good("mcp__good__grow", map[string]string{"text": "fresh"})
	until(t, "the new tool is listed", func() bool { return slices.Contains(r.names(), "mcp__good__fresh") })
	if got := r.good("mcp__good__fresh", map[string]string{}); got != "grown" {
		t.Errorf("got %q", got)
	}
	if _, ok := allowed.Lookup("mcp__good__fresh"); ok {
		t.Error("a late tool that is not allowed can be called")
	}
	r.good("mcp__good__shrink", map[string]string{"text": "fresh"})
	until(t, "the tool is gone", func() bool { return !slices.Contains(r.names(), "mcp__good__fresh") })
}

// B32: servers that never answer, or go at once, cost the others nothing and
// are named with the reason.
func TestB32BadServersDoNotBlockTheStart(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer plain.Close()
	c := quick()
	c.ConnectTimeout = kernel.Duration(1500 * time.Millisecond)
	c.Reconnect.Attempts = 0
	marker := fmt.Sprintf("B32_MARK=%d_", os.Getpid())
	r := compose(t, servers(c, map[string]Server{
		"good": stdio(t, "good"), "mute": stdio(t, "mute", marker), "exit": stdio(t, "exit", marker), "plain": {URL: plain.URL},
	}))
	r.loaded()
	if got := r.good("mcp__good__echo", map[string]string{"text": "a"}); got != "echo a" {
		t.Errorf("got %q", got)
	}
	for name, words := range map[string][]string{
		"mute":  {"no answer within 1.5s", "thinking"},
		"exit":  {"exit status 3", "no database here"},
		"plain": {"text/plain"},
	} {
		got := r.state(name)
		if got.State != contract.Failed {
			t.Errorf("%s: %+v", name, got)
		}
		for _, w := range words {
			if !strings.Contains(got.Error, w) {
				t.Errorf("%s: %q lacks %q", name, got.Error, w)
			}
		}
	}
	until(t, "no child of a failed server is left", func() bool { return len(marked(t, marker)) == 0 })
}

// B33: the start waits for a list that takes its time, follows its pages, and a
// change joins later.
func TestB33LateListIsWaitedFor(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"late": stdio(t, "late")}))
	if diff := cmp.Diff([]string{"mcp__late__one", "mcp__late__two"}, r.names()); diff != "" {
		t.Errorf("tools after loading (-want +got):\n%s", diff)
	}
	until(t, "the third tool joins", func() bool { return slices.Contains(r.names(), "mcp__late__three") })
	if got := r.good("mcp__late__three", map[string]string{}); got != "called three" {
		t.Errorf("got %q", got)
	}
}

// B34: names are valid, unique and the same at every start; the server gets its
// own.
func TestB34Names(t *testing.T) {
	long := strings.Repeat("a", 120)
	odd := []string{long, long + "b", "files/read", "files.read", "files read", "übersicht", "read"}
	list := func(names []string) string {
		var entries []string
		for _, n := range names {
			entries = append(entries, named(n))
		}
		return `[` + strings.Join(entries, ",") + `]`
	}
	run := func(reverse bool) map[string]string {
		names := slices.Clone(odd)
		if reverse {
			slices.Reverse(names)
		}
		r := start(t, servers(quick(), map[string]Server{
			"my.server": stdio(t, "fixed:"+listFile(t, list(names))),
			"other":     stdio(t, "fixed:"+listFile(t, list([]string{"read"}))),
			"twice":     stdio(t, "fixed:"+listFile(t, list([]string{"read", "ping", "read"}))),
		}))
		calls := map[string]string{}
		for _, name := range r.names() {
			if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
				t.Errorf("a provider refuses %q", name)
			}
			if _, again := calls[name]; again {
				t.Errorf("%q is there twice", name)
			}
			calls[name] = strings.TrimSuffix(r.good(name, map[string]string{}), " {}")
		}
		return calls
	}
	first := run(false)
	if len(first) != len(odd)+3 {
		t.Errorf("%d tools: %v", len(first), first)
	}
	var raws []string
	for _, raw := range first {
		raws = append(raws, raw)
	}
	if diff := cmp.Diff(sorted(append(slices.Clone(odd), "read", "ping", "read")), sorted(raws)); diff != "" {
		t.Errorf("names that the servers got (-want +got):\n%s", diff)
	}
	for public, raw := range map[string]string{"mcp__my_server__read": "read", "mcp__my_server___bersicht": "übersicht", "mcp__other__read": "read", "mcp__twice__ping": "ping"} {
		if first[public] != raw {
			t.Errorf("%s calls %q, want %q", public, first[public], raw)
		}
	}
	if diff := cmp.Diff(first, run(true)); diff != "" {
		t.Errorf("another order gives other names (-first +second):\n%s", diff)
	}
}

// B35: schemas that a provider refuses are made to fit or leave one tool out,
// each with a line in the log; the others work.
func TestB35Schemas(t *testing.T) {
	tools := map[string]string{
		"oneof":   `{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}`,
		"ifthen":  `{"type":"object","properties":{"a":{"type":"string"}},"allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}}]}`,
		"defs":    `{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"type":"string"}}}`,
		"recurse": `{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"}}}}}`,
		"notype":  `{"properties":{"a":{"type":"string"}}}`,
		"null":    `{"type":["object","null"],"properties":{}}`,
		"big":     `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 300<<10) + `"}}}`,
		"true":    `true`,
		"never":   `false`,
		"fine":    `{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":9007199254740993}},"required":["z"]}`,
	}
	entries := []string{`{"name":"outputs","inputSchema":{"type":"object","properties":{}},"outputSchema":{}}`, `{"name":7}`, `null`, `{"name":"hints","annotations":{"readOnlyHint":"yes"},"inputSchema":{"type":"object","properties":{}}}`}
	for name, schema := range tools {
		entries = append(entries, `{"name":"`+name+`","inputSchema":`+schema+`}`)
	}
	r := start(t, servers(quick(), map[string]Server{"s": stdio(t, "fixed:"+listFile(t, `[`+strings.Join(entries, ",")+`]`))}))
	names := r.names()
	if len(names) != len(tools)-1+2 || slices.Contains(names, "mcp__s__never") {
		t.Errorf("tools %q", names)
	}
	for _, tl := range r.view.List() {
		spec := tl.Spec()
		var top map[string]json.RawMessage
		if err := json.Unmarshal(spec.Parameters, &top); err != nil {
			t.Errorf("%s: %v", spec.Name, err)
		}
		if string(top["type"]) != `"object"` || len(spec.Parameters) > defaults().MaxSchema {
			t.Errorf("%s: a provider refuses %.300s", spec.Name, spec.Parameters)
		}
		for _, key := range []string{"oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "$ref"} {
			if _, there := top[key]; there {
				t.Errorf("%s: a provider refuses %s at the top", spec.Name, key)
			}
		}
		if spec.Name == "mcp__s__fine" && string(spec.Parameters) != tools["fine"] {
			t.Errorf("a good schema has changed: %s", spec.Parameters)
		}
	}
	log := r.log.String()
	for _, name := range []string{"oneof", "ifthen", "big", "true", "never"} {
		if strings.Count(log, "tool="+name+" ") != 1 {
			t.Errorf("%s is named %d times in the log", name, strings.Count(log, "tool="+name+" "))
		}
	}
	if strings.Contains(log, "tool=fine") {
		t.Error("the good schema is complained about")
	}
	if got := r.good("mcp__s__fine", map[string]string{"z": "1"}); got != `fine {"z":"1"}` {
		t.Errorf("got %q", got)
	}
}

// B37: a server that dies in a call ends the call soon, which is not made again;
// it comes back with its names, and a crash loop is given up.
func TestB37DeathInACall(t *testing.T) {
	s := stdio(t, "good")
	c := quick()
	c.Reconnect = Reconnect{Attempts: 3, First: kernel.Duration(10 * time.Millisecond), Most: kernel.Duration(time.Minute)}
	r := start(t, servers(c, map[string]Server{"good": s}))
	names := r.names()
	for i := range 3 {
		r.bad("mcp__good__transfer", map[string]string{}, codeLost, `"good"`, "not known", "not made again", "exit status 7")
		if got := marks(t, s, "ledger"); got != i+1 {
			t.Fatalf("the ledger has %d lines after %d calls", got, i+1)
		}
		if diff := cmp.Diff(names, r.names()); diff != "" {
			t.Errorf("names meanwhile (-want +got):\n%s", diff)
		}
		if got := r.good("mcp__good__echo", map[string]string{"text": "again"}); got != "echo again" {
			t.Errorf("got %q", got)
		}
	}
	r.bad("mcp__good__transfer", map[string]string{}, codeLost)
	until(t, "it is given up", func() bool {
		return r.state("good").State == contract.Failed && strings.Contains(r.state("good").Error, "given up after 4")
	})
	if got := r.names(); len(got) != 0 {
		t.Errorf("tools %q of a server that is given up", got)
	}
	if err := r.Reconnect(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names, r.names()); diff != "" {
		t.Errorf("names afterwards (-want +got):\n%s", diff)
	}
}

// B37: a server that cannot start is started no more often than said.
func TestB37NumberOfStarts(t *testing.T) {
	s := stdio(t, "exit")
	r := start(t, servers(quick(), map[string]Server{"exit": s}))
	until(t, "it is given up", func() bool { return strings.Contains(r.state("exit").Error, "given up after 4") })
	if got := marks(t, s, "starts"); got != 4 {
		t.Errorf("%d starts, want 1 and 3 more", got)
	}
}

// B39: answers in any order go to their calls, errors keep their flag, and the
// call without one is withdrawn when the turn is.
func TestB39OverlappingCalls(t *testing.T) {
	s := stdio(t, "reverse")
	r := start(t, servers(quick(), map[string]Server{"s": s}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var rest sync.WaitGroup
	for n := range 20 {
		group := &rest
		if n == 13 {
			group = &wg
		}
		group.Go(func() {
			res := r.call(ctx, "mcp__s__n", map[string]int{"n": n})
			want, isError := fmt.Sprint("good ", n), false
			switch {
			case n == 13:
				want, isError = "Error: mcp__s__n was cancelled", true
			case n%4 == 0:
				want, isError = fmt.Sprint("bad ", n), true
			}
			if got := sdkproto.TextOf(res.Content); got != want || res.IsError != isError {
				t.Errorf("call %d: got %q (error: %v), want %q", n, got, res.IsError, want)
			}
		})
	}
	rest.Wait()
	cancel()
	wg.Wait()
	until(t, "the call is withdrawn", func() bool { return marks(t, s, "cancelled") == 1 })
}

// B76: nothing of a server outlives the harness, however it forks.
func TestB76NoChildIsLeft(t *testing.T) {
	modes := []string{"good", "mute", "stubborn", "launcher:", "launcher:apart", "forking:", "forking:apart"}
	for end, do := range map[string]func(context.Context, *rig) error{
		// R13: within the limit of coming to rest.
		"quiesce": func(ctx context.Context, r *rig) error { return r.root.Quiesce(ctx) },
		"close":   func(ctx context.Context, r *rig) error { return r.owner.Close(ctx) },
		"disable": func(ctx context.Context, r *rig) error {
			var all errgroup.Group
			for _, s := range r.List() {
				all.Go(func() error { return r.Enable(ctx, s.Name, false) })
			}
			return all.Wait()
		},
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.ConnectTimeout = kernel.Duration(2 * time.Second)
			c.Servers = map[string]Server{}
			marker := func(mode string) string { return fmt.Sprintf("B76_MARK=%d_%s_%s_", os.Getpid(), end, mode) }
			for _, mode := range modes {
				c.Servers[mode] = stdio(t, mode, marker(mode))
			}
			r := compose(t, c)
			for _, mode := range modes {
				until(t, mode+" runs", func() bool { return mode == "mute" || r.state(mode).State == contract.Connected })
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := do(ctx, r); err != nil {
				t.Error(err)
			}
			for _, mode := range modes {
				if left := marked(t, marker(mode)); len(left) > 0 {
					t.Errorf("%s: %d processes are left", mode, len(left))
				}
			}
		})
	}
}

// B76: nor does anything when the harness is killed.
func TestB76HarnessIsKilled(t *testing.T) {
	t.Parallel()
	marker := fmt.Sprintf("B76_KILL=%d_", os.Getpid())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), serverVariable+"=harness:good,stubborn,forking:,forking:apart", marker)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		var state string
		if _, err := fmt.Fscanln(out, &state); err != nil || state != contract.Connected {
			t.Errorf("a server is %q, %v", state, err)
		}
	}
	// The harness, four servers, and what two of them have started.
	if got := len(marked(t, marker)); got < 7 {
		t.Errorf("%d processes run", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	until(t, "nothing is left", func() bool { return len(marked(t, marker)) == 0 })
}

// What is no message harms nothing, nor does a message with noise in front, an
// id given back as text, or a list of messages.
func TestNoise(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"noisy": stdio(t, "noisy")}))
	for _, text := range []string{"a", "b"} {
		if got := r.good("mcp__noisy__echo", map[string]string{"text": text}); got != `noise {"text":"`+text+`"}` {
			t.Errorf("got %q", got)
		}
	}
	if !strings.Contains(r.log.String(), "Welcome!") {
		t.Error("the noise is not logged")
	}
}

// A flood of notices and of noise, and an answer without end, harm only the
// call that it answers; the log stays short.
func TestFlood(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"flood": stdio(t, "flood"), "good": stdio(t, "good")}))
	r.bad("mcp__flood__huge", map[string]string{}, codeLost, "longer than 32 MiB")
	if got := r.good("mcp__flood__echo", map[string]string{}); got != "dry" {
		t.Errorf("got %q", got)
	}
	if got := r.good("mcp__good__echo", map[string]string{"text": "f"}); got != "echo f" {
		t.Errorf("got %q", got)
	}
	if n := len(r.log.String()); n > 1<<20 {
		t.Errorf("the log has %d bytes", n)
	}
}

// B91, B92: characters arrive whole however they are cut.
func TestB92Characters(t *testing.T) {
	r := start(t, servers(quick(), map[string]Server{"s": stdio(t, "bytewise")}))
	if got := r.good("mcp__s__echo", map[string]string{}); got != strange {
		t.Errorf("got %q, want %q", got, strange)
	}
}

// B37: the same over HTTP: an error page, no answer at all, a session that is
// gone.
func TestB37OverHTTP(t *testing.T) {
	var mu sync.Mutex
	broken, calls, starts := "", 0, 0
	hang := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		mu.Lock()
		how := broken
		mu.Unlock()
		switch m.Method {
		case "initialize":
			mu.Lock()
			starts++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("session", starts))
			mu.Unlock()
			answer(initialized)
		case "tools/list":
			answer(`{"tools":[` + named("transfer") + `]}`)
		case "tools/call":
			mu.Lock()
			calls++
			mu.Unlock()
			switch how {
			case "500":
				http.Error(w, "oops", http.StatusInternalServerError)
			case "404":
				http.NotFound(w, r)
			case "hang":
				select {
				case <-hang:
				case <-r.Context().Done():
				}
			default:
				answer(textResult("done"))
			}
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer front.Close()
	defer close(hang)
	r := start(t, servers(quick(), map[string]Server{"s": {URL: front.URL, Timeout: kernel.Duration(500 * time.Millisecond)}}))
	for i, tc := range []struct{ how, code string }{{"500", codeLost}, {"hang", codeTimeout}, {"404", codeLost}} {
		mu.Lock()
		broken = tc.how
		mu.Unlock()
		r.bad("mcp__s__transfer", map[string]string{}, tc.code, `"s"`, "not known")
		mu.Lock()
		if calls != i*2+1 {
			t.Errorf("%s: %d requests for %d calls", tc.how, calls, i*2+1)
		}
		broken = ""
		mu.Unlock()
		if got := r.good("mcp__s__transfer", map[string]string{}); got != "done" {
			t.Errorf("got %q", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if starts != 2 {
		t.Errorf("%d sessions, want a second one after the first was gone", starts)
	}
}

func marked(t *testing.T, marker string) []int {
	t.Helper()
	pids, err := processtest.Marked(marker)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}
