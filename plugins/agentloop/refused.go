package agentloop

import (
	"errors"

	"github.com/google/uuid"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// codeContentFilter is the code of an answer that the provider's filter ended,
// codeUnprocessable that of a request whose form or content was refused.
const (
	codeContentFilter = "CONTENT_FILTER"
	codeUnprocessable = "HTTP_422"
)

// refusesContent reports whether a failed request would fail again, because of
// what it said.
func refusesContent(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == llm.CodeInvalidRequest || e.Code == codeContentFilter || e.Code == codeUnprocessable
}

// setAsidePlugin signs the messages that stand in for what was set aside.
const setAsidePlugin = "agentloop"

const (
	textMessageSetAside = "(A message was left out here, because the model provider refused the request that brought it.)"
	textResultSetAside  = "Error: the result of this call was left out, because the model provider refused the request that brought it. " +
		"The call itself was made."
)

func isResultSetAside(m *sdkproto.Message) bool {
	return len(m.Content) == 1 && sdkproto.TextOf(m.Content[0].Content) == textResultSetAside
}

// setAside takes what a refused request said for the first time out of the
// model's history, so that it does not fail every later turn as well (case B46).
// The log keeps it; a note takes its place.
func (t *turn) setAside(tail []session.Node) []session.Draft {
	var drafts []session.Draft
	for _, n := range tail {
		d := session.Draft{Sources: []int64{n.Seq}, Surface: session.Replace(n.Seq, n.Seq)}
		source := n.Message.Source
		switch {
		case source.Plugin == setAsidePlugin, isResultSetAside(&n.Message):
			continue
		case source.Kind == sdkproto.SourceTool:
			d.Type = sdkproto.TypeToolResult
			d.Data = &sdkproto.ToolResult{
				Turn: t.number, Step: t.step,
				Error: &sdkproto.ToolError{Name: "ProviderRefusedError", Code: "RESULT_REFUSED"},
				Message: sdkproto.Message{
					Content: []sdkproto.Block{{
						Type: sdkproto.BlockToolResult, ToolCallID: source.CallID, IsError: true,
						Content: []sdkproto.Block{sdkproto.Text(textResultSetAside)},
					}},
					Source: source, Role: sdkproto.RoleUser, ID: uuid.NewString(),
				},
			}
		default:
			d.Type = sdkproto.TypeUserMessage
			d.Data = sdkproto.Message{
				Content: []sdkproto.Block{sdkproto.Text(textMessageSetAside)},
				Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: setAsidePlugin, Form: "notice", Summary: "message set aside"},
				Role:    sdkproto.RoleUser, ID: uuid.NewString(),
			}
		}
		drafts = append(drafts, d)
	}
	return drafts
}
