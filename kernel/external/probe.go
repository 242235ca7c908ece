package external

import (
	"context"
	"dsh/kernel/process/group"
	"fmt"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	pb "dsh/sdkproto/plugin/pb/v1"
)

// Probe is one start of an executable outside of any profile, for those who
// check plugins: nothing restarts it, and nothing stands between it and whoever
// speaks to it.
type Probe struct{ i *instance }

// StartProbe starts an executable with the environment that every plugin gets,
// and shakes hands. ctx bounds that. What it prints goes to log as it does in a
// profile; what came from standard output has the attribute "from".
func StartProbe(ctx context.Context, path string, log *slog.Logger) (*Probe, error) {
	env, _, _ := environment(ctx, os.Environ(), nil, nil, nil)
	i, err := (&launch{path: path, env: env, log: log}).start(ctx)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	return &Probe{i}, nil
}

// Conn is the connection to it.
func (p *Probe) Conn() grpc.ClientConnInterface { return p.i.conn }

// Done is closed when the process has ended.
func (p *Probe) Done() <-chan struct{} { return p.i.program.done }

// Exit says how it ended, and its last words; only once Done is closed.
func (p *Probe) Exit() string { return p.i.program.exit + p.i.program.said() }

// Pid is the number of its process.
func (p *Probe) Pid() int { return p.i.program.cmd.Process.Pid }

// Processes lists what runs of all that it started, itself included. On systems
// where that cannot be seen, ok is false.
func (p *Probe) Processes() (pids []int, ok bool) {
	return group.Marked(markerVariable + "=" + p.i.program.marker), group.Visible
}

// HangUp ends its standard input, as the end of the harness would.
func (p *Probe) HangUp() error { return p.i.program.alive.Close() }

// Controller asks it to end by itself, which is the last step of an end in good
// order.
func (p *Probe) Controller(ctx context.Context) error {
	// The messages of that service have no fields, as these have none.
	return p.i.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &pb.ShutdownRequest{}, &pb.ShutdownResponse{})
}

// End ends it as a profile does, and all that came from it.
func (p *Probe) End(ctx context.Context) error { return p.i.end(ctx) }
