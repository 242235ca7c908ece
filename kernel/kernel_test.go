package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load makes a profile out of YAML text.
func load(t *testing.T, text string) *profile.Profile {
	t.Helper()
	p, err := profile.Load(profile.Options{
		Name: "test", Home: t.TempDir(),
		Embedded: fstest.MapFS{"test.yaml": {Data: []byte(text)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// marks records what happened, in order.
type marks struct {
	mu   sync.Mutex
	list []string
}

func (m *marks) add(s string) { m.mu.Lock(); defer m.mu.Unlock(); m.list = append(m.list, s) }
func (m *marks) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

type greeter interface{ Greet() string }

type english struct{ word string }

func (e english) Greet() string { return e.word }

type greeting struct {
	Word string `json:"word"`
	Max  int    `json:"max"`
}

func (g *greeting) Validate() error {
	return errors.Join(kernel.AtLeast("max", g.Max, 1))
}

func provider(m *marks) kernel.Plugin {
	return kernel.Define("greeter", "Greets.", func() greeting { return greeting{Word: "hello", Max: 1} },
		func(in kernel.Instance, c greeting) fx.Option {
			return fx.Provide(func() (greeter, error) {
				return english{c.Word}, in.Owner.OnClose("greeter", func(context.Context) error { m.add("undo " + in.ID); return nil })
			})
		}, kernel.Provides[greeter]())
}

type nothing struct{}

// user greets when it starts; a row's config cannot be seen by another.
func user(m *marks) kernel.Plugin {
	return kernel.Define("user", "Uses a greeter.", func() nothing { return nothing{} },
		func(in kernel.Instance, _ nothing) fx.Option {
			return fx.Invoke(func(g greeter) error {
				m.add(in.ID + " " + g.Greet())
				return in.Owner.OnClose("user", func(context.Context) error { m.add("undo " + in.ID); return nil })
			})
		}, kernel.Needs[greeter]())
}

// front claims the wire and serves nothing.
func front() kernel.Plugin {
	return kernel.Define("front", "Claims.", func() nothing { return nothing{} },
		func(kernel.Instance, nothing) fx.Option { return fx.Options() }, kernel.Claims("stdio"))
}

func compose(t *testing.T, text string, plugins ...kernel.Plugin) (*kernel.Kernel, error) {
	t.Helper()
	return kernel.Compose(context.Background(), kernel.Options{Plugins: plugins, Profile: load(t, text)})
}

func TestRowsAreBuiltInProfileOrderAndUndoneInReverse(t *testing.T) {
	m := &marks{}
	k, err := compose(t, `
plugins:
  g: {use: greeter, config: {word: hi}}
  one: {use: user}
  off: {use: user, enabled: false}
  two: {use: user}
`, provider(m), user(m))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := k.Ready().Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	k.Root().Exit(3)
	k.Root().Exit(4)
	code, err := k.Wait(context.Background())
	if code != 3 || err != nil {
		t.Fatalf("got %d, %v; the first code wins", code, err)
	}
	want := []string{"one hi", "two hi", "undo two", "undo one", "undo g"}
	if got := m.all(); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestComposeExplains(t *testing.T) {
	m := &marks{}
	claimer := front()
	for name, tc := range map[string]struct {
		profile string
		want    []string
	}{
		"missing seam": {
			"plugins:\n  one: {use: user}\n",
			[]string{"embedded:test.yaml:2: plugins.one: plugin user needs a provider of kernel_test.greeter; no enabled row of profile test provides one (built-in providers: greeter)"},
		},
		"a disabled row provides nothing": {
			"plugins:\n  g: {use: greeter, enabled: false}\n  one: {use: user}\n",
			[]string{"plugin user needs a provider of kernel_test.greeter"},
		},
		"doubled seam": {
			"plugins:\n  g: {use: greeter}\n  h: {use: greeter}\n",
			[]string{"embedded:test.yaml:3: plugins.h: rows g and h both provide kernel_test.greeter; disable one of them"},
		},
		"doubled claim": {
			"plugins:\n  a: {use: front}\n  b: {use: front}\n",
			[]string{"embedded:test.yaml:3: plugins.b: rows a and b both claim stdio"},
		},
		"unknown plugin": {
			"plugins:\n  a: {use: greter}\n",
			[]string{`embedded:test.yaml:2: plugins.a.use: unknown plugin "greter"; did you mean "greeter"?; known plugins: front, greeter, user`},
		},
		"all errors at once": {
			"plugins:\n  g:\n    use: greeter\n    config:\n      wrod: x\n  h:\n    use: user\n    config:\n      x: 1\n  i:\n    use: nobody\n",
			[]string{"embedded:test.yaml:5: plugins.g.config", `did you mean "word"?`, "embedded:test.yaml:9: plugins.h.config", "embedded:test.yaml:11: plugins.i.use"},
		},
		"Validate has a place": {
			"plugins:\n  g:\n    use: greeter\n    config:\n      max: 0\n",
			[]string{"embedded:test.yaml:5: plugins.g.config.max: 0 is too small; use 1 or more"},
		},
		"an optional row may not provide": {
			"plugins:\n  g: {use: greeter, required: false}\n",
			[]string{"plugins.g.required: a row that provides kernel_test.greeter cannot be optional"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compose(t, tc.profile, provider(m), user(m), claimer)
			if err == nil {
				t.Fatal("composed")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got  %s\nwant %s", err, want)
				}
			}
		})
	}
}

func TestConstructorFailureIsSaidPlainly(t *testing.T) {
	broken := kernel.Define("broken", "Fails.", func() nothing { return nothing{} },
		func(kernel.Instance, nothing) fx.Option {
			return fx.Options(fx.Provide(func() (*int, error) { return nil, errors.New("no disk") }, fx.Private), fx.Invoke(func(*int) {}))
		})
	panics := kernel.Define("panics", "Panics.", func() nothing { return nothing{} },
		func(kernel.Instance, nothing) fx.Option { return fx.Invoke(func() { panic("ouch") }) })
	_, err := compose(t, "plugins:\n  a: {use: broken}\n", broken)
	if err == nil || err.Error() != "compose profile test: no disk" {
		t.Errorf("got %v", err)
	}
	_, err = compose(t, "plugins:\n  a: {use: panics}\n", panics)
	if err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("got %v", err)
	}
}

// B74: what started is stopped once and in reverse, also when a later start
// fails or takes too long.
func TestB74FailedStartUndoesWhatStarted(t *testing.T) {
	for name, stuck := range map[string]func(context.Context) error{
		"fails":   func(context.Context) error { return errors.New("no") },
		"blocks":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"ignores": nil, // set below
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			var left sync.WaitGroup
			if stuck == nil {
				left.Add(1)
				stuck = func(context.Context) error { defer left.Done(); <-release; return nil }
			}
			m := &marks{}
			hooked := func(name string, start func(context.Context) error) kernel.Plugin {
				return kernel.Define(name, "Has hooks.", func() nothing { return nothing{} },
					func(in kernel.Instance, _ nothing) fx.Option {
						return fx.Invoke(func(lc fx.Lifecycle) {
							lc.Append(fx.Hook{
								OnStart: func(ctx context.Context) error { m.add("start " + in.ID); return start(ctx) },
								OnStop:  func(context.Context) error { m.add("stop " + in.ID); return nil },
							})
						})
					})
			}
			good := func(context.Context) error { return nil }
			k, err := kernel.Compose(context.Background(), kernel.Options{
				Plugins:    []kernel.Plugin{hooked("good", good), hooked("stuck", stuck)},
				Profile:    load(t, "plugins:\n  a: {use: good}\n  b: {use: good}\n  c: {use: stuck}\n"),
				StartLimit: 100 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Start(context.Background()); err == nil {
				t.Fatal("started")
			}
			close(release)
			left.Wait()
			want := []string{"start a", "start b", "start c", "stop b", "stop a"}
			if got := m.all(); !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		})
	}
}

// B74: a stop that blocks is cut at its bound and named.
func TestB74BlockedStopIsNamed(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	m := &marks{}
	blocked := kernel.Define("blocked", "Blocks.", func() nothing { return nothing{} },
		func(in kernel.Instance, _ nothing) fx.Option {
			return fx.Invoke(func() error {
				return in.Owner.OnClose("the stuck step", func(context.Context) error { <-release; return nil })
			})
		})
	k, err := compose(t, "plugins:\n  g: {use: greeter}\n  one: {use: user}\n  b: {use: blocked}\n", provider(m), user(m), blocked)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	err = k.Stop()
	if err == nil || !strings.Contains(err.Error(), "row b: the stuck step") {
		t.Errorf("got %v", err)
	}
	if got, want := m.all(), []string{"one hello", "undo one", "undo g"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOptionalRowIsMountedBehindTheBarrier(t *testing.T) {
	m := &marks{}
	failing := kernel.Define("failing", "Fails.", func() nothing { return nothing{} },
		func(kernel.Instance, nothing) fx.Option {
			return fx.Invoke(func(greeter) error { return errors.New("not here") })
		},
		kernel.Needs[greeter]())
	k, err := compose(t, "plugins:\n  g: {use: greeter}\n  late: {use: user, required: false}\n  bad: {use: failing, required: false}\n",
		provider(m), user(m), failing)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := k.Ready().Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	var bad kernel.TaskState
	for _, s := range k.Ready().States() {
		if s.Name == "row bad" {
			bad = s
		}
	}
	if bad.Err == nil || bad.Err.Error() != "embedded:test.yaml:4: plugins.bad: not here" {
		t.Errorf("got state %+v", bad)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if got, want := m.all(), []string{"late hello", "undo late", "undo g"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// D28: children must not inherit what a profile or a plugin's defaults name.
func TestCredentialNames(t *testing.T) {
	type keys struct {
		APIKeyEnv string `json:"apiKeyEnv"`
		Inner     []struct {
			TokenEnv string `json:"tokenEnv"`
		} `json:"inner,omitzero"`
	}
	var got []string
	keyed := kernel.Define("keyed", "Has keys.", func() keys { return keys{APIKeyEnv: "DEFAULT_KEY"} },
		func(in kernel.Instance, _ keys) fx.Option {
			return fx.Invoke(func() { got = in.CredentialEnv.Names() })
		})
	k, err := compose(t, `
plugins:
  a: {use: keyed}
  b: {use: keyed, config: {apiKeyEnv: OTHER_KEY, inner: [{tokenEnv: DEEP}]}}
  c: {use: keyed, enabled: false, config: {apiKeyEnv: OFF_KEY}}
`, keyed)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if want := []string{"DEEP", "DEFAULT_KEY", "OFF_KEY", "OTHER_KEY"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMountIsTakenBackByItsOwner(t *testing.T) {
	m := &marks{}
	k, err := compose(t, "plugins:\n  g: {use: greeter}\n", provider(m), user(m))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	entry := func(id, use string) profile.Entry {
		return profile.Entry{ID: id, Use: use, Enabled: true, Config: []byte("{}"), Origin: func(string) profile.Position { return profile.Position{File: "here"} }}
	}
	o, err := k.Mount(context.Background(), entry("extra", "user"))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Mount(context.Background(), entry("second", "greeter")); err == nil || !strings.Contains(err.Error(), "cannot be mounted") {
		t.Errorf("got %v", err)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if got, want := m.all(), []string{"extra hello", "undo extra", "undo g"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunSaysWhyItDidNotStart(t *testing.T) {
	var stderr bytes.Buffer
	code := kernel.Run(context.Background(), "dsh", &stderr, kernel.Options{Profile: load(t, "plugins:\n  a: {use: x}\n  b: {use: y}\n")})
	want := "dsh: plugin tree failed to load:\n" +
		"  embedded:test.yaml:2: plugins.a.use: unknown plugin \"x\"; known plugins: \n" +
		"  embedded:test.yaml:3: plugins.b.use: unknown plugin \"y\"; known plugins: \n"
	if code != kernel.ExitFailure || stderr.String() != want {
		t.Errorf("got %d\n%s\nwant\n%s", code, &stderr, want)
	}
}

// A profile without a front end would leave its client waiting for ever.
func TestRunRefusesAProfileWithoutFrontEnd(t *testing.T) {
	m := &marks{}
	var stderr bytes.Buffer
	code := kernel.Run(context.Background(), "dsh", &stderr, kernel.Options{
		Plugins: []kernel.Plugin{provider(m), user(m)}, Profile: load(t, "plugins:\n  g: {use: greeter}\n  one: {use: user}\n"),
	})
	if want := "profile test serves nobody: no enabled row claims stdio"; code != kernel.ExitFailure || !strings.Contains(stderr.String(), want) {
		t.Errorf("got %d, %q", code, &stderr)
	}
	if got, want := m.all(), []string{"one hello", "undo one", "undo g"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOwner(t *testing.T) {
	t.Run("closes in reverse, once, and waits for goroutines", func(t *testing.T) {
		m := &marks{}
		o := kernel.NewOwner(context.Background(), "top")
		for i := range 2 {
			if err := o.OnClose(fmt.Sprint(i), func(context.Context) error { m.add(fmt.Sprint(i)); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		o.Go("loop", func(ctx context.Context) { <-ctx.Done(); m.add("loop ended") })
		child := o.Child("child")
		_ = child.OnClose("c", func(context.Context) error { m.add("child"); return nil })
		gone := o.Child("gone")
		_ = gone.OnClose("g", func(context.Context) error { m.add("gone"); return nil })
		_ = gone.Close(context.Background())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _ = o.Close(context.Background()) })
		}
		all.Wait()
		got := m.all()
		// The goroutine may end at any point after Close began and before its step.
		got = slices.DeleteFunc(got, func(s string) bool { return s == "loop ended" })
		if want := []string{"gone", "child", "1", "0"}; !slices.Equal(got, want) || len(m.all()) != 5 {
			t.Fatalf("got %q, want %q and the loop", m.all(), want)
		}
		if err := o.OnClose("late", nil); !errors.Is(err, kernel.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if c := o.Child("late"); c.Context().Err() == nil {
			t.Error("a child of a closed owner lives")
		}
	})
	t.Run("contains panics", func(t *testing.T) {
		o := kernel.NewOwner(context.Background(), "top")
		o.Go("loop", func(ctx context.Context) { panic("in loop") })
		_ = o.OnClose("step", func(context.Context) error { panic("in step") })
		err := o.Close(context.Background())
		if err == nil || !strings.Contains(err.Error(), "loop: panic: in loop") || !strings.Contains(err.Error(), "step: panic: in step") {
			t.Errorf("got %v", err)
		}
	})
}

func TestReady(t *testing.T) {
	t.Run("without tasks it is open", func(t *testing.T) {
		var r kernel.Ready
		if err := r.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("waits for tasks that tasks start, and reports required failures only", func(t *testing.T) {
		o := kernel.NewOwner(context.Background(), "top")
		defer o.Close(context.Background())
		r := kernel.NewReady(o, discard())
		release := make(chan struct{})
		r.Go("optional", false, func(context.Context) error { return errors.New("shown only") })
		r.Go("outer", true, func(context.Context) error {
			r.Go("inner", true, func(context.Context) error { <-release; return errors.New("broken") })
			return nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := r.Wait(ctx); err == nil || !strings.Contains(err.Error(), "inner") {
			t.Errorf("a cut wait names what is pending; got %v", err)
		}
		close(release)
		if err := r.Wait(context.Background()); err == nil || err.Error() != "load task inner: broken" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a task that ignores its limit counts as failed", func(t *testing.T) {
		o := kernel.NewOwner(context.Background(), "top")
		r := kernel.NewReady(o, discard())
		release := make(chan struct{})
		r.GoWithin("deaf", true, 10*time.Millisecond, func(context.Context) error { <-release; return nil })
		if err := r.Wait(context.Background()); err == nil || !strings.Contains(err.Error(), "load task deaf: not done after 10ms") {
			t.Errorf("got %v", err)
		}
		close(release)
		_ = o.Close(context.Background())
	})
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
