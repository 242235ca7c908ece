package llm

import "context"

// TokenCounter is what an adapter may be beside an Adapter: its provider counts
// the tokens of a request without answering it.
type TokenCounter interface {
	// CountTokens asks how many tokens the request would hold: system prompt, tools
	// and messages. It makes one attempt; the error is an *Error where its kind is
	// known.
	CountTokens(context.Context, Request) (int64, error)
}
