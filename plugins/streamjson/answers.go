package streamjson

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"dsh/kernel/approval"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// The small answers of spec stream-json 4.18.

const (
	// maxRead is how much of a file is told, in bytes, and maxReadLine how much room
	// that may take in the line (spec stream-json 0.2).
	maxRead     = 600_000
	maxReadLine = 900_000
	// encodings of a file's content.
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// contents is the answer to read_file.
type contents struct {
	Contents  string `json:"contents"`
	AbsPath   string `json:"absPath"`
	Truncated bool   `json:"truncated,omitzero"`
	// Encoding is base64, or "" for text; Lossy says that bytes of a text were no
	// UTF-8, and U+FFFD stands for them.
	Encoding string `json:"encoding,omitzero"`
	Lossy    bool   `json:"lossy,omitzero"`
}

// readFile answers read_file: what the model might read without anybody being
// asked.
func (s *Server) readFile(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Path     json.RawMessage `json:"path"`
		MaxBytes json.RawMessage `json:"max_bytes"`
		Encoding json.RawMessage `json:"encoding"`
	}](r)
	if err != nil {
		return nil, err
	}
	path, err := required("path", in.Path)
	if err != nil {
		return nil, err
	}
	most := int64(maxRead)
	if !isUnset(in.MaxBytes) {
		n, ok := number(in.MaxBytes)
		if !ok || n < 1 || n != math.Trunc(n) {
			return nil, errors.New("max_bytes must be a whole number of at least 1")
		}
		most = int64(min(n, maxRead))
	}
	encoding := encodingText
	if !isUnset(in.Encoding) {
		encoding, _ = text(in.Encoding)
	}
	if encoding != encodingText && encoding != encodingBase64 {
		return nil, fmt.Errorf("encoding must be %s or %s", encodingText, encodingBase64)
	}
	out := contents{}
	if out.AbsPath, err = workspace.Resolve(s.cwd, path); err != nil {
		return nil, err
	}
	if err := s.mayRead(out.AbsPath); err != nil {
		return nil, fmt.Errorf("read %s: %w", clip(path), err)
	}
	data, whole, err := head(out.AbsPath, most)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", clip(path), err)
	}
	out.Truncated = !whole
	if encoding == encodingBase64 {
		out.Contents, out.Encoding = base64.StdEncoding.EncodeToString(data), encodingBase64
		return out, nil
	}
	if out.Truncated {
		data = whole8(data)
	}
	for len(wirejson.AppendString(nil, string(data))) > maxReadLine {
		data, out.Truncated = whole8(data[:len(data)/2]), true
	}
	out.Contents, out.Lossy = string(data), !utf8.Valid(data)
	if out.Lossy {
		out.Contents = strings.ToValidUTF8(out.Contents, "\ufffd")
	}
	return out, nil
}

// mayRead asks the permission rules about a call that reads a file (spec
// stream-json 4.18). Without rules the working directory is what may be read.
func (s *Server) mayRead(path string) error {
	if s.Policy == nil {
		real, err := workspace.Real(s.cwd, path)
		if err != nil {
			return err
		}
		root, err := workspace.Real(s.cwd, s.cwd)
		if err != nil {
			return err
		}
		if !within(root, real) {
			return errors.New("it is outside of the working directory")
		}
		return nil
	}
	arguments, err := wirejson.Marshal(map[string]string{"file_path": path})
	if err != nil {
		return err
	}
	v := s.Policy.Judge(tool.Spec{
		Name: "Read", ReadOnly: true, Subject: tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"},
	}, tool.Invocation{SessionID: s.sessionID(), CWD: s.cwd, Arguments: arguments})
	if v.Behavior != approval.Allow {
		return fmt.Errorf("the permission rules do not allow it: %s", v.Reason)
	}
	return nil
}

// head reads the first bytes of a file; whole says that there are no more.
func head(path string, most int64) (data []byte, whole bool, err error) {
	f, _, err := textfile.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, false, err
	}
	if int64(len(data)) > most {
		return data[:most], false, nil
	}
	return data, true, nil
}

