package transcript

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Source says what a transcript does not.
type Source struct {
	// Provider is that of a model; nil for none.
	Provider func(model string) string
}

// place is an entry of a chain, and where it stands in its file.
type place struct {
	uuid, parent string
	at           int64
	size         int
	// said is set for what a user or a model has said, main where that is part of
	// the conversation.
	said, main bool
}

// stored is what is read of an entry.
type stored struct {
	Type             string          `json:"type"`
	UUID             string          `json:"uuid"`
	ParentUUID       string          `json:"parentUuid"`
	IsSidechain      bool            `json:"isSidechain"`
	TeamName         string          `json:"teamName"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	IsAPIError       bool            `json:"isApiErrorMessage"`
	ForkedFrom       json.RawMessage `json:"forkedFrom"`
	Timestamp        string          `json:"timestamp"`
	Message          json.RawMessage `json:"message"`
	ToolUseResult    json.RawMessage `json:"toolUseResult"`

	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`
}

// Load reads the conversation of a transcript: the chain that ends with what was
// said last (spec stream-json 10.2). What is broken, or of no known kind, is passed
// over; a history without messages is none.
func Load(path string, source Source) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	defer f.Close()
	h := &History{}
	var places []place
	var custom, generated string
	_, _, err = lines(f, 0, func(at int64, raw []byte) {
		var e stored
		if raw[0] != '{' || wirejson.Unmarshal(raw, &e) != nil {
			return
		}
		switch e.Type {
		case typeCustomTitle:
			custom = e.CustomTitle
		case typeAITitle:
			generated = e.AITitle
		case typeUser, typeAssistant, typeSystem, typeProgress, typeAttached:
			if e.UUID == "" {
				return
			}
			said := e.Type == typeUser || e.Type == typeAssistant
			places = append(places, place{
				strings.Clone(e.UUID), strings.Clone(e.ParentUUID), at, len(raw), said, !e.IsSidechain && e.TeamName == "" && !e.IsMeta,
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read transcript %s: %w", path, err)
	}
	l := loader{h: h, source: source}
	for _, p := range chain(places) {
		raw := make([]byte, p.size)
		if _, err := f.ReadAt(raw, p.at); err != nil {
			return nil, fmt.Errorf("read transcript %s: %w", path, err)
		}
		var e stored
		if wirejson.Unmarshal(raw, &e) == nil && !e.IsSidechain && e.TeamName == "" {
			l.entry(&e)
		}
	}
	switch {
	case custom != "":
		h.title = UserTitle(custom)
	case generated != "":
		h.title = &sdkproto.SessionTitle{Title: generated, MessageSeqs: []int64{}, Source: sdkproto.TitleSource{Kind: "transcript"}}
	}
	return h, nil
}

// chain gives the entries from the root to the one that was said last. That is the
// latest in the file that nothing follows; what follows in no conversation, such as
// a note of the program, does not count.
func chain(places []place) []place {
	last := map[string]int{}
	parents := map[string]bool{}
	for i, p := range places {
		last[p.uuid] = i
		parents[p.parent] = true
	}
	leaf, other := -1, -1
	for i, p := range places {
		if last[p.uuid] != i || parents[p.uuid] {
			continue
		}
		at, ok := i, true
		for steps := 0; ok && !places[at].said && steps < len(places); steps++ {
			at, ok = last[places[at].parent]
		}
		switch {
		case !ok || !places[at].said:
		case places[at].main:
			leaf = max(leaf, at)
		default:
			other = max(other, at)
		}
	}
	if leaf < 0 {
		leaf = other
	}
	var list []place
	for at, ok := leaf, leaf >= 0; ok && len(list) < len(places); {
		p := places[at]
		list = append(list, p)
		at, ok = last[p.parent]
		ok = ok && p.parent != ""
	}
	slices.Reverse(list)
	return list
}

// loader makes nodes of entries.
type loader struct {
	h      *History
	source Source
}

func (l *loader) entry(e *stored) {
	var m struct {
		Role    string           `json:"role"`
		ID      string           `json:"id"`
		Model   string           `json:"model"`
		Content json.RawMessage  `json:"content"`
		Usage   streamjson.Usage `json:"usage"`
	}
	if len(e.Message) == 0 || wirejson.Unmarshal(e.Message, &m) != nil {
		return
	}
	content := blocksOf(m.Content)
	at := int64(0)
	if t, err := time.Parse(time.RFC3339, e.Timestamp); err == nil {
		at = max(t.UnixMilli(), 0)
	}
	switch {
	case e.Type == typeUser:
		l.user(e, at, content)
	case e.Type == typeAssistant && !e.IsAPIError && m.Model != streamjson.ModelSynthetic:
		var usage *sdkproto.Usage
		if m.Usage != (streamjson.Usage{}) && len(e.ForkedFrom) == 0 {
			usage = &sdkproto.Usage{
				InputTokens: m.Usage.InputTokens, OutputTokens: m.Usage.OutputTokens,
				CacheReadTokens: m.Usage.CacheReadInputTokens, CacheWriteTokens: m.Usage.CacheCreationInputTokens,
			}
		}
		l.answer(e, at, m.ID, m.Model, usage, content)
	}
}

// wireBlock is a block of a message in a transcript.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

// blocksOf reads content, a string or a list of blocks; what is no block is left
// out.
func blocksOf(raw json.RawMessage) []wireBlock {
	var text string
	if wirejson.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return []wireBlock{{Type: streamjson.BlockText, Text: text}}
	}
	var items []json.RawMessage
	if wirejson.Unmarshal(raw, &items) != nil {
		return nil
	}
	var list []wireBlock
	for _, item := range items {
		var b wireBlock
		if wirejson.Unmarshal(item, &b) == nil {
			list = append(list, b)
		}
	}
	return list
}

// id is that of a message: the entry's uuid, unless a log cannot have it.
func id(e *stored, first bool) string {
	if first && uuid.Validate(e.UUID) == nil && utf8.RuneCountInString(e.UUID) == 36 {
		return e.UUID
	}
	return uuid.NewString()
}

// user takes what was said to the model: results of calls, and the rest as one
// message.
func (l *loader) user(e *stored, at int64, content []wireBlock) {
	first := true
	var said []sdkproto.Block
	for i := range content {
		b := &content[i]
		if b.Type != streamjson.BlockToolResult {
			said = append(said, l.shown(b))
			continue
		}
		result := l.all(blocksOf(b.Content))
		l.add(e, node{time: at, result: &sdkproto.ToolResult{
			Meta: object(e.ToolUseResult),
			Message: sdkproto.Message{
				Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: b.ToolUseID},
				Content: []sdkproto.Block{{
					Type: sdkproto.BlockToolResult, ToolCallID: b.ToolUseID, IsError: b.IsError, Content: result,
				}},
				Role: sdkproto.RoleUser, ID: id(e, first),
			},
		}}, first)
		first = false
	}
	if len(said) == 0 {
		return
	}
	source := sdkproto.Source{Kind: sdkproto.SourceUser}
	switch {
	case e.IsCompactSummary:
		source = sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: compactionPlugin, Form: "recall"}
	case e.IsMeta:
		source = sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: "transcript", Form: "notice", Summary: "from a transcript"}
	}
	l.add(e, node{time: at, user: &sdkproto.Message{Source: source, Content: said, Role: sdkproto.RoleUser, ID: id(e, first)}}, first)
}

