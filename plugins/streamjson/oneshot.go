package streamjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"dsh/kernel/stdio"
	"dsh/sdkproto/wirejson"
)

// onePrompt puts the prompt of text input into the queue, and ends the input: the
// config's, or all of standard input.
func (s *Server) onePrompt(ctx context.Context) error {
	prompt := s.Config.Prompt
	if prompt == "" {
		var err error
		prompt, err = stdio.ReadPrompt(ctx, s.In, s.Config.MaxLine)
		if errors.Is(err, stdio.ErrEmpty) {
			return fmt.Errorf("%w; give it as an argument, or on standard input", err)
		}
		if err != nil {
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
