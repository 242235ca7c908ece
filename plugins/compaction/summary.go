package compaction

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// What is asked of the model that writes a summary.
const (
	askAll = "The conversation above is about to be taken out of your view to make room, and what you write now will stand in its place. "
	askNow = "What you have done above since the last message of the user is about to be taken out of your view to make room, and what you " +
		"write now will stand in its place. That message itself stays. "
	askText = "What follows is a part of a conversation between a user and an assistant, written down and shortened. It is about to be taken " +
		"out of the assistant's view to make room, and what you write now will stand in its place.\n\n"
	askFor = "Write down all that is needed to go on with the work as if nothing had been taken out:\n" +
		"- what the user wants, with every condition and preference, in the user's own words where they matter;\n" +
		"- what was done, decided and found out, with the exact paths, commands, names, numbers and error texts;\n" +
		"- what is not finished, how far it is, and what comes next.\n" +
		"Leave out what no longer matters. Call no tools, do not go on with the work and do not speak to the user: answer with the summary alone."
)

// writer is the model that writes summaries.
type writer struct {
	adapter llm.Adapter
	config  sdkproto.RequestConfig
	window  int64
	// same says that it is the session's model.
	same bool
	// requests are what those that told have used.
	requests []sdkproto.Usage
}

// writer finds the model, which answers no longer than a quarter of its window.
// Without one the result still says which it was to be.
func (r *room) writer() (*writer, error) {
	longest := r.config.Summary.MaxTokens
	want := r.config.Summary
	if want.Model == "" {
		w := &writer{adapter: r.step.Adapter, config: r.step.Header.Config, window: r.step.Info.ContextWindow, same: true}
		w.limit(longest)
		return w, nil
	}
	provider := cmp.Or(want.Provider, r.step.Route.Provider)
	w := &writer{config: sdkproto.RequestConfig{Provider: provider, Model: want.Model}}
	var err error
	if w.adapter, err = r.router.Lookup(provider); err != nil {
		return w, err
	}
	route, _, info, err := w.adapter.Resolve(llm.Route{Provider: provider, Model: want.Model, MaxTokens: longest})
	if err != nil {
		return w, fmt.Errorf("model %s of provider %s: %w", want.Model, provider, err)
	}
	w.window = info.ContextWindow
	w.config.ReasoningEffort, w.config.MaxTokens = route.ReasoningEffort, route.MaxTokens
	w.limit(longest)
	return w, nil
}

func (w *writer) limit(longest int64) {
	w.config.MaxTokens = longest
	if w.window > 0 {
		w.config.MaxTokens = max(min(longest, w.window/4), 1)
	}
}

// summarise asks for the summary of a span: with the history as it is, which the
// provider has in its cache, when that can fit; else, or when it was refused,
// with a shortened transcript.
func (r *room) summarise(ctx context.Context, w *writer, h *history, s span) (text string, err error) {
	// Until here the log may not be on the disk (decision D3).
	if err := r.step.Agent.Log().Sync(ctx); err != nil {
		return "", err
	}
	space := cmp.Or(w.window, h.tokens)
	held := h.tokens - h.sum(s.to, len(h.nodes))
	whole := held+w.config.MaxTokens <= space
	if r.order != nil && w.window == 0 {
		whole = true // nothing says that it cannot fit
	}
	if r.step.Refused != nil && w.same {
		// Its window is not what it was said to be, or the guess is too low.
		whole = held <= h.tokens*3/4
		space = min(space, h.tokens)
	}
	for budget := space / 2; r.account.calls < r.config.Attempts; {
		r.account.calls++
		var req llm.Request
		if whole {
			req = r.wholeRequest(w, h, s)
		} else {
			req = r.shortRequest(w, h, s, budget)
		}
		text, err = r.ask(ctx, w, req)
		switch {
		case err == nil, ctx.Err() != nil, !tooLong(err) && !retryable(err):
			return text, err
		case tooLong(err) && !whole:
			budget /= 2
		case tooLong(err):
			whole = false
		}
	}
	return "", err
}

// wholeRequest begins as the session's own requests do. Its tools are there for
// the sake of the cache, and because providers want to know those of the calls.
func (r *room) wholeRequest(w *writer, h *history, s span) llm.Request {
	messages := make([]sdkproto.Message, 0, s.to+1)
	for _, n := range h.nodes[:s.to] {
		messages = append(messages, n.Message)
	}
	say := askAll
	if s.work {
		say = askNow
	}
	header := r.step.Header
	return r.request(sdkproto.Header{Config: w.config, System: header.System, Tools: header.Tools},
		append(llm.Project(messages), instruction(say+r.askFor())))
}

// shortRequest is all text: the beginning of a span needs no call before it, and
// long messages can be cut. It holds at most budget tokens of the history.
func (r *room) shortRequest(w *writer, h *history, s span, budget int64) llm.Request {
	var messages []sdkproto.Message
	tokens := s.tokens
	if s.work {
		messages = append(messages, h.nodes[h.prompt].Message)
		tokens += h.sizes[h.prompt]
	}
	for _, n := range h.nodes[s.from:s.to] {
		messages = append(messages, n.Message)
	}
	return r.request(sdkproto.Header{Config: w.config},
		[]sdkproto.Message{instruction(askText + transcript(messages, float64(budget)/float64(tokens)) + "\n\n" + r.askFor())})
}

