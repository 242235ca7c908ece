// Package conformance checks executables against the contract of plugins,
// sdkproto/plugin/pb/v1/plugin.proto: any program, in whatever language, without
// a profile. Each check is a function that says what is wrong; `dsh plugin
// check` prints what they say, and tests run the same ones.
//
// A check that calls a tool with arguments of its own making calls only tools
// that say that they are read-only. Tools that change something are called with
// what cannot be read as arguments at all, and with what Options.Calls names.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dsh/kernel/external"
	pb "dsh/sdkproto/plugin/pb/v1"
)

// Options say what is checked.
type Options struct {
	// Path is the executable's.
	Path string
	// Config is a config that the plugin takes, a JSON object; nil is {}.
	Config json.RawMessage
	// Calls are calls of tools that must have good results.
	Calls []Call
}

// Call is a call of a tool.
type Call struct {
	Tool string
	// Arguments is a JSON object.
	Arguments json.RawMessage
}

// Statuses of an outcome.
const (
	OK   = "ok"
	Fail = "FAIL"
	// Skip is for what the plugin does not offer, or what cannot be seen here.
	Skip = "skip"
)

// Outcome is what one check came to.
type Outcome struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// Reason says why, when the status is not OK.
	Reason string `json:"reason,omitzero"`
}

// check is one thing that must hold.
type check struct {
	name string
	// of is the capability that it is about; 0 is for those of every plugin.
	of pb.Capability
	// configured checks need a plugin that has taken its config.
	configured bool
	// vital checks end the run when they fail: nothing can be said of the rest.
	vital bool
	run   func(context.Context, *subject) error
}

func checks() []check {
	const (
		tools    = pb.Capability_CAPABILITY_TOOLS
		models   = pb.Capability_CAPABILITY_MODELS
		hooks    = pb.Capability_CAPABILITY_HOOKS
		prompt   = pb.Capability_CAPABILITY_PROMPT
		commands = pb.Capability_CAPABILITY_COMMANDS
		events   = pb.Capability_CAPABILITY_EVENTS
	)
	return []check{
		{name: "handshake", vital: true, run: handshake},
		{name: "health", run: health},
		{name: "describe", vital: true, run: describe},
		{name: "config schema", run: configSchema},
		{name: "config", run: configure},
		{name: "config: what is wrong", run: badConfig},
		{name: "tools: list", of: tools, configured: true, run: listTools},
		{name: "tools: good calls", of: tools, configured: true, run: goodCalls},
		{name: "tools: bad input", of: tools, configured: true, run: badInput},
		{name: "tools: unicode", of: tools, configured: true, run: unicodeCalls},
		{name: "tools: large texts", of: tools, configured: true, run: largeCalls},
		{name: "tools: side by side", of: tools, configured: true, run: parallelCalls},
		{name: "tools: cancelled calls", of: tools, configured: true, run: cancelledCalls},
		{name: "models: list", of: models, configured: true, run: listModels},
		{name: "models: an answer", of: models, configured: true, run: streamModel},
		{name: "hooks", of: hooks, configured: true, run: handleHooks},
		{name: "prompt sections", of: prompt, configured: true, run: sections},
		{name: "slash commands", of: commands, configured: true, run: slashCommands},
		{name: "events", of: events, configured: true, run: consumeEvents},
		{name: "standard output", configured: true, run: silence},
		{name: "shutdown", configured: true, run: shutdown},
		{name: "end of the harness", run: hangUp},
	}
}

// Limits of the checks.
const (
	// startLimit is that of a start in a profile (decision D6).
	startLimit = 10 * time.Second
	// checkLimit bounds one check.
	checkLimit = 30 * time.Second
	// answerLimit is how long a plugin may take to say what it is.
	answerLimit = 5 * time.Second
	// endLimit bounds the end of a process.
	endLimit = 4 * time.Second
)

