package transcript

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// kept is a log in memory.
type kept struct{ records []session.Record }

func (k *kept) Append(records []session.Record) error {
	k.records = append(k.records, records...)
	return nil
}
func (k *kept) Sync(context.Context) error { return nil }
func (k *kept) Close() error               { return nil }

// world is a session with its log, its transcript on the disk, and a model of what
// it has said: one line for each message that the model sees.
type world struct {
	t     *rapid.T
	id    string
	dir   string
	log   *session.Log
	state *session.State
	kept  *kept
	p     *Projector
	file  *File
	model []string
	turn  int
	calls int
}

func newWorld(t *rapid.T, dir, id string) *world {
	w := &world{t: t, id: id, dir: dir, state: &session.State{}, kept: &kept{}, p: projectorOf(id)}
	w.log = session.NewLog(session.Header{ID: id}, w.kept, 0, 0, w.state)
	file, err := OpenFile(filepath.Join(dir, id+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w.file = file
	return w
}

func projectorOf(id string) *Projector {
	return NewProjector(Options{SessionID: id, LogID: id, CWD: "/w", Version: "v", Remember: true})
}

func (w *world) append(drafts ...session.Draft) {
	from := len(w.kept.records)
	if _, err := w.log.Append(drafts...); err != nil {
		w.t.Fatal(err)
	}
	for i := range w.kept.records[from:] {
		if err := w.file.Append(w.p.Record(context.Background(), &w.kept.records[from+i])); err != nil {
			w.t.Fatal(err)
		}
	}
}

// shown is a message as the model of the test writes it.
func shown(m *sdkproto.Message) string {
	var parts []string
	for i := range m.Content {
		b := &m.Content[i]
		switch b.Type {
		case sdkproto.BlockToolCall:
			parts = append(parts, "call "+b.ID)
		case sdkproto.BlockToolResult:
			parts = append(parts, "result "+b.ToolCallID+" "+sdkproto.TextOf(b.Content))
		default:
			parts = append(parts, b.Text)
		}
	}
	return m.Role + " " + strings.Join(parts, "|")
}

func user(text string) sdkproto.Message {
	return sdkproto.Message{
		Role: sdkproto.RoleUser, ID: uuid.NewString(), Content: []sdkproto.Block{sdkproto.Text(text)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser},
	}
}

// turnOf has a turn: a prompt, answers of several blocks, calls with results.
func (w *world) turnOf() {
	w.turn++
	drafts := []session.Draft{
		{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: w.turn}},
		{Type: sdkproto.TypeStepStart, Data: &sdkproto.StepStart{Turn: w.turn, Step: 1}},
	}
	add := func(kind string, data any, m *sdkproto.Message) {
		drafts = append(drafts, session.Draft{Type: kind, Data: data})
		w.model = append(w.model, shown(m))
	}
	prompt := user(fmt.Sprintf("prompt %d", w.turn))
	add(sdkproto.TypeUserMessage, prompt, &prompt)
	for step := range rapid.IntRange(1, 3).Draw(w.t, "answers") {
		m := sdkproto.Message{Role: sdkproto.RoleAssistant, ID: uuid.NewString(), Source: sdkproto.Source{Kind: sdkproto.SourceModel, Model: "m"}}
		for i := range rapid.IntRange(0, 2).Draw(w.t, "texts") {
			m.Content = append(m.Content, sdkproto.Text(fmt.Sprintf("text %d.%d.%d", w.turn, step, i)))
		}
		var results []sdkproto.Message
		for range rapid.IntRange(0, 2).Draw(w.t, "calls") {
			w.calls++
			id := fmt.Sprintf("c%d", w.calls)
			m.Content = append(m.Content, sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: "T", Arguments: "{}"})
			results = append(results, sdkproto.Message{
				Role: sdkproto.RoleUser, ID: uuid.NewString(), Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: id},
				Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: id, Content: []sdkproto.Block{sdkproto.Text("out " + id)}}},
			})
		}
		if len(m.Content) == 0 {
			m.Content = []sdkproto.Block{sdkproto.Text("nothing more")}
		}
		add(sdkproto.TypeAssistantMessage, &sdkproto.AssistantMessage{Turn: w.turn, Step: step + 1, Message: m}, &m)
		for _, r := range results {
			add(sdkproto.TypeToolResult, &sdkproto.ToolResult{Turn: w.turn, Step: step + 1, Message: r}, &r)
		}
	}
	drafts = append(drafts,
		session.Draft{Type: sdkproto.TypeStepEnd, Data: &sdkproto.StepEnd{Turn: w.turn, Step: 1}},
		session.Draft{Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{Turn: w.turn, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}}})
	w.append(drafts...)
}

