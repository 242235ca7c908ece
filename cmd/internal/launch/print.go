package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"

	"dsh/sdkproto/wirejson"
)

// Printf writes to standard output.
func (p *Program) Printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.Pair.Out, format, args...); err != nil {
		return fmt.Errorf("write standard output: %w", err)
	}
	return nil
}

// PrintJSON writes one JSON value, indented.
func (p *Program) PrintJSON(v any) error {
	data, err := wirejson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return p.Printf("%s\n", &b)
}

// PrintTable prints rows of cells in columns, the heads first.
func (p *Program) PrintTable(rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var lines strings.Builder
	for line := range strings.Lines(b.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return p.Printf("%s", Plain(lines.String()))
}

// Output writes to standard output, or to a file that is there only when all of
// it is written.
func (p *Program) Output(file string, write func(io.Writer) error) (err error) {
	target := p.Pair.Out
	if file != "-" {
		if target, err = os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*"); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		defer func() {
			err = errors.Join(err, target.Close())
			if err == nil {
				err = os.Rename(target.Name(), file)
			}
			if err != nil {
				err = errors.Join(err, os.Remove(target.Name()))
			}
		}()
	}
	out := bufio.NewWriter(target)
	return errors.Join(write(out), out.Flush())
}

// Plain takes out what would steer a terminal: the text is a model's, or a
// program's.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, text)
}

// Indent sets the lines of a text behind its first one in.
func Indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }
