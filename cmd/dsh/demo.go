package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
	"dsh/sdkproto/wirejson"
)

const demoPrompt = "Look around and tell me what this folder is about."

func (p *program) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [PROMPT]",
		Short: "Drive the harness from a small SDK host, without key or network",
		Long: `demo starts this program once more as "dsh --profile sdk", as any client would,
with the scripted model and without the tools that change anything, sends it one
prompt about the folder you stand in, and shows what happens.

The session log is kept in the data folder: that of --home or DSH_HOME if given,
else a temporary one.`,
		Example: `  dsh demo
  dsh demo hello
  dsh demo 'call grep {"pattern": "func main"}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("demo takes one prompt; put it in quotes")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt := demoPrompt
			if len(args) == 1 {
				prompt = args[0]
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return p.demo(ctx, prompt)
		},
	}
}

func (p *program) demo(ctx context.Context, prompt string) (err error) {
	home, err := p.demoHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args := []string{
		"--profile", "sdk", "--home", home, "--log-level", "warn",
		"--set", "shell.enabled=false",
	}
	out := &screen{w: p.pair.Out, names: map[string]string{}}
	out.line("$ dsh %s", strings.Join(args[:2], " "))
	c, err := client.Start(ctx, client.Options{
		Command: self, Args: args, Stderr: p.stderr,
		Initialize: sdkproto.InitializeParams{Provider: "scripted", Model: "scripted"},
	})
	if err != nil {
		return fmt.Errorf("start the harness: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	out.line("%s %s answered initialize", c.Server.Name, c.Server.Version)

	session := c.Session("")
	out.line("\n> %s", prompt)
	run, err := session.Run(ctx, sdkproto.Text(prompt))
	if err != nil {
		return fmt.Errorf("send the prompt: %w", err)
	}
	for n, err := range run.Events() {
		if err != nil {
			return fmt.Errorf("follow the turn: %w", err)
		}
		if err := out.show(n); err != nil {
			return err
		}
	}
	result, err := run.Result(ctx)
	if err != nil {
		return fmt.Errorf("finish the turn: %w", err)
	}
	out.line("\nThe turn ended: %s. The scripted model counts %d tokens in and %d out.",
		result.FinishReason, result.Usage.InputTokens+result.Usage.CacheReadTokens, result.Usage.OutputTokens)
	out.line("Every event is in %s", filepath.Join(home, "sessions.d", session.ID()+".jsonl"))
	return out.err
}

// demoHome is the data folder given, or a temporary one, which is kept for the
// log in it.
func (p *program) demoHome() (string, error) {
	env, _ := p.env("DSH_HOME")
	if strings.TrimSpace(p.flags.home+env) != "" {
		return p.home()
	}
	home, err := os.MkdirTemp("", "dsh-demo-")
	if err != nil {
		return "", fmt.Errorf("make a data folder: %w; set DSH_HOME or --home", err)
	}
	return home, nil
}

// screen shows a run to a person.
type screen struct {
	w   io.Writer
	err error
	// open is the kind of text that stands on the last line without an end.
	open string
	// names are those of the tools by call id.
	names map[string]string
}

func (s *screen) print(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}

func (s *screen) line(format string, args ...any) {
	if s.open != "" {
		s.print("\n")
		s.open = ""
	}
	s.print(fmt.Sprintf(format, args...) + "\n")
}

// stream goes on with text of one kind, or starts it on a new line.
func (s *screen) stream(kind, prefix, text string) {
	if s.open != kind {
		if s.open != "" {
			s.print("\n")
		}
		s.print("\n" + prefix)
		s.open = kind
	}
	s.print(text)
}

func (s *screen) show(n client.Notification) error {
	if n.Event == nil {
		return nil
	}
	switch n.Event.Type {
	case sdkproto.TypeAssistantChunk:
		chunk, err := payload[sdkproto.AssistantChunk](n.Event)
		if err != nil {
			return err
		}
		switch chunk.Chunk.Type {
		case sdkproto.ChunkTextDelta:
			s.stream("text", "", chunk.Chunk.Text)
		case sdkproto.ChunkReasoningDelta:
			s.stream("reasoning", "(thinks) ", chunk.Chunk.Text)
		}
	case sdkproto.TypeToolCall:
		call, err := payload[sdkproto.ToolCall](n.Event)
		if err != nil {
			return err
		}
		s.names[call.CallID] = call.Name
		s.line("\n* %s %s", call.Name, call.Arguments)
	case sdkproto.TypeToolResult:
		result, err := payload[sdkproto.ToolResult](n.Event)
		if err != nil {
			return err
		}
		for _, b := range result.Message.Content {
			s.quote(s.names[b.ToolCallID], sdkproto.TextOf(b.Content))
		}
	case sdkproto.TypeLLMRetry:
		retry, err := payload[sdkproto.LLMRetry](n.Event)
		if err != nil {
			return err
		}
		s.line("! %s; retry %d of %d in %d ms", retry.Failure.Message, retry.Retry, retry.MaxRetries, retry.DelayMs)
	case sdkproto.TypeTurnEnd:
		end, err := payload[sdkproto.TurnEnd](n.Event)
		if err != nil {
			return err
		}
		if end.Reason.Error != nil {
			s.line("! %s (%s)", end.Reason.Error.Message, end.Reason.Error.Code)
		}
	}
	return nil
}

// quotedLines is how much of a tool's result a person is shown.
const quotedLines = 6

func (s *screen) quote(tool, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == quotedLines && len(lines) > quotedLines+1 {
			s.line("  %s | … %d more lines", tool, len(lines)-i)
			return
		}
		s.line("  %s | %s", tool, l)
	}
}

func payload[T any](e *sdkproto.Event) (v T, err error) {
	if err := wirejson.Unmarshal(e.Data, &v); err != nil {
		return v, fmt.Errorf("event %d (%s): %w", e.Seq, e.Type, err)
	}
	return v, nil
}
