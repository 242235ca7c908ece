package external

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"dsh/kernel/credential"
	"dsh/kernel/process"
	"dsh/sdkproto/plugin"
	pb "dsh/sdkproto/plugin/pb/v1"
)

// markerVariable marks what comes from a plugin, so that what left its process
// group can still be found.
const markerVariable = "DSH_PLUGIN_PROCESS"

// launch says how an executable is started.
type launch struct {
	path        string
	checksum    string
	env         []string
	secrets     []credential.Secret
	log         *slog.Logger
	confiner    process.Confiner
	confinement *process.Confinement
}

// instance is one start of a plugin, connected and not yet configured.
type instance struct {
	program *program
	client  *goplugin.Client
	conn    grpc.ClientConnInterface
	sockets string
	// ctx ends when the program does, however that comes.
	ctx    context.Context
	cancel context.CancelFunc
}

// start starts the executable and shakes hands. ctx bounds all of it; after an
// error nothing is left.
func (l *launch) start(ctx context.Context) (_ *instance, err error) {
	if err := executable(l.path); err != nil {
		return nil, err
	}
	if err := verify(l.path, l.checksum); err != nil {
		return nil, err
	}
	sockets, err := socketFolder()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(sockets)
		}
	}()
	p := &program{
		path: l.path, dir: workFolder(), out: newOutput(l.log, l.secrets), marker: rand.Text(),
		confiner: l.confiner, done: make(chan struct{}),
	}
	if l.confinement != nil {
		confined := *l.confinement
		confined.Write = append(slices.Clone(confined.Write), sockets)
		p.confinement = &confined
	}
	p.shaken, p.shake = io.Pipe()
	i := &instance{program: p, sockets: sockets}
	i.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: plugin.CookieKey, MagicCookieValue: plugin.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{plugin.ProtocolVersion: {"plugin": connected{}}},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			p.env = slices.Concat(l.env, cmd.Env, []string{markerVariable + "=" + p.marker})
			return p, nil
		},
		// Our own limit, which knows better what to say, comes first.
		StartTimeout:     24 * time.Hour,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		// What go-plugin has to say is said here, with the row.
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       &lineWriter{f: p.out.stdout},
		SyncStderr:       &lineWriter{f: p.out.stderr},
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: sockets},
		GRPCDialOptions:  []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(plugin.MaxAnswer))},
	})
	if err := i.connect(ctx); err != nil {
		return nil, err
	}
	if r := p.reached; p.confinement != nil {
		l.log.Info("the plugin is confined", "mode", p.confinement.Mode, "reached", r.Level, "missing", r.Missing)
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	go func() {
		<-p.done
		i.cancel()
	}()
	return i, nil
}

// connect runs go-plugin's start. That knows no context: when ctx ends, the
// program is ended, and with it whatever go-plugin waits for.
func (i *instance) connect(ctx context.Context) error {
	p := i.program
	p.starting = ctx
	client, err := i.client.Client()
	if p.unwatch != nil && !p.unwatch() {
		err = context.Cause(ctx)
	}
	if err == nil {
		if g, ok := client.(*goplugin.GRPCClient); ok {
			i.conn = g.Conn
			return nil
		}
		err = fmt.Errorf("unexpected kind of client %T", client)
	}
	if p.cmd == nil {
		return fmt.Errorf("start %s: %w", p.path, err)
	}
	ended := p.ended()
	stuck := p.end(0)
	i.client.Kill()
	switch wrong := p.blame(); {
	case wrong != nil:
		return errors.Join(wrong, stuck)
	case ctx.Err() != nil:
		return errors.Join(fmt.Errorf("it did not shake hands in time (%w); a plugin prints its handshake line and serves%s", context.Cause(ctx), p.said()), stuck)
	case ended:
		return errors.Join(fmt.Errorf("it ended before its handshake (%s); is it a plugin?%s", p.exit, p.said()), stuck)
	}
	return errors.Join(fmt.Errorf("connect: %w%s", err, p.said()), stuck)
}

// ended reports whether the program has ended, giving one that has closed its
// output a moment to do so.
func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(2 * drainLimit):
		return false
	}
}

// said gives the last words of the program as the end of a sentence.
func (p *program) said() string {
	if words := p.out.lastWords(); words != "" {
		return "; its last words: " + words
	}
	return ""
}

// Limits of the end of a plugin. Their sum fits into what rows have when the
// process ends (decision R13).
const (
	shutdownLimit = 500 * time.Millisecond
	partingLimit  = 300 * time.Millisecond
	termLimit     = 300 * time.Millisecond
)

// end ends the program in good order, and soon: Shutdown, a wait, TERM, a wait,
// KILL. It may be called for one that has ended by itself, to tidy up.
func (i *instance) end(ctx context.Context) error {
	defer os.RemoveAll(i.sockets)
	if i.ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, shutdownLimit)
		// One that does not answer is ended all the same.
		_, _ = pb.NewPluginServiceClient(i.conn).Shutdown(limited, &pb.ShutdownRequest{})
		cancel()
	}
	killed := make(chan struct{})
	go func() {
		// It asks the program to end, and has no limit of its own; it returns when
		// the program is gone.
		defer close(killed)
		i.client.Kill()
	}()
	select {
	case <-i.program.done:
	case <-time.After(partingLimit):
	case <-ctx.Done():
	}
	err := i.program.end(termLimit)
	if err == nil {
		<-killed
	}
	i.cancel()
	return err
}

// connected is the plugin set that go-plugin wants; the connection is used as it
// is.
type connected struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connected) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the harness's side")
}

func (connected) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// maxSocketFolder is how long a folder may be so that the path of a Unix socket
// below it fits into the 104 bytes that every system has.
const maxSocketFolder = 40

// socketFolder makes a private folder for a plugin's socket.
func socketFolder() (string, error) {
	base := os.TempDir()
	if runtime.GOOS != "windows" && len(base) > maxSocketFolder {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "dsh-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the plugin's socket: %w", err)
	}
	return dir, nil
}

// workFolder is where a plugin runs: where the harness does.
func workFolder() string {
	if dir, err := os.Getwd(); err == nil {
		return dir
	}
	return filepath.Clean(os.TempDir())
}