// askFor is what a summary should hold, with what somebody has asked for.
func (r *room) askFor() string {
	if r.order == nil || r.order.Instructions == "" {
		return askFor
	}
	return askFor + "\n\nThe user asks this of the summary: " + r.order.Instructions
}

func (r *room) request(header sdkproto.Header, messages []sdkproto.Message) llm.Request {
	req := llm.Request{SessionID: r.step.Agent.ID(), Header: header, Messages: messages}
	if r.images != nil {
		req.Image = func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error) {
			return r.images.Read(ctx, a.AttachmentID)
		}
	}
	return req
}

func instruction(text string) sdkproto.Message {
	return sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text(text)}, Role: sdkproto.RoleUser, ID: uuid.NewString(),
		Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: name, Form: "instructions"},
	}
}

// answer is what a model has said.
type answer struct {
	texts  map[int][]byte // by block
	size   int
	most   int // of size
	usage  *sdkproto.Usage
	finish string
	err    error
}

// ask makes one request. The row's owner waits for an adapter that does not end
// with its context; the caller does not.
func (r *room) ask(ctx context.Context, w *writer, req llm.Request) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan *answer, 1)
	r.owner.Go("summary", func(life context.Context) {
		stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
		defer stop()
		a := &answer{texts: map[int][]byte{}, most: bytesPerToken * int(w.config.MaxTokens)}
		a.err = a.collect(ctx, w.adapter, req)
		done <- a
	})
	var a *answer
	select {
	case a = <-done:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-r.owner.Context().Done():
		return "", kernel.ErrClosed
	}
	if a.usage != nil {
		w.requests = append(w.requests, *a.usage)
	}
	if a.err != nil {
		return "", a.err
	}
	return a.text()
}

// usage is what the requests came to, nil when none has told, and its parts where
// there are several.
func (w *writer) usage() (sum *sdkproto.Usage, parts []sdkproto.Usage) {
	if len(w.requests) == 0 {
		return nil, nil
	}
	sum = &sdkproto.Usage{}
	for i := range w.requests {
		sum.Add(&w.requests[i])
	}
	if len(w.requests) > 1 {
		parts = w.requests
	}
	return sum, parts
}

// bytesPerToken bounds what is taken of an answer: twice what its longest length
// in tokens usually comes to.
const bytesPerToken = 8

func (a *answer) collect(ctx context.Context, adapter llm.Adapter, req llm.Request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the model adapter panicked: %v", r)
		}
	}()
	for c, err := range adapter.Stream(ctx, req) {
		switch {
		case err != nil:
			return err
		case c.Type == sdkproto.ChunkTextDelta:
			a.put(c.Index, append(a.texts[c.Index], c.Text...))
		case c.Type == sdkproto.ChunkBlockEnd && c.Block != nil && c.Block.Type == sdkproto.BlockText:
			a.put(c.Index, []byte(c.Block.Text))
		case c.Type == sdkproto.ChunkUsage && c.Usage != nil:
			a.usage = c.Usage
		case c.Type == sdkproto.ChunkFinish && c.Reason != nil:
			a.finish = c.Reason.Kind
			if f := c.Reason.Failure; f != nil {
				return &llm.Error{Code: f.Code, Message: f.Message, Status: f.Status, RequestID: f.RequestID}
			}
			return nil
		}
		if a.size > a.most {
			a.finish = sdkproto.FinishMaxTokens
			return nil
		}
	}
	return &llm.Error{Code: llm.CodeStreamClosed, Message: "the model adapter ended its stream without a finish"}
}

func (a *answer) put(index int, text []byte) {
	a.size += len(text) - len(a.texts[index])
	a.texts[index] = text
}

// text is the summary. Calls of tools are not part of it; one that ends early is
// better than none.
func (a *answer) text() (string, error) {
	var sb strings.Builder
	for _, index := range slices.Sorted(maps.Keys(a.texts)) {
		sb.Write(a.texts[index])
	}
	text := sb.String()
	if len(text) > a.most {
		text = strings.ToValidUTF8(text[:a.most], "")
	}
	switch text = strings.TrimSpace(text); {
	case text == "" && a.finish == sdkproto.FinishMaxTokens:
		return "", &llm.Error{Code: llm.CodeEmptyResponse, Message: "the model used up its longest answer before it wrote a summary"}
	case text == "":
		return "", &llm.Error{Code: llm.CodeEmptyResponse, Message: "the model wrote no summary"}
	case a.finish == sdkproto.FinishMaxTokens:
		return text + textCutOff, nil
	case a.finish == sdkproto.FinishStop, a.finish == sdkproto.FinishToolCalls:
		return text, nil
	}
	return "", &llm.Error{Code: llm.CodeMalformedResponse, Message: fmt.Sprintf("the model ended its summary for the reason %q", a.finish)}
}
