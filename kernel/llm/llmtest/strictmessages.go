package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

type messagesRequest struct {
	Model     string `json:"model"`
	MaxTokens *int64 `json:"max_tokens"`
	Stream    *bool  `json:"stream"`
	System    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"system"`
	Temperature *float64 `json:"temperature"`
	Thinking    *struct {
		Type    string `json:"type"`
		Budget  *int64 `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Output *struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
	Tools []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Messages []messagesMessage `json:"messages"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content []messagesBlock `json:"content"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

// topMembers are those of a request to answer and of one to count.
var topMembers = []string{"model", "max_tokens", "stream", "system", "temperature", "stop_sequences", "thinking", "output_config", "tools", "messages"}

// refusalOfMessages says why the API would answer a request with 400; "" when it
// would not.
func refusalOfMessages(r *http.Request, body []byte) string {
	counting := strings.HasSuffix(r.URL.Path, "/v1/messages/count_tokens")
	var req messagesRequest
	top := map[string]json.RawMessage{}
	for _, into := range []any{&req, &top} {
		if err := json.Unmarshal(body, into); err != nil {
			return "the body is not the JSON of a request: " + err.Error()
		}
	}
	for name := range top {
		if !slices.Contains(topMembers, name) || counting && (name == "max_tokens" || name == "stream" || name == "temperature") {
			return name + ": Extra inputs are not permitted"
		}
	}
	switch {
	case r.Method != http.MethodPost || !counting && !strings.HasSuffix(r.URL.Path, "/v1/messages"):
		return "there is no " + r.Method + " " + r.URL.Path
	case r.Header.Get("content-type") != "application/json":
		return "the content type must be application/json"
	case r.Header.Get("anthropic-version") == "":
		return "anthropic-version: header is required"
	case req.Model == "":
		return "model: Field required"
	case !counting && (req.MaxTokens == nil || *req.MaxTokens < 1):
		return "max_tokens: must be greater than or equal to 1"
	case !counting && (req.Stream == nil || !*req.Stream):
		return "stream must be true"
	case bytes.Count(body, []byte(`"cache_control"`)) > 4:
		return "A maximum of 4 blocks with cache_control may be provided"
	case bytes.Contains(body, []byte(`\u0000`)) || bytes.Contains(body, []byte(`\ud8`)):
		return "a string holds what is no character"
	case len(req.Messages) == 0 || req.Messages[0].Role != "user":
		return "messages: first message must use the \"user\" role"
	case req.Messages[len(req.Messages)-1].Role != "user":
		return "This model does not support assistant message prefill. The conversation must end with a user message."
	}
	for _, why := range []string{req.head(counting), req.tools(), req.history()} {
		if why != "" {
			return why
		}
	}
	return ""
}

func (r *messagesRequest) head(counting bool) string {
	for _, b := range r.System {
		if b.Type != "text" || strings.TrimSpace(b.Text) == "" {
			return "system: text content blocks must be non-empty"
		}
	}
	if r.Thinking == nil {
		if r.Output != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, r.Output.Effort) {
			return "output_config.effort: unknown"
		}
		return ""
	}
	switch t := r.Thinking; t.Type {
	case "disabled", "between_tools":
	case "adaptive":
		if t.Budget != nil {
			return "thinking.adaptive.budget_tokens: Extra inputs are not permitted"
		}
	case "enabled":
		switch {
		case t.Budget == nil || *t.Budget < 1024:
			return "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
		case !counting && *t.Budget >= *r.MaxTokens:
			return "`max_tokens` must be greater than `thinking.budget_tokens`"
		}
		if why := r.continues(); why != "" {
			return why
		}
	default:
		return "thinking: unknown type " + t.Type
	}
	if r.Temperature != nil && r.Thinking.Type != "disabled" {
		return "`temperature` may only be set to 1 when thinking is enabled"
	}
	return ""
}