// compact puts a summary in the place of some messages that no call parts from its
// results.
func (w *world) compact() {
	nodes := w.state.Surface.Nodes()
	var prompts []int
	for i, n := range nodes {
		if n.Message.Source.Kind == sdkproto.SourceUser {
			prompts = append(prompts, i)
		}
	}
	if len(prompts) < 2 {
		return
	}
	from := rapid.IntRange(0, len(prompts)-2).Draw(w.t, "from")
	to := rapid.IntRange(from+1, len(prompts)-1).Draw(w.t, "to")
	first, last := prompts[from], prompts[to]-1
	summary := user(fmt.Sprintf("summary %d", w.turn))
	summary.Source = sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: compactionPlugin, Form: "recall"}
	id := uuid.NewString()
	w.model = slices.Replace(w.model, first, last+1, shown(&summary))
	w.append(
		session.Draft{Type: sdkproto.TypeCompactionStart, Data: &sdkproto.CompactionStart{CompactionID: id}},
		session.Draft{Type: sdkproto.TypeUserMessage, Data: summary, Surface: session.Replace(nodes[first].Seq, nodes[last].Seq)},
		session.Draft{Type: sdkproto.TypeCompactionEnd, Data: &sdkproto.CompactionEnd{CompactionID: id}})
}

// shorten makes a result shorter in the model's view.
func (w *world) shorten() {
	nodes := w.state.Surface.Nodes()
	i := slices.IndexFunc(nodes, func(n session.Node) bool {
		return n.Message.Source.Kind == sdkproto.SourceTool && strings.HasPrefix(sdkproto.TextOf(n.Message.Content[0].Content), "out")
	})
	if i < 0 {
		return
	}
	m := nodes[i].Message
	m.ID = uuid.NewString()
	m.Content = []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: m.Source.CallID, Content: []sdkproto.Block{sdkproto.Text("cut")}}}
	w.model[i] = shown(&m)
	w.append(session.Draft{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Message: m}, Surface: session.Replace(nodes[i].Seq, nodes[i].Seq)})
}

// until is the model up to an entry of a message: of its blocks those up to one, and
// for each call whose result is gone one that says so.
func until(model []string, messages []sdkproto.Message, node, blocks int) []string {
	part := slices.Clone(model[:node+1])
	m := messages[node]
	if blocks > 0 {
		m.Content = m.Content[:blocks]
		part[node] = shown(&m)
	}
	open := map[string]bool{}
	var order []string
	for i := range part {
		m := messages[i]
		if i == node && blocks > 0 {
			m.Content = m.Content[:blocks]
		}
		for _, b := range m.Content {
			switch b.Type {
			case sdkproto.BlockToolCall:
				open[b.ID], order = true, append(order, b.ID)
			case sdkproto.BlockToolResult:
				delete(open, b.ToolCallID)
			}
		}
	}
	for _, id := range order {
		if open[id] {
			m := session.TakenOut(id)
			part = append(part, shown(&m))
		}
	}
	return part
}

// point draws an entry of the chain and gives the model up to it.
func (w *world) point(h *History) (at Point, want []string) {
	node := rapid.IntRange(0, len(h.nodes)-1).Draw(w.t, "node")
	n := &h.nodes[node]
	entry := rapid.IntRange(0, len(n.uuids)-1).Draw(w.t, "entry")
	at, ok := h.Find(n.uuids[entry])
	if !ok || at != (Point{node, entry}) {
		w.t.Fatalf("found %v for entry %d of message %d", at, entry, node)
	}
	blocks := 0
	if n.answer != nil && entry+1 < len(n.uuids) {
		blocks = n.blocks[entry] + 1
	}
	return at, until(w.model, w.state.Surface.Messages(), node, blocks)
}

// cut takes the end of the history out.
func (w *world) cut() {
	h := w.p.History()
	if len(h.nodes) == 0 {
		return
	}
	at, want := w.point(h)
	cut := h.Cut(at)
	if cut == nil {
		return
	}
	drafts, err := w.state.Cut(cut.Seq, cut.Blocks)
	if err != nil {
		w.t.Fatal(err)
	}
	w.model = want
	w.append(drafts...)
}

