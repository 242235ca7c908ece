package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/profile"
	"dsh/kernel/tool"
	pb "dsh/sdkproto/plugin/pb/v1"
)

// row is a row of a profile with an executable.
type row struct {
	in    Params
	entry *profile.Entry
	path  string
	sup   *supervisor
	// seen is what the plugin said of itself at its first start.
	seen *pb.DescribeResponse
	// sink is nil when the plugin wants no events.
	sink *sink
}

func newRow(p Params, e *profile.Entry, path string) *row {
	r := &row{in: p, entry: e, path: path}
	r.sup = newSupervisor(e.ID, p.Self.Log, p.Config.Host.Restarts)
	r.sup.start, r.sup.report = r.startAgain, r.report
	return r
}

// pluginName makes a plugin's name, for messages, of its file's.
func pluginName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if name == "" {
		return filepath.Base(path)
	}
	return name
}

func (r *row) required() bool { return r.entry.Required != nil && *r.entry.Required }

func (r *row) task() string { return "plugin " + r.entry.ID }

// begin starts the plugin as a load task.
func (r *row) begin() {
	limit := r.in.Config.Host.startTimeout()
	// The task itself gets a little more, so that it can say what it waited for and
	// end the program.
	r.in.Self.Ready.GoWithin(r.task(), r.required(), limit+2*killLimit, r.load)
}

