package jsonrpc

import (
	"cmp"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// finished sends subagent.finished for a delegated run of this process. What ran
// elsewhere is silent: only whoever ran it can tell, and has (S106).
func (w *events) finished(e session.Entry) error {
	run := e.Settled
	if !run.Local {
		return nil
	}
	return w.notify(sdkproto.NotifySubagentFinished, sdkproto.SubagentFinished{
		Provider: run.Provider, AgentID: cmp.Or(run.AgentID, e.SessionID), ParentSessionID: run.Parent, ChildSessionID: e.SessionID,
		Status: finishedStatus(run.StopReason, w.maxTokensAsSuccess), StopReason: run.StopReason, LastAssistantMessage: run.Last,
	})
}

// finishedStatus maps why a subagent stopped to the status of subagent.finished
// (spec jsonrpc 4.4, S110).
func finishedStatus(stopReason string, maxTokensAsSuccess bool) string {
	if stopReason == sdkproto.StopCompleted || stopReason == sdkproto.StopMaxTokens && maxTokensAsSuccess {
		return sdkproto.FinishedOK
	}
	return sdkproto.FinishedError
}