// resume reads everything anew, in a process of its own.
func (w *world) resume() {
	file, err := OpenFile(w.file.Path())
	if err != nil {
		w.t.Fatal(err)
	}
	p := projectorOf(w.id)
	for i := range w.kept.records {
		stored := w.kept.records[i]
		stored.Data = nil
		if missing := file.Missing(p.Record(context.Background(), &stored)); len(missing) > 0 {
			w.t.Fatalf("the file lacks %s", missing[0].JSON)
		}
	}
	if err := w.file.Close(); err != nil {
		w.t.Fatal(err)
	}
	file.Forget()
	w.p, w.file = p, file
}

// fork begins another session with a part of this one, which stays as it is.
func (w *world) fork() *world {
	h := w.p.History()
	if len(h.nodes) == 0 {
		return w
	}
	at, want := w.point(h)
	before := w.messages()
	f := newWorld(w.t, w.dir, uuid.NewString())
	f.model, f.calls = want, w.calls
	f.append(h.Until(at).Seed(sdkproto.SeedFork, w.id, false)...)
	f.turn = f.state.Brackets.Turn
	f.check("the fork")
	if diff := cmp.Diff(before, w.messages()); diff != "" {
		w.t.Fatalf("the source has changed: %s", diff)
	}
	return f
}

// imported begins the session anew from its transcript alone.
func (w *world) imported() *world {
	h, err := Load(w.file.Path(), Source{})
	if err != nil {
		w.t.Fatal(err)
	}
	if h.Empty() {
		return w
	}
	f := newWorld(w.t, w.dir, w.id)
	f.calls = w.calls
	if _, err := f.log.Append(h.Seed(sdkproto.SeedTranscript, w.id, true)...); err != nil {
		w.t.Fatal(err)
	}
	f.turn = f.state.Brackets.Turn
	f.resume()
	// A result that was shortened for the model alone stands in the transcript as it
	// was, until a compaction has shown it again.
	if diff := cmp.Diff(inFull(w.model), inFull(f.messages())); diff != "" {
		w.t.Fatalf("what was read from the transcript: %s", diff)
	}
	f.model = f.messages()
	return f
}

// inFull puts what results were back in the place of shortened ones.
func inFull(model []string) (list []string) {
	for _, m := range model {
		if short, ok := strings.CutSuffix(m, " cut"); ok {
			m = short + " out " + short[strings.LastIndexByte(short, ' ')+1:]
		}
		list = append(list, m)
	}
	return list
}

func (w *world) messages() (list []string) {
	for _, m := range w.state.Surface.Messages() {
		list = append(list, shown(&m))
	}
	return list
}

// check compares the log, its projection and the transcript with the model.
func (w *world) check(what string) {
	if diff := cmp.Diff(w.model, w.messages()); diff != "" {
		w.t.Fatalf("%s: the history of the log (-want +got): %s", what, diff)
	}
	var projected []string
	for i := range w.p.nodes {
		projected = append(projected, w.p.nodes[i].message().ID)
	}
	var logged []string
	for _, m := range w.state.Surface.Messages() {
		logged = append(logged, m.ID)
	}
	if diff := cmp.Diff(logged, projected); diff != "" {
		w.t.Fatalf("%s: log and projection: %s", what, diff)
	}
	for _, b := range []any{w.state.Brackets.Calls} {
		if calls := b.([]session.OpenCall); len(calls) > 0 {
			w.t.Fatalf("%s: calls without a result: %v", what, calls)
		}
	}
}

// Case B44, spec stream-json 10.3 to 10.5, checklist 76 to 78: whatever is said,
// summed up, shortened, cut off, resumed, forked and read back from the transcript,
// the log, its projection and the file agree with a plain model of the history, and
// no call is without its result.
func TestHistories(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, dir, uuid.NewString())
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch step := rapid.SampledFrom([]string{"turn", "turn", "turn", "compact", "shorten", "cut", "resume", "fork", "import"}).Draw(t, "step"); step {
			case "turn":
				w.turnOf()
			case "compact":
				w.compact()
			case "shorten":
				w.shorten()
			case "cut":
				w.cut()
			case "resume":
				w.resume()
			case "fork":
				w = w.fork()
			case "import":
				// A cut shows in the file with what follows it.
				w.turnOf()
				w = w.imported()
			}
			w.check("the session")
		}
		_ = w.file.Close()
	})
}
