package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
	"dsh/plugins/headless"
	"dsh/sdkproto/wirejson"
)

// rowFlag is a flag that sets a key of the row of plugin headless.
type rowFlag struct{ name, key, usage string }

func rowFlags() []rowFlag {
	return []rowFlag{
		{"output", "output", "with -p: `text`, json or events"},
		{"provider", "provider", "with -p: provider `id` of the model, such as scripted"},
		{"model", "model", "with -p: model `id`"},
		{"effort", "reasoningEffort", "with -p: reasoning effort, a `word` of the provider's"},
		{"max-tokens", "maxTokens", "with -p: limit of one answer, in `tokens`"},
		{"session", "session", "with -p: `id` of the session to go on with, or to begin"},
		{"cwd", "cwd", "with -p: working `folder` (default: this one)"},
	}
}

func outputForms() []string {
	return []string{headless.OutputText, headless.OutputJSON, headless.OutputEvents}
}

const promptFlag = "prompt"

func addPromptFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringP(promptFlag, "p", "", "run this one `prompt` with profile headless and print the outcome; - reads it from standard input")
	for _, flag := range rowFlags() {
		f.String(flag.name, "", flag.usage)
	}
}

// openPrompt lets -p end the command line: then the prompt comes from standard
// input. Behind -- it is the argument of another program.
func openPrompt(args []string) []string {
	if n := len(args); n > 0 && !slices.Contains(args, "--") && (args[n-1] == "-p" || args[n-1] == "--"+promptFlag) {
		return append(slices.Clone(args), "-")
	}
	return args
}

// oneShot is what the command line says about a prompt.
type oneShot struct {
	// asked says that -p was given; prompt is its value.
	asked  bool
	prompt string
	// given are the flags of the row, with their values as text.
	given map[string]string
}

func readOneShot(c *cobra.Command) (o oneShot, err error) {
	f := c.Flags()
	o = oneShot{asked: f.Changed(promptFlag), given: map[string]string{}}
	if o.prompt, err = f.GetString(promptFlag); err != nil {
		return o, err
	}
	for _, flag := range rowFlags() {
		if f.Changed(flag.name) {
			if o.given[flag.name], err = f.GetString(flag.name); err != nil {
				return o, err
			}
		}
	}
	name, _, _ := strings.Cut(strings.TrimLeft(o.prompt, "-"), "=")
	form, formGiven := o.given["output"]
	limit, limitGiven := o.given["max-tokens"]
	n, notNumber := strconv.ParseInt(limit, 10, 64)
	switch {
	case o.asked && strings.TrimSpace(o.prompt) == "":
		return o, launch.Usage(fmt.Errorf("the prompt is empty; write -p TEXT, or -p - to read it from standard input"))
	case strings.HasPrefix(o.prompt, "--") && f.Lookup(name) != nil:
		return o, launch.Usage(fmt.Errorf("-p takes the prompt, and %q is a flag; write -p TEXT, or -p - to read it from standard input", o.prompt))
	case limitGiven && (notNumber != nil || n < 1):
		return o, launch.Usage(fmt.Errorf("--max-tokens %q is no number of tokens; use 1 or more", limit))
	case formGiven && !slices.Contains(outputForms(), form):
		return o, launch.Usage(fmt.Errorf("--output %q is no form of output; use %s%s", form, strings.Join(outputForms(), ", "), profile.DidYouMean(form, outputForms())))
	}
	return o, nil
}

// headlessRow finds the row that runs a prompt; "" when there is none.
func headlessRow(p *profile.Profile) string {
	for _, e := range p.Entries {
		if e.Enabled && e.Use == headless.Plugin.Name {
			return e.ID
		}
	}
	return ""
}

// sets gives the flags as overrides of the row.
func (o oneShot) sets(row string) []string {
	var sets []string
	for _, flag := range rowFlags() {
		value, ok := o.given[flag.name]
		if !ok {
			continue
		}
		if flag.name != "max-tokens" {
			value = string(wirejson.AppendString(nil, value))
		}
		sets = append(sets, row+"."+flag.key+"="+value)
	}
	return sets
}

// loadOneShot loads the profile with what the flags say about its row.
func (p *program) loadOneShot(o oneShot) (loaded *profile.Profile, row string, err error) {
	if loaded, err = p.LoadProfile(p.Flags.Profile); err != nil {
		return nil, "", err
	}
	row = headlessRow(loaded)
	switch {
	case row == "" && o.asked:
		return nil, "", launch.Usage(fmt.Errorf("profile %s has no row that uses headless, so it takes no -p; use profile headless, or one that extends it", loaded.Name))
	case row == "" && len(o.given) > 0:
		return nil, "", launch.Usage(fmt.Errorf("%s: only a row that uses headless takes this, and profile %s has none; use -p", strings.Join(o.names(), ", "), loaded.Name))
	case len(o.given) == 0:
		return loaded, row, nil
	}
	p.Flags.Sets = append(p.Flags.Sets, o.sets(row)...)
	loaded, err = p.LoadProfile(p.Flags.Profile)
	return loaded, row, err
}

func (o oneShot) names() []string {
	var names []string
	for _, flag := range rowFlags() {
		if _, ok := o.given[flag.name]; ok {
			names = append(names, "--"+flag.name)
		}
	}
	return names
}

// runOneShot runs a profile with a headless row. The prompt is the row's input.
func (p *program) runOneShot(ctx context.Context, o oneShot, opts kernel.Options) {
	switch {
	case o.asked && o.prompt != "-":
		opts.Stdio = &stdio.Pair{In: strings.NewReader(o.prompt), Out: p.Pair.Out}
	case p.Pair.Terminal():
		p.Say("type the prompt; the end of input (Ctrl-D) sends it")
	}
	// To end a server, SIGTERM and SIGHUP are the orderly way, with code 0 (spec
	// jsonrpc 1.7). A prompt that they cut short is not done.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	p.Code = kernel.Run(ctx, "dsh", p.Stderr, opts)
	if p.Code == kernel.ExitOK && len(ended) > 0 {
		p.Code = kernel.ExitFailure
	}
}
