package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// connect serves p over a connection in memory.
func connect(t *testing.T, p Plugin) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	(&server{plugin: &p}).register(g)
	go func() { _ = g.Serve(listener) }() // it ends with Stop
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func configure(t *testing.T, conn *grpc.ClientConn, config string) []*pb.Finding {
	t.Helper()
	answer, err := pb.NewPluginServiceClient(conn).Configure(t.Context(), &pb.ConfigureRequest{Config: []byte(config), Row: "it"})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetFindings()
}

type settings struct {
	Name  string `json:"name,omitzero"`
	Level string `json:"level" enum:"low,high" jsonschema:"How high."`
}

func (s *settings) Validate() error {
	if s.Name == "bad" {
		return errors.Join(Invalid("name", "%q is not good", s.Name), Invalid("a/b", "nor that"), errors.New("nor all of it"))
	}
	return nil
}

func TestDescribe(t *testing.T) {
	var c settings
	conn := connect(t, Plugin{
		Name: "it", Version: "1", Summary: "Is it.", Config: Config(&c),
		Tools: []Tool{}, Hooks: &Hooks{Prompt: func(context.Context, Prompt) (Verdict, error) { return Verdict{}, nil }},
		Events: &Events{Types: []string{"turn/"}},
	})
	for range 2 {
		got, err := pb.NewPluginServiceClient(conn).Describe(t.Context(), &pb.DescribeRequest{})
		if err != nil {
			t.Fatal(err)
		}
		want := &pb.DescribeResponse{
			Name: "it", Version: "1", Summary: "Is it.",
			Capabilities: []pb.Capability{pb.Capability_CAPABILITY_TOOLS, pb.Capability_CAPABILITY_HOOKS, pb.Capability_CAPABILITY_EVENTS},
			ConfigSchema: []byte(`{"type":"object","properties":{"name":{"type":"string"},"level":{"type":"string","description":"How high.","enum":["low","high"]}},"required":["level"],"additionalProperties":false}`),
			Hooks:        []string{"prompt"}, Events: []string{"turn/"},
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestConfigure(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		want         []*pb.Finding
	}{
		{"good", `{"level":"high"}`, nil},
		{"wrong type", `{"level":{"x":1}}`, []*pb.Finding{{Pointer: "/level", Message: "cannot use a JSON object as a string"}}},
		{"unknown", `{"levle":"x"}`, []*pb.Finding{{Pointer: "/levle", Message: `unknown key "levle"`}}},
		{"the plugin's check", `{"name":"bad"}`, []*pb.Finding{{Pointer: "/name", Message: `"bad" is not good`}, {Pointer: "/a~1b", Message: "nor that"}, {Message: "nor all of it"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := settings{Name: "default", Level: "low"}
			started := false
			conn := connect(t, Plugin{Config: Config(&c), Start: func(context.Context, *Plugin) error { started = true; return nil }})
			if diff := cmp.Diff(tc.want, configure(t, conn, tc.config), protocmp.Transform()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			want := settings{"default", "low"}
			if tc.want == nil {
				want.Level = "high"
			}
			if c != want {
				t.Errorf("the config is %+v, want %+v", c, want)
			}
			if started != (tc.want == nil) {
				t.Errorf("started: %v", started)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		conn := connect(t, Plugin{})
		if got := configure(t, conn, `{"a":1}`); len(got) != 1 || got[0].GetMessage() != "the plugin takes no config" {
			t.Errorf("got %v", got)
		}
		if got := configure(t, conn, `{}`); len(got) != 0 {
			t.Errorf("got %v", got)
		}
		_, err := pb.NewPluginServiceClient(conn).Configure(t.Context(), &pb.ConfigureRequest{Config: []byte(`{}`)})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a second time: %v", err)
		}
	})
}

// Nothing but Describe and Configure answers before Configure has gone well, and
// what is not offered says so.
func TestOrder(t *testing.T) {
	conn := connect(t, Plugin{Tools: []Tool{}})
	calls := map[string]func() error{
		"tools": func() error {
			_, err := pb.NewToolServiceClient(conn).ListTools(t.Context(), &pb.ListToolsRequest{})
			return err
		},
		"models": func() error {
			_, err := pb.NewModelServiceClient(conn).ListModels(t.Context(), &pb.ListModelsRequest{})
			return err
		},
		"hooks": func() error {
			_, err := pb.NewHookServiceClient(conn).Handle(t.Context(), &pb.HandleRequest{Event: "prompt"})
			return err
		},
		"sections": func() error {
			_, err := pb.NewPromptServiceClient(conn).ListSections(t.Context(), &pb.ListSectionsRequest{})
			return err
		},
		"commands": func() error {
			_, err := pb.NewCommandServiceClient(conn).ListCommands(t.Context(), &pb.ListCommandsRequest{})
			return err
		},
		"events": func() error {
			s, err := pb.NewEventSinkServiceClient(conn).Consume(t.Context())
			if err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		},
	}
	for name, call := range calls {
		if got := status.Code(call()); got != codes.FailedPrecondition {
			t.Errorf("%s before Configure: %v", name, got)
		}
	}
	configure(t, conn, `{}`)
	for name, call := range calls {
		want := codes.Unimplemented
		if name == "tools" {
			want = codes.OK
		}
		if got := status.Code(call()); got != want {
			t.Errorf("%s after Configure: %v, want %v", name, got, want)
		}
	}
}

// Stop runs once, however often the end is asked for, and not without a start.
func TestShutdown(t *testing.T) {
	for _, configured := range []bool{true, false} {
		stops := 0
		conn := connect(t, Plugin{Stop: func(context.Context) error { stops++; return errors.New("stuck") }})
		want := 0
		if configured {
			configure(t, conn, `{}`)
			want = 1
		}
		for range 2 {
			_, err := pb.NewPluginServiceClient(conn).Shutdown(t.Context(), &pb.ShutdownRequest{})
			if configured && (err == nil || !strings.Contains(err.Error(), "stuck")) {
				t.Errorf("got %v", err)
			}
		}
		if stops != want {
			t.Errorf("configured %v: Stop ran %d times", configured, stops)
		}
	}
}

// Start may add what depends on the config.
func TestStartAdds(t *testing.T) {
	type p struct {
		N int `json:"n"`
	}
	conn := connect(t, Plugin{Tools: []Tool{}, Start: func(_ context.Context, pl *Plugin) error {
		pl.Tools = append(pl.Tools, Typed(ToolSpec{Name: "late", Description: "x", ReadOnly: true, Subject: Subject{Kind: "text", Member: "n"}},
			func(_ context.Context, c Call, a p) (Result, error) { return TextResult(c.CallID), nil }))
		return nil
	}})
	configure(t, conn, `{}`)
	list, err := pb.NewToolServiceClient(conn).ListTools(t.Context(), &pb.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []*pb.ToolSpec{{
		Name: "late", Description: "x", ReadOnly: true, Subject: &pb.Subject{Kind: "text", Member: "n"},
		Parameters: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`),
	}}
	if diff := cmp.Diff(want, list.GetTools(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A panic in a call fails the call and nothing else, and text that is no UTF-8
// passes.
func TestContained(t *testing.T) {
	conn := connect(t, Plugin{Commands: []Command{
		{Name: "panic", Expand: func(context.Context, Use) ([]sdkproto.Block, error) { panic("oh no") }},
		{Name: "binary", Expand: func(context.Context, Use) ([]sdkproto.Block, error) { return nil, errors.New("a\xffb") }},
		{Name: "fine", Expand: func(_ context.Context, u Use) ([]sdkproto.Block, error) {
			return []sdkproto.Block{sdkproto.Text(u.Args)}, nil
		}},
	}})
	configure(t, conn, `{}`)
	client := pb.NewCommandServiceClient(conn)
	for name, want := range map[string]string{"panic": "panic: oh no", "binary": "a\uFFFDb", "none": `there is no command "none"`} {
		_, err := client.Expand(t.Context(), &pb.ExpandRequest{Name: name})
		if got := status.Convert(err).Message(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	got, err := client.Expand(t.Context(), &pb.ExpandRequest{Name: "fine", Args: "x"})
	if err != nil || string(got.GetContent()) != `[{"type":"text","text":"x"}]` {
		t.Errorf("got %s, %v", got.GetContent(), err)
	}
}

// Progress that is told after the call's end goes nowhere.
func TestLateProgress(t *testing.T) {
	var late func(string)
	conn := connect(t, Plugin{Tools: []Tool{Typed(ToolSpec{Name: "x"}, func(_ context.Context, c Call, _ struct{}) (Result, error) {
		c.Progress("in time")
		late = c.Progress
		return ErrorResult("E", "CODE", "no"), nil
	})}})
	configure(t, conn, `{}`)
	s, err := pb.NewToolServiceClient(conn).CallTool(t.Context(), &pb.CallToolRequest{Name: "x", Arguments: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var got []*pb.CallToolResponse
	for {
		r, err := s.Recv()
		if err != nil {
			break
		}
		got = append(got, r)
	}
	late("too late")
	want := []*pb.CallToolResponse{
		{Event: &pb.CallToolResponse_Progress{Progress: "in time"}},
		{Event: &pb.CallToolResponse_Result{Result: &pb.ToolResult{Content: []byte(`[{"type":"text","text":"no"}]`), IsError: true, Error: &pb.ToolError{Name: "E", Code: "CODE"}}}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A log line has the members that the harness looks for.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewLogHandler(&out, slog.LevelDebug))
	log.Warn("careful", "n", 1)
	log.Debug("look", slog.Group("g", "level", "mine"))
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := wirejson.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m["@timestamp"] == nil {
			t.Errorf("no time: %s", line)
		}
		delete(m, "@timestamp")
		got = append(got, m)
	}
	want := []map[string]any{
		{"@level": "warn", "@message": "careful", "n": 1.0},
		{"@level": "debug", "@message": "look", "g": map[string]any{"level": "mine"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The data of hooks has the form that plugin.proto gives.
func TestHookData(t *testing.T) {
	call := ToolCall{SessionID: "s", CWD: "/w", CallID: "c", Turn: 1, Step: 2, Tool: "t", Arguments: json.RawMessage(`{"a":1}`)}
	for want, v := range map[string]any{
		`{"sessionId":"s","cwd":"/w","callId":"c","turn":1,"step":2,"tool":"t","arguments":{"a":1}}`:                                                       ToolEvent{ToolCall: call},
		`{"sessionId":"s","cwd":"/w","callId":"c","turn":1,"step":2,"tool":"t","arguments":{"a":1},"result":{"content":[],"isError":true}}`:                ToolEvent{call, &Outcome{IsError: true}},
		`{"sessionId":"s","cwd":"","depth":0,"first":true,"provider":"p","model":"m","message":{"content":[],"source":{"kind":""},"role":"user","id":""}}`: Prompt{SessionID: "s", First: true, Provider: "p", Model: "m", Message: sdkproto.Message{Role: "user"}},
	} {
		got, err := wirejson.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