// Run makes all checks, one after the other, and gives what each came to as soon
// as it is known. It reports whether none failed. Nothing that it started is left
// when it returns.
func Run(ctx context.Context, o Options, report func(Outcome)) bool {
	if len(o.Config) == 0 {
		o.Config = json.RawMessage("{}")
	}
	s := &subject{o: o, printed: &stdoutLog{}}
	defer s.drop(ctx)
	good := true
	for _, c := range checks() {
		one := s.outcome(ctx, c)
		report(one)
		if one.Status == Fail {
			good = false
			if c.vital {
				break
			}
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return good
}

// skipped says why a check says nothing.
type skipped string

func (s skipped) Error() string { return string(s) }

func (s *subject) outcome(ctx context.Context, c check) Outcome {
	err := s.perform(ctx, c)
	var skip skipped
	switch {
	case err == nil:
		return Outcome{Name: c.name, Status: OK}
	case errors.As(err, &skip):
		return Outcome{Name: c.name, Status: Skip, Reason: string(skip)}
	}
	return Outcome{Name: c.name, Status: Fail, Reason: err.Error()}
}

func (s *subject) perform(ctx context.Context, c check) error {
	if c.of != 0 && !slices.Contains(s.said.GetCapabilities(), c.of) {
		return skipped("not offered")
	}
	limit := fmt.Errorf("no answer within %v", checkLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, limit)
	defer cancel()
	if c.configured {
		if s.refused {
			return skipped("the config was not taken")
		}
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	err := c.run(ctx, s)
	if err == nil && s.probe != nil {
		err = s.alive(ctx)
	}
	err = s.withExit(err)
	if err != nil && ctx.Err() != nil && !strings.Contains(err.Error(), limit.Error()) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if skip := skipped(""); err != nil && !errors.As(err, &skip) {
		// What goes wrong next must not be the fault of this.
		s.drop(ctx)
	}
	return err
}

// withExit adds to an error how the process ended, if that is the reason.
func (s *subject) withExit(err error) error {
	if status.Code(root(err)) != codes.Unavailable || s.probe == nil {
		return err
	}
	select {
	case <-s.probe.Done():
		return fmt.Errorf("%w; the plugin ended (%s)", err, s.probe.Exit())
	case <-time.After(exitLimit):
		return err
	}
}

// root is what an error says at the bottom of it all.
func root(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// exitLimit is how long after its connection a process may end.
const exitLimit = 200 * time.Millisecond

// subject is the plugin under check.
type subject struct {
	o       Options
	printed *stdoutLog
	// probe is the process, nil when none runs; configured: it took its config.
	probe      *external.Probe
	configured bool
	// said is what it said of itself.
	said *pb.DescribeResponse
	// refused: it did not take Options.Config.
	refused bool
}

// start starts a process.
func (s *subject) start(ctx context.Context) (*external.Probe, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %v", startLimit))
	defer cancel()
	return external.StartProbe(ctx, s.o.Path, s.printed.logger())
}

// ready sees to it that a process runs that has taken the config.
func (s *subject) ready(ctx context.Context) error {
	if s.probe == nil {
		p, err := s.start(ctx)
		if err != nil {
			return err
		}
		s.probe, s.configured = p, false
	}
	if s.configured {
		return nil
	}
	findings, err := hand(ctx, s.probe, s.o.Config)
	if err == nil && len(findings) > 0 {
		err = errors.New("the config was not taken this time")
	}
	s.configured = err == nil
	return err
}

// hand gives a process a config.
func hand(ctx context.Context, p *external.Probe, config json.RawMessage) ([]*pb.Finding, error) {
	answer, err := pb.NewPluginServiceClient(p.Conn()).Configure(ctx, &pb.ConfigureRequest{Config: config, Row: "check"})
	return answer.GetFindings(), err
}

// alive reports a process that has ended or does not answer any more.
func (s *subject) alive(ctx context.Context) error { return answers(ctx, s.probe) }

func answers(ctx context.Context, p *external.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err := pb.NewPluginServiceClient(p.Conn()).Describe(ctx, &pb.DescribeRequest{})
	if err == nil {
		return nil
	}
	select {
	case <-p.Done():
		return fmt.Errorf("the plugin ended (%s)", p.Exit())
	case <-time.After(exitLimit):
	}
	return fmt.Errorf("the plugin does not say any more what it is: %w", err)
}

// drop ends the process, however it may be.
func (s *subject) drop(ctx context.Context) {
	if s.probe == nil {
		return
	}
	end(ctx, s.probe)
	s.probe, s.configured = nil, false
}

// end ends a process. What it does not do in good order is what the check named
// shutdown is about.
func end(ctx context.Context, p *external.Probe) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	_ = p.End(ctx)
}
