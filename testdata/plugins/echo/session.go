package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// hooks refuse prompts and calls that hold a word of the config.
func hooks(c *config) *plugin.Hooks {
	refused := func(text string) string {
		for _, word := range c.Refuse {
			if strings.Contains(text, word) {
				return fmt.Sprintf("the plugin echo does not repeat the word %q", word)
			}
		}
		return ""
	}
	return &plugin.Hooks{
		BeforeTool: func(_ context.Context, call plugin.ToolCall) (plugin.Before, error) {
			reason := refused(string(call.Arguments))
			return plugin.Before{Deny: reason != "", Reason: reason}, nil
		},
		Prompt: func(_ context.Context, p plugin.Prompt) (plugin.Verdict, error) {
			reason := refused(sdkproto.TextOf(p.Message.Content))
			return plugin.Verdict{Block: reason != "", Reason: reason}, nil
		},
	}
}

// section tells the model of the tool, if it has it.
func section() plugin.Section {
	return plugin.Section{Name: "echo", Text: func(_ context.Context, f plugin.Facts) (string, error) {
		for _, tool := range f.Tools {
			if tool == "echo" {
				return "The tool echo gives a text back word for word.", nil
			}
		}
		return "", nil
	}}
}

// command is /echo TEXT.
func command(c *config) plugin.Command {
	return plugin.Command{
		Name: "echo", Description: "Asks the model to repeat a text.", ArgumentHint: "TEXT",
		Expand: func(_ context.Context, use plugin.Use) ([]sdkproto.Block, error) {
			return []sdkproto.Block{sdkproto.Text("Repeat this, and nothing else: " + c.again(use.Args))}, nil
		},
	}
}

// events notes the ends of turns in the log.
func events() *plugin.Events {
	return &plugin.Events{
		Types: []string{sdkproto.TypeTurnEnd},
		Handle: func(_ context.Context, session string, e sdkproto.Event) error {
			slog.Info("a turn has ended", "session", session, "seq", e.Seq)
			return nil
		},
	}
}
