package subagent

import (
	"errors"
	"fmt"

	"dsh/kernel/job"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// list puts a run on the board, where it can be stopped, and let go of by the call
// that waits for it. Errors: job.ErrFull.
func (s *Subagents) put(r *run, in tool.Invocation) error {
	r.mu.Lock() // so that nobody finds the run without its entry
	defer r.mu.Unlock()
	w := job.Work{
		Job: job.Job{
			ID: r.id, SessionID: r.parent.ID(), CallID: r.call, Kind: job.KindAgent, Description: r.label, AgentType: r.kind, Background: r.background,
		},
		Stop:   func() { r.stop(errStopped) },
		Detach: func() bool { return s.detach(r, in) },
	}
	if r.background {
		r.file = s.outputFile(in)
		w.OutputFile = pathOf(r.file)
	}
	entry, err := s.board.Start(w)
	if err != nil {
		return errors.Join(err, closeFile(r.file))
	}
	r.entry = entry
	return nil
}

// stop begins to end a run.
func (r *run) stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.stopping = true
	r.halted = r.halted || errors.Is(cause, errStopped)
	r.end(cause)
}

// detach has the call that waits for a run return, and leaves the run in the
// background, for as long as the parent lives. A run that is ending anyhow stays
// with its call.
func (s *Subagents) detach(r *run, in tool.Invocation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.background || r.over || r.waiting.Err() != nil || r.ctx.Err() != nil {
		return false
	}
	r.background, r.file = true, s.outputFile(in)
	r.entry.Detached(pathOf(r.file))
	close(r.detached)
	return true
}

// finish says that a run is at its end: it stays as it is. background says that no
// call waits for it, halted that it was stopped through the board.
func (r *run) finish() (background, halted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.background, r.halted
}

// isOver reports whether a run is at its end: it will leave without more ado.
func (r *run) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// end is an outcome for the board.
func (o *outcome) end() job.End {
	e := job.End{Status: job.Failed, Summary: o.summary()}
	switch o.stop {
	case sdkproto.StopCompleted:
		e.Status = job.Completed
	case sdkproto.StopAborted:
		e.Status = job.Stopped
	}
	if o.why != "" {
		e.Summary += ", " + o.why
	}
	return e
}

// summary says in a line how a run has ended.
func (o *outcome) summary() string {
	return fmt.Sprintf("Subagent %s (%s) has ended: %s", o.run.id, o.run.label, o.stop)
}

// outputFile makes the file for the answer of a child in the background; nil when
// there is no place for it.
func (s *Subagents) outputFile(in tool.Invocation) tool.SpillFile {
	if s.spiller == nil {
		return nil
	}
	f, err := s.spiller.Spill(in.SessionID, in.CallID)
	if err != nil {
		s.log.Warn("there is no file for the answer of a subagent", "session", in.SessionID, "error", err)
		return nil
	}
	return f
}

func pathOf(f tool.SpillFile) string {
	if f == nil {
		return ""
	}
	return f.Path()
}

func closeFile(f tool.SpillFile) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// write puts the answer of a child in the background into its file.
func (s *Subagents) write(r *run) {
	if r.file == nil {
		return
	}
	text := r.outcome.said()
	if r.outcome.stop != sdkproto.StopCompleted {
		text = fmt.Sprintf("(%s: %s)\n%s", r.outcome.stop, r.outcome.why, text)
	}
	_, err := r.file.Write([]byte(text))
	if err := errors.Join(err, r.file.Close()); err != nil {
		s.log.Warn("the answer of a subagent was not kept", "session", r.id, "error", err)
	}
}
