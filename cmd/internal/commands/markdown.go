package commands

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"dsh/cmd/internal/launch"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// writeMarkdown writes a session as a document.
func writeMarkdown(ctx context.Context, w io.Writer, store session.Store, h session.Header) error {
	title, err := titleOf(ctx, store, h.ID)
	if err != nil {
		return err
	}
	if title == "" {
		title = "Session " + h.ID
	}
	m := &markdown{w: w, names: map[string]string{}}
	m.put("# %s\n\n- session: `%s`\n- created: %s\n- folder: `%s`\n", title, h.ID, stamp(h.CreatedAt), h.CWD)
	err = store.Read(ctx, h.ID, 0, func(r *session.Record) error { return m.record(r) })
	if err == nil {
		err = m.err
	}
	return err
}

type markdown struct {
	w   io.Writer
	err error
	// names are those of the tools by call id.
	names map[string]string
}

func (m *markdown) put(format string, args ...any) {
	if m.err == nil {
		_, m.err = io.WriteString(m.w, launch.Plain(fmt.Sprintf(format, args...)))
	}
}

func (m *markdown) record(r *session.Record) error {
	switch r.Event.Type {
	case sdkproto.TypeUserMessage:
		u, err := session.Decode[sdkproto.Message](r)
		if err != nil {
			return err
		}
		who := "Prompt"
		if u.Source.Kind != sdkproto.SourceUser {
			who = strings.TrimSpace("Note of " + u.Source.Kind + " " + u.Source.Plugin)
		}
		m.put("\n## %s\n\n%s\n", who, wordsOf(u.Content))
	case sdkproto.TypeAssistantMessage:
		a, err := session.Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		for _, b := range a.Message.Content {
			switch b.Type {
			case sdkproto.BlockText:
				m.put("\n## Answer\n\n%s\n", b.Text)
			case sdkproto.BlockReasoning:
				m.put("\n## Reasoning\n\n%s\n", b.Text)
			}
		}
	case sdkproto.TypeToolCall:
		c, err := session.Decode[sdkproto.ToolCall](r)
		if err != nil {
			return err
		}
		m.names[c.CallID] = c.Name
		m.put("\n### Call of %s\n\n%s", c.Name, fenced("json", c.Arguments))
	case sdkproto.TypeToolResult:
		if r.Event.Replaces() {
			return nil
		}
		t, err := session.Decode[sdkproto.ToolResult](r)
		if err != nil {
			return err
		}
		for _, b := range t.Message.Content {
			what := "Result"
			if b.IsError {
				what = "Failure"
			}
			m.put("\n### %s of %s\n\n%s", what, m.names[b.ToolCallID], fenced("", wordsOf(b.Content)))
		}
	case sdkproto.TypeTurnEnd:
		e, err := session.Decode[sdkproto.TurnEnd](r)
		if err != nil {
			return err
		}
		switch {
		case e.Reason.Error != nil:
			m.put("\n*The turn failed: %s (%s)*\n", e.Reason.Error.Message, e.Reason.Error.Code)
		case e.Reason.Kind != sdkproto.EndCompleted:
			m.put("\n*The turn ended: %s*\n", e.Reason.Kind)
		}
	}
	return m.err
}

// fenced puts text between fences that are longer than any in it.
func fenced(language, text string) string {
	fence := "```"
	for _, run := range regexp.MustCompile("`{3,}").FindAllString(text, -1) {
		if len(run) >= len(fence) {
			fence = run + "`"
		}
	}
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
