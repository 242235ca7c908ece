package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// streamArgs are how the SDKs start dcl. Nothing is asked, so that no figure
// contains the time that a client takes to answer.
func streamArgs() []string {
	return []string{
		"--output-format", "stream-json", "--verbose", "--model", "mock-model", "--permission-mode", "bypassPermissions",
		"--setting-sources=", "--include-partial-messages", "--input-format", "stream-json",
	}
}

// streamModelScript is modelScript with the names that the tools have on this
// wire.
func streamModelScript() string {
	return strings.NewReplacer("tool: read,", "tool: Read,", "tool: bash,", "tool: Bash,").Replace(modelScript)
}

func (p *process) initializeStream() error {
	if _, err := fmt.Fprintln(p.in, `{"type":"control_request","request_id":"i","request":{"subtype":"initialize","hooks":null}}`); err != nil {
		return err
	}
	line, err := p.out.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("no answer to initialize: %w", err)
	}
	if !bytes.Contains(line, []byte(`"subtype":"success"`)) {
		return fmt.Errorf("initialize failed: %s", line)
	}
	return nil
}

// untilResult reads to the end of a turn.
func (p *process) untilResult() error {
	for {
		line, err := p.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("the wire ended: %w", err)
		}
		if !bytes.HasPrefix(line, []byte(`{"type":"result"`)) {
			continue
		}
		if !bytes.Contains(line, []byte(`"subtype":"success"`)) || bytes.Contains(line, []byte(`"is_error":true`)) {
			return fmt.Errorf("a turn failed: %s", line)
		}
		return nil
	}
}
