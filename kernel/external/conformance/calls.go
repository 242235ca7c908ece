package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dsh/kernel/tool"
	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

func (s *subject) tools(ctx context.Context) ([]*pb.ToolSpec, error) {
	list, err := pb.NewToolServiceClient(s.probe.Conn()).ListTools(ctx, &pb.ListToolsRequest{})
	return list.GetTools(), err
}

// listTwice asks for a list and asks again; errs are what is wrong with it, of which
// none is being empty.
func listTwice[T proto.Message](ctx context.Context, none string, list func(context.Context) ([]T, error)) (all []T, errs []error, err error) {
	all, err = list(ctx)
	if err != nil {
		return nil, nil, err
	}
	again, err := list(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the second time: %w", err)
	}
	if !slices.EqualFunc(all, again, func(a, b T) bool { return proto.Equal(a, b) }) {
		errs = append(errs, errors.New("the list is another one the second time"))
	}
	if len(all) == 0 {
		errs = append(errs, errors.New(none))
	}
	return all, errs, nil
}

func listTools(ctx context.Context, s *subject) error {
	specs, errs, err := listTwice(ctx, "the capability tools is offered, and there is no tool", s.tools)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, spec := range specs {
		if seen[spec.GetName()] {
			errs = append(errs, fmt.Errorf("there are two tools %q", spec.GetName()))
		}
		seen[spec.GetName()] = true
		if err := checkSpec(spec); err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", spec.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func checkSpec(spec *pb.ToolSpec) error {
	var errs []error
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name := spec.GetName(); name == "" || len(name) > 64 || strings.Trim(name, may) != "" {
		errs = append(errs, errors.New("the name does not match [A-Za-z0-9_-]{1,64}"))
	}
	if strings.TrimSpace(spec.GetDescription()) == "" {
		errs = append(errs, errors.New("there is no description for the model"))
	}
	if spec.GetReadOnly() && spec.GetDestructive() {
		errs = append(errs, errors.New("it is read-only and destructive"))
	}
	if err := objectSchema(spec.GetParameters()); err != nil {
		return errors.Join(append(errs, fmt.Errorf("the parameters: %w", err))...)
	}
	subject := spec.GetSubject()
	if subject.GetKind() == "" && subject.GetMember() == "" {
		return errors.Join(errs...)
	}
	if !slices.Contains([]string{"command", "path", "url", "text"}, subject.GetKind()) {
		errs = append(errs, fmt.Errorf("the kind %q of the subject is not command, path, url or text", subject.GetKind()))
	}
	if _, found := schemaOf(spec).properties()[subject.GetMember()]; !found {
		errs = append(errs, fmt.Errorf("the subject is the argument %q, which the parameters do not have", subject.GetMember()))
	}
	return errors.Join(errs...)
}

// safe are calls of read-only tools with a text in every place where one must
// be, in the form that the schemas ask for.
func (s *subject) safe(ctx context.Context, text string) ([]Call, error) {
	specs, err := s.tools(ctx)
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, spec := range specs {
		if !spec.GetReadOnly() {
			continue
		}
		if arguments, ok := sampleArguments(spec, text); ok {
			calls = append(calls, Call{spec.GetName(), arguments})
		}
	}
	return calls, nil
}

// noCalls is said where nothing can be called.
const noCalls = skipped("no tool is read-only and takes arguments that can be made up")

// call runs one call and checks what holds for every one.
func (s *subject) call(ctx context.Context, c Call) (*pb.ToolResult, error) {
	stream, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	var result *pb.ToolResult
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && result == nil:
			return nil, errors.New("the stream ended without a result")
		case errors.Is(err, io.EOF):
			return result, checkResult(result)
		case err != nil:
			return nil, err
		case result != nil:
			return nil, errors.New("something came behind the result")
		}
		result = event.GetResult()
	}
}

func (s *subject) begin(ctx context.Context, c Call) (grpc.ServerStreamingClient[pb.CallToolResponse], error) {
	return pb.NewToolServiceClient(s.probe.Conn()).CallTool(ctx, &pb.CallToolRequest{
		Name: c.Tool, Arguments: c.Arguments, CallId: "call-1", SessionId: "session-1", Cwd: "/", Turn: 1, Step: 1,
	})
}

// broken marks what no call may come to, whatever it was asked.
type broken struct{ error }

func checkResult(r *pb.ToolResult) error {
	var blocks []sdkproto.Block
	if len(r.GetContent()) > 0 {
		if err := wirejson.Unmarshal(r.GetContent(), &blocks); err != nil {
			return broken{fmt.Errorf("the content of the result is not a JSON array of content blocks: %w", err)}
		}
	}
	if !utf8.Valid(r.GetContent()) {
		return broken{errors.New("the content of the result is not UTF-8")}
	}
	if meta := r.GetMeta(); len(meta) > 0 && !wirejson.Valid(meta) {
		return broken{errors.New("the meta of the result is not JSON")}
	}
	if r.GetIsError() && strings.TrimSpace(sdkproto.TextOf(blocks)) == "" {
		return broken{errors.New("an error result does not say what was wrong")}
	}
	return nil
}

// fault gives what is wrong with the outcome of a call that need not be good.
func fault(err error) error {
	var b broken
	if err == nil || errors.As(err, &b) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err // the stream was not as it must be
	}
	switch s.Code() {
	case codes.Internal, codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		return err
	}
	return nil
}

