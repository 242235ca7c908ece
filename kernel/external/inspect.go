package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	pb "dsh/sdkproto/plugin/pb/v1"
)

// Description is what a plugin says of itself.
type Description struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Summary string `json:"summary"`
	// Capabilities are words: tools, models, hooks, prompt, commands, events.
	Capabilities []string `json:"capabilities"`
	// Hooks and Events are the names that the plugin wants to hear of.
	Hooks  []string `json:"hooks"`
	Events []string `json:"events"`
	// ConfigSchema is a JSON Schema; nil when the plugin takes no config.
	ConfigSchema json.RawMessage `json:"configSchema,omitzero"`
}

// inspectLimit bounds an inspection (decision D6).
const inspectLimit = 10 * time.Second

// Inspect starts an executable without a profile, asks it what it is, and ends
// it. It gets the environment that every plugin gets; what it prints goes to
// log.
func Inspect(ctx context.Context, path string, log *slog.Logger) (d *Description, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectLimit, fmt.Errorf("not ready after %v", inspectLimit))
	defer cancel()
	env, _, _ := environment(ctx, os.Environ(), nil, nil, nil)
	l := &launch{path: path, env: env, log: log}
	i, err := l.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		err = errors.Join(err, i.end(end))
	}()
	said, err := pb.NewPluginServiceClient(i.conn).Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return nil, newSupervisor(path, log, 0).explain(ctx, ctx, i, inspectLimit, err)
	}
	d = &Description{
		Name: said.GetName(), Version: said.GetVersion(), Summary: said.GetSummary(),
		Hooks: said.GetHooks(), Events: said.GetEvents(), ConfigSchema: said.GetConfigSchema(),
	}
	for _, c := range said.GetCapabilities() {
		d.Capabilities = append(d.Capabilities, capabilityWord(c))
	}
	return d, nil
}