// add puts a node behind the others. named says that the entry's uuid is its.
func (l *loader) add(e *stored, n node, named bool) {
	if named {
		n.uuids, n.blocks = []string{e.UUID}, []int{whole}
	}
	l.h.nodes = append(l.h.nodes, n)
	// The images stand in the node, where references take their place.
	l.h.uploads = append(l.h.uploads, images(n.message().Content)...)
}

func images(content []sdkproto.Block) (list []*sdkproto.Block) {
	for i := range content {
		b := &content[i]
		switch b.Type {
		case sdkproto.BlockImage:
			list = append(list, b)
		case sdkproto.BlockToolResult:
			list = append(list, images(b.Content)...)
		}
	}
	return list
}

// object keeps a structured output that is one.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	compact, err := wirejson.Compact(raw)
	if err != nil {
		return nil
	}
	return compact
}

func (l *loader) all(content []wireBlock) []sdkproto.Block {
	list := make([]sdkproto.Block, 0, len(content))
	for i := range content {
		list = append(list, l.shown(&content[i]))
	}
	return list
}

// shown is a block of a user's message or of a result.
func (l *loader) shown(b *wireBlock) sdkproto.Block {
	switch {
	case b.Type == streamjson.BlockText:
		return sdkproto.Text(b.Text)
	case b.Type == streamjson.BlockImage && b.Source.Type == "base64":
		return sdkproto.Block{Type: sdkproto.BlockImage, Data: b.Source.Data, MimeType: b.Source.MediaType}
	}
	return sdkproto.Text(fmt.Sprintf("[A block of type %q was here.]", b.Type))
}

