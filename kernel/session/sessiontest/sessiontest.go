// Package sessiontest holds the tests that every session store has to pass.
package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// TestStore holds a store to the contract of session.Store. open gives an empty
// store; it is called once per subtest.
func TestStore(t *testing.T, open func(t *testing.T) session.Store) {
	for name, test := range map[string]func(*testing.T, session.Store){
		"append and read back":   appendAndRead,
		"open continues":         openContinues,
		"lazy creation":          lazyCreation,
		"create twice":           createTwice,
		"in use":                 inUse,
		"other cwd":              otherCWD,
		"unknown session":        unknownSession,
		"ids":                    ids,
		"unknown types":          unknownTypes,
		"read from":              readFrom,
		"errors of the function": functionErrors,
		"read beside a writer":   readBesideWriter,
		"sync":                   syncs,
		"closed writer":          closedWriter,
		"list":                   list,
		"delete":                 deletes,
		"many sessions":          manySessions,
		"racing opens":           racingOpens,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Header is a usable header for a session of that id.
func Header(id string) session.Header {
	return session.Header{ID: id, CreatedAt: 1_796_028_872_480, CWD: cwd}
}

const cwd = "/srv/space"

// Events is a small session: a prompt, a streamed answer with a call, its
// result, an answer.
func Events() []session.Draft {
	prompt := sdkproto.Message{
		Content: []sdkproto.Block{sdkproto.Text("hello\n\"you\" \u2028 \x00 \U0001F600")}, Source: sdkproto.Source{Kind: sdkproto.SourceUser},
		Role: sdkproto.RoleUser, ID: "ce61a0f4-0000-4000-8000-000000000001",
	}
	chunk := func(c sdkproto.Chunk) session.Draft {
		return session.Draft{Type: sdkproto.TypeAssistantChunk, Data: &sdkproto.AssistantChunk{Turn: 1, Step: 1, Chunk: c}}
	}
	out := []session.Draft{
		{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, Inserted: []sdkproto.Message{prompt}}},
		{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: 1}},
		{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{Target: sdkproto.TargetNextTurn, RemovedCount: 1}},
		{Type: sdkproto.TypeStepStart, Data: &sdkproto.StepStart{Turn: 1, Step: 1}},
		{Type: sdkproto.TypeUserMessage, Data: &prompt},
		chunk(sdkproto.Chunk{Type: sdkproto.ChunkBlockStart, BlockType: sdkproto.BlockText}),
	}
	for i := range 10 {
		out = append(out, chunk(sdkproto.Chunk{Type: sdkproto.ChunkTextDelta, Text: fmt.Sprintf("w%d \"\n", i)}))
	}
	for i := range 4 {
		c := sdkproto.Chunk{Type: sdkproto.ChunkToolCallDelta, Index: 1, ID: "call_1", ArgumentsDelta: fmt.Sprintf("{%d", i)}
		if i == 0 {
			c.Name = "bash"
		}
		out = append(out, chunk(c))
	}
	answer := sdkproto.Message{
		Role: sdkproto.RoleAssistant, ID: "ce61a0f4-0000-4000-8000-000000000002",
		Content: []sdkproto.Block{sdkproto.Text("w"), {Type: sdkproto.BlockToolCall, ID: "call_1", Name: "bash", Arguments: "{}"}},
		Source:  sdkproto.Source{Kind: sdkproto.SourceModel, Provider: "p", Model: "m"},
	}
	result := sdkproto.Message{
		Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: "call_1"}, Role: sdkproto.RoleUser, ID: "ce61a0f4-0000-4000-8000-000000000003",
		Content: []sdkproto.Block{{Type: sdkproto.BlockToolResult, ToolCallID: "call_1", Content: []sdkproto.Block{sdkproto.Text("hi\n")}}},
	}
	return append(out,
		session.Draft{Type: sdkproto.TypeAssistantMessage, Data: &sdkproto.AssistantMessage{Turn: 1, Step: 1, Message: answer}, Sources: []int64{5, 6, 7}},
		session.Draft{Type: sdkproto.TypeToolCall, Data: &sdkproto.ToolCall{Turn: 1, Step: 1, CallID: "call_1", Name: "bash", Arguments: "{}"}},
		session.Draft{Type: sdkproto.TypeToolResult, Data: &sdkproto.ToolResult{Turn: 1, Step: 1, Message: result}, Sources: []int64{21}},
		session.Draft{Type: sdkproto.TypeStepEnd, Data: &sdkproto.StepEnd{Turn: 1, Step: 1}},
		session.Draft{Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{Turn: 1, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}}},
	)
}

