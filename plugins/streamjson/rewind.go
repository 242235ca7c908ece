package streamjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"dsh/kernel/checkpoint"
	"dsh/sdkproto/streamjson"
)

// rewindFiles gives files the state that they had before the turn of a message
// (spec stream-json 4.16). A refusal is an answer like any other; a line tells of it,
// too, because hosts may not read the answer.
func (s *Server) rewindFiles(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Message json.RawMessage `json:"user_message_id"`
		Dry     json.RawMessage `json:"dry_run"`
	}](r)
	if err != nil {
		return nil, err
	}
	message, err := required("user_message_id", in.Message)
	if err != nil {
		return nil, err
	}
	dry := string(in.Dry) == "true"
	if k := kindOf(in.Dry); !dry && string(in.Dry) != "false" && k != 0 && k != 'n' {
		return nil, errors.New("dry_run must be true or false")
	}
	out := checkpoint.Outcome{Reason: "this profile keeps no file checkpoints: it has no row of checkpoint"}
	if s.Checkpoints != nil {
		out, err = s.Checkpoints.Rewind(ctx, s.sessionID(), s.cwd, s.loggedAs(message), dry)
		if err != nil {
			return nil, err
		}
	}
	if !out.CanRewind {
		if !dry {
			r.after = func() { s.inform("The files were not rewound: " + out.Reason) }
		}
		return streamjson.Rewound{Error: out.Reason}, nil
	}
	if out.Files == nil {
		out.Files = []string{}
	}
	return streamjson.Rewound{CanRewind: true, FilesChanged: out.Files, Insertions: &out.Insertions, Deletions: &out.Deletions}, nil
}

// inform tells people of something that they should know.
func (s *Server) inform(text string) {
	head := s.head(streamjson.TypeSystem, streamjson.SystemInformational)
	s.say(s.work, streamjson.Informational{Head: head, Content: text, Level: "warning"})
}

// maxRenamed bounds the messages whose names are remembered.
const maxRenamed = 10_000

// remember keeps what the log calls a message that the client named otherwise.
func (s *Server) remember(m *message) {
	if m.uuid == m.id {
		return
	}
	s.with(func() {
		if s.renamed == nil || len(s.renamed) >= maxRenamed {
			s.renamed = map[string]string{}
		}
		s.renamed[m.uuid] = m.id
	})
}

// loggedAs is the log's id of a message.
func (s *Server) loggedAs(uuid string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.renamed[uuid], uuid)
}

// settleLimit bounds what a result waits for the last snapshot of its turn.
const settleLimit = 2 * time.Second

// settleFiles has the last snapshot of a turn taken before its result is read: a
// client that then changes a file is somebody else (S058).
func (s *Server) settleFiles(ctx context.Context) {
	if s.Checkpoints == nil || isClosed(s.Root.Quiescing()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := s.Checkpoints.Settle(ctx, s.sessionID()); err != nil {
		s.Log.Debug("a result goes out before the last checkpoint of its turn", "error", err)
	}
}