// report makes a later start a state that clients can ask for.
func (r *row) report(outcome <-chan error) {
	own := r.in.Self.Owner.Context()
	r.in.Self.Ready.GoWithin(r.task(), false, r.in.Config.Host.startTimeout()+2*killLimit, func(ctx context.Context) error {
		select {
		case err := <-outcome:
			return err
		case <-own.Done():
			return context.Cause(own)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// load starts the plugin for the first time and puts what it offers in its
// places.
func (r *row) load(ctx context.Context) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	i, err := r.start(ctx)
	if err != nil {
		return r.located(err)
	}
	offers, err := r.ask(ctx, i)
	if err != nil {
		return errors.Join(rowError(r.entry, "", "%v", err), i.end(context.WithoutCancel(ctx)))
	}
	r.sup.set(i, nil, time.Time{})
	// Close undoes this in reverse: what is registered goes first, the program last.
	o := r.in.Self.Owner.Child(r.task())
	if err := o.OnClose("program", r.sup.close); err != nil {
		return errors.Join(err, i.end(context.WithoutCancel(ctx)))
	}
	o.Go("restarts", func(ctx context.Context) { r.sup.run(ctx, i) })
	if err := r.register(o, offers); err != nil {
		// The program is of no use then.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*killLimit)
		defer cancel()
		return errors.Join(rowError(r.entry, "", "%v", err), o.Close(undo))
	}
	r.in.Self.Root.OnQuiesce(o, r.task(), flushLimit, func(ctx context.Context) error { return r.rest(ctx, o) })
	r.in.Self.Log.Info("the plugin is ready", "name", r.seen.GetName(), "version", r.seen.GetVersion(), "offers", r.capabilities())
	return nil
}

// rest lets the plugin take the last events, and begins to end it. The wait for
// its end comes behind the hooks of all rows, so that plugins end side by side.
func (r *row) rest(ctx context.Context, o *kernel.Owner) error {
	if r.sink != nil {
		r.sink.drain(ctx)
	}
	r.sup.letGo()
	r.in.Self.Root.OnQuiesce(o, "end of "+r.task(), endLimit, r.sup.close)
	return nil
}

// flushLimit bounds the wait for the acknowledgement of the last events.
const flushLimit = 300 * time.Millisecond

// limited bounds a start, which also ends with the row.
func (r *row) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := r.in.Config.Host.startTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %v", limit))
	own := r.in.Self.Owner.Context()
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(own, func() { end(context.Cause(own)) })
	return ctx, func() { stop(); end(nil); cancel() }
}

// startAgain is start for the supervisor. What the plugin offered at first stays
// in its places, whatever it says now.
func (r *row) startAgain(ctx context.Context) (*instance, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	return r.start(ctx)
}

// start starts the program, learns what it is, checks the config and hands it
// over.
func (r *row) start(ctx context.Context) (*instance, error) {
	l, err := r.launch(ctx)
	if err != nil {
		return nil, err
	}
	i, err := l.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, i); err != nil {
		return nil, errors.Join(err, i.end(context.WithoutCancel(ctx)))
	}
	return i, nil
}

func (r *row) launch(ctx context.Context) (*launch, error) {
	asked := r.in.Config.Host.Env
	env, secrets, missing := environment(ctx, os.Environ(), r.in.Self.CredentialEnv.Names(), asked, r.in.Credentials)
	if len(missing) > 0 {
		r.in.Self.Log.Warn("variables that the row grants to the plugin are not set", "names", strings.Join(missing, ", "))
	}
	l := &launch{path: r.path, checksum: r.entry.Checksum, env: env, secrets: secrets, log: r.in.Self.Log, confiner: r.in.Confiner}
	return l, r.confine(l)
}

// confine decides under what confinement the program runs.
func (r *row) confine(l *launch) error {
	mode := r.in.Config.Host.Confine
	switch {
	case mode == "" && r.in.Policy != nil:
		l.confinement = r.in.Policy.Confinement(workFolder())
	case mode == process.WorkspaceWrite:
		l.confinement = &process.Confinement{Mode: mode, Write: []string{workFolder(), os.TempDir()}}
	case mode == process.ReadOnly:
		l.confinement = &process.Confinement{Mode: mode}
	}
	if l.confinement == nil || r.in.Confiner != nil {
		return nil
	}
	if c := l.confinement; c.Mode != process.FullAccess || c.NoNetwork {
		missing := "the profile has no row that confines programs; add one, such as `sandbox: {use: sandbox-landlock}`"
		if c.Strict || mode != "" {
			return fmt.Errorf("confine to %s: %s", c.Mode, missing)
		}
		r.in.Self.Log.Warn("the plugin runs unconfined although confinement was asked for", "mode", c.Mode, "missing", missing)
	}
	l.confinement = nil
	return nil
}

// prepare goes from the handshake to a plugin that is ready for calls.
func (r *row) prepare(ctx context.Context, i *instance) error {
	client := pb.NewPluginServiceClient(i.conn)
	d, err := client.Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("describe: %w", r.sup.explain(ctx, ctx, i, 0, err))
	}
	config, err := r.in.Config.json()
	if err != nil {
		return fmt.Errorf("encode the config: %w", err)
	}
	if errs := checkConfig(config, d.GetConfigSchema()); len(errs) > 0 {
		return r.findings(errs)
	}
	answer, err := client.Configure(ctx, &pb.ConfigureRequest{Config: config, Row: r.entry.ID})
	if err != nil {
		return fmt.Errorf("configure: %w", r.sup.explain(ctx, ctx, i, 0, err))
	}
	var errs []tool.Problem
	for _, f := range answer.GetFindings() {
		errs = append(errs, tool.Problem{Pointer: f.GetPointer(), Msg: i.program.out.redact(clip(f.GetMessage(), maxErrorText))})
	}
	if len(errs) > 0 {
		return r.findings(errs)
	}
	if r.seen == nil {
		r.seen = d
	} else if d.GetVersion() != r.seen.GetVersion() || !slices.Equal(d.GetCapabilities(), r.seen.GetCapabilities()) {
		r.in.Self.Log.Warn("the plugin is another one than before; reload the profile to see what it offers now", "was", r.seen.GetVersion(), "is", d.GetVersion())
	}
	return nil
}

// checkConfig compares a config with the plugin's schema; without one the plugin
// takes none.
func checkConfig(config, schema json.RawMessage) []tool.Problem {
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	checker, err := tool.NewChecker(schema)
	if err != nil {
		return []tool.Problem{{Msg: fmt.Sprintf("the plugin's schema for its config cannot be used: %v", err)}}
	}
	problems, err := checker.Problems(config)
	if err != nil {
		return []tool.Problem{{Msg: err.Error()}}
	}
	return problems
}

