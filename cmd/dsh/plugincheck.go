package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/external/conformance"
	"dsh/sdkproto/wirejson"
)

func (p *program) pluginCheck() *cobra.Command {
	var (
		config string
		calls  []string
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "check PROGRAM",
		Short: "Try whether a program keeps to the contract of plugins; exit 1 if it does not",
		Long: `check starts a program, in whatever language, and tries everything that it offers as
the harness would, and as nobody should: handshake and version, config, calls with good
and bad input, in Unicode, large, side by side, cancelled, and every way to end.

Tools that say they are read-only are called with arguments made up from their schemas;
others only with what is no argument at all, and with what --call says. A model is asked
one short question, which may cost something. A hook, section or command is used with
invented data.`,
		Example: `  dsh plugin check ./greeter
  dsh plugin check ./jira --config '{"project":"ABC"}' --call 'jira_get={"key":"ABC-1"}'`,
		Args: commands.Arguments(1, 1, "the path of one program, or the name of one in the folder plugins"),
		RunE: func(c *cobra.Command, args []string) error {
			o := conformance.Options{Config: []byte(config)}
			if !isObject(config) {
				return launch.Usage(fmt.Errorf("--config takes a JSON object, not %q", config))
			}
			for _, one := range calls {
				tool, arguments, ok := strings.Cut(one, "=")
				if !ok || tool == "" || !isObject(arguments) {
					return launch.Usage(errors.New("--call takes TOOL=JSON, where JSON is an object"))
				}
				o.Calls = append(o.Calls, conformance.Call{Tool: tool, Arguments: []byte(arguments)})
			}
			var err error
			if o.Path, err = p.pluginPath(args[0]); err != nil {
				return err
			}
			return p.checkPlugin(c.Context(), o, asJSON)
		},
	}
	c.Flags().StringVar(&config, "config", "{}", "the config to check with, a `JSON` object")
	c.Flags().StringArrayVar(&calls, "call", nil, "a call that must have a good result: `TOOL=JSON`; may be repeated")
	commands.JSONFlag(c, &asJSON)
	return c
}

func isObject(text string) bool {
	var object map[string]any
	return wirejson.Unmarshal([]byte(text), &object) == nil && object != nil
}

// pluginPath gives the absolute path of what a command line names: a path, or a
// name in the folder plugins.
func (p *program) pluginPath(name string) (string, error) {
	if name == filepath.Base(name) {
		home, _, err := p.dataFolder()
		if err != nil {
			return "", err
		}
		if installed := filepath.Join(home, "plugins", name); isFile(installed) {
			return installed, nil
		}
	}
	return filepath.Abs(name)
}

func (p *program) checkPlugin(ctx context.Context, o conformance.Options, asJSON bool) error {
	outcomes := []conformance.Outcome{}
	var printing error
	good := conformance.Run(ctx, o, func(one conformance.Outcome) {
		outcomes = append(outcomes, one)
		if asJSON || printing != nil {
			return
		}
		line := fmt.Sprintf("%-5s %s", one.Status, one.Name)
		if one.Reason != "" {
			line += ": " + launch.Indent(one.Reason)
		}
		printing = p.Printf("%s\n", launch.Plain(line))
	})
	if !good {
		p.Code = kernel.ExitFailure
	}
	if asJSON {
		return p.PrintJSON(outcomes)
	}
	return printing
}
