package streamjson

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/session"
	paths "dsh/plugins/internal/transcript"
	"dsh/plugins/streamjson/transcript"
	"dsh/sdkproto"
)

// origin says what the session that is opened first begins with; the zero value is
// a new one, or a stored one as it is.
type origin struct {
	// source is what hooks are told, "" for the usual.
	source string
	// seed is the history of a session that gets a log now, cut what a stored one
	// loses.
	seed []session.Draft
	cut  *agent.Cut
	// title is the name that it was given before it was open.
	title string
}

// find settles which session this is, without opening it (spec stream-json 10.3).
// The error is a failure of the start, and nothing was written then.
//
// A session is one that has a log, whichever wire made it, or else a transcript of
// the SDKs, such as one that they have copied: its conversation gets a log when it
// is opened. A log that the transcript is ahead of, because the session went on
// somewhere else, takes up what it lacks. A session belongs to the folder that it
// began in.
func (s *Server) find(ctx context.Context) error {
	c := &s.Config
	s.with(func() { s.origin.title = c.Name })
	if c.SessionID != "" {
		if err := s.unused(ctx, c.SessionID); err != nil {
			return err
		}
	}
	switch {
	case c.Resume != "":
		err := s.takeUp(ctx, c.Resume)
		if errors.Is(err, session.ErrNotFound) {
			//lint:ignore ST1005 these are the words of the wire (spec stream-json 1.7)
			return fmt.Errorf("No conversation found with session ID: %s", clip(c.Resume))
		}
		return err
	case c.Continue:
		ids, err := s.newest(ctx)
		for _, id := range ids {
			if err = s.takeUp(ctx, id); !errors.Is(err, session.ErrNotFound) {
				return err
			}
		}
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			return err
		}
	}
	return nil
}

// unused refuses an id that a session has.
func (s *Server) unused(ctx context.Context, id string) error {
	known, err := s.stored(ctx, id)
	if err != nil || !known && paths.Find(s.transcripts.dir, s.cwd, id) == "" {
		return err
	}
	//lint:ignore ST1005 these are the words of the wire (spec stream-json 1.7)
	return fmt.Errorf("Session ID %s is already in use", id)
}

// stored reports whether a session has a log.
func (s *Server) stored(ctx context.Context, id string) (bool, error) {
	err := s.Agents.Events(ctx, id, math.MaxInt64, func(*session.Record) error { return nil })
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// newest gives the sessions of the folder, the one that was used last first. A log
// alone does not say when that was: it counts from its beginning.
func (s *Server) newest(ctx context.Context) (ids []string, err error) {
	headers, err := s.Agents.List(ctx, s.cwd)
	if err != nil {
		return nil, fmt.Errorf("find the newest session of %s: %w", s.cwd, err)
	}
	used := map[string]time.Time{}
	for _, h := range headers {
		if h.ParentSession == "" && isUUID(h.ID) {
			used[h.ID] = time.UnixMilli(h.CreatedAt)
		}
	}
	for _, f := range paths.List(s.transcripts.dir, s.cwd) {
		if isUUID(f.SessionID) {
			used[f.SessionID] = f.Modified
		}
	}
	ids = sortedKeys(used)
	slices.SortStableFunc(ids, func(a, b string) int { return used[b].Compare(used[a]) })
	return ids, nil
}

func isUUID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }

