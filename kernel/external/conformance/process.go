package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dsh/kernel/external"
	"dsh/kernel/tool"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// handshake starts the program.
func handshake(ctx context.Context, s *subject) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.probe = p
	return nil
}

func health(ctx context.Context, s *subject) error {
	answer, err := grpc_health_v1.NewHealthClient(s.probe.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	if err != nil {
		return fmt.Errorf("grpc.health.v1.Health does not answer: %w", err)
	}
	if status := answer.GetStatus(); status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the service \"plugin\" is %v, not SERVING", status)
	}
	return nil
}

func describe(ctx context.Context, s *subject) error {
	client := pb.NewPluginServiceClient(s.probe.Conn())
	said, err := client.Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return err
	}
	again, err := client.Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("the second time: %w", err)
	}
	s.said = said
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !proto.Equal(said, again) {
		bad("it says something else the second time")
	}
	if !isKebab(said.GetName()) {
		bad("the name %q is not kebab-case, as \"secret-scan\"", said.GetName())
	}
	if strings.TrimSpace(said.GetVersion()) == "" {
		bad("it has no version")
	}
	if strings.TrimSpace(said.GetSummary()) == "" || strings.Contains(said.GetSummary(), "\n") {
		bad("the summary %q is not one sentence for people", said.GetSummary())
	}
	seen := map[pb.Capability]bool{}
	for _, c := range said.GetCapabilities() {
		if _, known := pb.Capability_name[int32(c)]; !known || c == 0 {
			bad("the capability %d is not known", c)
		}
		if seen[c] {
			bad("the capability %v is there twice", c)
		}
		seen[c] = true
	}
	if len(seen) == 0 {
		bad("it offers nothing")
	}
	for _, hook := range said.GetHooks() {
		if !slices.Contains([]string{"tool.before", "tool.after", "prompt"}, hook) {
			bad("there are no hooks on %q", hook)
		}
	}
	if seen[pb.Capability_CAPABILITY_HOOKS] != (len(said.GetHooks()) > 0) {
		bad("the capability hooks and the list of hooks go together: %d are listed", len(said.GetHooks()))
	}
	return errors.Join(errs...)
}

func isKebab(name string) bool {
	const may = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return name != "" && strings.Trim(name, may) == "" && name[0] >= 'a' && !strings.HasSuffix(name, "-") && !strings.Contains(name, "--")
}

func configSchema(_ context.Context, s *subject) error {
	schema := s.said.GetConfigSchema()
	if len(schema) == 0 {
		return skipped("the plugin takes no config")
	}
	return objectSchema(schema)
}

// objectSchema says what is wrong with a JSON Schema of type object.
func objectSchema(schema []byte) error {
	if _, err := tool.NewChecker(schema); err != nil {
		return err
	}
	var top struct {
		Type string `json:"type"`
	}
	if err := wirejson.Unmarshal(schema, &top); err != nil {
		return err
	}
	if top.Type != "object" {
		return fmt.Errorf("the schema has the type %q, not \"object\"", top.Type)
	}
	return nil
}

// configure hands over the config that the checks go on with.
func configure(ctx context.Context, s *subject) error {
	s.refused = true
	schema := s.said.GetConfigSchema()
	if len(schema) == 0 {
		schema = []byte(`{"type":"object","additionalProperties":false}`)
	}
	const give = "give one that the plugin takes, as --config JSON"
	if checker, err := tool.NewChecker(schema); err == nil {
		if err := checker.Check(s.o.Config); err != nil {
			return fmt.Errorf("the config %s does not fit the plugin's schema: %w; %s", s.o.Config, err, give)
		}
	}
	if s.probe == nil { // what was before has ended it
		var err error
		if s.probe, err = s.start(ctx); err != nil {
			return err
		}
	}
	findings, err := hand(ctx, s.probe, s.o.Config)
	if err != nil {
		return err
	}
	if err := checkFindings(findings); err != nil {
		return err
	}
	if len(findings) > 0 {
		return fmt.Errorf("the plugin does not take the config %s: %s; %s", s.o.Config, findings[0].GetMessage(), give)
	}
	s.refused, s.configured = false, true
	return nil
}

// checkFindings says what is wrong with what a plugin found wrong.
func checkFindings(findings []*pb.Finding) error {
	for _, f := range findings {
		if strings.TrimSpace(f.GetMessage()) == "" {
			return errors.New("a finding has no message")
		}
		if at := f.GetPointer(); at != "" && at[0] != '/' {
			return fmt.Errorf("the pointer %q of a finding does not begin with a slash", at)
		}
	}
	return nil
}

// badConfig hands over what no harness would, each to a process of its own.
func badConfig(ctx context.Context, s *subject) error {
	for _, config := range []string{`{"no-such-member-":{"a":[null]}}`, `[]`, `not JSON`} {
		p, err := s.start(ctx)
		if err != nil {
			return err
		}
		findings, err := hand(ctx, p, []byte(config))
		// An error status is a finding about the whole.
		if err == nil && len(findings) == 0 && config == `not JSON` {
			err = errors.New("it was taken")
		} else {
			err = checkFindings(findings)
		}
		if err == nil {
			err = answers(ctx, p)
		}
		end(ctx, p)
		if err != nil {
			return fmt.Errorf("the config %s: %w", config, err)
		}
	}
	return nil
}

// silence is about all that was done before.
func silence(_ context.Context, s *subject) error {
	if line, found := s.printed.first(); found {
		return fmt.Errorf("the plugin prints to standard output, such as %q; log to standard error instead", line)
	}
	return nil
}

// partingLimit is what a profile gives a plugin for each of the two steps of its
// end, and a bit, since a machine may be busy.
const partingLimit = 2 * time.Second

// shutdown ends the process in good order.
func shutdown(ctx context.Context, s *subject) error {
	p := s.probe
	s.probe = nil // whatever comes of it
	defer end(ctx, p)
	limited, cancel := context.WithTimeout(ctx, partingLimit)
	defer cancel()
	if _, err := pb.NewPluginServiceClient(p.Conn()).Shutdown(limited, &pb.ShutdownRequest{}); err != nil {
		if status.Code(err) == codes.DeadlineExceeded {
			err = fmt.Errorf("no answer within %v", partingLimit)
		}
		return fmt.Errorf("the call of Shutdown: %w", err)
	}
	if err := leftovers(limited, p); err != nil {
		return err
	}
	// The answer may be lost with the process.
	_ = p.Controller(limited)
	select {
	case <-p.Done():
		return nil
	case <-time.After(partingLimit):
		return fmt.Errorf("the process is still there %v after plugin.GRPCController/Shutdown", partingLimit)
	}
}

// leftovers waits a moment for what the plugin started to be gone.
func leftovers(ctx context.Context, p *external.Probe) error {
	for {
		pids, ok := p.Processes()
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == p.Pid() })
		if !ok || len(pids) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after Shutdown there are still processes %v; the plugin should end what it started (and a script that starts it should do so with exec)", pids)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hangUp ends standard input, as a harness does that was killed (case B76).
func hangUp(ctx context.Context, s *subject) error {
	p, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer end(ctx, p)
	if err := p.HangUp(); err != nil {
		return fmt.Errorf("end its standard input: %w", err)
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(endLimit):
		return fmt.Errorf("the process is still there %v after its standard input ended; it would outlive a harness that was killed", endLimit)
	}
}
