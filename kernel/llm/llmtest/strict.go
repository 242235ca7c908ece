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

func (d *Dialect) wrongKey(h http.Header) string {
	got, want := h.Get("authorization"), "Bearer "+Key
	if d.KeyHeader != "" {
		got, want = h.Get(d.KeyHeader), Key
	}
	if got != want {
		// Some providers quote the key that they refuse.
		return "the api key is invalid: " + strings.TrimPrefix(got, "Bearer ")
	}
	return ""
}

type request struct {
	Model           string          `json:"model"`
	Messages        []message       `json:"messages"`
	Stream          bool            `json:"stream"`
	StreamOptions   json.RawMessage `json:"stream_options"`
	ReasoningEffort *string         `json:"reasoning_effort"`
	Thinking        struct {
		Type string `json:"type"`
	} `json:"thinking"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`

	members map[string]json.RawMessage
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// refusal says why a provider would answer a request with 400; "" when it would
// not.
func (d *Dialect) refusal(r *http.Request, body []byte) string {
	if d.Messages {
		return refusalOfMessages(r, body)
	}
	var req request
	var members struct {
		Messages []map[string]json.RawMessage `json:"messages"`
	}
	top := map[string]json.RawMessage{}
	for _, into := range []any{&req, &members, &top} {
		if err := json.Unmarshal(body, into); err != nil {
			return "the body is not the JSON of a request: " + err.Error()
		}
	}
	for i := range req.Messages {
		req.Messages[i].members = members.Messages[i]
	}
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions"):
		return "there is no " + r.Method + " " + r.URL.Path
	case r.Header.Get("content-type") != "application/json":
		return "the content type must be application/json"
	case req.Model == "":
		return "model is missing"
	case !req.Stream:
		return "stream must be true"
	case !d.StreamOptions && len(req.StreamOptions) > 0:
		return "stream_options is unknown"
	case req.Thinking.Type == "disabled" && req.ReasoningEffort != nil:
		return "reasoning_effort needs thinking"
	case len(req.Messages) == 0:
		return "messages is empty"
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		var cap int64
		switch raw, there := top[name]; {
		case there && name != d.MaxTokens:
			return "unsupported parameter: " + name
		case there && (json.Unmarshal(raw, &cap) != nil || cap < 1):
			return name + " must be a positive integer"
		}
	}
	if why := req.tools(); why != "" {
		return why
	}
	return d.messages(&req)
}

func (r *request) tools() string {
	seen := map[string]bool{}
	for i, t := range r.Tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch name := t.Function.Name; {
		case t.Type != "function":
			return fmt.Sprintf("tools.%d has type %q", i, t.Type)
		case !toolName.MatchString(name), seen[name]:
			return fmt.Sprintf("tools.%d has the name %q, which is repeated or not allowed", i, name)
		case json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object":
			return fmt.Sprintf("the parameters of tool %s must be a schema of type object", name)
		}
		seen[t.Function.Name] = true
	}
	return ""
}

func (d *Dialect) messages(r *request) string {
	var open []string
	used := map[string]bool{}
	for i := range r.Messages {
		m := &r.Messages[i]
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Sprintf("messages.%d: an assistant message with tool_calls must be followed by a tool message for each of them; %s has none", i, open[0])
		}
		why := ""
		switch {
		case !slices.Contains(d.Roles, m.Role):
			why = fmt.Sprintf("unknown role %q", m.Role)
		case m.Role == "tool":
			open, why = m.result(open)
		case m.Role == "assistant":
			why = d.assistant(m, r.Thinking.Type != "disabled")
			for _, c := range m.ToolCalls {
				if used[c.ID] {
					why = fmt.Sprintf("the tool call id %q is repeated", c.ID)
				}
				used[c.ID] = true
				open = append(open, c.ID)
			}
		case bytes.HasPrefix(m.Content, []byte("[")):
			why = badParts(m.Content)
		case blank(m.Content):
			why = "the content must hold some text"
		}
		if why != "" {
			return fmt.Sprintf("messages.%d: %s", i, why)
		}
	}
	if len(open) > 0 {
		return fmt.Sprintf("the tool call %s has no result", open[0])
	}
	return ""
}

func (m *message) result(open []string) ([]string, string) {
	at := slices.Index(open, m.ToolCallID)
	switch {
	case at < 0:
		return open, fmt.Sprintf("the result %q belongs to no tool call of the message before", m.ToolCallID)
	case blank(m.Content):
		return open, "the content of a tool message must be a text"
	}
	return slices.Delete(open, at, at+1), ""
}

func (d *Dialect) assistant(m *message, thinking bool) string {
	var text string
	isText := json.Unmarshal(m.Content, &text) == nil && !bytes.Equal(m.Content, []byte("null"))
	_, reasoned := m.members[d.Reasoning]
	switch {
	case !isText && (len(m.ToolCalls) == 0 || d.RequireContent):
		return "content or tool_calls must be set"
	case d.RequireReasoning && thinking && len(m.ToolCalls) > 0 && !reasoned:
		return "the " + d.Reasoning + " in the thinking mode must be passed back to the API"
	}
	for name := range m.members {
		if strings.HasPrefix(name, "reasoning") && name != d.Reasoning {
			return "unknown member " + name
		}
	}
	for _, c := range m.ToolCalls {
		switch {
		case c.ID == "" || d.CallIDs != nil && !d.CallIDs.MatchString(c.ID):
			return fmt.Sprintf("the tool call id %q is not allowed", c.ID)
		case c.Type != "function" || c.Function.Name == "":
			return fmt.Sprintf("the tool call %s is not of a function", c.ID)
		case !json.Valid([]byte(c.Function.Arguments)):
			return fmt.Sprintf("the arguments of the tool call %s are not JSON", c.ID)
		}
	}
	return ""
}

// badParts says what is wrong with a user's content of texts and images.
func badParts(content json.RawMessage) string {
	var parts []struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(content, &parts); err != nil || len(parts) == 0 {
		return "the content must hold some parts"
	}
	for i, p := range parts {
		head, data, _ := strings.Cut(p.ImageURL.URL, ";base64,")
		_, err := base64.StdEncoding.Strict().DecodeString(data)
		switch {
		case p.Type == "text" && blank(p.Text):
			return fmt.Sprintf("content.%d: a text must not be blank", i)
		case p.Type == "text":
		case p.Type != "image_url":
			return fmt.Sprintf("content.%d: unknown type %q", i, p.Type)
		case err != nil || data == "" || !slices.Contains([]string{"data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp"}, head):
			return fmt.Sprintf("content.%d: this is no image", i)
		}
	}
	return ""
}

// blank reports a content without text.
func blank(content json.RawMessage) bool {
	var text string
	return json.Unmarshal(content, &text) != nil || strings.TrimSpace(text) == ""
}
