package external

import (
	"context"
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

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/sdkproto/wirejson"
)

// sessions is a registry of agents that only have logs.
type sessions struct {
	agent.Registry
	mu      sync.Mutex
	agents  []*live
	watches []func(agent.Agent, agent.Spec)
}

// live is an agent that only has a log, which is its own writer.
type live struct {
	agent.Agent
	id      string
	log     *session.Log
	life    context.Context
	end     context.CancelFunc
	mu      sync.Mutex
	records []session.Record
}

func (l *live) ID() string            { return l.id }
func (l *live) Log() *session.Log     { return l.log }
func (l *live) Life() context.Context { return l.life }

func (l *live) Append(records []session.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, records...)
	return nil
}
func (l *live) Sync(context.Context) error { return nil }
func (l *live) Close() error               { return nil }

func (s *sessions) plugin() kernel.Plugin {
	return kernel.Define("sessions", "Provides sessions.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option {
			return fx.Provide(func() agent.Registry { return s })
		}, kernel.Provides[agent.Registry]())
}

func (s *sessions) Watch(_ *kernel.Owner, fn func(agent.Agent, agent.Spec)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.agents {
		fn(l, agent.Spec{})
	}
	s.watches = append(s.watches, fn)
	return nil
}

func (s *sessions) Events(_ context.Context, id string, from int64, fn func(*session.Record) error) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.agents, func(l *live) bool { return l.id == id })
	if i < 0 {
		s.mu.Unlock()
		return session.ErrNotFound
	}
	l := s.agents[i]
	s.mu.Unlock()
	l.mu.Lock()
	records := slices.Clone(l.records)
	l.mu.Unlock()
	for i := range records {
		if records[i].Event.Seq >= from {
			if err := fn(&records[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sessions) open(id string) *live {
	l := &live{id: id}
	l.life, l.end = context.WithCancel(context.Background())
	l.log = session.NewLog(session.Header{ID: id}, l, 0, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents = append(s.agents, l)
	for _, fn := range s.watches {
		fn(l, agent.Spec{})
	}
	return l
}

func (l *live) say(t *testing.T, eventType, what string) {
	t.Helper()
	data, err := wirejson.Marshal(map[string]string{"what": what})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.log.Append(session.Draft{Type: eventType, Data: json.RawMessage(data), Ignorable: true}); err != nil {
		t.Fatal(err)
	}
}

// heard gives the lines that the plugin has written, once there are n.
func heard(t *testing.T, path string, n int) []string {
	t.Helper()
	var lines []string
	eventually(t, fmt.Sprintf("%d events are heard", n), func() bool {
		text, _ := os.ReadFile(path)
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(text) > 0 && len(lines) >= n
	})
	return lines
}

func eventful(t *testing.T) (b *booted, s *sessions, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events")
	t.Setenv("PLUGIN_TEST_EVENTS", path)
	s = &sessions{}
	b = boot(t, "  sessions: {use: sessions}\n"+rowOf(t, "it", "eventful", "host: {env: [PLUGIN_TEST_EVENTS]}"), s.plugin())
	return b, s, path
}

// A sink hears the events it wants, those of a session in order, from its next
// event on, and also the last ones before the end.
func TestEvents(t *testing.T) {
	b, s, path := eventful(t)
	one := s.open("one")
	one.say(t, "test/early", "before the plugin runs or not")
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	two := s.open("two")
	const n = 1000
	for i := range n {
		two.say(t, "test/a", "x")
		if i%10 == 0 {
			two.say(t, "other/b", "not wanted")
			one.say(t, "turn/end", "x")
			one.say(t, "turn/start", "not wanted")
		}
	}
	one.end()
	b.stop(t)
	var of = map[string][]string{}
	for _, line := range heard(t, path, n+n/10) {
		id, rest, _ := strings.Cut(line, " ")
		if strings.HasSuffix(rest, "test/early") {
			continue
		}
		of[id] = append(of[id], rest)
	}
	var wantTwo, wantOne []string
	seq := 0
	for i := range n {
		wantTwo = append(wantTwo, fmt.Sprint(seq, " test/a"))
		if seq++; i%10 == 0 {
			seq++
		}
	}
	for i := range n / 10 {
		wantOne = append(wantOne, fmt.Sprint(1+2*i, " turn/end"))
	}
	if !slices.Equal(of["two"], wantTwo) {
		t.Errorf("of session two %d events were heard, want %d: %.200v", len(of["two"]), len(wantTwo), of["two"])
	}
	if !slices.Equal(of["one"], wantOne) {
		t.Errorf("of session one %d events were heard, want %d: %.200v", len(of["one"]), len(wantOne), of["one"])
	}
}

// A sink that crashes gets the rest from the log, behind its last
// acknowledgement: nothing is left out, and what was not acknowledged comes again.
func TestEventsAfterCrash(t *testing.T) {
	b, s, path := eventful(t)
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	l := s.open("one")
	const n = 600
	for i := range n {
		what := "x"
		if i == 100 {
			what = "die once"
		}
		l.say(t, "test/a", what)
	}
	// How many come again depends on the acknowledgements; the last comes once.
	last := fmt.Sprintf("one %d test/a", n-1)
	seen := map[string]int{}
	eventually(t, "the last event is heard", func() bool {
		clear(seen)
		for _, line := range heard(t, path, n) {
			seen[line]++
		}
		return seen[last] > 0
	})
	for i := range n {
		line := fmt.Sprintf("one %d test/a", i)
		// Acknowledgements may be lost in the crash.
		if times := seen[line]; times < 1 || times > 2 || times == 2 && i > 100 {
			t.Errorf("event %d was heard %d times", i, times)
		}
	}
	b.stop(t)
}

// An event that a sink cannot take is sent a few times, and then the sink is
// given up; nothing else of the plugin or the harness suffers (case B73).
func TestEventsPoison(t *testing.T) {
	b, s, path := eventful(t)
	if err := b.ready(t, "it"); err != nil {
		t.Fatal(err)
	}
	l := s.open("one")
	l.say(t, "test/a", "x")
	heard(t, path, 1)
	l.say(t, "test/a", "poison")
	l.say(t, "test/a", "x")
	eventually(t, "the sink is given up", func() bool { return strings.Contains(b.log.String(), "the plugin gets no more events") })
	wantAll(t, b.log.String(), "this one I cannot take")
	l.say(t, "test/a", "x")
	b.stop(t)
	if lines := heard(t, path, 1); len(lines) != 1 {
		t.Errorf("heard %v", lines)
	}
}

// byHand composes the row of a plugin without a kernel (S121).
func byHand(t testing.TB, play string, p Params) *row {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	o := kernel.NewOwner(context.Background(), "test")
	p.Self = kernel.Instance{ID: "it", Owner: o, Log: log, Ready: kernel.NewReady(o, log), Root: kernel.NewRoot(o)}
	env := p.Config.Host.Env
	p.Config = defaults()
	p.Config.Host.Env = env
	r := newRow(p, &profile.Entry{ID: "it"}, executableNamed(t, play))
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.begin()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.Self.Ready.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Self.Ready.States() {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
	return r
}

func (r *row) pid() int { return r.sup.current.program.cmd.Process.Pid }

// A plugin that is behind holds up nobody and costs bounded memory: what it does
// not take is read back from the log.
func TestEventsBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	t.Setenv("PLUGIN_TEST_EVENTS", path)
	s := &sessions{}
	r := byHand(t, "eventful", Params{Agents: s, Config: Config{Host: Host{Env: []string{"PLUGIN_TEST_EVENTS"}}}})
	freeze(t, r.pid())
	l := s.open("one")
	const n = maxBuffered + 3000
	for range n {
		if err := l.log.Room(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.say(t, "test/a", "x")
	}
	state := func() (buffered, inFlight, sessions int) {
		r.sink.mu.Lock()
		defer r.sink.mu.Unlock()
		return r.sink.buffered, r.sink.inFlight, len(r.sink.sessions)
	}
	eventually(t, "memory and window are full", func() bool {
		buffered, inFlight, _ := state()
		return buffered == maxBuffered && inFlight == window
	})
	thaw(t, r.pid())
	lines := heard(t, path, n)
	for i := range n {
		if want := fmt.Sprintf("one %d test/a", i); lines[i] != want {
			t.Fatalf("event %d: heard %q, want %q", i, lines[i], want)
		}
	}
	l.end()
	eventually(t, "the session is forgotten", func() bool {
		buffered, inFlight, sessions := state()
		return buffered == 0 && inFlight == 0 && sessions == 0
	})
}
