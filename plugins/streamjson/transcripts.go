package streamjson

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	paths "dsh/plugins/internal/transcript"
	"dsh/plugins/streamjson/project"
	"dsh/plugins/streamjson/transcript"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// transcripts keeps the files that the SDKs read (spec stream-json 10): every entry
// is in its file before the client gets the line that shows it, so before the
// result of its turn, too. What cannot be written is told on standard error and
// fails nothing: the log has it, and the next resume makes up for it.
type transcripts struct {
	s *Server
	// dir is the folder of the SDKs, "" when no transcripts are written.
	dir string

	mu sync.Mutex
	// root is the session, main its transcript, nil before it is opened; children
	// are those of subagents by session.
	root     string
	main     *written
	children map[string]*written
	// frames wait to be written to the client.
	frames [][]byte
}

// written is the transcript of one log.
type written struct {
	p    *transcript.Projector
	file *transcript.File
	// said is the last prompt that the file names.
	said string
	// told: the file is not what it should be, and that was said.
	told bool
}

// begin looks up where the files are; nothing is touched.
func (t *transcripts) begin() {
	if !t.s.Config.Transcripts {
		return
	}
	if dir := paths.Dir(); dir != "" {
		t.dir, _ = filepath.Abs(dir) // "" only where there is no working directory
	}
}

// open begins the transcript of the session that was opened, or goes on with it:
// what its log has and the file has not is added first.
func (t *transcripts) open(ctx context.Context, a agent.Agent) {
	if t.dir == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id, cwd := a.ID(), a.Spec().CWD
	if t.root != id {
		t.closeAll()
		t.root = id
		path := paths.Find(t.dir, cwd, id)
		if path == "" {
			path = paths.Path(t.dir, cwd, id)
		}
		t.main = t.of(id, cwd, path)
		if t.main == nil {
			return
		}
	}
	if t.main == nil || a.Log().Next() == t.main.p.Next() {
		return
	}
	t.catchUp(ctx, t.main, id)
	t.main.file.Forget()
}

// of opens the transcript of a log; nil when its file cannot be read.
func (t *transcripts) of(id, cwd, path string) *written {
	file, err := transcript.OpenFile(path)
	if err != nil {
		t.s.Log.Warn("a transcript is left out", "session", id, "error", err)
		return nil
	}
	return &written{p: t.s.transcriptOf(t.root, id, cwd, false), file: file}
}

// transcriptOf makes the projector of a log; root is the session that it belongs
// to.
func (s *Server) transcriptOf(root, id, cwd string, remember bool) *transcript.Projector {
	return transcript.NewProjector(transcript.Options{
		SessionID: root, LogID: id, CWD: cwd, Version: s.Config.Version,
		Branch: func() string { return transcript.Branch(cwd) }, Show: project.Shower{Image: s.image()}, Remember: remember,
	})
}

// batch is how many bytes of entries are collected while a file is made up to its
// log.
const batch = 1 << 20

// catchUp adds what the log has and the file has not. The caller holds mu.
func (t *transcripts) catchUp(ctx context.Context, w *written, id string) {
	var missing []transcript.Line
	size := 0
	had := w.file.Exists()
	err := t.s.Agents.Events(ctx, id, w.p.Next(), func(r *session.Record) error {
		for _, l := range w.file.Missing(w.p.Record(ctx, r)) {
			missing = append(missing, l)
			size += len(l.JSON)
		}
		if size >= batch {
			t.append(w, missing)
			missing, size = nil, 0
		}
		return nil
	})
	if err != nil {
		t.s.Log.Warn("a transcript is not complete", "session", id, "error", err)
		return
	}
	if len(missing) == 0 && had {
		w.said = w.p.Prompt()
		return
	}
	t.append(w, missing)
	if title := w.p.Title(); title != "" && w.file.Title() == "" && w.file.Exists() {
		t.append(w, transcript.TitleLine(t.root, title))
	}
}

// record takes one entry of the session's log, or of a subagent's.
func (t *transcripts) record(ctx context.Context, e session.Entry) {
	if t.dir == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.main
	if e.SessionID != t.root {
		w = t.children[e.SessionID]
	}
	if w == nil {
		return
	}
	if e.Settled != nil {
		t.close(w)
		delete(t.children, e.SessionID)
		return
	}
	if e.Record == nil {
		return
	}
	if e.Record.Event.Seq > w.p.Next() {
		t.catchUp(ctx, w, e.SessionID)
	}
	lines := w.p.Record(ctx, e.Record)
	if !w.file.Exists() && !transcript.Conversation(lines) {
		// A session in which nothing was said has no file. Its name comes with the
		// first entry.
		return
	}
	begins := !w.file.Exists()
	t.append(w, lines)
	if title := w.p.Title(); begins && title != "" && w.file.Title() == "" {
		t.append(w, transcript.TitleLine(t.root, title))
	}
	if e.SessionID == t.root && e.Record.Event.Type == sdkproto.TypeTurnEnd {
		t.settle(w)
	}
}

