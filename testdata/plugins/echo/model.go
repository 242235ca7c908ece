package main

import (
	"context"
	"iter"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// models is a provider whose model answers with the last message.
func models(c *config) *plugin.Models {
	return &plugin.Models{
		Providers: []plugin.Provider{{ID: "echo", Models: []plugin.Model{{ID: "parrot", ContextWindow: 100_000}}}},
		Stream: func(ctx context.Context, r plugin.ModelRequest) iter.Seq2[sdkproto.Chunk, error] {
			return func(yield func(sdkproto.Chunk, error) bool) {
				if len(r.Messages) == 0 {
					yield(sdkproto.Chunk{}, &plugin.ModelError{Code: "INVALID_REQUEST", Message: "there is no message to answer"})
					return
				}
				block := sdkproto.Text(c.again(sdkproto.TextOf(r.Messages[len(r.Messages)-1].Content)))
				for _, chunk := range []sdkproto.Chunk{
					{Type: sdkproto.ChunkBlockStart, BlockType: sdkproto.BlockText},
					{Type: sdkproto.ChunkTextDelta, Text: block.Text},
					{Type: sdkproto.ChunkBlockEnd, Block: &block},
					{Type: sdkproto.ChunkFinish, Reason: &sdkproto.FinishReason{Kind: sdkproto.FinishStop}},
				} {
					if ctx.Err() != nil || !yield(chunk, nil) {
						return
					}
				}
			}
		},
	}
}
