package streamjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dsh/sdkproto/wirejson"
)

// onePrompt puts the prompt of text input into the queue, and ends the input: the
// config's, or all of standard input.
func (s *Server) onePrompt(ctx context.Context) error {
	prompt := s.Config.Prompt
	if prompt == "" {
		var err error
		if prompt, err = s.readPrompt(ctx); err != nil {
			return err
		}
	}
	line, err := wirejson.Marshal(map[string]any{"message": map[string]any{"role": "user", "content": prompt}})
	if err != nil {
		return err
	}
	s.with(func() {
		s.queue.push(readUser(line))
		s.eof = true
	})
	return nil
}

// readPrompt reads all of the input. A read cannot be interrupted: the goroutine
// that reads ends with the input or with the process.
func (s *Server) readPrompt(ctx context.Context) (string, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(s.In, int64(s.Config.MaxLine)+1))
		read <- result{data, err}
	}()
	select {
	case got := <-read:
		prompt := bytes.TrimRight(got.data, "\r\n")
		switch {
		case got.err != nil:
			return "", fmt.Errorf("read the prompt: %w", got.err)
		case len(got.data) > s.Config.MaxLine:
			return "", fmt.Errorf("the prompt is longer than %d bytes; put it into a file and name that", s.Config.MaxLine)
		case len(bytes.TrimSpace(prompt)) == 0:
			return "", errors.New("there is no prompt; give it as an argument, or on standard input")
		}
		return string(prompt), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// agentsOf reads definitions of agents by name.
func agentsOf(raw json.RawMessage) (list map[string]json.RawMessage, err error) {
	if isUnset(raw) {
		return nil, nil
	}
	if err := wirejson.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	return list, nil
}
