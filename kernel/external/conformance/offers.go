package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

func (s *subject) providers(ctx context.Context) ([]*pb.Provider, error) {
	list, err := pb.NewModelServiceClient(s.probe.Conn()).ListModels(ctx, &pb.ListModelsRequest{})
	return list.GetProviders(), err
}

func listModels(ctx context.Context, s *subject) error {
	providers, errs, err := listTwice(ctx, "the capability models is offered, and there is no provider", s.providers)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, p := range providers {
		if p.GetId() == "" || ids[p.GetId()] {
			errs = append(errs, fmt.Errorf("the provider %q has no id, or the id of another", p.GetId()))
		}
		ids[p.GetId()] = true
		if len(p.GetModels()) == 0 && !p.GetAnyModel() {
			errs = append(errs, fmt.Errorf("provider %q has no models, and does not take any", p.GetId()))
		}
		if effort := p.GetDefaultReasoningEffort(); effort != "" && !slices.Contains(p.GetReasoningEfforts(), effort) {
			errs = append(errs, fmt.Errorf("provider %q: the default effort %q is not among its efforts", p.GetId(), effort))
		}
		for _, m := range p.GetModels() {
			if m.GetId() == "" || m.GetContextWindow() < 0 {
				errs = append(errs, fmt.Errorf("provider %q: the model %q has no id, or a context window below 0", p.GetId(), m.GetId()))
			}
		}
	}
	return errors.Join(errs...)
}

// streamModel makes one small request. A model may well refuse it, for want of a
// credential or a network, as long as it says so in good form.
func streamModel(ctx context.Context, s *subject) error {
	providers, err := s.providers(ctx)
	if err != nil {
		return err
	}
	for _, p := range providers {
		if len(p.GetModels()) == 0 {
			continue
		}
		request, err := modelRequest(p.GetId(), p.GetModels()[0].GetId())
		if err != nil {
			return err
		}
		if err := s.stream(ctx, request); err != nil {
			return fmt.Errorf("provider %q: %w", p.GetId(), err)
		}
		cut, cancel := context.WithCancel(ctx)
		stream, err := pb.NewModelServiceClient(s.probe.Conn()).Stream(cut, request)
		cancel()
		for err == nil {
			_, err = stream.Recv()
		}
		if err := s.alive(ctx); err != nil {
			return fmt.Errorf("provider %q, after a request was cancelled: %w", p.GetId(), err)
		}
	}
	return nil
}

func modelRequest(provider, model string) (*pb.StreamRequest, error) {
	header, err := wirejson.Marshal(sdkproto.Header{Config: sdkproto.RequestConfig{Provider: provider, Model: model, MaxTokens: 16}})
	if err != nil {
		return nil, err
	}
	messages, err := wirejson.Marshal([]sdkproto.Message{{
		ID: "message-1", Role: sdkproto.RoleUser, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Content: []sdkproto.Block{sdkproto.Text("Say hi.")},
	}})
	return &pb.StreamRequest{SessionId: "session-1", Header: header, Messages: messages}, err
}

// stream reads one answer and says what is wrong with its form.
func (s *subject) stream(ctx context.Context, request *pb.StreamRequest) error {
	stream, err := pb.NewModelServiceClient(s.probe.Conn()).Stream(ctx, request)
	if err != nil {
		return err
	}
	var last sdkproto.Chunk
	ended := false
	for {
		message, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && ended:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the answer ended with a chunk %q and no error; the last chunk is a finish", last.Type)
		case err != nil:
			return fault(err)
		case ended:
			return errors.New("something came behind the end of the answer")
		}
		for _, raw := range message.GetChunks() {
			if ended {
				return errors.New("a chunk came behind the finish")
			}
			last = sdkproto.Chunk{}
			if err := wirejson.Unmarshal(raw, &last); err != nil {
				return fmt.Errorf("the chunk %.200q cannot be read: %w", raw, err)
			}
			if err := checkChunk(last); err != nil {
				return err
			}
			ended = last.Type == sdkproto.ChunkFinish
		}
		if e := message.GetError(); e != nil {
			if e.GetCode() == "" || e.GetCode() != strings.ToUpper(e.GetCode()) || e.GetMessage() == "" {
				return fmt.Errorf("an error has a code in upper case and a message, not %q and %q", e.GetCode(), e.GetMessage())
			}
			ended = true
		}
	}
}

func checkChunk(c sdkproto.Chunk) error {
	switch c.Type {
	case sdkproto.ChunkBlockStart, sdkproto.ChunkTextDelta, sdkproto.ChunkReasoningDelta, sdkproto.ChunkToolCallDelta:
	case sdkproto.ChunkBlockEnd:
		if c.Block == nil {
			return errors.New("a block-end has no block")
		}
	case sdkproto.ChunkUsage:
		if c.Usage == nil {
			return errors.New("a usage has no usage")
		}
	case sdkproto.ChunkFinish:
		if c.Reason == nil || c.Reason.Kind == "" {
			return errors.New("a finish has no reason")
		}
	default:
		return fmt.Errorf("there are no chunks of type %q", c.Type)
	}
	return nil
}

// samples are the data of each hook.
func samples() map[string]string {
	const call = `"sessionId":"session-1","cwd":"/","callId":"call-1","turn":1,"step":1,"tool":"read","arguments":{"file_path":"héllo.txt"}`
	return map[string]string{
		"tool.before": "{" + call + "}",
		"tool.after":  "{" + call + `,"result":{"content":[{"type":"text","text":"世界"}],"isError":false}}`,
		"prompt": `{"sessionId":"session-1","cwd":"/","depth":0,"first":true,"provider":"p","model":"m",` +
			`"message":{"id":"message-1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"hello"}]}}`,
	}
}

