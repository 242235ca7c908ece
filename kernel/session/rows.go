package session

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// The stored form that stores share (spec jsonrpc 9.2): a header row, then one
// row per event or per run of deltas, each a JSON object on a line of its own.

// Types of packed rows.
const (
	rowText      = "text-chunks"
	rowReasoning = "reasoning-chunks"
	rowToolCall  = "tool-call-chunks"
)

// leastRun is how many deltas of one block make a packed row.
const leastRun = 3

// FormatVersion is that of the header row; others are refused.
const FormatVersion = 0

// AppendHeader appends the header row and its newline.
func AppendHeader(dst []byte, h *Header) ([]byte, error) {
	row, err := wirejson.Marshal(h)
	if err != nil {
		return dst, fmt.Errorf("encode header of session %s: %w", h.ID, err)
	}
	dst = append(dst, `{"type":"session","version":`...)
	dst = wirejson.AppendInt(dst, FormatVersion)
	dst = append(dst, ',')
	dst = append(dst, row[1:]...)
	return append(dst, '\n'), nil
}

// ParseHeader reads a header row. A foreign version is ErrUnsupported, and
// anything else that is not a header ErrCorrupt.
func ParseHeader(row []byte) (Header, error) {
	var head struct {
		Type    string `json:"type"`
		Version *int64 `json:"version"`
	}
	err := wirejson.Unmarshal(row, &head)
	switch {
	case head.Type != "session" && err == nil:
		return Header{}, fmt.Errorf("%w: the first line is no session header", ErrCorrupt)
	case head.Type == "session" && (err != nil || head.Version == nil || *head.Version != FormatVersion):
		return Header{}, fmt.Errorf("%w: the header has not version %d", ErrUnsupported, FormatVersion)
	case err != nil:
		return Header{}, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	var h Header
	if err := wirejson.Unmarshal(row, &h); err != nil {
		return Header{}, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	if h.ID == "" {
		return Header{}, fmt.Errorf("%w: the header has no id", ErrCorrupt)
	}
	return h, nil
}

// AppendRows appends the rows of one batch, each with its newline. Three or
// more deltas of one block in a row are packed, unless their bytes could not be
// had back exactly.
func AppendRows(dst []byte, records []Record) []byte {
	var run deltaRun
	for i := 0; i < len(records); {
		n := run.take(records[i:])
		if n < leastRun {
			n = max(n, 1)
			for _, r := range records[i : i+n] {
				dst = append(append(dst, r.Raw...), '\n')
			}
		} else {
			dst = append(run.append(dst), '\n')
		}
		i += n
	}
	return dst
}

// delta is one assistant/chunk delta, cut out of its encoded form. The strings
// are JSON tokens and alias the row.
type delta struct {
	seq, time         int64
	turn, step, index int64
	kind              string // the packed row's type
	id, name          []byte // tool calls; name is nil when absent
	piece             []byte
}

// sameRun reports whether e, the event behind d, can share a row with it.
func (d *delta) sameRun(e *delta) bool {
	return e.kind == d.kind && e.seq == d.seq+1 && e.turn == d.turn && e.step == d.step && e.index == d.index &&
		e.name == nil && bytes.Equal(e.id, d.id)
}

// deltaRun is a run of deltas of one block.
type deltaRun struct {
	deltas []delta
}

// take fills the run with the deltas at the head of records and tells how many
// they are.
func (run *deltaRun) take(records []Record) int {
	run.deltas = run.deltas[:0]
	for i := range records {
		d, ok := parseDelta(records[i].Raw)
		if !ok || i > 0 && !run.deltas[i-1].sameRun(&d) {
			break
		}
		run.deltas = append(run.deltas, d)
	}
	return len(run.deltas)
}

func (run *deltaRun) append(dst []byte) []byte {
	first := &run.deltas[0]
	dst = append(dst, `{"type":"`...)
	dst = append(dst, first.kind...)
	dst = append(dst, `","seq0":`...)
	dst = wirejson.AppendInt(dst, first.seq)
	dst = append(dst, `,"time0":`...)
	dst = wirejson.AppendInt(dst, first.time)
	dst = append(dst, `,"data":{"turn":`...)
	dst = wirejson.AppendInt(dst, first.turn)
	dst = append(dst, `,"step":`...)
	dst = wirejson.AppendInt(dst, first.step)
	dst = append(dst, `,"index":`...)
	dst = wirejson.AppendInt(dst, first.index)
	pieces := `],"texts":[`
	if first.kind == rowToolCall {
		pieces = `],"args":[`
		dst = append(dst, `,"id":`...)
		dst = append(dst, first.id...)
		if first.name != nil {
			dst = append(dst, `,"name":`...)
			dst = append(dst, first.name...)
		}
	}
	dst = append(dst, `,"dt":[`...)
	for i := 1; i < len(run.deltas); i++ {
		if i > 1 {
			dst = append(dst, ',')
		}
		dst = wirejson.AppendInt(dst, run.deltas[i].time-run.deltas[i-1].time)
	}
	dst = append(dst, pieces...)
	for i := range run.deltas {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, run.deltas[i].piece...)
	}
	return append(dst, `]}}`...)
}

// appendEvent appends the event that d was cut from.
func (d *delta) appendEvent(dst []byte) (out []byte, data, dataEnd int) {
	ev := sdkproto.Event{Type: sdkproto.TypeAssistantChunk, Seq: d.seq, Time: d.time}
	dst = ev.AppendHead(dst)
	data = len(dst)
	dst = append(dst, `{"turn":`...)
	dst = wirejson.AppendInt(dst, d.turn)
	dst = append(dst, `,"step":`...)
	dst = wirejson.AppendInt(dst, d.step)
	switch d.kind {
	case rowText:
		dst = append(dst, deltaText...)
	case rowReasoning:
		dst = append(dst, deltaReasoning...)
	case rowToolCall:
		dst = append(dst, deltaToolCall...)
	}
	dst = wirejson.AppendInt(dst, d.index)
	if d.kind == rowToolCall {
		dst = append(dst, `,"id":`...)
		dst = append(dst, d.id...)
		if d.name != nil {
			dst = append(dst, `,"name":`...)
			dst = append(dst, d.name...)
		}
		dst = append(dst, `,"argumentsDelta":`...)
	} else {
		dst = append(dst, `,"text":`...)
	}
	dst = append(dst, d.piece...)
	dst = append(dst, `}}`...)
	dataEnd = len(dst)
	return ev.AppendTail(dst), data, dataEnd
}

// What stands between step and index in the payload of a delta.
const (
	deltaText      = `,"chunk":{"type":"text-delta","index":`
	deltaReasoning = `,"chunk":{"type":"reasoning-delta","index":`
	deltaToolCall  = `,"chunk":{"type":"tool-call-delta","index":`
)

// parseDelta cuts up the encoded form of a delta. It takes only the exact form
// that appendEvent gives, so that packing loses nothing.
func parseDelta(raw []byte) (d delta, ok bool) {
	c := cutter{rest: raw, ok: true}
	c.text(`{"type":"assistant/chunk","seq":`)
	d.seq = c.int()
	c.text(`,"time":`)
	d.time = c.int()
	c.text(`,"data":{"turn":`)
	d.turn = c.int()
	c.text(`,"step":`)
	d.step = c.int()
	switch {
	case c.maybe(deltaText):
		d.kind = rowText
	case c.maybe(deltaReasoning):
		d.kind = rowReasoning
	case c.maybe(deltaToolCall):
		d.kind = rowToolCall
	default:
		return d, false
	}
	d.index = c.int()
	if d.kind == rowToolCall {
		c.text(`,"id":`)
		d.id = c.string()
		if c.maybe(`,"name":`) {
			d.name = c.string()
		}
		c.text(`,"argumentsDelta":`)
	} else {
		c.text(`,"text":`)
	}
	d.piece = c.string()
	c.text(`}}}`)
	return d, c.ok && len(c.rest) == 0
}

// cutter takes pieces off the front of a text; ok falls when one does not fit.
type cutter struct {
	rest []byte
	ok   bool
}

func (c *cutter) maybe(s string) bool {
	if !c.ok || len(c.rest) < len(s) || string(c.rest[:len(s)]) != s {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

func (c *cutter) text(s string) { c.ok = c.maybe(s) }

// int takes an integer that AppendInt would write in the same way.
func (c *cutter) int() int64 {
	n := 0
	for n < len(c.rest) && (c.rest[n] >= '0' && c.rest[n] <= '9' || n == 0 && c.rest[n] == '-') {
		n++
	}
	v, err := strconv.ParseInt(string(c.rest[:n]), 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != string(c.rest[:n]) {
		c.ok = false
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// string takes a JSON string with its quotes.
func (c *cutter) string() []byte {
	if !c.ok || len(c.rest) == 0 || c.rest[0] != '"' {
		c.ok = false
		return nil
	}
	for i := 1; i < len(c.rest); i++ {
		switch b := c.rest[i]; {
		case b == '\\':
			i++
		case b == '"':
			token := c.rest[: i+1 : i+1]
			c.rest = c.rest[i+1:]
			return token
		case b < 0x20:
			c.ok = false
			return nil
		}
	}
	c.ok = false
	return nil
}

// rowFields has the members of events and of packed rows.
type rowFields struct {
	Type      string   `json:"type"`
	Seq       *int64   `json:"seq"`
	Time      *int64   `json:"time"`
	Data      rawValue `json:"data"`
	Ignorable bool     `json:"ignorable"`
	Sources   []int64  `json:"sourceEventSeqs"`
	Surface   rawValue `json:"surfaceOp"`
	Seq0      *int64   `json:"seq0"`
	Time0     *int64   `json:"time0"`
}

// rawValue is a JSON value as it stands in the text.
type rawValue []byte

// UnmarshalJSON keeps a copy.
func (v *rawValue) UnmarshalJSON(text []byte) error {
	*v = append((*v)[:0], text...)
	return nil
}

// ParseRow reads one row, without its newline, that starts at seq, and hands
// its records on: one, or all those of a packed row. It returns the seq after
// them. The records do not alias row. Errors are those of fn, and *RowError.
func ParseRow(row []byte, seq int64, fn func(*Record) error) (next int64, err error) {
	var f rowFields
	if err := wirejson.Unmarshal(row, &f); err != nil {
		return seq, &RowError{err}
	}
	if f.Seq0 != nil && f.Seq == nil {
		return parsePacked(&f, seq, fn)
	}
	switch {
	case f.Type == "":
		return seq, rowError("it has no type")
	case f.Seq == nil || f.Time == nil || f.Data == nil:
		return seq, rowError("it has not all of seq, time and data")
	case *f.Seq != seq:
		return seq, rowError("it has seq %d in place of %d", *f.Seq, seq)
	}
	raw := bytes.Clone(row)
	r := Record{Raw: raw, Event: sdkproto.Event{
		Type: f.Type, Seq: seq, Time: *f.Time, Data: within(raw, f.Data), Ignorable: f.Ignorable,
		SourceEventSeqs: f.Sources, SurfaceOp: within(raw, f.Surface),
	}}
	return seq + 1, fn(&r)
}

// within gives the part of raw that equals v, so that v need not be kept, and v
// when there is none.
func within(raw, v []byte) []byte {
	if len(v) == 0 {
		return nil
	}
	at := bytes.Index(raw, v)
	if at < 0 {
		return v
	}
	return raw[at : at+len(v) : at+len(v)]
}

func parsePacked(f *rowFields, seq int64, fn func(*Record) error) (int64, error) {
	var p struct {
		Turn  *int64     `json:"turn"`
		Step  *int64     `json:"step"`
		Index *int64     `json:"index"`
		ID    rawValue   `json:"id"`
		Name  rawValue   `json:"name"`
		DT    []int64    `json:"dt"`
		Texts []rawValue `json:"texts"`
		Args  []rawValue `json:"args"`
	}
	if len(f.Data) == 0 {
		return seq, rowError("it has no data")
	}
	if err := wirejson.Unmarshal(f.Data, &p); err != nil {
		return seq, &RowError{err}
	}
	pieces, calls := p.Texts, false
	switch f.Type {
	case rowText, rowReasoning:
	case rowToolCall:
		pieces, calls = p.Args, true
	default:
		return seq, rowError("%q is no type of a packed row", f.Type)
	}
	switch {
	case *f.Seq0 != seq:
		return seq, rowError("it has seq0 %d in place of %d", *f.Seq0, seq)
	case f.Time0 == nil || p.Turn == nil || p.Step == nil || p.Index == nil || calls != isString(p.ID):
		return seq, rowError("a packed row lacks a member")
	case p.Name != nil && !(calls && isString(p.Name)):
		return seq, rowError("a packed row has a wrong name")
	case len(pieces) == 0 || len(p.DT) != len(pieces)-1:
		return seq, rowError("a packed row has %d pieces and %d times between them", len(pieces), len(p.DT))
	}
	for _, piece := range pieces {
		if !isString(piece) {
			return seq, rowError("a packed row has a piece that is no text")
		}
	}
	return seq + int64(len(pieces)), unpack(f, seq, delta{
		time: *f.Time0, turn: *p.Turn, step: *p.Step, index: *p.Index, kind: f.Type, id: p.ID, name: p.Name,
	}, p.DT, pieces, fn)
}

func unpack(f *rowFields, seq int64, d delta, dt []int64, pieces []rawValue, fn func(*Record) error) error {
	chunk := sdkproto.Chunk{Index: int(d.index), ID: unquote(d.id)}
	name := unquote(d.name)
	switch f.Type {
	case rowText:
		chunk.Type = sdkproto.ChunkTextDelta
	case rowReasoning:
		chunk.Type = sdkproto.ChunkReasoningDelta
	case rowToolCall:
		chunk.Type = sdkproto.ChunkToolCallDelta
	}
	for i, piece := range pieces {
		if i > 0 {
			d.time += dt[i-1]
			d.name, name = nil, ""
		}
		d.seq, d.piece = seq+int64(i), piece
		raw, data, dataEnd := d.appendEvent(make([]byte, 0, 160+len(piece)))
		c := chunk
		if f.Type == rowToolCall {
			c.Name, c.ArgumentsDelta = name, unquote(piece)
		} else {
			c.Text = unquote(piece)
		}
		r := Record{
			Raw:   raw,
			Event: sdkproto.Event{Type: sdkproto.TypeAssistantChunk, Seq: d.seq, Time: d.time, Data: raw[data:dataEnd:dataEnd]},
			Data:  &sdkproto.AssistantChunk{Turn: int(d.turn), Step: int(d.step), Chunk: c},
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
	return nil
}

func isString(token []byte) bool { return len(token) > 1 && token[0] == '"' }

// unquote gives the value of a valid JSON string token; "" for none.
func unquote(token []byte) string {
	if len(token) == 0 {
		return ""
	}
	if inner := token[1 : len(token)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if err := wirejson.Unmarshal(token, &s); err != nil {
		return ""
	}
	return s
}

// RowError says why a line is no row at its place in a log.
type RowError struct {
	Err error
}

func (e *RowError) Error() string { return "bad row: " + e.Err.Error() }

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.Err }

func rowError(format string, args ...any) error { return &RowError{fmt.Errorf(format, args...)} }

// CheckType refuses the record of an event type that this version does not know
// and may not skip, with ErrUnsupported (spec jsonrpc 9.6 rule 3).
func CheckType(r *Record) error {
	if r.Event.Ignorable || known(r.Event.Type) {
		return nil
	}
	return fmt.Errorf("%w: event %d has the unknown type %q, which is not ignorable", ErrUnsupported, r.Event.Seq, r.Event.Type)
}

// known reports whether the type is one of spec jsonrpc 5.3 or 5.6.
func known(eventType string) bool {
	switch eventType {
	case sdkproto.TypeAgentInboxSpliced, sdkproto.TypeTurnStart, sdkproto.TypeTurnEnd, sdkproto.TypeStepStart, sdkproto.TypeStepEnd,
		sdkproto.TypeUserMessage, sdkproto.TypeAssistantChunk, sdkproto.TypeAssistantMessage, sdkproto.TypeToolCall, sdkproto.TypeToolResult,
		sdkproto.TypeRequestHeader, sdkproto.TypeRequestContext, sdkproto.TypeTodoWrite, sdkproto.TypeSessionEndSeed, sdkproto.TypeSessionTitle,
		sdkproto.TypeLLMRetry, sdkproto.TypeLLMRetryStarted,
		"permission/preset", "sandbox/mode", "approval/policy", "approval/asked", "approval/decided",
		"compaction/start", "compaction/summary", "compaction/prune", "compaction/end",
		"subagent/descriptor", "command/run", "command/done", "hook/invoked", "hook/result",
		"plan/mode", "goal/change", "schedule/change", "agent-preset/selected", "feedback/record",
		"tool/code-dispatch-start", "tool/code-dispatch",
		"tool-workflow/run-start", "tool-workflow/agent-start", "tool-workflow/agent-end", "tool-workflow/run-end",
		"session/title-llm-request", "web/deepseek-search-llm-request",
		"team/member", "team/task", "team/message/queued", "team/message/delivered":
		return true
	}
	return false
}
