package external

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
)

// seams are the registries of a composition.
type seams struct {
	tools    *tool.Registry
	pipeline *tool.Pipeline
	models   *llm.Router
	hooks    *agent.Hooks
	sections *prompt.Sections
	commands *command.Registry
}

func newSeams() *seams {
	return &seams{tool.NewRegistry(), tool.NewPipeline(), llm.NewRouter(), agent.NewHooks(), prompt.NewSections(), command.NewRegistry()}
}

// plugin is a row that provides them.
func (s *seams) plugin() kernel.Plugin {
	return kernel.Define("seams", "Provides the registries.", func() struct{} { return struct{}{} },
		func(kernel.Instance, struct{}) fx.Option {
			return fx.Provide(func() (*tool.Registry, *tool.Pipeline, *llm.Router, *agent.Hooks, *prompt.Sections, *command.Registry) {
				return s.tools, s.pipeline, s.models, s.hooks, s.sections, s.commands
			})
		}, kernel.Provides[*tool.Registry](), kernel.Provides[*tool.Pipeline](), kernel.Provides[*llm.Router](),
		kernel.Provides[*agent.Hooks](), kernel.Provides[*prompt.Sections](), kernel.Provides[*command.Registry]())
}

// booted is a composition with plugins.
type booted struct {
	*seams
	kernel *kernel.Kernel
	log    *kerneltest.Log
	file   string
}

// load composes the rows, which are lines of YAML; %s in them is the path of a
// plugin, in order of executables.
func load(t testing.TB, home, rows string) (*profile.Profile, string) {
	t.Helper()
	file := filepath.Join(home, "test.yaml")
	text := "plugins:\n  seams: {use: seams}\n" + rows
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Load(profile.Options{Name: file, Home: home, Env: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	return p, file
}

func boot(t testing.TB, rows string, more ...kernel.Plugin) *booted {
	t.Helper()
	home := t.TempDir()
	p, file := load(t, home, rows)
	b := &booted{seams: newSeams(), log: &kerneltest.Log{}, file: file}
	// The leak check runs when everything else has been undone.
	existing := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, existing) })
	k, err := kernel.Compose(context.Background(), kernel.Options{
		Plugins: append(more, b.plugin()), External: New(filepath.Join(home, "plugins")), Profile: p,
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.kernel = k
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", b.log)
		}
	})
	return b
}

// row is a line for boot; config is what stands in its braces.
func rowOf(t testing.TB, id, play, config string) string {
	return fmt.Sprintf("  %s: {use: %q, config: {%s}}\n", id, executableNamed(t, play), config)
}

// ready waits for the load tasks and gives the failure of the one of row id.
func (b *booted) ready(t testing.TB, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = b.kernel.Ready().Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("load tasks did not end: %v", b.kernel.Ready().Pending())
	}
	found := false
	var err error
	for _, s := range b.kernel.Ready().States() {
		if s.Name == "plugin "+id || s.Name == "row "+id {
			found = true
			if s.Err != nil {
				err = s.Err
			}
		}
	}
	if !found {
		t.Fatalf("there is no load task of row %s", id)
	}
	return err
}

// up boots one plugin that must start.
func up(t testing.TB, play, config string) *booted {
	t.Helper()
	b := boot(t, rowOf(t, "it", play, config))
	if err := b.ready(t, "it"); err != nil {
		t.Fatalf("%v\n%s", err, b.log)
	}
	return b
}

// do calls the tool do of a good plugin as the loop does.
func (b *booted) do(ctx context.Context, what, text string) tool.Result {
	return b.call(ctx, "do", fmt.Sprintf(`{"what":%q,"text":%q}`, what, text), nil)
}

func (b *booted) call(ctx context.Context, name, arguments string, progress func(string)) tool.Result {
	return b.pipeline.Call(ctx, b.tools.View(nil), name, arguments, tool.Invocation{
		SessionID: "s1", CWD: "/work", CallID: "c1", Turn: 2, Step: 3,
		Emit: func(...session.Draft) error { return nil }, Progress: progress,
	})
}

func text(r tool.Result) string {
	var parts []string
	for _, b := range r.Content {
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n")
}

// eventually waits for something that comes by itself.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("not so after 10 s: %s", what)
}

func wantAll(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q does not hold %q", got, w)
		}
	}
}

func invocation(arguments string) tool.Invocation {
	return tool.Invocation{SessionID: "s1", CWD: "/work", CallID: "c1", Turn: 2, Step: 3, Arguments: []byte(arguments)}
}