// tolerate makes calls that need not be good.
func (s *subject) tolerate(ctx context.Context, calls []Call, what string) error {
	if len(calls) == 0 {
		return noCalls
	}
	for _, c := range calls {
		_, err := s.call(ctx, c)
		if err = fault(err); err == nil {
			err = s.alive(ctx)
		}
		if err != nil {
			return fmt.Errorf("tool %q with %s: %w", c.Tool, what, err)
		}
	}
	return nil
}

func goodCalls(ctx context.Context, s *subject) error {
	for _, c := range s.o.Calls {
		r, err := s.call(ctx, c)
		if err != nil {
			return fmt.Errorf("tool %q with %s: %w", c.Tool, c.Arguments, err)
		}
		if r.GetIsError() {
			return fmt.Errorf("tool %q with %s: the result is an error: %s", c.Tool, c.Arguments, r.GetContent())
		}
	}
	calls, err := s.safe(ctx, "hello")
	if err != nil {
		return err
	}
	if len(calls) == 0 && len(s.o.Calls) > 0 {
		return nil
	}
	return s.tolerate(ctx, calls, "arguments that fit its schema")
}

func badInput(ctx context.Context, s *subject) error {
	specs, err := s.tools(ctx)
	if err != nil {
		return err
	}
	if r, err := s.call(ctx, Call{"no_such_tool_", []byte("{}")}); err == nil && !r.GetIsError() {
		return errors.New("a tool that is not listed can be called")
	} else if err := fault(err); err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("a tool that is not listed: %w", err)
	}
	for _, spec := range specs {
		bad := []string{`{"half":`, "\xff\xfe", ""}
		if spec.GetReadOnly() {
			bad = append(bad, `[]`, `null`, `1`, `{}`, `{"no-such-member-":1}`)
			bad = append(bad, schemaOf(spec).wrongTypes()...)
		}
		checker, err := tool.NewChecker(spec.GetParameters())
		if err != nil {
			return fmt.Errorf("tool %q: the parameters: %w", spec.GetName(), err)
		}
		for _, arguments := range bad {
			if checker.Check([]byte(arguments)) == nil {
				continue
			}
			r, err := s.call(ctx, Call{spec.GetName(), []byte(arguments)})
			if err == nil && !r.GetIsError() && arguments == bad[0] {
				err = broken{errors.New("they were taken, and are not JSON")}
			}
			if err = fault(err); err == nil {
				err = s.alive(ctx)
			}
			if err != nil {
				return fmt.Errorf("tool %q with the arguments %.100q: %w", spec.GetName(), arguments, err)
			}
		}
	}
	return nil
}

func unicodeCalls(ctx context.Context, s *subject) error {
	for _, text := range []string{
		"héllo wörld, 世界", "👩‍👩‍👧‍👦 🇩🇪", "\u202eשלום", "a\x00b\x1b[31m\x7f", "a\r\nb\u2028c", `"'` + "`$(){}\\", "\ufeff\ufffd", strings.Repeat("e\u0301\u0323", 50),
	} {
		calls, err := s.safe(ctx, text)
		if err != nil {
			return err
		}
		if err := s.tolerate(ctx, calls, fmt.Sprintf("the text %q", text)); err != nil {
			return err
		}
	}
	return nil
}

// largeText is larger than what gRPC libraries take if they are not told to, and
// small enough to be in an answer, too.
const largeText = 5 << 20

func largeCalls(ctx context.Context, s *subject) error {
	calls, err := s.safe(ctx, strings.Repeat("long 世界\n", largeText/len("long 世界\n")))
	if err != nil {
		return err
	}
	err = s.tolerate(ctx, calls, fmt.Sprintf("a text of %d MiB", largeText>>20))
	if status.Code(root(err)) == codes.ResourceExhausted {
		return fmt.Errorf("%w; a plugin must take messages of 64 MiB, and send none of more than 16", err)
	}
	return err
}

func parallelCalls(ctx context.Context, s *subject) error {
	calls, err := s.safe(ctx, "hello")
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return noCalls
	}
	const side = 8
	errs := make([]error, side)
	var wg sync.WaitGroup
	for i := range side {
		// Two sessions may call the same tool at once, even when it is not parallel.
		wg.Go(func() {
			for n := range calls {
				c := calls[(i+n)%len(calls)]
				if _, err := s.call(ctx, c); fault(err) != nil {
					errs[i] = fmt.Errorf("tool %q beside other calls: %w", c.Tool, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func cancelledCalls(ctx context.Context, s *subject) error {
	calls, err := s.safe(ctx, "hello")
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return noCalls
	}
	for _, c := range calls {
		for _, after := range []time.Duration{0, time.Millisecond} {
			cut, cancel := context.WithCancel(ctx)
			stream, err := s.begin(cut, c)
			if err != nil {
				cancel()
				return fmt.Errorf("tool %q: %w", c.Tool, err)
			}
			time.Sleep(after)
			cancel()
			for err == nil {
				_, err = stream.Recv()
			}
			if err := s.alive(ctx); err != nil {
				return fmt.Errorf("tool %q, after a call was cancelled: %w", c.Tool, err)
			}
		}
		if _, err := s.call(ctx, c); fault(err) != nil {
			return fmt.Errorf("tool %q, after a call was cancelled: %w", c.Tool, err)
		}
	}
	return nil
}
