package streamjson

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// suggestion is the question what the user may say next, behind a turn that
// succeeded (spec stream-json 3.9, S029). The result never waits for it, and it
// ends when the user says something, or the host interrupts.
type suggestion struct {
	cancel context.CancelFunc
	// writing: the line is on its way; the next turn's begin behind it.
	writing bool
}

// Bounds of a suggestion.
const (
	// suggestTokens bounds the answer, with the thoughts of a model that cannot do
	// without; suggestRunes what is a suggestion.
	suggestTokens = 1000
	suggestRunes  = 300
	// suggestHistory is how much of the conversation the model is shown, in bytes.
	suggestHistory = 32 << 10
)

// textSuggest asks for it, textNothing is the answer without one.
const (
	textSuggest = "Leave the conversation for a moment. Which message will the user most likely send next? Write that message as the user " +
		"would type it: one line of at most fifteen words, in the user's language. Answer with the line alone, without quotation marks and " +
		"without anything about it. If you cannot tell, answer " + textNothing + "."
	textNothing = "NONE"
)

// suggestAfter begins a suggestion behind the result of a turn that a model has
// answered well, unless somebody has spoken already. The caller holds mu.
func (s *Server) suggestAfter(r *streamjson.Result) {
	last := s.latest
	if !s.asked.suggest || last == nil || r.IsError || r.NumTurns == 0 || s.overspent != "" || s.ending || s.code != 0 ||
		s.current != nil || len(s.queue.list) > 0 || s.suggestion != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.work, time.Duration(s.Config.SuggestionLimit))
	one := &suggestion{cancel: cancel}
	s.suggestion = one
	// An adapter that does not end with its context holds up nobody.
	context.AfterFunc(ctx, func() {
		s.with(func() {
			if s.suggestion == one && !one.writing {
				s.suggestion = nil
			}
		})
	})
	s.Owner.Go("prompt suggestion", func(context.Context) {
		defer cancel()
		text, err := s.suggest(ctx, last)
		if err != nil {
			s.Log.Debug("no prompt is suggested", "error", err)
		}
		_ = s.sub.Drain(ctx) // what it used counts when the line is read
		s.with(func() { one.writing = s.suggestion == one && text != "" })
		if one.writing {
			s.say(s.work, streamjson.PromptSuggestion{Head: s.head(streamjson.TypePromptSuggestion, ""), Suggestion: text})
		}
		s.with(func() {
			if s.suggestion == one {
				s.suggestion = nil
			}
		})
	})
}

// dropSuggestion takes back a suggestion whose line is not being written. The
// caller holds mu.
func (s *Server) dropSuggestion() {
	if one := s.suggestion; one != nil && !one.writing {
		s.suggestion = nil
		one.cancel()
	}
}

// suggest asks the session's model.
func (s *Server) suggest(ctx context.Context, last *lastRequest) (text string, err error) {
	messages := spoken(last.history())
	if len(messages) == 0 {
		return "", errors.New("nothing was said yet")
	}
	return s.askBeside(ctx, beside{
		agent: last.agent, route: last.route, purpose: llm.SuggestionPlugin, tokens: suggestTokens, history: messages, question: textSuggest,
		wanted: suggestible,
	})
}

// spoken is the latest part of what the user and the model have said to each
// other. Calls are left out, because providers want their tools to be there, too;
// so are thoughts and what plugins told the model. It begins with the user.
func spoken(history []sdkproto.Message) []sdkproto.Message {
	var out []sdkproto.Message
	size := 0
	for _, m := range slices.Backward(llm.Project(history)) {
		if m.Role != sdkproto.RoleAssistant && m.Source.Kind != sdkproto.SourceUser {
			continue
		}
		m.Content = slices.DeleteFunc(slices.Clone(m.Content), func(b sdkproto.Block) bool { return b.Type != sdkproto.BlockText })
		if len(m.Content) == 0 {
			continue
		}
		if size += len(sdkproto.TextOf(m.Content)); size > suggestHistory && len(out) > 0 {
			break
		}
		if last := len(out) - 1; last >= 0 && out[last].Role == m.Role {
			out[last].Content = append(m.Content, out[last].Content...)
			continue
		}
		out = append(out, m)
	}
	slices.Reverse(out)
	if len(out) > 0 && out[0].Role == sdkproto.RoleAssistant {
		out = out[1:]
	}
	return out
}

// suggestible takes the suggestion out of an answer; "" where there is none.
func suggestible(answer string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "\"“”`"))
	if utf8.RuneCountInString(line) > suggestRunes || strings.EqualFold(strings.Trim(line, ". "), textNothing) {
		return ""
	}
	return line
}