// takeUp makes a session the one of this process, as a whole or in part, or begins
// another with its history. The error is session.ErrNotFound when there is no such
// session.
func (s *Server) takeUp(ctx context.Context, id string) error {
	if !isUUID(id) {
		return session.ErrNotFound
	}
	known, err := s.stored(ctx, id)
	if err != nil {
		return err
	}
	path := paths.Find(s.transcripts.dir, s.cwd, id)
	c := &s.Config
	if known && !c.Fork && path != paths.Path(s.transcripts.dir, s.cwd, id) {
		if err := s.belongs(ctx, id); err != nil {
			return err
		}
	}
	var h *transcript.History
	o := origin{title: c.Name}
	switch {
	case known && path == "" && !c.Fork && c.ResumeAt == "" && c.DropsTurn == nil:
		s.with(func() { s.id, s.resumed, s.origin = id, true, o })
		return nil
	case known:
		if h, err = s.historyOf(ctx, id, path); err != nil {
			return err
		}
	case path == "":
		return session.ErrNotFound
	default:
		if h, err = transcript.Load(path, s.sourceOf()); err != nil {
			return err
		}
		if h.Empty() {
			return session.ErrNotFound
		}
	}
	at := h.End()
	if c.ResumeAt != "" {
		ok := false
		if at, ok = h.Find(c.ResumeAt); !ok {
			//lint:ignore ST1005 these are the words of the reference's wire
			return fmt.Errorf("No message found with message.uuid of: %s (--resume-session-at); it must be one of session %s", clip(c.ResumeAt), id)
		}
	}
	if c.DropsTurn != nil {
		if err := h.Drops(at, *c.DropsTurn); err != nil {
			return err
		}
	}
	s.keepForeign(ctx, h)
	switch {
	case c.Fork:
		o.source, o.seed = sourceFork, h.Until(at).Seed(sdkproto.SeedFork, id, false)
		s.with(func() { s.origin = o })
	case known:
		o.cut = h.Cut(at)
		s.with(func() { s.id, s.resumed, s.origin = id, true, o })
	default:
		o.source, o.seed = sourceResume, h.Until(at).Seed(sdkproto.SeedTranscript, id, true)
		s.with(func() { s.id, s.origin = id, o })
	}
	return nil
}

// belongs refuses a session of another folder before the start has said that all is
// well (case B44). That is known at once of one whose transcript is in its place.
func (s *Server) belongs(ctx context.Context, id string) error {
	headers, err := s.Agents.List(ctx, "")
	if err != nil {
		return fmt.Errorf("find the folder of session %s: %w", id, err)
	}
	for _, h := range headers {
		if h.ID == id && filepath.Clean(h.CWD) != filepath.Clean(s.cwd) {
			return fmt.Errorf("%w: session %s was started in %q, this is %q; resume it there, or take its history along with --fork-session", session.ErrOtherCWD, id, h.CWD, s.cwd)
		}
	}
	return nil
}

// historyOf is the conversation of a log, with what its transcript, if it has one
// at path, has got elsewhere.
func (s *Server) historyOf(ctx context.Context, id, path string) (*transcript.History, error) {
	p := s.transcriptOf(id, id, s.cwd, true)
	if err := s.Agents.Events(ctx, id, 0, func(r *session.Record) error { p.Record(ctx, r); return nil }); err != nil {
		return nil, err
	}
	if path == "" {
		return p.History(), nil
	}
	file, err := transcript.Load(path, s.sourceOf())
	if err != nil {
		s.Log.Warn("a transcript is left out", "session", id, "error", err)
		return p.History(), nil
	}
	return transcript.Join(p, file, id), nil
}

// sourceOf says what a transcript does not.
func (s *Server) sourceOf() transcript.Source {
	return transcript.Source{Provider: func(model string) string {
		to, err := s.Models.Resolve(s.Config.APIFormat, model)
		if err != nil {
			return ""
		}
		return to.Provider
	}}
}

// keepForeign puts the images of a transcript into the store; one that cannot be
// kept is a note.
func (s *Server) keepForeign(ctx context.Context, h *transcript.History) {
	for _, b := range h.Images() {
		size := len(b.Data)
		var err error
		if s.Images == nil {
			err = errors.New("this profile keeps no images")
		} else {
			var refs []sdkproto.Attachment
			refs, err = s.Images.Admit(ctx, []attachment.Upload{{Base64: b.Data, MediaType: b.MimeType}})
			if err == nil && len(refs) == 1 {
				*b = sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &refs[0]}
				continue
			}
		}
		s.Log.Warn("an image of a transcript is left out", "mediaType", clip(b.MimeType), "error", err)
		*b = sdkproto.Text(fmt.Sprintf("[An image (%s, %d bytes in base64) was here.]", clip(b.MimeType), size))
	}
}
