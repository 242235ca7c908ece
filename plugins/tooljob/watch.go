package tooljob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

// Names that sign what is told: the message of a command's end, and the list of
// tasks that were stopped.
const (
	signEnded   = "job"
	signStopped = "job-stopped"
)

const (
	// contextOrder puts what was stopped behind what an agent is and should know.
	contextOrder = 900
	// maxStopped bounds the tasks of which it is told that they were stopped.
	maxStopped = 20
)

// Jobs offers the tools, and tells of what the board knows.
type Jobs struct {
	config  Config
	owner   *kernel.Owner
	log     *slog.Logger
	tools   *tool.Registry
	board   *job.Board
	agents  agent.Registry
	hooks   *agent.Hooks
	offered []tool.Tool

	mu       sync.Mutex
	sessions map[string]*tasks
}

// tasks is what is remembered for a live session that has had tasks in the
// background.
type tasks struct {
	agent agent.Agent
	// running are those whose end is not recorded; nil once the session is closing.
	running map[string]job.Job
	// ending are those that the model has stopped.
	ending map[string]bool
	// stopped are those that somebody else has, in lines for the model.
	stopped []string
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Jobs {
	j := &Jobs{
		config: p.Config, owner: p.Self.Owner, log: p.Self.Log, tools: p.Tools, board: p.Board, agents: p.Agents, hooks: p.Hooks,
		sessions: map[string]*tasks{},
	}
	if p.Config.Dialect == dialect.Claude {
		j.offered = j.claude()
	} else {
		j.offered = j.dsh()
	}
	return j
}

func (j *Jobs) register() error {
	for _, t := range j.offered {
		if err := j.tools.Register(j.owner, t); err != nil {
			return err
		}
	}
	if j.hooks != nil {
		if err := j.hooks.OnContext(j.owner, contextOrder, "background tasks", j.whatWasStopped); err != nil {
			return err
		}
	}
	if j.agents == nil {
		return nil
	}
	return j.board.Watch(j.owner, j.take)
}

// of gives what is remembered for a session; nil for one that is not live.
func (j *Jobs) of(sessionID string) *tasks {
	if j.agents == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.sessions[sessionID]
	if t != nil && t.agent.Life().Err() == nil {
		return t
	}
	a, ok := j.agents.Get(sessionID)
	if !ok || t != nil && a == t.agent {
		return t
	}
	t = &tasks{agent: a, running: map[string]job.Job{}, ending: map[string]bool{}}
	j.sessions[sessionID] = t
	context.AfterFunc(a.Life(), func() { j.forget(t) })
	return t
}

// forget is the end of a session. Its log is about to be closed, and its commands
// to be ended: that is recorded while it can be.
func (j *Jobs) forget(t *tasks) {
	id := t.agent.ID()
	j.mu.Lock()
	for _, x := range t.running {
		j.record(t, x, sdkproto.TypeJobEnded, sdkproto.JobEnded{
			JobID: x.ID, Status: job.Stopped, Summary: fmt.Sprintf("Command %q was ended with its session", x.Description),
		})
	}
	t.running = nil
	mine := j.sessions[id] == t
	if mine {
		delete(j.sessions, id)
	}
	j.mu.Unlock()
	if mine {
		j.board.Forget(id)
	}
}

// take hears of a change on the board. What it appends is in the log before the
// call that went to the background has its result.
func (j *Jobs) take(x job.Job) {
	if !x.Background {
		return
	}
	t := j.of(x.SessionID)
	if t == nil {
		return
	}
	if x.Over() {
		j.ended(t, x)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.running == nil {
		return
	}
	t.running[x.ID] = x
	j.record(t, x, sdkproto.TypeJobStarted, sdkproto.JobStarted{
		JobID: x.ID, Kind: x.Kind, CallID: x.CallID, Description: x.Description, Command: x.Command, OutputFile: x.OutputFile,
	})
}

// ended records and tells how a task has ended, unless the end of its session is
// recorded as its own.
func (j *Jobs) ended(t *tasks, x job.Job) {
	j.mu.Lock()
	_, known := t.running[x.ID]
	if known {
		j.record(t, x, sdkproto.TypeJobEnded, sdkproto.JobEnded{JobID: x.ID, Status: x.Status, Summary: x.Summary, ExitCode: x.ExitCode})
	}
	byModel := t.ending[x.ID]
	delete(t.running, x.ID)
	delete(t.ending, x.ID)
	// That an agent was stopped by other ways than the board is told by who did it.
	if x.Status == job.Stopped && !byModel && (x.StopAsked || x.Kind == job.KindShell) {
		t.stopped = append(t.stopped, fmt.Sprintf("- %s (%s)", x.ID, x.Description))
		t.stopped = t.stopped[max(0, len(t.stopped)-maxStopped):]
	}
	j.mu.Unlock()
	if known && x.Status != job.Stopped && x.Kind == job.KindShell {
		j.wake(t.agent, x)
	}
}

// record appends an event of a shell command; mu is held, so that its start is in
// front of its end.
func (j *Jobs) record(t *tasks, x job.Job, typ string, data any) {
	if x.Kind != job.KindShell {
		return
	}
	_, err := t.agent.Log().Append(session.Draft{Type: typ, Data: data, Ignorable: true})
	if err != nil && !errors.Is(err, session.ErrClosed) {
		j.log.Warn("a background task is not in the log of its session", "session", x.SessionID, "task", x.ID, "error", err)
	}
}

// wake tells the session of a command that it has ended. One that is closing does
// without.
func (j *Jobs) wake(a agent.Agent, x job.Job) {
	text := fmt.Sprintf("Background task %s has ended: %s.", x.ID, x.Summary) + outputOf(x, j.config.MaxTold).text()
	receipt := a.Post(agent.Message{
		Content: []sdkproto.Block{sdkproto.Text(text)},
		Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: signEnded, Form: "notice", Summary: x.Summary},
		Target:  sdkproto.TargetNextTurn,
	})[0]
	if receipt.Err != nil && !errors.Is(receipt.Err, agent.ErrClosing) {
		j.log.Warn("the end of a background task cannot be told to its session", "session", x.SessionID, "task", x.ID, "error", receipt.Err)
	}
}

// whatWasStopped tells a session which of its tasks others have stopped. It says
// the same until there is one more; the loop tells it once.
func (j *Jobs) whatWasStopped(_ context.Context, o agent.Opening) ([]sdkproto.Message, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.sessions[o.SessionID]
	if t == nil || len(t.stopped) == 0 {
		return nil, nil
	}
	text := "These background tasks were stopped, and not by you. Start one again only if it is asked for:\n" + strings.Join(t.stopped, "\n")
	return []sdkproto.Message{{
		Content: []sdkproto.Block{sdkproto.Text(text)},
		Source:  sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: signStopped, Form: "notice", Summary: "background tasks were stopped"},
	}}, nil
}
