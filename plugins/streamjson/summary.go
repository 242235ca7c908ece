package streamjson

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dsh/sdkproto"
)

// summary is what is known of the summaries of a subagent at work (S038): while it
// works, its model is asked now and then what it is doing. Neither the subagent
// nor anybody else waits for the answer.
type summary struct {
	// asked is when the last question was put; cancel ends it.
	asked  time.Time
	busy   bool
	cancel context.CancelFunc
}

const (
	// summaryEvery is the least time between two questions about a subagent.
	summaryEvery = 30 * time.Second
	// summaryLimit is how long an answer may take.
	summaryLimit = 20 * time.Second
	// summaryTokens bounds the answer, with the thoughts of a model that cannot do
	// without; summaryRunes is what is shown of it.
	summaryTokens = 1000
	summaryRunes  = 300
	// summaryHistory is how much of its latest work the model is shown, in bytes, and
	// summaryPiece how much of one call, result or text.
	summaryHistory = 16 << 10
	summaryPiece   = 1 << 10
)

const textSummary = "Here is the latest work of an agent, oldest first. Say in one sentence of at most fifteen words what it is doing now, " +
	"beginning with a verb in the -ing form, for somebody who waits for it. Answer with the sentence alone."

// due says whether a subagent may be asked about now.
func (u *summary) due(now time.Time) bool {
	return !u.busy && (u.asked.IsZero() || now.Sub(u.asked) >= summaryEvery)
}

// summarise asks what a subagent is doing that is about to make a request other
// than its first. The caller holds mu.
func (s *Server) summarise(last *lastRequest) {
	id := last.agent.ID()
	if !s.asked.summaries || s.children[id] == 0 || s.overspent != "" || s.ending || s.code != 0 {
		return
	}
	u := s.summaries[id]
	if u == nil {
		u = &summary{}
		s.summaries[id] = u
	}
	now := time.Now()
	if !u.due(now) {
		return
	}
	ctx, cancel := context.WithTimeout(s.work, summaryLimit)
	u.asked, u.busy, u.cancel = now, true, cancel
	s.Owner.Go("progress summary", func(context.Context) {
		defer cancel()
		defer s.with(func() { u.busy = false })
		_, err := s.askBeside(ctx, beside{
			agent: last.agent, route: last.route, purpose: sdkproto.AsideSummary, tokens: summaryTokens,
			question: textSummary + "\n\n" + deeds(last.history()), wanted: func(answer string) string { return oneLine(answer, summaryRunes) },
		})
		if err != nil {
			s.Log.Debug("there is no summary of a subagent", "session", id, "error", err)
		}
	})
}

// dropSummary forgets a subagent that has ended. The caller holds mu.
func (s *Server) dropSummary(id string) {
	if u := s.summaries[id]; u != nil {
		u.cancel()
		delete(s.summaries, id)
	}
}

// deeds tells the latest part of a history in words: calls and results would want
// their tools to be there, too.
func deeds(history []sdkproto.Message) string {
	var pieces []string
	size := 0
	for i := range slices.Backward(history) {
		for _, b := range slices.Backward(history[i].Content) {
			piece := deed(history[i].Role, &b)
			if piece == "" {
				continue
			}
			if size += len(piece); size > summaryHistory && len(pieces) > 0 {
				slices.Reverse(pieces)
				return strings.Join(pieces, "\n")
			}
			pieces = append(pieces, piece)
		}
	}
	slices.Reverse(pieces)
	return strings.Join(pieces, "\n")
}

func deed(role string, b *sdkproto.Block) string {
	switch b.Type {
	case sdkproto.BlockText:
		who := "It was told: "
		if role == sdkproto.RoleAssistant {
			who = "It said: "
		}
		return who + oneLine(b.Text, summaryPiece)
	case sdkproto.BlockToolCall:
		return fmt.Sprintf("It called %s %s", b.Name, oneLine(b.Arguments, summaryPiece))
	case sdkproto.BlockToolResult:
		return "It got: " + oneLine(sdkproto.TextOf(b.Content), summaryPiece)
	}
	return ""
}

// oneLine is a text on one line, of at most so many characters.
func oneLine(text string, runes int) string {
	line := strings.Join(strings.Fields(text[:min(len(text), 8*runes)]), " ")
	if utf8.RuneCountInString(line) <= runes {
		return strings.ToValidUTF8(line, "")
	}
	return strings.ToValidUTF8(string([]rune(line)[:runes-1]), "") + "…"
}
