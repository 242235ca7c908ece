package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK decodes lists and results into its own types: one odd member makes it
// refuse all of a list, and what it does not know is lost. Requests whose
// answers matter as they came are therefore sent as methods of our own, named
// by a prefix that goes off on the way to the wire.
const rawPrefix = "dsh-raw/"

const (
	methodListTools     = "tools/list"
	methodCallTool      = "tools/call"
	methodListResources = "resources/list"
	methodListTemplates = "resources/templates/list"
	methodReadResource  = "resources/read"
	methodListPrompts   = "prompts/list"
	methodGetPrompt     = "prompts/get"
	methodSetLevel      = "logging/setLevel"
)

// request holds the parameters of every method that is sent raw.
type request struct {
	sdk.ParamsBase

	Cursor    string          `json:"cursor,omitzero"`
	Name      string          `json:"name,omitzero"`
	URI       string          `json:"uri,omitzero"`
	Level     string          `json:"level,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitzero"`
}

// answer is a result as it came.
type answer struct {
	sdk.ResultBase

	data json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *answer) UnmarshalJSON(data []byte) error {
	a.data = bytes.Clone(data)
	return nil
}

// allowRaw teaches a client the methods.
func allowRaw(c *sdk.Client) error {
	for _, method := range []string{methodListTools, methodCallTool, methodListResources, methodListTemplates,
		methodReadResource, methodListPrompts, methodGetPrompt, methodSetLevel} {
		if err := sdk.AddSendingCustomMethod[*request, *answer](c, rawPrefix+method); err != nil {
			return err
		}
	}
	return nil
}

// sendRaw makes a request and gives the result as it came.
func sendRaw(ctx context.Context, s *sdk.ClientSession, method string, r *request) (json.RawMessage, error) {
	a, err := sdk.CallCustomMethod[*request, *answer](ctx, s, rawPrefix+method, r)
	if err != nil {
		return nil, err
	}
	return a.data, nil
}

// wireMessage takes the prefix off a message.
func wireMessage(msg jsonrpc.Message) jsonrpc.Message {
	r, ok := msg.(*jsonrpc.Request)
	if !ok || !strings.HasPrefix(r.Method, rawPrefix) {
		return msg
	}
	out := *r
	out.Method = strings.TrimPrefix(r.Method, rawPrefix)
	return &out
}

// wireBody takes the prefix off an encoded request. The SDK writes the method
// before everything that a server or model could have worded.
func wireBody(body []byte) []byte {
	const member = `"method":"`
	i := bytes.Index(body, []byte(member))
	if i < 0 || bytes.Contains(body[:i], []byte(`"result"`)) || !bytes.HasPrefix(body[i+len(member):], []byte(rawPrefix)) {
		return body
	}
	i += len(member)
	return append(bytes.Clone(body[:i]), body[i+len(rawPrefix):]...)
}

// wireHeader takes the prefix off the header that repeats the method.
func wireHeader(h http.Header) {
	const name = "Mcp-Method"
	if m := h.Get(name); strings.HasPrefix(m, rawPrefix) {
		h.Set(name, strings.TrimPrefix(m, rawPrefix))
	}
}