// whole8 leaves out the beginning of a UTF-8 character at the end, if there is one.
func whole8(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

// setColor and setHasSubscribers take what the client says of itself: nothing here
// depends on it.
func (s *Server) setColor(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Color json.RawMessage `json:"color"`
	}](r)
	if err != nil {
		return nil, err
	}
	_, err = required("color", in.Color)
	return struct{}{}, err
}

func (s *Server) setHasSubscribers(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Has json.RawMessage `json:"has_subscribers"`
	}](r)
	if err != nil {
		return nil, err
	}
	switch string(in.Has) {
	case "true", "false", "null":
		return struct{}{}, nil
	}
	return nil, errors.New("has_subscribers must be true, false or null")
}

const (
	// titleLimit is how long the title may take, titleTokens bounds the answer, and
	// titleRunes is the longest title.
	titleLimit  = 20 * time.Second
	titleTokens = 1000
	titleRunes  = 80
	// titleWords is how many words of the description stand in for a title.
	titleWords = 8
	// titleFrom is how much of the description the model is shown, in characters.
	titleFrom = 4000
)

const textTitle = "Give a title for a conversation that begins with the text below: three to seven words, in the language of the text. " +
	"Answer with the title alone, on one line, without quotation marks and without a full stop."

// generateTitle answers generate_session_title: a model names the session, or the
// first words of the description do where none can be asked.
func (s *Server) generateTitle(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Description json.RawMessage `json:"description"`
		Persist     bool            `json:"persist"`
	}](r)
	if err != nil {
		return nil, err
	}
	description, err := required("description", in.Description)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	a, route, spent := s.agent, s.route, s.overspent
	s.mu.Unlock()
	title := ""
	if a != nil && spent == "" {
		ctx, cancel := context.WithTimeout(ctx, titleLimit)
		defer cancel()
		title, err = s.askBeside(ctx, beside{
			agent: a, route: route, purpose: sdkproto.AsideTitle, tokens: titleTokens,
			question: textTitle + "\n\n" + oneLine(description, titleFrom),
			wanted:   func(answer string) string { return strings.Trim(oneLine(answer, titleRunes), "\"“”`. ") },
		})
		if err != nil {
			s.Log.Debug("no model gives a title", "error", err)
		}
	}
	if title == "" {
		words := strings.Fields(description)
		title = oneLine(strings.Join(words[:min(len(words), titleWords)], " "), titleRunes)
	}
	if title == "" {
		return map[string]any{"title": nil}, nil
	}
	if in.Persist {
		if a == nil {
			return nil, errors.New("the session has no title to keep before its first message; send one, or leave persist out")
		}
		fact := sdkproto.SessionTitle{Title: title, MessageSeqs: []int64{}, Source: sdkproto.TitleSource{Kind: "model"}}
		if _, err := a.Log().Append(session.Draft{Type: sdkproto.TypeSessionTitle, Data: fact}); err != nil {
			return nil, fmt.Errorf("keep the title: %w", err)
		}
	}
	return map[string]any{"title": title}, nil
}

const (
	// questionLimit is how long the answer to a question may take, questionTokens
	// bounds it.
	questionLimit  = 2 * time.Minute
	questionTokens = 4000
)

const textQuestion = "Leave the conversation for a moment and answer a question beside it, from what you know and without any tools. " +
	"Nothing of this becomes part of the conversation. The question: "

// sideQuestion answers side_question: from the conversation, which it does not
// become a part of.
func (s *Server) sideQuestion(ctx context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Question json.RawMessage `json:"question"`
	}](r)
	if err != nil {
		return nil, err
	}
	question, err := required("question", in.Question)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	last, spent := s.latest, s.overspent
	s.mu.Unlock()
	switch {
	case last == nil:
		return nil, errors.New("no model has been asked in this session yet; send a message first")
	case spent != "":
		return nil, errors.New(spent)
	}
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	answer, err := s.askBeside(ctx, beside{
		agent: last.agent, route: last.route, purpose: sdkproto.AsideQuestion, tokens: questionTokens,
		history: spoken(last.history()), question: textQuestion + question, wanted: strings.TrimSpace,
	})
	if err != nil {
		return nil, fmt.Errorf("answer the question: %w", err)
	}
	return map[string]any{"response": answer, "synthetic": false}, nil
}
