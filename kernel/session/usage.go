package session

import (
	"dsh/sdkproto"
)

// What is not measured is guessed: a token for every four bytes, which is about
// right for English and for code and errs on the safe side elsewhere, a fixed
// number for an image, and a few for what a provider puts around a message.
const (
	bytesPerToken    = 4
	tokensPerImage   = 1600
	tokensPerMessage = 4
)

// maxScale bounds how much larger than the guess the measure may make it: a
// provider that counts strangely must not make everything look too long.
const maxScale = 4

// Usage is the account of a session's tokens: what all its model requests came
// to, and how full the context is. It takes each record in constant time, but
// for replacements, which are rare.
type Usage struct {
	// Totals sums up the answers of the model, each counted once (case B86), the
	// summaries of compactions, and requests beside the history, which attempts that
	// failed are, too, where the provider has told what they used (case B87).
	Totals sdkproto.Usage
	// Requests counts what Totals sums up.
	Requests int
	// Last is the account of the last answer that told one, LastSeq the seq of its
	// assistant/message. Both are zero before the first.
	Last    sdkproto.Usage
	LastSeq int64

	// Guesses: of the request header, of the history, and of both as they were
	// when Last was asked for.
	header, history, asked int64
	// rewritten says that the history was shortened since, so that Last does not
	// measure any part of it.
	rewritten bool
}

// apply takes up one record, after the folds of s that it reads.
func (u *Usage) apply(r *Record, s *State) error {
	switch r.Event.Type {
	case sdkproto.TypeRequestHeader:
		u.header = guessHeader(s.Header.Header)
	case sdkproto.TypeCompactionSummary, sdkproto.TypePromptSuggestion, sdkproto.TypeSideRequest:
		v, err := Decode[struct {
			Usage *sdkproto.Usage `json:"usage"`
		}](r)
		if err != nil {
			return err
		}
		if v.Usage != nil {
			u.count(v.Usage)
		}
	case sdkproto.TypeAssistantMessage:
		v, err := Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		if v.Usage != nil {
			u.count(v.Usage)
			if inputSide(v.Usage) > 0 {
				u.Last, u.LastSeq, u.asked, u.rewritten = *v.Usage, r.Event.Seq, u.header+u.history, false
			}
		}
	}
	if !sdkproto.IsSurface(r.Event.Type) {
		return nil
	}
	nodes := s.Surface.nodes
	if string(r.Event.SurfaceOp) == sdkproto.SurfaceAppend {
		u.history += guess(&nodes[len(nodes)-1].msg)
		return nil
	}
	u.history, u.rewritten = 0, true
	for i := range nodes {
		u.history += guess(&nodes[i].msg)
	}
	return nil
}

func (u *Usage) count(one *sdkproto.Usage) {
	u.Requests++
	u.Totals.Add(one)
}

// inputSide is what a request held: the members of a usage are disjoint (spec
// jsonrpc 5.5).
func inputSide(u *sdkproto.Usage) int64 {
	return u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// Context gives how many tokens a request would hold now. It is measured when
// the last answer told what its request held, and only what came since is
// guessed; otherwise, as after a compaction, all of it is a guess.
func (u *Usage) Context() (tokens int64, measured bool) {
	now, held := u.header+u.history, inputSide(&u.Last)
	if u.rewritten || held == 0 {
		return u.scale(now), false
	}
	return held + u.scale(now-u.asked), true
}

// Estimate guesses the tokens of messages, in the scale of Context.
func (u *Usage) Estimate(messages ...sdkproto.Message) int64 {
	var sum int64
	for i := range messages {
		sum += guess(&messages[i])
	}
	return u.scale(sum)
}

// EstimateBytes guesses the tokens of a text of so many bytes, in the scale of
// Context.
func (u *Usage) EstimateBytes(bytes int) int64 {
	return u.scale((int64(bytes) + bytesPerToken - 1) / bytesPerToken)
}

// scale makes a guess larger by as much as the last measure was larger than the
// guess for it.
func (u *Usage) scale(tokens int64) int64 {
	measured := inputSide(&u.Last)
	if u.asked == 0 || measured <= u.asked {
		return tokens
	}
	return int64(float64(tokens) * min(float64(measured)/float64(u.asked), maxScale))
}

func guess(m *sdkproto.Message) int64 { return tokensPerMessage + guessBlocks(m.Content) }

func guessBlocks(blocks []sdkproto.Block) int64 {
	var bytes, sum int64
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case sdkproto.BlockText, sdkproto.BlockReasoning:
			bytes += int64(len(b.Text))
		case sdkproto.BlockToolCall:
			bytes += int64(len(b.ID) + len(b.Name) + len(b.Arguments))
		case sdkproto.BlockToolResult:
			sum += guessBlocks(b.Content)
		case sdkproto.BlockImage:
			sum += tokensPerImage
		}
	}
	return sum + (bytes+bytesPerToken-1)/bytesPerToken
}

func guessHeader(h *sdkproto.Header) int64 {
	bytes := int64(len(h.System))
	for i := range h.Tools {
		t := &h.Tools[i]
		bytes += int64(len(t.Name) + len(t.Description) + len(t.Parameters))
	}
	return (bytes + bytesPerToken - 1) / bytesPerToken
}
