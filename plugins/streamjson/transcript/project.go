package transcript

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"dsh/kernel/session"
	"dsh/plugins/streamjson/project"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Options say whose transcript it is.
type Options struct {
	// SessionID is the session at the root. LogID is the session whose log it is:
	// that one, or a subagent.
	SessionID, LogID string
	CWD, Version     string
	// Branch says which branch is checked out; nil for none.
	Branch func() string
	Show   project.Shower
	// Remember keeps the uuids of all entries for History.Beyond.
	Remember bool
}

// Projector makes the entries of one log. It is used by one goroutine.
type Projector struct {
	o    Options
	next int64
	// last is the entry that the next one follows, "" at the beginning.
	last  string
	nodes []node
	// again says that what is shown stands in the file already, behind another
	// parent.
	again bool
	// calls are the calls of the model by their id.
	calls map[string]shownCall
	// foreign are the uuids of messages that were read from a transcript.
	foreign map[string][]string
	seen    map[string]bool
	// source is the session that what comes was copied from, "" for none.
	source string
	branch string
	// prompt is what the user said last, title the name that people gave the
	// session, anyTitle the last of all.
	prompt, title string
	anyTitle      *sdkproto.SessionTitle
	turn          int
	compacting    compacting
	// tokens is what the last request held, with its answer.
	tokens int64
}

type compacting struct{ id, trigger string }

type shownCall struct{ name, uuid string }

// NewProjector begins with the first record of a log.
func NewProjector(o Options) *Projector {
	return &Projector{o: o, calls: map[string]shownCall{}, foreign: map[string][]string{}, seen: map[string]bool{}}
}

// Next is the seq of the record that is wanted next: records come in order, and
// without gaps.
func (p *Projector) Next() int64 { return p.next }

// Prompt is what the user said last, for a listing; Title the name that people
// gave the session. Both may be "".
func (p *Projector) Prompt() string { return p.prompt }

// Title is described at Prompt.
func (p *Projector) Title() string { return p.title }

// LastPrompt is the line that says what the user said last; none without.
func (p *Projector) LastPrompt() []Line {
	if p.prompt == "" {
		return nil
	}
	return line(&metadata{Type: typeLastPrompt, LastPrompt: p.prompt, SessionID: p.o.SessionID}, "")
}

// TitleLine is the line that gives a session its name, TagLine the one that marks
// it.
func TitleLine(sessionID, title string) []Line {
	return line(&metadata{Type: typeCustomTitle, CustomTitle: title, SessionID: sessionID}, "")
}

// TagLine is described at TitleLine.
func TagLine(sessionID, tag string) []Line {
	return line(&metadata{Type: typeTag, Tag: &tag, SessionID: sessionID}, "")
}

// Record gives the entries that a record adds. One that was seen already adds
// none.
func (p *Projector) Record(ctx context.Context, r *session.Record) []Line {
	e := &r.Event
	if e.Seq < p.next {
		return nil
	}
	p.next = e.Seq + 1
	switch e.Type {
	case sdkproto.TypeUserMessage:
		return with(r, func(m *sdkproto.Message) []Line {
			return p.put(ctx, e, node{seq: e.Seq, time: e.Time, user: m})
		})
	case sdkproto.TypeAssistantMessage:
		return with(r, func(m *sdkproto.AssistantMessage) []Line {
			if u := m.Usage; u != nil {
				p.tokens = u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens + u.OutputTokens
			}
			return p.put(ctx, e, node{seq: e.Seq, time: e.Time, answer: m, shown: project.AnswerID(p.o.LogID, e, m)})
		})
	case sdkproto.TypeToolResult:
		return with(r, func(m *sdkproto.ToolResult) []Line {
			return p.put(ctx, e, node{seq: e.Seq, time: e.Time, result: m})
		})
	case sdkproto.TypeTurnStart:
		return with(r, func(s *sdkproto.TurnStart) []Line {
			p.turn = s.Turn
			if p.o.Branch != nil {
				p.branch = p.o.Branch()
			}
			return nil
		})
	case sdkproto.TypeTurnEnd:
		return with(r, func(t *sdkproto.TurnEnd) []Line { return p.ended(e.Time, t) })
	case sdkproto.TypeCompactionStart:
		return with(r, func(s *sdkproto.CompactionStart) []Line {
			p.compacting = compacting{s.CompactionID, streamjson.TriggerAuto}
			if s.SourceCommandID != "" {
				p.compacting.trigger = streamjson.TriggerManual
			}
			return nil
		})
	case sdkproto.TypeSessionTitle:
		return with(r, p.titled)
	case sdkproto.TypeSessionSeeded:
		return with(r, func(s *sdkproto.SessionSeeded) []Line {
			if s.Kind == sdkproto.SeedFork {
				p.source = s.SessionID
			}
			return nil
		})
	case sdkproto.TypeSessionEndSeed:
		p.source = ""
	case sdkproto.TypeTranscriptUUIDs:
		return with(r, func(u *sdkproto.TranscriptUUIDs) []Line {
			p.foreign[u.MessageID] = u.UUIDs
			return nil
		})
	}
	return nil
}

