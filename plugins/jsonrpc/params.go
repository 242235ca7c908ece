package jsonrpc

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

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

func invalid(format string, args ...any) error {
	return &sdkproto.RPCError{Code: sdkproto.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// decodeInitialize checks everything about the parameters of initialize that
// can be known without the route's adapter (spec jsonrpc 2.1, decision D22).
func decodeInitialize(params []byte) (*sessionDefaults, error) {
	var p struct {
		CWD             json.RawMessage `json:"cwd"`
		Provider        json.RawMessage `json:"provider"`
		Model           json.RawMessage `json:"model"`
		MaxTokens       json.RawMessage `json:"maxTokens"`
		ReasoningEffort json.RawMessage `json:"reasoningEffort"`
	}
	if err := wirejson.Unmarshal(params, &p); err != nil {
		return nil, invalid("initialize params: %v", err)
	}
	d := &sessionDefaults{}
	var ok bool
	if d.cwd, ok = text(p.CWD); !ok {
		return nil, invalid("initialize cwd must be a non-empty string")
	}
	if d.route.Model, ok = text(p.Model); !ok {
		return nil, invalid("initialize model must be a non-empty string")
	}
	// A provider that is missing or empty is one that nobody registered; the
	// adapters' own text lists those that are.
	if d.route.Provider, ok = text(p.Provider); !ok && len(p.Provider) > 0 && !isString(p.Provider) && !isNull(p.Provider) {
		return nil, invalid("initialize provider must be a string")
	}
	if len(p.MaxTokens) > 0 {
		if d.route.MaxTokens, ok = positiveSafeInteger(p.MaxTokens); !ok {
			return nil, invalid("initialize maxTokens must be a positive safe integer")
		}
	}
	if len(p.ReasoningEffort) > 0 {
		if d.route.ReasoningEffort, ok = text(p.ReasoningEffort); !ok {
			return nil, invalid("initialize reasoningEffort must be a non-empty string")
		}
	}
	cwd, err := filepath.Abs(d.cwd)
	if err != nil {
		return nil, fmt.Errorf("initialize cwd: %w", err)
	}
	d.cwd = cwd
	return d, nil
}

// maxSafeInteger is the largest integer that clients can tell from its
// neighbours, 2^53-1.
const maxSafeInteger = 1<<53 - 1

// positiveSafeInteger reads JSON text as clients read numbers, as a double: 1e3
// and 1000.0 are integers.
func positiveSafeInteger(raw []byte) (int64, bool) {
	if !isNumber(raw) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < 1 || f > maxSafeInteger || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// text decodes a non-empty JSON string.
func text(raw []byte) (string, bool) {
	if !isString(raw) {
		return "", false
	}
	var s string
	if err := wirejson.Unmarshal(raw, &s); err != nil {
		return "", false
	}
	return s, s != ""
}

func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// promptParams are the parameters of session/prompt before their blocks are
// decoded.
type promptParams struct {
	sessionID string
	blocks    json.RawMessage
}

// decodePrompt checks where a prompt goes (spec jsonrpc 2.2).
func decodePrompt(params []byte) (promptParams, error) {
	var p struct {
		SessionID     json.RawMessage `json:"sessionId"`
		ContentBlocks json.RawMessage `json:"contentBlocks"`
	}
	if err := wirejson.Unmarshal(params, &p); err != nil {
		return promptParams{}, invalid("session/prompt params: %v", err)
	}
	id, ok := text(p.SessionID)
	if !ok {
		return promptParams{}, invalid("session/prompt sessionId must be a non-empty string")
	}
	return promptParams{id, p.ContentBlocks}, nil
}

// errNoAttachments is the answer to an inline image in a composition that has
// nowhere to keep it.
var errNoAttachments = &sdkproto.RPCError{Code: sdkproto.CodeInternal, Message: "SDK image prompt requires an attachment store"}

// decodeBlocks checks the content of a prompt. Blocks of unknown types pass, an
// empty list too (spec jsonrpc 2.2).
func decodeBlocks(raw json.RawMessage) ([]sdkproto.Block, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, invalid("session/prompt contentBlocks must be an array of content blocks")
	}
	var items []json.RawMessage
	if err := wirejson.Unmarshal(raw, &items); err != nil {
		return nil, invalid("session/prompt contentBlocks: %v", err)
	}
	blocks := make([]sdkproto.Block, len(items))
	for i, item := range items {
		if err := wirejson.Unmarshal(item, &blocks[i]); err != nil {
			return nil, invalid("session/prompt contentBlocks[%d]: %v", i, err)
		}
		if blocks[i].Type == sdkproto.BlockImage && blocks[i].Attachment == nil {
			var image struct {
				Data json.RawMessage `json:"data"`
			}
			if err := wirejson.Unmarshal(item, &image); err != nil {
				return nil, invalid("session/prompt contentBlocks[%d]: %v", i, err)
			}
			if len(image.Data) > 0 {
				return nil, errNoAttachments
			}
		}
	}
	return blocks, nil
}
