package agentloop

import (
	"errors"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// maxRoomMade bounds how often room is made for one request that was refused
// as too long (case B61).
const maxRoomMade = 3

func tooLong(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Code == llm.CodeContextWindow
}

// keep lets the keepers make room before a request, or because one was refused
// as too long. The error is that of a turn that was cancelled, or of the log.
func (t *turn) keep(p prepared, refused error) (changed bool, err error) {
	a := t.a
	step := agent.Step{
		Agent: a, State: a.state, Turn: t.number, Step: t.step,
		Route: p.route, Info: p.info, Adapter: p.adapter, Header: a.header, Refused: refused,
	}
	changed, err = a.r.hooks.Keep(t.ctx, t.generation, step)
	switch {
	case t.ctx.Err() != nil:
		return changed, t.ctx.Err()
	case err != nil:
		a.r.log.Error("no room could be made in the history of a session", "session", a.spec.ID, "error", err)
	}
	if !changed {
		return false, nil
	}
	_, err = a.session.Append(prefixDraft(t.number, t.step, t.rewritten())...)
	return true, err
}

// makeRoom closes the stream of an attempt that was refused as too long and
// lets the keepers make room for another.
func (t *turn) makeRoom(p prepared, ans *answer, refused error) (changed bool, err error) {
	if len(ans.seqs) > 0 && ans.finish == "" {
		if _, err := t.a.session.Append(t.failedAttempt(refused)); err != nil {
			return false, err
		}
		ans.finish = sdkproto.FinishError
	}
	return t.keep(p, refused)
}