// continues refuses to begin to think within the calls of an answer that did not.
func (r *messagesRequest) continues() string {
	last := r.Messages[len(r.Messages)-1]
	if slices.ContainsFunc(last.Content, func(b messagesBlock) bool { return b.Type != "tool_result" }) || len(r.Messages) < 2 {
		return ""
	}
	if c := r.Messages[len(r.Messages)-2].Content; len(c) > 0 && c[0].Type != "thinking" && c[0].Type != "redacted_thinking" {
		return "Expected `thinking` or `redacted_thinking`, but found `" + c[0].Type + "`"
	}
	return ""
}

func (r *messagesRequest) tools() string {
	seen := map[string]bool{}
	for i, t := range r.Tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !toolName.MatchString(t.Name), seen[t.Name]:
			return fmt.Sprintf("tools.%d has the name %q, which is repeated or not allowed", i, t.Name)
		case json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object":
			return fmt.Sprintf("tools.%d.input_schema.type: Field required", i)
		}
		seen[t.Name] = true
	}
	return ""
}

func (r *messagesRequest) history() string {
	var open []string
	used := map[string]bool{}
	for i, m := range r.Messages {
		at := func(why string) string { return fmt.Sprintf("messages.%d: %s", i, why) }
		if len(m.Content) == 0 {
			return at("content must be non-empty")
		}
		results := 0
		for j, b := range m.Content {
			why := ""
			switch {
			case b.Type == "text":
				if strings.TrimSpace(b.Text) == "" {
					why = "text content blocks must contain non-whitespace text"
				}
			case m.Role == "user" && b.Type == "image":
				why = b.image()
			case m.Role == "user" && b.Type == "tool_result":
				n := slices.Index(open, b.ToolUseID)
				switch {
				case n < 0:
					why = "unexpected `tool_use_id` found in `tool_result` blocks: " + b.ToolUseID
				case results != j:
					why = "tool_result blocks must come first"
				default:
					open = slices.Delete(open, n, n+1)
					why = b.result()
				}
				results++
			case m.Role == "assistant" && b.Type == "tool_use":
				var input map[string]json.RawMessage
				switch {
				case !callID.MatchString(b.ID):
					why = "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
				case used[b.ID]:
					why = "`tool_use` ids must be unique"
				case b.Name == "" || json.Unmarshal(b.Input, &input) != nil || input == nil:
					why = "tool_use.input: Input should be a valid dictionary"
				}
				used[b.ID] = true
			case m.Role == "assistant" && b.Type == "thinking":
				if b.Signature != SignatureOf(r.Model, b.Thinking) {
					why = "Invalid `signature` in `thinking` block"
				}
			case m.Role == "assistant" && b.Type == "redacted_thinking":
				if b.Data == "" {
					why = "redacted_thinking.data: Field required"
				}
			default:
				why = "a " + m.Role + " message has no block of type " + b.Type
			}
			if why != "" {
				return at(fmt.Sprintf("content.%d: %s", j, why))
			}
		}
		if len(open) > 0 {
			return at("`tool_use` ids were found without `tool_result` blocks immediately after: " + strings.Join(open, ", "))
		}
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				open = append(open, b.ID)
			}
		}
	}
	return ""
}

func (b *messagesBlock) image() string {
	_, err := base64.StdEncoding.Strict().DecodeString(b.Source.Data)
	if err != nil || b.Source.Data == "" || b.Source.Type != "base64" || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, b.Source.MediaType) {
		return "image: Could not process image"
	}
	return ""
}

func (b *messagesBlock) result() string {
	var text string
	if json.Unmarshal(b.Content, &text) == nil {
		return ""
	}
	var blocks []messagesBlock
	if err := json.Unmarshal(b.Content, &blocks); err != nil {
		return "tool_result.content: " + err.Error()
	}
	for _, inner := range blocks {
		switch {
		case inner.Type == "text" && strings.TrimSpace(inner.Text) != "":
		case inner.Type == "image" && !b.IsError:
			if why := inner.image(); why != "" {
				return why
			}
		default:
			return "tool_result.content: a block of type " + inner.Type + " is not allowed or empty"
		}
	}
	return ""
}
