package sdkproto

// Events of shell commands in the background. Both are ours, and ignorable; what
// subagents do is in their own sessions.
const (
	// TypeJobStarted: a command goes on behind its call.
	TypeJobStarted = "job/started"
	// TypeJobEnded: such a command has ended.
	TypeJobEnded = "job/ended"
)

// JobStarted records what goes on. Kind is local_bash.
type JobStarted struct {
	JobID       string `json:"jobId"`
	Kind        string `json:"kind"`
	CallID      string `json:"callId"`
	Description string `json:"description"`
	Command     string `json:"command,omitzero"`
	// OutputFile is the absolute path of the file with its output, "" for none.
	OutputFile string `json:"outputFile,omitzero"`
}

// JobEnded records how it ended. Status is completed, failed or stopped.
type JobEnded struct {
	JobID    string `json:"jobId"`
	Status   string `json:"status"`
	Summary  string `json:"summary"`
	ExitCode *int   `json:"exitCode,omitzero"`
}
