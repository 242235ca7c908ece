package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Output is the end of what a job has said so far.
type Output struct {
	// Text is at most as many bytes as were asked for, Total all of them.
	Text  string
	Total int64
}

// Tail reads the last bytes, at most so many, of what a job has said. A job that
// has no file, or has said nothing, gives the zero Output.
func (j Job) Tail(most int64) (Output, error) {
	if j.OutputFile == "" {
		return Output{}, nil
	}
	f, err := os.Open(j.OutputFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Output{}, nil
	}
	if err != nil {
		return Output{}, fmt.Errorf("read the output of task %s: %w", j.ID, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Output{}, fmt.Errorf("read the output of task %s: %w", j.ID, err)
	}
	from := max(0, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return Output{}, fmt.Errorf("read the output of task %s: %w", j.ID, err)
	}
	return Output{Text: string(text), Total: info.Size()}, nil
}
