package kernel_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"

	"dsh/kernel"
)

// shelf is what rows put things on, as tools on a registry.
type shelf struct {
	mu    sync.Mutex
	items []item
}

type item struct {
	owner *kernel.Owner
	name  string
}

func (s *shelf) put(o *kernel.Owner, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.items {
		if x.name == name && kernel.Clash(x.owner, o) {
			return errors.New("the name " + name + " is taken")
		}
	}
	s.items = append(s.items, item{o, name})
	slices.SortStableFunc(s.items, func(a, b item) int { return kernel.Compare(a.owner, b.owner) })
	return o.OnClose(name, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.items = slices.DeleteFunc(s.items, func(x item) bool { return x.owner == o && x.name == name })
		return nil
	})
}

func (s *shelf) at(g kernel.Generation) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, x := range s.items {
		if x.owner.LiveAt(g) {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, " ")
}

type thing struct {
	Name string `json:"name"`
	// Fail makes the row fail to start, LoadFails its required load task.
	Fail, LoadFails bool
}

func shelves(s *shelf) []kernel.Plugin {
	return []kernel.Plugin{
		front(),
		kernel.Define("thing", "Puts a thing on the shelf.", func() thing { return thing{} },
			func(in kernel.Instance, c thing) fx.Option {
				return fx.Invoke(func() error {
					if c.LoadFails {
						in.Ready.Go("load "+in.ID, true, func(context.Context) error { return errors.New("cannot load") })
					}
					if c.Fail {
						return errors.New("cannot start")
					}
					return s.put(in.Owner, c.Name)
				})
			}),
		kernel.Define("seam", "Provides a seam and takes changes in place.", func() thing { return thing{} },
			func(in kernel.Instance, c thing) fx.Option {
				own := in.Owner.ChildAt("own", 0)
				return fx.Options(
					fx.Provide(func() greeter { return english{c.Name} }),
					fx.Invoke(func() error {
						kernel.OnReload(in, func(_ context.Context, c thing, next *kernel.Next) error {
							made := next.Owner(in.Owner, "own", 0)
							if c.Fail {
								return errors.New("cannot change")
							}
							before := own
							next.Retire(before)
							next.Commit(func() { own = made })
							return s.put(made, c.Name)
						})
						return s.put(own, c.Name)
					}))
			}, kernel.Provides[greeter]()),
		kernel.Define("rigid", "Provides a seam and takes no changes.", func() thing { return thing{} },
			func(_ kernel.Instance, c thing) fx.Option { return fx.Provide(func() *thing { return &c }) },
			kernel.Provides[*thing]()),
	}
}

const before = `
plugins:
  seam: {use: seam, config: {name: seam}}
  rigid: {use: rigid, config: {name: r}}
  a: {use: thing, config: {name: a}}
  b: {use: thing, config: {name: b}}
  c: {use: thing, config: {name: c}}
  f: {use: front}
`

func TestReload(t *testing.T) {
	for name, tt := range map[string]struct {
		profile string
		want    string // on the shelf afterwards
		changed []string
		err     string
	}{
		"nothing": {before, "seam a b c", nil, ""},
		"a row changes and keeps its place": {
			strings.Replace(before, "name: a}", "name: A}", 1), "seam A b c", []string{"changed a"}, ""},
		"one goes and one comes": {
			strings.Replace(before, "  b: {use: thing, config: {name: b}}", "  d: {use: thing, config: {name: d}}", 1),
			"seam a d c", []string{"added d", "removed b"}, ""},
		"a row is switched off": {
			strings.Replace(before, "name: b}", "name: b}, enabled: false", 1), "seam a c", []string{"removed b"}, ""},
		"in place": {
			strings.Replace(before, "name: seam}", "name: other}", 1), "other a b c", []string{"changed seam"}, ""},
		"names change hands": {
			strings.NewReplacer("name: a}", "name: b}", "name: b}", "name: a}").Replace(before), "seam b a c", []string{"changed a", "changed b"}, ""},
		"the front end goes": {
			strings.Replace(before, "use: front}", "use: front, enabled: false}", 1), "seam a b c", []string{"removed f"}, ""},
		"a row that does not start": {
			strings.Replace(before, "name: a}", "name: A, Fail: true}", 1), "seam a b c", nil, "embedded:test.yaml:5: plugins.a: cannot start"},
		"a load task that fails": {
			strings.Replace(before, "name: a}", "name: A, LoadFails: true}", 1), "seam a b c", nil, "load task load a: cannot load"},
		"in place, and fails": {
			strings.NewReplacer("name: seam}", "name: other, Fail: true}", "name: a}", "name: A}").Replace(before), "seam a b c", nil, "plugins.seam: cannot change"},
		"a name is taken": {
			strings.Replace(before, "name: a}", "name: c}", 1), "seam a b c", nil, "plugins.a: the name c is taken"},
		"a bad key": {
			strings.Replace(before, "name: a}", "nme: a}", 1), "seam a b c", nil, "embedded:test.yaml:5: plugins.a.config"},
		"a seam that cannot change": {
			strings.Replace(before, "name: r}", "name: x}", 1), "seam a b c", nil, "the row cannot be changed while the process runs, because it holds kernel_test.thing; restart the process"},
		"a seam that goes": {
			strings.Replace(before, "name: r}", "name: r}, enabled: false", 1), "seam a b c", nil, "cannot be removed while the process runs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			plugins := shelves(s)
			k, err := kernel.Compose(t.Context(), kernel.Options{Plugins: plugins, Profile: load(t, before), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = k.Stop() })
			if err := k.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			// A turn that runs.
			g, leave := k.Root().Enter()
			changed, err := k.Reload(t.Context(), load(t, tt.profile))
			slices.Sort(changed)
			if d := cmp.Diff(tt.changed, changed); d != "" {
				t.Error(d)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if got := s.at(kernel.Now); got != tt.want {
				t.Errorf("now there are %q, want %q", got, tt.want)
			}
			if got := s.at(g); got != "seam a b c" {
				t.Errorf("the turn that runs sees %q", got)
			}
			leave()
			left := s.all()
			for deadline := time.Now().Add(5 * time.Second); left != len(strings.Fields(tt.want)) && time.Now().Before(deadline); left = s.all() {
				time.Sleep(time.Millisecond)
			}
			if left != len(strings.Fields(tt.want)) {
				t.Errorf("%d things are left when the turn has ended, want %d", left, len(strings.Fields(tt.want)))
			}
			if len(tt.changed) > 0 {
				// And back again.
				if _, err := k.Reload(t.Context(), load(t, before)); name != "the front end goes" && err != nil {
					t.Errorf("back: %v", err)
				}
				if got := s.at(kernel.Now); got != "seam a b c" {
					t.Errorf("back again there are %q", got)
				}
			}
		})
	}
}

func (s *shelf) all() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}
