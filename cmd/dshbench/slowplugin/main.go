// Command slowplugin is a plugin that takes its time to start and offers
// nothing, for dshbench. It is a program of its own so that dshbench does not
// carry what a plugin needs: dshbench is also the program that does nothing.
package main

import (
	"context"
	"time"

	"dsh/sdkproto/plugin"
)

type config struct {
	DelayMs int `json:"delayMs,omitzero" jsonschema:"How long the start takes, in milliseconds."`
}

func main() {
	c := &config{}
	plugin.Serve(plugin.Plugin{
		Name: "slow", Version: "1.0.0", Summary: "Takes its time to start.",
		Config: plugin.Config(c),
		Start: func(ctx context.Context, _ *plugin.Plugin) error {
			select {
			case <-time.After(time.Duration(c.DelayMs) * time.Millisecond):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	})
}