// with decodes the payload of a record for f. One that cannot be decoded is not
// shown.
func with[T any](r *session.Record, f func(*T) []Line) []Line {
	if v, ok := r.Data.(*T); ok {
		return f(v)
	}
	v, err := session.Decode[T](r)
	if err != nil {
		return nil
	}
	return f(&v)
}

// Kinds of titles: that of people, and one that a model was asked for.
const (
	titleByUser  = "user"
	titleByModel = "model"
)

// UserTitle is the fact that people gave a session a name.
func UserTitle(title string) *sdkproto.SessionTitle {
	return &sdkproto.SessionTitle{Title: title, MessageSeqs: []int64{}, Source: sdkproto.TitleSource{Kind: titleByUser}}
}

// titled takes a title. One that the harness made of the first prompt is no news
// to a listing, which shows the prompts themselves.
func (p *Projector) titled(t *sdkproto.SessionTitle) []Line {
	p.anyTitle = t
	switch {
	case t.Title == "":
	case t.Source.Kind == titleByUser:
		p.title = t.Title
		return TitleLine(p.o.SessionID, t.Title)
	case t.Source.Kind == titleByModel:
		return line(&metadata{Type: typeAITitle, AITitle: t.Title, SessionID: p.o.SessionID}, "")
	}
	return nil
}

// entry begins an entry that follows the last one.
func (p *Projector) entry(kind, id string, time int64) *entry {
	e := &entry{
		Type: kind, IsSidechain: p.isAgent(), UserType: "external", CWD: p.o.CWD, SessionID: p.o.SessionID, Version: p.o.Version,
		GitBranch: p.branch, UUID: id, Timestamp: stamp(time),
	}
	if p.isAgent() {
		e.AgentID = p.o.LogID
	}
	if p.last != "" {
		parent := p.last
		e.ParentUUID = &parent
	}
	if p.source != "" {
		e.ForkedFrom = &forkedFrom{p.source, id}
	}
	return e
}

func (p *Projector) isAgent() bool { return p.o.LogID != p.o.SessionID }

// add puts an entry behind the last one.
func (p *Projector) add(e *entry) []Line {
	key := e.UUID
	if p.again && e.ParentUUID != nil {
		key = keyAgain(e.UUID, *e.ParentUUID)
	}
	p.last = e.UUID
	if p.o.Remember {
		p.seen[e.UUID] = true
	}
	return line(e, key)
}

// show gives the entries of a node, and notes their uuids there.
func (p *Projector) show(ctx context.Context, n *node) (lines []Line) {
	n.uuids, n.blocks = nil, nil
	switch {
	case n.user != nil:
		e := p.entry(typeUser, p.uuid(n.user.ID, 0, n.user.ID), n.time)
		e.IsMeta, e.IsCompactSummary = isMeta(n.user), isSummary(n.user)
		e.Message = p.content(ctx, n.user.Content)
		if !e.IsMeta && !e.IsCompactSummary && !p.isAgent() {
			p.prompt = sdkproto.Brief(n.user.Content, mostListed)
		}
		lines = p.add(e)
		n.uuids, n.blocks = []string{e.UUID}, []int{whole}
	case n.answer != nil:
		lines = p.answer(n)
	case n.result != nil:
		m := n.result
		call := p.calls[m.Message.Source.CallID]
		block, structured, ok := p.o.Show.Result(ctx, call.name, m)
		if !ok {
			return nil
		}
		e := p.entry(typeUser, p.uuid(m.Message.ID, 0, m.Message.ID), n.time)
		e.SourceUUID, e.ToolUseResult = call.uuid, structured
		content, err := wirejson.Marshal([]streamjson.Block{block})
		if err != nil {
			return nil // not possible: it is text, and JSON that was checked
		}
		e.Message = encoded(&userMessage{sdkproto.RoleUser, content})
		lines = p.add(e)
		n.uuids, n.blocks = []string{e.UUID}, []int{whole}
	}
	return lines
}

