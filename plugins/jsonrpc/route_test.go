package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
)

const deepseek = `{"id":%q,"method":"initialize","params":{"cwd":"/w","provider":"deepseek-official","model":"m"}}`

// adapterRow is a plugin that answers for deepseek-official, and counts.
func adapterRow(name string, made *int) kernel.Plugin {
	return kernel.Define(name, "Stands in for an adapter.", func() struct{} { return struct{}{} },
		func(in kernel.Instance, _ struct{}) fx.Option {
			return fx.Invoke(func(r *llm.Router) error {
				*made++
				return r.Register(in.Owner, "deepseek-official", &puppet{})
			})
		}, kernel.Needs[*llm.Router]())
}

// Spec jsonrpc 3.3, 14 line 3; S107, S108, S142.
func TestFallbackAdapter(t *testing.T) {
	t.Run("mounted once, by whoever is first", func(t *testing.T) {
		made := 0
		c := compose(t, composition{plugins: []kernel.Plugin{adapterRow("llm-deepseek", &made)}})
		c.tell(`{"id":1,"method":"initialize","params":{"cwd":"/w","provider":"openai","model":"m"}}`)
		if a, _ := c.answer("1"); a != failed("1", -32602, `"no adapter registered for provider \"openai\"; registered providers: scripted"`) {
			t.Errorf("got %s", a)
		}
		if made != 0 {
			t.Fatal("mounted for another provider")
		}
		var lines []string
		for i := range 20 {
			lines = append(lines, fmt.Sprintf(deepseek, fmt.Sprint(i)))
		}
		c.tell(lines...)
		for range 20 {
			if a := c.next(); !strings.Contains(a, `"result":{"serverInfo"`) {
				t.Errorf("got %s", a)
			}
		}
		if made != 1 {
			t.Errorf("mounted %d times", made)
		}
		if all := strings.Join(c.said("s", "hello"), ""); !strings.Contains(all, `"provider":"deepseek-official"`) || !strings.Contains(all, `"kind":"completed"`) {
			t.Errorf("got %s", all)
		}
	})
	t.Run("one that is registered wins", func(t *testing.T) {
		mounted, own := 0, 0
		c := compose(t, composition{
			rows:    "  own: {use: llm-own}\n",
			plugins: []kernel.Plugin{adapterRow("llm-deepseek", &mounted), adapterRow("llm-own", &own)},
		})
		c.tell(fmt.Sprintf(deepseek, "i"))
		if a, _ := c.answer(`"i"`); a != initialized || mounted != 0 || own != 1 {
			t.Errorf("got %s; mounted %d, own %d", a, mounted, own)
		}
	})
	t.Run("for a prompt's options", func(t *testing.T) {
		made := 0
		c, _ := perform(t, composition{plugins: []kernel.Plugin{adapterRow("llm-deepseek", &made)}})
		c.greet("")
		c.tell(`{"id":1,"method":"session/prompt","params":{"sessionId":"s","contentBlocks":[],"options":{"provider":"deepseek-official"}}}`)
		if a, _ := c.answer("1"); !strings.Contains(a, "messageId") || made != 1 {
			t.Errorf("got %s, mounted %d", a, made)
		}
	})
	t.Run("plugin not built in", func(t *testing.T) {
		c := compose(t, composition{})
		c.tell(fmt.Sprintf(deepseek, "i"))
		a, _ := c.answer(`"i"`)
		for _, want := range []string{`"code":-32603`, `provider \"deepseek-official\" has no adapter, and its own cannot be started`, `unknown plugin \"llm-deepseek\"`} {
			if !strings.Contains(a, want) {
				t.Errorf("%s is not in %s", want, a)
			}
		}
		if a := c.ask("ping", "{}"); !strings.Contains(a, `"result":{"time":`) {
			t.Errorf("got %s", a)
		}
	})
	t.Run("without a loader", func(t *testing.T) {
		p := serve(t, setup{})
		p.send(fmt.Sprintf(deepseek, "i"))
		if got := p.next(); got != failed(`"i"`, -32602, `"no adapter registered for provider \"deepseek-official\"; registered providers: scripted"`) {
			t.Errorf("got %s", got)
		}
	})
}

// mounts is a loader that the test watches.
type mounts struct {
	mu      sync.Mutex
	fail    error
	entries []profile.Entry
	owner   *kernel.Owner
}

func (m *mounts) Mount(_ context.Context, e profile.Entry) (*kernel.Owner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, e)
	return m.owner, m.fail
}

// The adapter goes with the server's row; a failed mount is tried again.
func TestFallbackIsOwned(t *testing.T) {
	m := &mounts{fail: errors.New("no luck"), owner: kernel.NewOwner(context.Background(), "mounted")}
	p := serve(t, setup{mounter: m}, func(r *fakeRegistry) {
		r.route = func(route llm.Route) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.entries) < 2 {
				return &llm.NoAdapterError{Provider: route.Provider}
			}
			return nil
		}
	})
	p.send(fmt.Sprintf(deepseek, "1"))
	if got := p.next(); !strings.Contains(got, `no luck`) {
		t.Errorf("got %s", got)
	}
	m.mu.Lock()
	m.fail = nil
	m.mu.Unlock()
	p.send(fmt.Sprintf(deepseek, "2"))
	if got := p.next(); !strings.Contains(got, `"result"`) {
		t.Errorf("got %s", got)
	}
	if len(m.entries) != 2 || m.entries[1].ID != "deepseek-fallback" || m.entries[1].Use != "llm-deepseek" || string(m.entries[1].Config) != "{}" {
		t.Errorf("mounted %+v", m.entries)
	}
	if m.owner.Context().Err() != nil {
		t.Fatal("closed already")
	}
	if err := p.row.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if m.owner.Context().Err() == nil {
		t.Error("the adapter outlives the server")
	}
}
