package llm

import (
	"strings"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// EmptyMessage stands in for a user message without any content the model can
// take (decision R14).
const EmptyMessage = "(empty message)"

// Project turns the history of a log into the messages of a request: blocks the
// model does not know and blank text are left out, and call arguments that are no
// JSON object are wrapped in one, so that no provider refuses the history for
// them, and no server's chat template fails on them (decisions R14, R15, case
// B52). It is pure: the same history gives the same bytes.
func Project(history []sdkproto.Message) []sdkproto.Message {
	out := make([]sdkproto.Message, 0, len(history))
	for _, m := range history {
		blocks := make([]sdkproto.Block, 0, len(m.Content))
		for _, b := range m.Content {
			switch b.Type {
			case sdkproto.BlockText:
				if strings.TrimSpace(b.Text) == "" {
					continue
				}
			case sdkproto.BlockToolCall:
				b = sdkproto.Block{Type: b.Type, ID: b.ID, Name: b.Name, Arguments: projectArguments(b.Arguments)}
			case sdkproto.BlockReasoning, sdkproto.BlockRedacted, sdkproto.BlockToolResult, sdkproto.BlockImage:
			default:
				continue
			}
			blocks = append(blocks, b)
		}
		if len(blocks) == 0 {
			if m.Role == sdkproto.RoleAssistant {
				// An answer without content says nothing to the model.
				continue
			}
			blocks = append(blocks, sdkproto.Text(EmptyMessage))
		}
		m.Content = blocks
		out = append(out, m)
	}
	return out
}

func projectArguments(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && wirejson.Valid([]byte(text)) {
		return text
	}
	return string(append(wirejson.AppendString([]byte(`{"invalid_arguments":`), text), '}'))
}
