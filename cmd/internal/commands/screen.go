package commands

import (
	"fmt"
	"io"
	"strings"

	"dsh/cmd/internal/launch"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Screen shows a session to a person.
type Screen struct {
	w   io.Writer
	err error
	// open is the kind of text that stands on the last line without an end.
	open string
	// names are those of the tools by call id.
	names map[string]string
}

// NewScreen makes a screen that writes to w.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w, names: map[string]string{}} }

// Err is the first error of writing.
func (s *Screen) Err() error { return s.err }

func (s *Screen) print(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, launch.Plain(text))
	}
}

// Line writes a line of its own.
func (s *Screen) Line(format string, args ...any) {
	if s.open != "" {
		s.print("\n")
		s.open = ""
	}
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// stream goes on with text of one kind, or starts it on a new line.
func (s *Screen) stream(kind, prefix, text string) {
	if s.open != kind {
		if s.open != "" {
			s.print("\n")
		}
		s.print("\n" + prefix)
		s.open = kind
	}
	s.print(text)
}

// Live shows an event as it comes, the answers piece by piece.
func (s *Screen) Live(e *sdkproto.Event) error {
	if e.Type != sdkproto.TypeAssistantChunk {
		return s.event(e)
	}
	chunk, err := payload[sdkproto.AssistantChunk](e)
	if err != nil {
		return err
	}
	switch chunk.Chunk.Type {
	case sdkproto.ChunkTextDelta:
		s.stream("text", "", chunk.Chunk.Text)
	case sdkproto.ChunkReasoningDelta:
		s.stream("reasoning", "(thinks) ", chunk.Chunk.Text)
	}
	return s.err
}

// stored shows an event of a log, the messages as a whole.
func (s *Screen) stored(e *sdkproto.Event) error {
	switch e.Type {
	case sdkproto.TypeUserMessage:
		m, err := payload[sdkproto.Message](e)
		if err != nil {
			return err
		}
		who := ""
		if m.Source.Kind != sdkproto.SourceUser {
			who = "(" + strings.TrimSpace(m.Source.Kind+" "+m.Source.Plugin) + ") "
		}
		s.Line("\n> %s%s", who, strings.ReplaceAll(wordsOf(m.Content), "\n", "\n> "))
	case sdkproto.TypeAssistantMessage:
		a, err := payload[sdkproto.AssistantMessage](e)
		if err != nil {
			return err
		}
		for _, b := range a.Message.Content {
			switch b.Type {
			case sdkproto.BlockText:
				s.Line("\n%s", strings.TrimRight(b.Text, "\n"))
			case sdkproto.BlockReasoning:
				s.Line("\n(thinks) %s", strings.TrimRight(b.Text, "\n"))
			}
		}
	default:
		return s.event(e)
	}
	return s.err
}

// wordsOf is a message as a person reads it: its text, and the types of what is
// none.
func wordsOf(blocks []sdkproto.Block) string {
	var words []string
	for _, b := range blocks {
		if b.Type == sdkproto.BlockText {
			words = append(words, b.Text)
		} else {
			words = append(words, "["+b.Type+"]")
		}
	}
	return strings.Join(words, "\n")
}

// event shows what is neither a message nor a piece of one.
func (s *Screen) event(e *sdkproto.Event) error {
	switch e.Type {
	case sdkproto.TypeToolCall:
		call, err := payload[sdkproto.ToolCall](e)
		if err != nil {
			return err
		}
		s.names[call.CallID] = call.Name
		s.Line("\n* %s %s", call.Name, call.Arguments)
	case sdkproto.TypeToolResult:
		if e.Replaces() {
			return nil
		}
		result, err := payload[sdkproto.ToolResult](e)
		if err != nil {
			return err
		}
		for _, b := range result.Message.Content {
			s.quote(s.names[b.ToolCallID], sdkproto.TextOf(b.Content))
		}
	case sdkproto.TypeLLMRetry:
		retry, err := payload[sdkproto.LLMRetry](e)
		if err != nil {
			return err
		}
		s.Line("! %s; retry %d of %d in %d ms", retry.Failure.Message, retry.Retry, retry.MaxRetries, retry.DelayMs)
	case sdkproto.TypeTurnEnd:
		end, err := payload[sdkproto.TurnEnd](e)
		if err != nil {
			return err
		}
		switch {
		case end.Reason.Error != nil:
			s.Line("! %s (%s)", end.Reason.Error.Message, end.Reason.Error.Code)
		case end.Reason.Kind != sdkproto.EndCompleted:
			s.Line("! the turn ended: %s", end.Reason.Kind)
		}
	}
	return s.err
}

// quotedLines is how much of a tool's result a person is shown.
const quotedLines = 6

func (s *Screen) quote(tool, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == quotedLines && len(lines) > quotedLines+1 {
			s.Line("  %s | … %d more lines", tool, len(lines)-i)
			return
		}
		s.Line("  %s | %s", tool, l)
	}
}

func payload[T any](e *sdkproto.Event) (v T, err error) {
	if err := wirejson.Unmarshal(e.Data, &v); err != nil {
		return v, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	return v, nil
}
