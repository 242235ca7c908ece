package main

import (
	"context"
	"log/slog"
	"time"

	"dsh/sdkproto/plugin"
)

// maxWait bounds how long a call may be asked to take, in milliseconds.
const maxWait = 60_000

type echoArgs struct {
	Text   string `json:"text" jsonschema:"The text to give back."`
	WaitMs int    `json:"wait_ms,omitzero" jsonschema:"How long to wait before that, in milliseconds, up to 60000."`
}

func echoTool(c *config) plugin.Tool {
	return plugin.Typed(
		plugin.ToolSpec{
			Name: "echo", Description: "Gives a text back. Use it to see that the plugin works.",
			ReadOnly: true, Parallel: true, Subject: plugin.Subject{Kind: "text", Member: "text"},
		},
		func(ctx context.Context, call plugin.Call, args echoArgs) (plugin.Result, error) {
			if args.WaitMs < 0 || args.WaitMs > maxWait {
				// What the model did wrong is a result that tells it what to do.
				return plugin.ErrorResult("EchoError", "BAD_WAIT", "Error: wait_ms must be from 0 to 60000"), nil
			}
			if args.WaitMs > 0 {
				call.Progress("waiting")
				slog.Info("a call waits", "session", call.SessionID, "ms", args.WaitMs)
				select {
				case <-time.After(time.Duration(args.WaitMs) * time.Millisecond):
				case <-ctx.Done(): // nobody waits any more
					return plugin.Result{}, ctx.Err()
				}
			}
			return plugin.TextResult(c.again(args.Text)), nil
		})
}
