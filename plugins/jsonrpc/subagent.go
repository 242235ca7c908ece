package jsonrpc

// Values of subagent.finished.status.
const (
	statusOK    = "ok"
	statusError = "error"
)

// finishedStatus maps why a subagent stopped to the status of subagent.finished
// (spec jsonrpc 4.4, S110).
func (s *Server) finishedStatus(stopReason string) string {
	if stopReason == "completed" || stopReason == "max-tokens" && s.maxTokensAsSuccess {
		return statusOK
	}
	return statusError
}
