package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/wirejson"
)

func (r *row) registerModels(o *kernel.Owner, providers []*pb.Provider) error {
	if len(providers) == 0 {
		return nil
	}
	if r.in.Models == nil {
		return missing("models", "*llm.Router")
	}
	for _, p := range providers {
		if p.GetId() == "" {
			return errors.New("the plugin offers a provider without an id")
		}
		if err := r.in.Models.Register(o, p.GetId(), &adapter{r.sup, p, r.in.Config.Host.callTimeout()}); err != nil {
			return err
		}
	}
	return nil
}

// adapter is a provider of a plugin.
type adapter struct {
	sup      *supervisor
	provider *pb.Provider
	// silence bounds the wait for the next chunk.
	silence time.Duration
}

var _ llm.Adapter = (*adapter)(nil)

func (a *adapter) model(id string) (*pb.Model, bool) {
	i := slices.IndexFunc(a.provider.GetModels(), func(m *pb.Model) bool { return m.GetId() == id })
	if i < 0 {
		return nil, a.provider.GetAnyModel()
	}
	return a.provider.GetModels()[i], true
}

// Resolve implements llm.Adapter with what the plugin said when it was listed.
func (a *adapter) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	var chosen sdkproto.AdapterDefaults
	refused := func(format string, args ...any) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
		return r, chosen, llm.Info{}, &llm.Error{Code: llm.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	}
	m, ok := a.model(r.Model)
	if !ok {
		var known []string
		for _, one := range a.provider.GetModels() {
			known = append(known, one.GetId())
		}
		return refused("provider %q has no model %q; it has: %s", r.Provider, r.Model, strings.Join(known, ", "))
	}
	efforts := a.provider.GetReasoningEfforts()
	switch {
	case r.ReasoningEffort == "" && a.provider.GetDefaultReasoningEffort() != "":
		r.ReasoningEffort, chosen.ReasoningEffort = a.provider.GetDefaultReasoningEffort(), true
	case r.ReasoningEffort != "" && len(efforts) == 0:
		return refused("provider %q takes no reasoning effort; leave out %q", r.Provider, r.ReasoningEffort)
	case r.ReasoningEffort != "" && !slices.Contains(efforts, r.ReasoningEffort):
		return refused("unknown reasoning effort %q; use one of %s", r.ReasoningEffort, strings.Join(efforts, ", "))
	}
	if r.MaxTokens == 0 && a.provider.GetDefaultMaxTokens() > 0 {
		r.MaxTokens, chosen.MaxTokens = a.provider.GetDefaultMaxTokens(), true
	}
	info := llm.Info{ContextWindow: m.GetContextWindow(), Images: m.GetImages()}
	if p := m.GetPrice(); p != nil {
		info.Price = &llm.Price{Currency: p.GetCurrency(), Input: p.GetInput(), CacheRead: p.GetCacheRead(), Output: p.GetOutput()}
	}
	return r, chosen, info, nil
}

// Stream implements llm.Adapter.
func (a *adapter) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return func(yield func(sdkproto.Chunk, error) bool) {
		if err := a.stream(ctx, req, func(c sdkproto.Chunk) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errNoMore) {
			yield(sdkproto.Chunk{}, err)
		}
	}
}

// errNoMore: whoever reads the chunks wants no more of them.
var errNoMore = errors.New("no more chunks are wanted")

func (a *adapter) stream(ctx context.Context, req llm.Request, yield func(sdkproto.Chunk) bool) error {
	wire, err := a.request(ctx, req)
	if err != nil {
		return err
	}
	i, err := a.sup.acquire(ctx)
	if err != nil {
		return transport(ctx, err)
	}
	joined, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.ctx, func() { cancel(errEnded) })()
	silent := time.AfterFunc(a.silence, func() { cancel(errSilent) })
	defer silent.Stop()
	stream, err := pb.NewModelServiceClient(i.conn).Stream(joined, wire)
	if err != nil {
		return a.failed(ctx, joined, i, err)
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return &llm.Error{Code: llm.CodeStreamClosed, Message: fmt.Sprintf("the plugin %s ended the answer without a finish", a.sup.name)}
		}
		if err != nil {
			return a.failed(ctx, joined, i, err)
		}
		silent.Reset(a.silence)
		for _, text := range message.GetChunks() {
			var c sdkproto.Chunk
			if err := wirejson.Unmarshal(text, &c); err != nil {
				return &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the plugin %s sent a chunk that cannot be read: %v", a.sup.name, err)}
			}
			if !yield(c) {
				return errNoMore
			}
			if c.Type == sdkproto.ChunkFinish {
				return nil
			}
		}
		if e := message.GetError(); e != nil {
			return &llm.Error{
				Code: orElse(e.GetCode(), llm.CodeServer), Message: i.program.out.redact(orElse(e.GetMessage(), "the plugin "+a.sup.name+" gives no reason")),
				Status: int(e.GetStatus()), RetryAfter: time.Duration(max(e.GetRetryAfterMs(), 0)) * time.Millisecond, RequestID: e.GetRequestId(),
			}
		}
	}
}

func (a *adapter) request(ctx context.Context, req llm.Request) (*pb.StreamRequest, error) {
	header, err := wirejson.Marshal(req.Header)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	m, _ := a.model(req.Header.Config.Model)
	messages, err := wirejson.Marshal(embed(ctx, req, m.GetImages()))
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return &pb.StreamRequest{SessionId: req.SessionID, Header: header, Messages: messages}, nil
}

var (
	errEnded  = errors.New("the plugin ended")
	errSilent = errors.New("the plugin is silent")
)

// failed gives an error of a stream its kind.
func (a *adapter) failed(caller, joined context.Context, i *instance, err error) error {
	if caller.Err() == nil && errors.Is(context.Cause(joined), errSilent) {
		return &llm.Error{Code: llm.CodeTimeout, Message: fmt.Sprintf("the plugin %s sent nothing for %v", a.sup.name, a.silence)}
	}
	return transport(caller, a.sup.explain(caller, joined, i, a.silence, err))
}

// transport makes what is no answer at all something that may be tried again.
func transport(caller context.Context, err error) error {
	if caller.Err() != nil {
		return context.Cause(caller)
	}
	return &llm.Error{Code: llm.CodeTransport, Message: err.Error()}
}
