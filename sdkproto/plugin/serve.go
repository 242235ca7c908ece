package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "dsh/sdkproto/plugin/pb/v1"
)

// Serve is all of a plugin's main: it speaks to the harness and returns when the
// harness wants no more. It makes log/slog write to standard error for the
// harness. When a person has started the program, and when p makes no sense, it
// says so and exits.
func Serve(p Plugin) {
	if os.Getenv(CookieKey) != CookieValue {
		fmt.Fprintf(os.Stderr, "%s %s is a plugin of dsh and is started by it. Name it in a row of a profile:\n\n  plugins:\n    %s: {use: %s}\n",
			p.Name, p.Version, p.Name, os.Args[0])
		os.Exit(1)
	}
	stderr := os.Stderr
	slog.SetDefault(slog.New(NewLogHandler(stderr, slog.LevelDebug)))
	s := &server{plugin: &p, stderr: stderr}
	outliveHarness()
	go endWithHarness(s)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{
			ProtocolVersion: {"plugin": registrar{server: s}},
		},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxAnswer),
				grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: stderr, JSONFormat: true}),
	})
	// Background goroutines of the plugin may hold what Stop gives back.
	s.stop(context.Background())
}

// registrar puts the services onto the server that go-plugin makes.
type registrar struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
}

func (r registrar) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	r.server.register(g)
	return nil
}

func (registrar) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("this is the plugin's side")
}

func (s *server) register(g *grpc.Server) {
	pb.RegisterPluginServiceServer(g, s)
	pb.RegisterToolServiceServer(g, toolServer{server: s})
	pb.RegisterModelServiceServer(g, modelServer{server: s})
	pb.RegisterHookServiceServer(g, hookServer{server: s})
	pb.RegisterPromptServiceServer(g, promptServer{server: s})
	pb.RegisterCommandServiceServer(g, commandServer{server: s})
	pb.RegisterEventSinkServiceServer(g, eventServer{server: s})
}

// endWithHarness ends the process, and what it has started, when standard input
// ends: then the harness is gone (case B76).
func endWithHarness(s *server) {
	var one [64]byte
	for {
		if _, err := os.Stdin.Read(one[:]); err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	s.stop(ctx)
	endGroup()
	os.Exit(1)
}

func unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer contain(info.FullMethod, &err)
	resp, err = next(ctx, req)
	return resp, failure(err)
}

func stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer contain(info.FullMethod, &err)
	return failure(next(srv, ss))
}

// contain makes a panic a failed call.
func contain(method string, err *error) {
	if r := recover(); r != nil {
		slog.Error("panic in a call", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "panic: %v", r)
	}
}

// failure gives an error the form of gRPC. Bad UTF-8 would not pass.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Error(status.FromContextError(err).Code(), strings.ToValidUTF8(err.Error(), "\uFFFD"))
}
