package headless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/command"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/stdio"
)

// Options is what a Run is made of.
type Options struct {
	Agents agent.Registry
	// Commands are what a prompt that begins with a slash may name; nil has none.
	Commands *command.Registry
	// Owner owns all that the run starts. Closing it stops the run and not the
	// process.
	Owner *kernel.Owner
	// Root is asked for the end of the process when the run is over.
	Root *kernel.Root
	// Ready holds the prompt back until the composition is up; nil holds nothing
	// back.
	Ready *kernel.Ready
	// In holds the prompt, Out takes the outcome, Err what is for people.
	In       io.Reader
	Out, Err io.Writer
	Log      *slog.Logger
	Config   Config
}

// Run is one prompt and its outcome. It is made by New and started once.
type Run struct {
	Options
	// done is closed when everything has been written.
	done chan struct{}
	// work ends when the process has come to rest, or the output is broken.
	work context.Context
	stop context.CancelCauseFunc
}

// errEnding is the cause of an early end.
var errEnding = errors.New("the process is ending")

// maxEntries is how many events may wait to be written before the agent is held
// up.
const maxEntries = 1024

// New makes a run. Nothing is read or started before Start.
func New(o Options) *Run {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Run{Options: o, done: make(chan struct{})}
	r.work, r.stop = context.WithCancelCause(o.Owner.Context())
	return r
}

// Start begins the run and returns. The part that waits for the outcome is
// registered here, behind the agents', which write the end of a turn that is
// cut short.
func (r *Run) Start() error {
	r.Root.OnQuiesce(r.Owner, "headless", kernel.FlushLimit, func(ctx context.Context) error {
		r.stop(errEnding)
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r.Owner.Go("headless", func(owner context.Context) {
		code := kernel.ExitFailure
		defer func() {
			close(r.done)
			if owner.Err() == nil {
				r.Root.Exit(code)
			}
		}()
		code = r.serve()
	})
	return nil
}

// serve is the whole run; it gives the exit code.
func (r *Run) serve() int {
	prompt, err := stdio.ReadPrompt(r.work, r.In, r.Config.MaxPrompt)
	if errors.Is(err, stdio.ErrEmpty) {
		fmt.Fprintf(r.Err, "dsh: %v; give it with -p TEXT, or on standard input\n", err)
		return kernel.ExitUsage
	}
	began := time.Now()
	id := r.Config.Session
	if id == "" {
		id = uuid.NewString()
	}
	v := newView(r.Config.Output, id, r.Out, r.Err, r.stop)
	if err == nil && r.Ready != nil {
		err = r.Ready.Wait(r.work)
	}
	if err == nil {
		err = r.turn(id, prompt, v)
	}
	return v.finish(err, time.Since(began))
}

// turn sends the prompt and returns when the session is idle again and all of
// it has been shown.
func (r *Run) turn(id, prompt string, v *view) error {
	spec, err := r.spec(id)
	if err != nil {
		return err
	}
	sub := session.NewSubscription(r.Owner, r.Log, "headless", maxEntries, func(_ context.Context, e session.Entry) error {
		return v.entry(e)
	})
	err = r.Agents.Watch(r.Owner, func(a agent.Agent, _ agent.Spec) {
		if a.ID() == id {
			a.Log().Subscribe(sub)
		}
	})
	if err != nil {
		return err
	}
	a, err := r.Agents.Open(r.work, spec, agent.OpenAny)
	if err != nil {
		return advice(err)
	}
	if err := r.send(a, prompt, v); err != nil {
		return errors.Join(err, sub.Drain(r.work))
	}
	err = a.WhenIdle(r.work)
	if err == nil {
		err = sub.Drain(r.work)
	}
	switch cause := context.Cause(r.work); cause {
	case nil:
		return err
	case errEnding:
	default:
		return cause
	}
	// The turn was cut short with the process. Its end is in the log by now and
	// is shown, unless the reader stalls.
	rest, cancel := context.WithTimeout(context.Background(), kernel.FlushLimit)
	defer cancel()
	return sub.Drain(rest)
}

func (r *Run) spec(id string) (agent.Spec, error) {
	c := r.Config
	cwd, err := filepath.Abs(c.CWD)
	if err != nil {
		return agent.Spec{}, fmt.Errorf("working directory %q: %w", c.CWD, err)
	}
	switch info, err := os.Stat(cwd); {
	case err != nil:
		return agent.Spec{}, fmt.Errorf("working directory: %w; name another with --cwd", err)
	case !info.IsDir():
		return agent.Spec{}, fmt.Errorf("working directory %s: this is no folder; name another with --cwd", cwd)
	}
	return agent.Spec{ID: id, CWD: cwd, Route: llm.Route{
		Provider: c.Provider, Model: c.Model, MaxTokens: c.MaxTokens, ReasoningEffort: c.ReasoningEffort,
	}}, nil
}

// advice says what to do about an error of Open.
func advice(err error) error {
	var none *llm.NoAdapterError
	switch {
	case errors.As(err, &none):
		text := "name another with --provider, or enable the row of this one"
		if slices.Contains(none.Known, "scripted") {
			text += "; --provider scripted needs neither key nor network"
		}
		return fmt.Errorf("%w; %s", err, text)
	case errors.Is(err, session.ErrOtherCWD):
		return fmt.Errorf("%w; go there, or name that folder with --cwd", err)
	}
	return err
}
