package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

// stopLimit bounds Stop when nobody waits for it any more.
const stopLimit = 2 * time.Second

// server speaks for one Plugin.
type server struct {
	pb.UnimplementedPluginServiceServer

	plugin *Plugin
	// stderr is the process's own.
	stderr *os.File
	mu     sync.Mutex
	// configured: Configure went well, so that Stop has something to stop.
	configured bool
	stopping   sync.Once
	stopErr    error
}

func (s *server) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plugin
	d := &pb.DescribeResponse{
		Name: p.Name, Version: p.Version, Summary: p.Summary,
		Capabilities: p.capabilities(), Hooks: p.Hooks.names(),
	}
	if p.Events != nil {
		d.Events = p.Events.Types
	}
	if p.Config.schema != nil {
		text, err := p.Config.schema()
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		d.ConfigSchema = text
	}
	return d, nil
}

func (s *server) Configure(ctx context.Context, r *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.configured {
		return nil, status.Error(codes.FailedPrecondition, "the plugin is configured already")
	}
	return &pb.ConfigureResponse{Findings: findings(s.configure(ctx, r.GetConfig()))}, nil
}

func (s *server) configure(ctx context.Context, config json.RawMessage) error {
	if s.stderr != nil {
		// go-plugin has put a detour in its place, on which the last words of a
		// process that crashes are lost.
		os.Stderr = s.stderr
	}
	p := s.plugin
	if p.Config.take != nil {
		if err := p.Config.take(config); err != nil {
			return err
		}
	} else if err := wirejson.UnmarshalStrict(config, &struct{}{}); err != nil {
		return errors.New("the plugin takes no config")
	}
	if p.Start != nil {
		if err := p.Start(ctx, p); err != nil {
			return err
		}
	}
	s.configured = true
	return nil
}

func (s *server) Shutdown(ctx context.Context, _ *pb.ShutdownRequest) (*pb.ShutdownResponse, error) {
	return &pb.ShutdownResponse{}, s.stop(ctx)
}

// stop runs the plugin's Stop, once.
func (s *server) stop(ctx context.Context) error {
	s.stopping.Do(func() {
		s.mu.Lock()
		configured, stop := s.configured, s.plugin.Stop
		s.mu.Unlock()
		if configured && stop != nil {
			s.stopErr = stop(ctx)
		}
	})
	return s.stopErr
}

// ready gives the plugin once it is configured.
func (s *server) ready() (*Plugin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configured {
		return nil, status.Error(codes.FailedPrecondition, "the plugin is not configured; call Configure first")
	}
	return s.plugin, nil
}

// offered is ready for one capability.
func offered[T any](s *server, of func(*Plugin) (T, bool)) (T, error) {
	p, err := s.ready()
	if err != nil {
		var none T
		return none, err
	}
	v, ok := of(p)
	if !ok {
		return v, status.Error(codes.Unimplemented, "the plugin does not offer this")
	}
	return v, nil
}