// answer gives an entry for each block of an answer that is shown.
func (p *Projector) answer(n *node) (lines []Line) {
	m := n.answer
	for i := range m.Message.Content {
		b, ok := project.Answer(&m.Message.Content[i])
		if !ok {
			continue
		}
		e := p.entry(typeAssistant, p.uuid(m.Message.ID, i, streamjson.BlockUUID(m.Message.ID, i)), n.time)
		e.Message = encoded(&streamjson.Message{
			ID: n.shown, Type: "message", Role: sdkproto.RoleAssistant, Model: m.Message.Source.Model,
			Content: []streamjson.Block{b}, Usage: project.Usage(m.Usage),
		})
		if b.Type == streamjson.BlockToolUse {
			p.calls[b.ID] = shownCall{b.Name, e.UUID}
		}
		lines = append(lines, p.add(e)...)
		n.uuids, n.blocks = append(n.uuids, e.UUID), append(n.blocks, i)
	}
	return lines
}

// uuid is that of a block of a message: what a transcript has said of it, or else
// usual.
func (p *Projector) uuid(messageID string, block int, usual string) string {
	if known := p.foreign[messageID]; block < len(known) && known[block] != "" {
		return known[block]
	}
	if uuid.Validate(usual) != nil {
		return streamjson.BlockUUID(messageID, block)
	}
	return usual
}

// content is the message of a user entry; one text stands there as a string.
func (p *Projector) content(ctx context.Context, blocks []sdkproto.Block) json.RawMessage {
	m := userMessage{Role: sdkproto.RoleUser}
	if len(blocks) == 1 && blocks[0].Type == sdkproto.BlockText {
		m.Content = wirejson.AppendString(nil, project.Text(blocks[0].Text))
	} else {
		m.Content = p.o.Show.Blocks(ctx, blocks)
	}
	return encoded(&m)
}

func encoded(v any) json.RawMessage {
	raw, err := wirejson.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // not possible: it is text, and JSON that was checked
	}
	return raw
}

// compactionPlugin signs the summaries that stand for a part of a history.
const compactionPlugin = "compaction"

func isSummary(m *sdkproto.Message) bool {
	return m.Source.Kind == sdkproto.SourcePlugin && m.Source.Plugin == compactionPlugin
}

// isMeta reports whether nobody has said a message: it tells the model something.
func isMeta(m *sdkproto.Message) bool { return m.Source.Kind != sdkproto.SourceUser && !isSummary(m) }

// mostListed is how many characters of a prompt a listing shows.
const mostListed = 200

// textInterrupted is what the client is told of a turn that was cut off (spec
// stream-json 3.4).
const textInterrupted = "[Request interrupted by user]"

// ended shows how a turn ended that did not end well, as the line that the client
// got does, with its uuid. It is not part of the model's history.
func (p *Projector) ended(time int64, t *sdkproto.TurnEnd) []Line {
	if p.isAgent() || len(p.nodes) == 0 {
		return nil
	}
	id := streamjson.TurnUUID(p.o.SessionID, t.Turn)
	var e *entry
	switch why := &t.Reason; {
	case why.Kind == sdkproto.EndAborted && !(why.Reason != nil && why.Reason.Kind == sdkproto.AbortDisposed):
		e = p.entry(typeUser, id, time)
		content, err := wirejson.Marshal([]streamjson.Block{{Type: streamjson.BlockText, Text: textInterrupted}})
		if err != nil {
			return nil // not possible: it is text
		}
		e.Message = encoded(&userMessage{sdkproto.RoleUser, content})
	case why.Kind == sdkproto.EndError && why.Error != nil:
		text, kind, ok := project.APIError(why.Error)
		if !ok {
			return nil
		}
		e = p.entry(typeAssistant, id, time)
		e.IsAPIError, e.Error = true, kind
		e.Message = encoded(&streamjson.Message{
			ID: streamjson.MessageID("", id, 0), Type: "message", Role: sdkproto.RoleAssistant, Model: streamjson.ModelSynthetic,
			Content: []streamjson.Block{{Type: streamjson.BlockText, Text: text}},
		})
	default:
		return nil
	}
	n := &p.nodes[len(p.nodes)-1]
	n.trailing = append(n.trailing, id)
	return p.add(e)
}
