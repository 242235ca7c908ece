package jsonrpc

import (
	"slices"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// ledger is a fold of one session's log: which messages wait, which the open
// turn has taken, and what it has come to so far.
type ledger struct {
	inbox session.Inbox
	// blind is set while what was logged before is not known: the inbox is not
	// kept then, and totals are too low.
	blind bool
	turn  int
	taken []sdkproto.Message
	text  string
	usage *sdkproto.Usage // of the turn, nil without any
	// totals is the usage of the whole session.
	totals sdkproto.Usage
}

// settled is a message that has come to its end.
type settled struct {
	sdkproto.PromptFinished
	// prompt says that a user sent it.
	prompt bool
}

// apply takes up the next record and gives what it settles.
func (l *ledger) apply(r *session.Record) ([]settled, error) {
	switch r.Event.Type {
	case sdkproto.TypeAgentInboxSpliced:
		if l.blind {
			return nil, nil
		}
		s, err := session.Decode[sdkproto.AgentInboxSpliced](r)
		if err != nil {
			return nil, err
		}
		list := l.inbox.Pending(s.Target)
		if err := l.inbox.Apply(r); err != nil || s.Outcome != sdkproto.OutcomeCanceled {
			return nil, err
		}
		var out []settled
		for _, m := range list[s.Start : s.Start+s.RemovedCount] { // in range, or Apply had refused
			out = append(out, settle(m, sdkproto.PromptFinished{Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCanceled}}))
		}
		return out, nil
	case sdkproto.TypeTurnStart:
		t, err := session.Decode[sdkproto.TurnStart](r)
		if err != nil {
			return nil, err
		}
		l.turn, l.taken, l.text, l.usage = t.Turn, nil, "", nil
	case sdkproto.TypeUserMessage:
		m, err := session.Decode[sdkproto.Message](r)
		if err != nil {
			return nil, err
		}
		l.taken = append(l.taken, m)
	case sdkproto.TypeAssistantMessage:
		m, err := session.Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return nil, err
		}
		l.text = sdkproto.TextOf(m.Message.Content)
		if m.Usage != nil {
			if l.usage == nil {
				l.usage = &sdkproto.Usage{}
			}
			l.usage.Add(m.Usage)
			l.totals.Add(m.Usage)
		}
	case sdkproto.TypeCompactionSummary:
		s, err := session.Decode[sdkproto.CompactionSummary](r)
		if err != nil {
			return nil, err
		}
		if s.Usage != nil {
			l.totals.Add(s.Usage)
		}
	case sdkproto.TypeTurnEnd:
		t, err := session.Decode[sdkproto.TurnEnd](r)
		if err != nil {
			return nil, err
		}
		var out []settled
		for _, m := range l.taken {
			out = append(out, settle(m, sdkproto.PromptFinished{Turn: t.Turn, Reason: t.Reason, FinalText: l.text, Usage: l.usage}))
		}
		l.taken, l.text, l.usage = nil, "", nil
		return out, nil
	}
	return nil, nil
}

func settle(m sdkproto.Message, end sdkproto.PromptFinished) settled {
	end.MessageID = m.ID
	return settled{end, m.Source.Kind == sdkproto.SourceUser}
}

// waits reports whether a message is on its way: in the inbox, or in the turn
// that is open.
func (l *ledger) waits(messageID string) bool {
	is := func(m sdkproto.Message) bool { return m.ID == messageID }
	return slices.ContainsFunc(l.taken, is) ||
		slices.ContainsFunc(l.inbox.Pending(sdkproto.TargetNextTurn), is) ||
		slices.ContainsFunc(l.inbox.Pending(sdkproto.TargetNextStep), is)
}
