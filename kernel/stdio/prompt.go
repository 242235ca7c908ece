package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// Errors of ReadPrompt.
var (
	ErrTooLong = errors.New("the prompt is too long")
	ErrEmpty   = errors.New("the prompt is empty")
)

// ReadPrompt reads text of at most so many bytes to its end, and takes the line
// ends off that. What is no UTF-8 is replaced. A read cannot be interrupted: the
// goroutine that reads ends with the input or with the process. Errors: ErrTooLong,
// ErrEmpty for one of blanks, ctx's cause, the input's.
func ReadPrompt(ctx context.Context, in io.Reader, most int) (string, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
		read <- result{data, err}
	}()
	select {
	case got := <-read:
		prompt := bytes.TrimRight(got.data, "\r\n")
		switch {
		case got.err != nil:
			return "", fmt.Errorf("read the prompt: %w", got.err)
		case len(got.data) > most:
			return "", fmt.Errorf("%w: it has more than %d bytes; put it into a file and name that", ErrTooLong, most)
		case len(bytes.TrimSpace(prompt)) == 0:
			return "", ErrEmpty
		}
		return string(bytes.ToValidUTF8(prompt, []byte("\ufffd"))), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
