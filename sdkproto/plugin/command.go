package plugin

import (
	"context"

	"dsh/sdkproto"
)

// Command is a slash command.
type Command struct {
	// Name is without the slash; parts are joined by colons, as in "git:commit".
	Name string
	// Description is one line for people and models.
	Description string
	// ArgumentHint shows what may stand behind the name; it may be empty.
	ArgumentHint string
	// Expand gives what takes the place of "/name args" in a prompt.
	Expand func(ctx context.Context, u Use) ([]sdkproto.Block, error)
}

// Use is one use of a command.
type Use struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
	// Args is all that stands behind the name, without the white space around it.
	Args string
}