// answer takes what a model has said. An answer has an entry for each block; those
// of one answer have its id, and results of its first calls may stand between
// them.
func (l *loader) answer(e *stored, at int64, messageID, model string, usage *sdkproto.Usage, content []wireBlock) {
	var blocks []sdkproto.Block
	for i := range content {
		switch b := &content[i]; b.Type {
		case streamjson.BlockText:
			blocks = append(blocks, sdkproto.Text(b.Text))
		case streamjson.BlockThinking:
			blocks = append(blocks, sdkproto.Block{Type: sdkproto.BlockReasoning, Text: b.Thinking, Signature: b.Signature})
		case streamjson.BlockRedacted:
			blocks = append(blocks, sdkproto.Block{Type: sdkproto.BlockRedacted, Data: b.Data})
		case streamjson.BlockToolUse:
			arguments := "{}"
			if compact, err := wirejson.Compact(b.Input); err == nil && len(b.Input) > 0 {
				arguments = string(compact)
			}
			blocks = append(blocks, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: b.ID, Name: b.Name, Arguments: arguments})
		}
	}
	if len(blocks) == 0 {
		return
	}
	n := l.sameAnswer(messageID, blocks[0].Type == sdkproto.BlockToolCall)
	if n == nil {
		provider := ""
		if l.source.Provider != nil {
			provider = l.source.Provider(model)
		}
		l.h.nodes = append(l.h.nodes, node{time: at, shown: messageID, answer: &sdkproto.AssistantMessage{
			Message: sdkproto.Message{
				Source: sdkproto.Source{Kind: sdkproto.SourceModel, Provider: provider, Model: model},
				Role:   sdkproto.RoleAssistant, ID: uuid.NewString(),
			},
		}})
		n = &l.h.nodes[len(l.h.nodes)-1]
	}
	if usage != nil {
		n.answer.Usage = usage
	}
	for i := range blocks {
		if i == 0 {
			n.uuids, n.blocks = append(n.uuids, e.UUID), append(n.blocks, len(n.answer.Message.Content))
		}
		n.answer.Message.Content = append(n.answer.Message.Content, blocks[i])
	}
}

// sameAnswer gives the answer that a block belongs to, if there is one already: the
// last, with the same id. Behind results of calls only further calls do: an id that
// a provider gives to several answers must not make one of them.
func (l *loader) sameAnswer(messageID string, call bool) *node {
	if messageID == "" {
		return nil
	}
	for i := range slices.Backward(l.h.nodes) {
		n := &l.h.nodes[i]
		if n.answer != nil && n.shown == messageID {
			return n
		}
		if n.result == nil || !call {
			return nil
		}
	}
	return nil
}
