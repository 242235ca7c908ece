package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

func TestTool(t *testing.T) {
	tool := echoTool(&config{Prefix: "> ", Repeat: 2})
	for name, c := range map[string]struct {
		arguments string
		want      string
		isError   bool
	}{
		"a text":          {`{"text":"hello 世界"}`, "> hello 世界 hello 世界", false},
		"after a while":   {`{"text":"x","wait_ms":1}`, "> x x", false},
		"too long a wait": {`{"text":"x","wait_ms":60001}`, "Error: wait_ms must be from 0 to 60000", true},
		"not a text":      {`{"text":1}`, "Error: the arguments cannot be used: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tool.Call(t.Context(), plugin.Call{Arguments: json.RawMessage(c.arguments), Progress: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			text := sdkproto.TextOf(got.Content)
			if !strings.HasPrefix(text, c.want) || !c.isError && text != c.want || got.IsError != c.isError {
				t.Errorf("got %q, error: %v; want %q, error: %v", text, got.IsError, c.want, c.isError)
			}
		})
	}
}

func TestToolIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := echoTool(&config{Repeat: 1}).Call(ctx, plugin.Call{
		Arguments: json.RawMessage(`{"text":"x","wait_ms":60000}`),
		Progress:  func(string) { cancel() },
	})
	if err == nil {
		t.Error("a cancelled call has a result")
	}
}

func TestConfig(t *testing.T) {
	for repeat, want := range map[int]bool{0: false, 1: true, 10: true, 11: false} {
		if err := (&config{Repeat: repeat}).Validate(); (err == nil) != want {
			t.Errorf("repeat %d: %v", repeat, err)
		}
	}
	if err := (&config{Repeat: 1, Refuse: []string{"fine", " "}}).Validate(); err == nil {
		t.Error("a word of white space is taken")
	}
}

func TestHooks(t *testing.T) {
	h := hooks(&config{Refuse: []string{"secret"}})
	before, err := h.BeforeTool(t.Context(), plugin.ToolCall{Arguments: json.RawMessage(`{"text":"a secret"}`)})
	if err != nil || !before.Deny || !strings.Contains(before.Reason, "secret") {
		t.Errorf("a call with a refused word: %+v, %v", before, err)
	}
	verdict, err := h.Prompt(t.Context(), plugin.Prompt{Message: sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text("hello")}}})
	if err != nil || verdict.Block {
		t.Errorf("a prompt without one: %+v, %v", verdict, err)
	}
}
