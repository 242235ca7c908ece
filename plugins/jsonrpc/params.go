package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// sessionDefaults is what a successful initialize fixes for the sessions made
// after it.
type sessionDefaults struct {
	cwd   string
	route llm.Route
}

// decodeInitialize checks everything about the parameters of initialize that
// can be known without the route's adapter (spec jsonrpc 2.1, decision D22).
func decodeInitialize(a args) (*sessionDefaults, error) {
	d := &sessionDefaults{}
	var err error
	if d.cwd, err = a.text("cwd"); err != nil {
		return nil, err
	}
	if d.route.Model, err = a.text("model"); err != nil {
		return nil, err
	}
	// A provider that is missing or empty is one that nobody registered; the
	// adapters' own text lists those that are.
	provider := a.members["provider"]
	var ok bool
	if d.route.Provider, ok = text(provider); !ok && a.given("provider") && !isString(provider) {
		return nil, a.wrong("provider", "a string")
	}
	if a.has("maxTokens") {
		if d.route.MaxTokens, err = a.positive("maxTokens"); err != nil {
			return nil, err
		}
	}
	if a.has("reasoningEffort") {
		if d.route.ReasoningEffort, err = a.text("reasoningEffort"); err != nil {
			return nil, err
		}
	}
	cwd, err := filepath.Abs(d.cwd)
	if err != nil {
		return nil, fmt.Errorf("initialize cwd: %w", err)
	}
	d.cwd = cwd
	return d, nil
}

// Limits of the heartbeat, in seconds.
const (
	defaultHeartbeat = 15
	longestHeartbeat = 3600
)

// decodeAsked reads what initialize asks for beyond the plain protocol. Members
// and names that are not known are ignored: they are somebody else's (spec
// jsonrpc 13.3). What it could read it gives with an error, too.
func decodeAsked(a args) (*asked, error) {
	got := &asked{}
	if a.given("protocolVersion") {
		if _, err := a.positive("protocolVersion"); err != nil {
			return got, err
		}
		got.details = true
	}
	c, err := a.object("capabilities")
	if err != nil {
		return got, err
	}
	if c.given("notifications") {
		var names []string
		if err := wirejson.Unmarshal(c.members["notifications"], &names); err != nil {
			return got, c.wrong("notifications", "an array of strings")
		}
		for _, name := range names {
			switch name {
			case sdkproto.NotifyPromptFinished:
				got.finished = true
			case sdkproto.NotifyUsage:
				got.usage = true
			case sdkproto.NotifyTreeStatus:
				got.tree = true
			case sdkproto.NotifyHeartbeat:
				got.heartbeat = defaultHeartbeat * time.Second
			}
		}
	}
	if c.given("approvals") {
		if err := wirejson.Unmarshal(c.members["approvals"], &got.approvals); err != nil {
			return got, c.wrong("approvals", "true or false")
		}
	}
	if c.given("chunks") {
		var chunks bool
		if err := wirejson.Unmarshal(c.members["chunks"], &chunks); err != nil {
			return got, c.wrong("chunks", "true or false")
		}
		got.noChunks = !chunks
	}
	seconds, err := c.integer("heartbeatSeconds", 1, longestHeartbeat, 0)
	if err != nil {
		return got, err
	}
	if seconds > 0 {
		got.heartbeat = time.Duration(seconds) * time.Second
	}
	return got, nil
}

// promptParams are the parameters of session/prompt and session/steer before
// their blocks are decoded.
type promptParams struct {
	sessionID string
	blocks    json.RawMessage
	// options is nil when the prompt has none.
	options *sdkproto.RouteOptions
	key     string
}

// maxKey bounds an idempotency key, in bytes.
const maxKey = 200

// decodePrompt checks where a message goes (spec jsonrpc 2.2, 13.3). The id is
// given with the error, as far as it is known: it says whose turn it is.
func decodePrompt(r *request) (p promptParams, err error) {
	a, err := decodeArgs(r.method, r.params)
	if err != nil {
		return p, err
	}
	if p.sessionID, err = a.sessionID(); err != nil {
		return p, err
	}
	p.blocks = a.members["contentBlocks"]
	if r.method != sdkproto.MethodSessionPrompt {
		return p, nil
	}
	if p.key, err = a.optionalText("idempotencyKey"); err != nil {
		return p, err
	}
	if len(p.key) > maxKey {
		return p, a.wrong("idempotencyKey", fmt.Sprintf("at most %d bytes long", maxKey))
	}
	if a.given("options") {
		p.options, err = decodeOptions(a)
	}
	return p, err
}

func decodeOptions(a args) (*sdkproto.RouteOptions, error) {
	inner, err := a.object("options")
	if err != nil {
		return nil, err
	}
	o := &sdkproto.RouteOptions{}
	for _, member := range []struct {
		name string
		to   *string
	}{{"provider", &o.Provider}, {"model", &o.Model}, {"reasoningEffort", &o.ReasoningEffort}} {
		if *member.to, err = inner.optionalText(member.name); err != nil {
			return nil, err
		}
	}
	if inner.given("maxTokens") {
		if o.MaxTokens, err = inner.positive("maxTokens"); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// decodeBlocks checks the content of a message. Blocks of unknown types pass, an
// empty list too (spec jsonrpc 2.2). Images that come with their bytes are given
// apart, and leave their places empty.
func decodeBlocks(method string, raw json.RawMessage) ([]sdkproto.Block, []inline, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, nil, invalid("contentBlocks", "%s contentBlocks must be an array of content blocks", method)
	}
	var items []json.RawMessage
	if err := wirejson.Unmarshal(raw, &items); err != nil {
		return nil, nil, invalid("contentBlocks", "%s contentBlocks: %v", method, err)
	}
	blocks := make([]sdkproto.Block, len(items))
	var images []inline
	for i, item := range items {
		items[i] = nil // may be large
		bad := func(err error) error {
			at := fmt.Sprintf("contentBlocks[%d]", i)
			return invalid(at, "%s %s: %v", method, at, err)
		}
		image, err := inlineImage(item)
		if err != nil {
			return nil, nil, bad(err)
		}
		if image != nil {
			image.at = i
			images = append(images, *image)
			continue
		}
		if err := wirejson.Unmarshal(item, &blocks[i]); err != nil {
			return nil, nil, bad(err)
		}
		if holdsInline(blocks[i].Content) {
			return nil, nil, bad(errors.New("an image with data cannot stand inside another block"))
		}
	}
	return blocks, images, nil
}
