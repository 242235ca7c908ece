package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/sdkproto"
	"dsh/sdkproto/client"
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
				return launch.Usage(fmt.Errorf("demo takes one prompt; put it in quotes"))
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
		"--set", `rpc.toolFilter={"allow":["read","glob","grep","todo_write"]}`,
	}
	out := commands.NewScreen(p.Pair.Out)
	out.Line("$ dsh %s", strings.Join(args[:2], " "))
	c, err := client.Start(ctx, client.Options{
		Command: self, Args: args, Stderr: p.Stderr,
		Initialize: sdkproto.InitializeParams{Provider: "scripted", Model: "scripted"},
	})
	if err != nil {
		return fmt.Errorf("start the harness: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	out.Line("%s %s answered initialize", c.Server.Name, c.Server.Version)

	session := c.Session("")
	out.Line("\n> %s", prompt)
	run, err := session.Run(ctx, sdkproto.Text(prompt))
	if err != nil {
		return fmt.Errorf("send the prompt: %w", err)
	}
	for n, err := range run.Events() {
		if err != nil {
			return fmt.Errorf("follow the turn: %w", err)
		}
		if n.Event == nil {
			continue
		}
		if err := out.Live(n.Event); err != nil {
			return err
		}
	}
	result, err := run.Result(ctx)
	if err != nil {
		return fmt.Errorf("finish the turn: %w", err)
	}
	out.Line("\nThe turn ended: %s. The scripted model counts %d tokens in and %d out.",
		result.FinishReason, result.Usage.InputTokens+result.Usage.CacheReadTokens, result.Usage.OutputTokens)
	out.Line("Every event is in %s", filepath.Join(home, "sessions.d", session.ID()+".jsonl"))
	return out.Err()
}

// demoHome is the data folder given, or a temporary one, which is kept for the
// log in it.
func (p *program) demoHome() (string, error) {
	env, _ := p.Env("DSH_HOME")
	if strings.TrimSpace(p.Flags.Home+env) != "" {
		return p.Home()
	}
	home, err := os.MkdirTemp("", "dsh-demo-")
	if err != nil {
		return "", fmt.Errorf("make a data folder: %w; set DSH_HOME or --home", err)
	}
	return home, nil
}