// findings makes errors with places of what is wrong with the config.
func (r *row) findings(problems []tool.Problem) error {
	var errs []error
	for _, p := range problems {
		pos := r.entry.Pos
		if r.entry.Origin != nil {
			pos = r.entry.Origin(p.Pointer)
		}
		errs = append(errs, &profile.Error{
			Pos: pos, Path: "plugins." + r.entry.ID + ".config" + strings.ReplaceAll(p.Pointer, "/", "."), Msg: r.entry.Conceal(p.Msg),
		})
	}
	return errors.Join(errs...)
}

// located gives an error of a start its place in the profile.
func (r *row) located(err error) error {
	if placed := (*profile.Error)(nil); errors.As(err, &placed) {
		return err
	}
	return rowError(r.entry, "use", "plugin %s: %v", r.path, err)
}

func (r *row) capabilities() string {
	words := make([]string, 0, len(r.seen.GetCapabilities()))
	for _, c := range r.seen.GetCapabilities() {
		words = append(words, capabilityWord(c))
	}
	return strings.Join(words, ", ")
}

// capabilityWord is a capability for people.
func capabilityWord(c pb.Capability) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "CAPABILITY_"))
}

// offers is what a plugin says that it has.
type offers struct {
	tools    []*pb.ToolSpec
	models   []*pb.Provider
	hooks    []string
	sections []string
	commands []*pb.Command
	events   bool
}

// ask lists what the plugin has.
func (r *row) ask(ctx context.Context, i *instance) (*offers, error) {
	all := &offers{}
	for _, c := range r.seen.GetCapabilities() {
		var err error
		switch c {
		case pb.Capability_CAPABILITY_TOOLS:
			var list *pb.ListToolsResponse
			list, err = pb.NewToolServiceClient(i.conn).ListTools(ctx, &pb.ListToolsRequest{})
			all.tools = list.GetTools()
		case pb.Capability_CAPABILITY_MODELS:
			var list *pb.ListModelsResponse
			list, err = pb.NewModelServiceClient(i.conn).ListModels(ctx, &pb.ListModelsRequest{})
			all.models = list.GetProviders()
		case pb.Capability_CAPABILITY_HOOKS:
			all.hooks = r.seen.GetHooks()
		case pb.Capability_CAPABILITY_PROMPT:
			var list *pb.ListSectionsResponse
			list, err = pb.NewPromptServiceClient(i.conn).ListSections(ctx, &pb.ListSectionsRequest{})
			all.sections = list.GetNames()
		case pb.Capability_CAPABILITY_COMMANDS:
			var list *pb.ListCommandsResponse
			list, err = pb.NewCommandServiceClient(i.conn).ListCommands(ctx, &pb.ListCommandsRequest{})
			all.commands = list.GetCommands()
		case pb.Capability_CAPABILITY_EVENTS:
			all.events = true
		default:
			r.in.Self.Log.Warn("the plugin offers something that this harness does not know; it is skipped", "capability", c.String())
		}
		if err != nil {
			return nil, fmt.Errorf("list the %s of the plugin: %w", capabilityWord(c), r.sup.explain(ctx, ctx, i, 0, err))
		}
	}
	return all, nil
}

// register puts what the plugin offers in its places, in the name of o.
func (r *row) register(o *kernel.Owner, all *offers) error {
	return errors.Join(
		r.registerTools(o, all.tools),
		r.registerModels(o, all.models),
		r.registerHooks(o, all.hooks),
		r.registerSections(o, all.sections),
		r.registerCommands(o, all.commands),
		r.registerEvents(o, all.events),
	)
}

// missing is the error of a capability that the composition has no place for.
func missing(what, seam string) error {
	return fmt.Errorf("the plugin offers %s, and no row of the profile provides %s; enable the row core", what, seam)
}
