package plugin

import "context"

// Section is a part of the system prompt.
type Section struct {
	Name string
	// Text gives the text for a session, "" for none. The same facts give the same
	// text: it is fixed when a session starts.
	Text func(ctx context.Context, f Facts) (string, error)
}

// Facts are what a section may speak of.
type Facts struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD             string
	Provider, Model string
	// Tools are the names that the session's model sees, in order.
	Tools []string
}
