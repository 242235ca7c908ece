package sdkproto

// Events about the beginning of a session that is not new. Both are ours, and
// ignorable.
const (
	// TypeSessionSeeded: what follows, up to session/end-seed, is the history of
	// another session, or of this one as something else has kept it.
	TypeSessionSeeded = "session/seeded"
	// TypeTranscriptUUIDs: the message that follows was read from a transcript.
	TypeTranscriptUUIDs = "transcript/uuids"
)

// SessionSeeded says where a history comes from.
type SessionSeeded struct {
	// Kind is one of the Seed constants.
	Kind string `json:"kind"`
	// SessionID is that of the source; with SeedTranscript it may be the session's
	// own.
	SessionID string `json:"sessionId"`
}

// Kinds of SessionSeeded.
const (
	// SeedFork: the history of another session was copied.
	SeedFork = "fork"
	// SeedTranscript: the history was read from a file of spec stream-json 10.2.
	SeedTranscript = "transcript"
)

// TranscriptUUIDs are the uuids under which a transcript has the blocks of an
// answer, one for each, so that the answer keeps them.
type TranscriptUUIDs struct {
	MessageID string   `json:"messageId"`
	UUIDs     []string `json:"uuids"`
}