func handleHooks(ctx context.Context, s *subject) error {
	client := pb.NewHookServiceClient(s.probe.Conn())
	for _, event := range s.said.GetHooks() {
		data, known := samples()[event]
		if !known {
			continue
		}
		answer, err := client.Handle(ctx, &pb.HandleRequest{Event: event, Data: []byte(data)})
		if err != nil {
			return fmt.Errorf("hook %s: %w", event, err)
		}
		if err := checkAnswer(event, answer); err != nil {
			return fmt.Errorf("hook %s: %w", event, err)
		}
	}
	return nil
}

func checkAnswer(event string, answer *pb.HandleResponse) error {
	if answer.GetDeny() && strings.TrimSpace(answer.GetReason()) == "" {
		return errors.New("it refuses and does not say why")
	}
	if given := answer.GetArguments(); len(given) > 0 {
		var object map[string]any
		if err := wirejson.Unmarshal(given, &object); err != nil || event != "tool.before" {
			return fmt.Errorf("arguments are for tool.before, and a JSON object: %.200q", given)
		}
	}
	if answer.GetResult() != nil {
		if event != "tool.after" {
			return errors.New("a result is for tool.after")
		}
		return checkResult(answer.GetResult())
	}
	if len(answer.GetContext()) > 0 && event != "prompt" {
		return errors.New("context is for prompt")
	}
	return nil
}

func sections(ctx context.Context, s *subject) error {
	client := pb.NewPromptServiceClient(s.probe.Conn())
	list, err := client.ListSections(ctx, &pb.ListSectionsRequest{})
	if err != nil {
		return err
	}
	if len(list.GetNames()) == 0 {
		return errors.New("the capability prompt is offered, and there is no section")
	}
	seen := map[string]bool{}
	for _, name := range list.GetNames() {
		if strings.TrimSpace(name) == "" || seen[name] {
			return fmt.Errorf("the section %q has no name, or the name of another", name)
		}
		seen[name] = true
		request := &pb.RenderRequest{Name: name, SessionId: "session-1", Cwd: "/", Provider: "p", Model: "m", Tools: []string{"read", "bash"}}
		first, err := client.Render(ctx, request)
		if err != nil {
			return fmt.Errorf("section %q: %w", name, err)
		}
		second, err := client.Render(ctx, request)
		if err != nil {
			return fmt.Errorf("section %q, the second time: %w", name, err)
		}
		if first.GetText() != second.GetText() {
			return fmt.Errorf("section %q: the same facts give another text, which no provider can cache", name)
		}
	}
	return nil
}

func slashCommands(ctx context.Context, s *subject) error {
	client := pb.NewCommandServiceClient(s.probe.Conn())
	list, err := client.ListCommands(ctx, &pb.ListCommandsRequest{})
	if err != nil {
		return err
	}
	if len(list.GetCommands()) == 0 {
		return errors.New("the capability commands is offered, and there is no command")
	}
	seen := map[string]bool{}
	for _, c := range list.GetCommands() {
		name := c.GetName()
		if name == "" || strings.ContainsAny(name, "/ \t\n") || seen[name] {
			return fmt.Errorf("the command %q has no name, the name of another, or one with a slash or a space", name)
		}
		seen[name] = true
		if d := strings.TrimSpace(c.GetDescription()); d == "" || strings.Contains(d, "\n") {
			return fmt.Errorf("command %q: the description is not one line", name)
		}
		for _, args := range []string{"", "hello 世界"} {
			answer, err := client.Expand(ctx, &pb.ExpandRequest{Name: name, Args: args, SessionId: "session-1", Cwd: "/"})
			if err == nil {
				err = checkResult(&pb.ToolResult{Content: answer.GetContent()})
			}
			if err := fault(err); err != nil {
				return fmt.Errorf("command %q with %q: %w", name, args, err)
			}
		}
	}
	return nil
}

// consumeEvents sends a few events of a type that the plugin wants, and waits for
// the acknowledgement of the last.
func consumeEvents(ctx context.Context, s *subject) error {
	typ := "turn/end"
	if wanted := s.said.GetEvents(); len(wanted) > 0 && !slices.Contains(wanted, typ) && !slices.Contains(wanted, "turn/") {
		return skipped("the plugin wants no event that can be made up")
	}
	stream, err := pb.NewEventSinkServiceClient(s.probe.Conn()).Consume(ctx)
	if err != nil {
		return err
	}
	const last = 3
	for seq := int64(1); seq <= last; seq++ {
		event := fmt.Sprintf(`{"type":%q,"seq":%d,"time":1700000000000,"data":{"turn":%d,"reason":{"kind":"completed"}}}`, typ, seq, seq)
		if err := stream.Send(&pb.ConsumeRequest{SessionId: "session-1", Seq: seq, Event: []byte(event)}); err != nil {
			_, err = stream.Recv() // which says why
			return err
		}
	}
	for seq := int64(0); seq < last; {
		ack, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("%d of %d events were acknowledged: %w", seq, last, err)
		}
		if ack.GetSessionId() != "session-1" || ack.GetSeq() <= seq || ack.GetSeq() > last {
			return fmt.Errorf("the event %d of session %q is acknowledged, which it was already, or was not sent", ack.GetSeq(), ack.GetSessionId())
		}
		seq = ack.GetSeq()
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream did not end behind the last event: %w", err)
	}
	return nil
}