// raws is a fold that keeps the encoded form of every record.
type raws []string

func (r *raws) Apply(rec *session.Record) error {
	*r = append(*r, string(rec.Raw))
	return nil
}

func create(t *testing.T, st session.Store, id string, folds ...session.Fold) *session.Log {
	t.Helper()
	h := Header(id)
	w, err := st.Create(t.Context(), h)
	if err != nil {
		t.Fatalf("Create(%q): %v", id, err)
	}
	return session.NewLog(h, w, 0, 0, folds...)
}

func appendTo(t *testing.T, l *session.Log, drafts ...session.Draft) {
	t.Helper()
	if _, err := l.Append(drafts...); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func closeLog(t *testing.T, l *session.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// store makes a session with one turn/start and closes it.
func store(t *testing.T, st session.Store, id string) {
	t.Helper()
	l := create(t, st, id)
	appendTo(t, l, session.Draft{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: 1}})
	closeLog(t, l)
}

func read(t *testing.T, st session.Store, id string, from int64) []string {
	t.Helper()
	var got raws
	if err := st.Read(t.Context(), id, from, got.Apply); err != nil {
		t.Fatalf("Read(%q): %v", id, err)
	}
	return got
}

func openAll(t *testing.T, st session.Store, id string) (session.Writer, session.Header, []session.Record) {
	t.Helper()
	var h session.Header
	var records []session.Record
	w, err := st.Open(t.Context(), id, cwd, func(head session.Header, r *session.Record) error {
		h = head
		records = append(records, *r)
		return nil
	})
	if err != nil {
		t.Fatalf("Open(%q): %v", id, err)
	}
	return w, h, records
}

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

func wantInUse(t *testing.T, what string, err error, id string) {
	t.Helper()
	var inUse *session.InUseError
	if !errors.As(err, &inUse) {
		t.Errorf("%s: got error %v, want *session.InUseError", what, err)
		return
	}
	if inUse.ID != id || inUse.PID != os.Getpid() {
		t.Errorf("%s: got %+v, want session %q in use by this process, %d", what, inUse, id, os.Getpid())
	}
}

func appendAndRead(t *testing.T, st session.Store) {
	var want raws
	l := create(t, st, "s", &want)
	events := Events()
	// Batches of every size.
	for n := 1; len(events) > 0; n++ {
		n := min(n, len(events))
		appendTo(t, l, events[:n]...)
		events = events[n:]
	}
	if diff := cmp.Diff([]string(want), read(t, st, "s", 0)); diff != "" {
		t.Errorf("a live session reads differently (-appended +read):\n%s", diff)
	}
	closeLog(t, l)
	if diff := cmp.Diff([]string(want), read(t, st, "s", 0)); diff != "" {
		t.Errorf("a closed session reads differently (-appended +read):\n%s", diff)
	}
}

func openContinues(t *testing.T, st session.Store) {
	var want raws
	l := create(t, st, "s", &want)
	appendTo(t, l, Events()...)
	closeLog(t, l)
	for range 3 {
		w, h, records := openAll(t, st, "s")
		if diff := cmp.Diff(Header("s"), h); diff != "" {
			t.Errorf("the header came back changed (-created +opened):\n%s", diff)
		}
		for i, r := range records {
			if r.Event.Seq != int64(i) || string(r.Raw) != want[i] {
				t.Fatalf("record %d has seq %d and is\n%s\nwant\n%s", i, r.Event.Seq, r.Raw, want[i])
			}
			if string(r.Event.AppendJSON(nil)) != want[i] {
				t.Fatalf("the event of record %d is not what its encoded form says: %+v", i, r.Event)
			}
		}
		if len(records) != len(want) {
			t.Fatalf("%d records came back of %d", len(records), len(want))
		}
		l := session.NewLog(h, w, int64(len(records)), records[len(records)-1].Event.Time, &want)
		appendTo(t, l, Events()...)
		closeLog(t, l)
	}
	if diff := cmp.Diff([]string(want), read(t, st, "s", 0)); diff != "" {
		t.Errorf("after four lives the session differs (-appended +read):\n%s", diff)
	}
}

func lazyCreation(t *testing.T, st session.Store) {
	l := create(t, st, "s")
	if err := l.Sync(t.Context()); err != nil {
		t.Errorf("Sync of an empty session: %v", err)
	}
	if got, err := st.List(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("an empty session is listed: %v, error %v", got, err)
	}
	closeLog(t, l)
	_, err := st.Open(t.Context(), "s", cwd, func(session.Header, *session.Record) error { return nil })
	wantIs(t, "Open of a session that was never written", err, session.ErrNotFound)
	closeLog(t, create(t, st, "s"))
}

func createTwice(t *testing.T, st session.Store) {
	store(t, st, "s")
	_, err := st.Create(t.Context(), Header("s"))
	wantIs(t, "Create of a stored session", err, session.ErrExists)
	if got := read(t, st, "s", 0); len(got) != 1 {
		t.Errorf("the stored session has %d records after the refused Create, want 1", len(got))
	}
}

func inUse(t *testing.T, st session.Store) {
	l := create(t, st, "s")
	_, err := st.Create(t.Context(), Header("s"))
	wantInUse(t, "Create beside a new session", err, "s")
	appendTo(t, l, Events()...)
	ignore := func(session.Header, *session.Record) error { return nil }
	_, err = st.Open(t.Context(), "s", cwd, ignore)
	wantInUse(t, "Open beside a writer", err, "s")
	wantInUse(t, "Delete beside a writer", st.Delete(t.Context(), "s"), "s")
	closeLog(t, l)

	w, err := st.Open(t.Context(), "s", cwd, ignore)
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	_, err = st.Open(t.Context(), "s", cwd, ignore)
	wantInUse(t, "a second Open", err, "s")
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func otherCWD(t *testing.T, st session.Store) {
	store(t, st, "s")
	for _, tc := range []struct {
		cwd string
		err error
	}{
		{cwd + "/below", session.ErrOtherCWD},
		{"/", session.ErrOtherCWD},
		{cwd + "/", nil},
		{"/srv/../srv/space", nil},
		{"", nil},
	} {
		w, err := st.Open(t.Context(), "s", tc.cwd, func(session.Header, *session.Record) error { return nil })
		if tc.err == nil && err == nil {
			if err := w.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			continue
		}
		if !errors.Is(err, tc.err) {
			t.Errorf("Open with cwd %q: got error %v, want %v", tc.cwd, err, tc.err)
		}
	}
}

func unknownSession(t *testing.T, st session.Store) {
	store(t, st, "other")
	_, err := st.Open(t.Context(), "s", cwd, func(session.Header, *session.Record) error { return nil })
	wantIs(t, "Open", err, session.ErrNotFound)
	wantIs(t, "Read", st.Read(t.Context(), "s", 0, func(*session.Record) error { return nil }), session.ErrNotFound)
	_, err = st.Header(t.Context(), "s")
	wantIs(t, "Header", err, session.ErrNotFound)
	wantIs(t, "Delete", st.Delete(t.Context(), "s"), session.ErrNotFound)
}

func ids(t *testing.T, st session.Store) {
	good := []string{
		"session-7f", ".", "..", "../../x", "a/b", `a\b`, "a~b", "a~002Fb", "with\nnewline", "-x", "день", "\U0001F600", " ", "CON",
		strings.Repeat("a", session.MaxIDBytes),
	}
	for _, id := range good {
		store(t, st, id)
	}
	list, err := st.List(t.Context(), cwd)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range list {
		got = append(got, h.ID)
	}
	slices.Sort(good)
	slices.Sort(got)
	if diff := cmp.Diff(good, got); diff != "" {
		t.Errorf("ids differ (-created +listed):\n%s", diff)
	}
	for _, id := range good {
		if h, err := st.Header(t.Context(), id); err != nil || h.ID != id {
			t.Errorf("Header(%q) = %q, %v", id, h.ID, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("a", session.MaxIDBytes+1), strings.Repeat("я", session.MaxIDBytes/5+1)} {
		if _, err := st.Create(t.Context(), Header(id)); err == nil {
			t.Errorf("Create(%q) succeeded", id)
		}
		if _, err := st.Open(t.Context(), id, "", nil); err == nil || errors.Is(err, session.ErrNotFound) {
			t.Errorf("Open(%q): got error %v, want one about the id", id, err)
		}
	}
}

func unknownTypes(t *testing.T, st session.Store) {
	odd := []session.Draft{
		{Type: "vendor/thing", Ignorable: true, Data: map[string]any{"b": 1.5, "a": []any{nil, "x\u2028<&>"}}, Sources: []int64{0}},
		{Type: "text-chunks", Ignorable: true, Data: nil},
		{Type: "vendor/\"quoted\"", Ignorable: true, Data: []int{}},
	}
	var want raws
	l := create(t, st, "s", &want)
	appendTo(t, l, session.Draft{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: 1}})
	appendTo(t, l, odd...)
	closeLog(t, l)
	if diff := cmp.Diff([]string(want), read(t, st, "s", 0)); diff != "" {
		t.Errorf("ignorable events of unknown types differ (-appended +read):\n%s", diff)
	}

	l = create(t, st, "refused")
	appendTo(t, l, session.Draft{Type: "vendor/important", Data: struct{}{}})
	appendTo(t, l, Events()...)
	closeLog(t, l)
	for range 2 {
		_, err := st.Open(t.Context(), "refused", cwd, func(session.Header, *session.Record) error { return nil })
		wantIs(t, "Open of a log with an unknown type that may not be ignored", err, session.ErrUnsupported)
	}
}

func readFrom(t *testing.T, st session.Store) {
	var want raws
	l := create(t, st, "s", &want)
	appendTo(t, l, Events()...)
	closeLog(t, l)
	for from := range len(want) + 2 {
		got := read(t, st, "s", int64(from))
		if diff := cmp.Diff([]string(want[min(from, len(want)):]), got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Errorf("Read from %d (-want +got):\n%s", from, diff)
		}
	}
}

func functionErrors(t *testing.T, st session.Store) {
	var want raws
	l := create(t, st, "s", &want)
	appendTo(t, l, Events()...)
	closeLog(t, l)
	stop := errors.New("stop here")
	seen := 0
	_, err := st.Open(t.Context(), "s", cwd, func(session.Header, *session.Record) error {
		if seen++; seen == 9 {
			return stop
		}
		return nil
	})
	wantIs(t, "Open", err, stop)
	if seen != 9 {
		t.Errorf("the function was called %d times, want 9", seen)
	}
	wantIs(t, "Read", st.Read(t.Context(), "s", 0, func(*session.Record) error { return stop }), stop)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "Read with an ended context", st.Read(ctx, "s", 0, func(*session.Record) error { return nil }), context.Canceled)
	// The refused Open holds nothing and has changed nothing.
	w, _, records := openAll(t, st, "s")
	if len(records) != len(want) {
		t.Errorf("%d records are left of %d", len(records), len(want))
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func readBesideWriter(t *testing.T, st session.Store) {
	l := create(t, st, "s")
	appendTo(t, l, Events()...)
	const batches = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		for range batches {
			if _, err := l.Append(Events()...); err != nil {
				t.Errorf("Append: %v", err)
			}
		}
	})
	for range 20 {
		var next int64
		err := st.Read(t.Context(), "s", 0, func(r *session.Record) error {
			if r.Event.Seq != next {
				return fmt.Errorf("seq %d in place of %d", r.Event.Seq, next)
			}
			next++
			return nil
		})
		if err != nil || next < int64(len(Events())) {
			t.Fatalf("Read beside a writer: %d records, error %v", next, err)
		}
	}
	wg.Wait()
	closeLog(t, l)
	if got := read(t, st, "s", 0); len(got) != (batches+1)*len(Events()) {
		t.Errorf("%d records at the end, want %d", len(got), (batches+1)*len(Events()))
	}
}

func syncs(t *testing.T, st session.Store) {
	l := create(t, st, "s")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := l.Append(Events()[1]); err != nil {
					t.Errorf("Append: %v", err)
				}
				if err := l.Sync(t.Context()); err != nil {
					t.Errorf("Sync: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Sync(t.Context()); err != nil {
		t.Errorf("Sync with nothing new: %v", err)
	}
	closeLog(t, l)
	if err := l.Sync(t.Context()); err != nil {
		t.Errorf("Sync after a Close that synced: %v", err)
	}
	if got := read(t, st, "s", 0); len(got) != 160 {
		t.Errorf("%d records, want 160", len(got))
	}
}

func closedWriter(t *testing.T, st session.Store) {
	var all raws
	h := Header("s")
	w, err := st.Create(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	l := session.NewLog(h, w, 0, 0, &all)
	appendTo(t, l, Events()...)
	closeLog(t, l)
	closeLog(t, l)
	_, err = l.Append(Events()[0])
	wantIs(t, "Append to a closed log", err, session.ErrClosed)
	wantIs(t, "Append to a closed writer", w.Append([]session.Record{{Raw: []byte(`{}`)}}), session.ErrClosed)
	if err := w.Close(); err != nil {
		t.Errorf("a second Close of the writer: %v", err)
	}
	if got := read(t, st, "s", 0); len(got) != len(all) {
		t.Errorf("%d records, want %d", len(got), len(all))
	}
}

func list(t *testing.T, st session.Store) {
	if got, err := st.List(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("List of an empty store: %v, %v", got, err)
	}
	heads := []session.Header{
		{ID: "b", CreatedAt: 20, CWD: "/x"},
		{ID: "a", CreatedAt: 10, CWD: "/x"},
		{ID: "c", CreatedAt: 30, CWD: "/y", ParentSession: "b", SeedLength: 3, Origin: "subagent", DelegationDepth: 1, AgentPreset: "p"},
		{ID: "none", CreatedAt: 5},
	}
	for _, h := range heads {
		w, err := st.Create(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		l := session.NewLog(h, w, 0, 0)
		appendTo(t, l, Events()...)
		closeLog(t, l)
		if got, err := st.Header(t.Context(), h.ID); err != nil || got != h {
			t.Errorf("Header(%q) = %+v, %v; want %+v", h.ID, got, err, h)
		}
	}
	for cwd, want := range map[string][]session.Header{
		"":    {heads[2], heads[0], heads[1], heads[3]},
		"/x":  {heads[0], heads[1]},
		"/x/": {heads[0], heads[1]},
		"/y":  {heads[2]},
		"/z":  nil,
	} {
		got, err := st.List(t.Context(), cwd)
		if err != nil {
			t.Fatalf("List(%q): %v", cwd, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", cwd, diff)
		}
	}
}

func deletes(t *testing.T, st session.Store) {
	store(t, st, "s")
	store(t, st, "kept")
	if err := st.Delete(t.Context(), "s"); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	wantIs(t, "Read of a deleted session", st.Read(t.Context(), "s", 0, func(*session.Record) error { return nil }), session.ErrNotFound)
	wantIs(t, "a second Delete", st.Delete(t.Context(), "s"), session.ErrNotFound)
	if got := read(t, st, "kept", 0); len(got) != 1 {
		t.Errorf("the other session has %d records, want 1", len(got))
	}
	l := create(t, st, "s")
	appendTo(t, l, Events()...)
	closeLog(t, l)
	if got := read(t, st, "s", 0); len(got) != len(Events()) {
		t.Errorf("a session made anew has %d records, want %d", len(got), len(Events()))
	}
}

func manySessions(t *testing.T, st session.Store) {
	const sessions = 40
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			id := fmt.Sprintf("s%d", i)
			var want, got raws
			h := Header(id)
			w, err := st.Create(t.Context(), h)
			if err != nil {
				t.Errorf("Create(%q): %v", id, err)
				return
			}
			l := session.NewLog(h, w, 0, 0, &want)
			for range 5 {
				if _, err := l.Append(Events()...); err != nil {
					t.Errorf("Append to %q: %v", id, err)
				}
				if err := l.Sync(t.Context()); err != nil {
					t.Errorf("Sync of %q: %v", id, err)
				}
			}
			if err := errors.Join(l.Close(), st.Read(t.Context(), id, 0, got.Apply)); err != nil {
				t.Errorf("session %q: %v", id, err)
			}
			if !slices.Equal(want, got) {
				t.Errorf("session %q reads differently from what was appended", id)
			}
		})
	}
	wg.Wait()
	if got, err := st.List(t.Context(), cwd); err != nil || len(got) != sessions {
		t.Errorf("%d sessions are listed, error %v; want %d", len(got), err, sessions)
	}
}

func racingOpens(t *testing.T, st session.Store) {
	store(t, st, "s")
	const racers = 20
	results := make(chan session.Writer, racers)
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			w, err := st.Open(t.Context(), "s", cwd, func(session.Header, *session.Record) error { return nil })
			if err != nil {
				wantInUse(t, "a losing Open", err, "s")
				return
			}
			results <- w
		})
	}
	wg.Wait()
	close(results)
	if len(results) != 1 {
		t.Errorf("%d of %d racing Opens won, want 1", len(results), racers)
	}
	for w := range results {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
