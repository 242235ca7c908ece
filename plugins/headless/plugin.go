// Package headless is the front end without a client: it takes one prompt from
// its input, runs it to the end, and writes the outcome to its output.
//
// The prompt is the wire, not configuration: all of the input, to its end. What
// else there is to say about a run is the row's config, so a profile, --set and
// the flags of `dsh -p` say it in the same place. A prompt that begins with a slash
// and the name of a command (contract kernel/command) is what the command makes of
// it.
package headless

import (
	"context"
	"os"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/command"
)

// Plugin is the row type "headless".
var Plugin = kernel.Define("headless", "Runs one prompt from standard input and prints the outcome.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(fromRow, fx.Private), fx.Invoke(start))
	}, kernel.Needs[agent.Registry](), kernel.Wants[*command.Registry](), kernel.Claims("stdio"))

// Params is what a Run takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Agents   agent.Registry
	Commands *command.Registry `optional:"true"`
}

func fromRow(p Params) *Run {
	return New(Options{
		Agents:   p.Agents,
		Commands: p.Commands,
		Owner:    p.Self.Owner,
		Root:     p.Self.Root,
		Ready:    p.Self.Ready,
		In:       p.Self.Stdio.In,
		Out:      p.Self.Stdio.Out,
		Err:      os.Stderr,
		Log:      p.Self.Log,
		Config:   p.Config,
	})
}

// start lets the run begin once the rows it was composed with are made.
func start(lc fx.Lifecycle, r *Run) {
	lc.Append(fx.StartHook(func(context.Context) error { return r.Start() }))
}