// settle writes what a listing shows, at the end of a turn. The caller holds mu.
func (t *transcripts) settle(w *written) {
	list := w.file.Titles(t.root)
	if said := w.p.Prompt(); said != "" && (said != w.said || len(list) > 0) {
		w.said = said
		list = append(list, w.p.LastPrompt()...)
	}
	t.append(w, list)
}

// append writes lines and mirrors them. The caller holds mu.
func (t *transcripts) append(w *written, lines []transcript.Line) {
	if len(lines) == 0 {
		return
	}
	if err := w.file.Append(lines); err != nil {
		if !w.told {
			w.told = true
			t.s.Log.Warn("the transcript of the session is not written any more; it is completed when the session is resumed", "error", err)
		}
		return
	}
	t.mirror(w.file.Path(), lines)
}

// frameRoom bounds the entries of one frame of a mirror, in bytes: a client takes
// lines below a million characters (spec stream-json 0.2).
const frameRoom = 900_000

// mirror makes frames of what was written (spec stream-json 10.6). An entry is in
// its frame as it is in the file, whatever its size, so that the store of a client
// has what the file has. What makes lines long is cut in both: an entry has of a
// prompt and a result what its line on the wire has. Only a block of the model's own
// may be longer than frameRoom, as its line was, too (case B01).
func (t *transcripts) mirror(path string, lines []transcript.Line) {
	if !t.s.Config.SessionMirror || !t.s.speaks() {
		return
	}
	for len(lines) > 0 {
		frame := append(make([]byte, 0, 256), `{"type":"`+streamjson.TypeTranscriptMirror+`","filePath":`...)
		frame = append(wirejson.AppendString(frame, path), `,"entries":[`...)
		n := 0
		for ; n < len(lines) && (n == 0 || len(frame)+len(lines[n].JSON) < frameRoom); n++ {
			if n > 0 {
				frame = append(frame, ',')
			}
			frame = append(frame, lines[n].JSON...)
		}
		t.frames = append(t.frames, append(frame, "]}"...))
		lines = lines[n:]
	}
}

// flush writes the frames to the client.
func (t *transcripts) flush(ctx context.Context) error {
	t.mu.Lock()
	frames := t.frames
	t.frames = nil
	t.mu.Unlock()
	return t.s.write(ctx, frames...)
}

// child begins the transcript of a subagent, or of one of its own.
func (t *transcripts) child(spec agent.Spec) {
	if t.dir == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.main == nil {
		return
	}
	main := t.main.file.Path()
	path := filepath.Join(strings.TrimSuffix(main, filepath.Ext(main)), "subagents", "agent-"+spec.ID+filepath.Ext(main))
	w := t.of(spec.ID, spec.CWD, path)
	if w == nil {
		return
	}
	if old := t.children[spec.ID]; old != nil {
		t.close(old)
	}
	t.children[spec.ID] = w
	parent := ""
	if spec.Parent != t.root {
		parent = spec.Parent
	}
	lines, err := w.file.WriteAgent(cmp.Or(spec.Type, "general-purpose"), spec.ParentCall, parent)
	if err != nil {
		t.s.Log.Warn("it is not written which call a subagent belongs to", "error", err)
		return
	}
	t.mirror(path, lines)
}

// end closes the files.
func (t *transcripts) end(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeAll()
	return nil
}

func (t *transcripts) closeAll() {
	if t.main != nil {
		t.close(t.main)
	}
	for _, w := range t.children {
		t.close(w)
	}
	clear(t.children)
	t.main, t.root = nil, ""
}

func (t *transcripts) close(w *written) {
	if err := w.file.Close(); err != nil {
		t.s.Log.Warn("a transcript was not closed well", "error", err)
	}
}

// renameSession gives the session a name (spec stream-json 4.18). It is a fact of
// the log; the transcript says it, too.
func (s *Server) renameSession(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Title string `json:"title"`
	}](r)
	if err != nil {
		return nil, err
	}
	title := strings.Join(strings.Fields(in.Title), " ")
	if title == "" {
		return nil, errors.New("title must be a string that is not blank")
	}
	return struct{}{}, s.rename(title)
}

// rename gives the session a name now, or when it is opened.
func (s *Server) rename(title string) error {
	var a agent.Agent
	s.with(func() {
		if a = s.agent; a == nil {
			s.origin.title = title
		}
	})
	if a == nil {
		return nil
	}
	_, err := a.Log().Append(session.Draft{Type: sdkproto.TypeSessionTitle, Data: transcript.UserTitle(title)})
	return err
}
