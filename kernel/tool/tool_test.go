package tool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

type params struct {
	Path  string   `json:"path" jsonschema:"What to look at."`
	Limit int      `json:"limit,omitzero"`
	Mode  string   `json:"mode,omitzero" enum:"fast,slow"`
	Tags  []string `json:"tags,omitzero"`
	Inner *struct {
		Deep []int `json:"deep"`
	} `json:"inner,omitzero"`
}

func echo(t *testing.T, name string) tool.Tool {
	t.Helper()
	return tool.Typed(tool.Spec{Name: name, Description: "Echoes."}, func(_ context.Context, _ tool.Invocation, p params) (tool.Result, error) {
		if p.Path == "panic" {
			panic("ouch")
		}
		if p.Path == "fail" {
			return tool.Result{}, errors.New("disk on fire")
		}
		return tool.TextResult(fmt.Sprintf("%s %d", p.Path, p.Limit)), nil
	})
}

func TestSchemaIsPlain(t *testing.T) {
	got, err := tool.SchemaFor[params]()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"required":["path"]`, `"additionalProperties":false`, `"enum":["fast","slow"]`, `"What to look at."`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if strings.Contains(string(got), `"null"`) || strings.Contains(string(got), `"type":[`) {
		t.Errorf("a provider may refuse a list of types: %s", got)
	}
}

func TestPipelineAlwaysGivesAResult(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	registry, pipeline := tool.NewRegistry(), tool.NewPipeline()
	if err := registry.Register(o, echo(t, "echo")); err != nil {
		t.Fatal(err)
	}
	view := registry.View(nil)
	for name, tc := range map[string]struct {
		tool, arguments string
		code, text      string
	}{
		"good":               {"echo", `{"path":"a","limit":3}`, "", "a 3"},
		"unknown tool":       {"bash", `{}`, sdkproto.CodeUnknownTool, `Error: unknown tool "bash"`},
		"not JSON":           {"echo", `{"path":`, "INVALID_ARGUMENTS", "at byte 8: /path: unexpected EOF"},
		"a member twice":     {"echo", `{"path":"a","path":"b"}`, "INVALID_ARGUMENTS", "at byte 12: /path: duplicate"},
		"another case":       {"echo", `{"Path":"a"}`, "INVALID_ARGUMENTS", "/Path: unknown"},
		"not an object":      {"echo", `[1]`, "INVALID_ARGUMENTS", "not a JSON object"},
		"empty means {}":     {"echo", ``, "INVALID_ARGUMENTS", "path"},
		"wrong type":         {"echo", `{"path":7}`, "INVALID_ARGUMENTS", `/path: type: 7 has type "integer", want "string"`},
		"unknown member":     {"echo", `{"path":"a","pth":1}`, "INVALID_ARGUMENTS", "pth"},
		"all errors at once": {"echo", `{"limit":"x","mode":"odd"}`, "INVALID_ARGUMENTS", `/path: missing; it is required; /limit: type: x has type "string", want "integer"; /mode: enum: odd does not equal any of: [fast slow]`},
		"deep down":          {"echo", `{"path":"a","inner":{"deep":[1,"x"]}}`, "INVALID_ARGUMENTS", `/inner/deep/1: type: x has type "string", want "integer"`},
		"number too large":   {"echo", `{"path":"a","limit":1e300}`, "INVALID_ARGUMENTS", "limit"},
		"panic":              {"echo", `{"path":"panic"}`, "TOOL_FAILED", "panicked: ouch"},
		"error":              {"echo", `{"path":"fail"}`, "TOOL_FAILED", "Error: echo failed: disk on fire"},
	} {
		t.Run(name, func(t *testing.T) {
			res := pipeline.Call(context.Background(), view, tc.tool, tc.arguments, tool.Invocation{})
			code := ""
			if res.Error != nil {
				code = res.Error.Code
			}
			if text := sdkproto.TextOf(res.Content); code != tc.code || res.IsError != (tc.code != "") || !strings.Contains(text, tc.text) {
				t.Errorf("got %q %q, want %q %q", code, text, tc.code, tc.text)
			}
		})
	}
}

func TestPipelineStagesWrapInOrder(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	registry, pipeline := tool.NewRegistry(), tool.NewPipeline()
	if err := registry.Register(o, echo(t, "echo")); err != nil {
		t.Fatal(err)
	}
	var seen []string
	stage := func(name string) tool.Stage {
		return func(ctx context.Context, tl tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
			seen = append(seen, name)
			return next(ctx, tl, in)
		}
	}
	row := o.Child("row")
	for _, s := range []struct {
		order int
		name  string
	}{{tool.OrderGuard, "guard"}, {tool.OrderGate, "gate a"}, {tool.OrderLimit, "limit"}, {tool.OrderGate, "gate b"}} {
		if err := pipeline.Use(row, s.order, s.name, stage(s.name)); err != nil {
			t.Fatal(err)
		}
	}
	call := func() tool.Result {
		return pipeline.Call(context.Background(), registry.View(nil), "echo", `{"path":"x"}`, tool.Invocation{})
	}
	call()
	if want := []string{"limit", "gate a", "gate b", "guard"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if err := pipeline.Use(row, tool.OrderGate, "broken", func(context.Context, tool.Tool, tool.Invocation, tool.Next) (tool.Result, error) {
		panic("no")
	}); err != nil {
		t.Fatal(err)
	}
	if res := call(); !res.IsError || !strings.Contains(sdkproto.TextOf(res.Content), "stage broken panicked") {
		t.Errorf("a panic in a stage refuses the call; got %+v", res)
	}
	if err := row.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	seen = nil
	if res := call(); res.IsError || seen != nil {
		t.Errorf("stages outlive their owner: %q", seen)
	}
}

// S112, S134: one projection, evaluated at each read.
func TestViewFollowsTheRegistry(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	registry := tool.NewRegistry()
	for _, name := range []string{"read", "bash"} {
		if err := registry.Register(o, echo(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	names := func(v *tool.View) (names []string) {
		for _, tl := range v.List() {
			names = append(names, tl.Spec().Name)
		}
		return names
	}
	allow := registry.View([]*tool.Filter{{Allow: []string{"read", "bash"}}, {Deny: []string{"bash"}}}, echo(t, "report"))
	deny := registry.View([]*tool.Filter{{Deny: []string{"bash"}}})
	late := o.Child("late")
	if err := registry.Register(late, echo(t, "mcp__x__y")); err != nil {
		t.Fatal(err)
	}
	if got, want := names(allow), []string{"read", "report"}; !slices.Equal(got, want) {
		t.Errorf("allow: got %q, want %q", got, want)
	}
	if got, want := names(deny), []string{"read", "mcp__x__y"}; !slices.Equal(got, want) {
		t.Errorf("deny: got %q, want %q", got, want)
	}
	if _, ok := allow.Lookup("mcp__x__y"); ok {
		t.Error("a late tool that is not allowed can be called")
	}
	if err := registry.Register(o, echo(t, "read")); err == nil {
		t.Error("a name was taken twice")
	}
	if err := late.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, ok := deny.Lookup("mcp__x__y"); ok {
		t.Error("a tool outlives its owner")
	}
}
