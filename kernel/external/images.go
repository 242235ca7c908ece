package external

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"dsh/kernel/attachment"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// admit stores the images that a plugin gave, because no log may hold them
// (S132). One that cannot be kept becomes a text that says so.
func admit(ctx context.Context, store attachment.Store, content []sdkproto.Block) []sdkproto.Block {
	for i := range content {
		b := &content[i]
		if b.Type != sdkproto.BlockImage || b.Attachment != nil {
			continue
		}
		kept, err := admitOne(ctx, store, b)
		if err != nil {
			content[i] = sdkproto.Text(fmt.Sprintf("[An image of type %s cannot be shown: %v]", clip(b.MimeType, 100), err))
			continue
		}
		content[i] = sdkproto.Block{Type: sdkproto.BlockImage, Attachment: kept}
	}
	return content
}

func admitOne(ctx context.Context, store attachment.Store, b *sdkproto.Block) (*sdkproto.Attachment, error) {
	if store == nil {
		return nil, errors.New("the profile has no row that keeps images")
	}
	kept, err := store.Admit(ctx, []attachment.Upload{{Base64: b.Data, MediaType: b.MimeType}})
	if err != nil {
		return nil, err
	}
	return &kept[0], nil
}

// embed puts the bytes of images in the place of what refers to them, for a
// plugin cannot ask for them.
func embed(ctx context.Context, req llm.Request, takes bool) []sdkproto.Message {
	out := make([]sdkproto.Message, len(req.Messages))
	for i, m := range req.Messages {
		m.Content = embedBlocks(ctx, req, takes, m.Content)
		out[i] = m
	}
	return out
}

func embedBlocks(ctx context.Context, req llm.Request, takes bool, content []sdkproto.Block) []sdkproto.Block {
	out := make([]sdkproto.Block, len(content))
	for i, b := range content {
		switch {
		case b.Type == sdkproto.BlockToolResult:
			b = sdkproto.Block{Type: b.Type, ToolCallID: b.ToolCallID, IsError: b.IsError, Content: embedBlocks(ctx, req, takes, b.Content)}
		case b.Type == sdkproto.BlockImage && b.Attachment != nil:
			b = embedOne(ctx, req, takes, b.Attachment)
		}
		out[i] = b
	}
	return out
}

func embedOne(ctx context.Context, req llm.Request, takes bool, a *sdkproto.Attachment) sdkproto.Block {
	why := "the model takes no images"
	if takes && req.Image == nil {
		why = "the profile has no row that keeps images"
	} else if takes {
		data, err := req.Image(ctx, a)
		if err == nil {
			return sdkproto.Block{Type: sdkproto.BlockImage, Data: base64.StdEncoding.EncodeToString(data), MimeType: a.MediaType}
		}
		why = err.Error()
	}
	return sdkproto.Text(fmt.Sprintf("[An image of type %s, %d×%d, is not shown: %s]", a.MediaType, a.Width, a.Height, why))
}
